//! Percent-encoding, as S3 needs it in paths, queries and headers.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether a plus sign stands for a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum PlusSign {
    /// It is a plus sign.
    Kept,
    /// It is a space, as in a form.
    Space,
}

/// Encodes a key as part of a path: everything but unreserved characters and `/` is escaped.
pub(in super::super) fn encode_path(text: &str) -> String {
    percent_encode(text, |byte| byte == b'/')
}

/// Encodes a value in a query: everything but unreserved characters is escaped.
pub(in super::super) fn encode_query(text: &str) -> String {
    percent_encode(text, |_| false)
}

fn percent_encode(text: &str, also_plain: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if is_plain || also_plain(byte) {
            encoded.push(byte as char);
        } else {
            encoded.push('%');
            encoded.push(HEX[usize::from(byte >> 4)] as char);
            encoded.push(HEX[usize::from(byte & 15)] as char);
        }
    }
    encoded
}

/// Decodes a text into bytes; an invalid escape stays as it is.
pub(in super::super) fn percent_decode(text: &str, plus: PlusSign) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = (*byte == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten()
            .and_then(hex_byte);
        match escape {
            Some(value) => {
                plain.push(value);
                at += 2;
            }
            None if *byte == b'+' && plus == PlusSign::Space => plain.push(b' '),
            None => plain.push(*byte),
        }
        at += 1;
    }
    plain
}

fn hex_byte(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_again() {
        for text in ["a/b c", "%2e%2e", "日本\u{1}\n", "a+b&c=d?#", "~-._"] {
            for plus in [PlusSign::Kept, PlusSign::Space] {
                assert_eq!(percent_decode(&encode_path(text), plus), text.as_bytes());
                assert_eq!(percent_decode(&encode_query(text), plus), text.as_bytes());
            }
        }
        assert_eq!(encode_path("a/b +%"), "a/b%20%2B%25");
        assert_eq!(encode_query("a/b"), "a%2Fb");
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(percent_decode("100%", PlusSign::Kept), b"100%");
        assert_eq!(percent_decode("%zz%4", PlusSign::Kept), b"%zz%4");
        assert_eq!(percent_decode("a+b", PlusSign::Space), b"a b");
        assert_eq!(percent_decode("a+b", PlusSign::Kept), b"a+b");
    }
}
