//! Recovery: finishes a change that a crash interrupted, that is, an open intent whose process is gone.
//!
//! Each of its paths is in the state before the change, in the state after it, or in neither. The change is rolled
//! forward: paths in the state before get the state after. If content that this needs is lost, the change is rolled
//! back. A path in neither state was changed by other programs; it is left alone and recorded as their change.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use bytes::Bytes;
use garret_core::{
    Content, ContentSource, EntryKind, EntryPath, History, Mutation, PathChange, PathImage, Result, Stat, WsPath,
};
use garret_depot::outside_files::{
    ChangeIntent, CompletedRecord, IntentWork, LoggedStep, ObservedEntry, RecordContent, is_disk_failure,
};

use crate::compare::StorageComparer;
use crate::materialize::{PathGoal, build_goal_batch};
use crate::observed_files::ObservedFiles;
use crate::owner_bits::{apply_with_owner_bits, plain_batch, restore_owner_bits};
use crate::raw_names::{create_raw_entries, remove_raw_entries};
use crate::resolved_batch::drop_precondition;
use crate::write_session::WriteSession;

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

/// A change that was interrupted, with the standing of each of its paths.
struct InterruptedChange<'c> {
    files: ObservedFiles<'c>,
    work: &'c IntentWork,
    paths: &'c [PathChange],
    standings: Vec<PathStanding>,
}

impl WriteSession<'_> {
    /// Recovers `intent`. All other records of the log are in the journal by now.
    pub(crate) async fn recover_intent(&mut self, mut intent: ChangeIntent) -> Result<()> {
        let room = self.files.room;
        if let IntentWork::Operation(operation) = &intent.work {
            match History::plan(room.history(), operation).await {
                Ok(plan) if plan.clashes.is_empty() => intent.work = IntentWork::Put(plan.puts),
                Err(error) if is_disk_failure(&error) => return Err(error),
                Ok(_) | Err(_) => return room.discard_intent(intent.id).await,
            }
        }
        let planned = match &intent.work {
            IntentWork::Batch { follow, steps } => room.preview_steps(steps.clone(), *follow).await,
            IntentWork::Put(puts) => match room.history().plan_put(puts).await {
                Ok(paths) if paths.is_empty() && puts.reverses.is_empty() => {
                    return room.discard_intent(intent.id).await;
                }
                planned => planned,
            },
            IntentWork::Operation(_) => return room.discard_intent(intent.id).await,
        };
        let paths = match planned {
            Ok(paths) => paths,
            Err(error) if is_disk_failure(&error) => return Err(error),
            // The tree refuses the change, as the storage did or would have done: nothing was changed.
            Err(_) => return room.discard_intent(intent.id).await,
        };
        if let IntentWork::Batch { steps, .. } = &intent.work {
            store_logged_content(self.files, steps, &paths).await?;
        }
        let change = InterruptedChange::classify(self.files, &intent.work, &paths).await?;
        if change.can_roll_forward().await? {
            roll_forward(&mut self.comparer, &intent, &change).await?;
        } else {
            roll_back(&mut self.comparer, &intent, &change).await?;
        }
        restore_owner_bits(&mut self.comparer, &paths).await
    }

    /// Reverts the part of a put that was done, and records that it was not done.
    pub(crate) async fn revert_put(&mut self, work: &IntentWork, paths: &[PathChange]) -> Result<()> {
        let change = InterruptedChange::classify(self.files, work, paths).await?;
        reach_goals(&mut self.comparer, change.reverting_goals()).await?;
        self.comparer.records.abort_intent()?;
        self.lock.end_change()
    }
}

async fn roll_forward(
    comparer: &mut StorageComparer<'_>,
    intent: &ChangeIntent,
    change: &InterruptedChange<'_>,
) -> Result<()> {
    reach_goals(comparer, change.forward_goals()).await?;
    change.set_modes().await?;
    let touched = change.paths.iter().map(|change| change.path.clone()).collect();
    let seen = change.clear_foreign_states(comparer.files.observe_entries(touched).await?);
    match &intent.work {
        IntentWork::Batch { .. } => {
            let made = CompletedRecord::Made(intent.clone(), seen);
            comparer.records.ingest_completed(vec![made]).await?;
        }
        IntentWork::Put(puts) => {
            let (by, puts) = (intent.by.clone(), puts.clone());
            comparer.files.room.put_intent(intent.id, by, puts, seen).await?;
        }
        IntentWork::Operation(_) => {}
    }
    // The paths that were left alone are compared, so that the changes of other programs are recorded.
    comparer.records.clear_index();
    let foreign = change.paths_where(|standing| *standing == PathStanding::Neither);
    comparer.compare_entries(&foreign).await
}

