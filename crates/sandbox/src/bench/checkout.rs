//! A checkout: the files of a workspace that do not live in a directory, written to a cache that follows the journal.
//!
//! Only files that changed since the last time are written. Before an entry is replaced, its stat is compared with the
//! state that the journal has for it. If it differs, or if a process died in the middle of an update, the whole
//! checkout is surveyed and repaired; entries that are correct stay. Files that are kept out of history exist only
//! here, so following the journal never removes or overwrites them; the one exception is a directory that the journal
//! turns into a file.
//!
//! A file whose stored content is damaged is left out and reported; all other files are there.
//!
//! From [`Bench::bring_up_to_date`] to [`Bench::take_effects`] the checkout belongs to one process, so that no other changes it under a
//! layer.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use garret_core::{
    Bench, BenchState, ChangesOptions, Effect, Error, ErrorKind, Exclusions, Follow, History, LayerOutcome, PathChange,
    PathImage, PlacedEntry, Point, Result, StatOptions, Storage, WsPath,
};
use garret_handles::run_blocking;
use rustix::fs::{Mode, OFlags};
use tokio::sync::{Mutex, MutexGuard};

use super::bench_placer::BenchPlacer;
use super::checkout_writer::{CheckoutWork, FillOutcome, fill_tree, to_manifest_changes, update_stopped};
use super::manifest::{self, ManifestChanges, ManifestRecords};
use super::state::{CheckoutLock, CheckoutState, own_directory};
use super::survey;
use super::wanted_entries::{CheckoutFiles, VersionLookup, list_wanted_entries, version_number};
use crate::effects::entry_status::EntryStatus;

const MAX_TRIES: usize = 4;

/// The parts of a checkout.
#[derive(Debug, Clone)]
pub struct CheckoutOptions {
    /// The directory of the checkout, created if it is missing; one for each workspace.
    pub directory: PathBuf,
    /// The files.
    pub files: Arc<dyn Storage>,
    /// The journal of the files; without one, all files are compared each time.
    pub history: Option<Arc<dyn History>>,
    /// Patterns of the paths that are kept out of history.
    pub exclude: Vec<String>,
}

/// A checkout of a workspace's files.
pub struct CheckoutBench {
    options: CheckoutOptions,
    excluded: Exclusions,
    turn: Mutex<Option<CheckoutLock>>,
    /// Whether the state was found to belong to this journal.
    is_known: AtomicBool,
}

impl fmt::Debug for CheckoutBench {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CheckoutBench").finish_non_exhaustive()
    }
}

/// The open directories of a checkout.
struct CheckoutHome {
    home: OwnedFd,
    tree: OwnedFd,
}

impl CheckoutBench {
    /// Returns a checkout that is not updated yet; a wrong pattern is `invalid`.
    pub fn new(options: CheckoutOptions) -> Result<Self> {
        Ok(Self {
            excluded: Exclusions::new(&options.exclude)?,
            options,
            turn: Mutex::new(None),
            is_known: AtomicBool::new(false),
        })
    }

    /// Surveys every entry and repairs those that are wrong. For callers that suspect damage.
    pub async fn check(&self) -> Result<()> {
        let home = self.open_home()?;
        let mut turn = self.lock_checkout(&home).await?;
        let checked = self.rebuild_checkout(&home).await;
        *turn = None;
        checked.map(drop)
    }

    /// Returns whether the layer left nothing to take over and the checkout is unchanged since it was made ready.
    async fn has_nothing_to_take(&self, taken: &LayerOutcome<'_>) -> bool {
        let ready_at = self.turn.lock().await.as_ref().and_then(|turn| turn.ready_at);
        taken.committed.is_empty() && taken.excluded.is_empty() && ready_at == Some(taken.head)
    }

    /// Lets other processes use the checkout, without taking anything over.
    pub async fn release(&self) {
        *self.turn.lock().await = None;
    }

