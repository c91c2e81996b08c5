//! Large objects in parts, with bounded memory.
//!
//! The content is read part by part, and a few parts are on their way at once. Whatever ends an upload before it is complete, a failure
//! or a caller who stops waiting, aborts it at the server, where that is permitted; the object is not touched before the end.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt};
use garret_core::{Content, ContentReader, Error, Result};
use http::Method;

use super::bucket::{Bucket, Condition, Object, quoted, tag_in};
use super::metadata::Metadata;
use super::wire::call::{Call, Operation};
use super::wire::failure::Failure;
use super::wire::xml;

const PART: u64 = 8 * 1024 * 1024;
const MAX_PARTS: u64 = 10_000;
/// How many parts are in memory at once.
const AT_ONCE: usize = 4;
/// The most that one copy takes; a larger object is copied in parts, too.
pub(super) const MAX_COPY: u64 = 5 * 1024 * 1024 * 1024;
const COPY_PART: u64 = 1024 * 1024 * 1024;

/// How large the parts of `size` bytes are.
fn part_size(size: u64, least: u64) -> u64 {
    least.max(size.div_ceil(MAX_PARTS))
}

/// Sends `content` in parts; gives the ETag of the object.
pub(super) async fn upload(
    bucket: &Arc<Bucket>,
    key: &str,
    content: &Content,
    metadata: &Metadata,
    condition: Condition<'_>,
) -> Result<String, Failure> {
    let upload = Upload::start(bucket, key, metadata).await?;
    let parts = pieces(content.clone(), part_size(content.len(), PART))
        .map(|piece| upload.put_piece(piece).boxed())
        .buffered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await;
    match parts {
        Ok(parts) => upload.complete(parts, condition).await,
        Err(failure) => {
            upload.abort().await;
            Err(failure)
        }
    }
}

/// Copies a large object in parts on the server.
pub(super) async fn copy(
    bucket: &Arc<Bucket>,
    from: &str,
    object: &Object,
    to: &str,
    metadata: &Metadata,
    condition: Condition<'_>,
) -> Result<String, Failure> {
    let upload = Upload::start(bucket, to, metadata).await?;
    let part = part_size(object.size, COPY_PART);
    let numbered = (0..object.size.div_ceil(part)).map(|index| {
        let range = index * part..((index + 1) * part).min(object.size);
        upload.copy_part(index + 1, from, &object.tag, range).boxed()
    });
    let parts = futures::stream::iter(numbered)
        .buffered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await;
    match parts {
        Ok(parts) => upload.complete(parts, condition).await,
        Err(failure) => {
            upload.abort().await;
            Err(failure)
        }
    }
}

/// An upload under way. Dropped before its end, it is aborted.
struct Upload {
    bucket: Arc<Bucket>,
    key: String,
    id: String,
    is_over: bool,
}

/// A part that the server has.
struct Part {
    number: u64,
    tag: String,
}

impl Upload {
    async fn start(bucket: &Arc<Bucket>, key: &str, metadata: &Metadata) -> Result<Self, Failure> {
        let mut call = Call::new(Operation::Multipart, Method::POST, key).query("uploads", "");
        metadata.add_to(&mut call.headers);
        let answer = bucket.wire.send(&call).await?;
        Ok(Self {
            bucket: bucket.clone(),
            key: key.to_owned(),
            id: xml::upload_id(&answer.whole)?,
            is_over: false,
        })
    }

    fn part(&self, number: u64) -> Call {
        Call::new(Operation::Multipart, Method::PUT, &self.key)
            .query("partNumber", number.to_string())
            .query("uploadId", &self.id)
    }

    async fn put_piece(&self, piece: Result<Piece, Failure>) -> Result<Part, Failure> {
        let (number, bytes) = piece?;
        let answer = self.bucket.wire.send(&self.part(number).body(bytes)).await?;
        let tag = tag_in(&answer.headers).ok_or(Failure::NoUpload)?;
        Ok(Part { number, tag })
    }

