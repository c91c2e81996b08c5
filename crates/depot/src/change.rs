//! A change being made: mutations, or the reversal of other changes, inside the writer's transaction.
//!
//! Each step is written at once, and the next step sees it. If a later step is refused, the writer rolls all of them
//! back to its savepoint. A change that touched no path leaves no trace in the journal.

mod mutate;
mod summary;

use bytes::Bytes;
use garret_core::{Actor, ChangeKind, Error, ErrorKind, Origin, PathChange, Result, WsPath};

use crate::content::{ContentStore, PieceAddress, PreparedContent};
use crate::depot::DepotShared;
use crate::history::images_of;
use crate::metadata::{
    ChangeRow, EntryNode, LevelEntry, LineageLevel, ListedPaths, MetadataSession, encode_change_id, stored_time,
};
use crate::tree::DepotTree;
use garret_core::Durability;

pub(crate) use mutate::{MutationStep, directory_node};
pub use summary::summary_of;

/// A change under way.
pub(crate) struct ChangeBuilder<'c> {
    pub(crate) tree: DepotTree<'c>,
    content: &'c ContentStore,
    durability: Durability,
    workspace: i64,
    seq: i64,
    now: i64,
    moves: i64,
    has_touched: bool,
    listed: ListedPaths,
    /// The content that was recorded last, and the number of its row.
    recorded: Option<(PieceAddress, i64)>,
}

/// The fields of a change's row that its caller provides.
#[derive(Debug, Clone)]
pub(crate) struct ChangeAuthor {
    pub(crate) id: String,
    pub(crate) operation: String,
    pub(crate) summary: String,
    pub(crate) actor: Actor,
}

