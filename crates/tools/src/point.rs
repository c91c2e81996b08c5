//! Points of the history, as arguments name them.

use std::borrow::Cow;

use garret_core::{Point, Result};
use garret_workspace::Workspace;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The word for the newest state; leaving the argument out says the same.
const NOW: &str = "now";

/// The point that a text names: a snapshot, a change by id or number, or a time.
pub(crate) fn named(text: Option<&str>) -> Point {
    match text {
        None | Some(NOW) => Point::Now,
        Some(text) => Point::Named(text.to_owned()),
    }
}

/// The workspace as it was at the point that an `at` argument names.
pub(crate) async fn at<'a>(workspace: &'a Workspace, text: Option<&str>) -> Result<Cow<'a, Workspace>> {
    match named(text) {
        Point::Now => Ok(Cow::Borrowed(workspace)),
        point => workspace.at(&point).await.map(Cow::Owned),
    }
}

/// Reads a name that may be a number, such as that of a change; an empty string is as good as none.
pub(crate) fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Value::Number(number) => Ok(Some(number.to_string())),
        other => Err(D::Error::custom(format!("expected a string, not {other}"))),
    }
}

/// The same where one must be given.
pub(crate) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    text_or_number(deserializer).map(Option::unwrap_or_default)
}
