//! The verbs of S3 on one bucket: keys in, objects out.
//!
//! Nothing here knows of paths or directories, and nothing decides the meaning of a failed condition.

use std::ops::Range;

use bytes::Bytes;
use garret_core::Timestamp;
use http::{HeaderMap, Method};

use super::metadata::ObjectMetadata;
use super::wire::failure::S3RequestError;
use super::wire::request::{S3Operation, S3Request};
use super::wire::xml::{self, S3ListPage};
use super::wire::{HttpAnswer, RequestCounts, S3Client, encode, header_text};

/// The largest number of keys in a page; servers give no more than that.
pub(super) const PAGE: usize = 1_000;

/// An object, as its headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct S3Object {
    /// The ETag without its quotes.
    pub(super) tag: String,
    pub(super) size: u64,
    /// The modification time, to the second.
    pub(super) modified: Option<Timestamp>,
    pub(super) metadata: ObjectMetadata,
}

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteCondition<'a> {
    /// No condition.
    Any,
    /// No object is at the key.
    Absent,
    /// The object at the key has this ETag.
    Tag(&'a str),
}

impl WriteCondition<'_> {
    /// Adds the condition to a request.
    pub(super) fn add_to(self, call: S3Request) -> S3Request {
        match self {
            Self::Any => call,
            Self::Absent => call.header("if-none-match", "*"),
            Self::Tag(tag) => call.header("if-match", &quote_tag(tag)),
        }
    }

    /// Returns whether the condition holds for the object at the key.
    pub(super) fn holds_for(self, object: Option<&S3Object>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => object.is_none(),
            Self::Tag(tag) => object.is_some_and(|object| object.tag == tag),
        }
    }
}

/// An object whose content is still being received.
#[derive(Debug)]
pub(super) struct ObjectDownload {
    pub(super) object: S3Object,
    /// The number of bytes in the body.
    pub(super) length: u64,
    pub(super) answer: HttpAnswer,
}

/// The parameters of a list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListCall<'a> {
    pub(super) prefix: &'a str,
    /// Whether all keys below a further `/` are one entry.
    pub(super) is_shallow: bool,
    /// The key after which the list begins.
    pub(super) after: Option<&'a str>,
    /// The continuation token of the page before.
    pub(super) token: Option<&'a str>,
    pub(super) limit: usize,
}

/// The parameters of a copy on the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopyCall<'a> {
    pub(super) from: &'a str,
    /// The ETag that the source must have.
    pub(super) tag: &'a str,
    pub(super) to: &'a str,
    pub(super) metadata: &'a ObjectMetadata,
    pub(super) condition: WriteCondition<'a>,
}

/// A bucket on a server.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) wire: S3Client,
}

impl Bucket {
    pub(super) fn requests(&self) -> RequestCounts {
        self.wire.requests()
    }

