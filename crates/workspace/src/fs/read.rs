//! Reading a file: all of it, a window of lines, or a range of bytes.
//!
//! A window is found by reading pieces in order, so that a page of a large file costs memory for the page alone. The
//! last lines are found by reading pieces from the end.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::{
    Access, Error, ErrorKind, Precondition, ReadOptions, ReadResult, Result, Version, trim_partial_start,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::fs::content_type::{image_type, is_text};
use crate::text::edit::MAX_RESULT_BYTES;
use crate::{Encoding, FileContent, ReadRange, Workspace};

/// Bytes that are read from the storage at a time.
const PIECE: u64 = 1 << 20;

/// The unit in which `offset` and `limit` count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadUnit {
    /// Lines.
    #[default]
    Lines,
    /// Bytes.
    Bytes,
}

/// The part of a file to read, and its encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// The unit in which `offset` and `limit` count.
    pub unit: ReadUnit,
    /// How many lines or bytes are skipped.
    pub offset: u64,
    /// The most lines or bytes that are returned.
    pub limit: Option<u64>,
    /// Reads only this number of lines at the end of a text; with `limit`, the smaller number counts. A large file is
    /// read from its end. Cannot be combined with `offset` or with bytes.
    pub tail: Option<u64>,
    /// The encoding of the returned content; by default, text if the bytes are UTF-8 and base64 otherwise.
    pub encoding: Option<Encoding>,
    /// The most bytes that are returned, whatever the limit; the rest is another page.
    pub max_bytes: Option<u64>,
    /// Whether a file whose first bytes are not text is counted in bytes and returned as base64, whatever `unit` and
    /// `encoding` say. So a caller who does not know the type of a file can page through it.
    pub bytes_if_binary: bool,
    /// The largest image that is returned whole, whatever limit and page; only with `bytes_if_binary` and without an
    /// offset.
    pub max_image_bytes: Option<u64>,
}

impl FileContent {
    /// Returns how many bytes of the file the content represents.
    fn decoded_len(&self) -> u64 {
        let length = self.content.len() as u64;
        match self.encoding {
            Encoding::Utf8 => length,
            Encoding::Base64 => {
                length / 4 * 3 - self.content.bytes().rev().take_while(|byte| *byte == b'=').count() as u64
            }
        }
    }
}

/// The bytes of a part of a file, before they are encoded.
struct ReadWindow {
    bytes: Bytes,
    size: u64,
    version: Version,
    start: u64,
    end: u64,
    eof: bool,
    line_cut: bool,
}

/// The result of reading a window of lines.
enum LineWindowOutcome {
    Window(ReadWindow),
    /// The file is not text; for an image, its size.
    Binary {
        image_size: Option<u64>,
    },
}

impl Workspace {
    /// Reads a file, whole or a part.
    pub async fn read(&self, path: &str, request: ReadRequest) -> Result<FileContent> {
        let moved = FileContent::decoded_len;
        let files = self.files.remembering_hard_links();
        self.run_operation("read_file", &[path], moved, files.read_part(path, &request))
            .await
    }

    /// Reads a whole file as bytes, with its version.
    pub async fn read_bytes(&self, path: &str) -> Result<ReadResult> {
        let moved = |result: &ReadResult| result.bytes.len() as u64;
        let work = async {
            self.files
                .read_whole(&self.files.admit(path, PathSubject::Content, &[Access::Read]).await?)
                .await
        };
        self.run_operation("read_file", &[path], moved, work).await
    }
}

impl FileAccess {
    async fn read_part(&self, path: &str, request: &ReadRequest) -> Result<FileContent> {
        let target = self.admit(path, PathSubject::Content, &[Access::Read]).await?;
        let reader = WindowReader {
            files: self,
            target: &target,
            request,
        };
        let (window, unit, wanted) = reader.read_window().await?;
        let is_all = window.start == 0 && window.eof && !window.line_cut;
        let range = ReadRange {
            unit,
            start: window.start,
            end: window.end,
        };
        let (content, encoding) = encode_bytes(&window.bytes, wanted, &target)?;
        Ok(FileContent {
            path: target.shown.to_string(),
            content,
            encoding,
            version: window.version,
            size: window.size,
            range: (!is_all).then_some(range),
            next_offset: (!window.eof).then_some(window.end),
            eof: window.eof,
            line_cut: window.line_cut,
        })
    }

