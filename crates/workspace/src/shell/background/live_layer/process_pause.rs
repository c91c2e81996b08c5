//! A pause of the background processes around the plan, the review and the commit of a change: their effects so far are
//! committed first, so that the review measures them, and the change is placed on their layer at the end.

use std::collections::BTreeSet;

use garret_core::{EntryPath, Mutation, PathChange, PlacedEntry, Result};
use tokio::sync::MutexGuard;

use super::{LiveLayer, PausedLayer, SettleAudience, SettleRequest};
use crate::shell::background::file_effects;
use crate::shell::effects::commit_effects::{EffectCommitOutcome, EffectCommitReport};
use crate::shell::runtime::ShellRuntime;

/// A pause of the background processes for a change of the files; empty if there are none. The processes go on when it
/// is dropped, too.
#[derive(Default)]
pub(crate) struct ProcessPause<'a> {
    live: Option<LivePause<'a>>,
    has_committed: bool,
}

struct LivePause<'a> {
    shell: &'a ShellRuntime,
    slot: MutexGuard<'a, Option<LiveLayer>>,
    paused: PausedLayer,
    /// The paths that the layer was prepared for.
    foreseen: ForeseenChange,
    /// Whether the layer was prepared for a change that was not made.
    is_prepared_in_vain: bool,
}

/// The paths that a change is about to touch.
#[derive(Debug, Default)]
pub(crate) struct ForeseenChange {
    /// Paths that the change removes.
    gone: Vec<EntryPath>,
    /// Paths that the change creates or rewrites.
    come: Vec<EntryPath>,
}

impl ForeseenChange {
    pub(crate) fn from_mutations(mutations: &[Mutation]) -> Self {
        let mut foreseen = Self::default();
        for mutation in mutations {
            match mutation {
                Mutation::Remove { path, .. } => foreseen.gone.push(path.clone().into()),
                Mutation::Rename { from, to, .. } => {
                    foreseen.gone.push(from.clone().into());
                    foreseen.come.push(to.clone().into());
                }
                other => foreseen.come.push(other.path().clone().into()),
            }
        }
        foreseen
    }

    pub(crate) fn from_path_changes(paths: &[PathChange]) -> Self {
        let (gone, come): (Vec<_>, Vec<_>) = paths.iter().partition(|one| one.after.is_none());
        let path = |one: &PathChange| one.path.clone();
        Self {
            gone: gone.into_iter().map(path).collect(),
            come: come.into_iter().map(path).collect(),
        }
    }
}

impl ShellRuntime {
    /// Pauses the background processes and commits their effects so far. The caller holds the turns of the quotas: in
    /// the other order, two changes could wait for each other.
    pub(crate) async fn pause_for_change(&self) -> Result<ProcessPause<'_>> {
        if !self.live.is_live() {
            return Ok(ProcessPause::default());
        }
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else {
            return Ok(ProcessPause::default());
        };
        let paused = async {
            let paused = self.live.pause_layer(live).await?;
            match self.settle_paused(live, SettleRequest::default()).await {
                Ok(settled) => Ok((paused, settled)),
                Err(error) => paused.resume().await.and(Err(error)),
            }
        };
        match paused.await {
            Ok((paused, settled)) => Ok(ProcessPause {
                live: Some(LivePause {
                    shell: self,
                    slot,
                    paused,
                    foreseen: ForeseenChange::default(),
                    is_prepared_in_vain: false,
                }),
                has_committed: !matches!(settled.keeping.kept, EffectCommitOutcome::Nothing),
            }),
            Err(error) => {
                self.handle_layer_failure(&mut slot, error, SettleAudience::Nobody)
                    .await?;
                Ok(ProcessPause::default())
            }
        }
    }

    /// Places the changes of the files on the layer. `is_restored` says that entries which were removed from the layer
    /// are still in the files.
    async fn show_file_changes(
        &self,
        live: &mut LiveLayer,
        foreseen: &ForeseenChange,
        is_restored: bool,
    ) -> Result<()> {
        live.note_new_changes(&EffectCommitReport::without_changes(), self.is_direct)
            .await?;
        live.place_owed().await?;
        let mut places = Vec::new();
        let touched: Vec<_> = foreseen.gone.iter().chain(&foreseen.come).cloned().collect();
        // The layer was prepared for a change that was not made: the removed entries come back. Without a history,
        // nothing but the foreseen paths tells which entries changed.
        if is_restored && self.is_direct {
            places.extend(live.files.source.read_trees_as_effects(&foreseen.gone).await?);
        } else if live.files.source.history.is_none() {
            places.extend(live.files.source.read_trees_as_effects(&touched).await?);
        }
        live.place_effects(places).await
    }
}

