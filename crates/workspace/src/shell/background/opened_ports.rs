//! Ports of background processes that programs outside can reach: a listener on this machine, and the copying of each
//! connection to the port inside. All of it ends with the process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, NetworkChoice, OpenSandbox, Result, shared_network_error};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::shell::command_access::CommandAccess;
use crate::{OpenedPort, PortAnswer, Workspace};

/// The number of ports that are tried, beginning with the requested one, before the system chooses one.
const TRIED_PORTS: usize = 100;
/// The most connections of one port at once; more wait until one ends.
const MOST_CONNECTIONS: usize = 256;
/// The time between two looks whether a process listens.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// The most open ports of one process.
const MOST_PORTS: usize = 16;

/// A request to open a port of a background process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRequest {
    /// The process. The port closes when it ends.
    pub id: String,
    /// The port on which it listens, or will listen.
    pub port: u16,
    /// The address at which the port is to listen; `None` for that of the policy.
    pub bind: Option<IpAddr>,
    /// The longest wait for the process to listen. The port is opened even if it does not.
    pub wait: Duration,
}

impl Workspace {
    /// Opens a port of a background process to programs outside: on the same port if it is free, and else on the next
    /// free one. A port that is open already stays as it is.
    ///
    /// `denied` if the policy allows no ports, or not this address; `unsupported` if commands have no network of their
    /// own; `not_found` if the process has ended.
    pub async fn open_port(&self, request: PortRequest) -> Result<PortAnswer> {
        let work = async {
            let commands = self.commands()?;
            let address = commands.decide_port_address(request.bind)?;
            if request.port == 0 {
                return Err(Error::invalid("0 is no port").hint("name the port on which the process listens"));
            }
            let process = commands.shell.processes.find_process(&self.files.view, &request.id)?;
            let opened = process.ports.open(&request.id, address, request.port).await?;
            let waiting = process.ports.wait_for_listener(request.port);
            let is_ready = tokio::time::timeout(request.wait, waiting).await;
            Ok(PortAnswer {
                opened,
                ready: is_ready.unwrap_or(false),
            })
        };
        self.run_observed("port", None, |_| 0, work).await
    }

    /// Checks whether a port could be opened on an address, before there is a process.
    pub fn check_ports(&self, bind: Option<IpAddr>) -> Result<()> {
        self.commands()?.decide_port_address(bind).map(drop)
    }
}

impl CommandAccess {
    fn decide_port_address(&self, bind: Option<IpAddr>) -> Result<IpAddr> {
        let policy = self.shell.rules.policy();
        let is_scope = self.files.view.layers.len() > 1;
        let address = policy.ports.decide_address(is_scope, bind)?;
        if policy.network == NetworkChoice::Full || self.shell.is_on_host() {
            return Err(shared_network_error());
        }
        Ok(address)
    }
}

/// The open ports of one process.
#[derive(Debug)]
pub(super) struct OpenedPorts {
    sandbox: Weak<dyn OpenSandbox>,
    table: Mutex<PortTable>,
}

#[derive(Debug, Default)]
struct PortTable {
    /// Whether the process has ended, so that no further port is opened.
    is_closed: bool,
    forwards: Vec<PortForward>,
}

/// An open port, and the task that accepts its connections.
#[derive(Debug)]
struct PortForward {
    opened: OpenedPort,
    bound: IpAddr,
    task: JoinHandle<()>,
}

