//! Commits the effects of a command as a change: policy and quota review them, and the history takes them if nobody
//! touched the same paths meanwhile. Otherwise they go on a branch.

use std::collections::BTreeSet;

use garret_core::{
    BenchState, Change, ChangeMade, DroppedEntry, Effect, EffectsMode, EntryKind, EntryPath, Error, ErrorKind,
    Exclusions, Follow, History, NewBranch, Origin, PathChange, PathExpectation, PathPut, PlacedEntry, Point, PutBatch,
    Result, StatOptions, Storage, Timestamp,
};

use crate::file_access::FileAccess;
use crate::quota::QuotaHold;
use crate::shell::effects::commit_without_history::{has_effect, have_same_entry};
use crate::shell::effects::conflict_branch::conflict_branch_name;
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::runtime::{ShellRuntime, is_over_limit};
use crate::view::WorkspaceView;
use crate::{CommandChanges, DroppedPath, EffectsRefusal, ExcludedEffects};

/// The state of the files when a command began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shell) struct EffectBasis {
    /// The number of the newest change at that time.
    pub(in crate::shell) head: u64,
    /// The time by the clock that dates the files. An entry that others changed later is not the one that the command
    /// began with.
    pub(in crate::shell) at: Timestamp,
}

impl EffectBasis {
    /// Returns the condition on a path for effects that are based on this state.
    fn expected_state(&self) -> PathExpectation {
        PathExpectation::UnchangedSince {
            change: self.head,
            at: self.at,
        }
    }

    /// Returns the state before the first change: any change of a path since then is a conflict.
    pub(in crate::shell) fn before_first_change() -> Self {
        Self {
            head: 0,
            at: Timestamp::MIN,
        }
    }
}

/// How effects are to be committed.
#[derive(Debug, Clone)]
pub(in crate::shell) struct EffectCommitRequest {
    /// The operation, the summary and the actor that the change carries.
    pub(in crate::shell) origin: Origin,
    /// Whether the effects are committed, discarded, or committed after an approval.
    pub(in crate::shell) mode: EffectsMode,
    /// Whether the caller holds the turns with the quotas already.
    pub(in crate::shell) has_quota_turns: bool,
}

/// The report on effects that were to be committed.
#[derive(Debug, Clone)]
pub(in crate::shell) struct EffectCommitReport {
    /// The paths that the effects change.
    pub(in crate::shell) paths: Vec<PathChange>,
    pub(in crate::shell) kept: EffectCommitOutcome,
    /// Effects that the files cannot hold.
    pub(in crate::shell) left_out: Vec<DroppedEntry>,
}

/// The outcome of effects that were to be committed.
#[derive(Debug, Clone)]
pub(in crate::shell) enum EffectCommitOutcome {
    /// The effects change nothing.
    Nothing,
    /// The effects are recorded as this change.
    Change(Box<Change>),
    /// The effects are in the files, which have no history.
    Applied,
    /// The effects are on the branch of this name.
    Branch(String),
    /// The effects were reviewed and discarded.
    Discarded,
    /// A policy, a quota or the approver refused the effects.
    Refused(Error),
}

impl EffectCommitReport {
    fn without_changes() -> Self {
        Self::from_outcome(Vec::new(), EffectCommitOutcome::Nothing)
    }

    fn from_outcome(paths: Vec<PathChange>, kept: EffectCommitOutcome) -> Self {
        let left_out = Vec::new();
        Self { paths, kept, left_out }
    }

    /// Returns the report on effects of which none is kept, because of `refusal`.
    fn from_refusal(effects: &[Effect], refusal: Error) -> Self {
        Self::from_outcome(
            effects.iter().map(change_without_before).collect(),
            EffectCommitOutcome::Refused(refusal),
        )
    }

    /// Whether the files now hold the same entries as the layer.
    pub(in crate::shell) fn is_in_files(&self) -> bool {
        matches!(
            self.kept,
            EffectCommitOutcome::Nothing | EffectCommitOutcome::Change(_) | EffectCommitOutcome::Applied
        )
    }
}

/// Effects, divided into those that history records and those that are excluded from it.
#[derive(Debug, Default)]
pub(in crate::shell) struct EffectSplit {
    pub(in crate::shell) kept: Vec<Effect>,
    pub(in crate::shell) excluded: Vec<Effect>,
}

