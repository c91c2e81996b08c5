//! A proxy on a port of this machine, servers behind it, and clients that send bytes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{NamedNetwork, NetworkLog, NetworkRecord, NetworkRules, RequestedHost};
use garret_network::{HostHeader, NameResolver, NetworkProxy, ProxyOptions, RunningProxy, TrustRoots, UpstreamProxies};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// Resolves every name to the next of its addresses; the last one stays.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    pub(crate) answers: Mutex<Vec<Vec<IpAddr>>>,
    pub(crate) asked: AtomicUsize,
}

#[async_trait]
impl NameResolver for ScriptedResolver {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.first().cloned().unwrap_or_else(|| vec![[127, 0, 0, 1].into()]);
        if answers.len() > 1 {
            answers.remove(0);
        }
        Ok(answer)
    }
}

pub(crate) struct TestProxy {
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<NetworkLog>,
    pub(crate) resolver: Arc<ScriptedResolver>,
    pub(crate) certificate: Option<CertificateDer<'static>>,
    _running: RunningProxy,
}

#[derive(Default)]
pub(crate) struct ProxySetup {
    pub(crate) network: String,
    pub(crate) answers: Vec<Vec<IpAddr>>,
    pub(crate) headers: Vec<HostHeader>,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) upstream: BTreeMap<String, String>,
}

impl TestProxy {
    /// Starts a proxy for `{"allow": …}`; every name is this machine.
    pub(crate) fn start(network: impl Into<String>) -> Self {
        Self::start_with(ProxySetup {
            network: network.into(),
            ..ProxySetup::default()
        })
    }

    pub(crate) fn start_with(setup: ProxySetup) -> Self {
        let named: NamedNetwork = serde_json::from_str(&setup.network).unwrap();
        let resolver = Arc::new(ScriptedResolver {
            answers: Mutex::new(setup.answers),
            asked: AtomicUsize::new(0),
        });
        let log = Arc::new(NetworkLog::default());
        let proxy = NetworkProxy::new(ProxyOptions {
            rules: NetworkRules::new(&named, &[]),
            headers: setup.headers,
            upstream: UpstreamProxies::from_environment(&setup.upstream).unwrap(),
            resolver: resolver.clone(),
            roots: TrustRoots(setup.roots),
            log: log.clone(),
            scope: String::new(),
        })
        .unwrap();
        let certificate = proxy.certificate();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        Self {
            address,
            log,
            resolver,
            certificate,
            _running: proxy.serve(listener).unwrap(),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends the bytes, and returns everything that comes until the connection ends.
    pub(crate) fn send(&self, bytes: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        read_all(&mut stream)
    }

    /// Opens a tunnel, and returns the stream after the head of the answer, with the head.
    pub(crate) fn open_tunnel(&self, host: &str) -> (TcpStream, String) {
        let mut stream = self.connect();
        write!(stream, "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let head = read_head(&mut stream);
        (stream, head)
    }

    pub(crate) fn record(&self) -> NetworkRecord {
        self.log.record_since(0, |_| true)
    }
}

pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

pub(crate) fn read_all(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset has ended, too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A server that answers each connection with `answer`, and hands over what it was sent.
pub(crate) struct TestServer {
    pub(crate) port: u16,
    pub(crate) requests: mpsc::Receiver<String>,
}

impl TestServer {
    pub(crate) fn start(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Self::serve(move |mut stream, request| {
            stream
                .write_all(answer.replace("{request}", request).as_bytes())
                .unwrap();
        })
    }

    pub(crate) fn serve(answer: impl Fn(TcpStream, &str) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let request = read_request(&mut BufReader::new(&stream));
                let _ = sender.send(request.clone());
                answer(stream, &request);
            }
        });
        Self { port, requests }
    }

    pub(crate) fn host(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }
}

/// Reads a request with its body, of a length that it names or in pieces.
pub(crate) fn read_request(reader: &mut impl BufRead) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") && reader.read_line(&mut text).unwrap_or(0) > 0 {}
    let lower = text.to_lowercase();
    if lower.contains("transfer-encoding: chunked") {
        while !text.ends_with("0\r\n\r\n") && reader.read_line(&mut text).unwrap_or(0) > 0 {}
    } else if let Some((_, rest)) = lower.split_once("content-length: ") {
        let length: usize = rest.split("\r\n").next().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        text.push_str(&String::from_utf8_lossy(&body));
    }
    text
}

/// A TLS server for `name` that answers each connection by `answer`.
pub(crate) struct TlsServer {
    pub(crate) port: u16,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) requests: mpsc::Receiver<String>,
}

impl TlsServer {
    pub(crate) fn start(name: &str, answers: Vec<Vec<u8>>) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let certificate = certified.cert.der().clone();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).unwrap();
                let mut tls = StreamOwned::new(connection, stream.unwrap());
                let request = read_request(&mut BufReader::new(&mut tls));
                let _ = sender.send(request.clone());
                for piece in &answers {
                    let piece = String::from_utf8_lossy(piece).replace("{request}", &request);
                    let _ = tls.write_all(piece.as_bytes());
                    let _ = tls.flush();
                    thread::sleep(Duration::from_millis(30));
                }
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        });
        Self {
            port,
            certificate,
            requests,
        }
    }
}

/// Speaks TLS on a tunnel, as to the server `name`.
pub(crate) fn tls_client(
    stream: TcpStream,
    name: &str,
    trusted: &CertificateDer<'static>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

pub(crate) fn requested(host: &str) -> RequestedHost {
    RequestedHost::parse(host, None).unwrap()
}
