//! Cuts content into parts while it is read from its source. Memory holds one buffer at a time, whatever the size of
//! the content.

use bytes::Bytes;
use garret_core::{Content, ContentReader, Result};

use super::chunking::{LONGEST, first_part_len};
use super::plan::ContentPiece;

/// Bytes read ahead: several parts, so that the remainder of a buffer, which is moved to its front before the next
/// read, is small.
const BUFFER: usize = 8 * LONGEST;

/// The parts of a content in order, each read when the iterator reaches it.
#[derive(Debug)]
pub(super) struct ContentPieceReader {
    reader: ContentReader,
    buffer: Vec<u8>,
    /// The position in the buffer at which the next part begins.
    start: usize,
    /// The position in the content at which the next part begins.
    offset: u64,
}

impl ContentPieceReader {
    pub(super) fn from_content(content: &Content) -> Result<Self> {
        Ok(Self {
            reader: content.open()?,
            buffer: Vec::with_capacity(BUFFER),
            start: 0,
            offset: 0,
        })
    }

    fn next_piece(&mut self) -> Result<Option<ContentPiece>> {
        // The cut after the next part is only certain with the bytes of a longest part at hand.
        if self.buffer.len() - self.start < LONGEST {
            self.buffer.drain(..self.start);
            self.start = 0;
            let room = BUFFER - self.buffer.len();
            self.reader.append_to(&mut self.buffer, room)?;
        }
        let ahead = &self.buffer[self.start..];
        if ahead.is_empty() {
            return Ok(None);
        }
        let length = first_part_len(ahead, self.offset);
        let piece = ContentPiece::from_bytes(Bytes::copy_from_slice(&ahead[..length]));
        self.start += length;
        self.offset += length as u64;
        Ok(Some(piece))
    }
}

impl Iterator for ContentPieceReader {
    type Item = Result<ContentPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_piece().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunking;
    use super::*;

    #[test]
    fn content_is_cut_in_the_same_places_however_it_is_read() {
        let mut content = vec![0; 3 * BUFFER + 77_777];
        blake3::Hasher::new()
            .update(b"pieces")
            .finalize_xof()
            .fill(&mut content);
        content[BUFFER..BUFFER + 3 * LONGEST].fill(0);
        let whole: Vec<_> = chunking::cut_into_parts(&content, 0)
            .into_iter()
            .map(|part| ContentPiece::from_bytes(Bytes::copy_from_slice(&content[part])).address)
            .collect();
        let read = ContentPieceReader::from_content(&content.into()).expect("bytes can be read");
        let read: Vec<_> = read.map(|piece| piece.expect("bytes can be read").address).collect();
        assert_eq!(read, whole);
    }
}
