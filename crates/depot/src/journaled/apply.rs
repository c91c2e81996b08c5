//! Applies a batch of mutations to the storage and records it in the journal.

use std::collections::{BTreeSet, HashMap};

use garret_core::{
    Applied, Batch, Content, EntryKind, Error, ErrorKind, Follow, Mutation, Precondition, Result, Version, WsPath,
};

use super::ingest::foreseen;
use super::left::Left;
use super::look::{Concern, known_of};
use super::record::{Authorship, Held, Intent, Known, LoggedStep, Seen, Work};
use super::turn::Turn;
use crate::change::summary_of;
use crate::error::is_failure;

/// Number of times that a batch is started again because other programs changed its paths in the meantime.
const TRIES: usize = 5;
/// Number of times that the set of paths which a batch touches is computed again.
const ROUNDS: usize = 40;

/// Says whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Followed,
    Kept,
}

impl Turn<'_> {
    /// Applies the batch as one change.
    pub(super) async fn apply(mut self, mut batch: Batch) -> Result<Vec<Applied>> {
        if batch.origin.summary.is_empty() {
            batch.origin.summary = summary_of(&batch);
        }
        let made = self.way_to(&batch).await?;
        if let Some(guarded) = self.quick(&batch, &made)? {
            match self.apply_quickly(guarded, made).await {
                Ok(applied) => return Ok(applied),
                // An entry is not in its recorded state. The full attempt finds out why, or returns the proper error.
                Err(error) if is_surprise(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..TRIES {
            match self.attempt(&batch, true).await {
                Err(Refusal::Raced) => {}
                Err(Refusal::Error(error)) => return Err(error),
                Ok(applied) => return Ok(applied),
            }
        }
        self.attempt(&batch, false).await.map_err(Refusal::into_error)
    }

    /// Writes the intent of `batch` to the log.
    pub(super) fn begin(&mut self, batch: &Batch, follow: Follow, contents: Vec<Option<Held>>) -> Result<()> {
        let intent = Intent {
            id: self.next_id(),
            // The change gets its id when it enters the journal; nobody asks for it earlier.
            by: Authorship::new(String::new(), self.now(), batch.origin.clone()),
            work: Work::Batch {
                follow,
                steps: steps(&batch.mutations, contents),
            },
        };
        self.open_intent(intent)
    }

    /// Makes one full attempt: compares the paths, logs the intent, applies the batch and closes the intent.
    async fn attempt(&mut self, batch: &Batch, is_guarded: bool) -> Result<Vec<Applied>, Refusal> {
        let Some(mut concerns) = self.concerns(batch).await? else {
            return self.expect_refusal(batch, &[]).await;
        };
        self.look_at(&concerns).await?;
        if !self.preconditions_hold(batch, &concerns).await? || !self.has_what_it_needs(batch, &concerns)? {
            return self.expect_refusal(batch, &concerns).await;
        }
        let contents = self.contents(&batch.mutations).await?;
        let mut touched: BTreeSet<WsPath> = concerns.iter().map(|concern| concern.path.clone()).collect();
        if is_intricate(batch) {
            match self.foresee(batch, &contents, &mut concerns).await? {
                Some(paths) => touched.extend(paths),
                None => return self.expect_refusal(batch, &concerns).await,
            }
        }
        self.add_missing_above(&mut touched)?;
        let goes_far = batch.mutations.len() > 1 || touched.len() > concerns.len();
        let below = self.known_below(&concerns)?;
        let planned = if is_intricate(batch) {
            batch.clone()
        } else {
            // The resolved paths are logged and applied, so that a program that exchanges a link at this moment cannot
            // redirect the change.
            at_real_paths(batch, &concerns)
        };
        let sent = if is_guarded {
            self.guarded(&planned, &concerns)?
        } else {
            planned.clone()
        };
        self.begin(&planned, planned.follow, contents)?;
        // A change of one path is atomic in the storage. Readers need to wait only if several paths change.
        if goes_far {
            self.lock.begin()?;
        }
        let applied = match self.journaled.files.apply(sent.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.abort()?;
                self.lock.end()?;
                let is_overtaken = sent != planned && error.kind() == ErrorKind::Conflict;
                let is_led_astray = planned.follow != batch.follow && error.kind() == ErrorKind::PathEscape;
                if is_overtaken || is_led_astray {
                    return Err(Refusal::Raced);
                }
                return if planned.mutations == batch.mutations {
                    Err(Refusal::Error(error))
                } else {
                    // The caller must see the error with the paths that it gave, not with the resolved ones.
                    self.expect_refusal(batch, &concerns).await
                };
            }
        };
        touched.extend(moved(batch, &concerns, &below));
        if self.journaled.reach.is_far {
            // On a remote storage the answer to the batch tells which of the entries below are gone.
            touched.extend(below.iter().filter_map(|path| path_of(path)));
        }
        let mut left = self.left(&sent, &applied, touched).await?;
        left.looked.extend(self.gone(&below, &left).await?);
        let doubtful = self.doubtful(&sent, &applied, &mut left.looked).await?;
        let seen = left.all();
        self.learn_file_mode(batch, &applied, &seen);
        self.close(seen).await?;
        self.lock.end()?;
        if !doubtful.is_empty() {
            // The change is made, whatever other programs did to it. If this comparison fails, a later one finds the
            // difference.
            let _ = self.look_again(&doubtful).await;
        }
        Ok(applied)
    }

    /// Returns the files whose content is uncertain, because other programs changed them, or their source, while the
    /// batch ran. Their version is dropped from `seen`, so that the next comparison reads them.
    pub(super) async fn doubtful(
        &mut self,
        sent: &Batch,
        applied: &[Applied],
        seen: &mut [Seen],
    ) -> Result<Vec<Vec<u8>>> {
        let mut doubtful = Vec::new();
        for one in seen {
            let (Some(path), Some(Known { token: Some(token), .. })) = (path_of(&one.path), &one.known) else {
                continue;
            };
            if self.vouches(sent, applied, &path, token).await? || self.is_still_known(&path).await? {
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
    async fn vouches(&mut self, sent: &Batch, applied: &[Applied], path: &WsPath, token: &str) -> Result<bool> {
        let mut both = sent.mutations.iter().zip(applied).enumerate().rev();
        let Some((index, (last, applied))) = both.find(|(_, (mutation, _))| meets(mutation, path)) else {
            return Ok(false);
        };
        match last {
            // The content that was appended to is certain only if the storage was asked to check its version.
            Mutation::Append {
                precondition: Precondition::Any,
                ..
            } => Ok(false),
            Mutation::Write { path: written, .. } | Mutation::Append { path: written, .. } if written == path => {
                self.is_what_was_left(path, applied, token).await
            }
            Mutation::Copy { from, to, .. } if to == path => {
                let earlier = &sent.mutations[..index];
                Ok(earlier.iter().any(|earlier| meets(earlier, from)) || self.is_still_known(from).await?)
            }
            // A rename or a new mode keeps the content of the file, so the recorded content still holds.
            Mutation::Rename { .. } | Mutation::SetMode { .. } => Ok(true),
            _ => Ok(false),
        }
    }

    async fn is_what_was_left(&self, path: &WsPath, applied: &Applied, token: &str) -> Result<bool> {
        match &applied.version {
            Some(left) if left.as_str() == token => Ok(true),
            Some(left) => self.holds(path, left.as_str()).await,
            None => Ok(false),
        }
    }

    /// Returns whether a file still has the version that the comparison recorded.
    async fn is_still_known(&mut self, path: &WsPath) -> Result<bool> {
        match self.known(path.as_str().as_bytes())?.and_then(|known| known.token) {
            Some(token) => self.holds(path, &token).await,
            None => Ok(false),
        }
    }

    /// Returns the resolved paths of all mutations, before any of them is applied; `None` if a path cannot be resolved
    /// within the workspace.
    async fn concerns(&self, batch: &Batch) -> Result<Option<Vec<Concern>>> {
        let mut concerns = Vec::new();
        for mutation in &batch.mutations {
            for (path, last, may_be_deep) in paths_of(mutation).into_iter().flatten() {
                let Some(real) = self.real(path, last, batch.follow).await? else {
                    return Ok(None);
                };
                let is_deep = may_be_deep && self.is_directory(&real).await?;
                concerns.push(Concern { path: real, is_deep });
            }
        }
        if is_intricate(batch) && batch.follow == Follow::Inside {
            for mutation in &batch.mutations {
                for (path, ..) in paths_of(mutation).into_iter().flatten() {
                    concerns.extend(self.links_on(path).await?);
                }
            }
        }
        Ok(Some(concerns))
    }

    /// Returns the links on the way to a path, so that the depot's tree has them and can follow them too.
    async fn links_on(&self, path: &WsPath) -> Result<Vec<Concern>> {
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
            links.push(Concern {
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

    async fn real(&self, path: &WsPath, last: Last, follow: Follow) -> Result<Option<WsPath>> {
        if follow == Follow::Never {
            return Ok(Some(path.clone()));
        }
        let resolved = match (last, path.parent(), path.name()) {
            (Last::Kept, Some(above), Some(name)) => match self.journaled.files.resolve(&above).await {
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

    /// Returns whether the caller's preconditions hold. A path that an earlier mutation of the batch changes is not
    /// checked.
    async fn preconditions_hold(&mut self, batch: &Batch, concerns: &[Concern]) -> Result<bool> {
        let mut concerned = concerns.iter();
        let mut met = BTreeSet::new();
        for mutation in &batch.mutations {
            let paths: Vec<_> = paths_of(mutation).into_iter().flatten().collect();
            let places: Vec<_> = concerned.by_ref().take(paths.len()).collect();
            let Some(place) = places.last() else { continue };
            let is_first = met.insert(place.path.clone());
            let holds = match precondition_of(mutation) {
                Some(Precondition::Absent) if is_first => self.known(place.path.as_str().as_bytes())?.is_none(),
                Some(Precondition::Version(version)) if is_first => {
                    let known = self
                        .known(place.path.as_str().as_bytes())?
                        .and_then(|known| known.token);
                    known.as_deref() == Some(version.as_str()) || self.holds(&place.path, version.as_str()).await?
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
    fn has_what_it_needs(&mut self, batch: &Batch, concerns: &[Concern]) -> Result<bool> {
        let mut concerned = concerns.iter();
        let mut made = BTreeSet::new();
        for mutation in &batch.mutations {
            let count = paths_of(mutation).into_iter().flatten().count();
            let places: Vec<_> = concerned.by_ref().take(count).map(|place| &place.path).collect();
            let (Some(first), Some(last)) = (places.first(), places.last()) else {
                continue;
            };
            if needs(mutation) && !made.contains(*first) && self.known(first.as_str().as_bytes())?.is_none() {
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
    async fn expect_refusal(&mut self, batch: &Batch, concerns: &[Concern]) -> Result<Vec<Applied>, Refusal> {
        self.lock.begin()?;
        let applied = self.journaled.files.apply(batch.clone()).await;
        self.lock.end()?;
        let applied = applied?;
        let concerns = match self.concerns(batch).await? {
            Some(found) => [found, concerns.to_vec()].concat(),
            None => concerns.to_vec(),
        };
        self.look_at(&concerns).await?;
        Ok(applied)
    }

    pub(super) async fn contents(&self, mutations: &[Mutation]) -> Result<Vec<Option<Held>>> {
        let mut contents = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            contents.push(match mutation {
                Mutation::Write { path, content, .. } => {
                    let kept = self.keep(content.clone()).await;
                    Some(kept.map_err(|error| error.at(path))?)
                }
                _ => None,
            });
        }
        Ok(contents)
    }

    /// Returns the paths that an intricate batch touches, computed on the depot's tree after all of them were compared
    /// with the storage; `None` if the tree refuses the batch.
    async fn foresee(
        &mut self,
        batch: &Batch,
        contents: &[Option<Held>],
        concerns: &mut Vec<Concern>,
    ) -> Result<Option<Vec<WsPath>>> {
        for _ in 0..ROUNDS {
            self.drain().await?;
            // Each round can find new paths, and comparing those can change the tree, so the result is computed until
            // it is stable.
            let steps = steps(&batch.mutations, contents.to_vec());
            let paths = match foreseen(self.room, steps, batch.follow).await {
                Ok(changes) => changes.into_iter().filter_map(|change| change.path.as_path().cloned()),
                Err(error) if is_failure(&error) || error.kind() == ErrorKind::Internal => return Err(error),
                Err(_) => return Ok(None),
            };
            let paths: Vec<_> = paths.collect();
            let is_new = |path: &&WsPath| {
                let covers =
                    |concern: &Concern| concern.path == **path || (concern.is_deep && path.is_within(&concern.path));
                !concerns.iter().any(covers)
            };
            let new: Vec<_> = paths.iter().filter(is_new).cloned().collect();
            if new.is_empty() {
                return Ok(Some(paths));
            }
            let mut looked = Vec::new();
            for path in new {
                looked.push(Concern { path, is_deep: false });
            }
            self.look_at(&looked).await?;
            concerns.extend(looked);
        }
        Ok(None)
    }

    /// Adds the missing directories above the paths.
    fn add_missing_above(&mut self, touched: &mut BTreeSet<WsPath>) -> Result<()> {
        let mut missing = Vec::new();
        for path in &*touched {
            let mut above = path.parent();
            while let Some(directory) = above.filter(|above| !above.is_root()) {
                if self.known(directory.as_str().as_bytes())?.is_some() {
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
    fn known_below(&self, concerns: &[Concern]) -> Result<Vec<Vec<u8>>> {
        let mut below = Vec::new();
        for concern in concerns.iter().filter(|concern| concern.is_deep) {
            let known = self
                .state
                .knowledge
                .below(self.room, concern.path.as_str().as_bytes())?;
            below.extend(known.into_iter().map(|(path, _)| path));
        }
        Ok(below)
    }

    /// Returns the state of the recorded paths below a removed or moved directory that `left` does not cover.
    async fn gone(&self, below: &[Vec<u8>], left: &Left) -> Result<Vec<Seen>> {
        let seen = left.told.iter().chain(&left.looked);
        let told: BTreeSet<_> = seen.map(|seen| seen.path.as_slice()).collect();
        let mut gone = Vec::new();
        for path in below.iter().filter(|path| !told.contains(path.as_slice())) {
            let known = match std::str::from_utf8(path).ok().and_then(|text| WsPath::parse(text).ok()) {
                Some(path) => self.stat(&path).await?.as_ref().map(known_of),
                None => None,
            };
            let path = path.clone();
            gone.push(Seen { path, known });
        }
        Ok(gone)
    }

    /// Returns the batch with preconditions on the recorded versions of its files, so that a concurrent change by
    /// another program is not overwritten unseen.
    fn guarded(&mut self, batch: &Batch, concerns: &[Concern]) -> Result<Batch> {
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
            let known = self.known(place.path.as_str().as_bytes())?;
            // Only the first mutation of a path could meet the recorded version, so paths that occur twice stay
            // unbound.
            if places.get(&place.path) != Some(&1) {
                continue;
            }
            let binding = match (&*mutation, known) {
                (
                    _,
                    Some(Known {
                        kind: EntryKind::File,
                        token: Some(token),
                        ..
                    }),
                ) => Precondition::Version(Version::new(token)),
                (Mutation::Write { .. } | Mutation::Append { create: true, .. }, None) => Precondition::Absent,
                _ => continue,
            };
            bind(mutation, binding);
        }
        Ok(guarded)
    }

    /// Remembers the mode that the system gives to new files.
    fn learn_file_mode(&mut self, batch: &Batch, applied: &[Applied], seen: &[Seen]) {
        let [Mutation::Write { path, mode: None, .. }] = batch.mutations.as_slice() else {
            return;
        };
        let is_it = |seen: &&Seen| seen.path == path.as_str().as_bytes();
        if applied[0].created
            && let Some(known) = seen.iter().find(is_it).and_then(|seen| seen.known.as_ref())
        {
            self.state.file_mode = Some(known.mode);
        }
    }
}

/// Why an attempt ended.
enum Refusal {
    Error(Error),
    /// Other programs changed a path during the attempt.
    Raced,
}

impl Refusal {
    fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Raced => Error::new(ErrorKind::Unavailable, "other programs keep changing the same files"),
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns whether a conditional write failed because an entry was not in its recorded state.
fn is_surprise(error: &Error) -> bool {
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
fn paths_of(mutation: &Mutation) -> [Option<(&WsPath, Last, bool)>; 2] {
    match mutation {
        Mutation::Write { path, .. }
        | Mutation::Append { path, .. }
        | Mutation::MakeDir { path, .. }
        | Mutation::SetMode { path, .. } => [Some((path, Last::Followed, false)), None],
        Mutation::Remove { path, .. } => [Some((path, Last::Kept, true)), None],
        Mutation::Symlink { path, .. } => [Some((path, Last::Kept, false)), None],
        Mutation::Rename { from, to, .. } => [Some((from, Last::Kept, true)), Some((to, Last::Kept, true))],
        Mutation::Copy { from, to, .. } => [Some((from, Last::Followed, false)), Some((to, Last::Kept, false))],
    }
}

/// Returns whether the mutation fails if nothing is at its first path.
fn needs(mutation: &Mutation) -> bool {
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
fn bind(mutation: &mut Mutation, binding: Precondition) {
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

fn path_of(bytes: &[u8]) -> Option<WsPath> {
    WsPath::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// Returns whether a mutation affects the entry at `path`.
fn meets(mutation: &Mutation, path: &WsPath) -> bool {
    let paths = paths_of(mutation).into_iter().flatten();
    paths.into_iter().any(|(met, ..)| path.is_within(met))
}

/// Returns the batch with resolved paths and with links no longer followed.
fn at_real_paths(batch: &Batch, concerns: &[Concern]) -> Batch {
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
fn steps(mutations: &[Mutation], contents: Vec<Option<Held>>) -> Vec<LoggedStep> {
    let logged = |(mutation, content): (&Mutation, Option<Held>)| {
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
fn moved(batch: &Batch, concerns: &[Concern], below: &[Vec<u8>]) -> Vec<WsPath> {
    let [Mutation::Rename { .. }] = batch.mutations.as_slice() else {
        return Vec::new();
    };
    let [from, to] = concerns else { return Vec::new() };
    let paths = below.iter().filter_map(|path| {
        let path = WsPath::parse(std::str::from_utf8(path).ok()?).ok()?;
        path.relative_to(&from.path)?.below(&to.path).ok()
    });
    paths.collect()
}
