//! The stored form of a piece of content: one byte that names the encoding, then the encoded bytes. The database and
//! the blobs use the same form, so a blob can be decoded without the database.

use std::cell::RefCell;

use bytes::Bytes;
use garret_core::Result;
use zstd::bulk::{Compressor, Decompressor};

use super::Address;
use crate::error::damaged;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const LIST: u8 = 2;

/// The minimum length of content that is compressed; compressing shorter content is not worth its time.
const SHORTEST_COMPRESSED: usize = 4 * 1024 + 1;
const LEVEL: i32 = 3;

/// A part of a larger file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) address: Address,
    pub(super) size: u64,
}

const PART_BYTES: usize = 40;

/// A decoded piece: the whole bytes of a content, or the list of its parts.
#[derive(Debug)]
pub(super) enum Decoded {
    Whole(Bytes),
    List(Vec<Part>),
}

/// Encodes bytes for storage, compressed if that saves an eighth or more.
pub(super) fn encode(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() >= SHORTEST_COMPRESSED
        && let Ok(compressed) = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(bytes))
        && compressed.len() < bytes.len() - bytes.len() / 8
    {
        return tagged(ZSTD, &compressed);
    }
    tagged(PLAIN, bytes)
}

thread_local! {
    // One for each thread: creating a compressor costs a good part of the time of compressing one part of a file.
    static COMPRESSOR: RefCell<Compressor<'static>> = RefCell::new(Compressor::new(LEVEL).expect("the level is one"));
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::new().expect("it needs nothing"));
}

/// Encodes a list of parts for storage.
pub(super) fn encode_list(list: &[u8]) -> Vec<u8> {
    tagged(LIST, list)
}

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len() + 1);
    encoded.push(tag);
    encoded.extend_from_slice(bytes);
    encoded
}

/// Returns the bytes of a list of parts; its address is their hash.
pub(super) fn list_bytes(parts: &[Part]) -> Vec<u8> {
    let mut list = Vec::with_capacity(parts.len() * PART_BYTES);
    for part in parts {
        list.extend_from_slice(&part.address.0);
        list.extend_from_slice(&part.size.to_le_bytes());
    }
    list
}

/// Decodes a stored piece of `size` bytes and verifies it. Bytes that do not match `address` are `corrupt`.
pub(super) fn decode(encoded: Bytes, address: Address, size: u64) -> Result<Decoded> {
    let tag = *encoded.first().ok_or_else(|| damaged("it is empty"))?;
    let bytes = encoded.slice(1..);
    match tag {
        PLAIN => verified(bytes, address).map(Decoded::Whole),
        ZSTD => {
            // `size` also bounds the memory that a damaged piece can make the decompressor use.
            let plain = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress(&bytes, size as usize));
            let plain = plain.map_err(|_| damaged("it cannot be decompressed"))?;
            verified(plain.into(), address).map(Decoded::Whole)
        }
        LIST if Address::of_list(&bytes) == address => Ok(Decoded::List(parts_of(&bytes))),
        LIST => Err(damaged("its list of parts does not match its hash")),
        _ => Err(damaged("its encoding is unknown")),
    }
}

fn verified(bytes: Bytes, address: Address) -> Result<Bytes> {
    if Address::of(&bytes) != address {
        return Err(damaged("its bytes do not match its hash"));
    }
    Ok(bytes)
}

/// Parses the bytes of a list into its parts.
pub(super) fn parts_of(list: &[u8]) -> Vec<Part> {
    let part = |bytes: &[u8]| {
        let (address, size) = bytes.split_at(32);
        Part {
            address: Address(address.try_into().expect("it is 32 bytes long")),
            size: u64::from_le_bytes(size.try_into().expect("it is 8 bytes long")),
        }
    };
    list.chunks_exact(PART_BYTES).map(part).collect()
}

#[cfg(test)]
mod tests {
    use garret_core::ErrorKind;

    use super::*;

    fn whole(encoded: Vec<u8>, address: Address, size: usize) -> Result<Bytes> {
        decode(encoded.into(), address, size as u64).map(|decoded| match decoded {
            Decoded::Whole(bytes) => bytes,
            Decoded::List(parts) => panic!("{parts:?}"),
        })
    }

    #[test]
    fn compression_is_used_where_it_pays() {
        let text = "all work and no play\n".repeat(1_000).into_bytes();
        let encoded = encode(&text);
        assert!(encoded.len() < text.len() / 10);
        assert_eq!(whole(encoded, Address::of(&text), text.len()).unwrap(), text);
        assert_eq!(encode(b"short").len(), 6);
    }

    #[test]
    fn any_flipped_bit_is_corrupt() {
        for text in [b"short".to_vec(), b"all work and no play\n".repeat(1_000)] {
            let (encoded, address) = (encode(&text), Address::of(&text));
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
        let part = |text: &[u8]| Part {
            address: Address::of(text),
            size: text.len() as u64,
        };
        let parts = vec![part(b"one"), part(b"three")];
        let list = list_bytes(&parts);
        match decode(encode_list(&list).into(), Address::of_list(&list), 8).unwrap() {
            Decoded::List(read) => assert_eq!(read, parts),
            Decoded::Whole(bytes) => panic!("{bytes:?}"),
        }
        let error = decode(encode_list(&list).into(), Address::of(&list), 8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