    fn open_home(&self) -> Result<CheckoutHome> {
        let unusable = |_| {
            Error::new(ErrorKind::Unavailable, "the directory for checkouts cannot be used")
                .hint("check that the home can be written and has free space")
        };
        let directory = &self.options.directory;
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(unusable)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty());
        let home = opened.map_err(|errno| unusable(errno.into()))?;
        let tree = own_directory(&home, "tree", Mode::from_raw_mode(0o755))?;
        own_directory(&home, "scratch", Mode::RWXU)?;
        Ok(CheckoutHome { home, tree })
    }

    async fn lock_checkout(&self, home: &CheckoutHome) -> Result<MutexGuard<'_, Option<CheckoutLock>>> {
        let mut turn = self.turn.lock().await;
        if turn.is_none() {
            *turn = Some(CheckoutLock::acquire(&home.home).await?);
        }
        Ok(turn)
    }

    /// Brings the checkout up to the newest change.
    async fn follow_journal(&self, home: &CheckoutHome) -> Result<CheckoutState> {
        let state = CheckoutState::load(&home.home, &home.tree)?;
        // Nothing is synced, so after a restart of the machine any entry may be lost or torn.
        let usable = state.filter(|state| state.is_whole && !state.is_of_another_boot());
        let Some(state) = usable else {
            return self.rebuild_checkout(home).await;
        };
        let Some(history) = &self.options.history else {
            return self.compare_without_journal(home, state).await;
        };
        let head = history.head().await?;
        if !self.is_of_journal(history, &state, head).await? {
            return self.rebuild_checkout(home).await;
        }
        if state.head == head {
            return Ok(state);
        }
        let Some(changes) = self.changes_between(state.head, head).await? else {
            return self.rebuild_checkout(home).await;
        };
        match survey::work_from_changes(&home.tree, &changes, &self.excluded)? {
            Some(work) => self.carry_out_work(home, state, work, head).await,
            None => self.rebuild_checkout(home).await,
        }
    }

    /// Returns whether the checkout was made from this journal, and the journal was not restored to an older state
    /// since.
    async fn is_of_journal(&self, history: &Arc<dyn History>, state: &CheckoutState, head: u64) -> Result<bool> {
        if state.head > head {
            return Ok(false);
        }
        // The id of a recorded change never changes, so one lookup for each bench is enough.
        if state.head == 0 || self.is_known.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let is_it = state.change.is_some() && change_id(history, state.head).await? == state.change;
        self.is_known.store(is_it, Ordering::Relaxed);
        Ok(is_it)
    }

    /// Returns the changes of the journal between two numbers; `None` if it no longer has them.
    async fn changes_between(&self, from: u64, to: u64) -> Result<Option<Vec<PathChange>>> {
        let Some(history) = &self.options.history else {
            return Ok(Some(Vec::new()));
        };
        let (from, to) = (Point::Number(from), Point::Number(to));
        match history.diff(&from, &to, &WsPath::root()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            changes => changes.map(Some),
        }
    }

    /// Returns the files after the change with this number.
    async fn files_at(&self, head: u64) -> Result<CheckoutFiles> {
        Ok(match &self.options.history {
            Some(history) => CheckoutFiles {
                storage: history.open_view(&Point::Number(head)).await?,
                at: Some((history.clone(), head)),
            },
            None => CheckoutFiles {
                storage: self.options.files.clone(),
                at: None,
            },
        })
    }

    /// Carries out the work, and records that the checkout is at `head`.
    async fn carry_out_work(
        &self,
        home: &CheckoutHome,
        mut state: CheckoutState,
        work: CheckoutWork,
        head: u64,
    ) -> Result<CheckoutState> {
        state.is_whole = false;
        state.save(&home.home)?;
        let filled = self.fill_checkout(home, work, head).await?;
        state.corrupt = filled.corrupt;
        self.record_changes(home, state, &filled.changes, head).await
    }

    async fn fill_checkout(&self, home: &CheckoutHome, work: CheckoutWork, head: u64) -> Result<FillOutcome> {
        if work.is_empty() {
            return Ok(FillOutcome::default());
        }
        let files = self.files_at(head).await?;
        fill_tree(&home.tree, files, work, self.excluded.clone()).await
    }

    /// Records the entries that were written, and compacts the manifest if it is long.
    async fn record_changes(
        &self,
        home: &CheckoutHome,
        mut state: CheckoutState,
        changes: &ManifestChanges,
        head: u64,
    ) -> Result<CheckoutState> {
        manifest::append_changes(&home.home, &mut state, changes)?;
        if manifest::is_long(&state)
            && let Some(records) = manifest::load_manifest(&home.home, &state)?
        {
            manifest::replace_manifest(&home.home, &mut state, &records)?;
        }
        self.set_head(home, state, head).await
    }

    async fn set_head(&self, home: &CheckoutHome, mut state: CheckoutState, head: u64) -> Result<CheckoutState> {
        state.head = head;
        state.change = match &self.options.history {
            Some(history) if head > 0 => change_id(history, head).await?,
            _ => None,
        };
        state.mark_complete();
        state.save(&home.home)?;
        Ok(state)
    }

    /// Surveys the whole checkout and repairs it.
    async fn rebuild_checkout(&self, home: &CheckoutHome) -> Result<CheckoutState> {
        let head = match &self.options.history {
            Some(history) => history.head().await?,
            None => 0,
        };
        let files = self.files_at(head).await?;
        let known = CheckoutState::load(&home.home, &home.tree)?;
        let records = match &known {
            Some(state) => manifest::load_manifest(&home.home, state)?.unwrap_or_default(),
            None => ManifestRecords::new(),
        };
        let versions = if records.is_empty() {
            VersionLookup::Omitted
        } else {
            VersionLookup::Requested
        };
        let wanted = list_wanted_entries(&files, versions).await?;
        let mut state = match known {
            Some(state) => state,
            None => CheckoutState::new(&home.tree, 0)?,
        };
        state.is_whole = false;
        state.save(&home.home)?;
        let work = survey::survey_checkout(&home.tree, wanted.clone(), &records, &self.excluded)?;
        let filled = self.fill_checkout(home, work, head).await?;
        state.corrupt = filled.corrupt;
        let mut records: ManifestRecords = records
            .into_iter()
            .filter(|(path, _)| wanted.contains_key(path))
            .collect();
        filled.changes.into_iter().for_each(|(path, record)| match record {
            Some(record) => drop(records.insert(path, record)),
            None => drop(records.remove(&path)),
        });
        manifest::replace_manifest(&home.home, &mut state, &records)?;
        let state = self.set_head(home, state, head).await?;
        self.is_known.store(true, Ordering::Relaxed);
        Ok(state)
    }

    /// Surveys and repairs the whole checkout, then writes the excluded files that a layer left.
    async fn rebuild_with_excluded(&self, home: &CheckoutHome, excluded: &[Effect]) -> Result<()> {
        let mut state = self.rebuild_checkout(home).await?;
        place_effects(home, excluded.to_vec()).await?;
        state.save(&home.home)
    }

    /// Brings files without a journal up to date, by comparing them with the records of the last write.
    async fn compare_without_journal(&self, home: &CheckoutHome, state: CheckoutState) -> Result<CheckoutState> {
        let Some(records) = manifest::load_manifest(&home.home, &state)? else {
            return self.rebuild_checkout(home).await;
        };
        let wanted = list_wanted_entries(&self.files_at(0).await?, VersionLookup::Requested).await?;
        let work = survey::work_without_journal(&home.tree, wanted, &records, &self.excluded)?;
        if work.is_empty() {
            Ok(state)
        } else {
            self.carry_out_work(home, state, work, 0).await
        }
    }

    async fn take_over(&self, home: &CheckoutHome, taken: LayerOutcome<'_>) -> Result<()> {
        let state = CheckoutState::load(&home.home, &home.tree)?.filter(|state| state.is_whole);
        let Some(mut state) = state else {
            // The directory below the layer was replaced. The journal has all files but the excluded ones, so these are
            // taken from the layer.
            return self.rebuild_with_excluded(home, taken.excluded).await;
        };
        let head = taken.head.max(state.head);
        let Some(changes) = self.changes_between(state.head, head).await? else {
            return self.rebuild_with_excluded(home, taken.excluded).await;
        };
        state.is_whole = false;
        state.save(&home.home)?;
        // Other processes may have made changes between `bring_up_to_date` and now. Those are written from the journal, the
        // layer's own from the layer.
        let others = changes_by_others(&changes, taken.committed);
        let work = survey::work_from_changes(&home.tree, &others, &self.excluded)?;
        let is_as_expected = work.is_some();
        let filled = self.fill_checkout(home, work.unwrap_or_default(), head).await?;
        state.corrupt = filled.corrupt;
        let mut records = filled.changes;
        let versions = self.committed_versions(&changes, taken.committed).await?;
        let mut effects: Vec<Effect> = taken.committed.iter().chain(taken.excluded).cloned().collect();
        effects.sort_by(|one, other| one.path.cmp(&other.path));
        let placed = place_effects(home, effects).await?;
        records.extend(to_manifest_changes(placed, &versions));
        records.retain(|path, record| {
            let is_directory = record.is_some_and(|record| record.seen.is_directory());
            !self.excluded.covers_bytes(path, is_directory)
        });
        self.record_changes(home, state, &records, head).await?;
        if is_as_expected {
            Ok(())
        } else {
            self.rebuild_checkout(home).await.map(drop)
        }
    }

    /// Returns the versions of committed files, so that the next comparison recognizes them.
    async fn committed_versions(&self, changes: &[PathChange], committed: &[Effect]) -> Result<BTreeMap<Vec<u8>, u64>> {
        let of_image = |image: &PathImage| image.version.as_ref().map(version_number);
        let version = |change: &PathChange| {
            let version = change.after.as_ref().and_then(of_image)?;
            Some((change.path.as_bytes().to_vec(), version))
        };
        if self.options.history.is_some() {
            return Ok(changes.iter().filter_map(version).collect());
        }
        let mut versions = BTreeMap::new();
        let options = StatOptions {
            follow: Follow::Never,
            with_version: true,
        };
        for path in committed
            .iter()
            .filter(|effect| is_file(effect))
            .filter_map(|effect| effect.path.as_path())
        {
            if let Some(version) = self.options.files.stat(path, options).await?.version {
                versions.insert(path.as_str().as_bytes().to_vec(), version_number(&version));
            }
        }
        Ok(versions)
    }
}

