//! A checkout: the files of a workspace that live in no directory, in a cache that follows the journal.
//!
//! Only what changed since the last time is written. Before something is replaced, a look tells whether it is what the journal says it
//! should be; where it is not, or where a process died in the middle, the whole checkout is looked over and made right, and what was left
//! as it should be stays. What is kept out of history lives here only, so nothing that follows the journal removes or overwrites it; the
//! one exception is a directory that the journal turns into a file.
//!
//! A file whose stored content is damaged is left out and named; everything else is there.
//!
//! From [`Bench::ready`] to [`Bench::take`] the checkout belongs to one process, so that no other changes it under a layer.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use garret_core::{
    Bench, BenchState, ChangesOptions, Effect, Error, ErrorKind, Exclusions, Follow, History, Image, PathChange,
    Placed, Point, Result, StatOptions, Storage, Taken, WsPath,
};
use rustix::fs::{Mode, OFlags};
use tokio::sync::{Mutex, MutexGuard};

use super::filling::{Filled, Work, fill, recorded, stopped};
use super::manifest::{self, Changes, Records};
use super::placing::{Placing, PlacingOptions};
use super::state::{State, Turn, own_directory};
use super::survey;
use super::wanted::{Files, Versions, everything, version_number};

const MAX_TRIES: usize = 4;

/// What a checkout is made of.
#[derive(Debug, Clone)]
pub struct CheckoutOptions {
    /// Its own directory, made where it is missing; one for each workspace.
    pub directory: PathBuf,
    /// The files.
    pub files: Arc<dyn Storage>,
    /// Their journal; without one, all files are compared each time.
    pub history: Option<Arc<dyn History>>,
    /// Patterns of what is kept out of history.
    pub exclude: Vec<String>,
}

/// A checkout of a workspace's files.
pub struct CheckoutBench {
    options: CheckoutOptions,
    excluded: Exclusions,
    turn: Mutex<Option<Turn>>,
    /// Whether the state was found to be of this very journal.
    is_known: AtomicBool,
}

impl fmt::Debug for CheckoutBench {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CheckoutBench").finish_non_exhaustive()
    }
}

/// The directories of a checkout, open.
struct Home {
    home: OwnedFd,
    tree: OwnedFd,
}

impl CheckoutBench {
    /// A checkout that nothing is done to yet; a wrong pattern is `invalid`.
    pub fn new(options: CheckoutOptions) -> Result<Self> {
        Ok(Self {
            excluded: Exclusions::new(&options.exclude)?,
            options,
            turn: Mutex::new(None),
            is_known: AtomicBool::new(false),
        })
    }

    /// Looks at every entry and makes right what is not; for whoever suspects damage.
    pub async fn check(&self) -> Result<()> {
        let home = self.home()?;
        let mut turn = self.turn(&home).await?;
        let checked = self.rebuild(&home).await;
        *turn = None;
        checked.map(drop)
    }

    /// Whether nothing is to be taken over by a checkout that is as it was when it was made ready.
    async fn is_nothing(&self, taken: &Taken<'_>) -> bool {
        let ready_at = self.turn.lock().await.as_ref().and_then(|turn| turn.ready_at);
        taken.committed.is_empty() && taken.excluded.is_empty() && ready_at == Some(taken.head)
    }

    /// Lets other processes have it, where nothing is to be taken over.
    pub async fn release(&self) {
        *self.turn.lock().await = None;
    }

    fn home(&self) -> Result<Home> {
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
        Ok(Home { home, tree })
    }

