//! Somebody who hands out keys, as the cloud does to a web identity.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use super::guarded::{Guarded, room};
use super::ports;
use super::programs::{installed, script};
use super::server::wait_for;

/// moto's security token service over TLS, as which alone it is asked. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct Issuer {
    address: SocketAddr,
    certificate: PathBuf,
    _process: Guarded,
}

impl Issuer {
    /// Starts one.
    pub fn start() -> Self {
        let room = room();
        let certificate = room.join("root.pem");
        let [port] = ports::free();
        let shown = |path: &Path| path.to_str().expect("its path is UTF-8").to_owned();
        let command = [
            shown(&installed("python")),
            shown(&script("issuer.py")),
            port.to_string(),
            shown(&certificate),
        ];
        let mut process = Guarded::start(&room, &[], &command);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let answered = wait_for(&mut process, || {
            TcpStream::connect(address).map_err(|error| error.to_string())
        });
        answered.unwrap_or_else(|log| panic!("the issuer does not start: {log}"));
        Self {
            address,
            certificate,
            _process: process,
        }
    }

    /// Where it listens, as a URL.
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate of who vouches for it.
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }
}
