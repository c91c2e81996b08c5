//! Undo and redo, from within a view.

use garret_core::{ChangesOptions, Clash, ClashReason, Error, ErrorKind, Result, Reversed, Selection, WsPath};

use super::changes::ChangeShown;
use crate::Workspace;

/// Which changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoRequest {
    /// The newest so many that are neither undos or redos nor already undone.
    Last(usize),
    /// One change, by its id or number, wherever it stands.
    Change(String),
    /// Everything that one session did.
    Session(String),
    /// Everything that one tool call did.
    ToolCall(String),
}

impl Workspace {
    /// Reverses changes, as one change: bytes, modes and absence come back. Where a path was changed since, it is a `conflict` that names
    /// each such path, and nothing is touched.
    pub async fn undo(&self, request: UndoRequest) -> Result<ChangeShown> {
        self.operate("undo", &[], |_| 0, self.reverse(request)).await
    }

    /// Reverses the newest undo, unless new work was done since.
    pub async fn redo(&self) -> Result<ChangeShown> {
        let work = async {
            let reversed = self.journal()?.redo(self.making("redo")).await?;
            self.reversed(reversed).await
        };
        self.operate("redo", &[], |_| 0, work).await
    }

    async fn reverse(&self, request: UndoRequest) -> Result<ChangeShown> {
        let selection = match request {
            UndoRequest::Last(0) => {
                return Err(Error::invalid("nothing to undo was asked for").hint("give a number from 1"));
            }
            UndoRequest::Last(count) if !self.view.base.is_root() => self.last_here(count).await?,
            UndoRequest::Last(count) => Selection::Last(count),
            UndoRequest::Change(id) => Selection::Change(id),
            UndoRequest::Session(session) => Selection::Session(session),
            UndoRequest::ToolCall(call) => Selection::ToolCall(call),
        };
        let reversed = self.journal()?.undo(selection, self.making("undo")).await?;
        self.reversed(reversed).await
    }

    /// The newest changes that touched this view: those of other directories are not in the way of a narrowed one.
    async fn last_here(&self, count: usize) -> Result<Selection> {
        let mut ids = Vec::new();
        let mut before = None;
        while ids.len() < count {
            let options = ChangesOptions {
                before,
                limit: 100,
                path: Some(self.view.base.clone()),
                inherited: false,
            };
            let found = self.journal()?.changes(options).await?;
            let Some(oldest) = found.last() else { break };
            before = Some(oldest.number);
            let standing = found
                .into_iter()
                .filter(|change| change.undone_by.is_none() && change.kind.is_work());
            ids.extend(standing.map(|change| change.id));
        }
        ids.truncate(count);
        match ids.is_empty() {
            true => Err(Error::new(ErrorKind::NotFound, "there is nothing to reverse")
                .hint("look at the history to see which changes there are")),
            false => Ok(Selection::Changes(ids)),
        }
    }

    async fn reversed(&self, reversed: Reversed) -> Result<ChangeShown> {
        match reversed {
            Reversed::Done(change) => {
                let fallback = ChangeShown::from((*change).clone());
                Ok(self.seen(*change).await?.map_or(fallback, ChangeShown::from))
            }
            Reversed::Clashed(clashes) => Err(self.clashed(&clashes)),
        }
    }

    fn clashed(&self, clashes: &[Clash]) -> Error {
        let hidden = clashes.iter().filter(|clash| !self.is_path_seen(&clash.path)).count();
        let seen = clashes.iter().filter(|clash| self.is_path_seen(&clash.path));
        let mut reasons: Vec<String> = seen.take(20).map(|clash| self.words(clash)).collect();
        let left_out = clashes.len() - hidden - reasons.len();
        if left_out + hidden > 0 {
            reasons.push(format!("{} more", left_out + hidden));
        }
        let first = clashes.iter().find(|clash| self.is_path_seen(&clash.path));
        let path = first
            .and_then(|clash| clash.path.as_path().cloned())
            .unwrap_or_else(WsPath::root);
        Error::new(
            ErrorKind::Conflict,
            format!(
                "this cannot be reversed, and nothing was touched: {}",
                reasons.join("; ")
            ),
        )
        .at(&path)
        .hint("undo the later changes first, or restore the single paths")
    }

    fn words(&self, clash: &Clash) -> String {
        let path = garret_core::path::quote(&self.shown_entry(&clash.path).shown());
        match clash.reason {
            ClashReason::Changed => format!("{path} was changed since"),
            ClashReason::WouldLoseItsDirectory => format!("{path} would lose its directory"),
            ClashReason::DirectoryIsGone => format!("the directory of {path} is gone"),
        }
    }
}
