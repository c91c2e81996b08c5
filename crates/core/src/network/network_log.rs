//! The record of the requests of commands, as the proxy keeps it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use schemars::JsonSchema;
use serde::Serialize;

use crate::Secrets;

/// The most requests that a log holds. The oldest go first.
const HELD: usize = 2_000;

/// A request of a command to the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NetworkRequest {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method; `CONNECT` for a tunnel, which usually carries TLS.
    pub method: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The rule that allowed it, or the setting that would have to.
    pub rule: String,
    /// Why it was refused, or could not be carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of content to the host.
    pub bytes_up: u64,
    /// Bytes of content from the host.
    pub bytes_down: u64,
}

/// A host that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusedHost {
    /// The host and the port.
    pub host: String,
    /// The setting that would have to allow it.
    pub rule: String,
    /// Why it was refused.
    pub reason: String,
}

/// The requests of a command, in a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NetworkRecord {
    /// The first requests, in the order in which they began.
    pub requests: Vec<NetworkRequest>,
    /// The number of all requests.
    pub request_count: u64,
    /// The number of refused requests.
    pub refused_count: u64,
    /// The hosts that were refused, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedHost>,
}

impl NetworkRecord {
    /// The most requests that are shown.
    pub const SHOWN_REQUESTS: usize = 50;
    /// The most reasons for failures that are shown.
    const SHOWN_FAILURES: usize = 5;
    /// The most refused hosts that are shown.
    pub const SHOWN_REFUSED: usize = 20;

    /// Masks the values of secrets, which a command may have used as names of hosts.
    #[must_use]
    pub fn mask_secrets(mut self, secrets: &Secrets) -> Self {
        let mask = |text: &mut String| *text = secrets.mask_text(text);
        for request in &mut self.requests {
            mask(&mut request.host);
            mask(&mut request.method);
            request.reason.iter_mut().for_each(mask);
        }
        for refused in &mut self.refused {
            mask(&mut refused.host);
            mask(&mut refused.reason);
        }
        self
    }

    /// Returns the reasons why allowed requests could not be carried out, each once, the first of them.
    pub fn failures(&self) -> Vec<&str> {
        let failed = self.requests.iter().filter(|request| request.allowed);
        let mut reasons: Vec<_> = failed.filter_map(|request| request.reason.as_deref()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.truncate(Self::SHOWN_FAILURES);
        reasons
    }

    fn add_request(&mut self, request: NetworkRequest) {
        self.request_count += 1;
        if !request.allowed {
            self.refused_count += 1;
            let host = format!("{}:{}", request.host, request.port);
            let is_new = self.refused.iter().all(|one| one.host != host);
            if is_new && self.refused.len() < Self::SHOWN_REFUSED {
                self.refused.push(RefusedHost {
                    host,
                    rule: request.rule.clone(),
                    reason: request.reason.clone().unwrap_or_default(),
                });
            }
        }
        if self.requests.len() < Self::SHOWN_REQUESTS {
            self.requests.push(request);
        }
    }
}

/// The newest requests of the commands of an open workspace.
#[derive(Debug, Default)]
pub struct NetworkLog {
    entries: Mutex<LogEntries>,
}

#[derive(Debug, Default)]
struct LogEntries {
    /// The number of requests that ever began.
    begun: u64,
    held: VecDeque<Arc<LogEntry>>,
}

impl LogEntries {
    /// Returns the place of the first request since `mark` among those that are held.
    fn first_since(&self, mark: u64) -> usize {
        let since = usize::try_from(self.begun.saturating_sub(mark)).unwrap_or(usize::MAX);
        self.held.len().saturating_sub(since)
    }
}

#[derive(Debug)]
struct LogEntry {
    scope: String,
    request: Mutex<NetworkRequest>,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

impl LogEntry {
    fn to_request(&self) -> NetworkRequest {
        NetworkRequest {
            bytes_up: self.bytes_up.load(Ordering::Relaxed),
            bytes_down: self.bytes_down.load(Ordering::Relaxed),
            ..self.lock_request().clone()
        }
    }

