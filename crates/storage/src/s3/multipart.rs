//! Uploads of large objects in parts, with bounded memory.
//!
//! The content is read part by part, and a few parts are sent at once. An upload that ends before it is complete, by a
//! failure or because the caller stops waiting, is aborted at the server, if that is permitted; the object is not
//! touched before the end.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt};
use garret_core::{Content, ContentReader, Error, Result};
use http::Method;

use super::bucket::{Bucket, S3Object, WriteCondition, quote_tag, tag_of_headers};
use super::metadata::ObjectMetadata;
use super::wire::failure::S3RequestError;
use super::wire::request::{S3Operation, S3Request};
use super::wire::xml;

const PART: u64 = 8 * 1024 * 1024;
const MAX_PARTS: u64 = 10_000;
/// The number of parts in memory at once.
const AT_ONCE: usize = 4;
/// The largest object that S3 copies in one request; a larger one is copied in parts.
pub(super) const MAX_COPY: u64 = 5 * 1024 * 1024 * 1024;
const COPY_PART: u64 = 1024 * 1024 * 1024;

/// Returns the part size for an object of `size` bytes, at least `least`.
fn part_size(size: u64, least: u64) -> u64 {
    least.max(size.div_ceil(MAX_PARTS))
}

/// Splits `size` bytes into ranges of `part` bytes.
fn part_ranges(size: u64, part: u64) -> impl Iterator<Item = Range<u64>> {
    let count = (size / part).max(u64::from(size > 0));
    (0..count).map(move |index| {
        if index + 1 == count {
            // The last range takes the rest, so that none is shorter than the server's minimum for a part.
            index * part..size
        } else {
            index * part..(index + 1) * part
        }
    })
}

/// Sends `content` in parts; returns the ETag of the object.
pub(super) async fn upload_content(
    bucket: &Arc<Bucket>,
    key: &str,
    content: &Content,
    metadata: &ObjectMetadata,
    condition: WriteCondition<'_>,
) -> Result<String, S3RequestError> {
    let upload = MultipartUpload::start(bucket, key, metadata).await?;
    let parts = content_pieces(content.clone(), part_size(content.len(), PART))
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

/// An object on the server, and bytes to append to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectWithTail<'a> {
    pub(super) object: &'a S3Object,
    pub(super) content: &'a Bytes,
}

