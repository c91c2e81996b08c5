//! HTTP requests through the proxy.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::support::{ProxySetup, TestProxy, TestServer};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

fn private(host: &str) -> String {
    format!(r#"{{"allow": [{{"host": "{host}", "private": true}}]}}"#)
}

#[test]
fn an_allowed_request_reaches_its_host_and_is_recorded() {
    let server = TestServer::start(OK);
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(private(&host));
    let answer = proxy.send(&format!(
        "POST http://{host}/path?q=1 HTTP/1.1\r\nHost: {host}\r\nX-Own: 1\r\nProxy-Authorization: Basic eA==\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nContent-Length: 4\r\n\r\nbody"
    ));
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"),
        "{answer}"
    );
    let request = server.requests.recv().unwrap();
    assert!(
        request.starts_with("POST /path?q=1 HTTP/1.1\r\n") && request.ends_with("body"),
        "{request}"
    );
    assert!(
        request.contains("x-own: 1") && request.contains(&format!("host: {host}")),
        "{request}"
    );
    assert!(
        !request.contains("proxy-authorization") && !request.contains("x-hop"),
        "{request}"
    );
    let record = proxy.record();
    let one = &record.requests[0];
    assert_eq!(
        (one.host.as_str(), one.port, one.method.as_str()),
        ("allowed.example", server.port, "POST")
    );
    assert_eq!((one.allowed, one.bytes_up, one.bytes_down), (true, 4, 5));
    assert_eq!(one.rule, format!("network.allow: {host}"));
}

#[test]
fn a_refused_request_ends_at_once_with_the_host_and_the_rule() {
    let proxy = TestProxy::start(r#"{"allow": ["allowed.example"]}"#);
    for request in [
        "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n",
    ] {
        let answer = proxy.send(request);
        assert!(
            answer.starts_with("HTTP/1.1 403 Refused by Garret: no rule in network.allow names other.example:"),
            "{answer}"
        );
        assert!(answer.contains("refused by `network.allow`: no rule"), "{answer}");
    }
    assert_eq!(proxy.resolver.asked.load(Ordering::SeqCst), 0);
    let record = proxy.record();
    assert_eq!((record.request_count, record.refused_count), (2, 2));
    assert_eq!(record.refused[0].rule, "network.allow");
    assert_eq!(record.refused[1].host, "other.example:443");
}

#[test]
fn a_name_that_leads_to_a_private_address_is_refused() {
    let server = TestServer::start(OK);
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "::ffff:127.0.0.1",
        "fd00::1",
    ] {
        let proxy = TestProxy::start_with(ProxySetup {
            network: format!(r#"{{"allow": ["{}"]}}"#, server.host("*.allowed.example")),
            answers: vec![vec![address.parse().unwrap()]],
            ..ProxySetup::default()
        });
        let host = server.host("rebound.allowed.example");
        let answer = proxy.send(&format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("private = true"),
            "{address}: {answer}"
        );
        let (_, head) = proxy.open_tunnel(&host);
        assert!(head.starts_with("HTTP/1.1 403 "), "{address}: {head}");
        assert_eq!(proxy.record().refused_count, 2);
    }
    assert!(server.requests.try_recv().is_err());
}

#[test]
fn a_name_is_resolved_once_and_the_checked_address_is_the_one_connected_to() {
    let server = TestServer::start(OK);
    // The first answer would be refused if it were asked for again at the time of the connection.
    let proxy = TestProxy::start_with(ProxySetup {
        network: private(&server.host("allowed.example")),
        answers: vec![vec!["127.0.0.1".parse().unwrap()], vec!["224.0.0.1".parse().unwrap()]],
        ..ProxySetup::default()
    });
    let host = server.host("allowed.example");
    let get = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert!(proxy.send(&get).starts_with("HTTP/1.1 200 "));
    assert_eq!(proxy.resolver.asked.load(Ordering::SeqCst), 1);
    assert!(proxy.send(&get).starts_with("HTTP/1.1 403 "));
}

#[test]
fn hosts_in_odd_forms_are_refused() {
    let proxy = TestProxy::start(r#"{"allow": ["*", "*:8080", "allowed.example:443"]}"#);
    for target in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://user:pass@10.0.0.1/",
        "http://allowed.example@10.0.0.1/",
        "https://allowed.example/",
        "ftp://allowed.example/",
        "/local",
        "http://localhost/",
    ] {
        let answer = proxy.send(&format!(
            "GET {target} HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 40"), "{target}: {answer}");
    }
    for target in [
        "127.0.0.1:443",
        "127.1:443",
        "0x7f.1:443",
        "[::1]:443",
        "allowed.example",
        "allowed.example:0",
        "allowed.example:25",
        "a@allowed.example:443",
    ] {
        let answer = proxy.send(&format!(
            "CONNECT {target} HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 40"), "{target}: {answer}");
    }
    assert!(proxy.record().requests.iter().all(|request| !request.allowed));
}

#[test]
fn a_host_header_that_differs_does_not_pass() {
    let server = TestServer::start(OK);
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(private(&host));
    proxy.send(&format!(
        "GET http://{host}/ HTTP/1.1\r\nHost: secret.internal\r\nConnection: close\r\n\r\n"
    ));
    let request = server.requests.recv().unwrap();
    assert!(
        request.contains(&format!("host: {host}")) && !request.contains("secret.internal"),
        "{request}"
    );
}

#[test]
fn a_request_hidden_in_another_never_reaches_the_host_as_one() {
    let server = TestServer::start(OK);
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(private(&host));
    let hidden = "GET http://evil.example/hidden HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let frames = [
        format!("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Content-Length: 0\r\nContent-Length: 9\r\n\r\n{hidden}"),
        format!("Content-Length: +0\r\n\r\n{hidden}"),
        format!("X: y\rz\r\nTransfer-Encoding : chunked\r\n\r\n{hidden}"),
        format!("Content-Length: 0\r\n\r\n{hidden}"),
    ];
    for frame in &frames {
        proxy.send(&format!("POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\n{frame}"));
    }
    let arrived: Vec<_> = server.requests.try_iter().collect();
    assert!(!arrived.is_empty(), "the last one is legal");
    for request in arrived {
        assert!(
            !request.contains("hidden") && request.starts_with("POST / HTTP/1.1"),
            "{request}"
        );
    }
    assert!(
        proxy
            .record()
            .requests
            .iter()
            .all(|request| request.allowed == (request.host == "allowed.example"))
    );
}