impl ShellRuntime {
    /// Divides effects into those that history records and those that are excluded from it.
    pub(in crate::shell) async fn split_effects(&self, effects: Vec<Effect>) -> Result<EffectSplit> {
        let mut split = EffectSplit::default();
        if self.exclusions.is_empty() {
            split.kept = effects;
            return Ok(split);
        }
        for effect in effects {
            if self.is_effect_excluded(&effect).await? {
                split.excluded.push(effect);
            } else {
                split.kept.push(effect);
            }
        }
        Ok(split)
    }

    async fn is_effect_excluded(&self, effect: &Effect) -> Result<bool> {
        let covers = |is_directory| self.exclusions.covers_path(&effect.path, is_directory);
        match &effect.placed {
            PlacedEntry::Directory { .. } => Ok(covers(true)),
            // The rule excludes directories only, and an effect does not tell the kind of a removed entry. A path that
            // is not in the files was an excluded directory: a file would be in history.
            PlacedEntry::Nothing if covers(true) && !covers(false) => {
                let Some(path) = effect.path.as_path() else {
                    return Ok(true);
                };
                let options = StatOptions {
                    follow: Follow::Never,
                    ..StatOptions::default()
                };
                let stat = self.plain_files.storage().stat(path, options).await;
                Ok(stat.map_or(true, |stat| stat.kind == EntryKind::Directory))
            }
            _ => Ok(covers(false)),
        }
    }
}

/// A commit of effects to the files, for the view and the actor of `files`.
#[derive(Debug, Clone, Copy)]
pub(in crate::shell) struct EffectsCommit<'a> {
    pub(in crate::shell) files: &'a FileAccess,
    /// The state of the files that the effects are based on.
    pub(in crate::shell) basis: &'a EffectBasis,
    pub(in crate::shell) request: &'a EffectCommitRequest,
    /// The note on the layer. It names the conflict branch before there is one, so that effects on a branch are not
    /// taken for unsaved ones after a crash.
    pub(in crate::shell) note: &'a LayerNotePlace,
}

