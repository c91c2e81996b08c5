//! Finds the end of the output of a piece of code: the marks that its driver writes behind it, one on each stream.
//!
//! A mark is the record separator and a word that was made for this call; on standard output the report on the piece
//! follows. The word is new each time, so no output is taken for a mark by chance. Code that prints its own mark on
//! purpose can only forge the report on itself, just as it can print anything in its output.

use garret_core::{Chunk, OutputStream};

const SEPARATOR: u8 = 0x1e;
/// The most bytes of a report; a driver writes fewer.
const LONGEST: usize = 4 * 1024 * 1024;

/// Splits both streams of a driver into output and reports, while a piece of code runs.
#[derive(Debug)]
pub(super) struct DriverStreams {
    stdout: DriverStream,
    stderr: DriverStream,
}

/// Splits one stream of a driver.
#[derive(Debug)]
struct DriverStream {
    mark: Vec<u8>,
    held: Vec<u8>,
    place: MarkPosition,
}

/// The position of the reader relative to the mark of a stream.
#[derive(Debug, PartialEq, Eq)]
enum MarkPosition {
    Before,
    /// In the report behind the mark; holds its bytes so far.
    Within(Vec<u8>),
    /// Behind the report; holds all of its bytes.
    After(Vec<u8>),
}

impl DriverStreams {
    pub(super) fn new(word: &str) -> Self {
        let side = || DriverStream {
            mark: [&[SEPARATOR], word.as_bytes()].concat(),
            held: Vec::new(),
            place: MarkPosition::Before,
        };
        Self {
            stdout: side(),
            stderr: side(),
        }
    }

    /// Takes a chunk of the driver, and returns the part of it that is output of the code.
    pub(super) fn push(&mut self, chunk: &Chunk) -> Option<Chunk> {
        let side = match chunk.stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        output_chunk(chunk.stream, side.push(&chunk.bytes))
    }

    /// Whether the mark of this stream came.
    pub(super) fn has_mark(&self, stream: OutputStream) -> bool {
        let side = match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        };
        matches!(side.place, MarkPosition::After(_))
    }

    /// Returns the output that was held back because it could have been the beginning of a mark, when no more chunks
    /// come.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Chunk> {
        let sides = [
            (OutputStream::Stdout, &mut self.stdout),
            (OutputStream::Stderr, &mut self.stderr),
        ];
        let held = sides.map(|(stream, side)| output_chunk(stream, std::mem::take(&mut side.held)));
        held.into_iter().flatten()
    }

    /// Whether both marks came.
    pub(super) fn is_ended(&self) -> bool {
        self.has_mark(OutputStream::Stdout) && self.has_mark(OutputStream::Stderr)
    }

    /// Returns the report of the driver on the piece, once it came.
    pub(super) fn driver_report(&self) -> Option<&[u8]> {
        match &self.stdout.place {
            MarkPosition::After(told) => Some(told),
            _ => None,
        }
    }
}

fn output_chunk(stream: OutputStream, bytes: Vec<u8>) -> Option<Chunk> {
    (!bytes.is_empty()).then(|| Chunk {
        stream,
        bytes: bytes.into(),
    })
}

