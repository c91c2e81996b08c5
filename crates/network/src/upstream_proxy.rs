//! The proxy that this machine itself uses, as its environment names it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_core::{Error, ErrorKind, HostName, RequestedHost, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest head of an answer to CONNECT.
const LONGEST_HEAD: usize = 16 * 1024;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The proxies that this machine uses, by protocol, and the hosts for which it uses none.
#[derive(Debug, Clone, Default)]
pub struct UpstreamProxies {
    http: Option<UpstreamProxy>,
    https: Option<UpstreamProxy>,
    exceptions: Vec<String>,
}

/// One proxy.
#[derive(Clone)]
pub(crate) struct UpstreamProxy {
    host: RequestedHost,
    /// The value of `Proxy-Authorization`.
    credentials: Option<String>,
}

/// Without the credentials.
impl std::fmt::Debug for UpstreamProxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "UpstreamProxy({})", self.host)
    }
}

impl UpstreamProxies {
    /// Reads the variables `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in lower or upper case. A proxy that
    /// is not reached by plain HTTP is `unsupported`.
    pub fn from_environment(variables: &BTreeMap<String, String>) -> Result<Self> {
        let value = |name: &str| {
            let lower = variables.get(name);
            let found = lower.or_else(|| variables.get(&name.to_ascii_uppercase()));
            found.filter(|value| !value.is_empty())
        };
        let proxy = |name: &str| {
            let url = value(name).or_else(|| value("all_proxy"));
            url.map(|url| UpstreamProxy::parse(name, url)).transpose()
        };
        let exceptions = value("no_proxy").map_or("", String::as_str).split([',', ' ']);
        Ok(Self {
            http: proxy("http_proxy")?,
            https: proxy("https_proxy")?,
            exceptions: exceptions
                .map(|one| {
                    one.trim()
                        .trim_start_matches("*.")
                        .trim_start_matches('.')
                        .to_ascii_lowercase()
                })
                .filter(|one| !one.is_empty())
                .collect(),
        })
    }

    /// Returns the proxy for requests to a host.
    pub(crate) fn find_proxy(&self, host: &HostName, is_tls: bool) -> Option<&UpstreamProxy> {
        let proxy = if is_tls { &self.https } else { &self.http };
        let is_local = |address: &std::net::IpAddr| address.is_loopback();
        let is_here = host.is_localhost() || matches!(host, HostName::Address(address) if is_local(address));
        proxy.as_ref().filter(|_| !is_here && !self.is_exception(host))
    }

    fn is_exception(&self, host: &HostName) -> bool {
        let name = match host {
            HostName::Name(name) => name.clone(),
            HostName::Address(address) => address.to_string(),
        };
        self.exceptions.iter().any(|exception| {
            let is_below = || {
                name.strip_suffix(exception.as_str())
                    .is_some_and(|rest| rest.ends_with('.'))
            };
            exception == "*" || *exception == name || is_below()
        })
    }
}

impl UpstreamProxy {
    fn parse(variable: &str, url: &str) -> Result<Self> {
        let rest = match url.split_once("://") {
            None => url,
            Some(("http", rest)) => rest,
            // The URL is not shown: it may have a password.
            Some(_) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("`{variable}` names a proxy that is not reached by plain HTTP"),
                )
                .hint("set it to an URL that begins with `http://`, or unset it"));
            }
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (credentials, authority) = match rest.rsplit_once('@') {
            Some((credentials, authority)) => (Some(credentials), authority),
            None => (None, rest),
        };
        let host = RequestedHost::parse(authority, Some(80))
            .map_err(|_| Error::invalid(format!("`{variable}` names no proxy")).hint("write `http://HOST:PORT`"))?;
        Ok(Self {
            host,
            credentials: credentials.map(|plain| format!("Basic {}", STANDARD.encode(decode_percent(plain)))),
        })
    }

    /// Returns its host and port, to connect to.
    pub(crate) fn address(&self) -> (String, u16) {
        let host = match &self.host.name {
            HostName::Name(name) => name.clone(),
            HostName::Address(address) => address.to_string(),
        };
        (host, self.host.port)
    }

    /// Returns the value of `Proxy-Authorization`.
    pub(crate) fn credentials(&self) -> Option<&str> {
        self.credentials.as_deref()
    }

    /// Asks the proxy for a tunnel on a new connection.
    pub(crate) async fn open_tunnel(&self, stream: &mut TcpStream, host: &RequestedHost) -> io::Result<()> {
        let authorization = match &self.credentials {
            Some(value) => format!("Proxy-Authorization: {value}\r\n"),
            None => String::new(),
        };
        let request = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = tokio::time::timeout(ANSWER_TIMEOUT, read_head(stream));
        let head = head.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') {
            Ok(())
        } else {
            Err(io::Error::other(format!("it refused the tunnel with status {status}")))
        }
    }
}

/// Reads the head of an answer, byte by byte: what follows belongs to the tunnel.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return Err(io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn decode_percent(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(pairs: &[(&str, &str)]) -> Result<UpstreamProxies> {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        UpstreamProxies::from_environment(&owned.collect())
    }

    fn found(proxies: &UpstreamProxies, host: &str, is_tls: bool) -> Option<(String, u16)> {
        let host = HostName::parse(host).unwrap();
        proxies.find_proxy(&host, is_tls).map(UpstreamProxy::address)
    }

    #[test]
    fn the_proxies_of_the_environment_are_used_but_for_its_exceptions() {
        let both = proxies(&[
            ("HTTPS_PROXY", "http://user:p%40ss@proxy.example:3128/"),
            ("http_proxy", "plain.example:8080"),
            ("no_proxy", "localhost, .internal.example,10.0.0.7"),
        ])
        .unwrap();
        assert_eq!(
            found(&both, "example.org", true),
            Some(("proxy.example".to_owned(), 3128))
        );
        assert_eq!(
            found(&both, "example.org", false),
            Some(("plain.example".to_owned(), 8080))
        );
        for host in [
            "a.internal.example",
            "internal.example",
            "10.0.0.7",
            "127.0.0.1",
            "localhost",
        ] {
            assert_eq!(found(&both, host, true), None, "{host}");
        }
        assert!(found(&both, "notinternal.example", true).is_some());
        let credentials = both.https.as_ref().unwrap().credentials().unwrap();
        assert_eq!(credentials, format!("Basic {}", STANDARD.encode("user:p@ss")));
        assert!(!format!("{both:?}").contains("Basic"));
        assert_eq!(found(&proxies(&[]).unwrap(), "example.org", true), None);
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_an_error_without_its_password() {
        let error = proxies(&[("all_proxy", "socks5://user:hunter2@proxy.example")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
