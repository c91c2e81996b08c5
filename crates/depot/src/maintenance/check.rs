//! Checks a whole depot: every piece of content, every entry, every journal, and the lineage of every workspace.
//!
//! The check reads everything and changes nothing. It reads page by page, so that others can work meanwhile.

use std::collections::BTreeSet;
use std::path::Path;

use garret_core::{EntryKind, EntryPath, ErrorKind, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::content::PieceAddress;
use crate::depot::Depot;
use crate::error::is_content_unreadable;
use crate::history::lineage_of;
use crate::home_permissions;
use crate::metadata::{EntryRow, HEAD, LevelEntry, LineageLevel, MetadataSession, WorkspaceRow};
use crate::tree::DepotTree;

/// Rows read in one transaction.
const PAGE: usize = 1_000;

/// A fault in a depot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckProblem {
    /// The id of the workspace, if the fault concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The path, if the fault concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub path: Option<EntryPath>,
    /// The number of the change, if the fault concerns one; for an entry, the change that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<u64>,
    /// A description of the fault.
    pub what: String,
}

/// The result of a check of a whole depot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// The faults; empty if the depot is sound.
    pub problems: Vec<CheckProblem>,
    /// Workspaces checked.
    pub workspaces: u64,
    /// Entries checked, those of earlier points included.
    pub entries: u64,
    /// Pieces of content read and verified.
    pub pieces: u64,
    /// Blobs without a row: those of writes that were refused, interrupted or are still under way. Garbage collection
    /// removes them.
    pub orphans: u64,
    /// Blobs of relaxed writes that are not yet known to have reached the disk.
    pub unsynced: u64,
    /// Remarks that are no faults, such as that other users may read the home.
    pub notes: Vec<String>,
}

/// The content that is known to be damaged while entries are checked.
#[derive(Default)]
struct ContentDamage {
    contents: BTreeSet<PieceAddress>,
    /// The addresses of `contents` whose blob exists but cannot be read from the disk.
    unreadable: BTreeSet<PieceAddress>,
    unsynced: BTreeSet<PieceAddress>,
}

impl Depot {
    /// Checks the whole depot and returns the faults; none if it is sound.
    pub async fn check(&self) -> Result<Vec<CheckProblem>> {
        Ok(self.inspect().await?.problems)
    }

    /// Checks the whole depot; returns the faults, and counts of everything that was checked.
    pub async fn inspect(&self) -> Result<CheckReport> {
        let database = &self.shared.database;
        let sound = database.read(|session| session.integrity_problems())?;
        let mut found = CheckReport::default();
        let general = |line| CheckProblem::of_depot(format!("the database: {line}"));
        found.problems.extend(sound.into_iter().map(general));
        found.problems.extend(database.read(check_rows)?);
        found.problems.extend(self.damaged_logs().await?);
        // Before the workspaces, so that each file with damaged content is reported with its path.
        let damage = self.find_damage(&mut found).await?;
        for row in database.read(|session| session.workspaces().list_workspaces())? {
            found.workspaces += 1;
            found
                .problems
                .extend(database.read(|session| check_journal(session, &row))?);
            // Without a sound lineage there is no tree to check the entries against.
            if database.read(|session| has_sound_lineage(session, row.id))? {
                self.check_workspace(&row, &damage, &mut found)?;
            }
        }
        let shown = |address: &PieceAddress| {
            CheckProblem::of_depot(format!(
                "the content {} {}",
                address.to_hex(),
                damage.describe_damage(*address)
            ))
        };
        found.problems.extend(damage.contents.iter().map(shown));
        found.orphans = self.orphan_blobs(i64::MAX).await?.len() as u64;
        found.notes = self
            .shared
            .home
            .as_deref()
            .and_then(exposure_note)
            .into_iter()
            .collect();
        Ok(found)
    }

