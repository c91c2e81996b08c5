//! Files that come in parts: in bounded memory, whole or not at all.

use std::io::{Error as IoError, Read};

use garret_core::{Content, ContentSource, ErrorKind, Mutation, Result};
use garret_testkit::Probe;
use garret_testkit::fixture::block_on;
use garret_testkit::limited::{Noise, is_limited_with, write_and_read};
use garret_testkit::mutations::{copy, path, rename};
use garret_testkit::s3::{Fault, Proxy, Rule, Server};

use crate::place::Place;

const MEBIBYTE: u64 = 1024 * 1024;
const PLACE: &str = "GARRET_TEST_LARGE";

/// More than the process may hold.
#[test]
fn a_large_file_takes_little_memory() {
    let limit = 192;
    let place = || {
        let place = Place::on(Server::shared_seaweed());
        format!("{} {}", place.endpoint, place.prefix)
    };
    let name = "large::a_large_file_takes_little_memory";
    if !is_limited_with(name, limit, &[(PLACE, &place)]) {
        return;
    }
    let given = std::env::var(PLACE).unwrap();
    let (endpoint, prefix) = given.split_once(' ').unwrap();
    let place = Place::elsewhere(endpoint, prefix);
    block_on(async {
        let probe = place.open().await;
        write_and_read(&**probe.storage(), (limit + 8) * MEBIBYTE).await;
    });
}

/// A source that breaks off.
#[derive(Debug)]
struct Broken;

impl ContentSource for Broken {
    fn size(&self) -> u64 {
        24 * MEBIBYTE
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let whole = Noise(13 * MEBIBYTE).open()?;
        Ok(Box::new(whole.chain(Failing)))
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(IoError::other("the source breaks off"))
    }
}

async fn nothing_is_left(probe: &Probe, server: &Server, place: &Place) {
    assert_eq!(probe.names("").await, Vec::<String>::new());
    let mut boto = server.boto();
    assert_eq!(boto.keys(&place.prefix), Vec::<String>::new());
    assert_eq!(
        boto.uploads(&place.prefix),
        Vec::<String>::new(),
        "the upload was aborted"
    );
}

#[test]
fn a_source_that_breaks_off_leaves_no_upload() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server);
        let probe = place.through(&proxy).open().await;
        let write = Mutation::write(path("large"), Content::from_source(Broken));
        probe.try_apply(write).await.expect_err("the source fails");
        let begun = proxy.seen().iter().any(|seen| seen.target.contains("uploads"));
        assert!(begun, "it comes in parts: {:?}", proxy.operations());
        nothing_is_left(&probe, server, &place).await;
    });
}

#[test]
fn a_part_that_cannot_be_sent_leaves_no_upload() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server);
        let probe = place.through(&proxy).with("max_retries", 2).open().await;
        let struck = proxy.add(Rule::new(Fault::slow_down()).target("partNumber=2"));
        let write = Mutation::write(path("large"), Content::from_source(Noise(24 * MEBIBYTE)));
        let error = probe.try_apply(write).await.expect_err("a part fails");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(struck.struck() > 1);
        nothing_is_left(&probe, server, &place).await;
    });
}

/// Each kind of request of an upload fails once; the file is whole.
#[test]
fn an_upload_rides_out_one_fault_of_each_kind() {
    let server = Server::shared_seaweed();
    let size = 20 * MEBIBYTE;
    let mut expected = Vec::new();
    Noise(size).open().unwrap().read_to_end(&mut expected).unwrap();
    block_on(async {
        for fault in [Fault::LoseResponse, Fault::ResetRequest, Fault::internal_error()] {
            for target in ["uploads", "partNumber=2", "uploadId"] {
                let proxy = Proxy::before(server);
                let place = Place::on(server);
                let probe = place.through(&proxy).open().await;
                let rule = Rule::new(fault.clone()).target(target).times(1);
                let rule = if target == "partNumber=2" {
                    rule
                } else {
                    rule.operation("POST")
                };
                let struck = proxy.add(rule);
                let write = Mutation::write(path("large"), Content::from_source(Noise(size)));
                let outcome = probe.try_apply(write).await;
                assert!(outcome.is_ok(), "{fault:?} {target}: {outcome:?} {:#?}", proxy.seen());
                assert_eq!(struck.struck(), 1, "{target}");
                assert!(
                    probe.read("large").await.bytes == expected,
                    "{fault:?} {target}: it is whole"
                );
            }
        }
    });
}

#[test]
fn a_large_file_is_copied_and_moved_on_the_server() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let probe = Place::on(server).through(&proxy).open().await;
        let size = 20 * MEBIBYTE;
        let write = Mutation::write(path("large"), Content::from_source(Noise(size)));
        probe.apply(write).await;
        proxy.forget();
        probe.apply(copy("large", "copy")).await;
        probe.apply(rename("large", "moved")).await;
        let moved: usize = proxy.seen().iter().map(|seen| seen.sent + seen.received).sum();
        assert!(moved < 100_000, "{moved} bytes went over the network");
        assert_eq!(
            (probe.stat("copy").await.size, probe.stat("moved").await.size),
            (size, size)
        );
        assert!(probe.read("copy").await.bytes == probe.read("moved").await.bytes);
    });
}
