//! Retention: drops the older part of a journal. It runs only on request, and never drops the point of a snapshot or
//! the fork of a branch.
//!
//! First the beginning of the journal is moved; from then on older states cannot be read. Then the rows that no kept
//! state needs are removed, a slice at a time, so that other writers wait for one slice at most. The remaining rows are
//! not rewritten. The content of the removed rows is re-dated, so that a reader of it has the grace of a garbage
//! collection to finish.

use garret_core::{Durability, Error, ErrorKind, Point, Result, RetentionLimits, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::stored_size::CountedPieces;
use crate::depot::Depot;
use crate::error::damaged_content;
use crate::metadata::{EndedRow, JournalStart, MetadataSession, WorkspaceRow, stored_time};
use crate::workspace::DepotWorkspace;

/// Rows removed in one transaction.
const SLICE: usize = 1_000;

/// The result of a retention run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetentionReport {
    /// The number of the first state that is kept; 0 for the beginning.
    pub oldest: u64,
    /// Changes that are no longer in the journal.
    pub changes: u64,
    /// Old versions of entries that are no longer kept. The next garbage collection removes their content.
    pub versions: u64,
}

/// Whether a retention run drops history, or only counts it.
#[derive(Debug, Clone, Copy)]
enum RetentionMode {
    Real,
    Dry,
}

impl DepotWorkspace {
    /// Returns the retention limits of this workspace; none by default, so that everything is kept.
    pub async fn keep(&self) -> Result<RetentionLimits> {
        let text = self
            .shared()
            .database
            .read(|session| session.retention().retention_limits(self.number))?;
        text.map_or(Ok(RetentionLimits::default()), |text| text.parse())
    }

    /// Sets the retention limits of this workspace. Nothing is dropped before [`DepotWorkspace::retain`] or
    /// [`Depot::retain_all`].
    pub async fn set_keep(&self, keep: &RetentionLimits) -> Result<()> {
        if self.keep().await? == *keep {
            return Ok(());
        }
        let (number, text) = (self.number, (!keep.keeps_everything()).then(|| keep.to_string()));
        let set = move |session: MetadataSession<'_>| session.retention().set_retention_limits(number, text.as_deref());
        self.shared().writer.write(self.durability, set).await
    }

    /// Drops the changes that exceed a limit of `keep`. The newest state, every snapshot, and the fork of every branch
    /// stay as they are; older states are `not_found` from then on.
    pub async fn retain(&self, keep: &RetentionLimits, now: Timestamp) -> Result<RetentionReport> {
        let oldest = self.first_kept(keep, now).await?;
        self.drop_before(oldest).await
    }

