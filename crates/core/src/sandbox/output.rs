//! Keeps the head and the tail of a command's output, without secrets.
//!
//! A pure collector: chunks in, bounded values out, however much a command writes. Each stream is kept by itself, byte
//! for byte, and both are kept together in the order in which they were read.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::masking::{Masker, Secrets};
use super::{Chunk, OutputStream};
use crate::path::escape_unprintable;

/// A collector of the output of one command.
#[derive(Debug)]
pub struct OutputCollector {
    stdout: StreamCapture,
    stderr: StreamCapture,
    both: BoundedStream,
    /// Masks the merged output: a value may come in parts from both streams.
    both_masker: Masker,
}

/// The state of one stream.
#[derive(Debug)]
struct StreamCapture {
    masker: Masker,
    kept: BoundedStream,
    written: u64,
}

impl OutputCollector {
    /// Makes a collector that keeps at most `limit` bytes of each stream and of both together: half from the head, half
    /// from the tail.
    pub fn new(limit: u64, secrets: &Secrets) -> Self {
        let side = || StreamCapture {
            masker: Masker::new(secrets),
            kept: BoundedStream::new(limit),
            written: 0,
        };
        Self {
            stdout: side(),
            stderr: side(),
            both: BoundedStream::new(limit),
            both_masker: Masker::new(secrets),
        }
    }

    /// Takes a chunk, and returns the part of its stream that can be shown now.
    pub fn push_chunk(&mut self, chunk: &Chunk) -> Option<Chunk> {
        let side = self.stream_mut(chunk.stream);
        side.written += chunk.bytes.len() as u64;
        let shown = side.masker.push(&chunk.bytes);
        self.keep_shown(chunk.stream, shown)
    }

    /// Ends the streams: returns the bytes that were held back, and all output that is kept.
    pub fn finish(mut self) -> (Vec<Chunk>, CommandOutput) {
        let streams = [OutputStream::Stdout, OutputStream::Stderr];
        let last = streams.into_iter().filter_map(|stream| {
            let held = self.stream_mut(stream).masker.finish();
            self.keep_shown(stream, held)
        });
        let last = last.collect();
        let held = self.both_masker.finish();
        self.both.push_bytes(&held);
        let output = CommandOutput {
            stdout: self.stdout.kept.into_captured(self.stdout.written),
            stderr: self.stderr.kept.into_captured(self.stderr.written),
            both: self.both.into_captured(self.stdout.written + self.stderr.written),
        };
        (last, output)
    }

    fn stream_mut(&mut self, stream: OutputStream) -> &mut StreamCapture {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    fn keep_shown(&mut self, stream: OutputStream, shown: Vec<u8>) -> Option<Chunk> {
        self.stream_mut(stream).kept.push_bytes(&shown);
        // Masked a second time, after each stream by itself, because two harmless parts may form a value together.
        let both = self.both_masker.push(&shown);
        self.both.push_bytes(&both);
        (!shown.is_empty()).then(|| Chunk {
            stream,
            bytes: shown.into(),
        })
    }
}

/// The kept output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Standard output.
    pub stdout: CapturedStream,
    /// Standard error.
    pub stderr: CapturedStream,
    /// Both in the order in which they were read.
    pub both: CapturedStream,
}

impl CommandOutput {
    /// Returns whether any output was left out.
    pub fn is_truncated(&self) -> bool {
        [&self.stdout, &self.stderr, &self.both]
            .iter()
            .any(|captured| captured.left_out > 0)
    }
}

/// The head and the tail of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// The first bytes; all bytes if nothing was left out.
    pub head: Vec<u8>,
    /// The last bytes.
    pub tail: Vec<u8>,
    /// The number of bytes between them.
    pub left_out: u64,
    /// The bytes that the command wrote, before secrets were masked.
    pub written: u64,
}

