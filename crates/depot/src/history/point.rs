//! Resolves a point, such as a user writes after `@`, to a state of a workspace.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Point, Result, Timestamp};

use crate::metadata::{LineageLevel, MetadataSession, check_older, stored_time};
use crate::storage::DepotView;
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Returns a read-only view of the files at `point`. Later changes do not affect the view.
    pub async fn open_view_at(&self, point: &Point) -> Result<DepotView> {
        let level = self
            .shared()
            .database
            .read(|session| self.resolve_point(session, point))?;
        Ok(self.view_at(level))
    }

    pub(crate) fn resolve_point(&self, session: MetadataSession<'_>, point: &Point) -> Result<LineageLevel> {
        resolve_point(session, self.number, point)
    }
}

/// Resolves `point` in the workspace `number`. The result is always the state of a numbered change, so that it never
/// moves.
pub(crate) fn resolve_point(session: MetadataSession<'_>, number: i64, point: &Point) -> Result<LineageLevel> {
    let lineage = lineage_of(session, newest_level(session, number)?)?;
    let found = match point {
        Point::Now => lineage.first().copied(),
        Point::Number(seq) => find_by_number(&lineage, *seq),
        Point::Change(id) => find_by_change_id(session, &lineage, id)?,
        Point::Snapshot(label) => session.snapshots().snapshot(number, label)?.map(|row| row.point),
        Point::Time(time) => find_by_time(session, &lineage, *time)?,
        Point::Named(text) => find_by_text(session, &lineage, text)?,
    };
    let level = match found {
        Some(level) => level,
        None => return Err(unknown_point(session, &lineage, point)?),
    };
    check_kept(session, level)?;
    Ok(level)
}

/// Checks that the state at `level` is still kept; a dropped state is `not_found`.
pub(crate) fn check_kept(session: MetadataSession<'_>, level: LineageLevel) -> Result<()> {
    if session.retention().is_hidden(level.workspace)? {
        return Err(Error::new(ErrorKind::NotFound, "this workspace no longer exists"));
    }
    if session.retention().is_kept(level)? {
        Ok(())
    } else {
        Err(no_longer_kept(session.retention().journal_start(level.workspace)?.seq))
    }
}

/// Returns the error for a point that retention dropped.
pub(crate) fn no_longer_kept(oldest: i64) -> Error {
    let message = format!("the point is older than the history, which now begins after change {oldest}");
    Error::new(ErrorKind::NotFound, message).hint("list the changes and the snapshots to see which points are kept")
}

