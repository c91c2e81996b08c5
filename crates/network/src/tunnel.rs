//! Tunnels: CONNECT to a host, and TLS through it to just that host.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use garret_core::{NetworkRefusal, NetworkRules, PendingRequest, RequestedHost};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

use crate::bodies::{PassingBody, text_body};
use crate::client_hello::{TunnelStart, read_tunnel_start};
use crate::host_headers::HostSecrets;
use crate::proxy::{AllowedRequest, ConnectionPlace, NetworkProxy, http_server};

/// What ends a TLS connection at its beginning: a fatal alert, `access_denied`.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
/// The longest time for the beginning of TLS.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(30);
/// The longest time without a byte in a tunnel of which one side has ended. The other side may never end.
const HALF_CLOSED_WAIT: Duration = Duration::from_secs(60);

impl NetworkProxy {
    /// Answers CONNECT. The host is connected to before the answer, so that the client learns at once what fails.
    pub(crate) async fn answer_connect(self: Arc<Self>, request: Request<Incoming>) -> Response<PassingBody> {
        let authority = request
            .uri()
            .authority()
            .map(|authority| RequestedHost::parse(authority.as_str(), None));
        let Some(Ok(host)) = authority else {
            return self.answer_malformed(&request, "CONNECT takes `HOST:PORT`");
        };
        if let Some(secrets) = HostSecrets::for_host(&self.headers, &host) {
            tokio::spawn(self.end_tls_here(host, request, Arc::new(secrets)));
            return Response::new(text_body(String::new()));
        }
        let allowed = match self.admit(request.method(), host) {
            Ok(allowed) => allowed,
            Err(refused) => return *refused,
        };
        let dialing = async {
            let route = self.dialer.check_route(&allowed.host, &allowed.rule, true).await?;
            self.dialer.connect(&route, &allowed.host).await
        };
        match dialing.await {
            Ok(server) => {
                tokio::spawn(carry_tunnel(allowed, request, server));
                Response::new(text_body(String::new()))
            }
            Err(failure) => allowed.fail(failure),
        }
    }

    /// Takes a TLS connection in place of its host, and answers the requests in it.
    async fn end_tls_here(self: Arc<Self>, host: RequestedHost, request: Request<Incoming>, secrets: Arc<HostSecrets>) {
        let method = request.method().clone();
        let _place = request.extensions().get::<ConnectionPlace>().cloned();
        let Ok(client) = hyper::upgrade::on(request).await else {
            return;
        };
        let accepting = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), TokioIo::new(client));
        tokio::pin!(accepting);
        let Ok(Ok(start)) = tokio::time::timeout(HANDSHAKE_WAIT, accepting.as_mut()).await else {
            if let Some(mut client) = accepting.take_io() {
                let _ = client.write_all(&ACCESS_DENIED).await;
            }
            if let Ok(allowed) = self.admit(&method, host) {
                allowed.refuse(&NetworkRefusal::PlainTunnel);
            }
            return;
        };
        let named = start.client_hello().server_name().map(str::to_owned);
        if let Err(refusal) = NetworkRules::check_server_name(&host.name, named.as_deref()) {
            if let Ok(allowed) = self.admit(&method, host) {
                allowed.refuse(&refusal);
            }
            return;
        }
        let authority = self
            .authority
            .as_ref()
            .expect("it was made for the headers with secrets");
        let Ok(config) = authority.server_config(&host.name) else {
            return;
        };
        let Ok(Ok(client)) = tokio::time::timeout(HANDSHAKE_WAIT, start.into_stream(config)).await else {
            return;
        };
        let service = service_fn(move |request: Request<Incoming>| {
            let (proxy, host, secrets) = (self.clone(), host.clone(), secrets.clone());
            async move {
                Ok::<_, Infallible>(if request.method() == Method::TRACE {
                    proxy.answer_malformed(&request, "TRACE is not passed on")
                } else {
                    proxy.answer_with_secrets(host, request, secrets).await
                })
            }
        });
        // An error is one of the client, who sees it himself.
        let _ = http_server().serve_connection(TokioIo::new(client), service).await;
    }
}

/// Carries the bytes of a tunnel, once its beginning is found to be TLS to the host of the tunnel.
async fn carry_tunnel(allowed: AllowedRequest, request: Request<Incoming>, server: TcpStream) {
    let _place = request.extensions().get::<ConnectionPlace>().cloned();
    let Ok(client) = hyper::upgrade::on(request).await else {
        return;
    };
    let mut client = TokioIo::new(client);
    let start = if allowed.rule.rule.is_plain {
        Ok(Vec::new())
    } else {
        let checked = tokio::time::timeout(HANDSHAKE_WAIT, check_start(&allowed, &mut client)).await;
        checked.unwrap_or(Err(None))
    };
    match start {
        Ok(start) => {
            // An error is the end of one side, which the other side sees.
            let _ = relay(client, server, &start, &allowed.pending, HALF_CLOSED_WAIT).await;
        }
        Err(Some(refusal)) => {
            allowed.refuse(&refusal);
            let _ = client.write_all(&ACCESS_DENIED).await;
            let _ = client.shutdown().await;
        }
        Err(None) => {}
    }
}