impl EffectsCommit<'_> {
    /// Commits effects as a change of this view, or on a branch if others changed the same paths since `basis`.
    /// Excluded effects are no part of the change, but they are reviewed as well: if the policy forbids one of them,
    /// nothing is kept.
    pub(in crate::shell) async fn commit_effects(&self, split: &EffectSplit) -> Result<EffectCommitReport> {
        let effects = &split.kept[..];
        if let Err(refusal) = self.files.view.review_effects(&split.excluded) {
            return Ok(EffectCommitReport::from_refusal(effects, refusal));
        }
        if effects.is_empty() {
            return Ok(EffectCommitReport::without_changes());
        }
        let Some(history) = self.files.source.history.clone() else {
            return self.keep_without_history(effects).await;
        };
        if self.request.mode == EffectsMode::Commit {
            return self.put_effects(&*history, effects).await;
        }
        let looked = self.preview_effects(&*history, effects).await?;
        if self.request.mode == EffectsMode::Discard
            || matches!(
                looked.kept,
                EffectCommitOutcome::Nothing | EffectCommitOutcome::Refused(_)
            )
        {
            return Ok(looked);
        }
        match self.approve_effects(&looked.paths).await {
            Ok(()) => self.put_effects(&*history, effects).await,
            Err(refusal) => Ok(EffectCommitReport {
                kept: EffectCommitOutcome::Refused(refusal),
                ..looked
            }),
        }
    }

    /// Reports the paths that the effects would change, without a change of anything.
    async fn preview_effects(&self, history: &dyn History, effects: &[Effect]) -> Result<EffectCommitReport> {
        let _turns = self.take_effect_turns().await;
        let planned = history.plan_put(&plan_puts(effects, self.basis)).await;
        match planned {
            Ok(paths) if paths.is_empty() => Ok(EffectCommitReport::without_changes()),
            Ok(paths) => {
                let kept = match self.files.measure_plan_limits().await?.check_changes(&paths) {
                    Ok(()) => EffectCommitOutcome::Discarded,
                    Err(refusal) => EffectCommitOutcome::Refused(refusal),
                };
                Ok(EffectCommitReport::from_outcome(paths, kept))
            }
            Err(error) if is_over_limit(&error) => Ok(EffectCommitReport::from_refusal(effects, error)),
            // Others changed the same paths first. The paths of the effects are still of use to the caller.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let paths = effects.iter().map(change_without_before).collect();
                Ok(EffectCommitReport::from_outcome(paths, EffectCommitOutcome::Discarded))
            }
            Err(error) => Err(error),
        }
    }

    /// Puts effects into the history, in three attempts. First all of them. If others worked on the same paths, then
    /// only the effects that differ both from the state at the basis and from the present one; a path that others left
    /// with the bytes that it had at the basis counts as unchanged. If these still conflict, they go on a branch.
    async fn put_effects(&self, history: &dyn History, effects: &[Effect]) -> Result<EffectCommitReport> {
        let lost = effects.iter().filter(|effect| effect.is_lost_below);
        let lost: BTreeSet<_> = lost.map(|effect| effect.path.clone()).collect();
        if lost.is_empty()
            && let Some(kept) = self.try_puts(history, effects, plan_puts(effects, self.basis)).await?
        {
            return Ok(kept);
        }
        // All paths are asked about, not only those in conflict: another process may have recorded meanwhile that
        // others changed a path.
        let paths: Vec<_> = effects.iter().map(|effect| effect.path.clone()).collect();
        let mut touched = history.touched_since(&paths, self.basis.head, self.basis.at).await?;
        touched.extend(lost);
        let differing = self.find_differing_effects(history, effects, &touched).await;
        if differing.is_empty() {
            return Ok(EffectCommitReport::without_changes());
        }
        if differing.iter().any(|effect| touched.contains(&effect.path)) {
            return self.put_on_conflict_branch(history, &differing).await;
        }
        // The head is read before the files are compared, so that every change since the comparison is a conflict.
        let now = EffectBasis {
            head: history.head().await?,
            at: self.basis.at,
        };
        let rewritten = self.find_rewritten_paths(history, &differing).await;
        if differing.len() < effects.len() || !rewritten.is_empty() {
            let mut puts = plan_puts(&differing, self.basis);
            for put in puts.puts.iter_mut().filter(|put| rewritten.contains(&put.path)) {
                put.expected = now.expected_state();
            }
            if let Some(kept) = self.try_puts(history, &differing, puts).await? {
                return Ok(kept);
            }
        }
        self.put_on_conflict_branch(history, &differing).await
    }

    /// Returns the paths of effects whose entry is the same now as at the basis: others did not touch it, or rewrote it
    /// unchanged.
    async fn find_rewritten_paths(&self, history: &dyn History, effects: &[Effect]) -> BTreeSet<EntryPath> {
        let Ok(then) = history.open_view(&Point::Number(self.basis.head)).await else {
            return BTreeSet::new();
        };
        let mut rewritten = BTreeSet::new();
        for effect in effects {
            let Some(path) = effect.path.as_path() else { continue };
            if have_same_entry(&*then, self.files.storage(), path)
                .await
                .unwrap_or(false)
            {
                rewritten.insert(effect.path.clone());
            }
        }
        rewritten
    }

    /// Returns the effects that differ both from the entry at the basis and from the present one. An effect that cannot
    /// be compared counts as different.
    async fn find_differing_effects(
        &self,
        history: &dyn History,
        effects: &[Effect],
        touched: &BTreeSet<EntryPath>,
    ) -> Vec<Effect> {
        let then = history.open_view(&Point::Number(self.basis.head)).await.ok();
        let mut differing = Vec::new();
        for effect in effects {
            // Other programs may have written a touched path past the history, so that the history does not hold its
            // state at the basis.
            let known = then.as_deref().filter(|_| !touched.contains(&effect.path));
            let sides: Vec<&dyn Storage> = known.into_iter().chain([self.files.storage()]).collect();
            if !is_in_any_storage(&sides, effect).await {
                differing.push(effect.clone());
            }
        }
        differing
    }

    /// Puts `puts`, which were made from `effects`, into the history; `None` if others changed the same paths since the
    /// basis.
    async fn try_puts(
        &self,
        history: &dyn History,
        effects: &[Effect],
        puts: PutBatch,
    ) -> Result<Option<EffectCommitReport>> {
        let _turns = self.take_effect_turns().await;
        let committed = async {
            let paths = history.plan_put(&puts).await?;
            if paths.is_empty() {
                return Ok(EffectCommitReport::without_changes());
            }
            if let Err(refusal) = self.files.measure_plan_limits().await?.check_changes(&paths) {
                return Ok(EffectCommitReport::from_outcome(
                    paths,
                    EffectCommitOutcome::Refused(refusal),
                ));
            }
            let change = history.put(puts, self.request.origin.clone()).await?;
            Ok(change.map_or_else(EffectCommitReport::without_changes, |change| {
                EffectCommitReport::from_outcome(paths, EffectCommitOutcome::Change(Box::new(change)))
            }))
        };
        match committed.await {
            Ok(kept) => Ok(Some(kept)),
            Err(error) if Error::kind(&error) == ErrorKind::Conflict => Ok(None),
            Err(error) if is_over_limit(&error) => Ok(Some(EffectCommitReport::from_refusal(effects, error))),
            Err(error) => Err(error),
        }
    }

    /// Waits for the turns of the quotas, unless the caller holds them: to wait for those would never end.
    async fn take_effect_turns(&self) -> Vec<QuotaHold<'_>> {
        if self.request.has_quota_turns {
            Vec::new()
        } else {
            self.files.view.take_quota_turns().await
        }
    }

    /// Commits effects on a new branch that begins at the basis of the command.
    async fn put_on_conflict_branch(&self, history: &dyn History, effects: &[Effect]) -> Result<EffectCommitReport> {
        let mut puts = plan_puts(effects, self.basis);
        if let Err(refusal) = self.files.view.review_effects(effects) {
            return Ok(EffectCommitReport::from_refusal(effects, refusal));
        }
        let name = conflict_branch_name(&self.request.origin.operation, &self.files.context.ids.next_id());
        let new = NewBranch {
            name: name.clone(),
            config: self.files.source.branch_config.clone(),
        };
        self.note
            .record_branch(self.basis, self.request.origin.command.as_deref(), &name);
        let branch = history.branch(new, &Point::Number(self.basis.head)).await?;
        let aside = history.branch_history(&branch.id).await?;
        for put in &mut puts.puts {
            // Nobody else knows the branch yet, so there is nothing to be in conflict with.
            put.expected = PathExpectation::UnchangedSince {
                change: u64::MAX,
                at: self.basis.at,
            };
        }
        add_missing_directories(&*aside, &mut puts, self.basis).await?;
        let paths = aside.plan_put(&puts).await?;
        aside.put(puts, self.request.origin.clone()).await?;
        Ok(EffectCommitReport::from_outcome(
            paths,
            EffectCommitOutcome::Branch(name),
        ))
    }
}

