//! Masks secrets in output while it streams by.
//!
//! A value may arrive in pieces, so the end of the input is held back as long as it may be the beginning of a value.
//! Only the value itself is masked, byte for byte; a command that prints it in another form (base64, reversed) shows
//! that form.

use std::fmt;
use std::sync::Arc;

/// The values that must not be shown, each with the label that is shown in its place.
#[derive(Clone, Default)]
pub struct Secrets {
    all: Arc<Vec<MaskedSecret>>,
}

struct MaskedSecret {
    value: Vec<u8>,
    label: Vec<u8>,
}

/// Shows only the number of secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secrets({})", self.all.len())
    }
}

impl Secrets {
    /// Takes names and values; `[NAME]` is shown in place of a value. An empty value hides nothing. Line ends after a
    /// value are not part of it.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let pairs = secrets.into_iter().map(|(name, value)| {
            // A shell takes line ends off a value, so a command prints the value without them.
            let value = value.as_ref().trim_end_matches(['\r', '\n']).as_bytes().to_vec();
            (format!("[{}]", name.as_ref()), value)
        });
        let mut pairs: Vec<_> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        // If one value begins with another, the longer one must be found first.
        pairs.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let values: Vec<_> = pairs.iter().map(|(_, value)| value.clone()).collect();
        let secret = |(label, value)| MaskedSecret {
            label: harmless_label(label, &values),
            value,
        };
        Self {
            all: Arc::new(pairs.into_iter().map(secret).collect()),
        }
    }

    /// Returns whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Masks the values in a complete text.
    pub fn mask_text(&self, text: &str) -> String {
        let mut masker = Masker::new(self);
        let mut masked = masker.push(text.as_bytes());
        masked.extend(masker.finish());
        String::from_utf8_lossy(&masked).into_owned()
    }

    /// Returns the longest value that `bytes` begins with.
    fn find_at_start(&self, bytes: &[u8]) -> Option<&MaskedSecret> {
        self.all.iter().find(|secret| bytes.starts_with(&secret.value))
    }

    /// Returns whether `bytes` is the beginning of a longer value.
    fn is_value_prefix(&self, bytes: &[u8]) -> bool {
        let begins = |secret: &MaskedSecret| secret.value.len() > bytes.len() && secret.value.starts_with(bytes);
        self.all.iter().any(begins)
    }
}

/// Returns a label that contains no value itself.
fn harmless_label(label: String, values: &[Vec<u8>]) -> Vec<u8> {
    let shows = |label: &[u8]| {
        let shows = |value: &Vec<u8>| label.windows(value.len()).any(|part| part == value.as_slice());
        values.iter().any(shows)
    };
    // A secret whose name contains a value cannot be shown by its name, and a value may even be a part of the other
    // labels.
    let labels = [label.as_bytes(), b"[secret]", b"***"];
    labels
        .into_iter()
        .find(|label| !shows(label))
        .unwrap_or_default()
        .to_vec()
}

/// A filter that masks the secrets of one stream.
#[derive(Debug, Clone)]
pub struct Masker {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Masker {
    /// Makes a masker at the beginning of a stream.
    pub fn new(secrets: &Secrets) -> Self {
        Self {
            secrets: secrets.clone(),
            held: Vec::new(),
        }
    }

    /// Takes `bytes` and returns the bytes that can be shown now; the rest comes with the next call or with
    /// [`Masker::finish`].
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.secrets.is_empty() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        self.release_held(|secrets, rest| secrets.is_value_prefix(rest))
    }

