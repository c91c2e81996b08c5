//! `undo`: changes are taken back, and brought again.

use garret_core::{Error, Result};
use garret_workspace::{ChangeShown, UndoRequest, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::point::text_or_number;
use crate::tool::{Output, Tool};
use crate::{Annotations, change_text, text};

pub(crate) struct Undo;

/// What to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// The newest changes that stand.
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
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// What to take back. `last`: the newest `count` changes. `change`: the one change that `id` names, wherever it stands; later changes
    /// to other files stay. `session`, `tool_call`: everything that the session or tool call `id` did. `redo`: the newest undo, so that
    /// what it took back comes again. Left out: `change` where `id` is given alone, `tool_call` or `session` where `session` is given, else
    /// `last`.
    #[serde(default, deserialize_with = "unless_empty")]
    what: Option<What>,
    /// The id or number of the change, the id of the session (left out, your own), or the id of the tool call. `last` and `redo` take
    /// no notice of it.
    #[serde(default, deserialize_with = "text_or_number")]
    id: Option<String>,
    /// The session that a tool call belongs to: every session may count its calls from 1. Left out, a call that several sessions made is
    /// refused, and they are named.
    #[serde(default, deserialize_with = "unless_empty")]
    session: Option<String>,
    /// How many changes `last` takes back; the others take no notice of it. Left out or 0: 1.
    #[serde(default)]
    count: Option<u64>,
}

/// What was done.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Data {
    /// The change that took the others back; it can be undone itself.
    change: ChangeShown,
}

impl Tool for Undo {
    type Arguments = Arguments;
    type Data = Data;

    const NAME: &'static str = "undo";
    const SHORT: &'static str = "undo";
    const TITLE: &'static str = "Undo or redo changes";
    const DESCRIPTION: &'static str = "Takes changes back: content, permissions and absence come back as they were. Without arguments the newest \
        change that is not undone yet, so that repeating it steps back further; `what: \"redo\"` steps forward again, until something new is \
        changed. Undo is itself a change in the history. Where a file was changed since, the answer is a conflict that names each such file, \
        and nothing is touched.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<Data>> {
        let change = match request(workspace, arguments)? {
            Some(request) => workspace.undo(request).await?,
            None => workspace.redo().await?,
        };
        let text = change_text::done(&change) + &change_text::left_alone(&change);
        let text = text::bounded(&text, limits);
        let change = change_text::bounded(change);
        Ok(Output::new(text, Data { change }))
    }
}

/// What is to be undone; `None` for a redo.
fn request(workspace: &Workspace, arguments: Arguments) -> Result<Option<UndoRequest>> {
    let Arguments {
        what,
        id,
        session,
        count,
    } = arguments;
    let implied = match (&id, &session) {
        (None, None) => What::Last,
        (Some(_), None) => What::Change,
        (Some(_), Some(_)) => What::ToolCall,
        (None, Some(_)) => What::Session,
    };
    Ok(Some(match what.unwrap_or(implied) {
        What::Redo => return Ok(None),
        What::Last => {
            let count = count.unwrap_or(1).max(1);
            UndoRequest::Last(usize::try_from(count).unwrap_or(usize::MAX))
        }
        What::Change => UndoRequest::Change(id.ok_or_else(|| missing("change"))?),
        What::Session => {
            let own = workspace.actor().session.clone();
            UndoRequest::Session(id.or(session).or(own).ok_or_else(|| missing("session"))?)
        }
        What::ToolCall => UndoRequest::ToolCall {
            call: id.ok_or_else(|| missing("tool_call"))?,
            session,
        },
    }))
}

fn missing(what: &str) -> Error {
    Error::invalid(format!("`what: \"{what}\"` needs the `id` of one")).hint("look at the history for the ids")
}