impl DriverStream {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &mut self.place {
            MarkPosition::After(_) => bytes.to_vec(),
            MarkPosition::Within(_) => self.read_report(bytes, Vec::new()),
            MarkPosition::Before => self.scan_for_mark(bytes),
        }
    }

    fn scan_for_mark(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if let Some(at) = memchr::memmem::find(&self.held, &self.mark) {
            let behind = self.held.split_off(at + self.mark.len());
            self.held.truncate(at);
            self.place = MarkPosition::Within(Vec::new());
            let output = std::mem::take(&mut self.held);
            return self.read_report(&behind, output);
        }
        // A mark may be cut between two chunks: a beginning of it at the end is held back until the next chunk decides.
        let open = partial_mark_length(&self.held, &self.mark);
        let rest = self.held.split_off(self.held.len() - open);
        std::mem::replace(&mut self.held, rest)
    }

    /// Takes the report behind the mark, up to the end of its line. The bytes after that are output again.
    fn read_report(&mut self, bytes: &[u8], mut output: Vec<u8>) -> Vec<u8> {
        let MarkPosition::Within(told) = &mut self.place else {
            return output;
        };
        let end = memchr::memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        // Bounded: code can print its own mark and then bytes without end.
        told.extend_from_slice(&line[..line.len().min(LONGEST.saturating_sub(told.len()))]);
        if let Some(end) = end {
            self.place = MarkPosition::After(std::mem::take(told));
            output.extend_from_slice(&bytes[end + 1..]);
        }
        output
    }
}

/// Returns the number of bytes at the end that could be the beginning of the mark.
fn partial_mark_length(bytes: &[u8], mark: &[u8]) -> usize {
    let most = bytes.len().min(mark.len() - 1);
    let tail = &bytes[bytes.len() - most..];
    let begins = tail.iter().position(|byte| *byte == SEPARATOR);
    begins.map_or(0, |at| {
        (at..most)
            .find(|at| mark.starts_with(&tail[*at..]))
            .map_or(0, |at| most - at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: OutputStream, bytes: &[u8]) -> Chunk {
        Chunk {
            stream,
            bytes: bytes.to_vec().into(),
        }
    }

    /// Returns the output and the report in chunks of standard output.
    fn split(pieces: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut marked = DriverStreams::new("word");
        let mut output = Vec::new();
        for piece in pieces {
            let shown = marked.push(&chunk(OutputStream::Stdout, piece));
            output.extend(shown.into_iter().flat_map(|chunk| chunk.bytes));
        }
        let told = marked.driver_report().map(<[u8]>::to_vec);
        output.extend(marked.finish().flat_map(|chunk| chunk.bytes));
        (output, told)
    }

    #[test]
    fn a_mark_is_found_however_it_is_cut() {
        let whole = b"out\x1eword exit 0\nlater";
        for one in 0..whole.len() {
            for two in one..whole.len() {
                let pieces = [&whole[..one], &whole[one..two], &whole[two..]];
                let (output, told) = split(&pieces);
                assert_eq!(output, b"outlater", "{one} {two}");
                assert_eq!(told.as_deref(), Some(&b" exit 0"[..]), "{one} {two}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_mark_is_output() {
        for text in [
            &b"\x1e"[..],
            b"\x1ewor",
            b"\x1e\x1ewor\x1eworm",
            b"word\n",
            b"\x1ewo\nrd",
        ] {
            assert_eq!(split(&[text]), (text.to_vec(), None));
        }
        assert_eq!(split(&[b"\x1e\x1eword\n"]), (b"\x1e".to_vec(), Some(Vec::new())));
    }

    #[test]
    fn both_streams_must_end() {
        let mut marked = DriverStreams::new("w");
        assert_eq!(marked.push(&chunk(OutputStream::Stdout, b"\x1ew told\n")), None);
        assert!(!marked.is_ended());
        assert_eq!(
            marked.push(&chunk(OutputStream::Stderr, b"e\x1ew\n")),
            Some(chunk(OutputStream::Stderr, b"e"))
        );
        assert!(marked.is_ended());
    }

    #[test]
    fn what_is_behind_a_mark_is_bounded() {
        let mut marked = DriverStreams::new("w");
        marked.push(&chunk(OutputStream::Stdout, b"\x1ew"));
        for _ in 0..LONGEST / 65_536 + 2 {
            assert_eq!(marked.push(&chunk(OutputStream::Stdout, &[b'x'; 65_536])), None);
        }
        marked.push(&chunk(OutputStream::Stdout, b"\n"));
        assert_eq!(marked.driver_report().map(<[u8]>::len), Some(LONGEST));
    }
}