async fn roll_back(
    comparer: &mut StorageComparer<'_>,
    intent: &ChangeIntent,
    change: &InterruptedChange<'_>,
) -> Result<()> {
    reach_goals(comparer, change.reverting_goals()).await?;
    comparer.files.room.discard_intent(intent.id).await?;
    comparer.records.clear_index();
    comparer.compare_entries(&change.paths_where(|_| true)).await
}

/// Changes the storage to reach the goals.
async fn reach_goals(comparer: &mut StorageComparer<'_>, goals: Vec<PathGoal>) -> Result<()> {
    if goals.is_empty() {
        return Ok(());
    }
    // The index holds the state before the change, and the storage may be in any state, so no mutation is bound to a
    // version.
    comparer.records.clear_index();
    // Raw names go first: the batch removes only recorded entries together with a directory.
    remove_raw_entries(comparer.files, &goals)?;
    let mut batch = build_goal_batch(comparer, &goals).await?;
    batch.mutations.iter_mut().for_each(drop_precondition);
    if !batch.mutations.is_empty() {
        apply_with_owner_bits(comparer, batch).await?;
    }
    create_raw_entries(comparer.files, &goals).await
}

impl<'c> InterruptedChange<'c> {
    async fn classify(files: ObservedFiles<'c>, work: &'c IntentWork, paths: &'c [PathChange]) -> Result<Self> {
        let mut standings = Vec::with_capacity(paths.len());
        for change in paths {
            standings.push(classify_path(files, work, change).await?);
        }
        Ok(Self {
            files,
            work,
            paths,
            standings,
        })
    }

    fn standings(&self) -> impl Iterator<Item = (&'c PathChange, &PathStanding)> {
        self.paths.iter().zip(&self.standings)
    }

    /// Returns the goals that make the part that is missing.
    fn forward_goals(&self) -> Vec<PathGoal> {
        self.goals_from(&PathStanding::Before, PathGoal::forward)
    }

    /// Returns the goals that revert the part that was done.
    fn reverting_goals(&self) -> Vec<PathGoal> {
        self.goals_from(&PathStanding::After, PathGoal::back)
    }

    /// Returns the goals of the paths that stand at `start` or between.
    fn goals_from(&self, start: &PathStanding, goal: fn(&PathChange) -> PathGoal) -> Vec<PathGoal> {
        let goals = self.standings().filter_map(|(change, standing)| match standing {
            PathStanding::Between(from) => Some(PathGoal {
                from: from.clone(),
                ..goal(change)
            }),
            standing => (standing == start).then(|| goal(change)),
        });
        goals.collect()
    }

    /// Returns the paths of this standing, as entries to compare.
    fn paths_where(&self, is_wanted: impl Fn(&PathStanding) -> bool) -> Vec<(EntryPath, bool)> {
        let wanted = self.standings().filter(|(_, standing)| is_wanted(standing));
        wanted.map(|(change, _)| (change.path.clone(), false)).collect()
    }

    /// Clears the state of paths that were left alone: it was made by other programs, and must not be recorded as the
    /// result of the change.
    fn clear_foreign_states(&self, mut seen: Vec<ObservedEntry>) -> Vec<ObservedEntry> {
        let foreign = self
            .standings()
            .filter(|(_, standing)| **standing == PathStanding::Neither);
        let foreign: HashSet<_> = foreign.map(|(change, _)| change.path.as_bytes()).collect();
        for one in seen.iter_mut().filter(|one| foreign.contains(one.path.as_slice())) {
            one.known = None;
        }
        seen
    }

