//! Naming a point: what a user may write after `@`, and which state of which workspace that is.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Point, Result, Timestamp};

use crate::metadata::{Level, Session, check_older, stored_time};
use crate::storage::DepotView;
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// The files at `point`, for reading. The view stays what it is whatever is changed afterwards.
    pub async fn at(&self, point: &Point) -> Result<DepotView> {
        let level = self.shared().database.read(|session| self.level_of(session, point))?;
        Ok(self.view(level))
    }

    pub(crate) fn level_of(&self, session: Session<'_>, point: &Point) -> Result<Level> {
        level_of(session, self.number, point)
    }
}

/// The state that `point` means to the workspace `number`; always that of a numbered change, so that it never moves.
pub(crate) fn level_of(session: Session<'_>, number: i64, point: &Point) -> Result<Level> {
    let lineage = lineage(session, now(session, number)?)?;
    let found = match point {
        Point::Now => lineage.first().copied(),
        Point::Number(seq) => numbered(&lineage, *seq),
        Point::Change(id) => changed(session, &lineage, id)?,
        Point::Snapshot(label) => session.snapshot(number, label)?.map(|row| row.point),
        Point::Time(time) => timed(session, &lineage, *time)?,
        Point::Named(text) => named(session, &lineage, text)?,
    };
    let level = match found {
        Some(level) => level,
        None => return Err(unknown(session, &lineage, point)?),
    };
    check_kept(session, level)?;
    Ok(level)
}

/// Checks that the state at `level` is still kept; one that is not is `not_found`.
pub(crate) fn check_kept(session: Session<'_>, level: Level) -> Result<()> {
    if session.is_hidden(level.workspace)? {
        return Err(Error::new(ErrorKind::NotFound, "this workspace no longer exists"));
    }
    match session.is_kept(level)? {
        true => Ok(()),
        false => Err(no_longer_kept(session.oldest(level.workspace)?.seq)),
    }
}

/// The error for a point that retention dropped.
pub(crate) fn no_longer_kept(oldest: i64) -> Error {
    let message = format!("the point is older than the history, which now begins after change {oldest}");
    Error::new(ErrorKind::NotFound, message).hint("list the changes and the snapshots to see which points are kept")
}

/// Whether every file of the state is known. A branch has of the files before its fork only those that were known there.
pub(crate) fn is_complete(session: Session<'_>, level: Level) -> Result<bool> {
    for level in lineage(session, level)? {
        if !has_met_all(session, level)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the workspace itself had met all its files by then: of those that live elsewhere, some are met only later.
pub(crate) fn has_met_all(session: Session<'_>, level: Level) -> Result<bool> {
    let journal = session.journal(level.workspace)?;
    Ok(journal.is_none_or(|row| row.whole.is_some_and(|whole| whole <= level.at)))
}

/// The newest numbered state of a workspace.
pub(crate) fn now(session: Session<'_>, workspace: i64) -> Result<Level> {
    let row = session.workspace(workspace)?;
    let at = row.map_or(0, |row| row.head);
    Ok(Level { workspace, at })
}

/// `level` and the points that it goes back to, flat or not.
pub(crate) fn lineage(session: Session<'_>, level: Level) -> Result<Vec<Level>> {
    let mut lineage = vec![level];
    let mut next = session.workspace(level.workspace)?.and_then(|row| row.fork);
    while let Some(fork) = next {
        check_older(&lineage, fork)?;
        lineage.push(fork);
        next = session.workspace(fork.workspace)?.and_then(|row| row.fork);
    }
    Ok(lineage)
}

fn numbered(lineage: &[Level], seq: u64) -> Option<Level> {
    let own = lineage.first()?;
    let at = i64::try_from(seq).ok()?;
    (at <= own.at).then_some(Level { at, ..*own })
}

fn changed(session: Session<'_>, lineage: &[Level], id: &str) -> Result<Option<Level>> {
    let Some(row) = session.change_by_id(id)? else {
        return Ok(None);
    };
    let is_seen = |level: &&Level| level.workspace == row.workspace && row.seq <= level.at;
    Ok(lineage
        .iter()
        .find(is_seen)
        .map(|level| Level { at: row.seq, ..*level }))
}

/// The newest change up to the time, in the nearest workspace that has one; before all of them, the beginning.
fn timed(session: Session<'_>, lineage: &[Level], time: Timestamp) -> Result<Option<Level>> {
    for level in lineage {
        if let Some(at) = session.change_at(level.workspace, level.at, stored_time(time))? {
            return Ok(Some(Level { at, ..*level }));
        }
        let oldest = session.oldest(level.workspace)?;
        if oldest.seq > 0 && stored_time(time) >= oldest.at {
            return Ok(Some(Level {
                at: oldest.seq.min(level.at),
                ..*level
            }));
        }
        let created = session.workspace(level.workspace)?.map_or(0, |row| row.created);
        if oldest.seq > 0 && stored_time(time) >= created {
            return Err(no_longer_kept(oldest.seq));
        }
    }
    Ok(lineage.last().map(|oldest| Level { at: 0, ..*oldest }))
}

fn named(session: Session<'_>, lineage: &[Level], text: &str) -> Result<Option<Level>> {
    let newest = lineage.first().expect("a lineage begins with its workspace");
    if text == Point::NOW {
        return Ok(Some(*newest));
    }
    if let Some(row) = session.snapshot(newest.workspace, text)? {
        return Ok(Some(row.point));
    }
    if let Some(level) = changed(session, lineage, text)? {
        return Ok(Some(level));
    }
    if let Ok(seq) = text.parse() {
        return Ok(numbered(lineage, seq));
    }
    match text.parse() {
        Ok(time) => timed(session, lineage, time),
        Err(_) => Ok(None),
    }
}

fn unknown(session: Session<'_>, lineage: &[Level], point: &Point) -> Result<Error> {
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
        is_cut |= session.oldest(level.workspace)?.seq > 0;
    }
    let what = match is_cut {
        true => format!("{what}, or it is no longer kept"),
        false => what,
    };
    Ok(Error::new(ErrorKind::NotFound, what).hint("list the snapshots and the changes to see the available points"))
}
