//! Grants missing owner permissions of directories for the time of a change, and restores the modes with it.
//!
//! A command may leave a directory of mode 500, and undo must reach the entries in it. Permission bits do not restrict
//! root. For any other user, a change that the system refuses for lack of permission is tried once more, with the bits
//! of the directories above its paths granted within the same batch. So no mode is touched unless it must be, and a
//! failed batch also reverts the granted bits.

use std::collections::BTreeSet;

use garret_core::{
    Batch, EntryKind, EntryPath, Error, ErrorKind, Follow, Mutation, MutationOutcome, PathChange, Result, StatOptions,
    Storage, WsPath,
};

use crate::compare::StorageComparer;

pub(crate) const OWNER_BITS: u32 = 0o700;

/// A directory and its original mode.
type GrantedDirectory = (WsPath, u32);

/// Applies the batch, and grants missing bits of its directories if the system refuses it.
pub(crate) async fn apply_with_owner_bits(
    comparer: &mut StorageComparer<'_>,
    batch: Batch,
) -> Result<Vec<MutationOutcome>> {
    let journaled = comparer.files.journaled;
    let denied = match journaled.files.apply(batch.clone()).await {
        Err(error) if error.kind() == ErrorKind::Denied => error,
        applied => return applied,
    };
    let (mut lent, mut met) = (Vec::new(), BTreeSet::new());
    for mutation in &batch.mutations {
        add_closed_parents(comparer, mutation.path(), &mut met, &mut lent).await?;
    }
    if lent.is_empty() {
        return Err(denied);
    }
    lent.sort();
    let (places, mutations): (Vec<_>, Vec<_>) = with_granted_bits(&batch, &lent).into_iter().unzip();
    let applied = journaled.files.apply(Batch { mutations, ..batch }).await?;
    let mut own: Vec<_> = places
        .into_iter()
        .zip(applied)
        .filter(|(place, _)| place.is_some())
        .collect();
    own.sort_by_key(|(place, _)| *place);
    Ok(own.into_iter().map(|(_, applied)| applied).collect())
}

/// Adds the directories above `path` that lack bits of their owner and are not in `met` yet.
async fn add_closed_parents(
    comparer: &mut StorageComparer<'_>,
    path: &WsPath,
    met: &mut BTreeSet<WsPath>,
    lent: &mut Vec<GrantedDirectory>,
) -> Result<()> {
    let mut above = path.parent();
    while let Some(directory) = above.filter(|above| !above.is_root() && met.insert(above.clone())) {
        let mode = directory_mode(comparer, &directory).await?;
        above = directory.parent();
        lent.extend(
            mode.filter(|mode| mode & OWNER_BITS != OWNER_BITS)
                .map(|mode| (directory, mode)),
        );
    }
    Ok(())
}

/// Returns the mode of a directory; the recorded mode if a directory above it denies access.
async fn directory_mode(comparer: &mut StorageComparer<'_>, directory: &WsPath) -> Result<Option<u32>> {
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    match comparer.files.journaled.files.stat(directory, options).await {
        Ok(stat) if stat.kind == EntryKind::Directory => Ok(stat.mode),
        Err(error) if error.kind() == ErrorKind::Denied => {
            let known = comparer.records.entry_at(directory)?;
            Ok(known.map(|known| known.mode))
        }
        _ => Ok(None),
    }
}

/// Restores modes that a crash left granted: those of directories above the changed paths that have all bits of
/// their owner and lack some in the journal.
pub(crate) async fn restore_owner_bits(comparer: &mut StorageComparer<'_>, paths: &[PathChange]) -> Result<()> {
    let changed: BTreeSet<&EntryPath> = paths.iter().map(|change| &change.path).collect();
    let (mut met, mut mutations) = (BTreeSet::new(), Vec::new());
    for path in paths.iter().filter_map(|change| change.path.as_path()) {
        let mut above = path.parent();
        while let Some(directory) = above.filter(|above| !above.is_root() && met.insert(above.clone())) {
            let is_changed = changed.contains(&EntryPath::from(directory.clone()));
            let known = comparer.records.entry_at(&directory)?;
            let known = known.map(|known| known.mode);
            if let Some(mode) = known.filter(|mode| !is_changed && mode & OWNER_BITS != OWNER_BITS)
                && directory_mode(comparer, &directory).await? == Some(mode | OWNER_BITS)
            {
                let path = directory.clone();
                mutations.push(Mutation::SetMode { path, mode });
            }
            above = directory.parent();
        }
    }
    if mutations.is_empty() {
        return Ok(());
    }
    // Deepest first: once a directory has its mode back, those below it may be out of reach.
    mutations.sort_by(|one, other| other.path().cmp(one.path()));
    let journaled = comparer.files.journaled;
    journaled.files.apply(plain_batch(mutations)).await.map(|_| ())
}

