//! A batch of mutations, journaled.

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

/// How often a batch is begun again because other programs changed its paths just then.
const TRIES: usize = 5;
/// How often what a batch touches is worked out again.
const ROUNDS: usize = 40;

/// Whether a link in the last place of a path is followed.
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
        if let Some(guarded) = self.quick(&batch)? {
            match self.apply_quickly(guarded).await {
                Ok(applied) => return Ok(applied),
                // Something is not as it was known: the long way finds out what, or gives the error that is due.
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

    /// Puts the intent of `batch` into the log.
    pub(super) fn begin(&mut self, batch: &Batch, follow: Follow, contents: Vec<Option<Held>>) -> Result<()> {
        let intent = Intent {
            id: self.next_id(),
            // Its id comes with its entry into the journal: nobody asks for it before.
            by: Authorship::new(String::new(), self.now(), batch.origin.clone()),
            work: Work::Batch {
                follow,
                steps: steps(&batch.mutations, contents),
            },
        };
        self.open_intent(intent)
    }

    /// One try of the long way.
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
        let planned = match is_intricate(batch) {
            true => batch.clone(),
            // Where the links led is written down and done, so that nobody who exchanges one just now leads it elsewhere.
            false => at_real_paths(batch, &concerns),
        };
        let sent = if is_guarded {
            self.guarded(&planned, &concerns)?
        } else {
            planned.clone()
        };
        self.begin(&planned, planned.follow, contents)?;
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
                return match planned.mutations == batch.mutations {
                    true => Err(Refusal::Error(error)),
                    // In the words of the paths that were given.
                    false => self.expect_refusal(batch, &concerns).await,
                };
            }
        };
        touched.extend(moved(batch, &concerns, &below));
        if self.journaled.reach.is_far {
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
            // It is done, whatever others made of it; where this fails, a later look finds it.
            let _ = self.look_again(&doubtful).await;
        }
        Ok(applied)
    }

    /// The files whose content nobody vouches for, because others changed them, or what they were made of, in the middle of the batch
    /// that was sent. No version of them is remembered, so that a look reads them.
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

    /// Whether the batch tells what is in a file that it left with the version `token`.
    async fn vouches(&mut self, sent: &Batch, applied: &[Applied], path: &WsPath, token: &str) -> Result<bool> {
        let mut both = sent.mutations.iter().zip(applied).enumerate().rev();
        let Some((index, (last, applied))) = both.find(|(_, (mutation, _))| meets(mutation, path)) else {
            return Ok(false);
        };
        match last {
            // What it was appended to is known only where the storage was asked to check it.
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
            // What a file becomes when it is moved, or gets another mode, does not tell what it was.
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

    /// Whether a file is still what it was at the look.
    async fn is_still_known(&mut self, path: &WsPath) -> Result<bool> {
        match self.known(path.as_str().as_bytes())?.and_then(|known| known.token) {
            Some(token) => self.holds(path, &token).await,
            None => Ok(false),
        }
    }

    /// What is at the paths of the steps, before any of them; `None` where a path leads nowhere it may.
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

    /// The links that a path passes, so that the depot's tree can follow them too.
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

    /// Whether what the caller demands holds, as far as the steps before do not change it.
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

    /// Whether everything that a step begins with was there at the look, or comes by a step before. Otherwise the storage will refuse it;
    /// or others put it there just now, and then the journal could not tell what was done with it.
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
                return Ok(is_intricate(batch));
            }
            // What is written brings the directories above it along.
            made.extend(last.ancestry());
        }
        Ok(true)
    }

    /// Lets the storage say why it refuses. Where it does not, because other programs were at work just then, what it did is recorded
    /// as found.
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

    /// What an intricate batch touches, worked out on the depot's tree, once everything it touches was looked at; `None` where the
    /// tree refuses it.
    async fn foresee(
        &mut self,
        batch: &Batch,
        contents: &[Option<Held>],
        concerns: &mut Vec<Concern>,
    ) -> Result<Option<Vec<WsPath>>> {
        for _ in 0..ROUNDS {
            self.drain().await?;
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

    /// Adds the directories above that are not there yet.
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

    /// What is known below the directories that go or move.
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

    /// Those of the known paths that are no longer there.
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

    /// The batch, bound to what is known of the files that it changes, so that what others do just now is not overwritten unseen.
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

    /// Remembers the mode that the system gives new files.
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

/// Why a try ended.
enum Refusal {
    Error(Error),
    /// Other programs changed a path just then.
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

/// Whether a quick write failed because something was not as it was known.
fn is_surprise(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::QuotaExceeded | ErrorKind::TooLarge
    )
}

/// Whether the steps can change where later ones lead.
fn is_intricate(batch: &Batch) -> bool {
    let leads = |mutation: &Mutation| {
        matches!(
            mutation,
            Mutation::Rename { .. } | Mutation::Symlink { .. } | Mutation::Remove { .. }
        )
    };
    batch.mutations.len() > 1 && batch.mutations.iter().any(leads)
}

/// The paths of a mutation, how a link in the last place is treated, and whether what lies below counts.
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

/// Whether nothing can be done where nothing is at its first path.
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

/// Gives a mutation that demands nothing a demand.
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

/// Whether a mutation has to do with what is at `path`.
fn meets(mutation: &Mutation, path: &WsPath) -> bool {
    let paths = paths_of(mutation).into_iter().flatten();
    paths.into_iter().any(|(met, ..)| path.is_within(met))
}

/// The batch with each path where its links lead, and none to be followed.
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

/// The mutations as they are logged: without demands, and with their content apart.
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

/// Where what is known below a moved directory comes to be.
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