impl CapturedStream {
    /// Returns the bytes, with a line in the middle that says how many were left out.
    pub fn to_bytes(&self) -> Cow<'_, [u8]> {
        match self.left_out {
            0 => Cow::Borrowed(&self.head),
            left_out => Cow::Owned([&self.head, gap_line(left_out).as_bytes(), &self.tail].concat()),
        }
    }

    /// Returns the number of kept bytes.
    pub fn kept_len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Returns the head and the tail in at most `room` bytes; the additional gap is counted.
    #[must_use]
    pub fn cut_to(&self, room: usize) -> Self {
        if self.kept_len() <= room {
            return self.clone();
        }
        // The earlier gap lies between head and tail, so a narrower cut around the middle covers it.
        let (head_room, tail_room) = (room - room / 2, room / 2);
        let all = [self.head.as_slice(), &self.tail].concat();
        let head = all[..head_room.min(all.len())].to_vec();
        let tail = all[all.len() - tail_room..].to_vec();
        Self {
            left_out: self.left_out + (all.len() - head.len() - tail.len()) as u64,
            head,
            tail,
            written: self.written,
        }
    }

    /// Removes lines that were cut in two, if at least half of the head or tail remains.
    #[must_use]
    pub fn with_whole_lines(mut self) -> Self {
        if self.left_out == 0 {
            return self;
        }
        let head_end = self
            .head
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map(|newline| newline + 1);
        // A long last line stays in part: without it, little or nothing of the head would be left.
        if let Some(end) = head_end.filter(|end| *end >= self.head.len() / 2) {
            self.left_out += (self.head.len() - end) as u64;
            self.head.truncate(end);
        }
        let tail_start = self
            .tail
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|newline| newline + 1);
        if let Some(start) = tail_start.filter(|start| *start <= self.tail.len() / 2) {
            self.left_out += start as u64;
            self.tail.drain(..start);
        }
        self
    }

    /// Returns the text for a model: bytes that are not UTF-8 and characters that would act on a terminal are made
    /// visible.
    pub fn to_text(&self) -> String {
        if self.left_out == 0 {
            return escape_controls(&self.head);
        }
        let (head, tail) = (trim_partial_end(&self.head), trim_partial_start(&self.tail));
        let cut = self.head.len() - head.len() + self.tail.len() - tail.len();
        format!(
            "{}{}{}",
            escape_controls(head),
            gap_line(self.left_out + cut as u64),
            escape_controls(tail)
        )
    }
}

fn gap_line(left_out: u64) -> String {
    let unit = if left_out == 1 { "byte" } else { "bytes" };
    format!("\n… {} {unit} left out …\n", group_digits(left_out))
}

/// Returns a number with a comma after each thousand.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the bytes without an incomplete character at the end, whose other bytes were left out.
fn trim_partial_end(bytes: &[u8]) -> &[u8] {
    // A character has at most four bytes, so an incomplete one has at most three.
    let begins = bytes.len().saturating_sub(3);
    let last = (begins..bytes.len())
        .rev()
        .find(|at| bytes[*at] & 0b1100_0000 != 0b1000_0000);
    match last.map(|at| (at, std::str::from_utf8(&bytes[at..]))) {
        Some((at, Err(error))) if error.error_len().is_none() => &bytes[..at],
        _ => bytes,
    }
}

/// Returns the bytes without the end of a character at the start, whose first byte was left out.
pub fn trim_partial_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000);
    &bytes[rest.count()..]
}

/// Returns the text with newlines and tabs; every other control character is shown as its escape.
fn escape_controls(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(['\n', '\t']) {
        let end = piece.trim_end_matches(['\n', '\t']).len();
        shown.push_str(&escape_unprintable(&piece[..end]));
        shown.push_str(&piece[end..]);
    }
    shown
}

/// The head and the tail of a stream within a limit.
#[derive(Debug)]
struct BoundedStream {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    left_out: u64,
}

