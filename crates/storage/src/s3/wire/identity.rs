//! The identity of the server that answers, and whether its answers still agree with the probe.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use http::header::SERVER;
use http::{HeaderMap, StatusCode};

use super::failure::S3RequestError;

/// The server behind an endpoint, as its answers show it.
#[derive(Debug, Default)]
pub(in super::super) struct ServerIdentity {
    names: Mutex<ServerNames>,
    is_contradicted: AtomicBool,
}

#[derive(Debug, Default)]
struct ServerNames {
    /// The values of the header `Server`; the empty name stands for answers without it. Several servers may share one
    /// endpoint.
    known: BTreeSet<String>,
    /// Whether an answer with another name contradicts the probe. During a probe every name is new, and none does.
    are_complete: bool,
}

impl ServerIdentity {
    /// Returns the names that the server gave itself during the probe.
    pub(in super::super) fn server_names(&self) -> BTreeSet<String> {
        self.locked_names().known.clone()
    }

    /// Expects the server of a remembered probe.
    pub(in super::super) fn expect_servers(&self, names: BTreeSet<String>) {
        *self.locked_names() = ServerNames {
            known: names,
            are_complete: true,
        };
    }

    /// Begins a probe: every name is accepted as the server's, and requests may be unsupported.
    pub(in super::super) fn begin_probe(&self) {
        *self.locked_names() = ServerNames::default();
    }

    /// Ends a probe: from now on, answers can contradict it.
    pub(in super::super) fn end_probe(&self) {
        self.locked_names().are_complete = true;
        self.is_contradicted.store(false, Ordering::Release);
    }

    /// Returns whether an answer contradicts the probe: another server answered, or this one refused a request that it
    /// supported, ignored a condition, or lost its bucket.
    pub(in super::super) fn is_contradicted(&self) -> bool {
        self.is_contradicted.load(Ordering::Acquire)
    }

    /// Records that an answer contradicts the probe.
    pub(in super::super) fn mark_contradicted(&self) {
        self.is_contradicted.store(true, Ordering::Release);
    }

    pub(super) fn see_answer(&self, status: StatusCode, headers: &HeaderMap) {
        let name = headers.get(SERVER).and_then(|name| name.to_str().ok());
        // A gateway answers for a server that it cannot reach, and an error may come from a component without a name.
        if status.is_server_error() || (name.is_none() && !status.is_success()) {
            return;
        }
        let name = name.unwrap_or_default();
        let mut names = self.locked_names();
        if names.known.contains(name) {
            return;
        }
        if names.are_complete {
            self.mark_contradicted();
        } else {
            names.known.insert(name.to_owned());
        }
    }

    pub(super) fn see_failure(&self, failure: &S3RequestError) {
        if matches!(failure, S3RequestError::Unsupported | S3RequestError::NoBucket) {
            self.mark_contradicted();
        }
    }

    fn locked_names(&self) -> MutexGuard<'_, ServerNames> {
        self.names.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(SERVER, name.parse().unwrap())])
    }

    fn probed() -> ServerIdentity {
        let identity = ServerIdentity::default();
        identity.begin_probe();
        identity.see_answer(StatusCode::OK, &named("one"));
        identity.see_answer(StatusCode::PRECONDITION_FAILED, &named("two"));
        identity.see_failure(&S3RequestError::Unsupported);
        identity.end_probe();
        identity
    }

    #[test]
    fn answers_of_the_probed_servers_and_of_a_gateway_contradict_nothing() {
        let identity = probed();
        identity.see_answer(StatusCode::OK, &named("one"));
        identity.see_answer(StatusCode::OK, &named("two"));
        identity.see_answer(StatusCode::BAD_GATEWAY, &named("gateway"));
        identity.see_answer(StatusCode::NOT_FOUND, &HeaderMap::new());
        identity.see_failure(&S3RequestError::Precondition);
        assert!(!identity.is_contradicted());
        assert_eq!(
            identity.server_names(),
            BTreeSet::from(["one".to_owned(), "two".to_owned()])
        );
    }

    #[test]
    fn another_name_or_none_and_a_refusal_contradict_the_probe() {
        let contradictions: [fn(&ServerIdentity); 5] = [
            |identity| identity.see_answer(StatusCode::OK, &named("other")),
            |identity| identity.see_answer(StatusCode::NOT_FOUND, &named("other")),
            |identity| identity.see_answer(StatusCode::OK, &HeaderMap::new()),
            |identity| identity.see_failure(&S3RequestError::Unsupported),
            |identity| identity.see_failure(&S3RequestError::NoBucket),
        ];
        for (number, contradiction) in contradictions.into_iter().enumerate() {
            let identity = probed();
            contradiction(&identity);
            assert!(identity.is_contradicted(), "{number}");
            let later = ServerIdentity::default();
            later.expect_servers(identity.server_names());
            contradiction(&later);
            assert!(later.is_contradicted(), "{number}, remembered");
        }
    }

    #[test]
    fn a_server_without_a_name_is_known_by_that() {
        let identity = ServerIdentity::default();
        identity.begin_probe();
        identity.see_answer(StatusCode::OK, &HeaderMap::new());
        identity.end_probe();
        identity.see_answer(StatusCode::OK, &HeaderMap::new());
        assert!(!identity.is_contradicted());
        identity.see_answer(StatusCode::OK, &named("one"));
        assert!(identity.is_contradicted());
    }
}
