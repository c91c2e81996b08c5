//! Plans the effects of a command as entries for the history: for the files, or for a branch that begins at the state
//! which the command saw.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use garret_core::{
    Effect, EntryKind, EntryPath, Error, ErrorKind, NewBranch, Origin, PathChange, PathExpectation, PathPut,
    PlacedEntry, Point, PutBatch, Result, StatOptions, Storage, WsPath,
};

use crate::commit::{BranchStart, ChangePlanner, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::path_images::{bare_image, read_image};
use crate::shell::effects::commit_effects::EffectBasis;
use crate::shell::effects::commit_without_history::{has_effect, have_same_entry};

/// Plans effects for the history, in two attempts. First all of them. If others worked on the same paths, then only the
/// effects that differ both from the state at the basis and from the present one; a path that others left with the bytes
/// that it had at the basis counts as unchanged. If these still conflict, the commit fails with `conflict`.
pub(super) struct EffectsPlanner<'a> {
    effects: Vec<Effect>,
    basis: &'a EffectBasis,
    origin: &'a Origin,
    is_second: bool,
}

#[async_trait]
impl ChangePlanner for EffectsPlanner<'_> {
    async fn plan_change(&mut self, files: &FileAccess, conflict: Option<Error>) -> Result<CommitPlan> {
        let has_lost = self.effects.iter().any(|effect| effect.is_lost_below);
        let puts = match conflict {
            Some(conflict) if self.is_second => return Err(conflict),
            None if !has_lost => plan_puts(&self.effects, self.basis),
            _ => {
                self.is_second = true;
                self.plan_differing(files).await?
            }
        };
        Ok(CommitPlan {
            work: CommitWork::Puts(puts, self.origin.clone()),
            paths: None,
        })
    }
}

impl<'a> EffectsPlanner<'a> {
    pub(super) fn new(effects: &[Effect], basis: &'a EffectBasis, origin: &'a Origin) -> Self {
        Self {
            effects: effects.to_vec(),
            basis,
            origin,
            is_second: false,
        }
    }

    /// Plans the effects that differ both from the state at the basis and from the present one.
    async fn plan_differing(&mut self, files: &FileAccess) -> Result<PutBatch> {
        let history = &**files.journal()?;
        // All paths are asked about, not only those in conflict: another process may have recorded meanwhile that
        // others changed a path.
        let paths: Vec<_> = self.effects.iter().map(|effect| effect.path.clone()).collect();
        let mut touched = history.touched_since(&paths, self.basis.head, self.basis.at).await?;
        let lost = self.effects.iter().filter(|effect| effect.is_lost_below);
        touched.extend(lost.map(|effect| effect.path.clone()));
        // The head is read before the files are compared, so that every change since the comparison is a conflict.
        let now = EffectBasis {
            head: history.head().await?,
            at: self.basis.at,
        };
        let then = history.open_view(&Point::Number(self.basis.head)).await.ok();
        self.keep_differing(files.storage(), then.as_deref(), &touched).await;
        let is_touched = self.effects.iter().any(|effect| touched.contains(&effect.path));
        let mut is_other_plan = self.effects.len() < paths.len();
        let mut puts = plan_puts(&self.effects, self.basis);
        for put in &mut puts.puts {
            // Others did not touch it, or rewrote it unchanged.
            if let (Some(path), Some(then)) = (put.path.as_path(), then.as_deref())
                && have_same_entry(then, files.storage(), path).await.unwrap_or(false)
            {
                put.expected = now.expected_state();
                is_other_plan = true;
            }
        }
        // A history that has met the changes of others since would take the same plan again.
        if is_touched || !is_other_plan {
            return Err(Error::new(ErrorKind::Conflict, "others changed the same files"));
        }
        Ok(puts)
    }

