//! Refs: small JSON that reopens a workspace in another process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Capabilities, DerivedFiles, Error, ErrorKind, HistoryMode, Result, shape};

/// A handle on a workspace that can be written down.
///
/// It names the storage, capabilities and options of the workspace. It holds no content, no secret and, if the depot
/// knows the location, no path of the host. Its form is strict: a ref that lacks a field or has one more is refused,
/// and so is one of a newer schema, because a ref opened in part would open another workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The version of this form.
    pub schema: u32,
    /// The kind of the storage.
    pub kind: String,
    /// The name that the workspace was opened under.
    pub name: String,
    /// The options by which the kind finds the files again.
    pub payload: Map<String, Value>,
    /// The capabilities of the workspace.
    pub capabilities: Capabilities,
    /// How long its history is kept.
    pub history: HistoryMode,
    /// Patterns of the paths that its history excludes.
    pub exclude: Vec<String>,
    /// Patterns of its derived files; absent if they are the default ones.
    #[serde(
        default = "DerivedFiles::default_patterns",
        skip_serializing_if = "DerivedFiles::are_default_patterns"
    )]
    pub derived: Vec<String>,
}

impl Reference {
    /// The newest form that this program reads and the one that it writes.
    pub const SCHEMA: u32 = 1;

    /// Reads a ref.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the workspace reference is not JSON: {error}"))
                .hint("pass the reference on unchanged")
        })?;
        // Tested first: a newer form may have other fields, and then its age is the reason, not the fields.
        if let Some(schema) = value.get("schema").and_then(Value::as_u64) {
            check_schema(schema)?;
        }
        shape::from_value(value)
            .map_err(|error| error.map_text(|text| format!("the workspace reference is incomplete: {text}")))
    }

    /// Refuses a form that this program does not know.
    pub fn check_schema(&self) -> Result<()> {
        check_schema(self.schema.into())
    }

    /// The ref as text; [`Reference::parse`] reads it back.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a ref has only strings as keys")
    }
}

fn check_schema(schema: u64) -> Result<()> {
    let known = u64::from(Reference::SCHEMA);
    if (1..=known).contains(&schema) {
        return Ok(());
    }
    let message = format!("the workspace reference has schema {schema}, but this program knows schema {known}");
    Err(Error::new(ErrorKind::Unsupported, message).hint("use the version of Garret that wrote it, or a newer one"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference() -> Reference {
        Reference {
            schema: Reference::SCHEMA,
            kind: "filestore".into(),
            name: "notes".into(),
            payload: Map::from_iter([("workspace".to_owned(), json!("w1"))]),
            capabilities: Capabilities::default(),
            history: HistoryMode::Durable,
            exclude: vec!["target/".into()],
            derived: DerivedFiles::default_patterns(),
        }
    }

    #[test]
    fn a_ref_is_read_back_as_it_was_written() {
        assert_eq!(Reference::parse(&reference().to_text()).unwrap(), reference());
    }

    #[test]
    fn a_ref_with_a_field_too_few_or_too_many_is_refused_with_its_name() {
        let whole = serde_json::to_value(reference()).unwrap();
        for field in [
            "schema",
            "kind",
            "name",
            "payload",
            "capabilities",
            "history",
            "exclude",
        ] {
            let mut less = whole.clone();
            less.as_object_mut().unwrap().remove(field);
            let error = Reference::parse(&less.to_string()).unwrap_err();
            assert!(error.message().contains(field), "{error}");
        }
        let mut more = whole;
        more["extra"] = json!(1);
        assert!(
            Reference::parse(&more.to_string())
                .unwrap_err()
                .message()
                .contains("extra")
        );
    }

    #[test]
    fn a_newer_ref_is_refused_for_its_age() {
        let error = Reference::parse(r#"{"schema": 2, "anything": true}"#).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("schema 2"), "{error}");
    }
}
