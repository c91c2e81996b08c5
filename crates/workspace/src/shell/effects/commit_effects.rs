//! Commits the effects of a command as a change, if nobody touched the same paths meanwhile. Otherwise they go on a
//! branch.

use garret_core::{
    BenchState, Change, ChangeMade, DroppedEntry, Effect, EffectsMode, EntryKind, EntryPath, Error, ErrorKind,
    Exclusions, Follow, Origin, PathChange, PathExpectation, PlacedEntry, Result, StatOptions, Timestamp,
};

use crate::commit::{ChangePlanner, CommitOptions, CommitOutcome, CommitReport};
use crate::file_access::FileAccess;
use crate::path_images::bare_image;
use crate::shell::effects::conflict_branch::conflict_branch_name;
use crate::shell::effects::effects_plan::EffectsPlanner;
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
    pub(super) fn expected_state(&self) -> PathExpectation {
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
    pub(in crate::shell) fn without_changes() -> Self {
        Self::from_outcome(Vec::new(), EffectCommitOutcome::Nothing)
    }

    fn from_outcome(paths: Vec<PathChange>, kept: EffectCommitOutcome) -> Self {
        let left_out = Vec::new();
        Self { paths, kept, left_out }
    }

    /// Returns the report on effects of which none is kept, because of `refusal`.
    pub(in crate::shell) fn from_refusal(effects: &[Effect], refusal: Error) -> Self {
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

/// The effects of a command after their commit.
pub(in crate::shell) struct CommittedEffects {
    pub(in crate::shell) keeping: EffectCommitReport,
    /// The effects that are in the files now.
    pub(in crate::shell) kept: Vec<Effect>,
    /// The excluded effects that the bench takes over.
    pub(in crate::shell) excluded: Vec<Effect>,
}

impl ShellRuntime {
    /// Commits the effects of a command, and notes the excluded ones.
    pub(in crate::shell) async fn commit_command_effects(
        &self,
        commit: &EffectsCommit<'_>,
        effects: Vec<Effect>,
    ) -> Result<CommittedEffects> {
        let split = self.split_effects(effects).await?;
        let keeping = commit.commit_effects(&split).await?;
        let EffectSplit { mut kept, mut excluded } = split;
        if !keeping.is_in_files() || commit.mode == EffectsMode::Discard {
            kept.clear();
            // A conflict branch does not hold excluded paths, so the bench takes them over all the same.
            if !matches!(keeping.kept, EffectCommitOutcome::Branch(_)) {
                excluded.clear();
            }
        }
        if let EffectCommitOutcome::Change(change) = &keeping.kept {
            self.note_excluded_effects(change.number, &excluded);
        }
        Ok(CommittedEffects {
            keeping,
            kept,
            excluded,
        })
    }

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
#[derive(Debug, Clone)]
pub(in crate::shell) struct EffectsCommit<'a> {
    pub(in crate::shell) files: &'a FileAccess,
    /// The state of the files that the effects are based on.
    pub(in crate::shell) basis: &'a EffectBasis,
    /// The note on the layer. It names the conflict branch before there is one, so that effects on a branch are not
    /// taken for unsaved ones after a crash.
    pub(in crate::shell) note: &'a LayerNotePlace,
    /// The operation, the summary and the actor that the change carries.
    pub(in crate::shell) origin: Origin,
    /// Whether the effects are committed, discarded, or committed after an approval.
    pub(in crate::shell) mode: EffectsMode,
    /// Whether the caller holds the turns with the quotas already.
    pub(in crate::shell) has_quota_turns: bool,
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
        let dry_run = self.mode != EffectsMode::Commit;
        let done = self.plan_and_commit(effects, dry_run).await?;
        match (self.mode, &done.kept) {
            (EffectsMode::Ask, EffectCommitOutcome::Discarded) => match self.approve_effects(&done.paths).await {
                Ok(()) => self.plan_and_commit(effects, false).await,
                Err(refusal) => Ok(EffectCommitReport {
                    kept: EffectCommitOutcome::Refused(refusal),
                    ..done
                }),
            },
            _ => Ok(done),
        }
    }

    /// Commits the effects, or reports what a commit would do.
    async fn plan_and_commit(&self, effects: &[Effect], dry_run: bool) -> Result<EffectCommitReport> {
        if self.files.source.history.is_none() {
            return self.commit_without_history(effects, dry_run).await;
        }
        let mut planner = EffectsPlanner::new(effects, self.basis, &self.origin);
        match self.commit_planned(&mut planner, dry_run).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) if is_over_limit(&error) => return Ok(EffectCommitReport::from_refusal(effects, error)),
            done => return done,
        }
        let name = conflict_branch_name(&self.origin.operation, &self.files.context.ids.next_id());
        let mut planned = Some(planner.plan_branch(self.files, name.clone()).await?);
        if !dry_run {
            let command = self.origin.command.as_deref();
            self.note.record_branch(self.basis, command, &name);
        }
        let done = self.commit_planned(&mut planned, dry_run).await?;
        Ok(match done.kept {
            EffectCommitOutcome::Change(_) => {
                EffectCommitReport::from_outcome(done.paths, EffectCommitOutcome::Branch(name))
            }
            _ => done,
        })
    }

    /// Passes a plan to the function that commits every change.
    pub(super) async fn commit_planned(
        &self,
        planner: &mut dyn ChangePlanner,
        dry_run: bool,
    ) -> Result<EffectCommitReport> {
        let options = CommitOptions {
            dry_run,
            has_quota_turns: self.has_quota_turns,
        };
        let CommitReport { paths, outcome } = self.files.commit_change(planner, options).await?;
        let kept = match outcome {
            CommitOutcome::Refused(refusal) => EffectCommitOutcome::Refused(refusal),
            CommitOutcome::Reviewed if paths.is_empty() => EffectCommitOutcome::Nothing,
            CommitOutcome::Reviewed => EffectCommitOutcome::Discarded,
            CommitOutcome::Applied(_) if paths.is_empty() => EffectCommitOutcome::Nothing,
            CommitOutcome::Applied(_) => EffectCommitOutcome::Applied,
            CommitOutcome::Changed(None) => return Ok(EffectCommitReport::without_changes()),
            CommitOutcome::Changed(Some(change)) => EffectCommitOutcome::Change(change),
        };
        Ok(EffectCommitReport::from_outcome(paths, kept))
    }
}

impl WorkspaceView {
    /// Checks that the rules of this view allow each effect.
    pub(in crate::shell) fn review_effects(&self, effects: &[Effect]) -> Result<()> {
        let changes: Vec<_> = effects.iter().map(change_without_before).collect();
        self.review_paths(&changes)?;
        self.review_sizes(&changes, true)
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

/// Returns the change of a path by an effect whose entry before it is not known.
fn change_without_before(effect: &Effect) -> PathChange {
    let image = effect.placed.image();
    PathChange {
        path: effect.path.clone(),
        before: image.is_none().then(|| bare_image(EntryKind::Other, 0)),
        after: image,
    }
}
