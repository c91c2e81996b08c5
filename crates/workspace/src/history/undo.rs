//! Undo and redo, from within a view.

use std::collections::BTreeSet;

use garret_core::path::quote;
use garret_core::{
    Change, ChangeKind, ChangesOptions, ClashReason, Error, ErrorKind, HistoryOperation, PathClash, Result,
    UndoSelection, WsPath,
};

use crate::history::HistoryAccess;
use crate::view::WorkspaceView;
use crate::{HistoryOperationResult, Workspace};

/// Which changes to undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoRequest {
    /// This number of the newest changes that are neither undos or redos nor already undone. Changes of derived files
    /// are stepped over.
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
    pub async fn undo(&self, request: UndoRequest) -> Result<HistoryOperationResult> {
        self.reverse_changes("undo", Some(request), false).await
    }

    /// Returns the effect that an undo would have; it fails as the undo would.
    pub async fn plan_undo(&self, request: UndoRequest) -> Result<HistoryOperationResult> {
        self.reverse_changes("undo", Some(request), true).await
    }

    /// Reverses the newest undo, unless a new change was made since.
    pub async fn redo(&self) -> Result<HistoryOperationResult> {
        self.reverse_changes("redo", None, false).await
    }

    /// Returns the effect that a redo would have; it fails as the redo would.
    pub async fn plan_redo(&self) -> Result<HistoryOperationResult> {
        self.reverse_changes("redo", None, true).await
    }

    async fn reverse_changes(
        &self,
        name: &'static str,
        request: Option<UndoRequest>,
        dry_run: bool,
    ) -> Result<HistoryOperationResult> {
        let work = async {
            let reversed = self
                .files
                .history()?
                .commit_reversal(name, request.as_ref(), dry_run)
                .await;
            let shown = reversed.map_err(|error| name_request(error, request.as_ref()))?;
            Ok(self.with_paths_left_alone(shown))
        };
        self.run_operation(name, &[], |_| 0, work).await
    }

    /// Adds the excluded paths that the reversed changes had touched.
    fn with_paths_left_alone(&self, reversal: HistoryOperationResult) -> HistoryOperationResult {
        let shell = self.shared.shell.as_ref();
        let noted = shell.and_then(|owned| owned.0.paths_left_alone(&self.files.view, reversal.reverses()));
        let left_alone = match (noted, reversal.left_alone) {
            (Some(noted), Some(planned)) => Some(noted.join(planned)),
            (noted, planned) => noted.or(planned),
        };
        HistoryOperationResult { left_alone, ..reversal }
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
    ) -> Result<HistoryOperationResult> {
        let operation = match request {
            Some(request) => self.undo_operation(request).await?,
            None => self.redo_operation().await?,
        };
        let outcome = self.commit_operation(&operation, name, dry_run).await?;
        if outcome.change.is_none() && !dry_run {
            return Err(nothing_to_reverse_error());
        }
        self.show_outcome(outcome).await
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
        let mut chosen = Vec::new();
        // The changes of derived files since the oldest chosen change, and those before it.
        let (mut stepped_over, mut derived) = (Vec::new(), Vec::new());
        let mut sessions = BTreeSet::new();
        let mut before = None;
        while chosen.len() < most {
            let found = self.read_view_changes(before).await?;
            let Some(oldest) = found.last() else { break };
            before = Some(oldest.number);
            for change in found {
                let stands = change.undone_by.is_none() && change.kind.is_own_work();
                if chosen.len() == most || !stands || !is_requested(request, &change) {
                    continue;
                }
                let number = change.number;
                let is_stepped_over = matches!(request, UndoRequest::Last(_)) && change.kind == ChangeKind::Derived;
                let Some(change) = self.visible_change(change).await? else {
                    continue;
                };
                if is_stepped_over {
                    derived.push(number);
                } else {
                    chosen.push(change.id);
                    stepped_over.append(&mut derived);
                    sessions.insert(change.actor.session);
                }
            }
        }
        if let UndoRequest::ToolCall { call, .. } = request {
            UndoSelection::check_one_session(call, &sessions)?;
        }
        match (chosen.is_empty(), derived.is_empty()) {
            (true, true) => Err(nothing_to_reverse_error()),
            (true, false) => Err(UndoSelection::only_derived_error(&derived)),
            _ => Ok(UndoSelection::Changes {
                chosen,
                stepped_over: stepped_over.iter().map(u64::to_string).collect(),
            }),
        }
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