impl BoundedStream {
    fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room: limit - limit / 2,
            tail_room: limit / 2,
            left_out: 0,
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(first);
        // Of a chunk larger than the tail, only its own end can stay, so that no more than the limit is ever held.
        let (dropped, last) = rest.split_at(rest.len().saturating_sub(self.tail_room));
        let over = (self.tail.len() + last.len()).saturating_sub(self.tail_room);
        self.tail.drain(..over);
        self.tail.extend(last);
        self.left_out += (over + dropped.len()) as u64;
    }

    fn into_captured(self, written: u64) -> CapturedStream {
        let (mut head, tail) = (self.head, Vec::from(self.tail));
        let tail = match self.left_out {
            0 => {
                // Nothing is missing between the two parts, so that together they are the whole stream.
                head.extend(tail);
                Vec::new()
            }
            _ => tail,
        };
        CapturedStream {
            head,
            tail,
            left_out: self.left_out,
            written,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(stream: OutputStream, bytes: &[u8]) -> Chunk {
        Chunk {
            stream,
            bytes: bytes.to_vec().into(),
        }
    }

    fn collected(limit: u64, chunks: &[(OutputStream, &[u8])]) -> CommandOutput {
        collected_without(limit, &Secrets::default(), chunks)
    }

    fn collected_without(limit: u64, secrets: &Secrets, chunks: &[(OutputStream, &[u8])]) -> CommandOutput {
        let mut collector = OutputCollector::new(limit, secrets);
        for (stream, bytes) in chunks {
            collector.push_chunk(&chunk(*stream, bytes));
        }
        collector.finish().1
    }

    use OutputStream::{Stderr, Stdout};

    #[test]
    fn streams_are_apart_and_together() {
        let output = collected(100, &[(Stdout, b"a\n"), (Stderr, b"\xff\x00"), (Stdout, b"b\n")]);
        assert_eq!(output.stdout.to_bytes().as_ref(), b"a\nb\n");
        assert_eq!(output.stderr.to_bytes().as_ref(), b"\xff\x00");
        assert_eq!(output.both.to_bytes().as_ref(), b"a\n\xff\x00b\n");
        assert!(!output.is_truncated());
        assert_eq!(output.both.written, 6);
    }

    #[test]
    fn the_middle_is_counted() {
        let output = collected(10, &[(Stdout, b"abcdefgh"), (Stdout, b"ijklmnop")]);
        assert_eq!(output.stdout.to_text(), "abcde\n… 6 bytes left out …\nlmnop");
        assert_eq!((output.stdout.left_out, output.stdout.written), (6, 16));
        assert!(output.is_truncated());
        let large = collected(4, &[(Stderr, &[b'x'; 12_349])]);
        assert_eq!(large.stderr.to_text(), "xx\n… 12,345 bytes left out …\nxx");
        assert_eq!(
            collected(4, &[(Stdout, b"12345")]).stdout.to_text(),
            "12\n… 1 byte left out …\n45"
        );
    }

    #[test]
    fn less_of_what_is_kept_is_still_its_head_and_its_tail() {
        let whole = collected(100, &[(Stdout, b"abcdefghijklmnop")]).stdout;
        assert_eq!(whole.cut_to(16), whole);
        assert_eq!(whole.cut_to(6).to_text(), "abc\n… 10 bytes left out …\nnop");
        let cut = collected(10, &[(Stdout, b"abcdefghijklmnop")]).stdout;
        assert_eq!(cut.cut_to(5), collected(5, &[(Stdout, b"abcdefghijklmnop")]).stdout);
    }

    #[test]
    fn lines_that_were_cut_in_two_are_left_out() {
        let lines = collected(16, &[(Stdout, b"one\ntwo\nthree\nfour\nfive\nsix\n")]).stdout;
        assert_eq!(lines.to_text(), "one\ntwo\n\n… 12 bytes left out …\nive\nsix\n");
        assert_eq!(
            lines.with_whole_lines().to_text(),
            "one\ntwo\n\n… 16 bytes left out …\nsix\n"
        );
        let long = collected(6, &[(Stdout, b"abcdefghij\n")]).stdout;
        assert_eq!(long.clone().with_whole_lines(), long);
    }

    #[test]
    fn what_fits_exactly_is_whole() {
        let output = collected(5, &[(Stdout, b"abc"), (Stdout, b"de")]);
        assert_eq!(output.stdout.to_bytes().as_ref(), b"abcde");
        assert!(!output.is_truncated());
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        // Five bytes of the head end in the middle of the second character, and so does the tail.
        let output = collected(10, &[(Stdout, "€€abcdef€€".as_bytes())]);
        assert_eq!(output.stdout.to_text(), "€\n… 12 bytes left out …\n€");
    }

    #[test]
    fn control_characters_are_made_visible() {
        let output = collected(100, &[(Stdout, b"a\tb\r\n\x1b[31mred\x07\xff \xe2\x80\xae\n\n")]);
        assert_eq!(
            output.stdout.to_text(),
            "a\tb\\r\n\\u{1b}[31mred\\u{7}\u{fffd} \\u{202e}\n\n"
        );
    }

    #[test]
    fn secrets_are_neither_kept_nor_streamed() {
        let secrets = Secrets::new([("TOKEN", "hunter2")]);
        let mut collector = OutputCollector::new(100, &secrets);
        let first = collector.push_chunk(&chunk(Stdout, b"it is hun")).unwrap();
        assert_eq!(first.bytes.as_ref(), b"it is ");
        assert_eq!(collector.push_chunk(&chunk(Stdout, b"ter")), None);
        let second = collector.push_chunk(&chunk(Stdout, b"2 hu")).unwrap();
        assert_eq!(second.bytes.as_ref(), b"[TOKEN] ");
        let (last, output) = collector.finish();
        assert_eq!(last, [chunk(Stdout, b"hu")]);
        assert_eq!(output.stdout.to_text(), "it is [TOKEN] hu");
        assert_eq!(output.stdout.written, 16);
    }

    #[test]
    fn a_secret_across_two_streams_is_not_put_together() {
        let secrets = Secrets::new([("TOKEN", "hunter2")]);
        let output = collected_without(100, &secrets, &[(Stdout, b"hun"), (Stderr, b"ter2")]);
        assert!(!output.both.to_text().contains("hunter2"), "{}", output.both.to_text());
    }

    fn chunks() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
        prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20)
    }

    fn as_chunks(chunks: &[(bool, Vec<u8>)]) -> Vec<(OutputStream, &[u8])> {
        let stream = |is_error: bool| if is_error { Stderr } else { Stdout };
        chunks
            .iter()
            .map(|(is_error, bytes)| (stream(*is_error), bytes.as_slice()))
            .collect()
    }

    fn of_stream(chunks: &[(OutputStream, &[u8])], stream: OutputStream) -> Vec<u8> {
        chunks
            .iter()
            .filter(|(of, _)| *of == stream)
            .flat_map(|(_, bytes)| bytes.to_vec())
            .collect()
    }

    proptest! {
        #[test]
        fn head_tail_and_what_is_left_out_are_everything(chunks in chunks(), limit in 1_u64..200) {
            let chunks = as_chunks(&chunks);
            let output = collected(limit, &chunks);
            for (stream, captured) in [(Stdout, &output.stdout), (Stderr, &output.stderr)] {
                let all = of_stream(&chunks, stream);
                prop_assert!(all.starts_with(&captured.head) && all.ends_with(&captured.tail));
                prop_assert_eq!(captured.written, all.len() as u64);
                prop_assert_eq!((captured.head.len() + captured.tail.len()) as u64 + captured.left_out, captured.written);
                prop_assert!(captured.left_out == 0 || (captured.head.len() + captured.tail.len()) as u64 == limit);
                prop_assert!((captured.head.len() + captured.tail.len()) as u64 <= limit);
            }
        }

        #[test]
        fn what_is_streamed_is_what_was_written(chunks in chunks()) {
            let chunks = as_chunks(&chunks);
            let mut collector = OutputCollector::new(10, &Secrets::new([("S", "ab")]));
            let mut seen: Vec<_> = chunks.iter().filter_map(|(stream, bytes)| collector.push_chunk(&chunk(*stream, bytes))).collect();
            seen.extend(collector.finish().0);
            for stream in [Stdout, Stderr] {
                let streamed: Vec<u8> = seen.iter().filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.bytes.to_vec()).collect();
                let all = of_stream(&chunks, stream);
                let expected = String::from_utf8_lossy(&all).replace("ab", "[S]");
                prop_assert_eq!(String::from_utf8_lossy(&streamed), expected);
            }
        }

        #[test]
        fn no_text_acts_on_a_terminal_or_shows_a_secret(
            pieces in prop::collection::vec((any::<bool>(), "[ab\u{1b}\r\n€]{0,6}"), 0..12),
            limit in 1_u64..20,
        ) {
            let chunks: Vec<_> = pieces.iter().map(|(is_error, text)| (*is_error, text.as_bytes().to_vec())).collect();
            let secrets = Secrets::new([("S", "ab"), ("T", "bba")]);
            let output = collected_without(limit, &secrets, &as_chunks(&chunks));
            for text in [output.stdout.to_text(), output.stderr.to_text(), output.both.to_text()] {
                prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
                prop_assert!(!text.contains("ab") && !text.contains("bba"), "{text:?}");
            }
        }
    }
}