    /// Returns whether the entries of a workspace are consistent and all their content has a row.
    pub(crate) fn is_workspace_sound(&self, workspace: i64) -> Result<bool> {
        let Some(row) = self
            .shared
            .database
            .read(|session| session.workspaces().workspace(workspace))?
        else {
            return Ok(false);
        };
        let mut found = CheckReport {
            problems: self.shared.database.read(|session| check_journal(session, &row))?,
            ..CheckReport::default()
        };
        self.check_workspace(&row, &ContentDamage::default(), &mut found)?;
        Ok(found.problems.is_empty())
    }

    fn check_workspace(&self, row: &WorkspaceRow, damage: &ContentDamage, found: &mut CheckReport) -> Result<()> {
        let mut after = Some((Vec::new(), -1));
        while let Some(start) = after {
            let page = self
                .shared
                .database
                .read(|session| check_entries(session, row, damage, &start))?;
            found.entries += page.count;
            found.problems.extend(page.problems);
            after = page.next;
        }
        Ok(())
    }

    /// Reads and verifies every piece of content. A list with a damaged part counts as damaged, so that the file that
    /// refers to the list is reported.
    async fn find_damage(&self, found: &mut CheckReport) -> Result<ContentDamage> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        let mut unsynced: BTreeSet<_> = database
            .read(|session| session.contents().unsynced_blobs())?
            .into_iter()
            .collect();
        found.unsynced = unsynced.len() as u64;
        let (mut contents, mut unreadable) = (BTreeSet::new(), BTreeSet::new());
        let mut after = None;
        loop {
            let addresses = database.read(|session| session.contents().addresses_after(after, PAGE))?;
            for address in &addresses {
                found.pieces += 1;
                match content.verify_piece(database, *address).await {
                    Ok(None) => continue,
                    Ok(Some(_)) => {}
                    // One blob that the disk cannot read must not end the check of the others.
                    Err(error) if is_content_unreadable(&error) => {
                        unreadable.insert(*address);
                    }
                    Err(error) => return Err(error),
                }
                contents.insert(*address);
            }
            match addresses.last() {
                Some(last) => after = Some(*last),
                None => break,
            }
        }
        if !contents.is_empty() {
            for list in database.read(|session| session.contents().part_lists())? {
                let parts = content.list_parts(database, list).await.unwrap_or_default();
                let lost: Vec<_> = parts.iter().filter(|part| contents.contains(*part)).collect();
                // The report on the file then names the power failure as the likely cause.
                if lost.iter().any(|part| unsynced.contains(*part)) {
                    unsynced.insert(list);
                }
                if !lost.is_empty() {
                    contents.insert(list);
                }
            }
        }
        Ok(ContentDamage {
            contents,
            unreadable,
            unsynced,
        })
    }
}

impl ContentDamage {
    fn describe_damage(&self, address: PieceAddress) -> &'static str {
        match () {
            () if self.unreadable.contains(&address) => "cannot be read: check its file in `blobs` and the disk",
            () if self.unsynced.contains(&address) => {
                "is damaged or lost: it was written under relaxed durability, and may have been lost in a power failure"
            }
            () => "is damaged or lost",
        }
    }
}

/// Reports the rows that refer to a missing workspace or to missing content.
fn check_rows(session: MetadataSession<'_>) -> Result<Vec<CheckProblem>> {
    let mut problems = Vec::new();
    let strays = session.repair().stray_rows()?;
    if strays > 0 {
        problems.push(CheckProblem::of_depot(format!(
            "{strays} rows belong to workspaces that do not exist"
        )));
    }
    for address in session.repair().dangling_unsynced()? {
        let what = format!(
            "{} is listed as unsynced, but is missing from the home",
            address.to_hex()
        );
        problems.push(CheckProblem::of_depot(what));
    }
    Ok(problems)
}

