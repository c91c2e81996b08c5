//! Resolves names and connects, to addresses that a rule allows and to no others.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{AddressClass, HostName, NetworkRefusal, RequestedHost, RuleMatch};
use tokio::net::TcpStream;

use crate::upstream_proxy::{UpstreamProxies, UpstreamProxy};

/// The longest wait for a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Resolves names of hosts.
#[async_trait]
pub trait NameResolver: Send + Sync + fmt::Debug {
    /// Returns the addresses of a name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names as this machine does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl NameResolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The reason why no connection could be made.
#[derive(Debug)]
pub(crate) enum DialFailure {
    /// The addresses of the host are not allowed.
    Refused(NetworkRefusal),
    /// The host cannot be resolved or reached.
    Unreachable(String),
}

/// The way to a host: its addresses, all of them allowed, or the proxy of this machine.
#[derive(Debug)]
pub(crate) enum CheckedRoute {
    Direct(Vec<SocketAddr>),
    Upstream(UpstreamProxy),
}

/// Resolves names and connects.
#[derive(Debug, Clone)]
pub(crate) struct HostDialer {
    pub(crate) resolver: Arc<dyn NameResolver>,
    pub(crate) upstream: UpstreamProxies,
}

impl HostDialer {
    /// Returns the way to a host that `rule` allows. A name is resolved once, here: what is connected to later is what
    /// was checked, whatever the name means by then.
    ///
    /// If this machine itself uses a proxy for the host, that proxy resolves the name, and its address is not checked.
    pub(crate) async fn check_route(
        &self,
        host: &RequestedHost,
        rule: &RuleMatch,
        is_tls: bool,
    ) -> Result<CheckedRoute, DialFailure> {
        if let Some(upstream) = self.upstream.find_proxy(&host.name, is_tls) {
            return Ok(CheckedRoute::Upstream(upstream.clone()));
        }
        let addresses = match &host.name {
            HostName::Address(address) => vec![*address],
            HostName::Name(name) => {
                let resolved = tokio::time::timeout(CONNECT_TIMEOUT, self.resolver.resolve(name)).await;
                let failed = |why: String| DialFailure::Unreachable(format!("{name} cannot be resolved: {why}"));
                resolved
                    .map_err(|_| failed("no answer in time".to_owned()))?
                    .map_err(|error| failed(error.to_string()))?
            }
        };
        let mut refused = AddressClass::Reserved;
        let mut allowed = Vec::new();
        for address in addresses {
            match rule.check_address(address, is_own_address(address)) {
                Ok(()) => allowed.push(SocketAddr::new(address, host.port)),
                Err(class) => refused = class,
            }
        }
        if allowed.is_empty() {
            return Err(DialFailure::Refused(NetworkRefusal::Address(refused)));
        }
        Ok(CheckedRoute::Direct(allowed))
    }

    /// Connects to a host for a stream of bytes.
    pub(crate) async fn connect(&self, route: &CheckedRoute, host: &RequestedHost) -> Result<TcpStream, DialFailure> {
        match route {
            CheckedRoute::Direct(addresses) => connect_to_first(addresses, host).await,
            CheckedRoute::Upstream(upstream) => {
                let mut stream = self.connect_to_upstream(upstream).await?;
                upstream
                    .open_tunnel(&mut stream, host)
                    .await
                    .map_err(|error| DialFailure::Unreachable(format!("the proxy of this machine: {error}")))?;
                Ok(stream)
            }
        }
    }

    /// Connects to the proxy of this machine. It is configured outside, so its address may be private.
    pub(crate) async fn connect_to_upstream(&self, upstream: &UpstreamProxy) -> Result<TcpStream, DialFailure> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(upstream.address()));
        match connecting.await {
            Ok(Ok(stream)) => Ok(stream),
            _ => Err(DialFailure::Unreachable(
                "the proxy of this machine cannot be reached".to_owned(),
            )),
        }
    }
}

async fn connect_to_first(addresses: &[SocketAddr], host: &RequestedHost) -> Result<TcpStream, DialFailure> {
    let mut failure = "no answer in time".to_owned();
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error.to_string(),
            Err(_) => {}
        }
    }
    Err(DialFailure::Unreachable(format!("{host} cannot be reached: {failure}")))
}

/// Whether an address belongs to this machine, also where it is a public one: the kernel would send to it from itself.
/// No packet is sent.
fn is_own_address(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}
