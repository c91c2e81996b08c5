//! What is found out when a place is opened.

use garret_core::{Error, ErrorKind};
use garret_testkit::fixture::block_on;
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
