//! Branches: a workspace that begins at a point of another and shares its content, in constant time.
//!
//! A look at a branch goes through its lineage, so a lineage that gets long is flattened: the newest branch gets its own rows for
//! everything it inherits. Rows only; content is shared for ever. Nothing depends on when that happens, or whether.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::executor::block_on;
use garret_core::path::quote;
use garret_core::{Branch, Error, ErrorKind, Opened, OpenedBranch, Point, Result};

use crate::depot::{NewWorkspace, WorkspaceInfo, find_open, info};
use crate::metadata::{Held, Session, WorkspaceRow};
use crate::tree::Tree;
use crate::workspace::DepotWorkspace;
use garret_core::Durability;

/// Entries copied in one transaction, so that other writers wait only for that.
const SLICE: usize = 2_000;
/// A lineage this many times deeper than it should be is flattened before the branch is handed out.
const PATIENCE: usize = 4;

impl DepotWorkspace {
    /// Makes a workspace that begins at `point` of this one. Neither ever disturbs the other.
    pub async fn branch(&self, new: NewWorkspace, point: &Point) -> Result<DepotWorkspace> {
        let fork = self.shared().database.read(|session| self.level_of(session, point))?;
        let branch = self.depot().add(new, Some(fork)).await?;
        branch.bound_depth().await?;
        Ok(branch)
    }

    /// Hands out the branch `name`, by name or id, of this workspace; what is no branch of it is `not_found`. A depot in memory, which
    /// nobody else reaches, gives its files along.
    pub async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        let (row, info) = self.shared().database.read(|session| {
            let row = find_open(session, name).ok();
            let is_own = |row: &WorkspaceRow| row.fork.is_some_and(|fork| fork.workspace == self.number);
            let row = row.filter(is_own).ok_or_else(|| no_branch(name))?;
            Ok((row.clone(), info(session, row)?))
        })?;
        let opened = || {
            let files = Arc::new(self.depot().handle(&row).with_durability(self.durability));
            Opened {
                history: Some(files.clone()),
                durability: self.durability,
                ..files.into()
            }
        };
        Ok(OpenedBranch {
            kind: info.kind.clone(),
            config: info.config.clone(),
            opened: self.shared().home.is_none().then(opened),
            branch: shown(info),
        })
    }

    /// How many workspaces a look at this one may go through.
    pub async fn depth(&self) -> Result<usize> {
        self.shared()
            .database
            .read(|session| Ok(session.levels(self.head())?.len()))
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

    /// Flattens on a thread of its own, unless one does so already; the next branch tries again.
    fn flatten_later(&self) {
        let flattening = &self.shared().is_flattening;
        if flattening.swap(true, Ordering::AcqRel) {
            return;
        }
        let branch = self.clone();
        let work = move || {
            // A failure leaves the lineage as long as it was, and everything as right.
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

    /// Gives this branch its own rows for everything it inherits, so that a look at it no longer goes through its lineage. What it
    /// shows, now and at every point, stays the same.
    pub async fn flatten(&self) -> Result<()> {
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let number = self.number;
            let copy = move |session: Session<'_>| copy_slice(session, number, start);
            from = self.shared().writer.write(Durability::Relaxed, copy).await?;
        }
        Ok(())
    }
}

fn no_branch(name: &str) -> Error {
    let message = format!("this workspace has no branch {}", quote(name));
    Error::new(ErrorKind::NotFound, message).hint("list its branches to see their names")
}

/// A branch as it is told.
pub(crate) fn shown(info: WorkspaceInfo) -> Branch {
    Branch {
        id: info.id,
        name: info.name,
        incomplete: info.fork.as_ref().is_some_and(|fork| !fork.is_complete),
        fork: info.fork.map_or(0, |fork| fork.change),
        changes: info.head,
        created: info.created,
    }
}

/// Copies the inherited entries from `start` on; gives where to go on, or `None` when the branch is flat.
fn copy_slice(session: Session<'_>, workspace: i64, start: Vec<u8>) -> Result<Option<Vec<u8>>> {
    let row = session.workspace(workspace)?;
    let Some(fork) = row.filter(|row| !row.is_flat).and_then(|row| row.fork) else {
        return Ok(None);
    };
    if session.is_hidden(workspace)? {
        return Ok(None);
    }
    let tree = Tree::at(session, fork)?;
    let mut scan = tree.below(b"");
    scan.seek(&start);
    for _ in 0..SLICE {
        let Some((path, node)) = scan.next()? else {
            session.set_flat(workspace)?;
            return Ok(None);
        };
        // Until the branch's own first word on the path; 0 where an earlier flattening was here.
        let until = session.first_since(workspace, &path)?.unwrap_or(i64::MAX);
        if until > 0 {
            session.insert_entry(workspace, &path, (0, until), &Held::Node(node))?;
        }
    }
    match scan.next()? {
        Some((path, _)) => Ok(Some(path)),
        None => session.set_flat(workspace).map(|()| None),
    }
}
