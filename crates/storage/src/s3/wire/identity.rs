//! Which server answers, and whether it is still the one that was probed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use http::HeaderMap;
use http::header::SERVER;

use super::failure::Failure;

/// What answers tell of the server behind an endpoint.
#[derive(Debug, Default)]
pub(in super::super) struct ServerIdentity {
    /// The name in the header `Server` of the first answer, or of the remembered probe.
    name: Mutex<Option<String>>,
    is_contradicted: AtomicBool,
}

impl ServerIdentity {
    /// The name that the server gives itself.
    pub(in super::super) fn name(&self) -> Option<String> {
        self.locked_name().clone()
    }

    /// Expects the server of a remembered probe.
    pub(in super::super) fn expect(&self, name: Option<String>) {
        *self.locked_name() = name;
    }

    /// Whether an answer contradicts what is known of the server: another server answered, or this one refused a request that it
    /// supported at the probe, or its bucket is gone.
    pub(in super::super) fn is_contradicted(&self) -> bool {
        self.is_contradicted.load(Ordering::Acquire)
    }

    /// Begins anew: a probe is about to ask for what the server may not support.
    pub(in super::super) fn forget(&self) {
        *self.locked_name() = None;
        self.trust();
    }

    /// Takes what was answered so far for what the server is.
    pub(in super::super) fn trust(&self) {
        self.is_contradicted.store(false, Ordering::Release);
    }

    pub(super) fn see_answer(&self, headers: &HeaderMap) {
        // A proxy may answer without a name for a server that has one.
        let Some(name) = headers.get(SERVER).and_then(|name| name.to_str().ok()) else {
            return;
        };
        let mut known = self.locked_name();
        if known.get_or_insert_with(|| name.to_owned()) != name {
            self.is_contradicted.store(true, Ordering::Release);
        }
    }

    pub(super) fn see_failure(&self, failure: &Failure) {
        if matches!(failure, Failure::Unsupported | Failure::NoBucket) {
            self.is_contradicted.store(true, Ordering::Release);
        }
    }

    fn locked_name(&self) -> MutexGuard<'_, Option<String>> {
        self.name.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_or_a_refusal_contradicts_what_is_known() {
        let answer = |name: &'static str| HeaderMap::from_iter([(SERVER, name.parse().unwrap())]);
        let identity = ServerIdentity::default();
        identity.see_answer(&answer("one"));
        identity.see_answer(&answer("one"));
        identity.see_answer(&HeaderMap::new());
        identity.see_failure(&Failure::Precondition);
        assert!(!identity.is_contradicted() && identity.name().as_deref() == Some("one"));
        identity.see_answer(&answer("other"));
        assert!(identity.is_contradicted());
        identity.forget();
        assert!(!identity.is_contradicted());
        identity.expect(Some("one".into()));
        identity.see_failure(&Failure::Unsupported);
        assert!(identity.is_contradicted());
    }
}
