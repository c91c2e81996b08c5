//! A batch with the paths that its mutations reach, and its relation to the recorded entries.

use std::collections::{BTreeSet, HashMap};

use garret_core::{Batch, Content, EntryKind, ErrorKind, Follow, Mutation, Precondition, Result, Version, WsPath};
use garret_depot::outside_files::{KnownEntry, LoggedStep, RecordContent, is_disk_failure};

use crate::compare::{ComparedPath, StorageComparer};
use crate::journal_records::JournalRecords;
use crate::observed_files::ObservedFiles;

/// Number of times that the set of paths which a batch touches is computed again.
const ROUNDS: usize = 40;

/// Says whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinalLinkMode {
    Followed,
    Kept,
}

/// A batch with its resolved paths.
pub(crate) struct ResolvedBatch<'b> {
    batch: &'b Batch,
    /// The paths of the mutations, in order; then other paths that were compared for the batch.
    places: Vec<ComparedPath>,
}

impl<'b> ResolvedBatch<'b> {
    /// Resolves the paths of all mutations, before any of them is applied; `None` if a path cannot be resolved within
    /// the workspace.
    pub(crate) async fn resolve(files: ObservedFiles<'_>, batch: &'b Batch) -> Result<Option<Self>> {
        let mut places = Vec::new();
        for mutation in &batch.mutations {
            for (path, last, may_be_deep) in paths_of(mutation).into_iter().flatten() {
                let Some(path) = resolve_path(files, path, last, batch.follow).await? else {
                    return Ok(None);
                };
                let stat = if may_be_deep { files.stat(&path).await? } else { None };
                let is_deep = stat.is_some_and(|stat| stat.kind == EntryKind::Directory);
                places.push(ComparedPath { path, is_deep });
            }
        }
        if is_intricate(batch) && batch.follow == Follow::Inside {
            for mutation in &batch.mutations {
                for (path, ..) in paths_of(mutation).into_iter().flatten() {
                    places.extend(find_links_on_path(files, path).await?);
                }
            }
        }
        Ok(Some(Self { batch, places }))
    }

    pub(crate) fn places(&self) -> &[ComparedPath] {
        &self.places
    }

    /// Returns each mutation with its resolved paths.
    fn resolved_mutations(&self) -> impl Iterator<Item = (&'b Mutation, &[ComparedPath])> {
        let mut rest = self.places.as_slice();
        self.batch.mutations.iter().map(move |mutation| {
            let count = paths_of(mutation).into_iter().flatten().count();
            let (places, others) = rest.split_at(count);
            rest = others;
            (mutation, places)
        })
    }

