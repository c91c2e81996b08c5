//! The proxy itself: it listens, decides on each request, and carries out those that are allowed.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use garret_core::{
    Error, ErrorKind, NetworkLog, NetworkRefusal, NetworkRequest, NetworkRules, PendingRequest, RequestedHost, Result,
    RuleMatch, RuleSource,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::authority::CertificateAuthority;
use crate::bodies::{PassingBody, text_body};
use crate::dialer::{DialFailure, HostDialer, NameResolver};
use crate::host_headers::HostHeader;
use crate::trust_roots::TrustRoots;
use crate::upstream_proxy::UpstreamProxies;

/// The most connections of commands at once.
const CONNECTIONS: usize = 512;
/// The most bytes of the head of a request.
const LONGEST_HEAD: usize = 64 * 1024;
/// The most characters of a method in the record.
const LONGEST_METHOD: usize = 20;

/// What a proxy needs to decide and to connect.
#[derive(Debug, Clone)]
pub struct ProxyOptions {
    /// The rules.
    pub rules: NetworkRules,
    /// Headers with secrets.
    pub headers: Vec<HostHeader>,
    /// The proxies of this machine.
    pub upstream: UpstreamProxies,
    /// Resolves names.
    pub resolver: Arc<dyn NameResolver>,
    /// The authorities that this machine trusts.
    pub roots: TrustRoots,
    /// The record of requests.
    pub log: Arc<NetworkLog>,
    /// The scope of the commands that send them.
    pub scope: String,
}

/// A proxy that is ready to run.
#[derive(Debug)]
pub struct NetworkProxy {
    pub(crate) rules: NetworkRules,
    pub(crate) headers: Vec<HostHeader>,
    pub(crate) dialer: HostDialer,
    pub(crate) log: Arc<NetworkLog>,
    scope: String,
    /// Signs certificates for the hosts with secrets; `None` if there are none.
    pub(crate) authority: Option<CertificateAuthority>,
    pub(crate) client_config: Option<Arc<ClientConfig>>,
    roots: TrustRoots,
}

/// A proxy that runs until this is dropped.
#[derive(Debug)]
pub struct RunningProxy {
    _stop: oneshot::Sender<()>,
}

/// A request that is allowed, as the log has it.
#[derive(Debug)]
pub(crate) struct AllowedRequest {
    pub(crate) host: RequestedHost,
    pub(crate) rule: RuleMatch,
    pub(crate) pending: PendingRequest,
}

impl NetworkProxy {
    /// Makes a proxy. Where headers with secrets are added, it has an authority of its own.
    pub fn new(options: ProxyOptions) -> Result<Self> {
        let has_secrets = !options.headers.is_empty();
        Ok(Self {
            authority: has_secrets.then(CertificateAuthority::generate).transpose()?,
            client_config: has_secrets.then(|| options.roots.client_config()),
            rules: options.rules,
            headers: options.headers,
            dialer: HostDialer {
                resolver: options.resolver,
                upstream: options.upstream,
            },
            log: options.log,
            scope: options.scope,
            roots: options.roots,
        })
    }

