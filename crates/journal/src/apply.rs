//! Applies a batch of mutations to the storage and records it in the journal.

use std::collections::{BTreeSet, HashMap};

use garret_core::{
    Batch, ChangeMade, Content, EntryKind, Error, ErrorKind, Follow, Mutation, MutationOutcome, Precondition, Result,
    Version, WsPath,
};
use garret_depot::outside_files::{
    ChangeAuthorship, ChangeIntent, IntentWork, KnownEntry, LoggedStep, ObservedEntry, RecordContent, is_disk_failure,
    summary_of,
};

use crate::compare::{ComparedPath, entry_of_stat};
use crate::observed::BatchObservation;
use crate::write_session::{ObservedFiles, WriteSession};

/// Number of times that a batch is started again because other programs changed its paths in the meantime.
const TRIES: usize = 5;
/// Number of times that the set of paths which a batch touches is computed again.
const ROUNDS: usize = 40;

/// Says whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinalLinkMode {
    Followed,
    Kept,
}

impl WriteSession<'_> {
    /// Applies the batch as one change.
    pub(crate) async fn apply(mut self, mut batch: Batch) -> Result<Vec<MutationOutcome>> {
        if batch.origin.summary.is_empty() {
            batch.origin.summary = summary_of(&batch);
        }
        let made = self.find_directories_to_create(&batch).await?;
        if let Some(guarded) = self.build_conditional_batch(&batch, &made)? {
            match self.apply_conditionally(guarded, made).await {
                Ok(applied) => return Ok(applied),
                // An entry is not in its recorded state. The full attempt finds out why, or returns the proper error.
                Err(error) if is_unexpected_state(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..TRIES {
            match self.attempt_batch(&batch, true).await {
                Err(AttemptRefusal::Raced) => {}
                Err(AttemptRefusal::Error(error)) => return Err(error),
                Ok(applied) => return Ok(applied),
            }
        }
        self.attempt_batch(&batch, false)
            .await
            .map_err(AttemptRefusal::into_error)
    }

    /// Writes the intent of `batch` to the log, and returns the id of the change that it becomes.
    pub(crate) fn log_batch_intent(
        &mut self,
        batch: &Batch,
        follow: Follow,
        contents: Vec<Option<RecordContent>>,
    ) -> Result<String> {
        let change = self.files.journaled.ids.next_id();
        let intent = ChangeIntent {
            id: self.next_id(),
            by: ChangeAuthorship::new(change.clone(), self.files.journaled.clock.now(), batch.origin.clone()),
            work: IntentWork::Batch {
                follow,
                steps: to_logged_steps(&batch.mutations, contents),
            },
        };
        self.open_intent(intent)?;
        Ok(change)
    }

    /// Makes one full attempt: compares the paths, logs the intent, applies the batch and closes the intent.
    async fn attempt_batch(&mut self, batch: &Batch, is_guarded: bool) -> Result<Vec<MutationOutcome>, AttemptRefusal> {
        let Some(mut concerns) = self.files.resolve_batch_paths(batch).await? else {
            return self.expect_refusal(batch, &[]).await;
        };
        self.compare_paths(&concerns).await?;
        if !self.preconditions_hold(batch, &concerns).await? || !self.has_required_entries(batch, &concerns)? {
            return self.expect_refusal(batch, &concerns).await;
        }
        let contents = self.files.prepare_contents(&batch.mutations).await?;
        let mut touched: BTreeSet<WsPath> = concerns.iter().map(|concern| concern.path.clone()).collect();
        if is_intricate(batch) {
            match self.compute_touched_paths(batch, &contents, &mut concerns).await? {
                Some(paths) => touched.extend(paths),
                None => return self.expect_refusal(batch, &concerns).await,
            }
        }
        self.add_missing_parents(&mut touched)?;
        let goes_far = batch.mutations.len() > 1 || touched.len() > concerns.len();
        let below = self.recorded_paths_below(&concerns)?;
        let planned = if is_intricate(batch) {
            batch.clone()
        } else {
            // The resolved paths are logged and applied, so that a program that exchanges a link at this moment cannot
            // redirect the change.
            with_resolved_paths(batch, &concerns)
        };
        let sent = if is_guarded {
            self.bind_to_recorded_versions(&planned, &concerns)?
        } else {
            planned.clone()
        };
        let change = self.log_batch_intent(&planned, planned.follow, contents)?;
        // A change of one path is atomic in the storage. Readers need to wait only if several paths change.
        if goes_far {
            self.lock.begin_change()?;
        }
        let applied = match self.files.journaled.files.apply(sent.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.abort_intent()?;
                self.lock.end_change()?;
                let is_overtaken = sent != planned && error.kind() == ErrorKind::Conflict;
                let is_led_astray = planned.follow != batch.follow && error.kind() == ErrorKind::PathEscape;
                if is_overtaken || is_led_astray {
                    return Err(AttemptRefusal::Raced);
                }
                return if planned.mutations == batch.mutations {
                    Err(AttemptRefusal::Error(error))
                } else {
                    // The caller must see the error with the paths that it gave, not with the resolved ones.
                    self.expect_refusal(batch, &concerns).await
                };
            }
        };
        touched.extend(paths_after_rename(batch, &concerns, &below));
        if self.files.journaled.reach.is_remote {
            // On a remote storage the answer to the batch tells which of the entries below are gone.
            touched.extend(below.iter().filter_map(|path| parse_ws_path(path)));
        }
        let mut left = self.observe_batch(&sent, &applied, touched).await?;
        left.looked
            .extend(self.files.observe_remaining_paths(&below, &left).await?);
        let doubtful = self.find_uncertain_files(&sent, &applied, &mut left.looked).await?;
        let seen = left.into_all();
        self.learn_file_mode(batch, &applied, &seen);
        self.close_intent(seen).await?;
        self.lock.end_change()?;
        if !doubtful.is_empty() {
            // The change is made, whatever other programs did to it. If this comparison fails, a later one finds the
            // difference.
            let _ = self.compare_with_parents(&doubtful).await;
        }
        Ok(name_change(applied, change, batch))
    }

    /// Returns the files whose content is uncertain, because other programs changed them, or their source, while the
    /// batch ran. Their version is dropped from `seen`, so that the next comparison reads them.
    pub(crate) async fn find_uncertain_files(
        &mut self,
        sent: &Batch,
        applied: &[MutationOutcome],
        seen: &mut [ObservedEntry],
    ) -> Result<Vec<Vec<u8>>> {
        let mut doubtful = Vec::new();
        for one in seen {
            let (Some(path), Some(KnownEntry { token: Some(token), .. })) = (parse_ws_path(&one.path), &one.known)
            else {
                continue;
            };
            if self.determines_content(sent, applied, &path, token).await? || self.is_still_known(&path).await? {
                continue;
            }
            if let Some(known) = &mut one.known {
                known.token = None;
            }
            doubtful.push(one.path.clone());
        }
        Ok(doubtful)
    }

    /// Returns whether the batch determines the content of a file that it left with the version `token`.
    async fn determines_content(
        &mut self,
        sent: &Batch,
        applied: &[MutationOutcome],
        path: &WsPath,
        token: &str,
    ) -> Result<bool> {
        let mut both = sent.mutations.iter().zip(applied).enumerate().rev();
        let Some((index, (last, applied))) = both.find(|(_, (mutation, _))| affects_path(mutation, path)) else {
            return Ok(false);
        };
        match last {
            // The content that was appended to is certain only if the storage was asked to check its version.
            Mutation::Append {
                precondition: Precondition::Any,
                ..
            } => Ok(false),
            Mutation::Write { path: written, .. } | Mutation::Append { path: written, .. } if written == path => {
                self.files.has_applied_version(path, applied, token).await
            }
            Mutation::Copy { from, to, .. } if to == path => {
                let earlier = &sent.mutations[..index];
                Ok(earlier.iter().any(|earlier| affects_path(earlier, from)) || self.is_still_known(from).await?)
            }
            // A rename or a new mode keeps the content of the file, so the recorded content still holds.
            Mutation::Rename { .. } | Mutation::SetMode { .. } => Ok(true),
            _ => Ok(false),
        }
    }

    /// Returns whether a file still has the version that the comparison recorded.
    async fn is_still_known(&mut self, path: &WsPath) -> Result<bool> {
        match self
            .recorded_entry(path.as_str().as_bytes())?
            .and_then(|known| known.token)
        {
            Some(token) => self.files.has_version(path, &token).await,
            None => Ok(false),
        }
    }

    /// Returns whether the caller's preconditions hold. A path that an earlier mutation of the batch changes is not
    /// checked.
    async fn preconditions_hold(&mut self, batch: &Batch, concerns: &[ComparedPath]) -> Result<bool> {
        let mut concerned = concerns.iter();
        let mut met = BTreeSet::new();
        for mutation in &batch.mutations {
            let paths: Vec<_> = paths_of(mutation).into_iter().flatten().collect();
            let places: Vec<_> = concerned.by_ref().take(paths.len()).collect();
            let Some(place) = places.last() else { continue };
            let is_first = met.insert(place.path.clone());
            let holds = match precondition_of(mutation) {
                Some(Precondition::Absent) if is_first => {
                    self.recorded_entry(place.path.as_str().as_bytes())?.is_none()
                }
                Some(Precondition::Version(version)) if is_first => {
                    let known = self
                        .recorded_entry(place.path.as_str().as_bytes())?
                        .and_then(|known| known.token);
                    known.as_deref() == Some(version.as_str())
                        || self.files.has_version(&place.path, version.as_str()).await?
                }
                _ => true,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether each entry that a mutation needs was there at the comparison, or is made by an earlier mutation.
    /// If not, the storage refuses the batch, or another program has just created the entry and the journal could not
    /// record the change.
    fn has_required_entries(&mut self, batch: &Batch, concerns: &[ComparedPath]) -> Result<bool> {
        let mut concerned = concerns.iter();
        let mut made = BTreeSet::new();
        for mutation in &batch.mutations {
            let count = paths_of(mutation).into_iter().flatten().count();
            let places: Vec<_> = concerned.by_ref().take(count).map(|place| &place.path).collect();
            let (Some(first), Some(last)) = (places.first(), places.last()) else {
                continue;
            };
            if requires_existing_entry(mutation)
                && !made.contains(*first)
                && self.recorded_entry(first.as_str().as_bytes())?.is_none()
            {
                // Renames and links can bring the entry to this path; only the depot's tree can tell.
                return Ok(is_intricate(batch));
            }
            // A write also creates the missing directories above it.
            made.extend(last.ancestry());
        }
        Ok(true)
    }

    /// Lets the storage report why it refuses the batch. If it accepts it, because other programs changed the paths in
    /// the meantime, the result is recorded as a change by others.
    async fn expect_refusal(
        &mut self,
        batch: &Batch,
        concerns: &[ComparedPath],
    ) -> Result<Vec<MutationOutcome>, AttemptRefusal> {
        self.lock.begin_change()?;
        let applied = self.files.journaled.files.apply(batch.clone()).await;
        self.lock.end_change()?;
        let applied = applied?;
        let concerns = match self.files.resolve_batch_paths(batch).await? {
            Some(found) => [found, concerns.to_vec()].concat(),
            None => concerns.to_vec(),
        };
        self.compare_paths(&concerns).await?;
        Ok(applied)
    }

    /// Returns the paths that an intricate batch touches, computed on the depot's tree after all of them were compared
    /// with the storage; `None` if the tree refuses the batch.
    async fn compute_touched_paths(
        &mut self,
        batch: &Batch,
        contents: &[Option<RecordContent>],
        concerns: &mut Vec<ComparedPath>,
    ) -> Result<Option<Vec<WsPath>>> {
        for _ in 0..ROUNDS {
            self.synchronize_journal().await?;
            // Each round can find new paths, and comparing those can change the tree, so the result is computed until
            // it is stable.
            let steps = to_logged_steps(&batch.mutations, contents.to_vec());
            let paths = match self.files.room.plan_steps(steps, batch.follow).await {
                Ok(changes) => changes.into_iter().filter_map(|change| change.path.as_path().cloned()),
                Err(error) if is_disk_failure(&error) || error.kind() == ErrorKind::Internal => return Err(error),
                Err(_) => return Ok(None),
            };
            let paths: Vec<_> = paths.collect();
            let is_new = |path: &&WsPath| {
                let covers = |concern: &ComparedPath| {
                    concern.path == **path || (concern.is_deep && path.is_within(&concern.path))
                };
                !concerns.iter().any(covers)
            };
            let new: Vec<_> = paths.iter().filter(is_new).cloned().collect();
            if new.is_empty() {
                return Ok(Some(paths));
            }
            let mut looked = Vec::new();
            for path in new {
                looked.push(ComparedPath { path, is_deep: false });
            }
            self.compare_paths(&looked).await?;
            concerns.extend(looked);
        }
        Ok(None)
    }

    /// Adds the missing directories above the paths.
    fn add_missing_parents(&mut self, touched: &mut BTreeSet<WsPath>) -> Result<()> {
        let mut missing = Vec::new();
        for path in &*touched {
            let mut above = path.parent();
            while let Some(directory) = above.filter(|above| !above.is_root()) {
                if self.recorded_entry(directory.as_str().as_bytes())?.is_some() {
                    break;
                }
                above = directory.parent();
                missing.push(directory);
            }
        }
        touched.extend(missing);
        Ok(())
    }

    /// Returns the recorded paths below the directories that are removed or moved.
    fn recorded_paths_below(&self, concerns: &[ComparedPath]) -> Result<Vec<Vec<u8>>> {
        let mut below = Vec::new();
        for concern in concerns.iter().filter(|concern| concern.is_deep) {
            let known = self
                .state
                .knowledge
                .entries_below(self.files.room, concern.path.as_str().as_bytes())?;
            below.extend(known.into_iter().map(|(path, _)| path));
        }
        Ok(below)
    }

    /// Returns the batch with preconditions on the recorded versions of its files, so that a concurrent change by
    /// another program is not overwritten unseen.
    fn bind_to_recorded_versions(&mut self, batch: &Batch, concerns: &[ComparedPath]) -> Result<Batch> {
        let mut guarded = batch.clone();
        if is_intricate(batch) {
            return Ok(guarded);
        }
        let mut places: HashMap<WsPath, usize> = HashMap::new();
        for concern in concerns {
            *places.entry(concern.path.clone()).or_default() += 1;
        }
        let mut concerned = concerns.iter();
        for mutation in &mut guarded.mutations {
            let count = paths_of(mutation).into_iter().flatten().count();
            let Some(place) = concerned.by_ref().take(count).last() else {
                continue;
            };
            let known = self.recorded_entry(place.path.as_str().as_bytes())?;
            // Only the first mutation of a path could meet the recorded version, so paths that occur twice stay
            // unbound.
            if places.get(&place.path) != Some(&1) {
                continue;
            }
            let binding = match (&*mutation, known) {
                (
                    _,
                    Some(KnownEntry {
                        kind: EntryKind::File,
                        token: Some(token),
                        ..
                    }),
                ) => Precondition::Version(Version::new(token)),
                (Mutation::Write { .. } | Mutation::Append { create: true, .. }, None) => Precondition::Absent,
                _ => continue,
            };
            add_precondition(mutation, binding);
        }
        Ok(guarded)
    }

    /// Remembers the mode that the system gives to new files.
    fn learn_file_mode(&mut self, batch: &Batch, applied: &[MutationOutcome], seen: &[ObservedEntry]) {
        let [Mutation::Write { path, mode: None, .. }] = batch.mutations.as_slice() else {
            return;
        };
        let is_it = |seen: &&ObservedEntry| seen.path == path.as_str().as_bytes();
        if applied[0].created
            && let Some(known) = seen.iter().find(is_it).and_then(|seen| seen.known.as_ref())
        {
            self.state.file_mode = Some(known.mode);
        }
    }
}

/// Returns the outcomes of a batch with the change that it became.
pub(crate) fn name_change(mut applied: Vec<MutationOutcome>, id: String, batch: &Batch) -> Vec<MutationOutcome> {
    // A directory that is there already, and a move of an entry onto itself, make no change.
    let changes_nothing = |(mutation, applied): (&Mutation, &MutationOutcome)| match mutation {
        Mutation::MakeDir { .. } => !applied.created,
        Mutation::Rename { from, to, .. } => from == to,
        _ => false,
    };
    if !batch.mutations.iter().zip(&applied).all(changes_nothing) {
        let made = ChangeMade { id, number: None };
        applied.iter_mut().for_each(|one| one.change = Some(made.clone()));
    }
    applied
}

impl ObservedFiles<'_> {
    async fn has_applied_version(&self, path: &WsPath, applied: &MutationOutcome, token: &str) -> Result<bool> {
        match &applied.version {
            Some(left) if left.as_str() == token => Ok(true),
            Some(left) => self.has_version(path, left.as_str()).await,
            None => Ok(false),
        }
    }

    /// Returns the resolved paths of all mutations, before any of them is applied; `None` if a path cannot be resolved
    /// within the workspace.
    async fn resolve_batch_paths(&self, batch: &Batch) -> Result<Option<Vec<ComparedPath>>> {
        let mut concerns = Vec::new();
        for mutation in &batch.mutations {
            for (path, last, may_be_deep) in paths_of(mutation).into_iter().flatten() {
                let Some(real) = self.resolve_path(path, last, batch.follow).await? else {
                    return Ok(None);
                };
                let is_deep = may_be_deep && self.is_directory(&real).await?;
                concerns.push(ComparedPath { path: real, is_deep });
            }
        }
        if is_intricate(batch) && batch.follow == Follow::Inside {
            for mutation in &batch.mutations {
                for (path, ..) in paths_of(mutation).into_iter().flatten() {
                    concerns.extend(self.find_links_on_path(path).await?);
                }
            }
        }
        Ok(Some(concerns))
    }

    /// Returns the links on the way to a path, so that the depot's tree has them and can follow them too.
    async fn find_links_on_path(&self, path: &WsPath) -> Result<Vec<ComparedPath>> {
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let (mut real, mut links) = (WsPath::root(), Vec::new());
        while let Some(name) = todo.pop() {
            if name == ".." {
                real = real.parent().unwrap_or_else(WsPath::root);
                continue;
            }
            let Ok(next) = real.child(&name) else { break };
            let target = self.stat(&next).await?.and_then(|stat| stat.target);
            let Some(target) = target.filter(|target| !target.starts_with('/') && links.len() < ROUNDS) else {
                real = next;
                continue;
            };
            links.push(ComparedPath {
                path: next,
                is_deep: false,
            });
            let parts = target.split('/').filter(|part| !part.is_empty() && *part != ".");
            todo.extend(parts.rev().map(str::to_owned));
        }
        Ok(links)
    }

    async fn is_directory(&self, path: &WsPath) -> Result<bool> {
        Ok(self
            .stat(path)
            .await?
            .is_some_and(|stat| stat.kind == EntryKind::Directory))
    }

    async fn resolve_path(&self, path: &WsPath, last: FinalLinkMode, follow: Follow) -> Result<Option<WsPath>> {
        if follow == Follow::Never {
            return Ok(Some(path.clone()));
        }
        let resolved = match (last, path.parent(), path.name()) {
            (FinalLinkMode::Kept, Some(above), Some(name)) => match self.journaled.files.resolve(&above).await {
                Ok(above) => above.child(name),
                Err(error) => Err(error),
            },
            _ => self.journaled.files.resolve(path).await,
        };
        match resolved {
            Ok(real) => Ok(Some(real)),
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Internal) => Err(error),
            Err(_) => Ok(None),
        }
    }

    pub(crate) async fn prepare_contents(&self, mutations: &[Mutation]) -> Result<Vec<Option<RecordContent>>> {
        let mut contents = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            contents.push(match mutation {
                Mutation::Write { path, content, .. } => {
                    let kept = self.hold_content(content.clone()).await;
                    Some(kept.map_err(|error| error.at_path(path))?)
                }
                _ => None,
            });
        }
        Ok(contents)
    }

    /// Returns the state of the recorded paths below a removed or moved directory that `observe_batch` does not cover.
    async fn observe_remaining_paths(&self, below: &[Vec<u8>], left: &BatchObservation) -> Result<Vec<ObservedEntry>> {
        let seen = left.told.iter().chain(&left.looked);
        let told: BTreeSet<_> = seen.map(|seen| seen.path.as_slice()).collect();
        let mut gone = Vec::new();
        for path in below.iter().filter(|path| !told.contains(path.as_slice())) {
            let known = match std::str::from_utf8(path).ok().and_then(|text| WsPath::parse(text).ok()) {
                Some(path) => self.stat(&path).await?.as_ref().map(entry_of_stat),
                None => None,
            };
            let path = path.clone();
            gone.push(ObservedEntry { path, known });
        }
        Ok(gone)
    }
}

/// Why an attempt ended.
enum AttemptRefusal {
    Error(Error),
    /// Other programs changed a path during the attempt.
    Raced,
}

impl AttemptRefusal {
    fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Raced => Error::new(ErrorKind::Unavailable, "other programs keep changing the same files"),
        }
    }
}

