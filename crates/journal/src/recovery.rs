//! Recovery: finishes a change that a crash interrupted, that is, an open intent whose process is gone.
//!
//! Each of its paths is in the state before the change, in the state after it, or in neither. The change is rolled
//! forward: paths in the state before get the state after. If content that this needs is lost, the change is rolled
//! back. A path in neither state was changed by other programs; it is left alone and recorded as their change.

use std::collections::HashMap;
use std::io::Read;

use bytes::Bytes;
use garret_core::{
    Content, ContentSource, EntryKind, EntryPath, Follow, History, Mutation, PathChange, PathImage, Result, Stat,
    WsPath,
};
use garret_depot::outside_files::{
    ChangeIntent, CompletedRecord, IntentWork, LoggedStep, ObservedEntry, RecordContent, is_disk_failure,
};

use crate::materialize::PathGoal;
use crate::write_session::{ObservedFiles, WriteSession};

/// The largest number of mutations for which every intermediate state is computed.
const MAX_STAGES: usize = 200;
/// Number of bytes that are compared at a time.
const PIECE_BYTES: usize = 1024 * 1024;

/// The state of a path in relation to a change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStanding {
    Before,
    /// The path is in an intermediate state of the change.
    Between(Option<PathImage>),
    After,
    Neither,
}

impl WriteSession<'_> {
    /// Recovers `intent`. All other records of the log are in the journal by now.
    pub(crate) async fn recover_intent(&mut self, mut intent: ChangeIntent) -> Result<()> {
        if let IntentWork::Operation(operation) = &intent.work {
            match History::plan(self.files.room.history(), operation).await {
                Ok(plan) if plan.clashes.is_empty() => intent.work = IntentWork::Put(plan.puts),
                Err(error) if is_disk_failure(&error) => return Err(error),
                Ok(_) | Err(_) => return self.files.room.discard_intent(intent.id).await,
            }
        }
        let planned = match &intent.work {
            IntentWork::Batch { follow, steps } => self.files.room.plan_steps(steps.clone(), *follow).await,
            IntentWork::Put(puts) => match self.files.room.history().plan_put(puts).await {
                Ok(paths) if paths.is_empty() && puts.reverses.is_empty() => {
                    return self.files.room.discard_intent(intent.id).await;
                }
                planned => planned,
            },
            IntentWork::Operation(_) => return self.files.room.discard_intent(intent.id).await,
        };
        let paths = match planned {
            Ok(paths) => paths,
            Err(error) if is_disk_failure(&error) => return Err(error),
            // The tree refuses the change, as the storage did or would have done: nothing was changed.
            Err(_) => return self.files.room.discard_intent(intent.id).await,
        };
        if let IntentWork::Batch { steps, .. } = &intent.work {
            self.files.store_logged_content(steps, &paths).await?;
        }
        let standings = self.files.classify_paths(&intent.work, &paths).await?;
        if self.files.can_roll_forward(&paths, &standings).await? {
            self.roll_forward(intent, &paths, &standings).await?;
        } else {
            self.roll_back(intent, &paths, &standings).await?;
        }
        self.restore_owner_bits(&paths).await
    }

    /// Reverts the part of a put that was done, and records that it was not done.
    pub(crate) async fn revert_put(&mut self, work: &IntentWork, paths: &[PathChange]) -> Result<()> {
        let standings = self.files.classify_paths(work, paths).await?;
        self.reach_goals(reverting_goals(paths, &standings)).await?;
        self.abort_intent()?;
        self.lock.end_change()
    }

    async fn roll_forward(
        &mut self,
        intent: ChangeIntent,
        paths: &[PathChange],
        standings: &[PathStanding],
    ) -> Result<()> {
        let goals = paths
            .iter()
            .zip(standings)
            .filter_map(|(change, standing)| match standing {
                PathStanding::Before => Some(PathGoal::forward(change)),
                PathStanding::Between(from) => Some(PathGoal {
                    from: from.clone(),
                    ..PathGoal::forward(change)
                }),
                PathStanding::After | PathStanding::Neither => None,
            });
        self.reach_goals(goals.collect()).await?;
        self.files.set_modes(&intent.work, paths, standings).await?;
        let touched = paths.iter().map(|change| change.path.clone()).collect();
        let seen = clear_foreign_states(self.files.observe_entries(touched).await?, paths, standings);
        match intent.work {
            IntentWork::Batch { .. } => self.ingest_completed(vec![CompletedRecord::Made(intent, seen)]).await?,
            IntentWork::Put(puts) => drop(self.files.room.put_intent(intent.id, intent.by, puts, seen).await?),
            IntentWork::Operation(_) => {}
        }
        self.compare_foreign_paths(paths, standings).await
    }

    async fn roll_back(
        &mut self,
        intent: ChangeIntent,
        paths: &[PathChange],
        standings: &[PathStanding],
    ) -> Result<()> {
        self.reach_goals(reverting_goals(paths, standings)).await?;
        self.files.room.discard_intent(intent.id).await?;
        self.state.knowledge.clear();
        let entries: Vec<_> = paths.iter().map(|change| (change.path.clone(), false)).collect();
        self.compare_entries(&entries).await
    }

    /// Changes the storage to reach the goals.
    async fn reach_goals(&mut self, goals: Vec<PathGoal>) -> Result<()> {
        if goals.is_empty() {
            return Ok(());
        }
        // The index holds the state before the change, and the storage may be in any state, so no mutation is bound to
        // a version.
        self.state.knowledge.clear();
        // Raw names go first: the batch removes only recorded entries together with a directory.
        self.files.remove_raw_entries(&goals)?;
        let mut batch = self.build_goal_batch(&goals).await?;
        batch.mutations.iter_mut().for_each(drop_precondition);
        if !batch.mutations.is_empty() {
            self.apply_with_owner_bits(batch).await?;
        }
        self.files.create_raw_entries(&goals).await
    }

    /// Compares the paths that were left alone, and records the changes that other programs made to them.
    async fn compare_foreign_paths(&mut self, paths: &[PathChange], standings: &[PathStanding]) -> Result<()> {
        self.state.knowledge.clear();
        let strangers = paths
            .iter()
            .zip(standings)
            .filter(|(_, standing)| **standing == PathStanding::Neither);
        let entries: Vec<_> = strangers.map(|(change, _)| (change.path.clone(), false)).collect();
        self.compare_entries(&entries).await
    }
}