    /// Returns the most bytes that the policies of this view let one read return; `None` if they set no limit.
    pub(crate) fn read_limit(&self) -> Option<u64> {
        let limits = self.view.layers.iter().filter_map(|layer| layer.rules.max_read_bytes());
        limits.chain(self.source.access_limits.max_read_bytes).min()
    }

    async fn read_whole(&self, target: &AdmittedPath) -> Result<ReadResult> {
        let options = ReadOptions {
            follow: target.follow,
            max_bytes: self.read_limit(),
            ..ReadOptions::default()
        };
        self.read_admitted(target, options).await
    }

    /// Reads a file whose text is about to be changed, if `precondition` holds. Its size is limited even if no policy
    /// sets a limit.
    pub(crate) async fn read_to_change(&self, target: &AdmittedPath, precondition: Precondition) -> Result<ReadResult> {
        // Edits and patches hold the content in memory several times over.
        let most = MAX_RESULT_BYTES as u64;
        let options = ReadOptions {
            follow: target.follow,
            max_bytes: Some(self.read_limit().map_or(most, |limit| limit.min(most))),
            precondition,
            ..ReadOptions::default()
        };
        self.read_admitted(target, options).await
    }
}

/// Reads a part of one file, as a request wants it.
struct WindowReader<'a> {
    files: &'a FileAccess,
    target: &'a AdmittedPath,
    request: &'a ReadRequest,
}

impl WindowReader<'_> {
    /// Reads the requested bytes; returns them with the unit that the window counts in, and the encoding of the answer.
    async fn read_window(&self) -> Result<(ReadWindow, ReadUnit, Option<Encoding>)> {
        if let Some(lines) = self.request.tail {
            let lines = lines.min(self.request.limit.unwrap_or(u64::MAX));
            let (window, unit) = self.tail_window(lines).await?;
            return Ok((window, unit, self.request.encoding));
        }
        let is_whole = self.request.offset == 0 && self.request.limit.is_none() && self.request.max_bytes.is_none();
        let window = match self.request.unit {
            unit if is_whole && !self.request.bytes_if_binary => {
                return Ok((self.whole_window().await?, unit, self.request.encoding));
            }
            ReadUnit::Bytes => self.byte_window().await?,
            ReadUnit::Lines => match self.line_window().await? {
                LineWindowOutcome::Window(window) => window,
                LineWindowOutcome::Binary { image_size } => {
                    let window = self.binary_window(image_size).await?;
                    return Ok((window, ReadUnit::Bytes, Some(Encoding::Base64)));
                }
            },
        };
        Ok((window, self.request.unit, self.request.encoding))
    }

    /// Reads a file that is not text: an image as a whole if it is small enough, else a range of bytes.
    async fn binary_window(&self, image_size: Option<u64>) -> Result<ReadWindow> {
        let largest = self
            .request
            .max_image_bytes
            .map(|largest| largest.min(self.files.read_limit().unwrap_or(u64::MAX)));
        match (image_size, largest) {
            (Some(size), Some(largest)) if self.request.offset == 0 && size <= largest => self.whole_window().await,
            _ => self.byte_window().await,
        }
    }

    async fn whole_window(&self) -> Result<ReadWindow> {
        let whole = self.files.read_whole(self.target).await?;
        Ok(ReadWindow {
            start: 0,
            end: 0,
            eof: true,
            line_cut: false,
            bytes: whole.bytes,
            size: whole.size,
            version: whole.version,
        })
    }

    fn page_bytes(&self) -> u64 {
        let limits = self.files.read_limit().into_iter().chain(self.request.max_bytes);
        limits.min().unwrap_or(u64::MAX)
    }

    async fn byte_window(&self) -> Result<ReadWindow> {
        let length = self.request.limit.unwrap_or(u64::MAX).min(self.page_bytes());
        let range = self.request.offset..self.request.offset.saturating_add(length);
        let read = self.read_range(range).await?;
        let end = self.request.offset + read.bytes.len() as u64;
        Ok(ReadWindow {
            start: self.request.offset,
            end,
            eof: end >= read.size,
            line_cut: false,
            bytes: read.bytes,
            size: read.size,
            version: read.version,
        })
    }

    /// Reads a window of lines, piece by piece; begins again, a few times, if the file changes in between.
    async fn line_window(&self) -> Result<LineWindowOutcome> {
        for _ in 0..5 {
            if let Some(found) = self.try_line_window().await? {
                return Ok(found);
            }
        }
        Err(file_changes_error(self.target))
    }

    /// Reads the last lines of a text. The window counts lines, or bytes if the number of lines before it is not known.
    async fn tail_window(&self, lines: u64) -> Result<(ReadWindow, ReadUnit)> {
        if self.request.offset > 0 || self.request.unit == ReadUnit::Bytes || lines == 0 {
            return Err(Error::invalid(
                "`tail` counts lines from the end, so it cannot be combined with `offset` or `encoding`",
            )
            .hint("pass `tail` with a number above 0 and leave out `offset` and `encoding`"));
        }
        for _ in 0..5 {
            if let Some(found) = self.try_tail_window(lines).await? {
                return Ok(found);
            }
        }
        Err(file_changes_error(self.target))
    }

    async fn try_tail_window(&self, lines: u64) -> Result<Option<(ReadWindow, ReadUnit)>> {
        let first = self.read_range(0..PIECE).await?;
        if self.request.bytes_if_binary && !is_text(&first.bytes) {
            let message = format!(
                "{} is not a text file, so `tail` cannot be used",
                self.target.shown.to_quoted()
            );
            return Err(Error::invalid(message)
                .at_path(&self.target.shown)
                .hint("read its bytes with `encoding: \"base64\"` and `offset`"));
        }
        let size = first.size;
        let mut tail = TailWindow::new(lines, self.page_bytes());
        // A small file is in the first piece as a whole; for a large one, the piece only gave the size, and reading
        // begins at the end.
        let mut at = if size <= PIECE { 0 } else { size };
        if at == 0 {
            tail.feed(first.bytes.clone());
        }
        while at > 0 && !tail.is_full() {
            let start = at.saturating_sub(PIECE);
            let piece = self.read_range(start..at).await?;
            // Pieces of two versions would be put together to a text that the file never had.
            if piece.version != first.version {
                return Ok(None);
            }
            tail.feed(piece.bytes);
            at = start;
        }
        Ok(Some(tail.into_window(size, first.version, at == 0)))
    }

    async fn read_range(&self, range: Range<u64>) -> Result<ReadResult> {
        let options = ReadOptions {
            range: Some(range),
            follow: self.target.follow,
            ..ReadOptions::default()
        };
        self.files.read_admitted(self.target, options).await
    }

    async fn try_line_window(&self) -> Result<Option<LineWindowOutcome>> {
        let mut lines = LineWindow::new(self.request, self.page_bytes());
        let mut first: Option<Version> = None;
        let mut at = 0;
        loop {
            let piece = self.read_range(at..at + PIECE).await?;
            if first.get_or_insert_with(|| piece.version.clone()) != &piece.version {
                return Ok(None);
            }
            // Decided by the first piece alone, before any line is taken: a page far into the file must not be read as
            // text.
            if at == 0 && self.request.bytes_if_binary && !is_text(&piece.bytes) {
                let image_size = image_type(&piece.bytes).map(|_| piece.size);
                return Ok(Some(LineWindowOutcome::Binary { image_size }));
            }
            at += piece.bytes.len() as u64;
            let is_last = at >= piece.size || piece.bytes.is_empty();
            let is_full = lines.feed(&piece.bytes);
            if is_full || is_last {
                let window = lines.into_window(piece.size, piece.version, is_last && !is_full);
                return Ok(Some(LineWindowOutcome::Window(window)));
            }
        }
    }
}

