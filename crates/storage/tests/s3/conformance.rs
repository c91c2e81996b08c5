//! The contract, the model and the published cases, on each server that can carry them.

use garret_testkit::fixture::block_on;
use garret_testkit::s3::Server;
use garret_testkit::{Fixture, model, vectors};

use crate::place::Place;

async fn on_seaweed() -> Fixture {
    Place::on(Server::shared_seaweed()).fixture().await
}

async fn on_moto() -> Fixture {
    Place::on(Server::shared_moto()).fixture().await.far()
}

async fn far_on_seaweed() -> Fixture {
    on_seaweed().await.far()
}

mod seaweed {
    use super::far_on_seaweed;

    garret_testkit::conformance_tests!(far_on_seaweed);

    /// With all their files.
    mod cases {
        use super::super::on_seaweed;

        garret_testkit::case_tests!(on_seaweed);
    }
}

mod moto {
    use super::on_moto;

    garret_testkit::conformance_tests!(on_moto);
}

#[test]
fn seaweed_does_what_the_model_does() {
    model::run(on_seaweed, 10, 12, false);
}

#[test]
fn seaweed_does_what_the_model_does_with_links() {
    model::run(on_seaweed, 10, 12, true);
}

#[test]
fn moto_does_what_the_model_does_with_links() {
    model::run(on_moto, 4, 8, true);
}

#[test]
fn every_spelling_that_stays_inside_names_its_file() {
    block_on(async {
        let place = Place::on(Server::shared_seaweed());
        let probe = place.open().await;
        for (spelling, path) in vectors::paths().inside.iter().filter(|(_, path)| !path.is_empty()) {
            probe.write(spelling, spelling.clone()).await;
            assert_eq!(probe.text(path).await, *spelling);
            let key = place.key(path);
            assert_eq!(Server::shared_seaweed().boto().keys(&key), [key], "{spelling}");
            probe.apply(garret_testkit::mutations::remove(path)).await;
        }
    });
}
