//! A TCP proxy between Garret and a server, which speaks just enough HTTP/1.1 to spoil one exchange and not the next.
//!
//! Each request is read whole, is matched with the [rules](Rule), and meets the [fault](Fault) of the first rule that is due. Whatever the
//! server answers to a request that was passed on is awaited before the fault strikes, so that "applied, and the answer was lost" means
//! just that. What went through is [recorded](Seen).

mod exchange;
mod fault;
mod message;
mod record;

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    upstream: Mutex<SocketAddr>,
    rules: Mutex<Rules>,
    seen: Mutex<Vec<Seen>>,
    clients: AtomicUsize,
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
            upstream: Mutex::new(upstream),
            rules: Mutex::default(),
            seen: Mutex::default(),
            clients: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let shared = state.clone();
        std::thread::spawn(move || listen(&listener, &shared));
        Self { address, state }
    }

    /// Puts another server in the place of the one behind it.
    pub fn switch_to(&self, server: &Server) {
        *locked(&self.state.upstream) = server.address();
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

    /// Waits until every client has closed its connections, and the server has done what was still under way for them. What a killed process
    /// had sent may otherwise be done after somebody has looked.
    pub fn wait_for_clients_to_go(&self) {
        while self.state.clients.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
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
    fn connect(&self) -> Result<TcpStream> {
        let upstream = *locked(&self.upstream);
        TcpStream::connect(upstream)
    }

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
            state.clients.fetch_add(1, Ordering::AcqRel);
            std::thread::spawn(move || {
                exchange::serve(client, &state);
                state.clients.fetch_sub(1, Ordering::AcqRel);
            });
        }
    }
}