/// Returns the first bytes of an allowed tunnel; a refusal, or nothing if the client left.
async fn check_start(
    allowed: &AllowedRequest,
    client: &mut TokioIo<Upgraded>,
) -> Result<Vec<u8>, Option<NetworkRefusal>> {
    match read_tunnel_start(client).await {
        Ok(TunnelStart::Tls { server_name, bytes }) => {
            NetworkRules::check_server_name(&allowed.host.name, server_name.as_deref())?;
            Ok(bytes)
        }
        Ok(TunnelStart::Other) => Err(Some(NetworkRefusal::PlainTunnel)),
        Err(_) => Err(None),
    }
}

/// The progress of both directions of a tunnel.
#[derive(Debug, Default)]
struct TunnelProgress {
    has_end: AtomicBool,
    reads: AtomicU64,
}

impl TunnelProgress {
    /// Waits until one direction has ended and the other has moved nothing for a time.
    async fn wait_until_idle(&self, time: Duration) {
        let mut reads_before = None;
        loop {
            tokio::time::sleep(time).await;
            let reads = self
                .has_end
                .load(Ordering::Relaxed)
                .then(|| self.reads.load(Ordering::Relaxed));
            if reads.is_some() && reads == reads_before {
                return;
            }
            reads_before = reads;
        }
    }
}

/// Copies bytes in both directions until both have ended, or one has and the other moves nothing for `half_closed_wait`.
async fn relay(
    client: impl AsyncRead + AsyncWrite,
    mut server: TcpStream,
    start: &[u8],
    pending: &PendingRequest,
    half_closed_wait: Duration,
) -> io::Result<()> {
    let _ = server.set_nodelay(true);
    pending.count_up(start.len());
    server.write_all(start).await?;
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = server.split();
    let progress = TunnelProgress::default();
    let up = copy_counted(from_client, to_server, &progress, |bytes| pending.count_up(bytes));
    let down = copy_counted(from_server, to_client, &progress, |bytes| pending.count_down(bytes));
    tokio::select! {
        ended = async { tokio::try_join!(up, down) } => ended.map(|_| ()),
        () = progress.wait_until_idle(half_closed_wait) => Ok(()),
    }
}

async fn copy_counted(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    progress: &TunnelProgress,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            progress.has_end.store(true, Ordering::Relaxed);
            return to.shutdown().await;
        }
        progress.reads.fetch_add(1, Ordering::Relaxed);
        count(read);
        to.write_all(&buffer[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use garret_core::{NetworkLog, NetworkRequest};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    /// Relays between a client that sent all it has to say and the server `serve`.
    async fn relay_half_closed<F: Future<Output = ()> + Send + 'static>(
        serve: impl FnOnce(TcpStream) -> F,
    ) -> (String, io::Result<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tokio::spawn(serve(listener.accept().await.unwrap().0));
        let (mut own, client) = tokio::io::duplex(64);
        own.shutdown().await.unwrap();
        let pending = NetworkLog::default().begin_request(
            "",
            NetworkRequest {
                host: "example.org".to_owned(),
                port: 443,
                method: "CONNECT".to_owned(),
                allowed: true,
                rule: String::new(),
                reason: None,
                bytes_up: 0,
                bytes_down: 0,
            },
        );
        let mut heard = String::new();
        let (ended, _) = tokio::join!(
            timeout(Duration::from_secs(20), relay(client, server, b"", &pending, WAIT)),
            own.read_to_string(&mut heard)
        );
        (heard, ended.expect("the tunnel ends"))
    }

    #[tokio::test]
    async fn a_tunnel_with_one_end_and_no_bytes_is_closed() {
        let (heard, ended) = relay_half_closed(|server| async move {
            let _open = server;
            std::future::pending::<()>().await;
        })
        .await;
        assert!(heard.is_empty() && ended.is_ok());
    }

    #[tokio::test]
    async fn a_tunnel_with_one_end_lasts_as_long_as_bytes_come() {
        let (heard, _) = relay_half_closed(|mut server| async move {
            for _ in 0..10 {
                tokio::time::sleep(WAIT / 2).await;
                server.write_all(b"x").await.unwrap();
            }
        })
        .await;
        assert_eq!(heard, "xxxxxxxxxx");
    }
}