    /// Counts the changes and versions that [`DepotWorkspace::retain`] would drop now, without dropping them.
    pub async fn preview_retention(&self, keep: &RetentionLimits, now: Timestamp) -> Result<RetentionReport> {
        let (wanted, number) = (self.first_kept(keep, now).await?, self.number);
        let count = |session: MetadataSession<'_>| {
            let oldest = journal_beginning(session, &find_row(session, number)?, wanted)?;
            Ok(RetentionReport {
                oldest: oldest.unsigned_abs(),
                changes: session.retention().count_changes(number, oldest)?,
                versions: count_droppable_rows(session, number, oldest)?,
            })
        };
        self.shared().database.read(count)
    }

    /// Returns the first state within every limit of `keep`.
    async fn first_kept(&self, keep: &RetentionLimits, now: Timestamp) -> Result<i64> {
        let mut oldest = 0;
        if let Some(count) = keep.changes {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            oldest = self.newest_change().await?.saturating_sub(count).max(oldest);
        }
        if let Some(age) = keep.age {
            let since = now.checked_sub(age).unwrap_or(Timestamp::MIN);
            oldest = self.first_since(since).await?.max(oldest);
        }
        if let Some(bytes) = keep.bytes {
            oldest = self.first_within(bytes).await?.max(oldest);
        }
        Ok(oldest)
    }

    /// Drops the changes up to `point`, which becomes the beginning of the journal; with [`Point::Now`], the whole
    /// history.
    pub async fn forget_history(&self, point: &Point) -> Result<RetentionReport> {
        let level = self
            .shared()
            .database
            .read(|session| self.resolve_point(session, point))?;
        if level.workspace != self.number {
            let message = "the point is older than the beginning of this branch";
            return Err(Error::new(ErrorKind::Invalid, message)
                .hint("forget the history of the workspace that it was branched from"));
        }
        self.drop_before(level.at).await
    }

    async fn newest_change(&self) -> Result<i64> {
        let row = self.shared().database.read(|session| find_row(session, self.number))?;
        Ok(row.head)
    }

    /// Returns the state before the first change made at `time` or after.
    async fn first_since(&self, time: Timestamp) -> Result<i64> {
        let first = self
            .shared()
            .database
            .read(|session| session.retention().first_change_since(self.number, stored_time(time)))?;
        match first {
            Some(seq) => Ok(seq - 1),
            None => self.newest_change().await,
        }
    }

    /// Returns the first state from which on the before-images of the changes take at most `limit` bytes.
    async fn first_within(&self, limit: u64) -> Result<i64> {
        let database = &self.shared().database;
        let (live, oldest) = database.read(|session| {
            Ok((
                session.retention().live_contents(self.number)?,
                session.retention().journal_start(self.number)?,
            ))
        })?;
        let mut pieces = CountedPieces::new(self.depot());
        // Counted first, so that content which the newest state shares does not count as history.
        for address in live {
            pieces.add_content(address).await?;
        }
        let mut bytes = 0;
        for seq in (oldest.seq + 1..=self.newest_change().await?).rev() {
            for address in database.read(|session| session.retention().contents_ended_by(self.number, seq))? {
                bytes += pieces.add_content(address).await?;
            }
            if bytes > limit {
                return Ok(seq);
            }
        }
        Ok(oldest.seq)
    }

    async fn drop_before(&self, seq: i64) -> Result<RetentionReport> {
        let number = self.number;
        let begin = move |session: MetadataSession<'_>| move_beginning(session, number, seq);
        // Durable: the older states are dropped for good, so recovery after a power failure must never need to roll
        // back to one of them.
        let oldest = self.shared().writer.write(Durability::Full, begin).await?;
        let (mut versions, mut changes) = (0, 0);
        self.drop_unneeded_rows(&mut versions).await?;
        loop {
            let remove = move |session: MetadataSession<'_>| session.retention().remove_changes(number, oldest, SLICE);
            match self.shared().writer.write(self.durability, remove).await? {
                0 => break,
                count => changes += count as u64,
            }
        }
        Ok(RetentionReport {
            oldest: oldest.unsigned_abs(),
            changes,
            versions,
        })
    }

    /// Removes the rows that no kept state needs: those that an interrupted retention left, and those that only a
    /// deleted snapshot or branch needed. Adds their number to `dropped` as it goes, so that the count is right even if
    /// it fails halfway.
    pub(crate) async fn drop_unneeded_rows(&self, dropped: &mut u64) -> Result<()> {
        let number = self.number;
        let mut after = Some((0, Vec::new()));
        while let Some(start) = after {
            let now = self.shared().clock.now().as_millisecond();
            let slice = move |session: MetadataSession<'_>| drop_slice(session, number, &start, now);
            let (count, next) = self.shared().writer.write(self.durability, slice).await?;
            *dropped += count;
            after = next;
        }
        Ok(())
    }
}

impl Depot {
    /// Runs retention in every workspace with limits; returns the result of each with its id.
    pub async fn retain_all(&self, now: Timestamp) -> Result<Vec<(String, RetentionReport)>> {
        self.run_retention(now, RetentionMode::Real).await
    }

    /// Counts the changes and versions that [`Depot::retain_all`] would drop now, without dropping them.
    pub async fn preview_retention_all(&self, now: Timestamp) -> Result<Vec<(String, RetentionReport)>> {
        self.run_retention(now, RetentionMode::Dry).await
    }

    async fn run_retention(&self, now: Timestamp, run: RetentionMode) -> Result<Vec<(String, RetentionReport)>> {
        let mut all = Vec::new();
        for workspace in self.live_workspaces()? {
            let keep = workspace.keep().await?;
            if keep.keeps_everything() {
                continue;
            }
            let retained = match run {
                RetentionMode::Real => workspace.retain(&keep, now).await?,
                RetentionMode::Dry => workspace.preview_retention(&keep, now).await?,
            };
            all.push((workspace.id().to_owned(), retained));
        }
        Ok(all)
    }

