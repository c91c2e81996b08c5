//! A TCP proxy between Garret and a server, which speaks just enough HTTP/1.1 to spoil one exchange and not the next.
//!
//! Each request is read whole, is matched with the [rules](Rule), and meets the [fault](Fault) of the first rule that is due. Whatever the
//! server answers to a request that was passed on is awaited before the fault strikes, so that "applied, and the answer was lost" means
//! just that. What went through is [recorded](Seen).

mod exchange;
mod fault;
mod message;
mod record;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use fault::{Fault, Rule, Struck};
pub use record::Seen;

use super::Server;
use fault::Rules;
use message::Message;

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    upstream: SocketAddr,
    rules: Mutex<Rules>,
    seen: Mutex<Vec<Seen>>,
    is_over: AtomicBool,
}

impl Proxy {
    /// A proxy in front of a server.
    pub fn before(server: &Server) -> Self {
        Self::to(server.address())
    }

    /// A proxy in front of whatever listens at `upstream`.
    pub fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let address = listener.local_addr().expect("it listens");
        let state = Arc::new(State {
            upstream,
            rules: Mutex::default(),
            seen: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let shared = state.clone();
        std::thread::spawn(move || listen(&listener, &shared));
        Self { address, state }
    }

    /// Where it listens, as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule; rules that were added before come first. Gives what counts its strikes.
    pub fn add(&self, rule: Rule) -> Struck {
        locked(&self.state.rules).add(rule)
    }

    /// Drops all rules: from now on everything passes.
    pub fn clear(&self) {
        locked(&self.state.rules).clear();
    }

    /// Everything that was asked since the start or the last [`forget`](Self::forget), in the order in which the exchanges ended.
    pub fn seen(&self) -> Vec<Seen> {
        locked(&self.state.seen).clone()
    }

    /// The operations of everything that was asked, in the order in which the exchanges ended.
    pub fn operations(&self) -> Vec<&'static str> {
        locked(&self.state.seen).iter().map(|seen| seen.operation).collect()
    }

    /// Forgets what was asked so far.
    pub fn forget(&self) {
        locked(&self.state.seen).clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        // Wakes the listener, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn fault(&self, request: &Message, operation: &str) -> Option<Fault> {
        locked(&self.rules).due(request, operation)
    }

    fn record(&self, seen: Seen) {
        locked(&self.seen).push(seen);
    }
}

/// A test that panicked elsewhere leaves nothing half done here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.is_over.load(Ordering::Acquire) {
            return;
        }
        if let Ok(client) = client {
            let state = state.clone();
            std::thread::spawn(move || exchange::serve(client, &state));
        }
    }
}
