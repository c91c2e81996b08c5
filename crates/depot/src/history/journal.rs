//! Reading the journal.

use garret_core::{Change, ChangesOptions, Error, ErrorKind, PathChange, Point, Result};

use super::conversions::{change_of, path_change};
use super::point::{lineage_of, newest_level, no_longer_kept, resolve_point};
use crate::metadata::{LineageLevel, MetadataSession};
use crate::tree::{DepotTree, path_key};
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Returns at most `limit` changes, newest first; with `before`, only those with a smaller number. The changes of a
    /// branch begin at its fork.
    pub async fn changes(&self, before: Option<u64>, limit: usize) -> Result<Vec<Change>> {
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        self.shared().database.read(|session| {
            let rows = session.changes().changes_before(self.number, before, limit)?;
            rows.into_iter().map(|row| change_of(session, row)).collect()
        })
    }

    /// Returns the change at `point`, with the state of each path before and after it.
    pub async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        self.shared().database.read(|session| {
            let level = resolve_point(session, self.number, point)?;
            let row = session.changes().change(level.workspace, level.at)?;
            let Some(row) = row else {
                return Err(no_change_error(session, level)?);
            };
            Ok((change_of(session, row)?, paths_of(session, level)?))
        })
    }

    /// Returns the changes that `options` select, newest first.
    pub(crate) async fn selected_changes(&self, options: ChangesOptions) -> Result<Vec<Change>> {
        let before = options.before.and_then(|number| i64::try_from(number).ok());
        self.shared().database.read(|session| {
            let mut lineage = lineage_of(session, newest_level(session, self.number)?)?;
            lineage.truncate(if options.inherited { usize::MAX } else { 1 });
            // `before` is a number of the workspace itself, so it does not limit the inherited changes.
            lineage[0].at = lineage[0].at.min(before.unwrap_or(i64::MAX) - 1);
            let mut changes = Vec::new();
            for level in lineage {
                let room = options.limit - changes.len();
                let rows = match &options.path {
                    Some(path) => session
                        .changes()
                        .changes_of_path(level.workspace, level.at, path_key(path), room)?,
                    None => session.changes().changes_before(level.workspace, level.at + 1, room)?,
                };
                for row in rows {
                    changes.push(change_of(session, row)?);
                }
            }
            Ok(changes)
        })
    }
}

/// Returns the error for a kept state without a change: the first of its journal, or one that only a snapshot or a
/// branch keeps.
fn no_change_error(session: MetadataSession<'_>, level: LineageLevel) -> Result<Error> {
    match session.retention().journal_start(level.workspace)?.seq {
        0 => Ok(
            Error::new(ErrorKind::NotFound, "the beginning of a workspace is not a change")
                .hint("list the changes to see their numbers"),
        ),
        oldest => Ok(no_longer_kept(oldest)),
    }
}

/// Returns the state of each path that the change at `level` touched, before and after it.
fn paths_of(session: MetadataSession<'_>, level: LineageLevel) -> Result<Vec<PathChange>> {
    let paths = session
        .entries()
        .touched_paths(level.workspace, level.at - 1, level.at)?;
    images_of(session, level, paths)
}

/// Returns the states of the given paths before and after the change at `level`.
pub(crate) fn images_of(
    session: MetadataSession<'_>,
    level: LineageLevel,
    paths: Vec<Vec<u8>>,
) -> Result<Vec<PathChange>> {
    let earlier = LineageLevel {
        at: level.at - 1,
        ..level
    };
    let (before, after) = (
        DepotTree::at_point(session, earlier)?,
        DepotTree::at_point(session, level)?,
    );
    let image = |path: Vec<u8>| {
        let (before, after) = (before.node(&path)?, after.node(&path)?);
        Ok(path_change(path, before.as_ref(), after.as_ref()))
    };
    paths.into_iter().map(image).collect()
}