#[test]
fn a_redirect_is_a_request_of_its_own() {
    let server = TestServer::start(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(private(&host));
    let answer = proxy.send(&format!(
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 302 "), "{answer}");
    let followed = proxy.send("GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
    assert!(followed.starts_with("HTTP/1.1 403 "), "{followed}");
}

#[test]
fn the_proxy_of_the_machine_is_used() {
    let upstream = TestServer::start(OK);
    let proxy = TestProxy::start_with(ProxySetup {
        network: r#"{"allow": ["allowed.example"]}"#.to_owned(),
        upstream: BTreeMap::from([(
            "http_proxy".to_owned(),
            format!("http://u:p@127.0.0.1:{}", upstream.port),
        )]),
        ..ProxySetup::default()
    });
    let answer =
        proxy.send("GET http://allowed.example/x HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("hello"), "{answer}");
    let request = upstream.requests.recv().unwrap();
    assert!(
        request.starts_with("GET http://allowed.example:80/x HTTP/1.1")
            && request.contains("proxy-authorization: Basic"),
        "{request}"
    );
    assert_eq!(proxy.resolver.asked.load(Ordering::SeqCst), 0);
    assert!(
        proxy
            .send("GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n")
            .starts_with("HTTP/1.1 403 ")
    );
    assert!(upstream.requests.try_recv().is_err());
}

#[test]
fn a_host_that_cannot_be_reached_is_a_failure_and_not_a_refusal() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let host = format!("allowed.example:{port}");
    let proxy = TestProxy::start(private(&host));
    let answer = proxy.send(&format!(
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ));
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let record = proxy.record();
    assert_eq!(record.refused_count, 0);
    assert!(
        record.requests[0]
            .reason
            .as_ref()
            .unwrap()
            .contains("cannot be reached")
    );
}
