//! Naming a point: what a user may write after `@`, and which state of which workspace that is.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Point, Result, Timestamp};

use crate::metadata::{Level, Session, stored_time};
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
    found.ok_or_else(|| unknown(point))
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
    }
    Ok(lineage.last().map(|oldest| Level { at: 0, ..*oldest }))
}

fn named(session: Session<'_>, lineage: &[Level], text: &str) -> Result<Option<Level>> {
    let own = lineage.first().expect("a lineage begins with its workspace").workspace;
    if let Some(row) = session.snapshot(own, text)? {
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

fn unknown(point: &Point) -> Error {
    let what = match point {
        Point::Now => "there is no such workspace".to_owned(),
        Point::Number(seq) => format!("there is no change number {seq}"),
        Point::Change(id) => format!("there is no change {}", quote(id)),
        Point::Snapshot(label) => format!("there is no snapshot {}", quote(label)),
        Point::Time(time) => format!("there is nothing at {time}"),
        Point::Named(text) => format!("there is no snapshot, change or time {}", quote(text)),
    };
    Error::new(ErrorKind::NotFound, what).hint("list the snapshots and the changes to see which points there are")
}