    /// Returns the headers of an object; `None` if it does not exist.
    pub(super) async fn head(&self, key: &str) -> Result<Option<S3Object>, S3RequestError> {
        match self
            .wire
            .send(&S3Request::new(S3Operation::Head, Method::HEAD, key))
            .await
        {
            Ok(answer) => {
                let size = content_length(&answer.headers).unwrap_or(0);
                Ok(Some(object_from_headers(&answer.headers, size)))
            }
            Err(S3RequestError::NotFound) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Begins to read an object or a part of it; fails if `tag` is given and the object has another.
    pub(super) async fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        tag: Option<&str>,
    ) -> Result<ObjectDownload, S3RequestError> {
        let mut call = S3Request::new(S3Operation::Get, Method::GET, key).stream_answer();
        if let Some(range) = &range {
            call = call.header("range", &format_range(range));
        }
        if let Some(tag) = tag {
            call = call.header("if-match", &quote_tag(tag));
        }
        let answer = self.wire.send(&call).await?;
        if let (Some(wanted), Some(sent)) = (tag, tag_of_headers(&answer.headers))
            && wanted != sent
        {
            // The server ignores the condition and sends a part of another version.
            self.wire.identity().mark_contradicted();
            return Err(S3RequestError::Precondition);
        }
        let length = content_length(&answer.headers)
            .ok_or_else(|| broken_answer("the server does not report the size of the object"))?;
        let size = match header_text(&answer.headers, "content-range") {
            Some(range) => {
                whole_size(range).ok_or_else(|| broken_answer("the server does not report the range that it sends"))?
            }
            None => length,
        };
        let object = object_from_headers(&answer.headers, size);
        Ok(ObjectDownload { object, length, answer })
    }

    /// Writes an object in one piece; returns its ETag.
    pub(super) async fn put(
        &self,
        key: &str,
        body: Bytes,
        metadata: &ObjectMetadata,
        condition: WriteCondition<'_>,
    ) -> Result<String, S3RequestError> {
        let mut call = condition.add_to(S3Request::new(S3Operation::Put, Method::PUT, key).body(body));
        if key.ends_with('/') {
            metadata.add_to_marker(&mut call.headers);
        } else {
            metadata.add_to(&mut call.headers);
        }
        let answer = self.wire.send(&call).await?;
        tag_of_headers(&answer.headers).ok_or_else(|| {
            self.wire.identity().mark_contradicted();
            broken_answer("the server does not report the version that it wrote")
        })
    }

    /// Removes an object; without a `tag`, a missing object is no error.
    pub(super) async fn delete(&self, key: &str, tag: Option<&str>) -> Result<(), S3RequestError> {
        let mut call = S3Request::new(S3Operation::Delete, Method::DELETE, key);
        if let Some(tag) = tag {
            call = call.header("if-match", &quote_tag(tag));
        }
        match self.wire.send_counting_retries(&call).await {
            (Ok(_), _) => Ok(()),
            (Err(S3RequestError::NotFound), _) if tag.is_none() => Ok(()),
            // The object is gone: an earlier attempt removed it, and its answer was lost.
            (Err(S3RequestError::Precondition | S3RequestError::NotFound), 1..) if self.head(key).await?.is_none() => {
                Ok(())
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// Copies an object on the server, with new headers; returns the ETag of the copy.
    pub(super) async fn copy(&self, copy: CopyCall<'_>) -> Result<String, S3RequestError> {
        let call = S3Request::new(S3Operation::Copy, Method::PUT, copy.to)
            .header("x-amz-copy-source", &self.copy_source(copy.from))
            .header("x-amz-copy-source-if-match", &quote_tag(copy.tag))
            .header("x-amz-metadata-directive", "REPLACE");
        let mut call = copy.condition.add_to(call);
        copy.metadata.add_to(&mut call.headers);
        let answer = self.wire.send(&call).await?;
        xml::parse_tag(&answer.whole)
    }

    /// Returns the name of a key as the source of a copy.
    pub(super) fn copy_source(&self, key: &str) -> String {
        format!(
            "/{}/{}",
            encode::encode_query(self.wire.bucket()),
            encode::encode_path(key)
        )
    }

    /// Requests one page of a list.
    pub(super) async fn list(&self, list: &ListCall<'_>) -> Result<S3ListPage, S3RequestError> {
        let mut call = S3Request::new(S3Operation::List, Method::GET, "")
            .query("list-type", "2")
            .query("encoding-type", "url")
            .query("max-keys", list.limit.clamp(1, PAGE).to_string())
            .query("prefix", list.prefix);
        if list.is_shallow {
            call = call.query("delimiter", "/");
        }
        if let Some(after) = list.after {
            call = call.query("start-after", after);
        }
        if let Some(token) = list.token {
            call = call.query("continuation-token", token);
        }
        xml::parse_page(&self.wire.send(&call).await?.whole)
    }

    /// Requests every page of a list.
    pub(super) async fn list_all(&self, prefix: &str, is_shallow: bool) -> Result<S3ListPage, S3RequestError> {
        let first = ListCall {
            prefix,
            is_shallow,
            limit: PAGE,
            ..ListCall::default()
        };
        self.list_remaining(&first, self.list(&first).await?).await
    }

    /// Requests the pages after `first`; returns all pages as one.
    pub(super) async fn list_remaining(
        &self,
        list: &ListCall<'_>,
        first: S3ListPage,
    ) -> Result<S3ListPage, S3RequestError> {
        let mut whole = S3ListPage::default();
        let mut token: Option<String> = None;
        let (prefix, mut first) = (list.prefix, Some(first));
        loop {
            let page = match first.take() {
                Some(page) => page,
                None => {
                    let next = ListCall {
                        token: token.as_deref(),
                        ..*list
                    };
                    self.list(&next).await?
                }
            };
            let unfinished = unfinished_marker(&page);
            whole.objects.extend(page.objects);
            whole.prefixes.extend(page.prefixes);
            if let Some(marker) = unfinished.filter(|marker| marker != prefix) {
                let rest = Box::pin(self.list_all(&marker, false)).await?;
                whole
                    .objects
                    .extend(rest.objects.into_iter().filter(|object| object.key != marker));
            }
            match page.next {
                // A server that gives the same token twice would never end.
                Some(next) if token.as_ref() != Some(&next) => token = Some(next),
                _ => return Ok(whole),
            }
        }
    }
}

/// Returns the marker at the end of a full page that claims to be the last.
fn unfinished_marker(page: &S3ListPage) -> Option<String> {
    // SeaweedFS leaves out the keys below a marker that ends a full page.
    let is_full = page.objects.len() >= PAGE && page.prefixes.is_empty() && page.next.is_none();
    let last = page.objects.last().filter(|_| is_full)?;
    last.key.ends_with('/').then(|| last.key.clone())
}

/// Returns an ETag in the form that headers need.
pub(super) fn quote_tag(tag: &str) -> String {
    if tag.starts_with("W/") {
        tag.to_owned()
    } else {
        format!("\"{tag}\"")
    }
}

pub(super) fn tag_of_headers(headers: &HeaderMap) -> Option<String> {
    header_text(headers, "etag").map(|tag| xml::unquote_tag(tag).to_owned())
}

fn object_from_headers(headers: &HeaderMap, size: u64) -> S3Object {
    S3Object {
        tag: tag_of_headers(headers).unwrap_or_default(),
        size,
        modified: header_text(headers, "last-modified").and_then(read_date),
        metadata: ObjectMetadata::from_headers(headers),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    header_text(headers, "content-length")?.parse().ok()
}

/// Returns a range as the value of a header.
fn format_range(range: &Range<u64>) -> String {
    // Servers read the end as a signed number, so a larger one is left out.
    if range.end > i64::MAX as u64 {
        format!("bytes={}-", range.start)
    } else {
        format!("bytes={}-{}", range.start, range.end - 1)
    }
}

/// Returns the size in `bytes 0-9/100`.
fn whole_size(range: &str) -> Option<u64> {
    range.rsplit_once('/')?.1.parse().ok()
}

fn read_date(text: &str) -> Option<Timestamp> {
    static PARSER: jiff::fmt::rfc2822::DateTimeParser = jiff::fmt::rfc2822::DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

fn broken_answer(why: &str) -> S3RequestError {
    S3RequestError::Local(
        garret_core::Error::new(garret_core::ErrorKind::Unavailable, why).hint("check that `endpoint` is an S3 server"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_ranges_of_headers_are_read() {
        assert_eq!(
            read_date("Mon, 16 Nov 2026 05:40:00 GMT"),
            "2026-11-16T05:40:00Z".parse().ok()
        );
        assert_eq!(whole_size("bytes 0-9/100"), Some(100));
        assert_eq!(whole_size("bytes 0-9/*"), None);
        assert_eq!(format_range(&(5..10)), "bytes=5-9");
        assert_eq!(format_range(&(5..u64::MAX)), "bytes=5-");
    }

    #[test]
    fn a_tag_has_its_quotes_on_the_wire_only() {
        assert_eq!(quote_tag("abc-2"), "\"abc-2\"");
        assert_eq!(quote_tag("W/\"abc\""), "W/\"abc\"");
        assert_eq!(xml::unquote_tag("\"abc\""), "abc");
    }

    #[test]
    fn a_condition_holds_or_not() {
        let object = S3Object {
            tag: "t".into(),
            size: 0,
            modified: None,
            metadata: ObjectMetadata::default(),
        };
        assert!(
            WriteCondition::Any.holds_for(None)
                && WriteCondition::Absent.holds_for(None)
                && !WriteCondition::Tag("t").holds_for(None)
        );
        assert!(
            WriteCondition::Tag("t").holds_for(Some(&object)) && !WriteCondition::Tag("u").holds_for(Some(&object))
        );
        assert!(!WriteCondition::Absent.holds_for(Some(&object)));
    }
}