/// Copies a large object in parts on the server, with more bytes at its end.
pub(super) async fn copy_in_parts(
    bucket: &Arc<Bucket>,
    from: &str,
    tail: ObjectWithTail<'_>,
    to: &str,
    metadata: &ObjectMetadata,
    condition: WriteCondition<'_>,
) -> Result<String, S3RequestError> {
    let upload = MultipartUpload::start(bucket, to, metadata).await?;
    let ObjectWithTail { object, content } = tail;
    let mut steps = Vec::new();
    for range in part_ranges(object.size, part_size(object.size, COPY_PART)) {
        let number = steps.len() as u64 + 1;
        steps.push(upload.copy_part(number, from, &object.tag, range).boxed());
    }
    for range in part_ranges(content.len() as u64, PART) {
        let piece = content.slice(range.start as usize..range.end as usize);
        let number = steps.len() as u64 + 1;
        steps.push(upload.put_piece(Ok((number, piece))).boxed());
    }
    let parts = futures::stream::iter(steps)
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

/// An upload in progress. Dropped before its end, it is aborted.
struct MultipartUpload {
    bucket: Arc<Bucket>,
    key: String,
    id: String,
    is_over: bool,
}

/// A part that the server has received.
struct UploadedPart {
    number: u64,
    tag: String,
}

impl MultipartUpload {
    async fn start(bucket: &Arc<Bucket>, key: &str, metadata: &ObjectMetadata) -> Result<Self, S3RequestError> {
        let mut call = S3Request::new(S3Operation::Multipart, Method::POST, key).query("uploads", "");
        metadata.add_to(&mut call.headers);
        let answer = bucket.wire.send(&call).await?;
        Ok(Self {
            bucket: bucket.clone(),
            key: key.to_owned(),
            id: xml::parse_upload_id(&answer.whole)?,
            is_over: false,
        })
    }

    fn part_request(&self, number: u64) -> S3Request {
        S3Request::new(S3Operation::Multipart, Method::PUT, &self.key)
            .query("partNumber", number.to_string())
            .query("uploadId", &self.id)
    }

    async fn put_piece(&self, piece: Result<NumberedPiece, S3RequestError>) -> Result<UploadedPart, S3RequestError> {
        let (number, bytes) = piece?;
        let answer = self.bucket.wire.send(&self.part_request(number).body(bytes)).await?;
        let tag = tag_of_headers(&answer.headers).ok_or(S3RequestError::NoUpload)?;
        Ok(UploadedPart { number, tag })
    }

    async fn copy_part(
        &self,
        number: u64,
        from: &str,
        tag: &str,
        range: Range<u64>,
    ) -> Result<UploadedPart, S3RequestError> {
        let call = self
            .part_request(number)
            .header("x-amz-copy-source", &self.bucket.copy_source(from))
            .header("x-amz-copy-source-if-match", &quote_tag(tag))
            .header(
                "x-amz-copy-source-range",
                &format!("bytes={}-{}", range.start, range.end - 1),
            );
        let answer = self.bucket.wire.send(&call).await?;
        let tag = xml::parse_tag(&answer.whole)?;
        Ok(UploadedPart { number, tag })
    }

    async fn complete(
        mut self,
        parts: Vec<UploadedPart>,
        condition: WriteCondition<'_>,
    ) -> Result<String, S3RequestError> {
        let call = S3Request::new(S3Operation::Multipart, Method::POST, &self.key)
            .query("uploadId", &self.id)
            .body(parts_manifest(&parts).into());
        let outcome = self.bucket.wire.send(&condition.add_to(call)).await;
        match outcome.and_then(|answer| xml::parse_tag(&answer.whole)) {
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

    /// Tells the server to delete the parts.
    async fn abort(mut self) {
        self.is_over = true;
        // The permission may be missing; parts that stay cost space, not correctness.
        let _ = self.bucket.wire.send(&abort_call(&self.key, &self.id)).await;
    }
}

impl Drop for MultipartUpload {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Outside a runtime no request can be sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (bucket, call) = (self.bucket.clone(), abort_call(&self.key, &self.id));
        runtime.spawn(async move {
            let _ = bucket.wire.send(&call).await;
        });
    }
}

fn abort_call(key: &str, id: &str) -> S3Request {
    S3Request::new(S3Operation::Abort, Method::DELETE, key).query("uploadId", id)
}

fn parts_manifest(parts: &[UploadedPart]) -> String {
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

/// Returns the content as a stream of numbered pieces.
fn content_pieces(content: Content, size: u64) -> impl futures::Stream<Item = Result<NumberedPiece, S3RequestError>> {
    let begin = PieceReader {
        content: Some(content),
        reader: None,
        number: 0,
    };
    futures::stream::try_unfold(begin, move |state| async move {
        // A content may come from a file, so it is read on a thread that may block.
        let read = garret_handles::run_blocking(move || state.read_next(size)).await;
        read.map_err(S3RequestError::Local)
    })
}

/// The number and the bytes of a part.
type NumberedPiece = (u64, Bytes);

struct PieceReader {
    content: Option<Content>,
    reader: Option<ContentReader>,
    number: u64,
}

impl PieceReader {
    fn read_next(mut self, size: u64) -> Result<Option<(NumberedPiece, Self)>, Error> {
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
    fn ranges_cover_everything_and_none_is_short() {
        let all = |size, part| part_ranges(size, part).collect::<Vec<_>>();
        assert_eq!(all(25, 10), [0..10, 10..25]);
        assert_eq!(all(20, 10), [0..10, 10..20]);
        assert_eq!(all(5, 10), std::slice::from_ref(&(0..5)));
        assert!(all(0, 10).is_empty());
    }

    #[test]
    fn a_manifest_names_each_part() {
        let parts = [UploadedPart {
            number: 1,
            tag: "a".into(),
        }];
        assert_eq!(
            parts_manifest(&parts),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part></CompleteMultipartUpload>"
        );
    }

    #[tokio::test]
    async fn content_comes_in_pieces_to_its_end() {
        let content = Content::from(vec![7; 25]);
        let pieces: Vec<_> = content_pieces(content, 10).map(|piece| piece.unwrap()).collect().await;
        let lengths: Vec<_> = pieces.iter().map(|(number, bytes)| (*number, bytes.len())).collect();
        assert_eq!(lengths, [(1, 10), (2, 10), (3, 5)]);
    }
}
