//! Tunnels through the proxy.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use crate::support::{ProxySetup, TestProxy, TestServer, TlsServer, read_all, tls_client};

fn private(host: &str) -> String {
    format!(r#"{{"allow": [{{"host": "{host}", "private": true}}]}}"#)
}

#[test]
fn tls_to_the_host_of_the_tunnel_passes_untouched() {
    let server = TlsServer::start("allowed.example", vec![b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()]);
    let host = format!("allowed.example:{}", server.port);
    let proxy = TestProxy::start(private(&host));
    let (stream, head) = proxy.open_tunnel(&host);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut tls = tls_client(stream, "allowed.example", &server.certificate);
    tls.write_all(b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n")
        .unwrap();
    assert!(read_all(&mut tls).ends_with("hello"));
    let record = proxy.record();
    let one = &record.requests[0];
    assert_eq!((one.method.as_str(), one.allowed), ("CONNECT", true));
    assert!(one.bytes_up > 100 && one.bytes_down > 100, "{one:?}");
}

#[test]
fn tls_to_another_server_than_that_of_the_tunnel_is_refused() {
    let server = TlsServer::start("evil.example", Vec::new());
    let host = format!("allowed.example:{}", server.port);
    let proxy = TestProxy::start(private(&host));
    let (stream, head) = proxy.open_tunnel(&host);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut tls = tls_client(stream, "evil.example", &server.certificate);
    let error = tls
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .and_then(|()| tls.flush())
        .and_then(|()| tls.read(&mut [0; 9]))
        .unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    // The server sees a connection at most, and no byte on it.
    assert!(server.requests.try_recv().unwrap_or_default().is_empty());
    let record = proxy.record();
    assert!(
        record.refused[0]
            .reason
            .contains("names another server (`evil.example`)"),
        "{record:?}"
    );
}

#[test]
fn a_tunnel_that_is_not_tls_is_refused_unless_a_rule_says_so() {
    let server = TestServer::start("HTTP/1.1 200 OK\r\n\r\nhello");
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(private(&host));
    let (mut stream, head) = proxy.open_tunnel(&host);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: internal\r\n\r\n").unwrap();
    assert!(!read_all(&mut stream).contains("hello"));
    assert!(!matches!(server.requests.try_recv(), Ok(request) if request.contains("GET")));
    assert!(proxy.record().refused[0].reason.contains("plain = true"));

    let server = TestServer::start("HTTP/1.1 200 OK\r\n\r\nhello");
    let host = server.host("allowed.example");
    let proxy = TestProxy::start(format!(
        r#"{{"allow": [{{"host": "{host}", "private": true, "plain": true}}]}}"#
    ));
    let (mut stream, _) = proxy.open_tunnel(&host);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: internal\r\n\r\n").unwrap();
    assert!(read_all(&mut stream).ends_with("hello"));
    assert!(proxy.record().requests[0].allowed);
}

#[test]
fn a_tunnel_goes_through_the_proxy_of_the_machine() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.1 200 "),
        ("HTTP/1.1 407 Who are you\r\n\r\n", "HTTP/1.1 502 "),
    ] {
        let upstream = TestServer::start(answer);
        let proxy = TestProxy::start_with(ProxySetup {
            network: r#"{"allow": [{"host": "allowed.example:443", "plain": true}]}"#.to_owned(),
            upstream: BTreeMap::from([(
                "https_proxy".to_owned(),
                format!("http://u:p@127.0.0.1:{}", upstream.port),
            )]),
            ..ProxySetup::default()
        });
        let (mut stream, head) = proxy.open_tunnel("allowed.example:443");
        assert!(head.starts_with(expected), "{head}");
        let request = upstream.requests.recv().unwrap();
        assert!(request.starts_with("CONNECT allowed.example:443 HTTP/1.1"), "{request}");
        assert!(
            request.to_lowercase().contains("proxy-authorization: basic"),
            "{request}"
        );
        assert_eq!(read_all(&mut stream).ends_with("hello"), expected.contains("200"));
    }
}

#[test]
fn a_proxy_ends_with_its_handle() {
    let proxy = TestProxy::start(r#"{"allow": ["allowed.example"]}"#);
    let address = proxy.address;
    assert!(
        proxy
            .send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            .starts_with("HTTP/1.1 400 ")
    );
    drop(proxy);
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::yield_now();
    }
}
