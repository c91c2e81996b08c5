//! A piece of content as it is stored: one byte that says how, then the bytes. The byte is the same in the database and in a blob, so a
//! blob tells what it is without the database.

use std::cell::RefCell;

use bytes::Bytes;
use garret_core::Result;
use zstd::bulk::{Compressor, Decompressor};

use super::Address;
use crate::error::damaged;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const LIST: u8 = 2;

/// Shorter content is not worth compressing.
const SHORTEST_COMPRESSED: usize = 4 * 1024 + 1;
const LEVEL: i32 = 3;

/// A part of a larger file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) address: Address,
    pub(super) size: u64,
}

const PART_BYTES: usize = 40;

/// What a piece turns out to be.
#[derive(Debug)]
pub(super) enum Decoded {
    Whole(Bytes),
    List(Vec<Part>),
}

/// Bytes as they are stored: compressed where that saves an eighth or more.
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
    /// To make one takes a good part of the time that it takes to pack or unpack a part of a file.
    static COMPRESSOR: RefCell<Compressor<'static>> = RefCell::new(Compressor::new(LEVEL).expect("the level is one"));
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::new().expect("it needs nothing"));
}

/// A list of parts as it is stored.
pub(super) fn encode_list(list: &[u8]) -> Vec<u8> {
    tagged(LIST, list)
}

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len() + 1);
    encoded.push(tag);
    encoded.extend_from_slice(bytes);
    encoded
}

/// A list of parts as bytes, of which its address is made.
pub(super) fn list_bytes(parts: &[Part]) -> Vec<u8> {
    let mut list = Vec::with_capacity(parts.len() * PART_BYTES);
    for part in parts {
        list.extend_from_slice(&part.address.0);
        list.extend_from_slice(&part.size.to_le_bytes());
    }
    list
}

/// Reads a stored piece of `size` bytes and verifies it; anything but what was stored at `address` is `corrupt`.
pub(super) fn decode(encoded: Bytes, address: Address, size: u64) -> Result<Decoded> {
    let tag = *encoded.first().ok_or_else(|| damaged("it is empty"))?;
    let bytes = encoded.slice(1..);
    match tag {
        PLAIN => verified(bytes, address).map(Decoded::Whole),
        ZSTD => {
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

/// The parts that the bytes of a list name.
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