/// Collects a window of lines from pieces of a file.
struct LineWindow {
    skip: u64,
    wanted: u64,
    max_bytes: usize,
    offset: u64,
    taken: u64,
    bytes: Vec<u8>,
    /// The length of `bytes` up to the end of the last whole line.
    whole: usize,
    overflowed: bool,
}

impl LineWindow {
    fn new(request: &ReadRequest, max_bytes: u64) -> Self {
        Self {
            skip: request.offset,
            wanted: request.limit.unwrap_or(u64::MAX),
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
            offset: request.offset,
            taken: 0,
            bytes: Vec::new(),
            whole: 0,
            overflowed: false,
        }
    }

    /// Adds a piece; returns true if the window is full and more bytes follow it.
    fn feed(&mut self, mut piece: &[u8]) -> bool {
        while !piece.is_empty() {
            if self.taken == self.wanted {
                return true;
            }
            let end = memchr::memchr(b'\n', piece).map(|newline| newline + 1);
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            piece = rest;
            if self.skip > 0 {
                self.skip -= u64::from(end.is_some());
                continue;
            }
            if self.bytes.len() + line.len() > self.max_bytes {
                self.cut_page(line);
                return true;
            }
            self.bytes.extend_from_slice(line);
            if end.is_some() {
                self.taken += 1;
                self.whole = self.bytes.len();
            }
        }
        false
    }