fn is_file(effect: &Effect) -> bool {
    matches!(effect.placed, PlacedEntry::File { .. })
}

/// Returns the changes that no committed effect made: those of other processes.
fn changes_by_others(changes: &[PathChange], committed: &[Effect]) -> Vec<PathChange> {
    let mine: std::collections::BTreeSet<&[u8]> = committed.iter().map(|effect| effect.path.as_bytes()).collect();
    let is_other = |change: &&PathChange| !mine.contains(change.path.as_bytes());
    changes.iter().filter(is_other).cloned().collect()
}

/// Returns the id of the change with this number, if the journal still has it.
async fn change_id(history: &Arc<dyn History>, number: u64) -> Result<Option<String>> {
    let options = ChangesOptions {
        before: Some(number + 1),
        limit: 1,
        ..ChangesOptions::default()
    };
    let changes = history.changes(options).await?;
    let it = changes.into_iter().find(|change| change.number == number);
    Ok(it.map(|change| change.id))
}

/// Writes the effects of a layer into the checkout.
async fn place_effects(home: &CheckoutHome, effects: Vec<Effect>) -> Result<BTreeMap<Vec<u8>, Option<EntryStatus>>> {
    let tree = home.tree.try_clone().map_err(|_| update_stopped())?;
    run_blocking(move || {
        let mut placing = BenchPlacer::new(tree.as_fd());
        effects.iter().try_for_each(|effect| placing.place_effect(effect))?;
        placing.finish()
    })
    .await
}

