//! Settlements: commits the effects that background processes had on the live layer so far.

use garret_core::{ChangeKind, DroppedEntry, Effect, EffectsMode, LayerOutcome, Origin, PathChange, Point, Result};

use super::LiveLayer;
use crate::CommandChanges;
use crate::shell::command_access::CommandAccess;
use crate::shell::effects::commit_effects::{EffectCommitOutcome, EffectCommitReport, EffectSplit, EffectsCommit};
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::foreground::command_label;
use crate::shell::runtime::{ShellRuntime, is_over_limit};

/// The report on effects that were committed from the live layer.
#[derive(Debug)]
pub(in crate::shell) struct SettleReport {
    pub(in crate::shell) keeping: EffectCommitReport,
    pub(in crate::shell) excluded: Vec<Effect>,
    pub(in crate::shell) dropped: Vec<DroppedEntry>,
}

/// A request to commit the effects of the processes on the live layer.
#[derive(Debug, Clone, Default)]
pub(in crate::shell) struct SettleRequest {
    /// The operation, its summary and its actor; `None` for those of the processes themselves.
    pub(in crate::shell) origin: Option<Origin>,
    /// Who gets the report.
    pub(in crate::shell) told: SettleAudience,
}

/// Who gets the report on effects of background processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::shell) enum SettleAudience {
    /// Nobody at once: effects that could not be kept are noted for the next listing of the processes.
    #[default]
    Nobody,
    /// The caller gets it in the answer, so that no notice is needed.
    Caller,
}

impl SettleRequest {
    /// Makes a request whose report goes to the caller, for a change by `origin`.
    pub(in crate::shell) fn for_caller(origin: Origin) -> Self {
        Self {
            origin: Some(origin),
            told: SettleAudience::Caller,
        }
    }
}

impl ShellRuntime {
    /// Commits the effects of the background processes; `None` if there is no live layer.
    pub(in crate::shell) async fn settle_live_layer(&self, taking: SettleRequest) -> Result<Option<SettleReport>> {
        let Some(view) = self.live.layer_view() else {
            return Ok(None);
        };
        // Quotas before the layer, in the order of every other change of the files: the other order could deadlock.
        let _turns = view.take_quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else { return Ok(None) };
        let told = taking.told;
        match self.pause_and_settle(live, taking).await {
            Err(error) => self.handle_layer_failure(&mut slot, error, told).await,
            Ok(settled) => Ok(Some(settled)),
        }
    }

    pub(super) async fn pause_and_settle(&self, live: &mut LiveLayer, taking: SettleRequest) -> Result<SettleReport> {
        let paused = self.live.pause_layer(live).await?;
        let settled = self.settle_paused(live, taking).await;
        // The processes go on even if their effects could not be committed.
        let resumed = paused.resume().await;
        settled.and_then(|settled| resumed.map(|()| settled))
    }

    pub(super) async fn settle_paused(&self, live: &mut LiveLayer, taking: SettleRequest) -> Result<SettleReport> {
        // Taken first: a file that others change while this runs must count as changed the next time.
        let at = self.file_time().await?;
        let unseen = if self.is_direct {
            live.laid.layer.refresh_bench().await?
        } else {
            Vec::new()
        };
        let layer = live.laid.layer.clone();
        let effects = self.read_effects(&*layer, &live.state, live.mark.as_ref()).await?;
        let (keeping, split) = self.commit_new_effects(live, effects.effects, taking).await?;
        let EffectSplit { kept, excluded } = split;
        live.mark = Some(effects.mark);
        live.shadow.add_effects(&kept)?;
        // Effects that were refused, or went on a branch, are not in the files. The layer must not show them any
        // longer.
        if !keeping.is_in_files() {
            live.owed.extend(kept.into_iter().map(|effect| effect.path));
        }
        live.note_new_changes(&keeping, self.is_direct).await?;
        live.place_owed().await?;
        if self.is_direct {
            let mut strays = live.shadow.find_outside_changes(&live.files, &self.exclusions).await?;
            let unseen = live.files.source.read_entries_as_effects(unseen.iter()).await?;
            strays.extend(live.shadow.filter_new_effects(unseen)?);
            live.place_effects(strays).await?;
            // All changes by others until this time are on the layer now.
            live.basis.at = at;
        }
        Ok(SettleReport {
            keeping,
            excluded,
            dropped: effects.dropped,
        })
    }

    /// Commits those of the effects that were not committed before, and notes what became of them.
    async fn commit_new_effects(
        &self,
        live: &mut LiveLayer,
        effects: Vec<Effect>,
        taking: SettleRequest,
    ) -> Result<(EffectCommitReport, EffectSplit)> {
        let split = self.split_effects(live.shadow.filter_new_effects(effects)?).await?;
        let commit = EffectsCommit {
            files: &live.files,
            basis: &live.basis,
            note: &live.note_place(),
            origin: live.effects_origin(taking.origin),
            mode: EffectsMode::Commit,
            has_quota_turns: true,
        };
        let keeping = commit.commit_effects(&split).await?;
        self.note_outcome(live, &keeping, &split.excluded, taking.told);
        Ok((keeping, split))
    }

