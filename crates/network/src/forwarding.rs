//! Forwards HTTP requests: each is read in full form, written anew on a connection of its own, and so is its response.
//! Nothing that a client wrote reaches a host as bytes, so two programs cannot read one request differently.

use std::sync::Arc;

use garret_core::{HostName, NetworkRefusal, RequestedHost};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::bodies::{BodyDirection, CountedBody, MaskedBody, PassingBody};
use crate::dialer::{CheckedRoute, DialFailure};
use crate::host_headers::HostSecrets;
use crate::proxy::{AllowedRequest, NetworkProxy};

/// Headers that concern one connection only, and never pass.
const CONNECTION_HEADERS: [HeaderName; 10] = [
    header::CONNECTION,
    header::EXPECT,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];

impl NetworkProxy {
    /// Answers a request in the form for proxies: `GET http://example.org/`.
    pub(crate) async fn answer_forward(&self, request: Request<Incoming>) -> Response<PassingBody> {
        let uri = request.uri();
        let is_http = uri.scheme() == Some(&Scheme::HTTP);
        let host = uri
            .authority()
            .map(|authority| RequestedHost::parse(authority.as_str(), Some(80)));
        let host = match host {
            Some(Ok(host)) if is_http => host,
            Some(Ok(_)) => return self.answer_malformed(&request, "ask for `https` with CONNECT"),
            Some(Err(_)) => return self.answer_malformed(&request, "its host is not a name or an address"),
            None => return self.answer_malformed(&request, "it names no host in its first line"),
        };
        let allowed = match self.admit(request.method(), host) {
            Ok(allowed) => allowed,
            Err(refused) => return *refused,
        };
        let sent = self.forward(&allowed, request).await;
        sent.unwrap_or_else(|failure| allowed.fail(failure))
    }

    async fn forward(
        &self,
        allowed: &AllowedRequest,
        request: Request<Incoming>,
    ) -> Result<Response<PassingBody>, DialFailure> {
        let route = self.dialer.check_route(&allowed.host, &allowed.rule, false).await?;
        let mut outgoing = rewrite_request(request, allowed, 80);
        let stream = match &route {
            CheckedRoute::Direct(_) => self.dialer.connect(&route, &allowed.host).await?,
            CheckedRoute::Upstream(upstream) => {
                make_absolute(outgoing.uri_mut(), &allowed.host);
                if let Some(value) = upstream
                    .credentials()
                    .and_then(|value| HeaderValue::from_str(value).ok())
                {
                    outgoing.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
                }
                self.dialer.connect_to_upstream(upstream).await?
            }
        };
        let response = exchange(stream, outgoing).await?;
        Ok(rewrite_response(response, allowed))
    }

    /// Answers a request inside a TLS connection that ends in the proxy, with the secrets of its host.
    pub(crate) async fn answer_with_secrets(
        self: Arc<Self>,
        host: RequestedHost,
        request: Request<Incoming>,
        secrets: Arc<HostSecrets>,
    ) -> Response<PassingBody> {
        let allowed = match self.admit(request.method(), host) {
            Ok(allowed) => allowed,
            Err(refused) => return *refused,
        };
        let sent = self.forward_with_secrets(&allowed, request, &secrets).await;
        sent.unwrap_or_else(|failure| allowed.fail(failure))
    }

    async fn forward_with_secrets(
        &self,
        allowed: &AllowedRequest,
        request: Request<Incoming>,
        secrets: &HostSecrets,
    ) -> Result<Response<PassingBody>, DialFailure> {
        let route = self.dialer.check_route(&allowed.host, &allowed.rule, true).await?;
        let unreachable = |why: String| DialFailure::Unreachable(format!("{}: {why}", allowed.host));
        let server = match &allowed.host.name {
            HostName::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| unreachable(error.to_string()))?
            }
            HostName::Address(address) => ServerName::from(*address),
        };
        let config = self
            .client_config
            .clone()
            .expect("it was made for the headers with secrets");
        let stream = self.dialer.connect(&route, &allowed.host).await?;
        let stream = TlsConnector::from(config).connect(server, stream).await;
        let stream = stream.map_err(|error| unreachable(format!("TLS failed: {error}")))?;
        let mut outgoing = rewrite_request(request, allowed, 443);
        secrets.add_to_request(outgoing.headers_mut());
        let response = exchange(stream, outgoing).await?;
        if HostSecrets::is_encoded(response.headers()) {
            return Err(DialFailure::Refused(NetworkRefusal::EncodedResponse));
        }
        Ok(mask_response(response, allowed, secrets))
    }
}

/// Makes the request that goes to the host: its path, its own `Host`, and no header of the connection to the proxy.
fn rewrite_request(request: Request<Incoming>, allowed: &AllowedRequest, default_port: u16) -> Request<CountedBody> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
    parts.version = Version::HTTP_11;
    remove_connection_headers(&mut parts.headers);
    // The length is written anew from the body itself.
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::HOST);
    let host = if allowed.host.port == default_port {
        allowed.host.name.to_string()
    } else {
        allowed.host.to_string()
    };
    let host = HeaderValue::from_str(&host).expect("a parsed host is printable ASCII");
    parts.headers.insert(header::HOST, host);
    let counted = CountedBody {
        inner: body,
        pending: allowed.pending.clone(),
        direction: BodyDirection::Up,
    };
    Request::from_parts(parts, counted)
}

fn make_absolute(uri: &mut Uri, host: &RequestedHost) {
    let mut parts = std::mem::take(uri).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Authority::try_from(host.to_string()).ok();
    *uri = Uri::from_parts(parts).unwrap_or_default();
}

fn rewrite_response(response: Response<Incoming>, allowed: &AllowedRequest) -> Response<PassingBody> {
    let (parts, body) = response.into_parts();
    let counted = CountedBody {
        inner: body,
        pending: allowed.pending.clone(),
        direction: BodyDirection::Down,
    };
    let mut passing = Response::new(counted.boxed());
    *passing.status_mut() = parts.status;
    *passing.headers_mut() = parts.headers;
    remove_connection_headers(passing.headers_mut());
    passing
}

fn mask_response(
    response: Response<Incoming>,
    allowed: &AllowedRequest,
    secrets: &HostSecrets,
) -> Response<PassingBody> {
    let (parts, body) = response.into_parts();
    let counted = CountedBody {
        inner: body,
        pending: allowed.pending.clone(),
        direction: BodyDirection::Down,
    };
    let mut passing = Response::new(MaskedBody::new(counted, &secrets.secrets).boxed());
    *passing.status_mut() = parts.status;
    *passing.headers_mut() = parts.headers;
    remove_connection_headers(passing.headers_mut());
    secrets.mask_response(passing.headers_mut());
    passing
}

fn remove_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&CONNECTION_HEADERS) {
        headers.remove(name);
    }
}

/// Sends one request on a connection of its own, and returns the response.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<CountedBody>,
) -> Result<Response<Incoming>, DialFailure> {
    let failed = |error: hyper::Error| DialFailure::Unreachable(format!("the host gave no answer: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(failed)
}