impl ObservedFiles<'_> {
    async fn classify_paths(&self, work: &IntentWork, paths: &[PathChange]) -> Result<Vec<PathStanding>> {
        let mut standings = Vec::with_capacity(paths.len());
        for change in paths {
            let standing = match self.classify_path(change).await? {
                PathStanding::Neither => self.find_intermediate_state(work, change).await?,
                standing => standing,
            };
            standings.push(standing);
        }
        Ok(standings)
    }

    /// Stores the content that the record itself holds in the depot, because the images refer to it there: written
    /// content, and appended content together with the content before it.
    async fn store_logged_content(&self, steps: &[LoggedStep], paths: &[PathChange]) -> Result<()> {
        let mut contents: HashMap<&WsPath, Content> = HashMap::new();
        for step in steps {
            match (&step.mutation, &step.content) {
                (Mutation::Write { path, .. }, Some(RecordContent::Inline(bytes))) => {
                    contents.insert(path, bytes.clone().into());
                }
                (Mutation::Append { path, content, .. }, _) => {
                    let is_it = |change: &&PathChange| change.path.as_path() == Some(path);
                    let before = paths.iter().find(is_it).and_then(|change| change.before.as_ref());
                    let start = match (contents.remove(path), before) {
                        (Some(start), _) => start,
                        (None, Some(image)) if image.kind == EntryKind::File => {
                            self.room.load_image_content(image).await?
                        }
                        (None, _) => Content::default(),
                    };
                    contents.insert(path, join_content(start, content.clone()));
                }
                _ => {}
            }
        }
        for content in contents.into_values() {
            self.store_content(content).await?;
        }
        Ok(())
    }

    async fn can_roll_forward(&self, paths: &[PathChange], standings: &[PathStanding]) -> Result<bool> {
        for (change, standing) in paths.iter().zip(standings) {
            if matches!(standing, PathStanding::Before | PathStanding::Between(_))
                && !self.room.has_image_content(change.after.as_ref()).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets the mode of created entries if the crash came between the two steps and the work asked for that mode.
    async fn set_modes(&self, work: &IntentWork, paths: &[PathChange], standings: &[PathStanding]) -> Result<()> {
        let made = paths
            .iter()
            .zip(standings)
            .filter(|(_, standing)| **standing == PathStanding::After);
        let mut mutations = Vec::new();
        for (change, _) in made {
            let (Some(path), Some(image)) = (change.path.as_path(), &change.after) else {
                continue;
            };
            let stat = self.stat(path).await?;
            let has_other = stat.is_some_and(|stat| stat.mode.is_some_and(|mode| mode != image.mode));
            if has_other && asks_for_mode(work, path, image.mode) {
                let (path, mode) = (path.clone(), image.mode);
                mutations.push(Mutation::SetMode { path, mode });
            }
        }
        if mutations.is_empty() {
            return Ok(());
        }
        let follow = Follow::Never;
        let batch = garret_core::Batch {
            mutations,
            follow,
            ..garret_core::Batch::default()
        };
        self.journaled.files.apply(batch).await.map(|_| ())
    }

    async fn classify_path(&self, change: &PathChange) -> Result<PathStanding> {
        let path = &change.path;
        let stat = self.stat_entry(path).await?;
        if self
            .matches_image(path, stat.as_ref(), change.after.as_ref(), change.before.as_ref())
            .await?
        {
            return Ok(PathStanding::After);
        }
        if self
            .matches_image(path, stat.as_ref(), change.before.as_ref(), change.after.as_ref())
            .await?
        {
            return Ok(PathStanding::Before);
        }
        if self.is_cut_append(path, stat.as_ref(), change).await? {
            Ok(PathStanding::Before)
        } else {
            Ok(PathStanding::Neither)
        }
    }

    /// Returns the intermediate state that a path is in.
    async fn find_intermediate_state(&self, work: &IntentWork, change: &PathChange) -> Result<PathStanding> {
        let path = &change.path;
        let stat = self.stat_entry(path).await?;
        let IntentWork::Batch { follow, steps } = work else {
            // An operation of the history removes an entry before it creates it anew, so the path is empty in between.
            let kinds = (
                change.before.as_ref().map(|image| image.kind),
                change.after.as_ref().map(|image| image.kind),
            );
            let is_remade = kinds.0 != kinds.1 || kinds.1 == Some(EntryKind::Symlink);
            return Ok(if stat.is_none() && is_remade {
                PathStanding::Between(None)
            } else {
                PathStanding::Neither
            });
        };
        for count in 1..steps.len().min(MAX_STAGES) {
            let Ok(stage) = self.room.plan_steps(steps[..count].to_vec(), *follow).await else {
                continue;
            };
            let Some(reached) = stage.iter().find(|reached| reached.path == change.path) else {
                continue;
            };
            if self
                .matches_image(path, stat.as_ref(), reached.after.as_ref(), None)
                .await?
            {
                return Ok(PathStanding::Between(reached.after.clone()));
            }
        }
        Ok(PathStanding::Neither)
    }

    /// Returns whether the storage has `image` at `path`. The mode is compared only if `other` differs in nothing else,
    /// because the system influences the modes of new entries.
    async fn matches_image(
        &self,
        path: &EntryPath,
        stat: Option<&Stat>,
        image: Option<&PathImage>,
        other: Option<&PathImage>,
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

    async fn has_content(&self, path: &EntryPath, image: &PathImage) -> Result<bool> {
        let Ok(found) = self.load_content(path, image.size).await else {
            return Ok(false);
        };
        let address = self.room.address_of_content(&found);
        Ok(address.is_ok_and(|address| image.content == Some(address)))
    }

    /// Returns whether the file has its old content and a first part of the appended content.
    async fn is_cut_append(&self, path: &EntryPath, stat: Option<&Stat>, change: &PathChange) -> Result<bool> {
        let (Some(stat), Some(before), Some(after)) = (stat, &change.before, &change.after) else {
            return Ok(false);
        };
        let is_between = before.size < stat.size && stat.size < after.size;
        if !is_between || before.kind != EntryKind::File || stat.kind != EntryKind::File || path.is_escaped() {
            return Ok(false);
        }
        let (Ok(whole), Ok(found)) = (
            self.room.load_image_content(after).await,
            self.load_content(path, stat.size).await,
        ) else {
            return Ok(false);
        };
        Ok(begins_with(&whole, &found).unwrap_or(false))
    }
}

/// Content followed by more bytes.
#[derive(Debug)]
struct JoinedContent {
    start: Content,
    rest: Bytes,
}

impl ContentSource for JoinedContent {
    fn size(&self) -> u64 {
        self.start.len() + self.rest.len() as u64
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let rest = std::io::Cursor::new(self.rest.clone());
        Ok(Box::new(self.start.open()?.chain(rest)))
    }
}

/// Joins content and bytes: in memory if the content is in memory.
fn join_content(start: Content, rest: Bytes) -> Content {
    match start.as_bytes() {
        Some(bytes) => [bytes.as_ref(), &rest].concat().into(),
        None => Content::from_source(JoinedContent { start, rest }),
    }
}

/// Returns whether `whole` begins with all of `start`.
fn begins_with(whole: &Content, start: &Content) -> Result<bool> {
    let (mut whole, mut start) = (whole.open()?, start.open()?);
    let (mut one, mut other) = (Vec::new(), Vec::new());
    while start.append_to(&mut one, PIECE_BYTES)? > 0 {
        whole.append_to(&mut other, one.len())?;
        if one != other {
            return Ok(false);
        }
        one.clear();
        other.clear();
    }
    Ok(true)
}

/// Returns whether the work sets this mode at this path. An operation of the history restores all modes; a batch sets
/// only those that it names.
fn asks_for_mode(work: &IntentWork, wanted: &WsPath, asked: u32) -> bool {
    let names_it = |step: &LoggedStep| matches!(&step.mutation, Mutation::SetMode { path, mode } if path == wanted && *mode == asked);
    match work {
        IntentWork::Put(_) | IntentWork::Operation(_) => true,
        IntentWork::Batch { steps, .. } => steps.iter().any(names_it),
    }
}

/// Clears the state of paths that were left alone: it was made by other programs, and must not be recorded as the
/// result of the change.
fn clear_foreign_states(
    seen: Vec<ObservedEntry>,
    paths: &[PathChange],
    standings: &[PathStanding],
) -> Vec<ObservedEntry> {
    let is_strange = |path: &[u8]| {
        let mut both = paths.iter().zip(standings);
        both.any(|(change, standing)| change.path.as_bytes() == path && *standing == PathStanding::Neither)
    };
    let cleared = |seen: ObservedEntry| {
        if is_strange(&seen.path) {
            ObservedEntry { known: None, ..seen }
        } else {
            seen
        }
    };
    seen.into_iter().map(cleared).collect()
}

/// Returns the goals that revert the part that was done.
fn reverting_goals(paths: &[PathChange], standings: &[PathStanding]) -> Vec<PathGoal> {
    let both = paths.iter().zip(standings);
    let goals = both.filter_map(|(change, standing)| match standing {
        PathStanding::After => Some(PathGoal::back(change)),
        PathStanding::Between(from) => Some(PathGoal {
            from: from.clone(),
            ..PathGoal::back(change)
        }),
        PathStanding::Before | PathStanding::Neither => None,
    });
    goals.collect()
}

fn drop_precondition(mutation: &mut garret_core::Mutation) {
    use garret_core::{Mutation, Precondition};
    if let Mutation::Write { precondition, .. } | Mutation::Remove { precondition, .. } = mutation {
        *precondition = Precondition::Any;
    }
}