    async fn can_roll_forward(&self) -> Result<bool> {
        for goal in self.forward_goals() {
            if !self.files.room.has_image_content(goal.to.as_ref()).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets the mode of created entries if the crash came between the two steps and the work asked for that mode.
    async fn set_modes(&self) -> Result<()> {
        let mut mutations = Vec::new();
        for (change, _) in self
            .standings()
            .filter(|(_, standing)| **standing == PathStanding::After)
        {
            let (Some(path), Some(image)) = (change.path.as_path(), &change.after) else {
                continue;
            };
            let stat = self.files.stat(path).await?;
            let has_other = stat.is_some_and(|stat| stat.mode.is_some_and(|mode| mode != image.mode));
            if has_other && asks_for_mode(self.work, path, image.mode) {
                let (path, mode) = (path.clone(), image.mode);
                mutations.push(Mutation::SetMode { path, mode });
            }
        }
        if mutations.is_empty() {
            return Ok(());
        }
        self.files
            .journaled
            .files
            .apply(plain_batch(mutations))
            .await
            .map(|_| ())
    }
}

/// Stores the content that the record itself holds in the depot, because the images refer to it there: written
/// content, and appended content together with the content before it.
async fn store_logged_content(files: ObservedFiles<'_>, steps: &[LoggedStep], paths: &[PathChange]) -> Result<()> {
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
                        files.room.load_image_content(image).await?
                    }
                    (None, _) => Content::default(),
                };
                contents.insert(path, join_content(start, content.clone()));
            }
            _ => {}
        }
    }
    for content in contents.into_values() {
        files.store_content(content).await?;
    }
    Ok(())
}

async fn classify_path(files: ObservedFiles<'_>, work: &IntentWork, change: &PathChange) -> Result<PathStanding> {
    let stat = files.stat_entry(&change.path).await?;
    let matches = async |image, other| matches_image(files, &change.path, stat.as_ref(), image, other).await;
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    if matches(after, before).await? {
        Ok(PathStanding::After)
    } else if matches(before, after).await? || is_cut_append(files, stat.as_ref(), change).await? {
        Ok(PathStanding::Before)
    } else {
        find_intermediate_state(files, work, change, stat.as_ref()).await
    }
}

/// Returns the intermediate state that a path is in.
async fn find_intermediate_state(
    files: ObservedFiles<'_>,
    work: &IntentWork,
    change: &PathChange,
    stat: Option<&Stat>,
) -> Result<PathStanding> {
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
        let Ok(stage) = files.room.preview_steps(steps[..count].to_vec(), *follow).await else {
            continue;
        };
        let Some(reached) = stage.iter().find(|reached| reached.path == change.path) else {
            continue;
        };
        if matches_image(files, &change.path, stat, reached.after.as_ref(), None).await? {
            return Ok(PathStanding::Between(reached.after.clone()));
        }
    }
    Ok(PathStanding::Neither)
}

/// Returns whether the storage has `image` at `path`. The mode is compared only if `other` differs in nothing else,
/// because the system influences the modes of new entries.
async fn matches_image(
    files: ObservedFiles<'_>,
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
    let is_about_mode = other
        .is_some_and(|other| (other.kind, other.content, &other.target) == (image.kind, image.content, &image.target));
    if is_about_mode && stat.mode.is_some_and(|mode| mode != image.mode) {
        return Ok(false);
    }
    match image.kind {
        EntryKind::Symlink => Ok(stat.target == image.target),
        EntryKind::File if stat.size != image.size => Ok(false),
        EntryKind::File => has_content(files, path, image).await,
        _ => Ok(true),
    }
}

async fn has_content(files: ObservedFiles<'_>, path: &EntryPath, image: &PathImage) -> Result<bool> {
    let Ok(found) = files.load_content(path, image.size).await else {
        return Ok(false);
    };
    let address = files.room.address_of_content(&found);
    Ok(address.is_ok_and(|address| image.content == Some(address)))
}

/// Returns whether the file has its old content and a first part of the appended content.
async fn is_cut_append(files: ObservedFiles<'_>, stat: Option<&Stat>, change: &PathChange) -> Result<bool> {
    let (Some(stat), Some(before), Some(after)) = (stat, &change.before, &change.after) else {
        return Ok(false);
    };
    let is_between = before.size < stat.size && stat.size < after.size;
    if !is_between || before.kind != EntryKind::File || stat.kind != EntryKind::File || change.path.is_escaped() {
        return Ok(false);
    }
    let (Ok(whole), Ok(found)) = (
        files.room.load_image_content(after).await,
        files.load_content(&change.path, stat.size).await,
    ) else {
        return Ok(false);
    };
    Ok(begins_with(&whole, &found).unwrap_or(false))
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