    /// Returns a handle on every workspace that is not deleted.
    pub(crate) fn live_workspaces(&self) -> Result<Vec<DepotWorkspace>> {
        let rows = self
            .shared
            .database
            .read(|session| session.workspaces().list_workspaces())?;
        let rows = rows.iter().filter(|row| row.deleted.is_none());
        Ok(rows.map(|row| self.workspace_handle(row)).collect())
    }
}

/// Moves the beginning of the journal to `seq`, unless it begins later already. Returns the beginning.
fn move_beginning(session: MetadataSession<'_>, workspace: i64, seq: i64) -> Result<i64> {
    let row = find_row(session, workspace)?;
    let seq = journal_beginning(session, &row, seq)?;
    if seq == session.retention().journal_start(workspace)?.seq {
        return Ok(seq);
    }
    let at = session
        .changes()
        .change(workspace, seq)?
        .map_or(row.created, |change| change.at);
    session
        .retention()
        .set_journal_start(workspace, JournalStart { seq, at })?;
    // The row of the newest change may be removed as well, and the head must stay known without it.
    session.workspaces().set_head(workspace, row.head)?;
    Ok(seq)
}

/// Returns the beginning of the journal after it is moved to `seq`: not before the present one, and not after the
/// newest change.
fn journal_beginning(session: MetadataSession<'_>, row: &WorkspaceRow, seq: i64) -> Result<i64> {
    Ok(session.retention().journal_start(row.id)?.seq.max(seq.min(row.head)))
}

fn find_row(session: MetadataSession<'_>, workspace: i64) -> Result<WorkspaceRow> {
    let row = session.workspaces().workspace(workspace)?;
    row.ok_or_else(|| damaged_content("the record of a workspace is missing"))
}

type EndedRowKey = (i64, Vec<u8>);

/// Removes the rows of one slice; returns their number and the key to continue from.
fn drop_slice(
    session: MetadataSession<'_>,
    workspace: i64,
    after: &EndedRowKey,
    now: i64,
) -> Result<(u64, Option<EndedRowKey>)> {
    let (rows, next) = unneeded_rows(
        session,
        workspace,
        session.retention().journal_start(workspace)?.seq,
        after,
    )?;
    for row in &rows {
        session.retention().remove_ended_row(workspace, row)?;
        if let Some(address) = row.hash {
            session.retention().redate_content(address, now)?;
        }
    }
    Ok((rows.len() as u64, next))
}

/// Counts the rows that no kept state would need if the journal began at `oldest`.
pub(crate) fn count_droppable_rows(session: MetadataSession<'_>, workspace: i64, oldest: i64) -> Result<u64> {
    let (mut count, mut after) = (0, Some((0, Vec::new())));
    while let Some(start) = after {
        let (rows, next) = unneeded_rows(session, workspace, oldest, &start)?;
        count += rows.len() as u64;
        after = next;
    }
    Ok(count)
}

/// Returns the rows of one slice that no kept state needs if the journal begins at `oldest`, and the key to continue
/// from.
fn unneeded_rows(
    session: MetadataSession<'_>,
    workspace: i64,
    oldest: i64,
    after: &EndedRowKey,
) -> Result<(Vec<EndedRow>, Option<EndedRowKey>)> {
    // Read again for each slice: a snapshot that was made meanwhile counts.
    let held = session.retention().held_points(workspace)?;
    let mut rows = session.retention().ended_rows(workspace, oldest, after, SLICE)?;
    let next = rows.last().filter(|_| rows.len() == SLICE).map(EndedRow::key);
    rows.retain(|row| !is_row_needed(&held, row.since, row.until));
    Ok((rows, next))
}

/// Returns whether one of the sorted `points` lies within the validity of a row.
pub(crate) fn is_row_needed(points: &[i64], since: i64, until: i64) -> bool {
    let first = points.partition_point(|point| *point < since);
    points.get(first).is_some_and(|point| *point < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_shown_at_its_beginning_and_no_longer_at_its_end() {
        assert!(is_row_needed(&[3, 7], 3, 4));
        assert!(is_row_needed(&[3, 7], 5, 8));
        assert!(!is_row_needed(&[3, 7], 4, 7));
        assert!(!is_row_needed(&[3, 7], 8, 100));
        assert!(!is_row_needed(&[], 0, 100));
    }
}
