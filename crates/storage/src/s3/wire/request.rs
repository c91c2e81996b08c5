//! A request before it is signed.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// The operation of a request, for counting and for naming the permission that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum S3Operation {
    Head,
    Get,
    Put,
    Copy,
    Delete,
    List,
    Multipart,
    Abort,
}

impl S3Operation {
    /// Returns the permission that the operation needs.
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

/// The delivery of the answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum BodyDelivery {
    /// The body is received as part of the request: it is small, and a retry includes it.
    Whole,
    /// The caller reads the body piece by piece.
    Stream,
}

/// A request to the bucket.
#[derive(Debug, Clone)]
pub(in super::super) struct S3Request {
    pub(in super::super) operation: S3Operation,
    pub(in super::super) method: Method,
    /// The key; empty for the bucket itself.
    pub(in super::super) key: String,
    pub(in super::super) query: Vec<(&'static str, String)>,
    pub(in super::super) headers: HeaderMap,
    pub(in super::super) body: Bytes,
    pub(in super::super) wants: BodyDelivery,
}

impl S3Request {
    /// Makes a request for `key`.
    pub(in super::super) fn new(operation: S3Operation, method: Method, key: impl Into<String>) -> Self {
        Self {
            operation,
            method,
            key: key.into(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            wants: BodyDelivery::Whole,
        }
    }

    /// Adds a parameter to the query.
    pub(in super::super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// Adds a header. A value that no header can hold is left out; nothing on the server can have such a value.
    pub(in super::super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Sets the body.
    pub(in super::super) fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// Leaves the body of the answer to the caller.
    pub(in super::super) fn stream_answer(mut self) -> Self {
        self.wants = BodyDelivery::Stream;
        self
    }
}