impl OpenedPorts {
    pub(super) fn new(sandbox: &Arc<dyn OpenSandbox>) -> Self {
        Self {
            sandbox: Arc::downgrade(sandbox),
            table: Mutex::default(),
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, PortTable> {
        self.table.lock().expect("no holder panics")
    }

    /// Opens a port of the process `id` on the address `bind`.
    pub(super) async fn open(&self, id: &str, bind: IpAddr, port: u16) -> Result<OpenedPort> {
        let is_same = |one: &&PortForward| one.opened.port == port && one.bound == bind;
        if let Some(found) = self.lock_table().forwards.iter().find(is_same) {
            return Ok(found.opened.clone());
        }
        let listener = bind_near(bind, port).await?;
        let address = listener
            .local_addr()
            .map_err(|error| unusable_address_error(bind, &error))?;
        let mut table = self.lock_table();
        // Another call may have opened it meanwhile.
        if let Some(found) = table.forwards.iter().find(is_same) {
            return Ok(found.opened.clone());
        }
        if table.forwards.len() >= MOST_PORTS {
            return Err(too_many_ports_error());
        }
        if table.is_closed {
            return Err(
                Error::new(ErrorKind::NotFound, format!("the process {} has ended", quote(id)))
                    .hint("`output` shows how it ended"),
            );
        }
        let opened = OpenedPort {
            process: id.to_owned(),
            port,
            address: address.to_string(),
            url: format!("http://{}", local_address(address)),
        };
        table.forwards.push(PortForward {
            opened: opened.clone(),
            bound: bind,
            task: tokio::spawn(forward_connections(listener, self.sandbox.clone(), port)),
        });
        Ok(opened)
    }

    pub(super) fn list(&self) -> Vec<OpenedPort> {
        self.lock_table()
            .forwards
            .iter()
            .map(|one| one.opened.clone())
            .collect()
    }

    /// Waits until a process in the sandbox listens on the port; returns `false` if the ports are closed before.
    pub(super) async fn wait_for_listener(&self, port: u16) -> bool {
        while !self.lock_table().is_closed
            && let Some(sandbox) = self.sandbox.upgrade()
        {
            if sandbox.connect_port(port).await.is_ok() {
                return true;
            }
            drop(sandbox);
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        false
    }

    /// Closes every port with its connections, for good. Returns the tasks that are ending.
    fn begin_close(&self) -> Vec<JoinHandle<()>> {
        let mut table = self.lock_table();
        table.is_closed = true;
        let tasks: Vec<_> = table.forwards.drain(..).map(|one| one.task).collect();
        tasks.iter().for_each(JoinHandle::abort);
        tasks
    }
}

/// Closes the ports of a process when it is dropped.
#[derive(Debug)]
pub(super) struct PortCloser(pub(super) Arc<OpenedPorts>);

impl PortCloser {
    /// Closes every port with its connections, and waits until none is left.
    pub(super) async fn close(self) {
        for task in self.0.begin_close() {
            // It was aborted, so its result is an error.
            let _ = task.await;
        }
    }
}

impl Drop for PortCloser {
    fn drop(&mut self) {
        self.0.begin_close();
    }
}

/// Listens on `port`, or on the next port that is free.
async fn bind_near(bind: IpAddr, port: u16) -> Result<TcpListener> {
    // The system chooses a port for 0.
    for candidate in (port..=u16::MAX).take(TRIED_PORTS).chain([0]) {
        match TcpListener::bind(SocketAddr::new(bind, candidate)).await {
            Ok(listener) => return Ok(listener),
            // The second kind is for a port below 1024, where Garret is not root.
            Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) => {}
            Err(error) => return Err(unusable_address_error(bind, &error)),
        }
    }
    Err(unusable_address_error(bind, &io::ErrorKind::AddrInUse.into()))
}

fn too_many_ports_error() -> Error {
    Error::new(
        ErrorKind::QuotaExceeded,
        format!("{MOST_PORTS} ports of this process are open, which is the limit"),
    )
    .hint("end the process with `kill` to close its ports")
}

fn unusable_address_error(bind: IpAddr, error: &io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address",
        io::ErrorKind::AddrInUse => "every port is in use",
        _ => "the system refuses it",
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("no port can be opened on {bind}: {reason}"),
    )
    .hint("choose an address of this machine, such as 127.0.0.1")
}

/// Returns the address by which a program of this machine reaches a listener at `address`.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn forward_connections(listener: TcpListener, sandbox: Weak<dyn OpenSandbox>, port: u16) {
    // Dropped with this task, which ends every connection.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((outside, _)) => drop(connections.spawn(forward_connection(outside, sandbox.clone(), port))),
            // Too many files are open, for instance. The next attempt may succeed.
            Err(_) => tokio::time::sleep(BETWEEN_LOOKS).await,
        }
    }
}

/// Copies both directions of one connection until both have ended. If nobody listens inside, the connection is closed.
async fn forward_connection(mut outside: TcpStream, sandbox: Weak<dyn OpenSandbox>, port: u16) {
    let Some(sandbox) = sandbox.upgrade() else { return };
    let connected = sandbox.connect_port(port).await;
    drop(sandbox);
    if let Ok(inside) = connected
        && let Ok(mut inside) = TcpStream::from_std(inside)
    {
        // An error is the end of the connection, which both sides see.
        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
    }
}
