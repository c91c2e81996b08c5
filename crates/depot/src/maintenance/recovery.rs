//! Recovery after a power failure: relaxed changes may have left rows whose blobs are lost.
//!
//! Such a change is rolled back as a whole, together with the later changes of its workspace, so that the workspace is
//! in a state that existed before. None of them was promised to be durable: a durable change syncs every listed blob
//! before it commits.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{Durability, Result};

use crate::content::{ContentStore, PieceAddress};
use crate::depot::Depot;
use crate::error::is_content_unreadable;
use crate::metadata::MetadataSession;
use crate::outside_files::addresses_in_logs;

impl Depot {
    /// Verifies the blobs that are listed as unsynced and makes them durable; rolls back the changes whose content is
    /// lost.
    pub(crate) async fn recover_unsynced(&self) -> Result<()> {
        let shared = self.shared.clone();
        let listed = shared.database.read(|session| session.contents().unsynced_blobs())?;
        if listed.is_empty() {
            return Ok(());
        }
        let mut doubtful = Vec::new();
        // Verified outside the transaction, since it may take long; only the doubtful addresses are verified again
        // inside.
        for address in listed {
            match shared.content.verify_piece(&shared.database, address).await {
                Ok(None) => {}
                Ok(Some(_)) => doubtful.push(address),
                // The blob exists and is not lost: a read of it reports the failing disk.
                Err(error) if is_content_unreadable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let logged = match &shared.home {
            Some(home) => addresses_in_logs(home)?.into_iter().collect(),
            None => BTreeSet::new(),
        };
        // The commit of a durable job syncs the listed blobs that are sound.
        let settle = move |session: MetadataSession<'_>| roll_back_lost(session, &shared.content, &doubtful, &logged);
        self.shared.writer.write(Durability::Full, settle).await
    }
}

/// Rolls back every change that refers to lost content of `doubtful`.
fn roll_back_lost(
    session: MetadataSession<'_>,
    content: &ContentStore,
    doubtful: &[PieceAddress],
    logged: &BTreeSet<PieceAddress>,
) -> Result<()> {
    // Verified again in this transaction: another process may have swept the content meanwhile.
    let lost = find_lost(session, content, doubtful)?;
    let mut first: BTreeMap<i64, i64> = BTreeMap::new();
    for address in &lost {
        for (workspace, since) in session.rollback().first_references(*address)? {
            let known = first.entry(workspace).or_insert(since);
            *known = since.min(*known);
        }
    }
    for (workspace, from) in first {
        roll_back_from(session, workspace, from)?;
    }
    // Rows that a log refers to stay: the recovery of that log rolls its change back, and needs to know the content it
    // had.
    let mut forgotten = lost.into_iter().filter(|address| !logged.contains(address));
    forgotten.try_for_each(|address| session.rollback().remove_content_row(address))
}

/// Returns the addresses of `doubtful` that are lost, and of the lists that a lost part makes incomplete.
fn find_lost(
    session: MetadataSession<'_>,
    content: &ContentStore,
    doubtful: &[PieceAddress],
) -> Result<BTreeSet<PieceAddress>> {
    let mut lost = BTreeSet::new();
    for address in doubtful {
        if session.contents().is_unsynced(*address)? && !content.is_piece_sound(session, *address)? {
            lost.insert(*address);
        }
    }
    if lost.is_empty() {
        return Ok(lost);
    }
    for list in session.contents().part_lists()? {
        if content
            .list_parts_in(session, list)?
            .iter()
            .any(|part| lost.contains(part))
        {
            lost.insert(list);
        }
    }
    Ok(lost)
}

/// Rolls back the change `from` of a workspace and all later ones, and removes the workspaces that were branched off
/// them. A `from` of 0 removes the workspace itself: it is a branch that began with lost content.
fn roll_back_from(session: MetadataSession<'_>, workspace: i64, from: i64) -> Result<()> {
    for branch in session.rollback().branches_from(workspace, from)? {
        roll_back_from(session, branch, 0)?;
    }
    match from {
        0 => session.workspaces().remove_workspace(workspace),
        _ => session.rollback().roll_back(workspace, from),
    }
}