impl From<Error> for AttemptRefusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns whether a conditional write failed because an entry was not in its recorded state.
fn is_unexpected_state(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::QuotaExceeded | ErrorKind::TooLarge
    )
}

/// Returns whether the mutations can change the target of later paths in the batch.
fn is_intricate(batch: &Batch) -> bool {
    let leads = |mutation: &Mutation| {
        matches!(
            mutation,
            Mutation::Rename { .. } | Mutation::Symlink { .. } | Mutation::Remove { .. }
        )
    };
    batch.mutations.len() > 1 && batch.mutations.iter().any(leads)
}

/// Returns the paths of a mutation, how a link in the last component is treated, and whether entries below the path are
/// affected.
fn paths_of(mutation: &Mutation) -> [Option<(&WsPath, FinalLinkMode, bool)>; 2] {
    match mutation {
        Mutation::Write { path, .. }
        | Mutation::Append { path, .. }
        | Mutation::MakeDir { path, .. }
        | Mutation::SetMode { path, .. } => [Some((path, FinalLinkMode::Followed, false)), None],
        Mutation::Remove { path, .. } => [Some((path, FinalLinkMode::Kept, true)), None],
        Mutation::Symlink { path, .. } => [Some((path, FinalLinkMode::Kept, false)), None],
        Mutation::Rename { from, to, .. } => [
            Some((from, FinalLinkMode::Kept, true)),
            Some((to, FinalLinkMode::Kept, true)),
        ],
        Mutation::Copy { from, to, .. } => [
            Some((from, FinalLinkMode::Followed, false)),
            Some((to, FinalLinkMode::Kept, false)),
        ],
    }
}

