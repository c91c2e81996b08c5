//! Settling what a crash left: an intent that is open and belongs to nobody.
//!
//! Each of its paths is as it was before, or as it should be after, or neither. It is rolled forward: what is still as before becomes
//! as after. Where content that this needs is lost, it is rolled back. What is neither was changed by others, is left alone, and is
//! recorded as theirs.

use garret_core::{EntryKind, Follow, Image, PathChange, ReadOptions, Result, Stat, WsPath};

use super::bring::{Goal, content_of, is_held};
use super::ingest::{Ready, foreseen, ingest};
use super::look::Concern;
use super::operate::Planned;
use super::record::{Intent, Work};
use super::turn::Turn;

/// How a path stands to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Before,
    After,
    Neither,
}

impl Turn<'_> {
    /// Settles `intent`. The log is in the journal by now, except for it.
    pub(super) async fn settle(&mut self, intent: Intent) -> Result<()> {
        let planned = match &intent.work {
            Work::Batch { follow, steps } => foreseen(self.room, steps.clone(), *follow).await,
            Work::Operation(operation) => match self.plan(operation).await {
                Ok(Planned::Paths(paths)) => Ok(paths),
                Ok(Planned::Nothing | Planned::Clashed(_)) => return self.give_up(&intent).await,
                Err(error) => Err(error),
            },
        };
        let paths = match planned {
            Ok(paths) => paths,
            Err(error) if error.kind() == garret_core::ErrorKind::Unavailable => return Err(error),
            // The tree refuses it, as the storage did or would have: nothing was touched.
            Err(_) => return self.give_up(&intent).await,
        };
        let mut standings = Vec::with_capacity(paths.len());
        for change in &paths {
            standings.push(self.standing(change).await?);
        }
        match self.can_go_forward(&paths, &standings).await? {
            true => self.roll_forward(intent, &paths, &standings).await,
            false => self.roll_back(intent, &paths, &standings).await,
        }
    }

    async fn give_up(&mut self, intent: &Intent) -> Result<()> {
        let (number, id) = (self.room.number, intent.id as i64);
        let shared = self.room.shared();
        let forget = move |session: crate::metadata::Session<'_>| session.set_ingested(number, id);
        shared.writer.write(self.journaled.durability, forget).await
    }

    async fn can_go_forward(&self, paths: &[PathChange], standings: &[Standing]) -> Result<bool> {
        for (change, standing) in paths.iter().zip(standings) {
            if *standing == Standing::Before && !is_held(self.room, change.after.as_ref()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn roll_forward(&mut self, intent: Intent, paths: &[PathChange], standings: &[Standing]) -> Result<()> {
        self.bring(paths, standings, Standing::Before, Goal::forward).await?;
        let touched = paths.iter().filter_map(|change| change.path.as_path().cloned());
        let seen = self.seen(touched.collect::<Vec<_>>()).await?;
        match intent.work {
            Work::Batch { .. } => {
                ingest(self.room, vec![Ready::Made(intent, strictly(seen, paths, standings))]).await?
            }
            Work::Operation(operation) => self.conclude(intent.id, operation, intent.by, seen).await?,
        }
        self.look_at_strangers(paths, standings).await
    }

    async fn roll_back(&mut self, intent: Intent, paths: &[PathChange], standings: &[Standing]) -> Result<()> {
        self.bring(paths, standings, Standing::After, Goal::back).await?;
        self.give_up(&intent).await?;
        self.state.knowledge.clear();
        let concerns = paths.iter().filter_map(|change| change.path.as_path().cloned());
        let concerns: Vec<_> = concerns.map(|path| Concern { path, is_deep: false }).collect();
        self.look_at(&concerns).await
    }

    /// Moves the paths that stand at `at`.
    async fn bring(
        &mut self,
        paths: &[PathChange],
        standings: &[Standing],
        at: Standing,
        goal: fn(&PathChange) -> Option<Goal>,
    ) -> Result<()> {
        let wanted = paths.iter().zip(standings).filter(|(_, standing)| **standing == at);
        let goals: Vec<_> = wanted.filter_map(|(change, _)| goal(change)).collect();
        if goals.is_empty() {
            return Ok(());
        }
        // What is known is the state before; the storage may be anywhere, so nothing is bound to it.
        self.state.knowledge.clear();
        let mut batch = self.bringing(&goals).await?;
        batch.mutations.iter_mut().for_each(unbind);
        self.journaled.files.apply(batch).await.map(|_| ())
    }

    /// Records what others made of the paths that were left alone.
    async fn look_at_strangers(&mut self, paths: &[PathChange], standings: &[Standing]) -> Result<()> {
        self.state.knowledge.clear();
        let strangers = paths
            .iter()
            .zip(standings)
            .filter(|(_, standing)| **standing == Standing::Neither);
        let concerns: Vec<_> = strangers
            .filter_map(|(change, _)| change.path.as_path().cloned())
            .map(|path| Concern { path, is_deep: false })
            .collect();
        self.look_at(&concerns).await
    }

    async fn standing(&self, change: &PathChange) -> Result<Standing> {
        let Some(path) = change.path.as_path() else {
            return Ok(Standing::Neither);
        };
        let stat = self.stat(path).await?;
        if self
            .matches(path, stat.as_ref(), change.after.as_ref(), change.before.as_ref())
            .await?
        {
            return Ok(Standing::After);
        }
        if self
            .matches(path, stat.as_ref(), change.before.as_ref(), change.after.as_ref())
            .await?
        {
            return Ok(Standing::Before);
        }
        match self.is_cut_append(path, stat.as_ref(), change).await? {
            true => Ok(Standing::Before),
            false => Ok(Standing::Neither),
        }
    }

    /// Whether the storage has `image` at `path`. The mode counts only where it is all that `other` differs in, since the system has
    /// its say in the modes of what is made.
    async fn matches(
        &self,
        path: &WsPath,
        stat: Option<&Stat>,
        image: Option<&Image>,
        other: Option<&Image>,
    ) -> Result<bool> {
        let (Some(stat), Some(image)) = (stat, image) else {
            return Ok(stat.is_none() && image.is_none());
        };
        if stat.kind != image.kind {
            return Ok(false);
        }
        let is_about_mode = other.is_some_and(|other| {
            (other.kind, other.content, &other.target) == (image.kind, image.content, &image.target)
        });
        if is_about_mode && stat.mode.is_some_and(|mode| mode != image.mode) {
            return Ok(false);
        }
        match image.kind {
            EntryKind::Symlink => Ok(stat.target == image.target),
            EntryKind::File if stat.size != image.size => Ok(false),
            EntryKind::File => self.has_content(path, image).await,
            _ => Ok(true),
        }
    }

    async fn has_content(&self, path: &WsPath, image: &Image) -> Result<bool> {
        let found = self.journaled.files.read(path, never_following()).await;
        let shared = self.room.shared();
        let Ok(found) = found else { return Ok(false) };
        let address = shared.content.address_of(&found.bytes);
        Ok(image.content.is_some_and(|content| content.0 == address.0))
    }

    /// Whether the file is what it was and a first part of what was appended.
    async fn is_cut_append(&self, path: &WsPath, stat: Option<&Stat>, change: &PathChange) -> Result<bool> {
        let (Some(stat), Some(before), Some(after)) = (stat, &change.before, &change.after) else {
            return Ok(false);
        };
        let is_between = before.size < stat.size && stat.size < after.size;
        if !is_between || before.kind != EntryKind::File || stat.kind != EntryKind::File {
            return Ok(false);
        }
        let (Ok(whole), Ok(found)) = (
            content_of(self.room, after).await,
            self.journaled.files.read(path, never_following()).await,
        ) else {
            return Ok(false);
        };
        Ok(whole.starts_with(&found.bytes))
    }
}

/// What is seen of paths that were left alone says nothing of the change.
fn strictly(seen: Vec<super::record::Seen>, paths: &[PathChange], standings: &[Standing]) -> Vec<super::record::Seen> {
    let is_strange = |path: &[u8]| {
        let mut both = paths.iter().zip(standings);
        both.any(|(change, standing)| change.path.as_bytes() == path && *standing == Standing::Neither)
    };
    seen.into_iter().filter(|seen| !is_strange(&seen.path)).collect()
}

fn unbind(mutation: &mut garret_core::Mutation) {
    use garret_core::{Mutation, Precondition};
    if let Mutation::Write { precondition, .. } | Mutation::Remove { precondition, .. } = mutation {
        *precondition = Precondition::Any;
    }
}

fn never_following() -> ReadOptions {
    ReadOptions {
        follow: Follow::Never,
        ..ReadOptions::default()
    }
}
