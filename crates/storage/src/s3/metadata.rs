//! The metadata that is stored with an object.
//!
//! S3 stores headers with an object and returns them with it, but not in lists. Garret has few of its own: the creation
//! time of the file, its mode, the target of a link, and the ids of the last writes. All other headers are kept, so
//! that an overwrite or a copy loses nothing.

use garret_core::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::wire::encode;

const CREATED: &str = "x-amz-meta-garret-created";
const MODE: &str = "x-amz-meta-garret-mode";
const WRITE: &str = "x-amz-meta-garret-write";
const SYMLINK: &str = "x-amz-meta-garret-symlink";
const USER: &str = "x-amz-meta-";
const DIRECTORY: &str = "application/x-directory";

/// The number of write ids that an object keeps: as many other writes may come between a lost answer and the HEAD
/// request that clears it up.
const WRITES_KEPT: usize = 12;

/// Standard headers that describe the content; S3 returns them as they were sent.
const STANDARD: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
];

/// The headers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ObjectMetadata {
    /// The creation time of the file, if Garret made it.
    pub(super) created: Option<Timestamp>,
    /// The permission bits, if they were ever set.
    pub(super) mode: Option<u32>,
    /// The target of the link, if it is one.
    pub(super) target: Option<String>,
    /// The ids of the last writes, newest first.
    pub(super) writes: Vec<String>,
    pub(super) others: Vec<(HeaderName, HeaderValue)>,
}

impl ObjectMetadata {
    /// Returns the metadata of a new object.
    pub(super) fn new(created: Timestamp) -> Self {
        Self {
            created: Some(created),
            ..Self::default()
        }
    }

    /// Reads the metadata from the headers of an answer.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let marker = headers
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .filter(|kind| kind.starts_with(DIRECTORY))
            .unwrap_or_default();
        Self {
            created: text(CREATED)
                .or(content_type_parameter(marker, "created"))
                .and_then(|text| text.parse().ok()),
            mode: text(MODE)
                .or(content_type_parameter(marker, "mode"))
                .and_then(read_mode),
            target: text(SYMLINK).and_then(read_target),
            writes: text(WRITE).map(read_writes).unwrap_or_default(),
            others: other_headers(headers),
        }
    }

    /// Adds the headers to a request.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.others {
            headers.insert(name.clone(), value.clone());
        }
        let mut add = |name: &'static str, value: String| {
            let value = HeaderValue::from_str(&value).expect("it is made of visible ASCII");
            headers.insert(HeaderName::from_static(name), value);
        };
        if let Some(created) = self.created {
            add(CREATED, created.to_string());
        }
        if let Some(mode) = self.mode {
            add(MODE, format_mode(mode));
        }
        if let Some(target) = &self.target {
            add(SYMLINK, encode::encode_path(target));
        }
        if !self.writes.is_empty() {
            add(WRITE, self.writes.join(","));
        }
    }

    /// Adds the headers of a directory marker to a request.
    pub(super) fn add_to_marker(&self, headers: &mut HeaderMap) {
        self.add_to(headers);
        // Mode and time go into the content type, too, because SeaweedFS keeps no other header of a key that ends with
        // a slash.
        let mut kind = DIRECTORY.to_owned();
        if let Some(mode) = self.mode {
            kind.push_str(&format!("; mode={}", format_mode(mode)));
        }
        if let Some(created) = self.created {
            kind.push_str(&format!("; created={created}"));
        }
        let kind = HeaderValue::from_str(&kind).expect("it is made of visible ASCII");
        headers.insert(header::CONTENT_TYPE, kind);
    }

    /// Returns the metadata with the id of one more write.
    pub(super) fn with_write(mut self, id: &str) -> Self {
        self.writes.insert(0, id.to_owned());
        self.writes.truncate(WRITES_KEPT);
        self
    }

    /// Returns whether the write with this id is among the last ones.
    pub(super) fn has_write(&self, id: &str) -> bool {
        self.writes.iter().any(|write| write == id)
    }
}

fn other_headers(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let ours = [CREATED, MODE, WRITE, SYMLINK];
    let is_other = |name: &HeaderName| {
        STANDARD.contains(name) || name.as_str().starts_with(USER) && !ours.contains(&name.as_str())
    };
    headers
        .iter()
        .filter(|(name, _)| is_other(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn format_mode(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

fn read_mode(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o7777)
}

fn read_target(text: &str) -> Option<String> {
    String::from_utf8(encode::percent_decode(text, encode::PlusSign::Kept)).ok()
}

fn read_writes(text: &str) -> Vec<String> {
    text.split(',')
        .map(|id| id.trim().to_owned())
        .take(WRITES_KEPT)
        .collect()
}

/// Returns the value of a parameter of a content type.
fn content_type_parameter<'a>(kind: &'a str, name: &str) -> Option<&'a str> {
    kind.split(';')
        .filter_map(|part| part.trim().split_once('='))
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> ObjectMetadata {
        ObjectMetadata {
            created: Some("2026-11-16T05:00:00.123456789Z".parse().unwrap()),
            mode: Some(0o750),
            target: Some("../日本 x%20".into()),
            writes: vec!["w2".into(), "w1".into()],
            others: vec![
                (header::CONTENT_TYPE, HeaderValue::from_static("text/plain")),
                (
                    HeaderName::from_static("x-amz-meta-colour"),
                    HeaderValue::from_static("red"),
                ),
            ],
        }
    }

    #[test]
    fn what_is_sent_is_read_back() {
        let mut headers = HeaderMap::new();
        whole().add_to(&mut headers);
        assert_eq!(ObjectMetadata::from_headers(&headers), whole());
    }

    #[test]
    fn a_marker_keeps_mode_and_time_in_its_content_type() {
        let mut headers = HeaderMap::new();
        whole().add_to_marker(&mut headers);
        headers.retain_content_type();
        let read = ObjectMetadata::from_headers(&headers);
        assert_eq!((read.mode, read.created), (Some(0o750), whole().created));
    }

    trait Retain {
        fn retain_content_type(&mut self);
    }

    impl Retain for HeaderMap {
        fn retain_content_type(&mut self) {
            let kind = self.get(header::CONTENT_TYPE).cloned().unwrap();
            self.clear();
            self.insert(header::CONTENT_TYPE, kind);
        }
    }

    #[test]
    fn the_last_writes_are_remembered() {
        let mut metadata = ObjectMetadata::default();
        for turn in 0..WRITES_KEPT + 1 {
            metadata = metadata.with_write(&format!("w{turn}"));
        }
        assert!(!metadata.has_write("w0"));
        assert!(metadata.has_write("w1") && metadata.has_write(&format!("w{WRITES_KEPT}")));
    }

    #[test]
    fn an_object_of_others_has_nothing_of_ours() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-meta-garret-mode", HeaderValue::from_static("rwx"));
        headers.insert("etag", HeaderValue::from_static("\"x\""));
        assert_eq!(ObjectMetadata::from_headers(&headers), ObjectMetadata::default());
    }
}
