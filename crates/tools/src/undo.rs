//! `undo`: reverses changes, and reverses an undo.

use garret_core::{Error, Result};
use garret_workspace::{HistoryOperationResult, UndoRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::point::text_or_number;
use crate::tool::{Tool, ToolResult};
use crate::{Annotations, AnswerLimits, change_text};

pub(crate) struct UndoTool;

/// The changes to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UndoTarget {
    /// The newest changes not yet undone.
    Last,
    /// One change.
    Change,
    /// Everything of one session.
    Session,
    /// Everything of one tool call.
    ToolCall,
    /// The newest undo.
    Redo,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// `last`: the newest `count` changes. `change`, `session`, `tool_call`: the one that `id` names. `redo`: the newest undo. Default `last`, or what `id` or `session` says.
    #[serde(default, deserialize_with = "unless_empty")]
    what: Option<UndoTarget>,
    /// Change, session (default: yours) or tool call.
    #[serde(default, deserialize_with = "text_or_number")]
    id: Option<String>,
    /// Session of the tool call `id`.
    #[serde(default, deserialize_with = "unless_empty")]
    session: Option<String>,
    /// For `last`; default 1.
    count: Option<u64>,
    dry_run: Option<bool>,
}

impl Tool for UndoTool {
    type Arguments = Arguments;
    type Data = HistoryOperationResult;

    const NAME: &'static str = "undo";
    const SHORT: &'static str = "undo";
    const TITLE: &'static str = "Undo or redo changes";
    const DESCRIPTION: &'static str = "Undoes changes, by default the newest; repeated, it goes back further. An undo is itself a change. If a file was changed since, it is a conflict.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let is_dry_run = arguments.dry_run.unwrap_or(false);
        let request = undo_request(workspace, arguments)?;
        // Only `last` asks for a number of changes, so only `last` can fall short of it.
        let requested = match request {
            Some(UndoRequest::Last(count)) => count,
            _ => 0,
        };
        let result = match (request, is_dry_run) {
            (Some(request), true) => workspace.plan_undo(request).await?,
            (None, true) => workspace.plan_redo().await?,
            (Some(request), false) => workspace.undo(request).await?,
            (None, false) => workspace.redo().await?,
        };
        let shortfall = result.undo_shortfall(requested);
        Ok(change_text::format_result(result, "", shortfall, limits))
    }
}

/// Returns the changes to undo; `None` for a redo.
fn undo_request(workspace: &Workspace, arguments: Arguments) -> Result<Option<UndoRequest>> {
    let Arguments {
        what,
        id,
        session,
        count,
        dry_run: _,
    } = arguments;
    let implied = match (&id, &session) {
        (None, None) => UndoTarget::Last,
        (Some(_), None) => UndoTarget::Change,
        (Some(_), Some(_)) => UndoTarget::ToolCall,
        (None, Some(_)) => UndoTarget::Session,
    };
    Ok(Some(match what.unwrap_or(implied) {
        UndoTarget::Redo => return Ok(None),
        UndoTarget::Last => {
            let count = count.unwrap_or(1).max(1);
            UndoRequest::Last(usize::try_from(count).unwrap_or(usize::MAX))
        }
        UndoTarget::Change => UndoRequest::Change(id.ok_or_else(|| missing_id_error("change"))?),
        UndoTarget::Session => {
            let own = workspace.actor().session.clone();
            UndoRequest::Session(id.or(session).or(own).ok_or_else(|| missing_id_error("session"))?)
        }
        UndoTarget::ToolCall => UndoRequest::ToolCall {
            call: id.ok_or_else(|| missing_id_error("tool_call"))?,
            session,
        },
    }))
}

fn missing_id_error(what: &str) -> Error {
    Error::invalid(format!("`what: \"{what}\"` needs an `id`")).hint("list the history to see the ids")
}