impl WorkspaceView {
    /// Checks that the rules of this view allow each effect.
    pub(in crate::shell) fn review_effects(&self, effects: &[Effect]) -> Result<()> {
        let changes: Vec<_> = effects.iter().map(change_without_before).collect();
        self.review_changes(&changes)
    }

    /// Returns the result of a commit of effects, with the paths that this view may see.
    pub(in crate::shell) fn summarize_effects(
        &self,
        keeping: &EffectCommitReport,
        excluded: &[Effect],
        dropped: &[DroppedEntry],
        exclusions: &Exclusions,
    ) -> CommandChanges {
        let mut changed = CommandChanges::default();
        for one in self.visible_path_changes(keeping.paths.clone()) {
            let one = one.to_changed_path();
            let count = match one.mark {
                '+' => &mut changed.created_count,
                '~' => &mut changed.changed_count,
                _ => &mut changed.deleted_count,
            };
            *count += 1;
            changed.path_count += 1;
            if changed.paths.len() < CommandChanges::SHOWN_PATHS {
                changed.paths.push(one.to_string());
            }
        }
        match &keeping.kept {
            EffectCommitOutcome::Change(change) => {
                changed.change = Some(ChangeMade {
                    id: change.id.clone(),
                    number: Some(change.number),
                });
            }
            EffectCommitOutcome::Branch(name) => changed.branch = Some(name.clone()),
            EffectCommitOutcome::Discarded => changed.discarded = true,
            EffectCommitOutcome::Refused(error) => changed.refused = Some(EffectsRefusal::from(error)),
            EffectCommitOutcome::Nothing | EffectCommitOutcome::Applied => {}
        }
        let dropped = dropped.iter().chain(&keeping.left_out);
        let seen = dropped.filter(|one| self.is_recorded_path_visible(&one.path));
        for one in seen {
            if changed.dropped.len() < CommandChanges::SHOWN_DROPPED {
                changed.dropped.push(self.show_dropped(one));
            } else {
                changed.more_dropped += 1;
            }
        }
        changed.excluded = self.summarize_excluded(excluded, exclusions);
        changed
    }

