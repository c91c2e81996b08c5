//! Reads the beginning of a tunnel: whether it is TLS, and which server it names.

use std::io;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest beginning of a TLS connection.
const LONGEST: usize = 64 * 1024;
/// The longest wait for it. A client that waits for the server to speak first is no client of TLS.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The beginning of a tunnel.
#[derive(Debug)]
pub(crate) enum TunnelStart {
    /// A TLS connection: the name of its server, and the bytes that were read.
    Tls {
        server_name: Option<String>,
        bytes: Vec<u8>,
    },
    /// Something else.
    Other,
}

/// Reads from the client until the beginning of a TLS connection is complete, or cannot be one.
pub(crate) async fn read_tunnel_start(client: &mut (impl AsyncRead + Unpin)) -> io::Result<TunnelStart> {
    match tokio::time::timeout(TIMEOUT, read_hello(client)).await {
        Ok(start) => start,
        Err(_) => Ok(TunnelStart::Other),
    }
}

async fn read_hello(client: &mut (impl AsyncRead + Unpin)) -> io::Result<TunnelStart> {
    let mut acceptor = Acceptor::default();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while bytes.len() < LONGEST {
        let read = client.read(&mut piece).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..read]);
        let mut rest = &piece[..read];
        while !rest.is_empty() {
            if acceptor.read_tls(&mut rest).is_err() {
                return Ok(TunnelStart::Other);
            }
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                return Ok(TunnelStart::Tls {
                    server_name: accepted.client_hello().server_name().map(str::to_owned),
                    bytes,
                });
            }
            Err(_) => return Ok(TunnelStart::Other),
        }
    }
    Ok(TunnelStart::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<TunnelStart> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async { read_tunnel_start(&mut &*bytes).await })
    }

    #[test]
    fn another_protocol_is_told_from_tls_by_its_first_bytes() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "SSH-2.0-x\r\n",
            "\u{16}\u{3}\u{1}\0\u{5}abcde",
        ] {
            assert!(matches!(read(text.as_bytes()), Ok(TunnelStart::Other)), "{text}");
        }
        assert!(read(b"").is_err());
    }
}
