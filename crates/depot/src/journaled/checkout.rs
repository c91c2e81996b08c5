//! A branch put into a directory, as a workspace whose files live there and that can be merged back.

use std::sync::Arc;

use garret_core::{Batch, Durability, EntryPath, Error, ErrorKind, Follow, ListOptions, Opened, Point, Result, WsPath};

use super::bring::Goal;
use super::{Journaled, LazyDepot};
use crate::depot::NewWorkspace;
use crate::history::image_of;
use crate::tree::Tree;
use crate::workspace::DepotWorkspace;

impl Journaled {
    /// Puts `branch` into the empty directory that `opened` is, and gives it as a workspace of its own that begins where the branch is
    /// now, so that what is done there can be merged back. A directory that is not empty is `not_empty`.
    pub async fn check_out(
        branch: &DepotWorkspace,
        opened: Opened,
        depot: Arc<LazyDepot>,
        durability: Durability,
    ) -> Result<Arc<Self>> {
        let kind = opened.storage.info().kind;
        let place = empty_place(&opened).await?;
        let new = NewWorkspace {
            kind: kind.clone(),
            ..NewWorkspace::unnamed()
        };
        let room = DepotWorkspace::branch(branch, new, &Point::Now).await?;
        Self::settle_in(&room, &place, opened, depot, durability).await
    }

    /// Moves `workspace`, whose files live in the depot, into the empty directory that `opened` is: from then on they live there, with the
    /// same name, history and lineage, and `config` opens them. A directory that is not empty is `not_empty`.
    pub async fn move_out(
        workspace: &DepotWorkspace,
        opened: Opened,
        depot: Arc<LazyDepot>,
        durability: Durability,
        config: &serde_json::Value,
    ) -> Result<Arc<Self>> {
        let kind = opened.storage.info().kind;
        let place = empty_place(&opened).await?;
        let journaled = Self::settle_in(workspace, &place, opened, depot, durability).await?;
        workspace.depot().set_storage(workspace, &kind, config).await?;
        Ok(journaled)
    }

    async fn settle_in(
        room: &DepotWorkspace,
        place: &str,
        opened: Opened,
        depot: Arc<LazyDepot>,
        durability: Durability,
    ) -> Result<Arc<Self>> {
        // Every entry gets a row of its own: the journal looks at no other level.
        room.flatten().await?;
        let kind = opened.storage.info().kind;
        room.depot().set_place(room, &kind, place).await?;
        let journaled = Self::open(opened, depot, durability).await?;
        journaled.turn().await?.fill(room).await?;
        Ok(journaled)
    }
}

/// The place of a directory in which nothing is.
async fn empty_place(opened: &Opened) -> Result<String> {
    let list = ListOptions {
        limit: 1,
        ..ListOptions::default()
    };
    if !opened.storage.list(&WsPath::root(), list).await?.entries.is_empty() {
        return Err(Error::not_empty(&WsPath::root()).hint("check the branch out to an empty directory"));
    }
    let place = opened.place.clone();
    place.ok_or_else(|| Error::new(ErrorKind::Unsupported, "these files do not outlive the program"))
}

impl super::turn::Turn<'_> {
    /// Puts every file of the workspace into the storage.
    async fn fill(&mut self, room: &DepotWorkspace) -> Result<()> {
        let all = room.shared().database.read(|session| {
            let tree = Tree::at(session, room.head())?;
            tree.below(b"").collect()
        })?;
        let goals: Vec<_> = all
            .iter()
            .map(|(path, node)| Goal {
                path: EntryPath::from_bytes(path.clone()),
                from: None,
                to: Some(image_of(node)),
            })
            .collect();
        // In slices, so that a large branch is not one batch; whoever finds half of it finds the rest to be restored.
        let mut made = Vec::new();
        for slice in goals.chunks(500) {
            let batch = Batch {
                follow: Follow::Never,
                ..self.bringing(slice).await?
            };
            self.apply_lending(batch).await?;
            self.bring_raw(slice).await?;
            made.extend(slice.iter().map(|goal| goal.path.clone()));
        }
        let seen = self.seen_entries(made).await?;
        self.state.knowledge.take(&seen);
        let number = room.number;
        let note = move |session: crate::metadata::Session<'_>| {
            super::ingest::note_seen(session, number, &seen)?;
            session.set_whole(number, 0)
        };
        room.shared().writer.write(self.journaled.durability, note).await
    }
}
