//! What is found out when a place is opened.

use garret_core::{Error, ErrorKind};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{write, write_if};
use garret_testkit::s3::{Fault, Keys, Proxy, Rule, Server};

use crate::place::Place;

async fn refusal(place: &Place) -> Error {
    let error = place.try_open().await.expect_err("it cannot be opened");
    let shown = format!("{error:?} {error} {}", error.to_json());
    for secret in [&place.keys.access_key_id, &place.keys.secret_access_key] {
        assert!(!shown.contains(secret), "{shown} shows {secret}");
    }
    assert!(!error.hint_text().is_empty(), "{error:?}");
    error
}

#[test]
fn a_server_that_ignores_preconditions_serves_a_single_writer_only() {
    let server = Server::rclone();
    block_on(async {
        let place = Place::on(&server);
        let error = refusal(&place).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("precondition"), "{error}");
        assert!(error.hint_text().contains("writers"), "{error}");
        let alone = place.clone().with("writers", "single").open().await;
        alone.write("a/f", "mine").await;
        assert_eq!(alone.text("a/f").await, "mine");
        assert_eq!(alone.names_deep("").await, ["a", "a/f"]);
    });
}

#[test]
fn opening_leaves_nothing_behind() {
    let server = Server::shared_seaweed();
    let place = Place::on(server);
    block_on(async {
        let probe = place.open().await;
        assert_eq!(probe.names("").await, Vec::<String>::new());
    });
    assert_eq!(server.boto().keys(&place.prefix), Vec::<String>::new());
}

#[test]
fn a_wrong_secret_is_named_as_the_cause() {
    block_on(async {
        let mut place = Place::on(Server::shared_seaweed());
        place.keys = Keys::wrong();
        let error = refusal(&place).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains("secret"), "{error}");
    });
}

#[test]
fn an_unknown_key_is_named_as_the_cause() {
    block_on(async {
        let mut place = Place::on(Server::shared_seaweed());
        place.keys.access_key_id = "NOBODYSKEY".to_owned();
        let error = refusal(&place).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert!(error.to_string().contains("access key"), "{error}");
    });
}

#[test]
fn a_missing_bucket_is_named_as_the_cause() {
    block_on(async {
        let mut place = Place::on(Server::shared_seaweed());
        place.bucket = "garret-nowhere".to_owned();
        let error = refusal(&place).await;
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
        assert!(error.to_string().contains("bucket"), "{error}");
    });
}

#[test]
fn a_server_that_is_not_there_is_named_as_the_cause() {
    block_on(async {
        let mut place = Place::on(Server::shared_seaweed()).with("retry_backoff_ms", 1);
        // A port below those that anything is given: nobody listens.
        place.endpoint = "http://127.0.0.1:9".to_owned();
        let error = refusal(&place).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    });
}

#[test]
fn a_server_that_never_answers_is_a_timeout() {
    let server = Server::shared_moto();
    let proxy = Proxy::before(server);
    proxy.add(Rule::new(Fault::StallResponse));
    block_on(async {
        let place = Place::on(server).through(&proxy);
        let error = refusal(&place.with("request_timeout_ms", 100).with("max_retries", 1)).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(error.to_string().contains("100 ms"), "{error}");
    });
}

/// The probe is no weaker for a network that fails once.
#[test]
fn opening_survives_any_one_fault() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        for fault in [Fault::LoseResponse, Fault::TruncateResponse] {
            for skip in 0.. {
                let place = Place::on(server).through(&proxy);
                let struck = proxy.add(Rule::new(fault.clone()).skip(skip).times(1));
                let opened = place.try_open().await;
                proxy.clear();
                let told = format!("{fault:?} after {skip}: {:#?}", proxy.seen());
                assert!(opened.is_ok(), "{told}: {opened:?}");
                assert_eq!(server.boto().keys(&place.prefix), Vec::<String>::new(), "{told}");
                proxy.forget();
                if struck.struck() == 0 {
                    break;
                }
            }
        }
    });
}

/// A write whose own look meets another server: it is not sent before that server is probed.
#[test]
fn a_write_that_meets_another_server_waits_for_its_probe() {
    let (server, ignoring, keeping) = (Server::shared_seaweed(), Server::rclone(), Server::moto());
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server).through(&proxy);
        let probe = place.open().await;
        probe.write("f", "first").await;
        for other in [&ignoring, &keeping] {
            other.boto().put(&place.key("f"), b"theirs", &[]);
        }
        proxy.switch_to(&ignoring);
        proxy.forget();
        let error = probe
            .try_apply(write("f", "second"))
            .await
            .expect_err("it ignores preconditions");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        let key = place.key("f");
        let seen = proxy.seen();
        assert!(
            !seen
                .iter()
                .any(|seen| seen.operation == "PUT" && seen.target.ends_with(&key)),
            "{seen:#?}"
        );
        assert_eq!(ignoring.boto().get(&key).body, b"theirs");
        proxy.switch_to(&keeping);
        proxy.forget();
        probe.apply(write("f", "second")).await;
        let seen = proxy.seen();
        let first_write = seen
            .iter()
            .position(|seen| seen.operation == "PUT" && seen.target.ends_with(&key));
        let first_trial = seen
            .iter()
            .position(|seen| seen.operation == "PUT" && seen.target.contains("/probe/"));
        assert!(first_trial.is_some() && first_trial < first_write, "{seen:#?}");
        assert_eq!(keeping.boto().get(&key).body, b"second");
        // The version is known, so the write is the first request that the other server gets.
        let known = probe.unchanged("f").await;
        proxy.switch_to(&ignoring);
        let refused = probe.try_apply(write_if("f", "third", known)).await;
        let error = refused.expect_err("it ignores preconditions");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.to_string().contains("ignores preconditions"), "{error}");
    });
}

/// The connection breaks in the middle of a read, and a server that ignores `If-Match` sends the rest of another version.
#[test]
fn a_read_is_never_a_mix_of_two_versions() {
    let (server, ignoring) = (Server::shared_seaweed(), Server::rclone());
    let proxy = Proxy::before(server);
    // The pause before the rest is asked for is the time to exchange the server.
    let place = Place::on(server).through(&proxy).with("retry_backoff_ms", 1_000);
    let key = place.key("f");
    server.boto().put(&key, &[b'a'; 100_000], &[]);
    ignoring.boto().put(&key, &[b'b'; 100_000], &[]);
    let text = block_on(async {
        let probe = place.open().await;
        let struck = proxy.add(
            Rule::new(Fault::TruncateResponse)
                .operation("GET")
                .target(&key)
                .times(1),
        );
        let exchange = async {
            while struck.struck() == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            proxy.switch_to(&ignoring);
        };
        let (text, ()) = futures::join!(probe.text("f"), exchange);
        text
    });
    let is_whole = text.bytes().all(|byte| byte == b'a') || text.bytes().all(|byte| byte == b'b');
    assert!(is_whole && text.len() == 100_000, "{} bytes, a mix", text.len());
}
