//! Recovery after a power failure: relaxed changes may have left rows whose blobs are lost.
//!
//! Such a change is rolled back as a whole, together with the later changes of its workspace, so that the workspace is
//! in a state that existed before. None of them was promised to be durable: a durable change syncs every listed blob
//! before it commits.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{Durability, Result};

use crate::content::{Address, ContentStore};
use crate::depot::Depot;
use crate::error::is_unreadable;
use crate::journaled::named_by_logs;
use crate::metadata::Session;

impl Depot {
    /// Verifies the blobs that are listed as unsynced and makes them durable; rolls back the changes whose content is
    /// lost.
    pub(crate) async fn settle(&self) -> Result<()> {
        let shared = self.shared.clone();
        let listed = shared.database.read(|session| session.unsynced())?;
        if listed.is_empty() {
            return Ok(());
        }
        let mut doubtful = Vec::new();
        // Verified outside the transaction, since it may take long; only the doubtful addresses are verified again
        // inside.
        for address in listed {
            match shared.content.verify(&shared.database, address).await {
                Ok(None) => {}
                Ok(Some(_)) => doubtful.push(address),
                // The blob exists and is not lost: a read of it reports the failing disk.
                Err(error) if is_unreadable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let logged = match &shared.home {
            Some(home) => named_by_logs(home)?.into_iter().collect(),
            None => BTreeSet::new(),
        };
        // The commit of a durable job syncs the listed blobs that are sound.
        let settle = move |session: Session<'_>| take_back(session, &shared.content, &doubtful, &logged);
        self.shared.writer.write(Durability::Full, settle).await
    }
}

/// Rolls back every change that refers to lost content of `doubtful`.
fn take_back(
    session: Session<'_>,
    content: &ContentStore,
    doubtful: &[Address],
    logged: &BTreeSet<Address>,
) -> Result<()> {
    // Verified again in this transaction: another process may have swept the content meanwhile.
    let lost = lost_of(session, content, doubtful)?;
    let mut first: BTreeMap<i64, i64> = BTreeMap::new();
    for address in &lost {
        for (workspace, since) in session.first_naming(*address)? {
            let known = first.entry(workspace).or_insert(since);
            *known = since.min(*known);
        }
    }
    for (workspace, from) in first {
        take_back_from(session, workspace, from)?;
    }
    // Rows that a log refers to stay: the recovery of that log rolls its change back, and needs to know the content it
    // had.
    let mut forgotten = lost.into_iter().filter(|address| !logged.contains(address));
    forgotten.try_for_each(|address| session.forget_content(address))
}

/// Returns the addresses of `doubtful` that are lost, and of the lists that a lost part makes incomplete.
fn lost_of(session: Session<'_>, content: &ContentStore, doubtful: &[Address]) -> Result<BTreeSet<Address>> {
    let mut lost = BTreeSet::new();
    for address in doubtful {
        if session.is_unsynced(*address)? && !content.is_whole(session, *address)? {
            lost.insert(*address);
        }
    }
    if lost.is_empty() {
        return Ok(lost);
    }
    for list in session.lists()? {
        if content.parts_in(session, list)?.iter().any(|part| lost.contains(part)) {
            lost.insert(list);
        }
    }
    Ok(lost)
}

/// Rolls back the change `from` of a workspace and all later ones, and removes the workspaces that were branched off
/// them. A `from` of 0 removes the workspace itself: it is a branch that began with lost content.
fn take_back_from(session: Session<'_>, workspace: i64, from: i64) -> Result<()> {
    for branch in session.branches_from(workspace, from)? {
        take_back_from(session, branch, 0)?;
    }
    match from {
        0 => session.remove_workspace(workspace),
        _ => session.roll_back(workspace, from),
    }
}
