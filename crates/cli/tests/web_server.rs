//! A web server on the loopback interface. It takes TLS and plain HTTP on one port, as the client begins.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]
#![allow(clippy::disallowed_methods, reason = "a test serves the network")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::CertifiedKey;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The first byte of a TLS connection.
const HANDSHAKE: u8 = 22;
/// The time between two pieces of an answer, so that the client gets each by itself.
const BETWEEN_PIECES: Duration = Duration::from_millis(30);

/// A server that answers every request by a function.
pub struct WebServer {
    pub port: u16,
    /// The certificate of the server, as PEM. A client that trusts it takes the server for `localhost`.
    pub certificate: String,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct WebRequest {
    pub is_tls: bool,
    /// The name by which a TLS client called the server.
    pub server_name: Option<String>,
    /// The first line and the headers.
    pub head: String,
}

impl WebRequest {
    /// Returns the path and query of the request.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the value of a header; the empty text if there is none.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        values.next().map_or("", |(_, value)| value)
    }
}

/// Returns a whole answer with a text.
pub fn ok(text: &str) -> Vec<u8> {
    let length = text.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}").into_bytes()
}

impl WebServer {
    /// Starts a server whose answers are the pieces that `answer` returns, sent one by one.
    pub fn start(answer: impl Fn(&WebRequest) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::start_on([127, 0, 0, 1].into(), answer)
    }

    /// Starts a server on an address of this machine.
    pub fn start_on(address: IpAddr, answer: impl Fn(&WebRequest) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let config = server_config(&certified);
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (config, seen, answer) = (config.clone(), seen.clone(), answer.clone());
                thread::spawn(move || serve_connection(stream, config, &seen, &*answer));
            }
        });
        Self {
            port,
            certificate: to_pem(certified.cert.der()),
            requests,
        }
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<WebRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn to_pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n")
}

fn server_config(certified: &CertifiedKey<rcgen::KeyPair>) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key);
    Arc::new(config.unwrap())
}

type AnswerRequest = dyn Fn(&WebRequest) -> Vec<Vec<u8>> + Send + Sync;

fn serve_connection(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
    seen: &Mutex<Vec<WebRequest>>,
    answer: &AnswerRequest,
) {
    let mut first = [0];
    if stream.peek(&mut first).unwrap_or(0) == 0 {
        return;
    }
    if first[0] != HANDSHAKE {
        answer_request(&mut stream, |_| (false, None), seen, answer);
        return;
    }
    let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let name = |tls: &StreamOwned<ServerConnection, TcpStream>| (true, tls.conn.server_name().map(str::to_owned));
    answer_request(&mut tls, name, seen, answer);
    tls.conn.send_close_notify();
    let _ = tls.flush();
}

fn answer_request<S: Read + Write>(
    stream: &mut S,
    describe: impl Fn(&S) -> (bool, Option<String>),
    seen: &Mutex<Vec<WebRequest>>,
    answer: &AnswerRequest,
) {
    let head = read_head(stream);
    if head.is_empty() {
        return;
    }
    let (is_tls, server_name) = describe(stream);
    let request = WebRequest {
        is_tls,
        server_name,
        head,
    };
    seen.lock().unwrap().push(request.clone());
    for piece in answer(&request) {
        // A client that has heard enough may be gone.
        let _ = stream.write_all(&piece).and_then(|()| stream.flush());
        thread::sleep(BETWEEN_PIECES);
    }
}

fn read_head(stream: &mut impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && reader.read_until(b'\n', &mut head).unwrap_or(0) > 0 {}
    String::from_utf8_lossy(&head).into_owned()
}
