//! The stored form of a piece of content: one byte that names the encoding, then the encoded bytes. The database and
//! the blobs use the same form, so a blob can be decoded without the database.

use std::cell::RefCell;

use bytes::Bytes;
use garret_core::Result;
use zstd::bulk::{Compressor, Decompressor};

use super::PieceAddress;
use crate::error::damaged_content;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const LIST: u8 = 2;

/// The minimum length of content that is compressed; compressing shorter content is not worth its time.
const SHORTEST_COMPRESSED: usize = 4 * 1024 + 1;
const LEVEL: i32 = 3;

/// A part of a larger file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentPart {
    pub(super) address: PieceAddress,
    pub(super) size: u64,
}

const PART_BYTES: usize = 40;

/// A decoded piece: the whole bytes of a content, or the list of its parts.
#[derive(Debug)]
pub(super) enum DecodedPiece {
    Whole(Bytes),
    List(Vec<ContentPart>),
}

/// Encodes bytes for storage, compressed if that saves an eighth or more.
pub(super) fn encode_piece(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= SHORTEST_COMPRESSED
        && let Ok(compressed) = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(bytes))
        && compressed.len() < bytes.len() - bytes.len() / 8
    {
        return with_tag(ZSTD, &compressed);
    }
    with_tag(PLAIN, bytes)
}

thread_local! {
    // One for each thread: creating a compressor costs a good part of the time of compressing one part of a file.
    static COMPRESSOR: RefCell<Compressor<'static>> = RefCell::new(Compressor::new(LEVEL).expect("the level is one"));
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::new().expect("it needs nothing"));
}

/// Encodes a list of parts for storage.
pub(super) fn encode_list(list: &[u8]) -> Vec<u8> {
    with_tag(LIST, list)
}

fn with_tag(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len() + 1);
    encoded.push(tag);
    encoded.extend_from_slice(bytes);
    encoded
}

/// Returns the bytes of a list of parts; its address is their hash.
pub(super) fn list_bytes(parts: &[ContentPart]) -> Vec<u8> {
    let mut list = Vec::with_capacity(parts.len() * PART_BYTES);
    for part in parts {
        list.extend_from_slice(&part.address.0);
        list.extend_from_slice(&part.size.to_le_bytes());
    }
    list
}

/// Decodes a stored piece of `size` bytes and verifies it. Bytes that do not match `address` are `corrupt`.
pub(super) fn decode_piece(encoded: Bytes, address: PieceAddress, size: u64) -> Result<DecodedPiece> {
    let tag = *encoded.first().ok_or_else(|| damaged_content("it is empty"))?;
    let bytes = encoded.slice(1..);
    match tag {
        PLAIN => verify_bytes(bytes, address).map(DecodedPiece::Whole),
        ZSTD => {
            // `size` also bounds the memory that a damaged piece can make the decompressor use.
            let plain = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress(&bytes, size as usize));
            let plain = plain.map_err(|_| damaged_content("it cannot be decompressed"))?;
            verify_bytes(plain.into(), address).map(DecodedPiece::Whole)
        }
        LIST if PieceAddress::of_list(&bytes) == address => Ok(DecodedPiece::List(parse_parts(&bytes))),
        LIST => Err(damaged_content("its list of parts does not match its hash")),
        _ => Err(damaged_content("its encoding is unknown")),
    }
}

fn verify_bytes(bytes: Bytes, address: PieceAddress) -> Result<Bytes> {
    if PieceAddress::of_bytes(&bytes) != address {
        return Err(damaged_content("its bytes do not match its hash"));
    }
    Ok(bytes)
}

/// Parses the bytes of a list into its parts.
pub(super) fn parse_parts(list: &[u8]) -> Vec<ContentPart> {
    let part = |bytes: &[u8]| {
        let (address, size) = bytes.split_at(32);
        ContentPart {
            address: PieceAddress(address.try_into().expect("it is 32 bytes long")),
            size: u64::from_le_bytes(size.try_into().expect("it is 8 bytes long")),
        }
    };
    list.chunks_exact(PART_BYTES).map(part).collect()
}

#[cfg(test)]
mod tests {
    use garret_core::ErrorKind;

    use super::*;

    fn whole(encoded: Vec<u8>, address: PieceAddress, size: usize) -> Result<Bytes> {
        decode_piece(encoded.into(), address, size as u64).map(|decoded| match decoded {
            DecodedPiece::Whole(bytes) => bytes,
            DecodedPiece::List(parts) => panic!("{parts:?}"),
        })
    }

    #[test]
    fn compression_is_used_where_it_pays() {
        let text = "all work and no play\n".repeat(1_000).into_bytes();
        let encoded = encode_piece(&text);
        assert!(encoded.len() < text.len() / 10);
        assert_eq!(whole(encoded, PieceAddress::of_bytes(&text), text.len()).unwrap(), text);
        assert_eq!(encode_piece(b"short").len(), 6);
    }

    #[test]
    fn any_flipped_bit_is_corrupt() {
        for text in [b"short".to_vec(), b"all work and no play\n".repeat(1_000)] {
            let (encoded, address) = (encode_piece(&text), PieceAddress::of_bytes(&text));
            for index in 0..encoded.len() {
                let mut damaged = encoded.clone();
                damaged[index] ^= 1 << (index % 8);
                match whole(damaged, address, text.len()) {
                    Ok(bytes) => assert_eq!(bytes, text, "a flip that the packing does not care about"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
                }
            }
        }
    }

    #[test]
    fn a_list_is_read_back_and_verified() {
        let part = |text: &[u8]| ContentPart {
            address: PieceAddress::of_bytes(text),
            size: text.len() as u64,
        };
        let parts = vec![part(b"one"), part(b"three")];
        let list = list_bytes(&parts);
        match decode_piece(encode_list(&list).into(), PieceAddress::of_list(&list), 8).unwrap() {
            DecodedPiece::List(read) => assert_eq!(read, parts),
            DecodedPiece::Whole(bytes) => panic!("{bytes:?}"),
        }
        let error = decode_piece(encode_list(&list).into(), PieceAddress::of_bytes(&list), 8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
