//! The outcome of a piece of code, as its driver reports it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_core::Secrets;
use serde::Deserialize;
use serde_json::Value;

use crate::{CodeError, CodeValue};

/// The outcome of a piece of code; all fields are `None` if the piece did not come to an end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CodeOutcome {
    pub(super) result: Option<CodeValue>,
    pub(super) error: Option<CodeError>,
    pub(super) exit_code: Option<i32>,
}

/// The report of a driver on a piece of code, in JSON.
#[derive(Deserialize)]
struct DriverReport {
    result: Option<DriverValue>,
    error: Option<CodeError>,
}

#[derive(Deserialize)]
struct DriverValue {
    repr: String,
    /// The JSON form as text: a value that cannot be parsed must not make the whole report unreadable.
    json: Option<String>,
}

impl CodeOutcome {
    /// Parses the report behind a mark: ` told ` and JSON in base64, or ` exit ` and a number.
    pub(super) fn parse_report(told: &[u8], secrets: &Secrets) -> Self {
        let text = String::from_utf8_lossy(told);
        let read = match text.trim().split_once(' ') {
            Some(("exit", code)) => code.parse().ok().map(|code| Self {
                exit_code: Some(code),
                ..Self::default()
            }),
            Some(("told", text)) => Self::from_encoded_json(text),
            _ => None,
        };
        read.unwrap_or_else(Self::unreadable_report).mask_secrets(secrets)
    }

    fn from_encoded_json(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        let told: DriverReport = serde_json::from_slice(&bytes).ok()?;
        let value = |told: DriverValue| CodeValue {
            repr: told.repr,
            json: told.json.and_then(|text| serde_json::from_str(&text).ok()),
        };
        Some(Self {
            result: told.result.map(value),
            error: told.error,
            exit_code: None,
        })
    }

    /// Returns the outcome for a report that cannot be read.
    fn unreadable_report() -> Self {
        // Only code that writes to the descriptors of its driver can cause this, so it is an error of the code.
        Self {
            error: Some(CodeError {
                kind: "Unreadable".to_owned(),
                message: "the result of the code cannot be read".to_owned(),
                traceback: String::new(),
            }),
            ..Self::default()
        }
    }

    fn mask_secrets(self, secrets: &Secrets) -> Self {
        if secrets.is_empty() {
            return self;
        }
        Self {
            result: self.result.map(|value| CodeValue {
                repr: secrets.mask_text(&value.repr),
                json: value.json.map(|json| mask_json(json, secrets)),
            }),
            error: self.error.map(|error| CodeError {
                kind: secrets.mask_text(&error.kind),
                message: secrets.mask_text(&error.message),
                traceback: secrets.mask_text(&error.traceback),
            }),
            exit_code: self.exit_code,
        }
    }

    /// Describes the outcome in a word or two, for the journal.
    pub(super) fn short_description(&self) -> String {
        match (&self.error, self.exit_code) {
            (Some(error), _) => error.kind.clone(),
            (None, Some(code)) => format!("exit {code}"),
            (None, None) => "done".to_owned(),
        }
    }
}

fn mask_json(json: Value, secrets: &Secrets) -> Value {
    match json {
        Value::String(text) => Value::String(secrets.mask_text(&text)),
        Value::Array(items) => items.into_iter().map(|item| mask_json(item, secrets)).collect(),
        Value::Object(object) => {
            let pairs = object.into_iter();
            pairs
                .map(|(key, value)| (secrets.mask_text(&key), mask_json(value, secrets)))
                .collect()
        }
        Value::Number(number) => {
            let shown = secrets.mask_text(&number.to_string());
            // A masked number is no number any more, so it becomes a string.
            if shown == number.to_string() {
                Value::Number(number)
            } else {
                Value::String(shown)
            }
        }
        Value::Null | Value::Bool(_) => json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(value: &Value) -> Vec<u8> {
        format!(" told {}", STANDARD.encode(value.to_string())).into_bytes()
    }

    #[test]
    fn a_value_comes_in_both_forms() {
        let told = told(&json!({"result": {"repr": "{'a': 1}", "json": "{\"a\": 1}"}}));
        let outcome = CodeOutcome::parse_report(&told, &Secrets::default());
        let value = outcome.result.unwrap();
        assert_eq!((value.repr.as_str(), value.json), ("{'a': 1}", Some(json!({"a": 1}))));
    }

    #[test]
    fn json_that_cannot_be_read_leaves_the_rest() {
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        let told = told(&json!({"result": {"repr": "deep", "json": deep}}));
        let value = CodeOutcome::parse_report(&told, &Secrets::default()).result.unwrap();
        assert_eq!((value.repr.as_str(), value.json), ("deep", None));
    }

    #[test]
    fn no_secret_comes_through() {
        let secrets = Secrets::new([("TOKEN", "hunter\"2"), ("PIN", "123456")]);
        let told = told(&json!({
            "result": {"repr": "'hunter\"2'", "json": r#"{"hunter\"2": ["x hunter\"2", 123456, 12]}"#},
            "error": {"type": "E", "message": "hunter\"2", "traceback": "at hunter\"2"},
        }));
        let outcome = CodeOutcome::parse_report(&told, &secrets);
        let value = outcome.result.unwrap();
        assert_eq!(value.repr, "'[TOKEN]'");
        assert_eq!(value.json, Some(json!({"[TOKEN]": ["x [TOKEN]", "[PIN]", 12]})));
        let error = outcome.error.unwrap();
        assert_eq!(
            (error.message.as_str(), error.traceback.as_str()),
            ("[TOKEN]", "at [TOKEN]")
        );
    }

    #[test]
    fn what_is_no_outcome_is_said_to_be_none() {
        for told in [&b""[..], b" told !!", b" told bm9uZQ==", b" exit x", b"\xff"] {
            let outcome = CodeOutcome::parse_report(told, &Secrets::default());
            assert_eq!(outcome.error.map(|error| error.kind).as_deref(), Some("Unreadable"));
        }
    }
}