    /// Returns the certificate of its authority, if it has one.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.authority.as_ref().map(CertificateAuthority::certificate)
    }

    /// Returns the bundle of authorities for the programs that use the proxy, as PEM.
    pub fn trust_bundle(&self) -> String {
        self.roots.to_pem_with(self.certificate().as_ref())
    }

    /// Serves the listener on a thread of its own, so that background processes are served whatever the caller does.
    pub fn serve(self, listener: TcpListener) -> Result<RunningProxy> {
        let (stop, stopped) = oneshot::channel();
        let failed = |_: io::Error| {
            Error::new(ErrorKind::Unavailable, "the proxy for `network` cannot be started")
                .hint("check the limits on threads and open files")
        };
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = Arc::new(self).accept_all(listener) => {}
                }
            });
            // A name that is being resolved cannot be stopped, and must not hold up anything.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("garret-network".to_owned());
        thread.spawn(serve).map_err(failed)?;
        Ok(RunningProxy { _stop: stop })
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener) {
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
            return;
        };
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let place = room.clone().acquire_owned().await.expect("it is never closed");
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().serve_connection(stream, ConnectionPlace(Arc::new(place))));
                }
                // No open files are left, or the client is gone already.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream, place: ConnectionPlace) {
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let proxy = self.clone();
            // A tunnel goes on when this connection is no longer served, and keeps the place.
            request.extensions_mut().insert(place.clone());
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        });
        // An error is one of the client, who sees it himself.
        let _ = http_server()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<PassingBody> {
        if request.method() == Method::CONNECT {
            self.answer_connect(request).await
        } else if request.method() == Method::TRACE {
            // Its answer repeats the request, with the headers that the proxy adds.
            self.answer_malformed(&request, "TRACE is not passed on")
        } else {
            self.answer_forward(request).await
        }
    }

    /// Decides on a request, and adds it to the log.
    pub(crate) fn admit(
        &self,
        method: &Method,
        host: RequestedHost,
    ) -> std::result::Result<AllowedRequest, Box<Response<PassingBody>>> {
        let decided = self.rules.find_rule(&host);
        let (rule, reason) = match &decided {
            Ok(rule) => (rule.to_string(), None),
            Err(refusal) => (
                RuleSource::Allow.key().to_owned(),
                Some(refusal.describe(&host.to_string())),
            ),
        };
        let pending = self.log.begin_request(
            &self.scope,
            NetworkRequest {
                host: host.name.to_string(),
                port: host.port,
                method: shown_method(method),
                allowed: decided.is_ok(),
                rule,
                reason,
                bytes_up: 0,
                bytes_down: 0,
            },
        );
        match decided {
            Ok(rule) => Ok(AllowedRequest { host, rule, pending }),
            Err(refusal) => Err(Box::new(refusal_response(&refusal.describe(&host.to_string())))),
        }
    }

    /// Notes a request whose host cannot even be read, and answers it.
    pub(crate) fn answer_malformed(&self, request: &Request<Incoming>, what: &'static str) -> Response<PassingBody> {
        let shown: String = request
            .uri()
            .authority()
            // Without a name and a password before it.
            .map_or("?", |host| host.as_str().rsplit('@').next().unwrap_or("?"))
            .chars()
            .take(100)
            .collect();
        let reason = NetworkRefusal::Malformed(what).describe(&shown);
        self.log.begin_request(
            &self.scope,
            NetworkRequest {
                host: shown,
                port: request.uri().port_u16().unwrap_or_default(),
                method: shown_method(request.method()),
                allowed: false,
                rule: RuleSource::Allow.key().to_owned(),
                reason: Some(reason.clone()),
                bytes_up: 0,
                bytes_down: 0,
            },
        );
        plain_response(StatusCode::BAD_REQUEST, "Refused by Garret", &reason)
    }
}

/// A place among the connections at once. It is free when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionPlace(#[allow(dead_code, reason = "it is held, not used")] Arc<OwnedSemaphorePermit>);

/// Returns the server of connections from the sandbox: a client that sends no whole head in half a minute is let go.
pub(crate) fn http_server() -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).max_buf_size(LONGEST_HEAD);
    server
}

fn shown_method(method: &Method) -> String {
    method.as_str().chars().take(LONGEST_METHOD).collect()
}

impl AllowedRequest {
    /// Notes why the request goes no further.
    pub(crate) fn refuse(&self, refusal: &NetworkRefusal) -> Response<PassingBody> {
        let reason = refusal.describe(&self.host.to_string());
        self.pending.note_refusal(RuleSource::Allow.key(), reason.clone());
        refusal_response(&reason)
    }

    /// Notes that the host was not reached.
    pub(crate) fn fail(&self, failure: DialFailure) -> Response<PassingBody> {
        match failure {
            DialFailure::Refused(refusal) => self.refuse(&refusal),
            DialFailure::Unreachable(why) => {
                self.pending.note_failure(why.clone());
                plain_response(StatusCode::BAD_GATEWAY, "Bad Gateway", &why)
            }
        }
    }
}

/// Returns the answer to a refused request. Many programs show only the first line, so that names the setting.
fn refusal_response(reason: &str) -> Response<PassingBody> {
    let first_line = format!("Refused by Garret: {}", reason.replace('`', ""));
    plain_response(
        StatusCode::FORBIDDEN,
        &first_line,
        &format!("refused by `network.allow`: {reason}"),
    )
}

fn plain_response(status: StatusCode, first_line: &str, text: &str) -> Response<PassingBody> {
    let mut response = Response::new(text_body(format!("garret: {text}\n")));
    *response.status_mut() = status;
    if let Ok(phrase) = ReasonPhrase::try_from(first_line.to_owned()) {
        response.extensions_mut().insert(phrase);
    }
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