    /// Returns whether the caller's preconditions hold. A path that an earlier mutation of the batch changes is not
    /// checked.
    pub(crate) async fn preconditions_hold(&self, comparer: &mut StorageComparer<'_>) -> Result<bool> {
        let mut met = BTreeSet::new();
        for (mutation, places) in self.resolved_mutations() {
            let Some(ComparedPath { path, .. }) = places.last().filter(|place| met.insert(&place.path)) else {
                continue;
            };
            let holds = match precondition_of(mutation) {
                Some(Precondition::Absent) => comparer.records.entry_at(path)?.is_none(),
                Some(Precondition::Version(version)) => {
                    let known = comparer.records.entry_at(path)?.and_then(|known| known.token);
                    known.as_deref() == Some(version.as_str())
                        || comparer.files.has_version(path, version.as_str()).await?
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
    pub(crate) fn has_required_entries(&self, records: &mut JournalRecords<'_>) -> Result<bool> {
        let mut made = BTreeSet::new();
        for (mutation, places) in self.resolved_mutations() {
            let (Some(first), Some(last)) = (places.first(), places.last()) else {
                continue;
            };
            if requires_existing_entry(mutation)
                && !made.contains(&first.path)
                && records.entry_at(&first.path)?.is_none()
            {
                // Renames and links can bring the entry to this path; only the depot's tree can tell.
                return Ok(is_intricate(self.batch));
            }
            // A write also creates the missing directories above it.
            made.extend(last.path.ancestry());
        }
        Ok(true)
    }

    /// Returns the paths that the batch touches; `None` if the depot's tree refuses an intricate batch.
    pub(crate) async fn touched_paths(
        &mut self,
        comparer: &mut StorageComparer<'_>,
        contents: &[Option<RecordContent>],
    ) -> Result<Option<BTreeSet<WsPath>>> {
        let mut touched: BTreeSet<_> = self.places.iter().map(|place| place.path.clone()).collect();
        if is_intricate(self.batch) {
            match self.compute_touched_paths(comparer, contents).await? {
                Some(paths) => touched.extend(paths),
                None => return Ok(None),
            }
        }
        let mut missing = Vec::new();
        for path in &touched {
            let mut above = path.parent();
            while let Some(directory) = above.filter(|above| !above.is_root()) {
                if comparer.records.entry_at(&directory)?.is_some() {
                    break;
                }
                above = directory.parent();
                missing.push(directory);
            }
        }
        touched.extend(missing);
        Ok(Some(touched))
    }

    /// Returns the paths that an intricate batch touches, computed on the depot's tree after all of them were compared
    /// with the storage; `None` if the tree refuses the batch.
    async fn compute_touched_paths(
        &mut self,
        comparer: &mut StorageComparer<'_>,
        contents: &[Option<RecordContent>],
    ) -> Result<Option<Vec<WsPath>>> {
        for _ in 0..ROUNDS {
            comparer.synchronize_journal().await?;
            // Each round can find new paths, and comparing those can change the tree, so the result is computed until
            // it is stable.
            let steps = to_logged_steps(&self.batch.mutations, contents.to_vec());
            let paths = match comparer.files.room.preview_steps(steps, self.batch.follow).await {
                Ok(changes) => changes.into_iter().filter_map(|change| change.path.as_path().cloned()),
                Err(error) if is_disk_failure(&error) || error.kind() == ErrorKind::Internal => return Err(error),
                Err(_) => return Ok(None),
            };
            let paths: Vec<_> = paths.collect();
            let is_new = |path: &&WsPath| {
                let covers =
                    |place: &ComparedPath| place.path == **path || (place.is_deep && path.is_within(&place.path));
                !self.places.iter().any(covers)
            };
            let new = paths.iter().filter(is_new).cloned();
            let new: Vec<_> = new.map(|path| ComparedPath { path, is_deep: false }).collect();
            if new.is_empty() {
                return Ok(Some(paths));
            }
            comparer.compare_paths(&new).await?;
            self.places.extend(new);
        }
        Ok(None)
    }

    /// Returns the recorded paths below the directories that are removed or moved.
    pub(crate) fn recorded_paths_below(&self, records: &JournalRecords<'_>) -> Result<Vec<Vec<u8>>> {
        let mut below = Vec::new();
        for place in self.places.iter().filter(|place| place.is_deep) {
            let known = records.entries_below(place.path.as_str().as_bytes())?;
            below.extend(known.into_iter().map(|(path, _)| path));
        }
        Ok(below)
    }

    /// Returns the batch to log and to apply: with resolved paths, so that a program that exchanges a link at this
    /// moment cannot redirect the change. The paths of an intricate batch stay, because its mutations change where they
    /// lead.
    pub(crate) fn with_resolved_paths(&self) -> Batch {
        let mut batch = self.batch.clone();
        if is_intricate(&batch) {
            return batch;
        }
        batch.follow = Follow::Never;
        for (mutation, (_, places)) in batch.mutations.iter_mut().zip(self.resolved_mutations()) {
            let resolved = places.iter().map(|place| place.path.clone());
            paths_of_mut(mutation)
                .into_iter()
                .flatten()
                .zip(resolved)
                .for_each(|(path, real)| *path = real);
        }
        batch
    }

    /// Returns `planned`, the batch with resolved paths, with preconditions on the recorded versions of its files, so
    /// that a concurrent change by another program is not overwritten unseen.
    pub(crate) fn bind_to_recorded_versions(&self, records: &mut JournalRecords<'_>, planned: &Batch) -> Result<Batch> {
        let mut guarded = planned.clone();
        if is_intricate(planned) {
            return Ok(guarded);
        }
        let mut counts: HashMap<&WsPath, usize> = HashMap::new();
        for place in &self.places {
            *counts.entry(&place.path).or_default() += 1;
        }
        for (mutation, (_, places)) in guarded.mutations.iter_mut().zip(self.resolved_mutations()) {
            // Only the first mutation of a path could meet the recorded version, so paths that occur twice stay
            // unbound.
            let Some(place) = places.last().filter(|place| counts[&place.path] == 1) else {
                continue;
            };
            let binding = match (&*mutation, records.entry_at(&place.path)?) {
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
            if let Some(precondition) = precondition_of_mut(mutation).filter(|given| **given == Precondition::Any) {
                *precondition = binding;
            }
        }
        Ok(guarded)
    }

    /// Returns the new paths of the recorded entries below a moved directory.
    pub(crate) fn paths_after_rename(&self, below: &[Vec<u8>]) -> Vec<WsPath> {
        let ([Mutation::Rename { .. }], [from, to]) = (self.batch.mutations.as_slice(), self.places.as_slice()) else {
            return Vec::new();
        };
        let moved = |path: WsPath| path.relative_to(&from.path)?.rebase_below(&to.path).ok();
        below.iter().filter_map(|path| moved(parse_ws_path(path)?)).collect()
    }
}

/// Returns the links on the way to a path, so that the depot's tree has them and can follow them too.
async fn find_links_on_path(files: ObservedFiles<'_>, path: &WsPath) -> Result<Vec<ComparedPath>> {
    let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
    let (mut real, mut links) = (WsPath::root(), Vec::new());
    while let Some(name) = todo.pop() {
        if name == ".." {
            real = real.parent().unwrap_or_else(WsPath::root);
            continue;
        }
        let Ok(next) = real.child(&name) else { break };
        let target = files.stat(&next).await?.and_then(|stat| stat.target);
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

async fn resolve_path(
    files: ObservedFiles<'_>,
    path: &WsPath,
    last: FinalLinkMode,
    follow: Follow,
) -> Result<Option<WsPath>> {
    if follow == Follow::Never {
        return Ok(Some(path.clone()));
    }
    let resolved = match (last, path.parent(), path.name()) {
        (FinalLinkMode::Kept, Some(above), Some(name)) => match files.journaled.files.resolve(&above).await {
            Ok(above) => above.child(name),
            Err(error) => Err(error),
        },
        _ => files.journaled.files.resolve(path).await,
    };
    match resolved {
        Ok(real) => Ok(Some(real)),
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Internal) => Err(error),
        Err(_) => Ok(None),
    }
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

pub(crate) fn precondition_of_mut(mutation: &mut Mutation) -> Option<&mut Precondition> {
    match mutation {
        Mutation::Write { precondition, .. }
        | Mutation::Append { precondition, .. }
        | Mutation::Remove { precondition, .. } => Some(precondition),
        _ => None,
    }
}

pub(crate) fn parse_ws_path(bytes: &[u8]) -> Option<WsPath> {
    WsPath::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// Returns whether a mutation affects the entry at `path`.
pub(crate) fn affects_path(mutation: &Mutation, path: &WsPath) -> bool {
    let paths = paths_of(mutation).into_iter().flatten();
    paths.into_iter().any(|(met, ..)| path.is_within(met))
}

fn paths_of_mut(mutation: &mut Mutation) -> [Option<&mut WsPath>; 2] {
    match mutation {
        Mutation::Write { path, .. }
        | Mutation::Append { path, .. }
        | Mutation::Remove { path, .. }
        | Mutation::MakeDir { path, .. }
        | Mutation::Symlink { path, .. }
        | Mutation::SetMode { path, .. } => [Some(path), None],
        Mutation::Rename { from, to, .. } | Mutation::Copy { from, to, .. } => [Some(from), Some(to)],
    }
}

/// Returns the mutations as the log stores them: without preconditions, and with their content apart.
pub(crate) fn to_logged_steps(mutations: &[Mutation], contents: Vec<Option<RecordContent>>) -> Vec<LoggedStep> {
    let logged = |(mutation, content): (&Mutation, Option<RecordContent>)| {
        let mut mutation = mutation.clone();
        drop_precondition(&mut mutation);
        if let Mutation::Write { content, .. } = &mut mutation {
            *content = Content::default();
        }
        LoggedStep { mutation, content }
    };
    mutations.iter().zip(contents).map(logged).collect()
}

pub(crate) fn drop_precondition(mutation: &mut Mutation) {
    if let Some(precondition) = precondition_of_mut(mutation) {
        *precondition = Precondition::Any;
    }
}
