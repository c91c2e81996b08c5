//! The servers are what they are said to be, end with the process that started them, and the proxy spoils what it is told to.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts a process of its own, kills it, and looks what is left"
)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use garret_testkit::s3::{Boto, Fault, Keys, LIMITED_BUCKET, Permission, Proxy, Rule, Server};

/// Set in the process that is killed.
const ROLE: &str = "GARRET_TEST_SERVES";

fn through(proxy: &Proxy, server: &Server) -> Boto {
    Boto::new(&proxy.endpoint(), &server.keys(), server.bucket())
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, String>) -> String {
    outcome.expect_err("it is refused")
}

#[test]
fn seaweed_keeps_conditions_and_knows_who_asks() {
    let server = Server::shared_seaweed();
    let key = format!("{}/once", server.prefix());
    let mut boto = server.boto();
    assert_eq!(boto.create(&key, b"first"), Ok(()));
    assert!(refused(boto.create(&key, b"second")).starts_with("PreconditionFailed"));
    assert_eq!(boto.get(&key).body, b"first");
    drop(boto);
    let mut wrong = Boto::new(&server.endpoint(), &Keys::wrong(), server.bucket());
    assert!(refused(wrong.try_get(&key)).starts_with("SignatureDoesNotMatch"));
}

#[test]
fn each_limited_identity_lacks_what_it_is_named_after() {
    let server = Server::shared_seaweed();
    let prefix = server.prefix();
    let key = format!("{prefix}/k");
    Boto::new(&server.endpoint(), &server.keys(), LIMITED_BUCKET).put(&key, b"x", &[]);
    let may = |keys: &Keys| {
        let mut boto = Boto::new(&server.endpoint(), keys, LIMITED_BUCKET);
        let outcomes = [
            boto.try_get(&key).map(drop),
            boto.try_put(&key, b"x", &[]),
            boto.try_delete(&format!("{prefix}/none")),
            boto.try_keys(&prefix).map(drop),
        ];
        outcomes.map(|outcome| outcome.map_err(|failure| failure.starts_with("AccessDenied")))
    };
    assert_eq!(may(&Keys::limited()), [Ok(()); 4]);
    for (index, missing) in Permission::ALL.into_iter().enumerate() {
        let mut wanted = [Ok(()); 4];
        wanted[index] = Err(true);
        assert_eq!(may(&Keys::without(missing)), wanted, "without {missing:?}");
    }
    let mut elsewhere = Boto::new(&server.endpoint(), &Keys::limited(), server.bucket());
    assert!(refused(elsewhere.try_keys("")).starts_with("AccessDenied"));
}

#[test]
fn moto_keeps_conditions() {
    let server = Server::shared_moto();
    let mut boto = server.boto();
    assert_eq!(boto.create("once", b"first"), Ok(()));
    assert!(refused(boto.create("once", b"second")).starts_with("PreconditionFailed"));
}

#[test]
fn rclone_says_yes_and_ignores_the_condition() {
    let server = Server::rclone();
    let mut boto = server.boto();
    assert_eq!(boto.create("once", b"first"), Ok(()));
    assert_eq!(boto.create("once", b"second"), Ok(()));
    assert_eq!(boto.get("once").body, b"second");
}

#[test]
fn what_passes_the_proxy_is_counted_and_unchanged() {
    let server = Server::shared_moto();
    let proxy = Proxy::before(server);
    let mut boto = through(&proxy, server);
    let prefix = server.prefix();
    let body: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    boto.put(&format!("{prefix}/k"), &body, &[("colour", "blue")]);
    let found = boto.get(&format!("{prefix}/k"));
    assert_eq!((found.body, found.metadata["colour"].as_str()), (body, "blue"));
    assert_eq!(boto.keys(&prefix), [format!("{prefix}/k")]);
    boto.delete(&format!("{prefix}/k"));
    assert_eq!(proxy.operations(), ["PUT", "GET", "LIST", "DELETE"]);
    let [put, get, ..] = &proxy.seen()[..] else {
        panic!("four were asked")
    };
    assert_eq!((put.status, get.status, get.received), (Some(200), Some(200), 70_000));
    proxy.forget();
    assert_eq!(proxy.seen(), []);
}