#[async_trait]
impl Bench for CheckoutBench {
    async fn bring_up_to_date(&self) -> Result<BenchState> {
        let home = self.open_home()?;
        let mut turn = self.lock_checkout(&home).await?;
        let mut tries = 1;
        let state = loop {
            match self.follow_journal(&home).await {
                // In a workspace without a journal a file changed between its listing and its read.
                Err(error) if tries < MAX_TRIES && is_transient(&error) => tries += 1,
                Err(error) => {
                    *turn = None;
                    return Err(error);
                }
                Ok(state) => break state,
            }
        };
        if let Some(turn) = &mut *turn {
            turn.ready_at = Some(state.head);
        }
        Ok(BenchState {
            root: self.options.directory.join("tree"),
            scratch: self.scratch_directory(),
            head: state.head,
            generation: Some(state.generation_token()),
            corrupt: state.corrupt,
        })
    }

    fn scratch_directory(&self) -> PathBuf {
        self.options.directory.join("scratch")
    }

    async fn take_effects(&self, taken: LayerOutcome<'_>) -> Result<()> {
        if self.has_nothing_to_take(&taken).await {
            self.release().await;
            return Ok(());
        }
        let home = self.open_home()?;
        let mut turn = self.lock_checkout(&home).await?;
        let outcome = self.take_over(&home, taken).await;
        *turn = None;
        outcome
    }
}

fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict)
}