    /// Returns the damaged files, which a command does not see, as far as this view may know of them.
    pub(in crate::shell) fn visible_corrupt_paths(&self, state: &BenchState) -> Vec<String> {
        let seen = state.corrupt.iter().filter(|path| self.is_recorded_path_visible(path));
        seen.map(|path| self.relative_entry_path(path).display_path()).collect()
    }

    fn show_dropped(&self, one: &DroppedEntry) -> DroppedPath {
        DroppedPath {
            path: self.relative_entry_path(&one.path).display_path(),
            what: one.what.to_owned(),
        }
    }

    fn summarize_excluded(&self, effects: &[Effect], exclusions: &Exclusions) -> ExcludedEffects {
        let mut excluded = ExcludedEffects::default();
        for effect in effects
            .iter()
            .filter(|effect| self.is_recorded_path_visible(&effect.path))
        {
            let shown = self.relative_entry_path(&effect.path).display_path();
            match effect.placed {
                PlacedEntry::Nothing => {
                    excluded.deleted += 1;
                    if excluded.deleted_paths.len() < CommandChanges::SHOWN_PATHS {
                        excluded.deleted_paths.push(shown);
                    }
                }
                _ => excluded.written += 1,
            }
            let top = exclusions.excluded_ancestor(effect.path.as_bytes(), true);
            let place = top.map(|top| EntryPath::from_bytes(top.to_vec()));
            let place = place.map(|place| self.relative_entry_path(&place).display_path());
            // Effects come in the order of paths, so those in one excluded directory follow each other.
            match place.filter(|place| excluded.places.last() != Some(place)) {
                Some(place) if excluded.places.len() < CommandChanges::SHOWN_PATHS => excluded.places.push(place),
                _ => {}
            }
        }
        excluded
    }
}

/// Whether one of the given storages has the entry that the effect makes.
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

/// Adds puts for the directories above the given paths that the branch lacks.
async fn add_missing_directories(branch: &dyn History, puts: &mut PutBatch, basis: &EffectBasis) -> Result<()> {
    let files = branch.open_view(&Point::Now).await?;
    let placed = puts.puts.iter().filter(|put| put.placed != PlacedEntry::Nothing);
    let named: BTreeSet<EntryPath> = placed.map(|put| put.path.clone()).collect();
    let above = named.iter().filter_map(|path| path.as_path());
    let above: BTreeSet<_> = above
        .flat_map(|path| path.ancestry().filter(|above| above != path).collect::<Vec<_>>())
        .filter(|above| !above.is_root() && !named.contains(&EntryPath::Valid(above.clone())))
        .collect();
    // The journal of files that other programs write, too, has only the entries that it met, so a branch may lack a
    // parent directory.
    let mut missing = Vec::new();
    for path in above {
        if files.stat(&path, StatOptions::default()).await.is_err() {
            missing.push(PathPut {
                path: EntryPath::Valid(path),
                expected: PathExpectation::UnchangedSince {
                    change: u64::MAX,
                    at: basis.at,
                },
                placed: PlacedEntry::Directory { mode: 0o755 },
            });
        }
    }
    puts.puts.splice(0..0, missing);
    Ok(())
}

/// Returns the change of a path by an effect whose entry before it is not known.
fn change_without_before(effect: &Effect) -> PathChange {
    let image = effect.placed.image();
    PathChange {
        path: effect.path.clone(),
        before: image.is_none().then(crate::shell::effects::path_images::unknown_image),
        after: image,
    }
}
