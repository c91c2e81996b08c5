//! Reading the journal.

use garret_core::{Error, ErrorKind, Result};

use super::Point;
use super::point::{level_of, lineage, no_longer_kept, now};
use super::types::{Change, PathChange};
use crate::metadata::{Level, Session};
use crate::tree::Tree;
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Its changes, newest first: at most `limit`, older than the number `before` where one is given. The changes of a branch begin
    /// at its fork.
    pub async fn changes(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>> {
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        self.shared().database.read(|session| {
            let rows = session.changes_before(self.number, before, limit)?;
            rows.into_iter().map(|row| Change::of(session, row)).collect()
        })
    }

    /// The change that `point` names, with what each path was before and after it.
    pub async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        self.shared().database.read(|session| {
            let level = level_of(session, self.number, point)?;
            let row = session.change(level.workspace, level.at)?;
            let Some(row) = row else {
                return Err(why_no_change(session, level)?);
            };
            Ok((Change::of(session, row)?, paths_of(session, level)?))
        })
    }

    /// The changes of the workspaces it was branched off, up to each fork, newest first, at most `limit`.
    pub async fn inherited_changes(&self, limit: usize) -> Result<Vec<Change>> {
        self.shared().database.read(|session| {
            let mut changes = Vec::new();
            for level in &lineage(session, now(session, self.number)?)?[1..] {
                let rows = session.changes_before(level.workspace, level.at + 1, limit - changes.len())?;
                for row in rows {
                    changes.push(Change::of(session, row)?);
                }
            }
            Ok(changes)
        })
    }
}

/// A state that is kept has no change where it is the first of its journal, or where only a snapshot or a branch holds it.
fn why_no_change(session: Session<'_>, level: Level) -> Result<Error> {
    match session.oldest(level.workspace)?.seq {
        0 => Ok(Error::new(ErrorKind::NotFound, "there is no change at the beginning of a workspace")
            .hint("list the changes to see which there are")),
        oldest => Ok(no_longer_kept(oldest)),
    }
}

/// What each path was before and after the change at `level`.
pub(crate) fn paths_of(session: Session<'_>, level: Level) -> Result<Vec<PathChange>> {
    let earlier = Level {
        at: level.at - 1,
        ..level
    };
    let (before, after) = (Tree::at(session, earlier)?, Tree::at(session, level)?);
    let paths = session.touched(level.workspace, earlier.at, level.at)?;
    let image = |path: Vec<u8>| {
        let (before, after) = (before.node(&path)?, after.node(&path)?);
        Ok(PathChange::new(path, before.as_ref(), after.as_ref()))
    };
    paths.into_iter().map(image).collect()
}
