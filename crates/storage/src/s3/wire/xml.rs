//! The few XML answers of S3.

use garret_core::{Error, ErrorKind, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::encode::{self, PlusSign};
use super::failure::S3RequestError;

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct S3ListPage {
    /// The objects.
    pub(in super::super) objects: Vec<ListedObject>,
    /// The common prefixes, up to and with the delimiter.
    pub(in super::super) prefixes: Vec<String>,
    /// The continuation token of the next page; `None` for the last.
    pub(in super::super) next: Option<String>,
}

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ListedObject {
    pub(in super::super) key: String,
    pub(in super::super) tag: String,
    pub(in super::super) size: u64,
    /// The modification time, to the second, as a HEAD request gives it.
    pub(in super::super) modified: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawPage {
    #[serde(default)]
    contents: Vec<RawObject>,
    #[serde(default)]
    common_prefixes: Vec<RawPrefix>,
    next_continuation_token: Option<String>,
    #[serde(default)]
    is_truncated: bool,
    encoding_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawObject {
    key: String,
    #[serde(default)]
    size: u64,
    last_modified: Option<String>,
    #[serde(rename = "ETag", default)]
    tag: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawPrefix {
    prefix: String,
}

/// Reads a page of ListObjectsV2.
pub(in super::super) fn parse_page(body: &[u8]) -> Result<S3ListPage, S3RequestError> {
    let raw: RawPage = parse_xml(body)?;
    let is_encoded = raw.encoding_type.as_deref() == Some("url");
    let plain = |text: String| -> Option<String> {
        if !is_encoded {
            return Some(text);
        }
        String::from_utf8(encode::percent_decode(&text, PlusSign::Space)).ok()
    };
    let objects = raw.contents.into_iter().filter_map(|object| {
        Some(ListedObject {
            key: plain(object.key)?,
            tag: unquote_tag(&object.tag).to_owned(),
            size: object.size,
            // A list has milliseconds and a HEAD request has not; the two times are compared.
            modified: object.last_modified.as_deref().and_then(to_the_second),
        })
    });
    Ok(S3ListPage {
        objects: objects.collect(),
        prefixes: raw
            .common_prefixes
            .into_iter()
            .filter_map(|prefix| plain(prefix.prefix))
            .collect(),
        next: raw.next_continuation_token.filter(|_| raw.is_truncated),
    })
}

fn to_the_second(text: &str) -> Option<Timestamp> {
    let time: Timestamp = text.parse().ok()?;
    Timestamp::from_second(time.as_second()).ok()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawTag {
    #[serde(rename = "ETag")]
    tag: String,
}

/// Returns the ETag in the answer to a copy or a completed upload.
pub(in super::super) fn parse_tag(body: &[u8]) -> Result<String, S3RequestError> {
    parse_xml::<RawTag>(body).map(|tagged| unquote_tag(&tagged.tag).to_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawUpload {
    upload_id: String,
}

/// Returns the id in the answer to the start of an upload in parts.
pub(in super::super) fn parse_upload_id(body: &[u8]) -> Result<String, S3RequestError> {
    parse_xml::<RawUpload>(body).map(|started| started.upload_id)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawError {
    code: String,
}

/// Returns the code of an error document; `None` for any other document.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body.get(..body.len().min(64 * 1024))?).ok()?;
    let after = text.find("<Error>").map(|at| &text[at..])?;
    let error: RawError = quick_xml::de::from_str(after).ok()?;
    let is_plain = error.code.chars().all(|c| c.is_ascii_alphanumeric());
    // The code is shown to users, so it must not hold arbitrary text.
    (is_plain && error.code.len() <= 64).then_some(error.code)
}

/// Returns an ETag without its quotes.
pub(in super::super) fn unquote_tag(tag: &str) -> &str {
    tag.strip_prefix('"')
        .and_then(|tag| tag.strip_suffix('"'))
        .unwrap_or(tag)
}

fn parse_xml<T: DeserializeOwned>(body: &[u8]) -> Result<T, S3RequestError> {
    let senseless = || {
        S3RequestError::Local(
            Error::new(ErrorKind::Unavailable, "the answer of the server is not valid")
                .hint("check that `endpoint` is an S3 server"),
        )
    };
    let text = std::str::from_utf8(body).map_err(|_| senseless())?;
    quick_xml::de::from_str(text).map_err(|_| senseless())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_with_its_keys_decoded() {
        let body = br#"<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
            <IsTruncated>true</IsTruncated><EncodingType>url</EncodingType><NextContinuationToken>t</NextContinuationToken>
            <Contents><Key>a%2Bb+c%0A</Key><LastModified>2026-11-16T05:00:00.987Z</LastModified><ETag>&quot;x&quot;</ETag><Size>3</Size></Contents>
            <CommonPrefixes><Prefix>d%20e/</Prefix></CommonPrefixes>
            <Contents><Key>z</Key><ETag>"y"</ETag><Size>0</Size></Contents></ListBucketResult>"#;
        let page = parse_page(body).unwrap();
        assert_eq!(page.objects[0].key, "a+b c\n");
        assert_eq!(page.objects[0].tag, "x");
        assert_eq!(page.objects[0].modified, "2026-11-16T05:00:00Z".parse().ok());
        assert_eq!(page.objects[1].key, "z");
        assert_eq!(page.prefixes, ["d e/"]);
        assert_eq!(page.next.as_deref(), Some("t"));
    }

    #[test]
    fn an_empty_page_is_the_last() {
        let page = parse_page(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>").unwrap();
        assert_eq!(page, S3ListPage::default());
    }

    #[test]
    fn an_error_gives_its_code_and_nothing_else() {
        let body = b"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>secret things</Message></Error>";
        assert_eq!(error_code(body).as_deref(), Some("SlowDown"));
        assert_eq!(error_code(b"<ListBucketResult/>"), None);
        assert_eq!(error_code(b"<Error><Code>rm -rf /</Code></Error>"), None);
        assert_eq!(error_code(b"not xml"), None);
    }

    #[test]
    fn a_file_that_holds_xml_is_no_answer() {
        assert!(parse_tag(b"<html>").is_err());
    }
}
