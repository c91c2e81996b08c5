//! Cuts content into parts while it is read from its source. Memory holds one buffer at a time, whatever the size of
//! the content.

use bytes::Bytes;
use garret_core::{Content, ContentReader, Result};

use super::cut::{LONGEST, first_part};
use super::plan::Piece;

/// Bytes read ahead: several parts, so that the remainder of a buffer, which is moved to its front before the next
/// read, is small.
const BUFFER: usize = 8 * LONGEST;

/// The parts of a content in order, each read when the iterator reaches it.
#[derive(Debug)]
pub(super) struct Pieces {
    reader: ContentReader,
    buffer: Vec<u8>,
    /// The position in the buffer at which the next part begins.
    start: usize,
    /// The position in the content at which the next part begins.
    offset: u64,
}

impl Pieces {
    pub(super) fn of(content: &Content) -> Result<Self> {
        Ok(Self {
            reader: content.open()?,
            buffer: Vec::with_capacity(BUFFER),
            start: 0,
            offset: 0,
        })
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
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
        let length = first_part(ahead, self.offset);
        let piece = Piece::whole(Bytes::copy_from_slice(&ahead[..length]));
        self.start += length;
        self.offset += length as u64;
        Ok(Some(piece))
    }
}

impl Iterator for Pieces {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_piece().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::super::cut;
    use super::*;

    #[test]
    fn content_is_cut_in_the_same_places_however_it_is_read() {
        let mut content = vec![0; 3 * BUFFER + 77_777];
        blake3::Hasher::new()
            .update(b"pieces")
            .finalize_xof()
            .fill(&mut content);
        content[BUFFER..BUFFER + 3 * LONGEST].fill(0);
        let whole: Vec<_> = cut::parts(&content, 0)
            .into_iter()
            .map(|part| Piece::whole(Bytes::copy_from_slice(&content[part])).address)
            .collect();
        let read = Pieces::of(&content.into()).expect("bytes can be read");
        let read: Vec<_> = read.map(|piece| piece.expect("bytes can be read").address).collect();
        assert_eq!(read, whole);
    }
}