    async fn turn(&self, home: &Home) -> Result<MutexGuard<'_, Option<Turn>>> {
        let mut turn = self.turn.lock().await;
        if turn.is_none() {
            *turn = Some(Turn::take(&home.home).await?);
        }
        Ok(turn)
    }

    /// Brings everything up to the newest change.
    async fn follow(&self, home: &Home) -> Result<State> {
        let state = State::load(&home.home, &home.tree)?;
        let usable = state.filter(|state| state.is_whole && !state.is_of_another_boot());
        let Some(state) = usable else {
            return self.rebuild(home).await;
        };
        let Some(history) = &self.options.history else {
            return self.compare(home, state).await;
        };
        let head = history.head().await?;
        if !self.is_of_journal(history, &state, head).await? {
            return self.rebuild(home).await;
        }
        if state.head == head {
            return Ok(state);
        }
        let Some(changes) = self.changes(state.head, head).await? else {
            return self.rebuild(home).await;
        };
        match survey::changed(&home.tree, &changes, &self.excluded)? {
            Some(work) => self.write(home, state, work, head).await,
            None => self.rebuild(home).await,
        }
    }

    /// Whether the checkout was made from this journal, which was not put back to an older state since.
    async fn is_of_journal(&self, history: &Arc<dyn History>, state: &State, head: u64) -> Result<bool> {
        if state.head > head {
            return Ok(false);
        }
        if state.head == 0 || self.is_known.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let is_it = state.change.is_some() && change_id(history, state.head).await? == state.change;
        self.is_known.store(is_it, Ordering::Relaxed);
        Ok(is_it)
    }

    /// What the journal changed between two numbers; `None` where it no longer knows.
    async fn changes(&self, from: u64, to: u64) -> Result<Option<Vec<PathChange>>> {
        let Some(history) = &self.options.history else {
            return Ok(Some(Vec::new()));
        };
        let (from, to) = (Point::Number(from), Point::Number(to));
        match history.diff(&from, &to, &WsPath::root()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            changes => changes.map(Some),
        }
    }

    /// The files as they are after the change of this number.
    async fn files_at(&self, head: u64) -> Result<Files> {
        Ok(match &self.options.history {
            Some(history) => Files {
                storage: history.at(&Point::Number(head)).await?,
                at: Some((history.clone(), head)),
            },
            None => Files {
                storage: self.options.files.clone(),
                at: None,
            },
        })
    }

    /// Does the work and says that the checkout stands at `head` then.
    async fn write(&self, home: &Home, mut state: State, work: Work, head: u64) -> Result<State> {
        state.is_whole = false;
        state.save(&home.home)?;
        let filled = self.fill(home, work, head).await?;
        state.corrupt = filled.corrupt;
        self.settle(home, state, &filled.changes, head).await
    }

    async fn fill(&self, home: &Home, work: Work, head: u64) -> Result<Filled> {
        if work.is_empty() {
            return Ok(Filled::default());
        }
        let files = self.files_at(head).await?;
        fill(&home.tree, files, work, self.excluded.clone()).await
    }

    /// Remembers what was left where.
    async fn settle(&self, home: &Home, mut state: State, changes: &Changes, head: u64) -> Result<State> {
        manifest::append(&home.home, &mut state, changes)?;
        if manifest::is_long(&state)
            && let Some(records) = manifest::load(&home.home, &state)?
        {
            manifest::replace(&home.home, &mut state, &records)?;
        }
        self.stand(home, state, head).await
    }

    async fn stand(&self, home: &Home, mut state: State, head: u64) -> Result<State> {
        state.head = head;
        state.change = match &self.options.history {
            Some(history) if head > 0 => change_id(history, head).await?,
            _ => None,
        };
        state.made_whole();
        state.save(&home.home)?;
        Ok(state)
    }

    /// Looks the whole checkout over and makes it right.
    async fn rebuild(&self, home: &Home) -> Result<State> {
        let head = match &self.options.history {
            Some(history) => history.head().await?,
            None => 0,
        };
        let files = self.files_at(head).await?;
        let known = State::load(&home.home, &home.tree)?;
        let records = match &known {
            Some(state) => manifest::load(&home.home, state)?.unwrap_or_default(),
            None => Records::new(),
        };
        let versions = if records.is_empty() {
            Versions::LeftOut
        } else {
            Versions::Asked
        };
        let wanted = everything(&files, versions).await?;
        let mut state = match known {
            Some(state) => state,
            None => State::new(&home.tree, 0)?,
        };
        state.is_whole = false;
        state.save(&home.home)?;
        let work = survey::survey(&home.tree, wanted.clone(), &records, &self.excluded)?;
        let filled = self.fill(home, work, head).await?;
        state.corrupt = filled.corrupt;
        let mut records: Records = records
            .into_iter()
            .filter(|(path, _)| wanted.contains_key(path))
            .collect();
        filled.changes.into_iter().for_each(|(path, record)| match record {
            Some(record) => drop(records.insert(path, record)),
            None => drop(records.remove(&path)),
        });
        manifest::replace(&home.home, &mut state, &records)?;
        let state = self.stand(home, state, head).await?;
        self.is_known.store(true, Ordering::Relaxed);
        Ok(state)
    }

    /// The same, with what is kept out of history put there after it.
    async fn rebuild_with(&self, home: &Home, excluded: &[Effect]) -> Result<()> {
        let mut state = self.rebuild(home).await?;
        place(home, excluded.to_vec(), PlacingOptions::default()).await?;
        state.save(&home.home)
    }

    /// Brings files without a journal up to date, by what they were when they were last written here.
    async fn compare(&self, home: &Home, state: State) -> Result<State> {
        let Some(records) = manifest::load(&home.home, &state)? else {
            return self.rebuild(home).await;
        };
        let wanted = everything(&self.files_at(0).await?, Versions::Asked).await?;
        let work = survey::compared(&home.tree, wanted, &records, &self.excluded)?;
        match work.is_empty() {
            true => Ok(state),
            false => self.write(home, state, work, 0).await,
        }
    }

    async fn take_over(&self, home: &Home, taken: Taken<'_>) -> Result<()> {
        let state = State::load(&home.home, &home.tree)?.filter(|state| state.is_whole);
        let Some(mut state) = state else {
            // What the layer lay over is gone; the journal has all but what is kept out of it.
            return self.rebuild_with(home, taken.excluded).await;
        };
        let head = taken.head.max(state.head);
        let Some(changes) = self.changes(state.head, head).await? else {
            return self.rebuild_with(home, taken.excluded).await;
        };
        state.is_whole = false;
        state.save(&home.home)?;
        let others = others(&changes, taken.committed);
        let work = survey::changed(&home.tree, &others, &self.excluded)?;
        let is_as_expected = work.is_some();
        let filled = self.fill(home, work.unwrap_or_default(), head).await?;
        state.corrupt = filled.corrupt;
        let mut records = filled.changes;
        let versions = self.versions(&changes, taken.committed).await?;
        let mut effects: Vec<Effect> = taken.committed.iter().chain(taken.excluded).cloned().collect();
        effects.sort_by(|one, other| one.path.cmp(&other.path));
        let placed = place(home, effects, PlacingOptions::default()).await?;
        records.extend(recorded(placed, &versions));
        records.retain(|path, record| {
            let is_directory = record.is_some_and(|record| record.seen.is_directory());
            !self.excluded.covers_bytes(path, is_directory)
        });
        self.settle(home, state, &records, head).await?;
        match is_as_expected {
            true => Ok(()),
            false => self.rebuild(home).await.map(drop),
        }
    }

    /// The versions of what was committed, so that it is known again.
    async fn versions(&self, changes: &[PathChange], committed: &[Effect]) -> Result<BTreeMap<Vec<u8>, u64>> {
        let of_image = |image: &Image| image.version.as_ref().map(version_number);
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
    matches!(effect.placed, Placed::File { .. })
}

