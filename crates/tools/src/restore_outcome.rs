//! The data and text that `restore` and `restore_version` share.

use garret_workspace::{ChangeShown, PlannedChange};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer_limits::AnswerLimits;
use crate::tool::ToolOutput;
use crate::{change_text, text};

/// The result of a restore.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RestoreData {
    /// Whether anything differed and was put back.
    changed: bool,
    /// The change that put it back; it can be undone. Absent if nothing differed, and in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeShown>,
    #[serde(flatten)]
    planned: Option<PlannedChange>,
}

pub(crate) fn format_plan(planned: PlannedChange, limits: &AnswerLimits) -> ToolOutput<RestoreData> {
    let text = change_text::planned_text(&planned, limits);
    let data = RestoreData {
        changed: false,
        change: None,
        planned: Some(change_text::bound_planned_paths(planned)),
    };
    ToolOutput::new(text, data)
}

pub(crate) fn format_outcome(change: Option<ChangeShown>, limits: &AnswerLimits) -> ToolOutput<RestoreData> {
    let text = match &change {
        Some(change) => text::bound_text(&change_text::outcome_text(change), limits),
        None => "nothing to restore: the files are already in that state".to_owned(),
    };
    let data = RestoreData {
        changed: change.is_some(),
        change: change.map(change_text::bound_paths),
        planned: None,
    };
    ToolOutput::new(text, data)
}