    /// Returns the bytes that are left at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release_held(|_, _| false)
    }

    /// Returns the held bytes, masked, up to the first position at which `must_wait` asks for more input.
    fn release_held(&mut self, must_wait: impl Fn(&Secrets, &[u8]) -> bool) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let longest = self.secrets.all.first().map_or(0, |secret| secret.value.len());
        let mut shown = Vec::with_capacity(held.len());
        let mut at = 0;
        while at < held.len() {
            let rest = &held[at..];
            // The rest may be the beginning of a value whose other part has not come yet.
            if rest.len() < longest && must_wait(&self.secrets, rest) {
                break;
            }
            match self.secrets.find_at_start(rest) {
                Some(secret) => {
                    shown.extend_from_slice(&secret.label);
                    at += secret.value.len();
                }
                None => {
                    shown.push(held[at]);
                    at += 1;
                }
            }
        }
        self.held = held[at..].to_vec();
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(secrets: &Secrets, pieces: &[&str]) -> String {
        let mut masker = Masker::new(secrets);
        let mut shown: Vec<u8> = pieces.iter().flat_map(|piece| masker.push(piece.as_bytes())).collect();
        shown.extend(masker.finish());
        String::from_utf8(shown).unwrap()
    }

    #[test]
    fn a_value_is_masked_wherever_it_is_cut() {
        let secrets = Secrets::new([("TOKEN", "hunter2")]);
        let text = "a hunter2b hunter hunter22";
        let expected = "a [TOKEN]b hunter [TOKEN]2";
        for cut in 0..=text.len() {
            assert_eq!(masked(&secrets, &[&text[..cut], &text[cut..]]), expected, "{cut}");
        }
    }

    #[test]
    fn what_is_no_value_is_shown_at_once() {
        let mut masker = Masker::new(&Secrets::new([("TOKEN", "hunter2")]));
        assert_eq!(masker.push(b"hello hunt"), b"hello ");
        assert_eq!(masker.push(b"s"), b"hunts");
        assert_eq!(masker.push(b"hun"), b"");
        assert_eq!(masker.finish(), b"hun");
    }

    #[test]
    fn the_longer_of_two_values_is_meant() {
        let secrets = Secrets::new([("SHORT", "abc"), ("LONG", "abcdef")]);
        assert_eq!(masked(&secrets, &["abcdef"]), "[LONG]");
        assert_eq!(masked(&secrets, &["abc", "de"]), "[SHORT]de");
        assert_eq!(masked(&secrets, &["abc", "def"]), "[LONG]");
    }

    #[test]
    fn an_empty_value_hides_nothing_and_the_end_of_a_line_is_not_part_of_one() {
        assert!(Secrets::new([("EMPTY", ""), ("LINE", "\n")]).is_empty());
        assert_eq!(Secrets::new([("KEY", "abc\n")]).mask_text("xabcx"), "x[KEY]x");
    }

    #[test]
    fn a_name_that_is_a_value_is_not_shown() {
        assert_eq!(Secrets::new([("abc", "abc")]).mask_text("abc"), "[secret]");
        assert_eq!(Secrets::new([("abc", "abc"), ("X", "secret")]).mask_text("abc"), "***");
    }

    #[test]
    fn no_form_for_people_shows_a_value() {
        assert_eq!(format!("{:?}", Secrets::new([("A", "hunter2")])), "Secrets(1)");
    }

    proptest! {
        /// Two letters make values and their beginnings frequent.
        #[test]
        fn no_value_is_ever_seen(
            values in prop::collection::vec("[ab]{1,5}", 1..4),
            pieces in prop::collection::vec("[abc]{0,8}", 0..8),
        ) {
            let named: Vec<_> = values.iter().enumerate().map(|(number, value)| (format!("S{number}"), value.clone())).collect();
            let secrets = Secrets::new(named);
            let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
            let shown = masked(&secrets, &pieces);
            for value in &values {
                prop_assert!(!shown.contains(value.as_str()), "{shown}");
            }
            prop_assert_eq!(&shown, &masked(&secrets, &[&pieces.concat()]), "however it is cut");
        }

        #[test]
        fn what_holds_no_value_is_not_touched(pieces in prop::collection::vec(".{0,12}", 0..6)) {
            let secrets = Secrets::new([("S", "\u{1}never\u{1}")]);
            let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
            prop_assume!(!pieces.concat().contains('\u{1}'));
            prop_assert_eq!(masked(&secrets, &pieces), pieces.concat());
        }
    }
}