/// Looks once more at `path`, which lies in a directory that denies access to its owner. `look` begins when the bits of
/// the directories above are granted. Returns `denied` if no bit is missing.
pub(crate) async fn look_with_owner_bits<T>(
    storage: &dyn Storage,
    path: &WsPath,
    denied: Error,
    look: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut lent = Vec::new();
    let opened = grant_bits_above(storage, path, &mut lent).await;
    let looked = match opened {
        Ok(()) if !lent.is_empty() => look.await,
        _ => Err(denied),
    };
    for (directory, mode) in lent.iter().rev() {
        let restore = plain_batch(vec![set_mode(directory, *mode)]);
        storage.apply(restore).await?;
    }
    looked
}

/// Grants the bits of every directory above `path`, the highest first.
async fn grant_bits_above(storage: &dyn Storage, path: &WsPath, lent: &mut Vec<GrantedDirectory>) -> Result<()> {
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    let above = path.ancestry().filter(|above| above != path && !above.is_root());
    for directory in above.collect::<BTreeSet<_>>() {
        let mode = storage.stat(&directory, options).await?.mode;
        if let Some(mode) = mode.filter(|mode| mode & OWNER_BITS != OWNER_BITS) {
            let lend = plain_batch(vec![set_mode(&directory, mode | OWNER_BITS)]);
            storage.apply(lend).await?;
            lent.push((directory, mode));
        }
    }
    Ok(())
}

fn set_mode(path: &WsPath, mode: u32) -> Mutation {
    let path = path.clone();
    Mutation::SetMode { path, mode }
}

pub(crate) fn plain_batch(mutations: Vec<Mutation>) -> Batch {
    Batch {
        mutations,
        follow: Follow::Never,
        ..Batch::default()
    }
}

/// Returns the mutations with the bits granted first. The original modes are restored among the modes that the batch
/// itself sets last, from below, because they may close a directory. With each mutation comes its index in the batch.
fn with_granted_bits(batch: &Batch, lent: &[GrantedDirectory]) -> Vec<(Option<usize>, Mutation)> {
    let goes = |path: &WsPath| {
        let removes =
            |mutation: &Mutation| matches!(mutation, Mutation::Remove { path: gone, .. } if path.is_within(gone));
        batch.mutations.iter().any(removes)
    };
    let is_set = |path: &WsPath| {
        let sets = |mutation: &Mutation| matches!(mutation, Mutation::SetMode { path: set, .. } if set == path);
        batch.mutations.iter().any(sets)
    };
    let is_shape = |mutation: &Mutation| !matches!(mutation, Mutation::SetMode { .. });
    // Only the modes after the last other mutation may be reordered; earlier ones must stay in place.
    let tail = batch.mutations.iter().rposition(is_shape).map_or(0, |last| last + 1);
    let own = |(place, mutation): (usize, &Mutation)| (Some(place), mutation.clone());
    let mut all: Vec<_> = batch.mutations.iter().enumerate().map(own).collect();
    let mut modes = all.split_off(tail);
    let restored = lent.iter().filter(|(path, _)| !goes(path) && !is_set(path));
    modes.extend(restored.map(|(path, mode)| (None, set_mode(path, *mode))));
    modes.sort_by(|(_, one), (_, other)| other.path().cmp(one.path()));
    let lends = lent
        .iter()
        .map(|(path, mode)| (None, set_mode(path, mode | OWNER_BITS)));
    lends.chain(all).chain(modes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> WsPath {
        WsPath::parse(path).expect("a path of a test")
    }

    fn remove(path: &str) -> Mutation {
        Mutation::Remove {
            path: at(path),
            recursive: false,
            precondition: garret_core::Precondition::Any,
        }
    }

    #[test]
    fn bits_are_lent_from_above_and_put_back_from_below_with_the_modes_of_the_batch() {
        let batch = plain_batch(vec![remove("a/b/f"), remove("gone"), set_mode(&at("a"), 0o111)]);
        let lent = [(at("a"), 0o500), (at("a/b"), 0o500), (at("gone"), 0o500)];
        let all = with_granted_bits(&batch, &lent);
        let wanted = [
            (None, set_mode(&at("a"), 0o700)),
            (None, set_mode(&at("a/b"), 0o700)),
            (None, set_mode(&at("gone"), 0o700)),
            (Some(0), remove("a/b/f")),
            (Some(1), remove("gone")),
            (None, set_mode(&at("a/b"), 0o500)),
            (Some(2), set_mode(&at("a"), 0o111)),
        ];
        assert_eq!(all, wanted);
    }
}
