//! Looking over a whole depot: every piece of content, every entry, every journal, the lineage.
//!
//! It reads everything and changes nothing. It goes page by page, so that others can work meanwhile.

use std::collections::BTreeSet;

use garret_core::{EntryKind, EntryPath, Result};

use crate::content::Address;
use crate::depot::Depot;
use crate::metadata::{EntryRow, HEAD, Held, Level, Session, WorkspaceRow};
use crate::tree::Tree;

/// Rows looked at in one transaction.
const PAGE: usize = 1_000;

/// Something in a depot that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The id of the workspace, where one is concerned.
    pub workspace: Option<String>,
    /// The path, where one is concerned.
    pub path: Option<EntryPath>,
    /// What is wrong.
    pub what: String,
}

impl Depot {
    /// Looks over everything; gives what is wrong, which is nothing where all is well.
    pub async fn check(&self) -> Result<Vec<Problem>> {
        let database = &self.shared.database;
        let sound = database.read(|session| session.integrity())?;
        let mut problems: Vec<_> = sound
            .into_iter()
            .map(|line| general(format!("the database: {line}")))
            .collect();
        let damaged = self.damaged_content().await?;
        for row in database.read(|session| session.workspaces())? {
            problems.extend(database.read(|session| check_journal(session, &row))?);
            let mut after = (Vec::new(), -1);
            loop {
                let (found, next) = database.read(|session| check_entries(session, &row, &damaged, &after))?;
                problems.extend(found);
                match next {
                    Some(next) => after = next,
                    None => break,
                }
            }
        }
        let shown = |address: &Address| general(format!("the content {} is damaged or lost", address.to_hex()));
        problems.extend(damaged.iter().map(shown));
        Ok(problems)
    }

    async fn damaged_content(&self) -> Result<BTreeSet<Address>> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        let mut damaged = BTreeSet::new();
        let mut after = None;
        loop {
            let addresses = database.read(|session| session.addresses(after, PAGE))?;
            for address in &addresses {
                if content.verify(database, *address).await?.is_some() {
                    damaged.insert(*address);
                }
            }
            match addresses.last() {
                Some(last) => after = Some(*last),
                None => return Ok(damaged),
            }
        }
    }
}

/// The journal has no gap and ends at the head; the fork is a point that exists.
fn check_journal(session: Session<'_>, row: &WorkspaceRow) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let (count, newest) = session.change_count(row.id)?;
    let oldest = session.oldest(row.id)?.seq;
    if (count, newest.max(oldest)) != (row.head - oldest, row.head) {
        problems.push(of(
            row,
            None,
            format!("its journal has {count} changes up to {newest}, not {}", row.head),
        ));
    }
    if let Some(fork) = row.fork {
        let parent = session.workspace(fork.workspace)?;
        if parent.is_none_or(|parent| parent.head < fork.at) {
            problems.push(of(
                row,
                None,
                "it was branched off a point that does not exist".to_owned(),
            ));
        }
    }
    Ok(problems)
}

type Key = (Vec<u8>, i64);

/// A page of entries; gives where to go on.
fn check_entries(
    session: Session<'_>,
    row: &WorkspaceRow,
    damaged: &BTreeSet<Address>,
    after: &Key,
) -> Result<(Vec<Problem>, Option<Key>)> {
    let head = Level {
        workspace: row.id,
        at: HEAD,
    };
    let tree = Tree::at(session, head)?;
    let entries = session.rows_after(row.id, (&after.0, after.1), PAGE)?;
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let next = entries.get(index + 1).filter(|next| next.path == entry.path);
        let faults = [
            check_times(entry, next, row.head),
            check_content(session, entry, damaged)?,
            check_directory(&tree, entry)?,
        ];
        let path = || EntryPath::from_bytes(entry.path.clone());
        problems.extend(faults.into_iter().flatten().map(|what| of(row, Some(path()), what)));
    }
    // The last row is looked at again with the next page, which knows its neighbour.
    let next = match entries.as_slice() {
        [.., before, _] if entries.len() == PAGE => Some((before.path.clone(), before.since)),
        _ => None,
    };
    Ok((problems, next))
}

fn check_times(entry: &EntryRow, next: Option<&EntryRow>, head: i64) -> Option<String> {
    let is_after_head = entry.since > head || (entry.until > head && entry.until != i64::MAX);
    let overlaps = next.is_some_and(|next| next.since < entry.until);
    (entry.since >= entry.until || is_after_head || overlaps).then(|| {
        format!(
            "its row from {} until {} does not fit the journal",
            entry.since, entry.until
        )
    })
}

fn check_content(session: Session<'_>, entry: &EntryRow, damaged: &BTreeSet<Address>) -> Result<Option<String>> {
    let Held::Node(node) = &entry.held else { return Ok(None) };
    if node.kind != EntryKind::File {
        return Ok(None);
    }
    let Some(address) = node.content else {
        return Ok(Some("it is a file without content".to_owned()));
    };
    let size = session.content_size(address)?;
    Ok(match size {
        None => Some("its content is lost".to_owned()),
        Some(size) if size != node.size => Some(format!("its content has {size} bytes, not {}", node.size)),
        Some(_) if damaged.contains(&address) => Some("its content is damaged or lost".to_owned()),
        Some(_) => None,
    })
}

/// What lives has a directory above it.
fn check_directory(tree: &Tree<'_>, entry: &EntryRow) -> Result<Option<String>> {
    let is_live = entry.until == i64::MAX && matches!(entry.held, Held::Node(_));
    let slash = entry.path.iter().rposition(|byte| *byte == b'/');
    let (true, Some(slash)) = (is_live, slash) else {
        return Ok(None);
    };
    let above = tree.node(&entry.path[..slash])?;
    let is_fine = above.is_some_and(|above| above.kind == EntryKind::Directory);
    Ok((!is_fine).then(|| "it is not in a directory".to_owned()))
}

fn general(what: String) -> Problem {
    Problem {
        workspace: None,
        path: None,
        what,
    }
}

fn of(row: &WorkspaceRow, path: Option<EntryPath>, what: String) -> Problem {
    Problem {
        workspace: Some(row.uid.clone()),
        path,
        what,
    }
}
