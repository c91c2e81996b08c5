//! The proxy through which the commands of a sandbox reach hosts by name.
//!
//! A sandbox with a named network has no way out but one port of its own loopback interface, on which this proxy
//! listens from outside. It takes HTTP requests and tunnels (CONNECT), resolves names itself, and connects to no
//! address that it has not checked. `garret_core::NetworkRules` decides; this crate carries out. It does not know
//! workspaces: [`FilteredSandbox`] puts it between a sandbox and the workspace.

mod authority;
mod bodies;
mod client_hello;
mod dialer;
mod filtered_sandbox;
mod forwarding;
mod host_headers;
mod proxy;
mod proxy_environment;
mod registries;
mod trust_roots;
mod tunnel;
mod upstream_proxy;

pub use dialer::{NameResolver, SystemResolver};
pub use filtered_sandbox::{FilteredSandbox, FindSettings, NetworkSettings};
pub use host_headers::HostHeader;
pub use proxy::{NetworkProxy, ProxyOptions, RunningProxy};
pub use registries::{RegistrySources, ReportedRegistries, UnreportedRegistry, find_registries, find_unreported};
pub use trust_roots::{TrustRoots, load_trust_roots};
pub use upstream_proxy::UpstreamProxies;
