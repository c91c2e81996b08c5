//! Decides into which pieces a content is divided. A pure function, before anything is stored.

use bytes::Bytes;

use super::PieceAddress;
use super::chunking;
use super::encoding::{ContentPart, encode_list, encode_piece, list_bytes};

/// A piece to store.
#[derive(Debug, Clone)]
pub(super) struct ContentPiece {
    pub(super) address: PieceAddress,
    pub(super) size: u64,
    plain: Bytes,
    /// Whether the piece is the list of the parts of a larger content.
    pub(super) is_list: bool,
}

impl ContentPiece {
    pub(super) fn from_bytes(plain: Bytes) -> Self {
        Self {
            address: PieceAddress::of_bytes(&plain),
            size: plain.len() as u64,
            plain,
            is_list: false,
        }
    }

    /// Returns the piece that lists the parts of a larger content.
    pub(super) fn from_parts(parts: &[ContentPart]) -> Self {
        let list = list_bytes(parts);
        Self {
            address: PieceAddress::of_list(&list),
            size: parts.iter().map(|part| part.size).sum(),
            plain: list.into(),
            is_list: true,
        }
    }

    /// Returns the piece as a part of a larger content.
    pub(super) fn as_part(&self) -> ContentPart {
        ContentPart {
            address: self.address,
            size: self.size,
        }
    }

    /// Returns the bytes to store.
    pub(super) fn encoded_bytes(&self) -> Vec<u8> {
        if self.is_list {
            encode_list(&self.plain)
        } else {
            encode_piece(&self.plain)
        }
    }

    /// Returns whether the database holds the piece; `inline` is the maximum number of bytes of an inline piece.
    pub(super) fn is_inline(&self, inline: usize) -> bool {
        self.plain.len() <= inline
    }
}

/// The pieces of a file, and the address of the file.
#[derive(Debug, Clone)]
pub(super) struct ContentPlan {
    pub(super) address: PieceAddress,
    pub(super) size: u64,
    pub(super) pieces: Vec<ContentPiece>,
}

/// Plans the pieces of a file that consists of `before` (parts that are stored already) followed by `content`. `before`
/// is empty for a new file.
pub(super) fn plan_pieces(before: &[ContentPart], content: &Bytes, inline: usize) -> ContentPlan {
    if before.is_empty() && content.len() <= inline {
        return single_piece_plan(ContentPiece::from_bytes(content.clone()));
    }
    let offset = before.iter().map(|part| part.size).sum();
    let pieces: Vec<_> = chunking::cut_into_parts(content, offset)
        .into_iter()
        .map(|part| ContentPiece::from_bytes(content.slice(part)))
        .collect();
    // A single part needs no list: its own address is that of the file.
    match (before, pieces.len()) {
        ([], 1) => single_piece_plan(pieces.into_iter().next().expect("there is one")),
        _ => part_list_plan(before, pieces),
    }
}

fn single_piece_plan(piece: ContentPiece) -> ContentPlan {
    ContentPlan {
        address: piece.address,
        size: piece.size,
        pieces: vec![piece],
    }
}

fn part_list_plan(before: &[ContentPart], mut pieces: Vec<ContentPiece>) -> ContentPlan {
    let parts: Vec<_> = before
        .iter()
        .copied()
        .chain(pieces.iter().map(ContentPiece::as_part))
        .collect();
    let list = ContentPiece::from_parts(&parts);
    let (address, size) = (list.address, list.size);
    pieces.push(list);
    ContentPlan { address, size, pieces }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_up_to_the_threshold_is_one_inline_piece() {
        for length in [0, 1, 64 * 1024] {
            let planned = plan_pieces(&[], &vec![1; length].into(), 64 * 1024);
            assert_eq!(planned.pieces.len(), 1);
            assert!(planned.pieces[0].is_inline(64 * 1024));
        }
        let planned = plan_pieces(&[], &vec![1; 64 * 1024 + 1].into(), 64 * 1024);
        assert!(!planned.pieces[0].is_inline(64 * 1024));
    }

    #[test]
    fn an_appended_file_has_the_address_of_the_same_file_written_at_once() {
        let mut content = vec![0; 3_000_000];
        blake3::Hasher::new().update(b"x").finalize_xof().fill(&mut content);
        let whole = plan_pieces(&[], &content.clone().into(), 64 * 1024);
        let first = plan_pieces(&[], &Bytes::copy_from_slice(&content[..2_000_000]), 64 * 1024);
        let (list, parts) = first.pieces.split_last().expect("it is a list");
        assert!(list.is_list);
        let parts: Vec<_> = parts.iter().map(ContentPiece::as_part).collect();
        let (last, kept) = parts.split_last().expect("there are parts");
        let rest = Bytes::copy_from_slice(&content[2_000_000 - last.size as usize..]);
        let appended = plan_pieces(kept, &rest, 64 * 1024);
        assert_eq!((appended.address, appended.size), (whole.address, whole.size));
    }
}
