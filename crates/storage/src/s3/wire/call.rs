//! A request before it is signed.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// What a request does, for counting and for naming the permission that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Operation {
    Head,
    Get,
    Put,
    Copy,
    Delete,
    List,
    Multipart,
    Abort,
}

impl Operation {
    /// The permission without which a server refuses it.
    pub(in super::super) fn permission(self) -> &'static str {
        match self {
            Self::Head | Self::Get => "s3:GetObject",
            Self::Put | Self::Multipart => "s3:PutObject",
            Self::Copy => "s3:PutObject (and s3:GetObject on the source)",
            Self::Delete => "s3:DeleteObject",
            Self::List => "s3:ListBucket",
            Self::Abort => "s3:AbortMultipartUpload",
        }
    }
}

/// How the body of the answer is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Wants {
    /// At once, as part of the request: it is small, and tried again with it.
    Whole,
    /// Piece by piece, by the caller.
    Stream,
}

/// A request to the bucket.
#[derive(Debug, Clone)]
pub(in super::super) struct Call {
    pub(in super::super) operation: Operation,
    pub(in super::super) method: Method,
    /// Empty for the bucket itself.
    pub(in super::super) key: String,
    pub(in super::super) query: Vec<(&'static str, String)>,
    pub(in super::super) headers: HeaderMap,
    pub(in super::super) body: Bytes,
    pub(in super::super) wants: Wants,
}

impl Call {
    /// A request about `key`.
    pub(in super::super) fn new(operation: Operation, method: Method, key: impl Into<String>) -> Self {
        Self {
            operation,
            method,
            key: key.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            wants: Wants::Whole,
        }
    }

    /// Adds a part of the query.
    pub(in super::super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a header; a value that no header can hold is left out, and then matches nothing on the server either.
    pub(in super::super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Gives it a body.
    pub(in super::super) fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// Leaves the body of the answer to the caller.
    pub(in super::super) fn streamed(mut self) -> Self {
        self.wants = Wants::Stream;
        self
    }
}
