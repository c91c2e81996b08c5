//! Secrets out of what people, models and journals see.
//!
//! The values of the variables that a policy calls secret are replaced wherever they appear. Output comes in pieces, and a value may be
//! cut in two, so the end of a piece that could be the beginning of a value waits for the next one.

use bytes::Bytes;
use memchr::memmem;

/// What stands in the place of a secret.
pub(crate) const MASK: &str = "***";
/// A shorter value would garble half of what it is looked for in, and protects nothing.
const SHORTEST: usize = 4;

/// The values that nobody may see.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// Longest first, so that one that begins with another is found whole.
    values: Vec<String>,
}

impl Secrets {
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// The text without them.
    pub(crate) fn mask_text(&self, text: &str) -> String {
        let masked = |text: String, value: &String| text.replace(value.as_str(), MASK);
        self.values.iter().fold(text.to_owned(), masked)
    }

    /// The first of them at or after the start of `bytes`: where it begins and how long it is.
    fn find(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let found = self.values.iter().filter_map(|value| {
            let at = memmem::find(bytes, value.as_bytes())?;
            Some((at, value.len()))
        });
        found.min_by_key(|(at, length)| (*at, std::cmp::Reverse(*length)))
    }

    /// How many bytes at the end of `bytes` could be the beginning of one.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let longest = self.values.iter().map(|value| open_end(bytes, value.as_bytes()));
        longest.max().unwrap_or(0)
    }
}

/// Never its values.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets", self.values.len())
    }
}

fn open_end(bytes: &[u8], value: &[u8]) -> usize {
    let most = bytes.len().min(value.len() - 1);
    (1..=most)
        .rev()
        .find(|length| bytes[bytes.len() - length..] == value[..*length])
        .unwrap_or(0)
}

/// Takes secrets out of one stream of output.
#[derive(Debug, Clone)]
pub(crate) struct Masker {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Masker {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Self {
            secrets: secrets.clone(),
            held: Vec::new(),
        }
    }

    /// What may be shown after the next piece.
    pub(crate) fn push(&mut self, piece: Bytes) -> Bytes {
        if self.secrets.values.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        let mut shown = self.replaced();
        let held = self.secrets.open_end(&self.held);
        shown.extend(self.held.drain(..self.held.len() - held));
        shown.into()
    }

    /// What was held back, at the end.
    pub(crate) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    /// Everything up to the end of the last secret, without secrets.
    fn replaced(&mut self) -> Vec<u8> {
        let mut shown = Vec::with_capacity(self.held.len());
        while let Some((at, length)) = self.secrets.find(&self.held) {
            shown.extend(self.held.drain(..at));
            shown.extend_from_slice(MASK.as_bytes());
            self.held.drain(..length);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(values: &[&str], pieces: &[&str]) -> String {
        let secrets = Secrets::new(values.iter().map(|value| (*value).to_owned()));
        let mut masker = Masker::new(&secrets);
        let mut shown: Vec<u8> = Vec::new();
        for piece in pieces {
            shown.extend(masker.push(Bytes::copy_from_slice(piece.as_bytes())));
        }
        shown.extend(masker.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_secret_is_masked_however_it_is_cut() {
        assert_eq!(masked(&["hunter2"], &["is hunter2!"]), "is ***!");
        assert_eq!(masked(&["hunter2"], &["is hun", "ter", "2!"]), "is ***!");
        assert_eq!(masked(&["hunter2"], &["hun", "hunter2"]), "hun***");
        for cut in 0..="xaaabaaabaaac".len() {
            let (one, two) = "xaaabaaabaaac".split_at(cut);
            assert_eq!(masked(&["aaabaaac"], &[one, two]), "xaaab***");
        }
    }

    #[test]
    fn what_only_begins_like_a_secret_is_shown() {
        assert_eq!(masked(&["hunter2"], &["hunter", "s"]), "hunters");
        assert_eq!(masked(&["hunter2"], &["hunter"]), "hunter");
    }

    #[test]
    fn the_longer_of_two_is_masked_whole() {
        assert_eq!(masked(&["abcd", "abcdef"], &["abcdef abcd"]), "*** ***");
        assert_eq!(masked(&["abcd", "abcdef"], &["abc", "d", "ef"]), "***");
    }

    #[test]
    fn a_value_too_short_to_be_one_masks_nothing() {
        assert_eq!(masked(&["a", ""], &["banana"]), "banana");
    }

    #[test]
    fn texts_are_masked_too() {
        let secrets = Secrets::new(["hunter2".to_owned()]);
        assert_eq!(secrets.mask_text("curl -H hunter2"), "curl -H ***");
        assert_eq!(format!("{secrets:?}"), "1 secrets");
    }
}
