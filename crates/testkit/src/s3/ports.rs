//! Ports of loopback that nobody uses.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// Below the range from which systems give ports to outgoing connections: a server binds its ports some time after they were found free,
/// and until then no connection of another test may get one.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// So many free ports. Two processes seldom look at the same ones, and a server that finds its port taken is started again.
pub(super) fn free<const WANTED: usize>() -> [u16; WANTED] {
    let mut found = [0; WANTED];
    for port in &mut found {
        *port = free_port();
    }
    found
}

fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(31);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (FIRST + start.wrapping_add(step) % COUNT) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("a test machine has free ports");
}