impl<'c> ChangeBuilder<'c> {
    /// Begins the next change of a workspace. A workspace that was deleted is `not_found`.
    pub(crate) fn begin(
        session: MetadataSession<'c>,
        shared: &'c DepotShared,
        workspace: i64,
        durability: Durability,
    ) -> Result<Self> {
        let (head, levels) = session.workspaces().head_and_levels(workspace)?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "this workspace was deleted")
                .at_path(&WsPath::root())
                .hint("recover it, or open another")
        })?;
        Ok(Self {
            tree: DepotTree::from_levels(session, levels),
            content: &shared.content,
            durability,
            seq: head + 1,
            workspace,
            now: stored_time(shared.clock.now()),
            moves: 0,
            has_touched: false,
            listed: ListedPaths::default(),
            recorded: None,
        })
    }

    /// Returns the number that the change will have.
    pub(crate) fn seq(&self) -> i64 {
        self.seq
    }

    /// Returns the number of the workspace that is changed.
    pub(crate) fn workspace(&self) -> i64 {
        self.workspace
    }

    /// Returns the time of the change, in the unit of the database.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Writes `node` at `path`, or removes the entry at `path` if `node` is `None`.
    pub(crate) fn set_entry(&mut self, path: &[u8], node: Option<EntryNode>) -> Result<()> {
        let held = match node {
            Some(node) => Some(LevelEntry::Node(node)),
            // Only an entry of the lineage needs a row that hides it: without one, the branch would show that entry
            // again.
            None => self.tree.inherited_node(path)?.map(|_| LevelEntry::Hidden),
        };
        self.has_touched = true;
        let place = held.as_ref().and_then(|held| self.content_number(held));
        let session = self.tree.session();
        session
            .entries()
            .put_entry(self.workspace, path, self.seq, held.as_ref(), place, &mut self.listed)
    }

    /// Writes `node` at `path`, at which the caller has found no entry.
    pub(crate) fn set_new_entry(&mut self, path: &[u8], node: EntryNode) -> Result<()> {
        self.has_touched = true;
        let held = LevelEntry::Node(node);
        let place = self.content_number(&held);
        let session = self.tree.session();
        session
            .entries()
            .put_new_entry(self.workspace, path, self.seq, &held, place, &mut self.listed)
    }

    /// Returns the row number of the content of `held`, if that content was recorded last.
    fn content_number(&self, held: &LevelEntry) -> Option<i64> {
        // The number saves a lookup of the content by its hash when the entry is inserted.
        let (address, number) = self.recorded?;
        matches!(held, LevelEntry::Node(node) if node.content == Some(address)).then_some(number)
    }

    /// Records that the entry at `from` moved to `to`, so that the history of a file can be followed across the move.
    pub(crate) fn note_move(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.moves += 1;
        let change = (self.workspace, self.seq);
        self.tree.session().entries().add_move(change, self.moves, from, to)
    }

    /// Makes this a change of the journal even if it writes no entry.
    pub(crate) fn mark_touched(&mut self) {
        self.has_touched = true;
    }

    /// Writes the rows of content that the change refers to.
    pub(crate) fn record_content(&mut self, prepared: &PreparedContent) -> Result<()> {
        let number = self.content.record_numbered(self.tree.session(), prepared)?;
        self.recorded = number.map(|number| (prepared.address, number));
        Ok(())
    }

    /// Returns the state of each path that the change touches, before and after it.
    pub(crate) fn path_changes(&self) -> Result<Vec<PathChange>> {
        let (session, workspace) = (self.tree.session(), self.workspace);
        let level = LineageLevel {
            workspace,
            at: self.seq,
        };
        let touched = session.entries().touched_so_far(workspace, self.seq, &self.listed)?;
        images_of(session, level, touched)
    }

    /// Stores the blobs of small content; its rows are written by [`ChangeBuilder::record_content`].
    pub(crate) fn prepare_content(&self, content: &Bytes) -> Result<PreparedContent> {
        let session = self.tree.session();
        self.content.prepare_in_transaction(session, content, self.durability)
    }

    /// Re-dates content in the depot, so that no garbage collection removes it before the change commits. Returns
    /// whether the depot has the content.
    pub(crate) fn refer_to_content(&self, address: PieceAddress) -> Result<bool> {
        self.content.refer_to_content(self.tree.session(), address)
    }

    /// Returns the id of the change.
    fn make_id(&self, shared: &DepotShared) -> String {
        let id = shared.ids.next_id();
        // An id that encodes workspace and number is found without an index.
        encode_change_id(&id, self.workspace, self.seq).unwrap_or(id)
    }

    /// Closes the change. Returns its number and its id, or `None` if it touched no path.
    pub(crate) fn finish(
        self,
        shared: &DepotShared,
        kind: ChangeKind,
        origin: Origin,
    ) -> Result<Option<(i64, String)>> {
        if !self.has_touched {
            return Ok(None);
        }
        let by = ChangeAuthor {
            id: self.make_id(shared),
            operation: origin.operation.into_owned(),
            summary: origin.summary,
            actor: Actor {
                command: origin.command,
                ..origin.actor
            },
        };
        self.finish_as(kind, by)
    }

    /// Closes the change with the id and the actor of `by`. Returns its number and its id, or `None` if it
    /// touched no path.
    pub(crate) fn finish_as(self, kind: ChangeKind, by: ChangeAuthor) -> Result<Option<(i64, String)>> {
        if !self.has_touched {
            return Ok(None);
        }
        let row = ChangeRow {
            workspace: self.workspace,
            seq: self.seq,
            id: by.id,
            at: self.now,
            kind: kind.as_str().to_owned(),
            operation: by.operation,
            summary: by.summary,
            agent: by.actor.agent,
            session: by.actor.session,
            tool_call: by.actor.tool_call,
            door: by.actor.door.into_owned(),
            command: by.actor.command,
            undone_by: None,
        };
        self.tree.session().changes().add_change(&row, &self.listed)?;
        Ok(Some((self.seq, row.id)))
    }

    /// Returns this change with the time `at` instead of now; imports keep the times of their source with it.
    #[must_use]
    pub(crate) fn with_time(mut self, at: i64) -> Self {
        self.now = at;
        self
    }
}