    /// Keeps the effects that differ both from the entry at the basis and from the present one. An effect that cannot
    /// be compared counts as different.
    async fn keep_differing(&mut self, now: &dyn Storage, then: Option<&dyn Storage>, touched: &BTreeSet<EntryPath>) {
        for effect in std::mem::take(&mut self.effects) {
            // Other programs may have written a touched path past the history, so that the history does not hold its
            // state at the basis.
            let known = then.filter(|_| !touched.contains(&effect.path));
            let sides: Vec<&dyn Storage> = known.into_iter().chain([now]).collect();
            if !is_in_any_storage(&sides, &effect).await {
                self.effects.push(effect);
            }
        }
    }

    /// Plans the branch `name` with the effects of the last plan.
    pub(super) async fn plan_branch(self, files: &FileAccess, name: String) -> Result<CommitPlan> {
        let base = self.basis.head;
        let then = files.journal()?.open_view(&Point::Number(base)).await?;
        let mut puts = plan_puts(&self.effects, self.basis);
        for put in &mut puts.puts {
            // Nobody else knows the branch yet, so there is nothing to be in conflict with.
            put.expected = PathExpectation::UnchangedSince {
                change: u64::MAX,
                at: self.basis.at,
            };
        }
        let mut paths = Vec::with_capacity(puts.puts.len());
        for put in &puts.puts {
            let before = match put.path.as_path() {
                // The journal of files that other programs write, too, may not know the state at the basis. The branch
                // has no entry there then.
                Some(path) => read_image(&*then, path).await.unwrap_or_default(),
                None => None,
            };
            let (path, after) = (put.path.clone(), put.placed.image());
            // The review must see a removal, also if the removed entry is not known.
            let before = before.or_else(|| after.is_none().then(|| bare_image(EntryKind::Other, 0)));
            paths.push(PathChange { path, before, after });
        }
        paths.sort_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        let config = files.source.branch_config.clone();
        let start = BranchStart {
            new: NewBranch { name, config },
            base,
            files: then,
        };
        Ok(CommitPlan {
            work: CommitWork::Branch(puts, self.origin.clone(), start),
            paths: Some(paths),
        })
    }
}

pub(super) async fn is_in_any_storage(sides: &[&dyn Storage], effect: &Effect) -> bool {
    let Some(path) = effect.path.as_path() else {
        return false;
    };
    for side in sides {
        if has_effect(*side, path, &effect.placed).await.unwrap_or(false) {
            return true;
        }
    }
    false
}

/// Returns the puts for effects. Entries inside a directory are removed before it, and created after it.
pub(super) fn plan_puts(effects: &[Effect], basis: &EffectBasis) -> PutBatch {
    let put = |effect: &Effect| PathPut {
        path: effect.path.clone(),
        expected: basis.expected_state(),
        placed: effect.placed.clone(),
    };
    let (gone, come): (Vec<_>, Vec<_>) = effects
        .iter()
        .map(put)
        .partition(|put| put.placed == PlacedEntry::Nothing);
    PutBatch {
        puts: gone.into_iter().rev().chain(come).collect(),
        ..PutBatch::default()
    }
}

/// Adds puts for the directories above the given paths that a new branch with `files` lacks.
pub(crate) async fn add_missing_directories(files: &dyn Storage, puts: &mut PutBatch) -> Result<()> {
    let placed = puts.puts.iter().filter(|put| put.placed != PlacedEntry::Nothing);
    let named: BTreeMap<EntryPath, PathExpectation> =
        placed.map(|put| (put.path.clone(), put.expected.clone())).collect();
    let mut above = BTreeMap::new();
    for (path, expected) in &named {
        let parents = path.as_path().into_iter().flat_map(WsPath::ancestry);
        above.extend(parents.map(|parent| (parent, expected)));
    }
    above.retain(|parent, _| !parent.is_root() && !named.contains_key(&EntryPath::Valid(parent.clone())));
    // The journal of files that other programs write, too, has only the entries that it met, so a branch may lack a
    // parent directory.
    let mut missing = Vec::new();
    for (path, expected) in above {
        if files.stat(&path, StatOptions::default()).await.is_err() {
            missing.push(PathPut {
                path: EntryPath::Valid(path),
                expected: expected.clone(),
                placed: PlacedEntry::Directory { mode: 0o755 },
            });
        }
    }
    puts.puts.splice(0..0, missing);
    Ok(())
}
