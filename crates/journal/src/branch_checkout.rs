//! Checks a branch out into a directory, as a workspace whose files live there and that can be merged back.

use std::sync::Arc;

use garret_core::{Durability, Error, ErrorKind, ListOptions, OpenedStorage, Result, WsPath};
use garret_depot::outside_files::OutsideWorkspace;
use garret_depot::{DepotWorkspace, LazyDepot};

use crate::Journaled;
use crate::compare::StorageComparer;
use crate::materialize::{PathGoal, build_goal_batch};
use crate::owner_bits::apply_with_owner_bits;
use crate::raw_names::materialize_raw_names;

impl Journaled {
    /// Moves `workspace`, whose files live in the depot, into the empty directory that `opened` is. From then on the
    /// files live in that directory, with the same name, history and lineage, and `config` opens them. A directory that
    /// is not empty is `not_empty`. Until every file is in place, the workspace is unchanged: an interruption leaves
    /// some files in a directory that belongs to no workspace.
    pub async fn move_out(
        workspace: &DepotWorkspace,
        opened: OpenedStorage,
        depot: Arc<LazyDepot>,
        durability: Durability,
        config: &serde_json::Value,
    ) -> Result<Arc<Self>> {
        check_empty(&opened).await?;
        // A branch inherits entries from other levels; the journal reads only the rows of its own workspace.
        workspace.flatten().await?;
        let journaled = Self::open(opened, depot, durability).await?;
        let room = OutsideWorkspace::from(workspace.clone().with_durability(durability));
        room.check_unclaimed(&journaled.site)?;
        let _ = journaled.room.set(room);
        let mut session = journaled.begin_write_session().await?;
        write_workspace_files(&mut session.comparer, config.to_string()).await?;
        drop(session);
        Ok(journaled)
    }
}

/// Refuses a directory that is not empty, and a storage that does not outlive the program.
async fn check_empty(opened: &OpenedStorage) -> Result<()> {
    let list = ListOptions {
        limit: 1,
        ..ListOptions::default()
    };
    if !opened.storage.list(&WsPath::root(), list).await?.entries.is_empty() {
        return Err(Error::not_empty(&WsPath::root()).hint("check the branch out to an empty directory"));
    }
    match opened.location_id {
        Some(_) => Ok(()),
        None => Err(Error::new(
            ErrorKind::Unsupported,
            "these files do not outlive the program",
        )),
    }
}

/// Writes every file of the workspace into the storage, and records that the files live there.
async fn write_workspace_files(comparer: &mut StorageComparer<'_>, config: String) -> Result<()> {
    let room = comparer.files.room;
    let goals: Vec<_> = room.all_images()?.iter().map(PathGoal::forward).collect();
    // Written in slices, so that a large branch is not one batch in memory.
    for slice in goals.chunks(500) {
        let batch = build_goal_batch(comparer, slice).await?;
        apply_with_owner_bits(comparer, batch).await?;
        materialize_raw_names(comparer.files, slice).await?;
    }
    let made = goals.into_iter().map(|goal| goal.path).collect();
    let seen = comparer.files.observe_entries(made).await?;
    comparer.records.set_observed(&seen);
    let site = comparer.files.journaled.site.clone();
    room.move_to_site(site, config, seen).await
}