/// Returns whether the mutation fails if nothing is at its first path.
fn requires_existing_entry(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Copy { .. } | Mutation::Rename { .. } | Mutation::Remove { .. } | Mutation::SetMode { .. } => true,
        Mutation::Append { create, .. } => !create,
        Mutation::Write { .. } | Mutation::MakeDir { .. } | Mutation::Symlink { .. } => false,
    }
}

fn precondition_of(mutation: &Mutation) -> Option<&Precondition> {
    match mutation {
        Mutation::Write { precondition, .. }
        | Mutation::Append { precondition, .. }
        | Mutation::Remove { precondition, .. } => Some(precondition),
        _ => None,
    }
}

/// Adds a precondition to a mutation that has none.
fn add_precondition(mutation: &mut Mutation, binding: Precondition) {
    match mutation {
        Mutation::Write { precondition, .. }
        | Mutation::Append { precondition, .. }
        | Mutation::Remove { precondition, .. }
            if *precondition == Precondition::Any =>
        {
            *precondition = binding;
        }
        _ => {}
    }
}

fn parse_ws_path(bytes: &[u8]) -> Option<WsPath> {
    WsPath::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// Returns whether a mutation affects the entry at `path`.
fn affects_path(mutation: &Mutation, path: &WsPath) -> bool {
    let paths = paths_of(mutation).into_iter().flatten();
    paths.into_iter().any(|(met, ..)| path.is_within(met))
}

/// Returns the batch with resolved paths and with links no longer followed.
fn with_resolved_paths(batch: &Batch, concerns: &[ComparedPath]) -> Batch {
    let mut batch = Batch {
        follow: Follow::Never,
        ..batch.clone()
    };
    let mut places = concerns.iter().map(|concern| concern.path.clone());
    let mut next = |path: &mut WsPath| {
        if let Some(place) = places.next() {
            *path = place;
        }
    };
    for mutation in &mut batch.mutations {
        match mutation {
            Mutation::Write { path, .. }
            | Mutation::Append { path, .. }
            | Mutation::Remove { path, .. }
            | Mutation::MakeDir { path, .. }
            | Mutation::Symlink { path, .. }
            | Mutation::SetMode { path, .. } => next(path),
            Mutation::Rename { from, to, .. } | Mutation::Copy { from, to, .. } => {
                next(from);
                next(to);
            }
        }
    }
    batch
}

/// Returns the mutations as the log stores them: without preconditions, and with their content apart.
fn to_logged_steps(mutations: &[Mutation], contents: Vec<Option<RecordContent>>) -> Vec<LoggedStep> {
    let logged = |(mutation, content): (&Mutation, Option<RecordContent>)| {
        let mut mutation = mutation.clone();
        match &mut mutation {
            Mutation::Write {
                precondition, content, ..
            } => {
                *precondition = Precondition::Any;
                *content = Content::default();
            }
            Mutation::Append { precondition, .. } | Mutation::Remove { precondition, .. } => {
                *precondition = Precondition::Any;
            }
            _ => {}
        }
        LoggedStep { mutation, content }
    };
    mutations.iter().zip(contents).map(logged).collect()
}

/// Returns the new paths of the recorded entries below a moved directory.
fn paths_after_rename(batch: &Batch, concerns: &[ComparedPath], below: &[Vec<u8>]) -> Vec<WsPath> {
    let [Mutation::Rename { .. }] = batch.mutations.as_slice() else {
        return Vec::new();
    };
    let [from, to] = concerns else { return Vec::new() };
    let paths = below.iter().filter_map(|path| {
        let path = WsPath::parse(std::str::from_utf8(path).ok()?).ok()?;
        path.relative_to(&from.path)?.rebase_below(&to.path).ok()
    });
    paths.collect()
}