/// The changes that no effect brings: others made them before this one.
fn others(changes: &[PathChange], committed: &[Effect]) -> Vec<PathChange> {
    let mine: std::collections::BTreeSet<&[u8]> = committed.iter().map(|effect| effect.path.as_bytes()).collect();
    let is_other = |change: &&PathChange| !mine.contains(change.path.as_bytes());
    changes.iter().filter(is_other).cloned().collect()
}

/// The id of the change of this number, where it is still kept.
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

/// Puts what a layer left into the checkout.
async fn place(
    home: &Home,
    effects: Vec<Effect>,
    options: PlacingOptions,
) -> Result<BTreeMap<Vec<u8>, Option<crate::effects::seen::Seen>>> {
    let tree = home.tree.try_clone().map_err(|_| stopped())?;
    let placed = tokio::task::spawn_blocking(move || {
        let mut placing = Placing::new(tree.as_fd(), options);
        effects.iter().try_for_each(|effect| placing.effect(effect))?;
        placing.finish()
    });
    placed.await.map_err(|_| stopped())?
}

#[async_trait]
impl Bench for CheckoutBench {
    async fn ready(&self) -> Result<BenchState> {
        let home = self.home()?;
        let mut turn = self.turn(&home).await?;
        let mut tries = 1;
        let state = loop {
            match self.follow(&home).await {
                // Somebody changed a file of a workspace without a journal between two looks at it.
                Err(error) if tries < MAX_TRIES && may_pass(&error) => tries += 1,
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
            scratch: self.scratch(),
            head: state.head,
            stands: Some(state.stands()),
            corrupt: state.corrupt,
        })
    }

    fn scratch(&self) -> PathBuf {
        self.options.directory.join("scratch")
    }

    async fn take(&self, taken: Taken<'_>) -> Result<()> {
        if self.is_nothing(&taken).await {
            self.release().await;
            return Ok(());
        }
        let home = self.home()?;
        let mut turn = self.turn(&home).await?;
        let outcome = self.take_over(&home, taken).await;
        *turn = None;
        outcome
    }
}

fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict)
}
