//! The limits on how much of its history a workspace keeps.
//!
//! They are written as a user writes them: `30d`, `12h`, a number of changes, `500MB`, or several of these. Each is a
//! limit, and a change that exceeds any of them is dropped; snapshots and branches are never touched.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::path::quote;
use crate::{Error, Result};

/// The limits on how much of its history a workspace keeps. Without a limit, all of it is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RetentionLimits {
    /// Keeps changes younger than this.
    pub age: Option<Duration>,
    /// Keeps this many of the newest changes.
    pub changes: Option<u64>,
    /// Keeps the newest changes whose before-images take up to this many bytes.
    pub bytes: Option<u64>,
}

const TIMES: [(&str, u64); 6] = [
    ("s", 1),
    ("min", 60),
    ("h", 3_600),
    ("d", 86_400),
    ("w", 7 * 86_400),
    ("y", 365 * 86_400),
];

const SIZES: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

impl RetentionLimits {
    /// Returns whether there is no limit, so that all of the history is kept.
    pub fn keeps_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a limit; a second limit of one kind is `invalid`.
    fn add_limit(&mut self, text: &str) -> Result<()> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| invalid_retention_error(text))?;
        let unit = unit.trim();
        let known = |units: &[(&str, u64)]| {
            let found = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
            // A number that overflows is refused like an unknown unit.
            number.checked_mul(found.1)
        };
        let is_new = match unit {
            "" | "change" | "changes" => self.changes.replace(number).is_none(),
            _ => match (known(&TIMES), known(&SIZES)) {
                (Some(seconds), _) => self.age.replace(Duration::from_secs(seconds)).is_none(),
                (_, Some(bytes)) => self.bytes.replace(bytes).is_none(),
                _ => return Err(invalid_retention_error(text)),
            },
        };
        if is_new {
            return Ok(());
        }
        Err(Error::invalid(format!("{} sets the same limit twice", quote(text)))
            .hint("give one age, one number of changes and one size at most"))
    }
}

impl FromStr for RetentionLimits {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let separators = |c: char| c == ',' || c.is_whitespace();
        let mut keep = Self::default();
        for part in text.split(separators).filter(|part| !part.is_empty()) {
            keep.add_limit(part)?;
        }
        if keep.keeps_everything() {
            Err(invalid_retention_error(text))
        } else {
            Ok(keep)
        }
    }
}

fn invalid_retention_error(text: &str) -> Error {
    Error::invalid(format!("{} does not say how much history to keep", quote(text))).hint(
        "write an age (`30d`, `12h`), a number of changes (`1000`), a size (`500MB`), or several of them with commas",
    )
}

/// Writes the limits in the form in which they are parsed.
impl fmt::Display for RetentionLimits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only a unit that divides the number: the text must be read back as the same limit.
        let age = self.age.map(|age| match age.as_secs() {
            seconds if seconds > 0 && seconds % 86_400 == 0 => format!("{}d", seconds / 86_400),
            seconds if seconds > 0 && seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
            seconds => format!("{seconds}s"),
        });
        let bytes = self.bytes.map(|bytes| match bytes {
            bytes if bytes > 0 && bytes % 1_000_000 == 0 => format!("{}MB", bytes / 1_000_000),
            bytes => format!("{bytes}B"),
        });
        let parts = [age, self.changes.map(|count| count.to_string()), bytes];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            formatter.write_str("everything")
        } else {
            formatter.write_str(&parts.join(","))
        }
    }
}

/// Writes `"everything"`, or text that [`RetentionLimits`] is parsed from.
impl Serialize for RetentionLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Written by hand, because more forms are accepted than the fields show.
impl JsonSchema for RetentionLimits {
    fn schema_name() -> Cow<'static, str> {
        "Keep".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = serde_json::json!({"type": ["string", "integer"], "minimum": 0});
        json_schema!({
            "description": "An age (`30d`, `12h`), a number of changes, a size (`500MB`), or a list of them; `everything` for no limit.",
            "anyOf": [one, {"type": "array", "items": one}],
        })
    }
}

/// Reads text, a number of changes, or a list of either.
impl<'de> Deserialize<'de> for RetentionLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RetentionPart {
            Count(u64),
            Text(String),
        }
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an age, a number of changes, a size, or a list of them")]
        enum RetentionText {
            One(RetentionPart),
            Many(Vec<RetentionPart>),
        }
        let text = |one: RetentionPart| match one {
            RetentionPart::Count(count) => count.to_string(),
            RetentionPart::Text(text) => text,
        };
        let whole = match RetentionText::deserialize(deserializer)? {
            RetentionText::One(one) => text(one),
            RetentionText::Many(many) => many.into_iter().map(text).collect::<Vec<_>>().join(","),
        };
        match whole.as_str() {
            "everything" => Ok(Self::default()),
            whole => whole.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sort_of_limit_is_read_and_written_back() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        for (text, age, changes, bytes) in [
            ("30d", days(30), None, None),
            ("12h", Some(Duration::from_secs(43_200)), None, None),
            ("90s", Some(Duration::from_secs(90)), None, None),
            ("2w", days(14), None, None),
            ("1000", None, Some(1_000), None),
            ("5changes", None, Some(5), None),
            ("0", None, Some(0), None),
            ("500MB", None, None, Some(500_000_000)),
            ("1GiB", None, None, Some(1 << 30)),
            ("1mb", None, None, Some(1_000_000)),
            ("30d, 1000 500MB", days(30), Some(1_000), Some(500_000_000)),
        ] {
            let keep: RetentionLimits = text.parse().unwrap();
            assert_eq!((keep.age, keep.changes, keep.bytes), (age, changes, bytes), "{text}");
            assert_eq!(keep.to_string().parse::<RetentionLimits>().unwrap(), keep, "{text}");
        }
    }

    #[test]
    fn what_is_no_limit_is_refused_with_a_hint() {
        for text in [
            "",
            "abc",
            "30x",
            "-1",
            "1.5GB",
            "99999999999999999999",
            "30d,20d",
            "18446744073709551615TB",
        ] {
            let error = text.parse::<RetentionLimits>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{text}");
            assert!(!error.hint_text().is_empty(), "{text}");
        }
    }

    #[test]
    fn a_configuration_takes_text_a_number_or_a_list() {
        let read = |text: &str| serde_json::from_str::<RetentionLimits>(text).unwrap();
        assert_eq!(read("\"30d\""), "30d".parse().unwrap());
        assert_eq!(read("100"), "100".parse().unwrap());
        assert_eq!(read("[\"30d\", 100]"), "30d,100".parse().unwrap());
        assert_eq!(read("\"everything\""), RetentionLimits::default());
        assert_eq!(
            serde_json::to_string(&RetentionLimits::default()).unwrap(),
            "\"everything\""
        );
        assert!(serde_json::from_str::<RetentionLimits>("\"x\"").is_err());
    }
}
