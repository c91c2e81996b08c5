//! Bodies that pass through the proxy: counted, and without secrets.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use garret_core::{Masker, PendingRequest, Secrets};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A body of a response or a request.
pub(crate) type PassingBody = BoxBody<Bytes, hyper::Error>;

/// The direction in which a body moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyDirection {
    Up,
    Down,
}

/// Returns a body that is a text.
pub(crate) fn text_body(text: String) -> PassingBody {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

/// A body whose bytes are counted.
#[derive(Debug)]
pub(crate) struct CountedBody {
    pub(crate) inner: Incoming,
    pub(crate) pending: PendingRequest,
    pub(crate) direction: BodyDirection,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            match self.direction {
                BodyDirection::Up => self.pending.count_up(data.len()),
                BodyDirection::Down => self.pending.count_down(data.len()),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A body in which the values of secrets are masked, also where a value comes in two pieces. Trailers are left out.
#[derive(Debug)]
pub(crate) struct MaskedBody {
    inner: CountedBody,
    /// Taken at the end.
    masker: Option<Masker>,
}

impl MaskedBody {
    pub(crate) fn new(inner: CountedBody, secrets: &Secrets) -> Self {
        Self {
            inner,
            masker: Some(Masker::new(secrets)),
        }
    }
}

impl Body for MaskedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let Some(masker) = self.masker.as_mut() else {
                return Poll::Ready(None);
            };
            // Taken out for the call, because both are parts of `self`.
            let mut own = masker.clone();
            match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let shown = own.push(&data);
                    self.masker = Some(own);
                    if !shown.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(shown.into()))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    self.masker = None;
                    let shown = own.finish();
                    return Poll::Ready((!shown.is_empty()).then(|| Ok(Frame::data(shown.into()))));
                }
            }
        }
    }
}
