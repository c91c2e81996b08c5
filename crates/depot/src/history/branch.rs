//! Branches: a workspace that begins at a point of another and shares its content, in constant time.
//!
//! A lookup in a branch goes through its lineage, so a long lineage is flattened: the newest branch gets its own rows
//! for everything it inherits. Only rows are copied; content stays shared. No result depends on when a branch is
//! flattened, or whether it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::executor::block_on;
use garret_core::path::quote;
use garret_core::{Branch, Error, ErrorKind, OpenedBranch, OpenedStorage, Point, Result};

use crate::depot::{NewWorkspace, WorkspaceInfo, find_open_workspace, workspace_info};
use crate::metadata::{LevelEntry, MetadataSession, WorkspaceRow};
use crate::tree::DepotTree;
use crate::workspace::DepotWorkspace;
use garret_core::Durability;

/// Entries copied in one transaction; other writers wait for one such transaction at most.
const SLICE: usize = 2_000;
/// A lineage this many times deeper than the limit is flattened before the branch is returned.
const PATIENCE: usize = 4;

impl DepotWorkspace {
    /// Creates a workspace that begins at `point` of this one. Later changes of either never affect the other.
    pub async fn branch(&self, new: NewWorkspace, point: &Point) -> Result<DepotWorkspace> {
        let fork = self
            .shared()
            .database
            .read(|session| self.resolve_point(session, point))?;
        let branch = self.depot().add_workspace(new, Some(fork)).await?;
        branch.bound_depth().await?;
        Ok(branch)
    }

    /// Returns the branch `name`, by name or id, of this workspace; a workspace that is no branch of this one is
    /// `not_found`. A depot in memory also returns the open files of the branch, since no other handle reaches them.
    pub async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        let (row, info) = self.shared().database.read(|session| {
            let row = find_open_workspace(session, name).ok();
            let is_own = |row: &WorkspaceRow| row.fork.is_some_and(|fork| fork.workspace == self.number);
            let row = row.filter(is_own).ok_or_else(|| no_such_branch(name))?;
            Ok((row.clone(), workspace_info(session, row)?))
        })?;
        let opened = || {
            let files = Arc::new(self.depot().workspace_handle(&row).with_durability(self.durability));
            OpenedStorage {
                history: Some(files.clone()),
                durability: self.durability,
                ..files.into()
            }
        };
        Ok(OpenedBranch {
            kind: info.kind.clone(),
            config: info.config.clone(),
            opened: self.shared().home.is_none().then(opened),
            branch: info.into(),
        })
    }

    /// Returns the number of workspaces that a lookup in this one may go through.
    pub async fn depth(&self) -> Result<usize> {
        self.shared()
            .database
            .read(|session| Ok(session.workspaces().levels(self.head_level())?.len()))
    }

    async fn bound_depth(&self) -> Result<()> {
        let limit = self.shared().options.max_depth;
        match self.depth().await? {
            depth if depth > limit * PATIENCE => self.flatten().await,
            depth if depth > limit => {
                self.flatten_later();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Flattens the branch on a thread of its own, unless such a thread runs already; then the next branch tries again.
    fn flatten_later(&self) {
        let flattening = &self.shared().is_flattening;
        if flattening.swap(true, Ordering::AcqRel) {
            return;
        }
        let branch = self.clone();
        let work = move || {
            // A failure leaves the lineage as long as it was; lookups stay correct, only slower.
            let _ = block_on(branch.flatten());
            branch.shared().is_flattening.store(false, Ordering::Release);
        };
        if std::thread::Builder::new()
            .name("garret-depot-flatten".into())
            .spawn(work)
            .is_err()
        {
            flattening.store(false, Ordering::Release);
        }
    }

    /// Copies all inherited rows into this branch, so that lookups no longer go through its lineage. The files of the
    /// branch, now and at every point, stay the same.
    pub async fn flatten(&self) -> Result<()> {
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let number = self.number;
            let copy = move |session: MetadataSession<'_>| copy_slice(session, number, start);
            // Relaxed: a power failure may take the copied rows away, which changes no result.
            from = self.shared().writer.write(Durability::Relaxed, copy).await?;
        }
        Ok(())
    }
}

fn no_such_branch(name: &str) -> Error {
    let message = format!("this workspace has no branch {}", quote(name));
    Error::new(ErrorKind::NotFound, message).hint("list its branches to see their names")
}

impl From<WorkspaceInfo> for Branch {
    fn from(info: WorkspaceInfo) -> Self {
        Self {
            id: info.id,
            name: info.name,
            incomplete: info.fork.as_ref().is_some_and(|fork| !fork.is_complete),
            fork: info.fork.map_or(0, |fork| fork.change),
            change_count: info.head,
            at: info.created,
        }
    }
}

/// Copies a slice of the inherited entries from `start` on; returns the path to continue from, or `None` when the
/// branch is flat.
fn copy_slice(session: MetadataSession<'_>, workspace: i64, start: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let row = session.workspaces().workspace(workspace)?;
    let Some(fork) = row.filter(|row| !row.is_flat).and_then(|row| row.fork) else {
        return Ok(None);
    };
    // Rows that were added to a workspace while it is removed would be left over.
    if session.retention().is_hidden(workspace)? {
        return Ok(None);
    }
    let tree = DepotTree::at_point(session, fork)?;
    let mut scan = tree.scan_below(b"");
    scan.seek(&start);
    for _ in 0..SLICE {
        let Some((path, node)) = scan.next()? else {
            session.workspaces().set_flat(workspace)?;
            return Ok(None);
        };
        // The copied row is valid until the branch's own first row for the path, which begins at 0 if an earlier
        // flattening copied it.
        let until = session.entries().first_since(workspace, &path)?.unwrap_or(i64::MAX);
        if until > 0 {
            session
                .entries()
                .insert_entry(workspace, &path, (0, until), &LevelEntry::Node(node))?;
        }
    }
    match scan.next()? {
        Some((path, _)) => Ok(Some(path)),
        None => session.workspaces().set_flat(workspace).map(|()| None),
    }
}