/// What the client is told, and whether the server did the work.
#[test]
fn each_fault_does_what_it_says() {
    let server = Server::shared_moto();
    let body = vec![b'x'; 10_000];
    let cases = [
        (Fault::Delay(Duration::from_millis(1)), None, true),
        (Fault::slow_down(), Some("SlowDown"), false),
        (Fault::internal_error(), Some("InternalError"), false),
        (Fault::ResetRequest, Some("ConnectionClosedError"), false),
        (Fault::ResetResponse, Some("ConnectionClosedError"), true),
        (Fault::TruncateResponse, Some("ConnectionClosedError"), true),
        (Fault::LoseResponse, Some("ConnectionClosedError"), true),
    ];
    let proxy = Proxy::before(server);
    let mut boto = through(&proxy, server);
    for (fault, told, is_done) in cases {
        let key = format!("{}/k", server.prefix());
        let struck = proxy.add(Rule::new(fault.clone()).operation("PUT").target(&key).times(1));
        proxy.forget();
        let outcome = boto.try_put(&key, &body, &[]);
        match told {
            None => assert_eq!(outcome, Ok(()), "{fault:?}"),
            Some(told) => assert!(refused(outcome).starts_with(told), "{fault:?}"),
        }
        assert_eq!(server.boto().try_get(&key).is_ok(), is_done, "{fault:?}");
        assert_eq!((struck.struck(), proxy.seen()[0].fault.clone()), (1, Some(fault)));
        assert_eq!(boto.try_put(&key, &body, &[]), Ok(()), "it strikes once");
    }
}

#[test]
fn half_an_answer_is_half_an_answer() {
    let server = Server::shared_moto();
    let key = format!("{}/k", server.prefix());
    server.boto().put(&key, &[b'x'; 10_000], &[]);
    let proxy = Proxy::before(server);
    let mut boto = through(&proxy, server);
    for fault in [Fault::TruncateResponse, Fault::ResetResponse] {
        proxy.add(Rule::new(fault).operation("GET").times(1));
        let told = refused(boto.try_get(&key));
        assert!(told.contains("5000 bytes read") || told.contains("reset"), "{told}");
    }
}

#[test]
fn a_rule_skips_and_draws() {
    let server = Server::shared_moto();
    let proxy = Proxy::before(server);
    let prefix = server.prefix();
    let mut boto = through(&proxy, server);
    let mut outcomes = |count: usize| -> Vec<bool> {
        (0..count)
            .map(|_| boto.try_put(&format!("{prefix}/k"), b"x", &[]).is_ok())
            .collect()
    };
    proxy.add(Rule::new(Fault::slow_down()).skip(1).times(2));
    assert_eq!(outcomes(5), [true, false, false, true, true]);
    proxy.clear();
    let drawn = proxy.add(Rule::new(Fault::slow_down()).one_in(3, 7));
    let failed = outcomes(30).iter().filter(|is_ok| !**is_ok).count();
    assert_eq!(failed as u64, drawn.struck());
    assert!((3..20).contains(&failed), "{failed} of 30");
}

/// A client that gives up ends a stall; the server has done its work by then.
#[test]
fn a_stall_lasts_until_the_client_goes() {
    let server = Server::shared_moto();
    let proxy = Proxy::before(server);
    let struck = proxy.add(Rule::new(Fault::StallResponse));
    let address: SocketAddr = proxy
        .endpoint()
        .trim_start_matches("http://")
        .parse()
        .expect("an address");
    let mut client = TcpStream::connect(address).expect("the proxy listens");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it is sent");
    while proxy.seen().is_empty() {
        std::thread::yield_now();
    }
    client.set_nonblocking(true).expect("a socket");
    let nothing = client.peek(&mut [0]).expect_err("nothing comes");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!((struck.struck(), proxy.seen()[0].status), (1, Some(200)));
}

/// This test is two processes: one starts a server and waits, the other kills it and sees the server go.
#[test]
fn a_server_goes_with_its_process() {
    if std::env::var_os(ROLE).is_some() {
        let server = Server::rclone();
        println!("serves {}", server.address());
        return std::thread::sleep(Duration::from_secs(600));
    }
    let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
        .args(["--exact", "s3::a_server_goes_with_its_process", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut said = lines.map_while(Result::ok);
    let address: SocketAddr = said
        .find_map(|line| {
            line.split_once("serves ")
                .map(|(_, address)| address.parse().expect("an address"))
        })
        .expect("it says where it serves");
    TcpStream::connect(address).expect("it serves");
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    while TcpStream::connect(address).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
