//! What relaxed changes may have left when the power was lost: rows that are there and blobs that are not.
//!
//! Such a change is taken back whole, and those after it in its workspace with it, so that what remains is a state that once was. None of
//! them was promised to be durable: a durable change syncs every listed blob before it is committed.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{Durability, Result};

use crate::content::{Address, ContentStore};
use crate::depot::Depot;
use crate::error::is_unreadable;
use crate::journaled::named_by_logs;
use crate::metadata::Session;

impl Depot {
    /// Verifies what is listed as unsynced and makes it durable; takes back the changes whose content is lost.
    pub(crate) async fn settle(&self) -> Result<()> {
        let shared = self.shared.clone();
        let listed = shared.database.read(|session| session.unsynced())?;
        if listed.is_empty() {
            return Ok(());
        }
        let mut doubtful = Vec::new();
        for address in listed {
            match shared.content.verify(&shared.database, address).await {
                Ok(None) => {}
                Ok(Some(_)) => doubtful.push(address),
                // It is there, and not lost: whoever wants it is told.
                Err(error) if is_unreadable(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let logged = match &shared.home {
            Some(home) => named_by_logs(home)?.into_iter().collect(),
            None => BTreeSet::new(),
        };
        // The commit of a durable job syncs the others.
        let settle = move |session: Session<'_>| take_back(session, &shared.content, &doubtful, &logged);
        self.shared.writer.write(Durability::Full, settle).await
    }
}

/// Takes back every change that names what is lost of `doubtful`. Looked at again here, since another process may have swept it meanwhile.
/// What a log names stays known, though lost: whoever settles that log rolls its change back, and must be able to tell what it was.
fn take_back(
    session: Session<'_>,
    content: &ContentStore,
    doubtful: &[Address],
    logged: &BTreeSet<Address>,
) -> Result<()> {
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
    let mut forgotten = lost.into_iter().filter(|address| !logged.contains(address));
    forgotten.try_for_each(|address| session.forget_content(address))
}

/// The pieces that are lost, and the lists that a lost part leaves incomplete.
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

/// Takes back the change `from` and all later ones of a workspace. What was branched off there goes with them, and so does a branch that
/// began with what is lost.
fn take_back_from(session: Session<'_>, workspace: i64, from: i64) -> Result<()> {
    for branch in session.branches_from(workspace, from)? {
        take_back_from(session, branch, 0)?;
    }
    match from {
        0 => session.remove_workspace(workspace),
        _ => session.roll_back(workspace, from),
    }
}