/// Returns whether the depot knows every file of the state.
pub(crate) fn is_complete(session: MetadataSession<'_>, level: LineageLevel) -> Result<bool> {
    // The whole lineage counts: a branch inherits only the files that the depot knew at its fork.
    for level in lineage_of(session, level)? {
        if !has_captured_all(session, level)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether the workspace itself had captured all its files by then; files that live elsewhere may be captured
/// later.
pub(crate) fn has_captured_all(session: MetadataSession<'_>, level: LineageLevel) -> Result<bool> {
    let journal = session.outside_files().journal(level.workspace)?;
    Ok(journal.is_none_or(|row| row.whole.is_some_and(|whole| whole <= level.at)))
}

/// Returns the newest numbered state of a workspace.
pub(crate) fn newest_level(session: MetadataSession<'_>, workspace: i64) -> Result<LineageLevel> {
    let row = session.workspaces().workspace(workspace)?;
    let at = row.map_or(0, |row| row.head);
    Ok(LineageLevel { workspace, at })
}

/// Returns `level` and the forks that it descends from, nearest first; flattened branches do not end the lineage.
pub(crate) fn lineage_of(session: MetadataSession<'_>, level: LineageLevel) -> Result<Vec<LineageLevel>> {
    let mut lineage = vec![level];
    let mut next = session
        .workspaces()
        .workspace(level.workspace)?
        .and_then(|row| row.fork);
    while let Some(fork) = next {
        check_older(&lineage, fork)?;
        lineage.push(fork);
        next = session.workspaces().workspace(fork.workspace)?.and_then(|row| row.fork);
    }
    Ok(lineage)
}

fn find_by_number(lineage: &[LineageLevel], seq: u64) -> Option<LineageLevel> {
    let own = lineage.first()?;
    let at = i64::try_from(seq).ok()?;
    (at <= own.at).then_some(LineageLevel { at, ..*own })
}

fn find_by_change_id(session: MetadataSession<'_>, lineage: &[LineageLevel], id: &str) -> Result<Option<LineageLevel>> {
    let Some(row) = session.changes().change_by_id(id)? else {
        return Ok(None);
    };
    // A change that the parent made after the fork is not part of this lineage.
    let is_seen = |level: &&LineageLevel| level.workspace == row.workspace && row.seq <= level.at;
    Ok(lineage
        .iter()
        .find(is_seen)
        .map(|level| LineageLevel { at: row.seq, ..*level }))
}

/// Returns the newest change up to `time`, in the nearest workspace that has one; for a time before all changes, the
/// beginning.
fn find_by_time(
    session: MetadataSession<'_>,
    lineage: &[LineageLevel],
    time: Timestamp,
) -> Result<Option<LineageLevel>> {
    for level in lineage {
        if let Some(at) = session
            .changes()
            .change_at_time(level.workspace, level.at, stored_time(time))?
        {
            return Ok(Some(LineageLevel { at, ..*level }));
        }
        let oldest = session.retention().journal_start(level.workspace)?;
        // The changes up to `oldest` are dropped, but the state after them is kept.
        if oldest.seq > 0 && stored_time(time) >= oldest.at {
            return Ok(Some(LineageLevel {
                at: oldest.seq.min(level.at),
                ..*level
            }));
        }
        // A time between the creation and `oldest` lies in the dropped part of the history.
        let created = session
            .workspaces()
            .workspace(level.workspace)?
            .map_or(0, |row| row.created);
        if oldest.seq > 0 && stored_time(time) >= created {
            return Err(no_longer_kept(oldest.seq));
        }
    }
    Ok(lineage.last().map(|oldest| LineageLevel { at: 0, ..*oldest }))
}

fn find_by_text(session: MetadataSession<'_>, lineage: &[LineageLevel], text: &str) -> Result<Option<LineageLevel>> {
    let newest = lineage.first().expect("a lineage begins with its workspace");
    if text == Point::NOW {
        return Ok(Some(*newest));
    }
    // The order decides which meaning of the text wins: a label, then the id of a change, its number, and last a time.
    if let Some(row) = session.snapshots().snapshot(newest.workspace, text)? {
        return Ok(Some(row.point));
    }
    if let Some(level) = find_by_change_id(session, lineage, text)? {
        return Ok(Some(level));
    }
    if let Ok(seq) = text.parse() {
        return Ok(find_by_number(lineage, seq));
    }
    match text.parse() {
        Ok(time) => find_by_time(session, lineage, time),
        Err(_) => Ok(None),
    }
}

fn unknown_point(session: MetadataSession<'_>, lineage: &[LineageLevel], point: &Point) -> Result<Error> {
    let what = match point {
        Point::Now => "there is no such workspace".to_owned(),
        Point::Number(seq) => format!("there is no change number {seq}"),
        Point::Change(id) => format!("there is no change {}", quote(id)),
        Point::Snapshot(label) => format!("there is no snapshot {}", quote(label)),
        Point::Time(time) => format!("the workspace has no state at {time}"),
        Point::Named(text) => format!("there is no snapshot, change or time {}", quote(text)),
    };
    let mut is_cut = false;
    for level in lineage {
        is_cut |= session.retention().journal_start(level.workspace)?.seq > 0;
    }
    let what = if is_cut {
        format!("{what}, or it is no longer kept")
    } else {
        what
    };
    Ok(Error::new(ErrorKind::NotFound, what).hint("list the snapshots and the changes to see the available points"))
}