    /// Notes the outcome of a commit of effects. A caller that gets the report needs no notice.
    pub(super) fn note_outcome(
        &self,
        live: &mut LiveLayer,
        keeping: &EffectCommitReport,
        excluded: &[Effect],
        told: SettleAudience,
    ) {
        match &keeping.kept {
            EffectCommitOutcome::Change(change) => self.note_excluded_effects(change.number, excluded),
            EffectCommitOutcome::Refused(_) | EffectCommitOutcome::Branch(_) if told == SettleAudience::Caller => {}
            EffectCommitOutcome::Refused(error) => {
                let words = format!(
                    "changes of the background processes were rolled back: {}",
                    error.message()
                );
                self.live.add_notice(&live.files.view, words);
            }
            EffectCommitOutcome::Branch(name) => {
                let words = format!(
                    "not applied: the files changed while the processes ran; their effects are on branch `{name}`; merge it"
                );
                self.live.add_notice(&live.files.view, words);
            }
            _ => {}
        }
        if !matches!(keeping.kept, EffectCommitOutcome::Nothing) {
            live.writers = live.seats.values().flatten().cloned().collect();
        }
    }

    /// Lifts the layer off the bench, commits its effects, and removes it.
    pub(super) async fn finish_live_layer(&self, live: &mut LiveLayer, taking: SettleRequest) -> Result<SettleReport> {
        let layer = live.laid.layer.clone();
        layer.lift().await?;
        let told = taking.told;
        let effects = match self.read_effects(&*layer, &live.state, live.mark.as_ref()).await {
            Err(refusal) if is_over_limit(&refusal) => return self.discard_live_layer(live, refusal, told).await,
            effects => effects?,
        };
        let (keeping, _) = self.commit_new_effects(live, effects.effects, taking).await?;
        // Excluded effects were made all the time that the layer lived, and the bench has none of them yet. So the
        // whole layer is read.
        let mut excluded = Vec::new();
        if !self.exclusions.is_empty() {
            let whole = layer.read_effects(None).await?;
            excluded = self.split_effects(whole.effects).await?.excluded;
        }
        excluded.retain(|effect| live.files.view.review_effects(std::slice::from_ref(effect)).is_ok());
        let taken = LayerOutcome {
            committed: &[],
            excluded: &excluded,
            head: live.state.head,
        };
        if let Some(held) = live.held.take() {
            held.hand_effects(taken).await?;
        }
        live.note_place().remove_note();
        layer.remove().await?;
        Ok(SettleReport {
            keeping,
            excluded,
            dropped: effects.dropped,
        })
    }
}

impl LiveLayer {
    pub(super) fn note_place(&self) -> LayerNotePlace {
        LayerNotePlace::new(&self.state, self.laid.layer.id())
    }

    /// Returns the origin of a change by the effects on the layer: `origin`, or that of the processes themselves.
    fn effects_origin(&self, origin: Option<Origin>) -> Origin {
        let command = command_label::join_labels(&self.writers);
        let shown = command_label::printable_label(&command_label::short_label(&command));
        let own = || {
            self.files
                .change_origin("start", format!("start `{shown}`: in the background"))
        };
        Origin {
            command: Some(command),
            ..origin.unwrap_or_else(own)
        }
    }

    /// Marks the paths that others changed since the last commit as owed to the layer, and moves the basis to the
    /// newest change. The change that `kept` reports is left out: the layer has it already.
    pub(super) async fn note_new_changes(&mut self, kept: &EffectCommitReport, is_direct: bool) -> Result<()> {
        let Some(history) = self.files.source.history.clone() else {
            return Ok(());
        };
        let own = match &kept.kept {
            EffectCommitOutcome::Change(change) => Some(change.number),
            _ => None,
        };
        let head = history.head().await?;
        let mut news = Vec::new();
        for number in (self.basis.head + 1..=head).filter(|number| Some(*number) != own) {
            let (change, touched) = history.change(&Point::Number(number)).await?;
            // Changes that other programs made to the bench itself show through the layer.
            let is_by_others = matches!(change.kind, ChangeKind::Outside | ChangeKind::Capture);
            if !(is_direct && is_by_others) {
                news.extend(touched.into_iter().map(|one: PathChange| one.path));
            }
        }
        self.owed.extend(news);
        if head != self.basis.head {
            self.basis.head = head;
            self.note_place()
                .replace_basis(&self.basis, &command_label::join_labels(&self.writers))?;
        }
        Ok(())
    }
}

impl CommandAccess {
    /// Returns a report as the caller may see it; without a live layer, nothing changed.
    pub(in crate::shell) fn summarize_settled(&self, settled: Option<SettleReport>) -> CommandChanges {
        let Some(settled) = settled else {
            return CommandChanges::default();
        };
        let SettleReport {
            keeping,
            excluded,
            dropped,
        } = &settled;
        let view = &self.files.view;
        view.summarize_effects(keeping, excluded, dropped, &self.shell.exclusions)
    }
}
