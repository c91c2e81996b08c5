//! Secrets that the proxy adds to requests, and servers that show them.

use std::io::Write;

use garret_network::HostHeader;

use crate::support::{ProxySetup, TestProxy, TlsServer, read_all, requested, tls_client};

const SECRET: &str = "tok-12345-abcdef";

/// Sends a request through a proxy that adds the secret, to a server that answers so; returns both.
fn exchange(answers: &[&str], request: &str) -> (String, String, TestProxy) {
    let server = TlsServer::start(
        "localhost",
        answers.iter().map(|piece| piece.as_bytes().to_vec()).collect(),
    );
    let host = format!("localhost:{}", server.port);
    let header = HostHeader::new(requested(&host), "authorization", "Bearer ", SECRET).unwrap();
    let proxy = TestProxy::start_with(ProxySetup {
        network: format!(r#"{{"secrets": [{{"host": "{host}", "value": "env:T"}}]}}"#),
        headers: vec![header],
        roots: vec![server.certificate.clone()],
        ..ProxySetup::default()
    });
    let (stream, head) = proxy.open_tunnel(&host);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut tls = tls_client(stream, "localhost", proxy.certificate.as_ref().unwrap());
    tls.write_all(request.as_bytes()).unwrap();
    let answer = read_all(&mut tls);
    let request = server.requests.try_recv().unwrap_or_default();
    (answer, request, proxy)
}

#[test]
fn the_host_gets_the_secret_and_the_sandbox_never_sees_it() {
    let (answer, request, proxy) = exchange(
        &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"],
        "GET /x HTTP/1.1\r\nHost: other.internal\r\nAuthorization: mine\r\nRange: bytes=1-2\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
    );
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("hello"),
        "{answer}"
    );
    assert!(
        request.contains(&format!("authorization: Bearer {SECRET}")),
        "{request}"
    );
    for absent in ["mine", "range", "gzip", "other.internal"] {
        assert!(!request.contains(absent), "{request}");
    }
    let record = proxy.record();
    assert_eq!(
        (record.requests[0].method.as_str(), record.requests[0].bytes_down),
        ("GET", 5)
    );
    assert!(record.requests[0].rule.starts_with("network.secrets: localhost:"));
    assert!(!format!("{record:?}").contains(SECRET));
}

#[test]
fn a_server_that_shows_the_secret_shows_its_mask() {
    let (first, second) = SECRET.split_at(7);
    let echoes: [&[&str]; 4] = [
        &["HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{request}"],
        &[
            "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Echo: Bearer tok-12345-abcdef\r\nX-tok-12345-abcdef: 1\r\n\r\nhello",
        ],
        &[
            "HTTP/1.1 200 tok-12345-abcdef\r\nConnection: close\r\n\r\nx=",
            first,
            second,
            "\r\n",
        ],
        &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n7\r\ntok-123\r\n9\r\n45-abcdef\r\n0\r\nX-T: tok-12345-abcdef\r\n\r\n",
        ],
    ];
    for answers in echoes {
        let (answer, request, _) = exchange(
            answers,
            "GET / HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: close\r\n\r\n",
        );
        assert!(request.contains(SECRET), "{request}");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.contains("12345") && !answer.contains("abcdef"), "{answer}");
    }
}

#[test]
fn an_encoded_response_of_a_host_with_a_secret_is_refused() {
    for encoding in ["Content-Encoding: gzip", "Transfer-Encoding: gzip, chunked"] {
        let (answer, _, proxy) = exchange(
            &[&format!(
                "HTTP/1.1 200 OK\r\n{encoding}\r\nConnection: close\r\n\r\n4\r\nxxxx\r\n0\r\n\r\n"
            )],
            "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        assert!(answer.starts_with("HTTP/1.1 403 "), "{encoding}: {answer}");
        assert!(proxy.record().refused[0].reason.contains("encoded"));
    }
}

#[test]
fn a_secret_never_goes_to_a_server_that_the_machine_does_not_trust() {
    let server = TlsServer::start("localhost", vec![b"HTTP/1.1 200 OK\r\n\r\n".to_vec()]);
    let host = format!("localhost:{}", server.port);
    let header = HostHeader::new(requested(&host), "authorization", "", SECRET).unwrap();
    let proxy = TestProxy::start_with(ProxySetup {
        network: format!(r#"{{"secrets": [{{"host": "{host}", "value": "env:T"}}]}}"#),
        headers: vec![header],
        ..ProxySetup::default()
    });
    let (stream, _) = proxy.open_tunnel(&host);
    let mut tls = tls_client(stream, "localhost", proxy.certificate.as_ref().unwrap());
    tls.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert!(read_all(&mut tls).starts_with("HTTP/1.1 502 "));
    assert!(!matches!(server.requests.try_recv(), Ok(request) if request.contains(SECRET)));
}