/// Returns whether every fork in the lineage of a workspace is a point of an older workspace.
pub(crate) fn has_sound_lineage(session: MetadataSession<'_>, workspace: i64) -> Result<bool> {
    match lineage_of(session, LineageLevel { workspace, at: HEAD }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks that the journal has no gap and ends at the head, and that the fork and the snapshots are points that exist.
fn check_journal(session: MetadataSession<'_>, listed: &WorkspaceRow) -> Result<Vec<CheckProblem>> {
    let mut problems = Vec::new();
    // Read again: `listed` comes from an earlier transaction, and others may have added changes since.
    let Some(row) = &session.workspaces().workspace(listed.id)? else {
        return Ok(problems);
    };
    let (count, newest) = session.changes().change_count(row.id)?;
    let oldest = session.retention().journal_start(row.id)?.seq;
    if (count, newest.max(oldest)) != (row.head - oldest, row.head) {
        let what = format!(
            "its journal has {count} changes up to change {newest}, but should have {}",
            row.head
        );
        problems.push(CheckProblem::of_workspace(row, what));
    }
    if let Some(fork) = row.fork {
        let parent = session.workspaces().workspace(fork.workspace)?;
        if parent.is_none_or(|parent| parent.head < fork.at) {
            problems.push(CheckProblem::of_workspace(
                row,
                "it was branched off a point that does not exist",
            ));
        } else if !has_sound_lineage(session, row.id)? {
            problems.push(CheckProblem::of_workspace(row, "its parent is not an older workspace"));
        }
    }
    for label in session.repair().dangling_snapshots(row.id)? {
        problems.push(CheckProblem::of_workspace(
            row,
            format!("its snapshot `{label}` names a point that does not exist"),
        ));
    }
    for (path, seq) in session.entries().wrongly_listed_entries(row.id)? {
        let problem = CheckProblem::of_workspace(row, "the change that created it does not list it");
        problems.push(problem.with_path(&path).with_change(seq));
    }
    for seq in session.repair().wrongly_undone(row.id)? {
        let problem = CheckProblem::of_workspace(row, "it is marked as undone by a change that does not exist");
        problems.push(problem.with_change(seq));
    }
    Ok(problems)
}

type CheckPageKey = (Vec<u8>, i64);

struct EntryCheckPage {
    problems: Vec<CheckProblem>,
    count: u64,
    next: Option<CheckPageKey>,
}

/// Checks a page of entries; returns the faults and the key to continue from.
fn check_entries(
    session: MetadataSession<'_>,
    row: &WorkspaceRow,
    damage: &ContentDamage,
    after: &CheckPageKey,
) -> Result<EntryCheckPage> {
    let head = LineageLevel {
        workspace: row.id,
        at: HEAD,
    };
    // Read in the same transaction as the entries: a change that is made meanwhile would else look like one after the
    // head.
    let newest = session.workspaces().workspace(row.id)?.map_or(row.head, |row| row.head);
    let tree = DepotTree::at_point(session, head)?;
    let entries = session.entries().rows_after(row.id, (&after.0, after.1), PAGE)?;
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let next = entries.get(index + 1).filter(|next| next.path == entry.path);
        let faults = [
            check_times(entry, next, newest),
            check_content(session, entry, damage)?,
            check_directory(&tree, entry)?,
        ];
        let named = |what| {
            CheckProblem::of_workspace(row, what)
                .with_path(&entry.path)
                .with_change(entry.since)
        };
        problems.extend(faults.into_iter().flatten().map(named));
    }
    // The last row is checked again with the next page, which has the row after it.
    let next = match entries.as_slice() {
        [.., before, _] if entries.len() == PAGE => Some((before.path.clone(), before.since)),
        _ => None,
    };
    let count = entries.len() as u64 - u64::from(next.is_some());
    Ok(EntryCheckPage { problems, count, next })
}

fn check_times(entry: &EntryRow, next: Option<&EntryRow>, head: i64) -> Option<String> {
    let is_after_head = entry.since > head || (entry.until > head && entry.until != i64::MAX);
    let overlaps = next.is_some_and(|next| next.since < entry.until);
    (entry.since >= entry.until || is_after_head || overlaps).then(|| {
        format!(
            "its row from {} until {} does not match the journal",
            entry.since, entry.until
        )
    })
}

fn check_content(session: MetadataSession<'_>, entry: &EntryRow, damage: &ContentDamage) -> Result<Option<String>> {
    let LevelEntry::Node(node) = &entry.held else {
        return Ok(None);
    };
    if node.kind != EntryKind::File {
        return Ok(None);
    }
    let Some(address) = node.content else {
        return Ok(Some("it is a file without content".to_owned()));
    };
    let size = session.contents().content_size(address)?;
    Ok(match size {
        None => Some("its content is missing".to_owned()),
        Some(size) if size != node.size => Some(format!("its content has {size} bytes, not {}", node.size)),
        Some(_) if damage.contents.contains(&address) => {
            Some(format!("its content {}", damage.describe_damage(address)))
        }
        Some(_) => None,
    })
}

/// Checks that an entry of the newest state has a directory above it.
fn check_directory(tree: &DepotTree<'_>, entry: &EntryRow) -> Result<Option<String>> {
    let is_live = entry.until == i64::MAX && matches!(entry.held, LevelEntry::Node(_));
    let slash = entry.path.iter().rposition(|byte| *byte == b'/');
    let (true, Some(slash)) = (is_live, slash) else {
        return Ok(None);
    };
    let above = tree.node(&entry.path[..slash])?;
    let is_fine = above.is_some_and(|above| above.kind == EntryKind::Directory);
    Ok((!is_fine).then(|| "it is not in a directory".to_owned()))
}

/// Returns a note that names the parts of the home which users other than its owner may access.
fn exposure_note(home: &Path) -> Option<String> {
    let exposed = home_permissions::exposed_files(home);
    let shown: Vec<_> = exposed
        .iter()
        .map(|(name, mode)| format!("`{name}` ({mode:04o})"))
        .collect();
    (!shown.is_empty()).then(|| {
        format!(
            "other users of this machine can access the home, which also holds deleted files: {}; `chmod -R go=` on the home removes their access",
            shown.join(", ")
        )
    })
}

impl CheckProblem {
    pub(crate) fn of_depot(what: impl Into<String>) -> Self {
        Self {
            workspace: None,
            path: None,
            change: None,
            what: what.into(),
        }
    }

    pub(crate) fn of_workspace(row: &WorkspaceRow, what: impl Into<String>) -> Self {
        Self {
            workspace: Some(row.uid.clone()),
            ..Self::of_depot(what)
        }
    }

    pub(crate) fn with_path(mut self, path: &[u8]) -> Self {
        self.path = Some(EntryPath::from_bytes(path.to_vec()));
        self
    }

    pub(crate) fn with_change(mut self, change: i64) -> Self {
        self.change = Some(change.unsigned_abs());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::executor::block_on;
    use garret_core::{Batch, HistoryMode, Mutation, OpenContext, RandomIds, Storage, SystemClock, WsPath};

    use super::*;
    use crate::depot::NewWorkspace;
    use crate::options::DepotOptions;

    #[test]
    fn a_change_made_since_the_workspaces_were_listed_is_no_problem() {
        let context = OpenContext {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            history: HistoryMode::Durable,
        };
        let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
        let room = block_on(depot.create(NewWorkspace::named("box"))).unwrap();
        let database = &depot.shared.database;
        let listed = database.read(|session| session.workspaces().list_workspaces()).unwrap();
        let made = Mutation::MakeDir {
            path: WsPath::parse("d").unwrap(),
            parents: false,
        };
        block_on(room.apply(Batch::from(made))).unwrap();
        let problems = database.read(|session| check_journal(session, &listed[0])).unwrap();
        assert_eq!(problems, []);
    }
}
