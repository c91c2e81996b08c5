//! Counts of requests and bytes. Retries count, because they cost as much.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::request::{S3Operation, S3Request};

/// The numbers of requests and bytes since a storage was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// HEAD requests for one object.
    pub head: u64,
    /// Reads of an object or a part of one.
    pub get: u64,
    /// Objects written in one piece.
    pub put: u64,
    /// Copies on the server.
    pub copy: u64,
    /// Removals.
    pub delete: u64,
    /// Pages of lists.
    pub list: u64,
    /// Steps of uploads in parts.
    pub multipart: u64,
    /// Bytes of request bodies.
    pub bytes_sent: u64,
    /// Bytes of answer bodies.
    pub bytes_received: u64,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.head + self.get + self.put + self.copy + self.delete + self.list + self.multipart
    }

    /// Returns the difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            head: self.head - earlier.head,
            get: self.get - earlier.get,
            put: self.put - earlier.put,
            copy: self.copy - earlier.copy,
            delete: self.delete - earlier.delete,
            list: self.list - earlier.list,
            multipart: self.multipart - earlier.multipart,
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            bytes_received: self.bytes_received - earlier.bytes_received,
        }
    }
}

/// Counts requests as they are sent and bodies as they are received.
#[derive(Debug, Default)]
pub(super) struct RequestCounter {
    operations: [AtomicU64; 7],
    sent: AtomicU64,
    received: AtomicU64,
}

impl RequestCounter {
    pub(super) fn count_request(&self, call: &S3Request) {
        self.operations[slot_of(call.operation)].fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(call.body.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> RequestCounts {
        let count = |operation| self.operations[slot_of(operation)].load(Ordering::Relaxed);
        RequestCounts {
            head: count(S3Operation::Head),
            get: count(S3Operation::Get),
            put: count(S3Operation::Put),
            copy: count(S3Operation::Copy),
            delete: count(S3Operation::Delete),
            list: count(S3Operation::List),
            multipart: count(S3Operation::Multipart),
            bytes_sent: self.sent.load(Ordering::Relaxed),
            bytes_received: self.received.load(Ordering::Relaxed),
        }
    }
}

fn slot_of(operation: S3Operation) -> usize {
    match operation {
        S3Operation::Head => 0,
        S3Operation::Get => 1,
        S3Operation::Put => 2,
        S3Operation::Copy => 3,
        S3Operation::Delete => 4,
        S3Operation::List => 5,
        S3Operation::Multipart | S3Operation::Abort => 6,
    }
}
