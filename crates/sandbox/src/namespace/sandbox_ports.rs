//! The ports of the sandbox's own network, as Garret listens on them and connects to them.

#![cfg(target_os = "linux")]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use garret_core::{Error, ErrorKind, Result};
use tokio::net::TcpSocket;

use super::connection::SupervisorConnection;
use crate::supervisor::protocol::SocketFamily;

/// The time within which a connection must be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on a port of the loopback interface in the sandbox.
pub(super) async fn listen_inside(connection: &SupervisorConnection, port: u16) -> Result<TcpListener> {
    let socket = make_socket(connection, SocketFamily::Version4).await?;
    socket
        .set_reuseaddr(true)
        .and_then(|()| socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
        .and_then(|()| socket.listen(BACKLOG))
        .and_then(tokio::net::TcpListener::into_std)
        .map_err(|error| not_listening_error(port, &error))
}

/// Connects to a port of the loopback interface in the sandbox.
pub(super) async fn connect_inside(connection: &SupervisorConnection, port: u16) -> Result<TcpStream> {
    let connect = async {
        let families = [
            (SocketFamily::Version4, SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            (SocketFamily::Version6, SocketAddr::from((Ipv6Addr::LOCALHOST, port))),
        ];
        for (family, address) in families {
            let socket = make_socket(connection, family).await?;
            if let Ok(connected) = socket.connect(address).await.and_then(tokio::net::TcpStream::into_std) {
                return Ok(connected);
            }
        }
        Err(nobody_listens_error(port))
    };
    tokio::time::timeout(CONNECT_WITHIN, connect)
        .await
        .unwrap_or_else(|_| Err(not_accepted_error(port)))
}

async fn make_socket(connection: &SupervisorConnection, family: SocketFamily) -> Result<TcpSocket> {
    let socket = connection.make_socket(family).await?;
    Ok(TcpSocket::from_std_stream(TcpStream::from(socket)))
}

fn not_listening_error(port: u16, error: &io::Error) -> Error {
    let (kind, reason) = match error.kind() {
        io::ErrorKind::AddrInUse => (ErrorKind::AlreadyExists, "another process listens on it"),
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, "Garret may not listen on it"),
        _ => (ErrorKind::Unavailable, "the system refuses it"),
    };
    Error::new(kind, format!("port {port} of the sandbox cannot be used: {reason}")).hint("choose another port")
}

fn nobody_listens_error(port: u16) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("no process in the sandbox listens on port {port}"),
    )
    .hint("start a server that listens on 127.0.0.1 or on all addresses, and try again when it is ready")
}

fn not_accepted_error(port: u16) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the process that listens on port {port} of the sandbox did not accept a connection within {} seconds",
            CONNECT_WITHIN.as_secs()
        ),
    )
    .hint("see in its output whether it still works, or start it again")
}