    /// Ends a full page with its last whole line, or within the line if it has no whole line.
    fn cut_page(&mut self, line: &[u8]) {
        self.overflowed = true;
        if self.taken > 0 {
            self.bytes.truncate(self.whole);
            return;
        }
        let room = self.max_bytes - self.bytes.len();
        self.bytes.extend_from_slice(&line[..room]);
        // Half a character would make the page invalid UTF-8, and so base64 instead of text.
        let cut = self.bytes.len() - cut_suffix_len(&self.bytes);
        self.bytes.truncate(cut);
    }

    fn into_window(self, size: u64, version: Version, eof: bool) -> ReadWindow {
        let line_cut = self.overflowed && self.taken == 0;
        let has_rest = !self.overflowed && self.bytes.len() > self.whole;
        let end = self.offset + self.taken + u64::from(line_cut || has_rest);
        ReadWindow {
            bytes: self.bytes.into(),
            size,
            version,
            start: self.offset,
            end,
            eof,
            line_cut,
        }
    }
}

fn file_changes_error(target: &AdmittedPath) -> Error {
    let message = format!("{} keeps changing while it is read", target.shown.to_quoted());
    Error::new(ErrorKind::Unavailable, message).at_path(&target.shown)
}

/// Collects the last lines from pieces that come from the end of a file to its start.
struct TailWindow {
    wanted: u64,
    max_bytes: usize,
    /// The pieces in reverse order: the last piece of the file is the first.
    pieces: Vec<Bytes>,
    bytes: usize,
    newlines: u64,
}

impl TailWindow {
    fn new(wanted: u64, max_bytes: u64) -> Self {
        Self {
            wanted,
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
            pieces: Vec::new(),
            bytes: 0,
            newlines: 0,
        }
    }

    /// Adds the piece that comes before the pieces added so far.
    fn feed(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.newlines += memchr::memchr_iter(b'\n', &piece).count() as u64;
        self.pieces.push(piece);
    }

    /// Whether no earlier piece can add to the window.
    fn is_full(&self) -> bool {
        // More newlines than wanted lines: the last newline of the file may only end its last line.
        self.bytes > self.max_bytes || self.newlines > self.wanted
    }

    /// Returns the window: the wanted lines, or as many of them as fit. It counts lines if `has_all` of the file was
    /// read, else bytes.
    fn into_window(mut self, size: u64, version: Version, has_all: bool) -> (ReadWindow, ReadUnit) {
        self.pieces.reverse();
        let mut all = self.pieces.concat();
        let mut start = start_of_lines(&all, self.wanted);
        let mut line_cut = false;
        if all.len() - start > self.max_bytes {
            let first = all.len() - self.max_bytes;
            let body = all.len() - usize::from(all.ends_with(b"\n"));
            // The line that contains `first` is left out, unless it is the last line or begins at `first`.
            let next = memchr::memchr(b'\n', &all[first - 1..body]).map(|newline| first + newline);
            line_cut = next.is_none();
            start = next.unwrap_or_else(|| all.len() - trim_partial_start(&all[first..]).len());
        }
        let first_line = memchr::memchr_iter(b'\n', &all[..start]).count() as u64;
        let bytes = all.split_off(start);
        let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        let lines = lines + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"));
        let (unit, start, end) = if has_all {
            (ReadUnit::Lines, first_line, first_line + lines)
        } else {
            (ReadUnit::Bytes, size - bytes.len() as u64, size)
        };
        let window = ReadWindow {
            bytes: bytes.into(),
            size,
            version,
            start,
            end,
            eof: true,
            line_cut,
        };
        (window, unit)
    }
}

/// Returns the offset at which the last `wanted` lines begin.
fn start_of_lines(bytes: &[u8], wanted: u64) -> usize {
    // A newline at the very end ends the last line and begins no other.
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let nth = usize::try_from(wanted - 1).unwrap_or(usize::MAX);
    let newline = memchr::memrchr_iter(b'\n', body).nth(nth);
    newline.map_or(0, |newline| newline + 1)
}

/// Returns how many bytes at the end are the beginning of a character that was cut off.
fn cut_suffix_len(bytes: &[u8]) -> usize {
    let tail = bytes.utf8_chunks().last();
    // A UTF-8 character has at most four bytes, so a longer invalid end is no cut-off character.
    tail.map_or(0, |chunk| {
        if chunk.invalid().len() < 4 {
            chunk.invalid().len()
        } else {
            0
        }
    })
}