    fn lock_request(&self) -> MutexGuard<'_, NetworkRequest> {
        self.request.lock().expect("no holder panics")
    }
}

/// A request in the log that still moves bytes.
#[derive(Debug, Clone)]
pub struct PendingRequest(Arc<LogEntry>);

impl PendingRequest {
    /// Counts bytes of content to the host.
    pub fn count_up(&self, bytes: usize) {
        self.0.bytes_up.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of content from the host.
    pub fn count_down(&self, bytes: usize) {
        self.0.bytes_down.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that the request was refused after all.
    pub fn note_refusal(&self, rule: &str, reason: String) {
        let mut request = self.0.lock_request();
        request.allowed = false;
        rule.clone_into(&mut request.rule);
        request.reason = Some(reason);
    }

    /// Notes why an allowed request could not be carried out.
    pub fn note_failure(&self, reason: String) {
        self.0.lock_request().reason = Some(reason);
    }
}

impl NetworkLog {
    /// Adds a request of a command of `scope`.
    pub fn begin_request(&self, scope: &str, request: NetworkRequest) -> PendingRequest {
        let entry = Arc::new(LogEntry {
            scope: scope.to_owned(),
            request: Mutex::new(request),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
        });
        let mut entries = self.lock_entries();
        entries.begun += 1;
        entries.held.push_back(entry.clone());
        if entries.held.len() > HELD {
            entries.held.pop_front();
        }
        PendingRequest(entry)
    }

    /// Returns the present end of the log.
    pub fn mark(&self) -> u64 {
        self.lock_entries().begun
    }

    /// Returns the requests that began since `mark`, and are still held, of the scopes that `is_shown` accepts.
    pub fn requests_since(&self, mark: u64, is_shown: impl Fn(&str) -> bool) -> Vec<NetworkRequest> {
        let entries = self.lock_entries();
        entries
            .held
            .range(entries.first_since(mark)..)
            .filter(|entry| is_shown(&entry.scope))
            .map(|entry| entry.to_request())
            .collect()
    }

    /// Returns the record of the requests since `mark` of the scopes that `is_shown` accepts. Those that are no longer
    /// held are counted, whatever their scope.
    pub fn record_since(&self, mark: u64, is_shown: impl Fn(&str) -> bool) -> NetworkRecord {
        let mut record = NetworkRecord::default();
        self.requests_since(mark, is_shown)
            .into_iter()
            .for_each(|request| record.add_request(request));
        let entries = self.lock_entries();
        let first_held = entries.begun - entries.held.len() as u64;
        record.request_count += first_held.saturating_sub(mark);
        record
    }

    fn lock_entries(&self) -> MutexGuard<'_, LogEntries> {
        self.entries.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str, allowed: bool) -> NetworkRequest {
        NetworkRequest {
            host: host.to_owned(),
            port: 443,
            method: "CONNECT".to_owned(),
            allowed,
            rule: "network.allow".to_owned(),
            reason: (!allowed).then(|| "no rule".to_owned()),
            bytes_up: 0,
            bytes_down: 0,
        }
    }

    #[test]
    fn a_record_has_the_requests_since_its_mark_with_their_bytes() {
        let log = NetworkLog::default();
        log.begin_request("", request("before.example", true));
        let mark = log.mark();
        let pending = log.begin_request("", request("example.org", true));
        pending.count_up(3);
        pending.count_down(5);
        let record = log.record_since(mark, |_| true);
        assert_eq!((record.request_count, record.refused_count), (1, 0));
        assert_eq!((record.requests[0].bytes_up, record.requests[0].bytes_down), (3, 5));
        pending.note_refusal("network.allow", "another server".to_owned());
        assert_eq!(log.record_since(mark, |_| true).refused[0].host, "example.org:443");
        assert_eq!(log.record_since(log.mark(), |_| true), NetworkRecord::default());
    }

    #[test]
    fn a_record_has_the_requests_of_the_scopes_that_it_may_show() {
        let log = NetworkLog::default();
        log.begin_request("one", request("one.example", false));
        log.begin_request("two", request("two.example", true));
        let record = log.record_since(0, |scope| scope == "two");
        assert_eq!((record.request_count, record.refused_count), (1, 0));
        assert_eq!(record.requests[0].host, "two.example");
    }

    #[test]
    fn a_record_is_bounded_and_counts_everything() {
        let log = NetworkLog::default();
        for number in 0..HELD + 10 {
            log.begin_request("", request(&format!("host{}.example", number % 100), false));
        }
        let record = log.record_since(0, |_| true);
        assert_eq!(record.request_count, HELD as u64 + 10);
        assert_eq!(record.requests.len(), NetworkRecord::SHOWN_REQUESTS);
        assert_eq!(record.refused.len(), NetworkRecord::SHOWN_REFUSED);
    }
}
