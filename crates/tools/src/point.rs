//! Points of the history, in the form in which arguments name them.

use std::borrow::Cow;

use garret_core::{Point, Result};
use garret_workspace::Workspace;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Returns the workspace at the point that an `at` argument names.
pub(crate) async fn view_at<'a>(workspace: &'a Workspace, text: Option<&str>) -> Result<Cow<'a, Workspace>> {
    match Point::parse_or_now(text) {
        Point::Now => Ok(Cow::Borrowed(workspace)),
        point => workspace.at_point(&point).await.map(Cow::Owned),
    }
}

/// Reads a name that may be a number, such as that of a change; an empty string counts as none.
pub(crate) fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Value::Number(number) => Ok(Some(number.to_string())),
        other => Err(D::Error::custom(format!("expected a string, not {other}"))),
    }
}

/// Reads a name that may be a number, and that must be given.
pub(crate) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    text_or_number(deserializer).map(Option::unwrap_or_default)
}
