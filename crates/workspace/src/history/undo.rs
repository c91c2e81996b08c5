//! Undo and redo, from within a view.

use std::collections::BTreeSet;

use garret_core::path::quote;
use garret_core::{
    Change, ChangeKind, ChangesOptions, ClashReason, Error, ErrorKind, HistoryOperation, PathChange, PathClash, Result,
    UndoSelection, WsPath,
};

use super::changes::{ChangeShown, PlannedChange, mark_paths};
use crate::Workspace;
use crate::history::HistoryAccess;
use crate::view::WorkspaceView;

/// Which changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoRequest {
    /// This number of the newest changes that are neither undos or redos nor already undone.
    Last(usize),
    /// One change, by its id or number, whatever its place in the journal.
    Change(String),
    /// All changes of one session.
    Session(String),
    /// All changes of one tool call. A call is identified by its session and its id: every connection may count its
    /// calls from 1.
    ToolCall {
        /// The id of the call.
        call: String,
        /// Its session. Without one, a call that more than one session made is `invalid`, and the error names them.
        session: Option<String>,
    },
}

impl Workspace {
    /// Reverses changes, as one change: it restores bytes and modes, and removes entries that did not exist. If a path
    /// was changed since, it is a `conflict` that names each such path, and nothing is touched.
    pub async fn undo(&self, request: UndoRequest) -> Result<ChangeShown> {
        self.reverse_changes("undo", Some(request)).await
    }

    /// Returns the effect that an undo would have; it fails as the undo would.
    pub async fn plan_undo(&self, request: UndoRequest) -> Result<PlannedChange> {
        self.plan_reversal("undo", Some(request)).await
    }

    /// Reverses the newest undo, unless a new change was made since.
    pub async fn redo(&self) -> Result<ChangeShown> {
        self.reverse_changes("redo", None).await
    }

    /// Returns the effect that a redo would have; it fails as the redo would.
    pub async fn plan_redo(&self) -> Result<PlannedChange> {
        self.plan_reversal("redo", None).await
    }

    async fn reverse_changes(&self, name: &'static str, request: Option<UndoRequest>) -> Result<ChangeShown> {
        let work = async {
            let history = self.files.history()?;
            let (paths, change) = history.commit_reversal(name, request.as_ref(), false).await?;
            let change = change.ok_or_else(|| name_request(nothing_to_reverse_error(), request.as_ref()))?;
            let shown = history.show_made_change(change, paths).await?;
            // The reversed changes may have touched excluded paths, too.
            let shell = self.shared.shell.as_ref();
            let left_alone = shell.and_then(|owned| owned.0.paths_left_alone(&self.files.view, &shown.reverses));
            Ok(ChangeShown { left_alone, ..shown })
        };
        self.run_operation(name, &[], |_| 0, work).await
    }

    async fn plan_reversal(&self, name: &'static str, request: Option<UndoRequest>) -> Result<PlannedChange> {
        let work = async {
            let (paths, _) = self
                .files
                .history()?
                .commit_reversal(name, request.as_ref(), true)
                .await?;
            Ok(PlannedChange::new(&self.files.view.visible_path_changes(paths)))
        };
        self.run_operation(name, &[], |_| 0, work).await
    }
}

