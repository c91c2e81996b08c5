//! The data and text that `restore` and `restore_version` share.

use garret_workspace::{ChangeShown, PlannedChange};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer_limits::AnswerLimits;
use crate::tool::ToolOutput;
use crate::{change_text, text};

/// The result of a restore.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RestoreData {
    /// The change of the restore.
    Done {
        /// Whether anything differed.
        changed: bool,
        /// The change that put it back, where anything differed; it can be undone.
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<ChangeShown>,
    },
    /// The effect that it would have.
    Planned(PlannedChange),
}

pub(crate) fn format_plan(planned: PlannedChange, limits: &AnswerLimits) -> ToolOutput<RestoreData> {
    let text = change_text::planned_text(&planned, limits);
    ToolOutput::new(text, RestoreData::Planned(change_text::bound_planned_paths(planned)))
}

pub(crate) fn format_outcome(change: Option<ChangeShown>, limits: &AnswerLimits) -> ToolOutput<RestoreData> {
    let text = match &change {
        Some(change) => text::bound_text(&change_text::outcome_text(change), limits),
        None => "nothing to restore: the files are already in that state".to_owned(),
    };
    let data = RestoreData::Done {
        changed: change.is_some(),
        change: change.map(change_text::bound_paths),
    };
    ToolOutput::new(text, data)
}
