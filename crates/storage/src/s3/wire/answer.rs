//! An answer with a successful status, and its body.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use object_store::client::{HttpError, HttpResponseBody};

use super::failure::S3RequestError;
use super::request_counts::RequestCounter;

/// Headers, and a body that is read piece by piece, each within the time limit.
pub(in super::super) struct HttpAnswer {
    pub(in super::super) headers: HeaderMap,
    /// The body, if it was received with the request.
    pub(in super::super) whole: Bytes,
    pieces: BoxStream<'static, Result<Bytes, HttpError>>,
    timeout: Duration,
    counter: Arc<RequestCounter>,
}

impl fmt::Debug for HttpAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl HttpAnswer {
    pub(super) fn new(
        headers: HeaderMap,
        body: HttpResponseBody,
        timeout: Duration,
        counter: Arc<RequestCounter>,
    ) -> Self {
        Self {
            headers,
            whole: Bytes::new(),
            pieces: body.bytes_stream(),
            timeout,
            counter,
        }
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(in super::super) async fn next_piece(&mut self) -> Result<Option<Bytes>, S3RequestError> {
        let piece = tokio::time::timeout(self.timeout, self.pieces.next())
            .await
            .map_err(|_| S3RequestError::TimedOut(self.timeout))?;
        match piece {
            None => Ok(None),
            Some(Ok(piece)) => {
                self.counter.count_received(piece.len());
                Ok(Some(piece))
            }
            Some(Err(_)) => Err(S3RequestError::Unreachable(
                "the connection broke before the answer was complete",
            )),
        }
    }

    /// Reads the rest of the body.
    pub(super) async fn take_whole(&mut self) -> Result<Bytes, S3RequestError> {
        let mut whole = BytesMut::new();
        while let Some(piece) = self.next_piece().await? {
            if whole.is_empty() {
                whole = BytesMut::from(piece);
            } else {
                whole.extend_from_slice(&piece);
            }
        }
        Ok(whole.freeze())
    }
}