impl HistoryAccess<'_> {
    /// Commits the reversal of the requested changes unless it is only tried; without a request, that of the newest
    /// undo.
    async fn commit_reversal(
        &self,
        name: &'static str,
        request: Option<&UndoRequest>,
        dry_run: bool,
    ) -> Result<(Vec<PathChange>, Option<Change>)> {
        let committed = async {
            let operation = match request {
                Some(request) => self.undo_operation(request).await?,
                None => self.redo_operation().await?,
            };
            self.commit_operation(&operation, name, dry_run).await
        };
        committed.await.map_err(|error| name_request(error, request))
    }

    /// Returns the operation that reverses the requested changes.
    async fn undo_operation(&self, request: &UndoRequest) -> Result<HistoryOperation> {
        // In a fenced view, the history would also choose changes that the view cannot see; so the view chooses by
        // itself.
        let selection = match request {
            UndoRequest::Last(0) => {
                return Err(Error::invalid("the number of changes to undo is 0").hint("give a number of at least 1"));
            }
            UndoRequest::Change(id) => UndoSelection::Change(id.clone()),
            request if self.files.view.is_restricted() => self.select_visible_changes(request).await?,
            UndoRequest::Last(count) => UndoSelection::Last(*count),
            UndoRequest::Session(session) => UndoSelection::Session(session.clone()),
            UndoRequest::ToolCall { call, session } => UndoSelection::ToolCall {
                call: call.clone(),
                session: session.clone(),
            },
        };
        Ok(HistoryOperation::Undo(selection))
    }

    /// Returns the operation that reverses the newest undo.
    async fn redo_operation(&self) -> Result<HistoryOperation> {
        // A redo is a call of the tool `undo`, and policies name tools.
        self.files.check_approval("undo", &[]).await?;
        Ok(if self.files.view.is_restricted() {
            HistoryOperation::Undo(UndoSelection::Change(self.find_newest_undo().await?))
        } else {
            HistoryOperation::Redo
        })
    }

    /// Selects the requested changes that are not undone and that this view shows. Changes outside of this view do not
    /// count.
    async fn select_visible_changes(&self, request: &UndoRequest) -> Result<UndoSelection> {
        let most = match request {
            UndoRequest::Last(count) => *count,
            _ => usize::MAX,
        };
        let mut ids = Vec::new();
        let mut sessions = BTreeSet::new();
        let mut before = None;
        while ids.len() < most {
            let found = self.read_view_changes(before).await?;
            let Some(oldest) = found.last() else { break };
            before = Some(oldest.number);
            for change in found {
                let stands = change.undone_by.is_none() && change.kind.is_new_work();
                if stands && is_requested(request, &change) && self.visible_change(change.clone()).await?.is_some() {
                    ids.push(change.id);
                    sessions.insert(change.actor.session);
                }
            }
        }
        if let UndoRequest::ToolCall { call, .. } = request {
            UndoSelection::check_one_session(call, &sessions)?;
        }
        ids.truncate(most);
        if ids.is_empty() {
            return Err(nothing_to_reverse_error());
        }
        Ok(UndoSelection::Changes(ids))
    }

    /// Returns the newest undo that this view shows and that is not undone itself; `not_found` if a new change of this
    /// view came after it.
    async fn find_newest_undo(&self) -> Result<String> {
        let mut before = None;
        loop {
            let found = self.read_view_changes(before).await?;
            let Some(oldest) = found.last() else {
                return Err(nothing_to_reverse_error());
            };
            before = Some(oldest.number);
            for change in found {
                let is_undo = change.kind == ChangeKind::Undo && change.undone_by.is_none();
                let decides = is_undo || change.kind.is_new_work();
                if decides && self.visible_change(change.clone()).await?.is_some() {
                    return is_undo.then_some(change.id).ok_or_else(nothing_to_reverse_error);
                }
            }
        }
    }

    /// Returns a page of the changes that touched this view's directory.
    async fn read_view_changes(&self, before: Option<u64>) -> Result<Vec<Change>> {
        let options = ChangesOptions {
            before,
            limit: 100,
            path: Some(self.files.view.base.clone()).filter(|base| !base.is_root()),
            inherited: false,
        };
        self.journal.changes(options).await
    }

    /// Returns the effect that `operation` would have, as this view shows it, after the review that the operation has.
    pub(crate) async fn plan_operation(
        &self,
        operation: HistoryOperation,
        name: &'static str,
    ) -> Result<PlannedChange> {
        let (paths, _) = self.commit_operation(&operation, name, true).await?;
        Ok(PlannedChange::new(&self.files.view.visible_path_changes(paths)))
    }

    /// Returns a change that was made as this view shows it, with a mark for the effect on each of its `paths`.
    pub(crate) async fn show_made_change(&self, change: Change, paths: Vec<PathChange>) -> Result<ChangeShown> {
        let fallback = ChangeShown::from(change.clone());
        let shown = self.visible_change(change).await?.map_or(fallback, ChangeShown::from);
        let paths = mark_paths(&self.files.view.visible_path_changes(paths))
            .take(Change::SHOWN_PATHS)
            .collect();
        Ok(ChangeShown { paths, ..shown })
    }
}

impl WorkspaceView {
    pub(crate) fn clash_error(&self, clashes: &[PathClash]) -> Error {
        let hidden = clashes
            .iter()
            .filter(|clash| !self.is_recorded_path_visible(&clash.path))
            .count();
        let seen = clashes
            .iter()
            .filter(|clash| self.is_recorded_path_visible(&clash.path));
        let mut reasons: Vec<String> = seen.take(20).map(|clash| self.describe_clash(clash)).collect();
        let left_out = clashes.len() - hidden - reasons.len();
        if left_out + hidden > 0 {
            reasons.push(format!("{} more", left_out + hidden));
        }
        let first = clashes.iter().find(|clash| self.is_recorded_path_visible(&clash.path));
        let path = first
            .and_then(|clash| clash.path.as_path().cloned())
            .unwrap_or_else(WsPath::root);
        Error::new(
            ErrorKind::Conflict,
            format!(
                "the change cannot be reversed, and nothing was changed: {}",
                reasons.join("; ")
            ),
        )
        .at_path(&path)
        .hint("undo the later changes first, or restore single paths")
    }

    fn describe_clash(&self, clash: &PathClash) -> String {
        let path = quote(&self.relative_entry_path(&clash.path).display_path());
        match clash.reason {
            ClashReason::Changed => format!("{path} was changed since"),
            ClashReason::WouldLoseItsDirectory => format!("{path} would lose its directory"),
            ClashReason::DirectoryIsGone => format!("the directory of {path} no longer exists"),
        }
    }
}

/// Whether a change is one of those that the request names.
fn is_requested(request: &UndoRequest, change: &Change) -> bool {
    let actor = &change.actor;
    match request {
        UndoRequest::Session(session) => actor.session.as_ref() == Some(session),
        UndoRequest::ToolCall { call, session } => {
            actor.tool_call.as_ref() == Some(call) && (session.is_none() || actor.session == *session)
        }
        UndoRequest::Last(_) | UndoRequest::Change(_) => true,
    }
}

/// The message of a history that has nothing to reverse.
const NOTHING: &str = "there is no change to undo or redo";

/// Names the request in the error for nothing to reverse; `None` is a redo. Any other error stays.
fn name_request(error: Error, request: Option<&UndoRequest>) -> Error {
    // Compared by message: `not_found` alone may also be a change that does not exist.
    if error.kind() != ErrorKind::NotFound || error.message() != NOTHING {
        return error;
    }
    let message = match request {
        None => "there is no undo left to redo".to_owned(),
        Some(UndoRequest::Last(_)) => "there is no change left to undo".to_owned(),
        Some(UndoRequest::Session(session)) => format!("no change of the session {} is left to undo", quote(session)),
        Some(UndoRequest::ToolCall { call, .. }) => format!("no change of the call {} is left to undo", quote(call)),
        Some(UndoRequest::Change(_)) => return error,
    };
    Error::new(ErrorKind::NotFound, message).hint("list the history to see the changes")
}

fn nothing_to_reverse_error() -> Error {
    Error::new(ErrorKind::NotFound, NOTHING).hint("list the history to see the changes")
}