fn encode_bytes(bytes: &Bytes, wanted: Option<Encoding>, target: &AdmittedPath) -> Result<(String, Encoding)> {
    match (wanted, std::str::from_utf8(bytes)) {
        (Some(Encoding::Base64), _) | (None, Err(_)) => Ok((STANDARD.encode(bytes), Encoding::Base64)),
        (_, Ok(text)) => Ok((text.to_owned(), Encoding::Utf8)),
        (Some(Encoding::Utf8), Err(_)) => {
            let message = format!("{} is not UTF-8 text", target.shown.to_quoted());
            Err(Error::invalid(message)
                .at_path(&target.shown)
                .hint("read it with `encoding: \"base64\"`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, offset: u64, limit: Option<u64>, max_bytes: u64) -> (String, u64, bool, bool) {
        let request = ReadRequest {
            offset,
            limit,
            ..ReadRequest::default()
        };
        let mut lines = LineWindow::new(&request, max_bytes);
        let full = text.as_bytes().chunks(3).any(|piece| lines.feed(piece));
        let window = lines.into_window(text.len() as u64, Version::new("v"), !full);
        (
            String::from_utf8(window.bytes.to_vec()).unwrap(),
            window.end,
            window.eof,
            window.line_cut,
        )
    }

    #[test]
    fn a_window_of_lines_keeps_their_endings() {
        assert_eq!(window("a\r\nb\nc", 1, Some(1), 100), ("b\n".into(), 2, false, false));
        assert_eq!(window("a\r\nb\nc", 1, None, 100), ("b\nc".into(), 3, true, false));
    }

    #[test]
    fn a_window_that_ends_at_the_last_newline_is_the_end() {
        assert_eq!(window("a\nb\n", 0, Some(2), 100), ("a\nb\n".into(), 2, true, false));
        assert_eq!(window("a\nb\n", 5, None, 100), (String::new(), 5, true, false));
    }

    /// Returns the last lines, found in pieces of three bytes, and the start of the window in its unit.
    fn tail(text: &str, lines: u64, max_bytes: u64) -> (String, ReadUnit, u64, u64, bool) {
        let mut window = TailWindow::new(lines, max_bytes);
        let mut rest = text.as_bytes();
        while !rest.is_empty() && !window.is_full() {
            let (before, piece) = rest.split_at(rest.len().saturating_sub(3));
            window.feed(Bytes::copy_from_slice(piece));
            rest = before;
        }
        let (window, unit) = window.into_window(text.len() as u64, Version::new("v"), rest.is_empty());
        assert!(window.eof);
        let content = String::from_utf8(window.bytes.to_vec()).unwrap();
        (content, unit, window.start, window.end, window.line_cut)
    }

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        use ReadUnit::{Bytes, Lines};
        assert_eq!(tail("a\nb\nc\n", 2, 100), ("b\nc\n".into(), Lines, 1, 3, false));
        assert_eq!(tail("a\nb\nc", 1, 100), ("c".into(), Lines, 2, 3, false));
        assert_eq!(tail("a\nb\nc\nd\n", 1, 100), ("d\n".into(), Bytes, 6, 8, false));
        assert_eq!(tail("a\nb\nc", 9, 100), ("a\nb\nc".into(), Lines, 0, 3, false));
        assert_eq!(tail("a\n\n\n", 2, 100), ("\n\n".into(), Bytes, 2, 4, false));
        assert_eq!(tail("", 2, 100), (String::new(), Lines, 0, 0, false));
    }

    #[test]
    fn last_lines_that_do_not_fit_lose_the_first_of_them() {
        use ReadUnit::{Bytes, Lines};
        assert_eq!(
            tail("aaaa\nbbbb\ncccc\n", 3, 12),
            ("bbbb\ncccc\n".into(), Lines, 1, 3, false)
        );
        assert_eq!(
            tail("aaaa\nbbbb\ncccc\n", 3, 10),
            ("bbbb\ncccc\n".into(), Bytes, 5, 15, false)
        );
        assert_eq!(tail("a\nxxxéé\n", 1, 4), ("é\n".into(), Bytes, 7, 10, true));
    }

    #[test]
    fn a_full_page_ends_with_a_whole_line() {
        assert_eq!(
            window("aaaa\nbbbb\ncccc\n", 0, None, 12),
            ("aaaa\nbbbb\n".into(), 2, false, false)
        );
    }

    #[test]
    fn a_line_longer_than_a_page_is_cut_between_characters() {
        assert_eq!(window("ééé\nx\n", 0, None, 3), ("é".into(), 1, false, true));
    }
}
