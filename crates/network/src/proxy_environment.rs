//! The variables by which programs find the proxy and the authorities to trust.

use std::collections::BTreeMap;

/// Where programs in the sandbox find the bundle of authorities.
pub(crate) const SETTINGS_TARGET: &str = "/garret-network";
/// Where cargo finds settings for every directory.
pub(crate) const CARGO_TARGET: &str = "/.cargo";
pub(crate) const BUNDLE_NAME: &str = "ca-bundle.pem";

/// Variables that name a proxy. Some programs read only the one case. npm, cargo and git read these, too.
const PROXY_VARIABLES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "npm_config_proxy",
    "npm_config_https_proxy",
];

/// Variables that name the bundle of authorities: OpenSSL, curl, Python's requests and pip, Node, git, cargo, and the
/// client of AWS.
const BUNDLE_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
];

/// Returns the variables of a command whose proxy listens on `port`.
pub(crate) fn proxy_environment(port: u16) -> BTreeMap<String, String> {
    let proxy = format!("http://127.0.0.1:{port}");
    let bundle = format!("{SETTINGS_TARGET}/{BUNDLE_NAME}");
    let proxies = PROXY_VARIABLES.map(|name| (name, proxy.clone()));
    let bundles = BUNDLE_VARIABLES.map(|name| (name, bundle.clone()));
    let exceptions = ["no_proxy", "NO_PROXY"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    // uv trusts only authorities of its own unless it is told to ask the system. Node (24 and newer) uses the proxy for
    // `fetch` only if it is told so. pip and cargo take a refusal for a lost connection, and would try it for ten seconds.
    let others = [
        ("UV_NATIVE_TLS", "true"),
        ("NODE_USE_ENV_PROXY", "1"),
        ("PIP_RETRIES", "1"),
        ("CARGO_NET_RETRY", "1"),
    ];
    let all = proxies
        .into_iter()
        .chain(bundles)
        .chain(exceptions)
        .chain(others.map(|(name, value)| (name, value.to_owned())));
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}