    async fn copy_part(
        &self,
        number: u64,
        from: &str,
        tag: &str,
        range: std::ops::Range<u64>,
    ) -> Result<Part, Failure> {
        let call = self
            .part(number)
            .header("x-amz-copy-source", &self.bucket.source(from))
            .header("x-amz-copy-source-if-match", &quoted(tag))
            .header(
                "x-amz-copy-source-range",
                &format!("bytes={}-{}", range.start, range.end - 1),
            );
        let answer = self.bucket.wire.send(&call).await?;
        let tag = xml::tag(&answer.whole)?;
        Ok(Part { number, tag })
    }

    async fn complete(mut self, parts: Vec<Part>, condition: Condition<'_>) -> Result<String, Failure> {
        let call = Call::new(Operation::Multipart, Method::POST, &self.key)
            .query("uploadId", &self.id)
            .body(manifest(&parts).into());
        let outcome = self.bucket.wire.send(&condition.add_to(call)).await;
        match outcome.and_then(|answer| xml::tag(&answer.whole)) {
            Ok(tag) => {
                self.is_over = true;
                Ok(tag)
            }
            Err(failure) => {
                self.abort().await;
                Err(failure)
            }
        }
    }

    /// Tells the server to forget the parts. That it may not is no failure of ours: the parts cost room, not correctness.
    async fn abort(mut self) {
        self.is_over = true;
        let _ = self.bucket.wire.send(&abort_call(&self.key, &self.id)).await;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (bucket, call) = (self.bucket.clone(), abort_call(&self.key, &self.id));
        runtime.spawn(async move {
            let _ = bucket.wire.send(&call).await;
        });
    }
}

fn abort_call(key: &str, id: &str) -> Call {
    Call::new(Operation::Abort, Method::DELETE, key).query("uploadId", id)
}

fn manifest(parts: &[Part]) -> String {
    let mut xml = String::from("<CompleteMultipartUpload>");
    for part in parts {
        let tag = part.tag.replace('&', "&amp;").replace('<', "&lt;");
        xml.push_str(&format!(
            "<Part><PartNumber>{}</PartNumber><ETag>\"{tag}\"</ETag></Part>",
            part.number
        ));
    }
    xml.push_str("</CompleteMultipartUpload>");
    xml
}

/// The content as numbered pieces, each read when it is asked for, away from the runtime's own threads.
fn pieces(content: Content, size: u64) -> impl futures::Stream<Item = Result<Piece, Failure>> {
    let begin = State {
        content: Some(content),
        reader: None,
        number: 0,
    };
    futures::stream::try_unfold(begin, move |state| async move {
        let read = tokio::task::spawn_blocking(move || state.next(size)).await;
        read.expect("reading does not panic").map_err(Failure::Local)
    })
}

/// The number and the bytes of a part.
type Piece = (u64, Bytes);

struct State {
    content: Option<Content>,
    reader: Option<ContentReader>,
    number: u64,
}

impl State {
    fn next(mut self, size: u64) -> Result<Option<(Piece, Self)>, Error> {
        if let Some(content) = self.content.take() {
            self.reader = Some(content.open()?);
        }
        let reader = self.reader.as_mut().expect("it was opened with the first piece");
        let mut piece = Vec::new();
        if reader.append_to(&mut piece, usize::try_from(size).unwrap_or(usize::MAX))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(((self.number, piece.into()), self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_object() {
        assert_eq!(part_size(100, PART), PART);
        let terabyte = 1 << 40;
        let part = part_size(terabyte, PART);
        assert!(terabyte.div_ceil(part) <= MAX_PARTS);
    }

    #[test]
    fn a_manifest_names_each_part() {
        let parts = [Part {
            number: 1,
            tag: "a".into(),
        }];
        assert_eq!(
            manifest(&parts),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part></CompleteMultipartUpload>"
        );
    }

    #[tokio::test]
    async fn content_comes_in_pieces_to_its_end() {
        let content = Content::from(vec![7; 25]);
        let pieces: Vec<_> = pieces(content, 10).map(|piece| piece.unwrap()).collect().await;
        let lengths: Vec<_> = pieces.iter().map(|(number, bytes)| (*number, bytes.len())).collect();
        assert_eq!(lengths, [(1, 10), (2, 10), (3, 5)]);
    }
}
