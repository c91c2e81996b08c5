//! Checks a branch out into a directory, as a workspace whose files live there and that can be merged back.

use std::sync::Arc;

use garret_core::{Batch, Durability, Error, ErrorKind, Follow, ListOptions, OpenedStorage, Result, WsPath};
use garret_depot::outside_files::OutsideWorkspace;
use garret_depot::{DepotWorkspace, LazyDepot};

use crate::Journaled;
use crate::materialize::PathGoal;

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
        let room = journaled.room.get_or_init(|| room);
        journaled
            .begin_write_session()
            .await?
            .write_workspace_files(room, config.to_string())
            .await?;
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

impl crate::write_session::WriteSession<'_> {
    /// Writes every file of the workspace into the storage, and records that the files live there.
    async fn write_workspace_files(&mut self, room: &OutsideWorkspace, config: String) -> Result<()> {
        let goals: Vec<_> = room.all_images()?.iter().map(PathGoal::forward).collect();
        // Written in slices, so that a large branch is not one batch in memory.
        let mut made = Vec::new();
        for slice in goals.chunks(500) {
            let batch = Batch {
                follow: Follow::Never,
                ..self.build_goal_batch(slice).await?
            };
            self.apply_with_owner_bits(batch).await?;
            self.files.materialize_raw(slice).await?;
            made.extend(slice.iter().map(|goal| goal.path.clone()));
        }
        let seen = self.files.observe_entries(made).await?;
        self.state.knowledge.set_observed(&seen);
        let site = self.files.journaled.site.clone();
        room.move_to_site(site, config, seen).await
    }
}
