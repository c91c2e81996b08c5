//! Telling text, images and other bytes apart by the first bytes of a file.

/// How many bytes of a file decide.
const HEAD: usize = 8 << 10;

/// Whether a file that begins with these bytes is text: its first 8 KiB are UTF-8, and it is no image.
pub(crate) fn is_text(beginning: &[u8]) -> bool {
    let head = &beginning[..beginning.len().min(HEAD)];
    is_utf8_so_far(head) && image_type(head).is_none()
}

/// Whether the first bytes of a file are UTF-8.
fn is_utf8_so_far(head: &[u8]) -> bool {
    match std::str::from_utf8(head) {
        Ok(_) => true,
        // In a full head, the last character may be cut off by the limit and not by the end of the file.
        Err(error) => error.error_len().is_none() && head.len() == HEAD,
    }
}

/// Returns the media type of an image that models can look at, by its first bytes: PNG, JPEG, GIF or WebP.
pub fn image_type(beginning: &[u8]) -> Option<&'static str> {
    match beginning {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        // A text about GIF may begin with the same letters; a width and height without a NUL would be a very large
        // image.
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', size @ ..] if size.iter().take(4).any(|byte| *byte == 0) => {
            Some("image/gif")
        }
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        assert_eq!(image_type(b"\x89PNG\r\n\x1a\n...."), Some("image/png"));
        assert_eq!(image_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(image_type(b"GIF89a\x01\x00\x01\x00"), Some("image/gif"));
        assert_eq!(image_type(b"RIFF\x10\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(image_type(b"GIF89a is a format"), None);
        assert_eq!(image_type(b"\x89PN"), None);
    }

    #[test]
    fn a_character_cut_by_the_piece_is_text_and_one_cut_by_the_file_is_not() {
        let mut long = vec![b'a'; HEAD - 1];
        long.extend("é and more".as_bytes());
        assert!(is_text(&long));
        assert!(!is_text(&[b'a', 0xc3]));
        assert!(is_text(b""));
    }
}
