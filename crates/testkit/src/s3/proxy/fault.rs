//! What goes wrong, and with which request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::message::Message;
use crate::fuzz::Random;

/// What goes wrong with one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request reaches the server this much later.
    Delay(Duration),
    /// The server never hears of it; the client gets this status with this S3 error code.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The error code, such as `SlowDown`.
        code: &'static str,
    },
    /// The server gets the first half of the request, then both connections are reset.
    ResetRequest,
    /// The server does its work; the client gets the first half of the answer, then a reset.
    ResetResponse,
    /// The server does its work; the client gets the first half of the answer, then an orderly end.
    TruncateResponse,
    /// The server does its work; the client gets a reset and no answer.
    LoseResponse,
    /// The server does its work; the client gets nothing, until it gives up.
    StallResponse,
}

impl Fault {
    /// `503 SlowDown`, before the server hears of it.
    pub fn slow_down() -> Self {
        let (status, code) = (503, "SlowDown");
        Self::Answer { status, code }
    }

    /// `500 InternalError`, before the server hears of it.
    pub fn internal_error() -> Self {
        let (status, code) = (500, "InternalError");
        Self::Answer { status, code }
    }
}

/// Which requests meet a fault: all, until it is narrowed down.
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    operation: Option<&'static str>,
    target: Option<String>,
    skip: u64,
    times: u64,
    chance: Option<(Random, u64)>,
}

impl Rule {
    /// Every request meets `fault`.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            operation: None,
            target: None,
            skip: 0,
            times: u64::MAX,
            chance: None,
        }
    }

    /// Only of this operation: an HTTP method, or `LIST` or `COPY`, which are not `GET` and `PUT` then.
    #[must_use]
    pub fn operation(mut self, operation: &'static str) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only with a path or query that contains this text.
    #[must_use]
    pub fn target(mut self, part: impl Into<String>) -> Self {
        self.target = Some(part.into());
        self
    }

    /// The first so many pass.
    #[must_use]
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// At most so many are struck.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// About one in so many is struck, the same for the same seed and order.
    #[must_use]
    pub fn one_in(mut self, count: u64, seed: u64) -> Self {
        self.chance = Some((Random::new(seed), count));
        self
    }

    fn matches(&self, request: &Message, operation: &str) -> bool {
        let is_operation = self.operation.is_none_or(|wanted| wanted == operation);
        let is_target = self.target.as_ref().is_none_or(|part| request.target().contains(part));
        is_operation && is_target
    }

    fn is_due(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.times == 0
            || self
                .chance
                .as_mut()
                .is_some_and(|(random, count)| random.below(*count) != 0)
        {
            return false;
        }
        self.times -= 1;
        true
    }
}

/// Counts how often a rule has struck.
#[derive(Debug, Clone, Default)]
pub struct Struck(Arc<AtomicU64>);

impl Struck {
    /// How often.
    pub fn struck(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// All rules of a proxy.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<(Rule, Struck)>);

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) -> Struck {
        let struck = Struck::default();
        self.0.push((rule, struck.clone()));
        struck
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault of the first rule that is due for a request.
    pub(super) fn due(&mut self, request: &Message, operation: &str) -> Option<Fault> {
        let mut matching = self.0.iter_mut().filter(|(rule, _)| rule.matches(request, operation));
        let (rule, struck) = matching.find_map(|(rule, struck)| rule.is_due().then_some((rule, struck)))?;
        struck.0.fetch_add(1, Ordering::AcqRel);
        Some(rule.fault.clone())
    }
}
