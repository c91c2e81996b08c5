//! Only get, put, delete and list; and what is said where one of them is missing.

use garret_core::{Error, ErrorKind, Result};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append, copy, link, remove, remove_tree, rename, set_mode, write};
use garret_testkit::s3::{Keys, LIMITED_BUCKET, Permission, Server};
use garret_testkit::{Fixture, Probe, Tree, model};

use crate::place::Place;

fn limited(keys: Keys) -> Place {
    let place = Place::on(Server::shared_seaweed());
    Place {
        keys,
        bucket: LIMITED_BUCKET.to_owned(),
        ..place
    }
}

async fn everything(probe: &Probe) -> Result<Tree> {
    let mutations = vec![
        write("d/a", "one"),
        write("d/e/b", "two"),
        append("d/a", " and more"),
        set_mode("d/a", 0o755),
        copy("d/a", "copied"),
        link("linked", "copied"),
    ];
    probe.try_batch(mutations).await?;
    probe.try_read("linked").await?;
    probe.try_apply(rename("d", "moved")).await?;
    probe.try_apply(remove("linked")).await?;
    probe.try_apply(remove_tree("moved/e")).await?;
    Ok(probe.tree().await)
}

#[test]
fn get_put_delete_and_list_are_enough() {
    block_on(async {
        let probe = limited(Keys::limited()).open().await;
        let tree = everything(&probe).await.unwrap();
        assert_eq!(tree.keys().collect::<Vec<_>>(), ["copied", "moved", "moved/a"]);
        // In several parts.
        let large = vec![b'x'; 12 << 20];
        probe.write("large", large.clone()).await;
        assert_eq!(probe.read("large").await.bytes, large);
    });
}

async fn limited_fixture() -> Fixture {
    limited(Keys::limited()).fixture().await
}

#[test]
fn get_put_delete_and_list_do_what_the_model_does() {
    model::run(limited_fixture, 4, 8, true);
}

#[test]
fn a_missing_permission_is_named() {
    block_on(async {
        for missing in Permission::ALL {
            let place = limited(Keys::without(missing));
            let error = first_refusal(&place).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "without {missing:?}: {error:?}");
            assert!(
                error.message().contains(missing.action()),
                "without {missing:?}: {error:?}"
            );
            let shown = format!("{error:?}{error}");
            assert!(!shown.contains(&place.keys.secret_access_key), "{shown}");
        }
    });
}

async fn first_refusal(place: &Place) -> Error {
    let storage = match place.try_open().await {
        Ok(storage) => storage,
        Err(error) => return error,
    };
    everything(&Probe::new(storage, None))
        .await
        .expect_err("something is not allowed")
}

/// Another bucket is none of their business.
#[test]
fn nothing_is_allowed_elsewhere() {
    block_on(async {
        let place = Place {
            keys: Keys::limited(),
            ..Place::on(Server::shared_seaweed())
        };
        let error = place.try_open().await.expect_err("it is somebody else's");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    });
}
