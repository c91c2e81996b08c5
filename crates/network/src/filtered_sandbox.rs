//! Puts the proxy between a sandbox and what opens it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file writes the settings that programs in the sandbox read"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::{
    Error, ErrorKind, Guard, GuardStatus, Layer, MountAccess, NamedNetwork, NetworkLog, NetworkRules, OpenSandbox,
    Result, Sandbox, SandboxMount, SandboxRequest,
};
use tempfile::TempDir;

use crate::dialer::SystemResolver;
use crate::host_headers::HostHeader;
use crate::proxy::{NetworkProxy, ProxyOptions, RunningProxy};
use crate::proxy_environment::{BUNDLE_NAME, CARGO_TARGET, SETTINGS_TARGET, proxy_environment};
use crate::registries::ReportedRegistries;
use crate::trust_roots::load_trust_roots;
use crate::upstream_proxy::UpstreamProxies;

/// The port of the proxy. It is the first one in use in the sandbox, whose network is its own.
const PROXY_PORT: u16 = 3128;

/// The parts of this machine that a named network depends on. They are looked up when a sandbox is opened.
#[derive(Debug, Clone, Default)]
pub struct NetworkSettings {
    /// Headers with secrets.
    pub headers: Vec<HostHeader>,
    /// The proxies of this machine.
    pub upstream: UpstreamProxies,
    /// The package registries that this machine reports.
    pub registries: ReportedRegistries,
}

/// Looks up the settings of this machine.
pub type FindSettings = Arc<dyn Fn() -> Result<NetworkSettings> + Send + Sync>;

/// A sandbox whose commands reach hosts by name.
pub struct FilteredSandbox {
    sandbox: Arc<dyn Sandbox>,
    named: NamedNetwork,
    log: Arc<NetworkLog>,
    find_settings: FindSettings,
}

impl fmt::Debug for FilteredSandbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "FilteredSandbox({:?})", self.sandbox)
    }
}

impl FilteredSandbox {
    /// Lets the commands of `sandbox` reach the hosts of `named`, and records their requests in `log`.
    pub fn new(
        sandbox: Arc<dyn Sandbox>,
        named: NamedNetwork,
        log: Arc<NetworkLog>,
        find_settings: FindSettings,
    ) -> Self {
        Self {
            sandbox,
            named,
            log,
            find_settings,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Sandbox for FilteredSandbox {
    fn kind(&self) -> &'static str {
        self.sandbox.kind()
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        let mut found = self.sandbox.probe().await;
        for one in &mut found {
            if one.guard == Guard::Network && one.is_enforced {
                one.by.push_str("; a proxy allows hosts by name");
            }
        }
        found
    }

    async fn open(&self, mut request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        if self.sandbox.kind() == "host" {
            return Err(unfiltered_error());
        }
        let settings = (self.find_settings)()?;
        let proxy = NetworkProxy::new(ProxyOptions {
            rules: NetworkRules::new(&self.named, &settings.registries.hosts),
            headers: settings.headers,
            upstream: settings.upstream,
            resolver: Arc::new(SystemResolver),
            roots: load_trust_roots(),
            log: self.log.clone(),
            scope: request.scope.clone(),
        })?;
        let files = write_settings(&proxy, settings.registries.cargo_config.as_deref())?;
        request
            .mounts
            .push(mount(&files.path().join("settings"), SETTINGS_TARGET));
        request.environment.extend(proxy_environment(PROXY_PORT));
        if self.named.registries {
            if settings.registries.cargo_config.is_some() {
                request.mounts.push(mount(&files.path().join("cargo"), CARGO_TARGET));
            }
            request.environment.extend(settings.registries.variables);
        }
        let opened = self.sandbox.open(request).await?;
        let serving = async { proxy.serve(opened.listen_port(PROXY_PORT).await?) };
        match serving.await {
            Ok(running) => Ok(Arc::new(OpenFilteredSandbox {
                sandbox: opened,
                proxy: Mutex::new(Some((running, files))),
            })),
            Err(error) => {
                opened.close().await?;
                Err(error)
            }
        }
    }
}

/// An open sandbox with its proxy.
#[derive(Debug)]
struct OpenFilteredSandbox {
    sandbox: Arc<dyn OpenSandbox>,
    /// The proxy, and the files that the sandbox sees; `None` once it is closed.
    proxy: Mutex<Option<(RunningProxy, TempDir)>>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl OpenSandbox for OpenFilteredSandbox {
    fn guard_statuses(&self) -> &[GuardStatus] {
        self.sandbox.guard_statuses()
    }

    fn environment(&self) -> BTreeMap<String, String> {
        self.sandbox.environment()
    }

    fn workspace_path(&self) -> Option<&str> {
        self.sandbox.workspace_path()
    }

    async fn create_layer(&self) -> Result<Arc<dyn Layer>> {
        self.sandbox.create_layer().await
    }

    async fn create_layer_on(&self, generation: &str) -> Result<Arc<dyn Layer>> {
        self.sandbox.create_layer_on(generation).await
    }

    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        self.sandbox.leftover_layers().await
    }

    async fn listen_port(&self, port: u16) -> Result<TcpListener> {
        self.sandbox.listen_port(port).await
    }

    async fn connect_port(&self, port: u16) -> Result<TcpStream> {
        // The proxy serves the commands in the sandbox, and nobody outside.
        if port == PROXY_PORT {
            let message = format!("port {port} of the sandbox is that of the proxy to the network");
            return Err(Error::new(ErrorKind::Denied, message).hint("let the server listen on another port"));
        }
        self.sandbox.connect_port(port).await
    }

    async fn close(&self) -> Result<()> {
        let closed = self.sandbox.close().await;
        drop(self.proxy.lock().expect("no holder panics").take());
        closed
    }
}

fn mount(source: &Path, target: &str) -> SandboxMount {
    SandboxMount {
        source: source.to_owned(),
        target: Some(target.into()),
        access: MountAccess::Read,
    }
}

/// Writes the files that programs in the sandbox read: the bundle of authorities, and the settings of cargo.
fn write_settings(proxy: &NetworkProxy, cargo_config: Option<&str>) -> Result<TempDir> {
    let write = || {
        // The sources of mounts have no links in their paths.
        let temporary = tempfile::env::temp_dir().canonicalize()?;
        let directory = tempfile::Builder::new()
            .prefix("garret-network-")
            .tempdir_in(temporary)?;
        let root = directory.path();
        for (name, file, text) in [
            ("settings", BUNDLE_NAME, Some(proxy.trust_bundle())),
            ("cargo", "config.toml", cargo_config.map(str::to_owned)),
        ] {
            let Some(text) = text else { continue };
            std::fs::create_dir(root.join(name))?;
            std::fs::write(root.join(name).join(file), text)?;
            // Commands run as another user.
            std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(0o755))?;
            std::fs::set_permissions(root.join(name).join(file), PermissionsExt::from_mode(0o644))?;
        }
        Ok(directory)
    };
    write().map_err(|_: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            "the settings of the network for commands cannot be written",
        )
        .hint("check that the directory for temporary files can be written and has free space")
    })
}

fn unfiltered_error() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the sandbox `host` cannot limit the network of commands to hosts",
    )
    .hint("use the sandbox `namespace`, or set `network` to `none` or `full`")
}
