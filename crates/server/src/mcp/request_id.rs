//! Finds the id of a request whose line cannot be read as JSON.
//!
//! Clients write the id before the parameters or after them, so a line has to be searched to its end, even one that is
//! too long to be kept. The scanner therefore takes a line in pieces, keeps a few bytes of it, and knows of JSON only
//! strings, brackets, colons and commas: it finds the value of the first key `id` of the outermost object.

use serde_json::Value;

/// The longest id that is kept; a longer one is treated as missing.
const MAX_ID_BYTES: usize = 1024;

/// Searches the pieces of a line for the id.
#[derive(Debug, Default)]
pub(super) struct IdScanner {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The last string of the outermost object while it may be a key, or the value of the key `id` while it is read.
    text: Vec<u8>,
    part: JsonPart,
}

/// The part of the outermost object that comes next.
#[derive(Debug, Default, PartialEq, Eq)]
enum JsonPart {
    #[default]
    Key,
    /// The value of another key.
    OtherValue,
    /// The value of the key `id`.
    Id,
    /// No more: the id was found.
    Done,
}

impl IdScanner {
    /// Searches the next piece of the line.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        piece.iter().for_each(|byte| self.scan_byte(*byte));
    }

    /// Returns the id that was found: a string or an integer.
    pub(super) fn id(mut self) -> Option<Value> {
        // A line that is cut off ends the value as a comma would; a string that is cut off is refused by the parser.
        self.end_value();
        if self.part != JsonPart::Done {
            return None;
        }
        let id: Value = serde_json::from_slice(&self.text).ok()?;
        (id.is_string() || id.is_i64()).then_some(id)
    }

    fn scan_byte(&mut self, byte: u8) {
        // The first id counts, so the rest of the line is skipped.
        if self.part == JsonPart::Done {
            return;
        }
        if self.in_string {
            self.keep_byte(byte);
            self.in_string = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.part == JsonPart::Key {
                    self.text.clear();
                }
                self.keep_byte(byte);
            }
            b'{' | b'[' => {
                self.keep_byte(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 && self.part == JsonPart::Key => {
                let is_id = self.text == br#""id""#;
                self.text.clear();
                self.part = if is_id { JsonPart::Id } else { JsonPart::OtherValue };
            }
            b',' if self.depth == 1 => {
                self.end_value();
                if self.part == JsonPart::OtherValue {
                    self.part = JsonPart::Key;
                }
            }
            byte if byte.is_ascii_whitespace() && self.part == JsonPart::Key => {}
            byte => self.keep_byte(byte),
        }
    }

    /// Keeps a byte of a key of the outermost object or of the id.
    fn keep_byte(&mut self, byte: u8) {
        // A value that is too long is cut off: it is then no valid JSON, and so no id.
        let is_wanted = self.depth == 1 && matches!(self.part, JsonPart::Key | JsonPart::Id);
        if is_wanted && self.text.len() < MAX_ID_BYTES {
            self.text.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.part == JsonPart::Id {
            self.part = JsonPart::Done;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The id of a line, whole and byte by byte.
    fn id(line: &[u8]) -> Option<Value> {
        let (mut whole, mut single) = (IdScanner::default(), IdScanner::default());
        whole.feed(line);
        line.iter().for_each(|byte| single.feed(&[*byte]));
        let found = whole.id();
        assert_eq!(found, single.id());
        found
    }

    #[test]
    fn the_id_of_the_outermost_object_is_found() {
        assert_eq!(id(br#"{"id":1,"method":"x","params":"#), Some(json!(1)));
        assert_eq!(id(br#" { "method" : "x" , "id" : "a,}b" }"#), Some(json!("a,}b")));
        assert_eq!(
            id(br#"{"params":{"id":2,"x":["id",{"id":3}]},"id":-4}"#),
            Some(json!(-4))
        );
        assert_eq!(id(br#"{"x":"\"id\":5,","id":6}"#), Some(json!(6)));
        assert_eq!(id(b"{\"x\":\"\xff\xfe\",\"id\":7"), Some(json!(7)));
        assert_eq!(id(br#"{"method":"id","id":8}"#), Some(json!(8)));
        assert_eq!(id(br#"{"id":"a\"b","id":9}"#), Some(json!("a\"b")));
    }

    #[test]
    fn what_is_no_id_is_none() {
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_ID_BYTES));
        for line in [
            "",
            "id",
            r#""id":1"#,
            r#"{"params":{"id":1}}"#,
            r#"{"id":null}"#,
            r#"{"id":{"id":1}}"#,
            r#"{"id":[1]}"#,
            r#"{"id":1.5}"#,
            r#"{"id""#,
            r#"{"ID":1}"#,
            r#"[{"id":1}]"#,
            r#"{"id":"cut"#,
            &long,
        ] {
            assert_eq!(id(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn nothing_makes_it_keep_more_than_an_id() {
        let mut scanner = IdScanner::default();
        scanner.feed(b"{");
        for _ in 0..1000 {
            scanner.feed(&[b'x'; 1000]);
            scanner.feed(&[b'{'; 1000]);
        }
        assert!(scanner.text.len() <= MAX_ID_BYTES);
    }
}
