//! An answer with a successful status, and its body.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use object_store::client::{HttpError, HttpResponseBody};

use super::count::Counter;
use super::failure::Failure;

/// Headers, and a body that is read piece by piece, each within the time limit.
pub(in super::super) struct Answer {
    pub(in super::super) headers: HeaderMap,
    /// The body, if it was received with the request.
    pub(in super::super) whole: Bytes,
    pieces: BoxStream<'static, Result<Bytes, HttpError>>,
    timeout: Duration,
    counter: Arc<Counter>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl Answer {
    pub(super) fn new(headers: HeaderMap, body: HttpResponseBody, timeout: Duration, counter: Arc<Counter>) -> Self {
        Self {
            headers,
            whole: Bytes::new(),
            pieces: body.bytes_stream(),
            timeout,
            counter,
        }
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(in super::super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let piece = tokio::time::timeout(self.timeout, self.pieces.next())
            .await
            .map_err(|_| Failure::TimedOut(self.timeout))?;
        match piece {
            None => Ok(None),
            Some(Ok(piece)) => {
                self.counter.received(piece.len());
                Ok(Some(piece))
            }
            Some(Err(_)) => Err(Failure::Unreachable(
                "the connection broke before the answer was complete",
            )),
        }
    }

    /// Reads the rest of the body.
    pub(super) async fn take_whole(&mut self) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if whole.is_empty() {
                whole = BytesMut::from(piece);
            } else {
                whole.extend_from_slice(&piece);
            }
        }
        Ok(whole.freeze())
    }
}