impl ProcessPause<'_> {
    /// Whether effects of the processes were committed when they were paused.
    pub(crate) fn has_committed(&self) -> bool {
        self.has_committed
    }

    /// Prepares the layer for a change of the files under it.
    pub(crate) async fn prepare_change(&mut self, foresee: impl FnOnce() -> ForeseenChange) -> Result<()> {
        let Some(mut pause) = self.live.take() else {
            return Ok(());
        };
        let foreseen = foresee();
        // The last change that the layer was prepared for was a conflict.
        pause.is_prepared_in_vain |= !pause.foreseen.gone.is_empty();
        pause.foreseen.gone.extend(foreseen.gone);
        pause.foreseen.come.extend(foreseen.come);
        let live = pause.slot.as_mut().expect("the slot is filled as long as it is paused");
        // If the files lie directly under the layer, the kernel does not notice that an entry below it is removed. So
        // the entry must be removed on the layer first.
        let prepared = if pause.shell.is_direct {
            live.prepare_for_change(&pause.foreseen).await
        } else {
            Ok(())
        };
        match prepared {
            Ok(()) => self.live = Some(pause),
            Err(error) => {
                let error = pause.paused.resume().await.err().unwrap_or(error);
                pause
                    .shell
                    .handle_layer_failure(&mut pause.slot, error, SettleAudience::Nobody)
                    .await?;
            }
        }
        Ok(())
    }

    /// Places the change on the layer, if it `is_made`, and resumes the processes.
    pub(crate) async fn end(self, is_made: bool) {
        let Some(mut pause) = self.live else { return };
        let live = pause.slot.as_mut().expect("the slot is filled as long as it is paused");
        let view = live.files.view.clone();
        let shown = pause
            .shell
            .show_file_changes(live, &pause.foreseen, !is_made || pause.is_prepared_in_vain)
            .await;
        let resumed = pause.paused.resume().await;
        let Err(error) = shown.and(resumed) else { return };
        let handled = pause
            .shell
            .handle_layer_failure(&mut pause.slot, error, SettleAudience::Nobody);
        if let Err(error) = handled.await {
            // The change itself is made, so it must not fail for the caller.
            let words = format!(
                "the background processes do not see the last change yet: {}",
                error.message()
            );
            pause.shell.live.add_notice(&view, words);
        }
    }
}

impl LiveLayer {
    /// Prepares the layer for a change of the files under it: removes the entries that are about to be removed, and
    /// places the directories above those that are about to be made.
    async fn prepare_for_change(&mut self, foreseen: &ForeseenChange) -> Result<()> {
        let above: BTreeSet<EntryPath> = foreseen
            .come
            .iter()
            .flat_map(file_effects::path_with_ancestors)
            .collect();
        let mut places = self.files.source.read_entries_as_effects(above.iter()).await?;
        places.retain(|effect| matches!(effect.placed, PlacedEntry::Directory { .. }));
        let gone = foreseen.gone.iter();
        places.extend(gone.map(|path| file_effects::effect_at(path, PlacedEntry::Nothing)));
        self.place_effects(places).await
    }
}
