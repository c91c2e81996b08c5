//! The data and text that `restore` and `restore_version` share.

use garret_workspace::ChangeShown;
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits::Limits;
use crate::tool::Output;
use crate::{change_text, text};

/// The result of a restore.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Data {
    /// Whether anything differed.
    changed: bool,
    /// The change that put it back, where anything differed; it can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeShown>,
}

pub(crate) fn show(change: Option<ChangeShown>, limits: &Limits) -> Output<Data> {
    let text = match &change {
        Some(change) => text::bounded(&change_text::done(change), limits),
        None => "nothing to restore: the files are already in that state".to_owned(),
    };
    let data = Data {
        changed: change.is_some(),
        change: change.map(change_text::bounded),
    };
    Output::new(text, data)
}
