//! Where the output of a piece of code ends: the marks that its driver writes behind it, one on each stream.
//!
//! A mark is the record separator and a word that was made for this call, and on standard output how the piece went. The word is new each
//! time, so nothing that is printed by chance is taken for one. Code that goes out of its way to print its own mark lies about itself to
//! whoever ran it, as it could in its output.

use garret_core::{Chunk, Stream};

const SEPARATOR: u8 = 0x1e;
/// The most bytes behind a mark; a driver writes less.
const LONGEST: usize = 4 * 1024 * 1024;

/// Both streams of a driver, while a piece of code runs.
#[derive(Debug)]
pub(super) struct Marked {
    stdout: Side,
    stderr: Side,
}

/// One stream.
#[derive(Debug)]
struct Side {
    mark: Vec<u8>,
    held: Vec<u8>,
    place: Place,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Before,
    /// What is behind the mark, so far.
    Within(Vec<u8>),
    /// All that was behind the mark.
    After(Vec<u8>),
}

impl Marked {
    pub(super) fn new(word: &str) -> Self {
        let side = || Side {
            mark: [&[SEPARATOR], word.as_bytes()].concat(),
            held: Vec::new(),
            place: Place::Before,
        };
        Self {
            stdout: side(),
            stderr: side(),
        }
    }

    /// What of a chunk is output.
    pub(super) fn push(&mut self, chunk: &Chunk) -> Option<Chunk> {
        let side = match chunk.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        output(chunk.stream, side.push(&chunk.bytes))
    }

    /// Whether the mark of this stream came.
    pub(super) fn has_mark(&self, stream: Stream) -> bool {
        let side = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        matches!(side.place, Place::After(_))
    }

    /// What was held back because it could have been the beginning of a mark, when nothing more comes.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Chunk> {
        let sides = [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)];
        let held = sides.map(|(stream, side)| output(stream, std::mem::take(&mut side.held)));
        held.into_iter().flatten()
    }

    /// Whether both marks came.
    pub(super) fn is_ended(&self) -> bool {
        self.has_mark(Stream::Stdout) && self.has_mark(Stream::Stderr)
    }

    /// What the driver tells of how the piece went.
    pub(super) fn told(&self) -> Option<&[u8]> {
        match &self.stdout.place {
            Place::After(told) => Some(told),
            _ => None,
        }
    }
}

fn output(stream: Stream, bytes: Vec<u8>) -> Option<Chunk> {
    (!bytes.is_empty()).then(|| Chunk {
        stream,
        bytes: bytes.into(),
    })
}

impl Side {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        match &mut self.place {
            Place::After(_) => bytes.to_vec(),
            Place::Within(_) => self.within(bytes, Vec::new()),
            Place::Before => self.before(bytes),
        }
    }

    fn before(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if let Some(at) = memchr::memmem::find(&self.held, &self.mark) {
            let behind = self.held.split_off(at + self.mark.len());
            self.held.truncate(at);
            self.place = Place::Within(Vec::new());
            let output = std::mem::take(&mut self.held);
            return self.within(&behind, output);
        }
        let open = open_end(&self.held, &self.mark);
        let rest = self.held.split_off(self.held.len() - open);
        std::mem::replace(&mut self.held, rest)
    }

    /// Takes what is behind the mark up to the end of its line; what comes after that is output again.
    fn within(&mut self, bytes: &[u8], mut output: Vec<u8>) -> Vec<u8> {
        let Place::Within(told) = &mut self.place else {
            return output;
        };
        let end = memchr::memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        told.extend_from_slice(&line[..line.len().min(LONGEST.saturating_sub(told.len()))]);
        if let Some(end) = end {
            self.place = Place::After(std::mem::take(told));
            output.extend_from_slice(&bytes[end + 1..]);
        }
        output
    }
}

/// How many bytes at the end could be the beginning of the mark.
fn open_end(bytes: &[u8], mark: &[u8]) -> usize {
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

    fn chunk(stream: Stream, bytes: &[u8]) -> Chunk {
        Chunk {
            stream,
            bytes: bytes.to_vec().into(),
        }
    }

    /// What is output, and what was told, of pieces of standard output.
    fn split(pieces: &[&[u8]]) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut marked = Marked::new("word");
        let mut output = Vec::new();
        for piece in pieces {
            let shown = marked.push(&chunk(Stream::Stdout, piece));
            output.extend(shown.into_iter().flat_map(|chunk| chunk.bytes));
        }
        let told = marked.told().map(<[u8]>::to_vec);
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
        let mut marked = Marked::new("w");
        assert_eq!(marked.push(&chunk(Stream::Stdout, b"\x1ew told\n")), None);
        assert!(!marked.is_ended());
        assert_eq!(
            marked.push(&chunk(Stream::Stderr, b"e\x1ew\n")),
            Some(chunk(Stream::Stderr, b"e"))
        );
        assert!(marked.is_ended());
    }

    #[test]
    fn what_is_behind_a_mark_is_bounded() {
        let mut marked = Marked::new("w");
        marked.push(&chunk(Stream::Stdout, b"\x1ew"));
        for _ in 0..LONGEST / 65_536 + 2 {
            assert_eq!(marked.push(&chunk(Stream::Stdout, &[b'x'; 65_536])), None);
        }
        marked.push(&chunk(Stream::Stdout, b"\n"));
        assert_eq!(marked.told().map(<[u8]>::len), Some(LONGEST));
    }
}
