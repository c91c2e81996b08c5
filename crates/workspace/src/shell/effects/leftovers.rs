//! Leftovers: layers whose effects are not saved, because their process died before it could commit them, or because
//! they could not be committed. A layer whose effects are saved, because the process died between the commit and the
//! removal of the layer, is no leftover.

use std::sync::Arc;

use garret_core::path::quote;
use garret_core::{
    BenchState, Effect, EffectsMode, Error, ErrorKind, Layer, LayerOutcome, OpenSandbox, Origin, Result,
};

use crate::shell::command_access::CommandAccess;
use crate::shell::effects::commit_effects::{EffectCommitOutcome, EffectsCommit};
use crate::shell::effects::layer_note::{LayerNote, LayerNotePlace};
use crate::shell::foreground::command_label;
use crate::shell::runtime::{BenchLease, ShellRuntime};
use crate::{CommandChanges, EffectsRefusal, Leftover, Workspace};

/// The bench under the leftovers of a workspace.
#[derive(Debug)]
struct LeftoverBench {
    state: BenchState,
    /// `None` while a live layer lies over the bench: then the live layer holds it.
    held: Option<BenchLease>,
}

impl ShellRuntime {
    /// Returns the layers of a sandbox that no process uses and whose effects are not saved. Layers whose effects
    /// are saved are removed.
    pub(in crate::shell) async fn find_leftover_layers(
        &self,
        sandbox: &dyn OpenSandbox,
        state: &BenchState,
    ) -> Result<Vec<Arc<dyn Layer>>> {
        let mut left = Vec::new();
        for layer in sandbox.leftover_layers().await? {
            // A layer that cannot be compared stays.
            if self.is_layer_saved(&*layer, state).await.unwrap_or(false) {
                layer.remove().await?;
                LayerNotePlace::new(state, layer.id()).remove_note();
            } else {
                left.push(layer);
            }
        }
        Ok(left)
    }

    async fn is_layer_saved(&self, layer: &dyn Layer, state: &BenchState) -> Result<bool> {
        layer.lift().await?;
        let effects = self.read_effects(layer, state, None).await?;
        let split = self.split_effects(effects.effects).await?;
        let note = LayerNotePlace::new(state, layer.id()).read_note();
        // No change has the excluded effects, so they are still to be kept or discarded.
        Ok(split.excluded.is_empty() && self.are_effects_saved(&split.kept, note.as_ref()).await?)
    }
}

impl LeftoverBench {
    async fn take_excluded(self, excluded: &[Effect]) -> Result<()> {
        let taken = LayerOutcome {
            committed: &[],
            excluded,
            head: self.state.head,
        };
        match self.held {
            Some(held) => held.hand_effects(taken).await,
            None => Ok(()),
        }
    }

    async fn release_bench(self) -> Result<()> {
        match self.held {
            Some(held) => held.release_unchanged().await,
            None => Ok(()),
        }
    }
}

impl Workspace {
    /// Returns the leftovers, each with the changes that a commit of it would make.
    pub async fn leftovers(&self) -> Result<Vec<Leftover>> {
        let work = async {
            let commands = self.commands()?;
            let _turn = commands.shell.take_bench_turn(&commands, "garret leftovers").await?;
            let mut found = Vec::new();
            let (left, layers) = commands.open_leftovers().await?;
            for layer in layers {
                found.push(commands.preview_leftover(&left, &*layer).await);
            }
            left.release_bench().await?;
            Ok(found)
        };
        self.run_observed("leftovers", None, |_| 0, work).await
    }

    /// Commits a leftover as a change, or on a branch if others changed the same paths since.
    pub async fn commit_leftover(&self, id: &str) -> Result<CommandChanges> {
        let work = async {
            let commands = self.commands()?;
            let _turn = commands.shell.take_bench_turn(&commands, "garret leftovers").await?;
            let (left, layer) = commands.find_leftover(id).await?;
            let (_, changed, excluded) = commands
                .commit_leftover_effects(&left, &*layer, EffectsMode::Commit)
                .await?;
            if changed.refused.is_some() {
                left.release_bench().await?;
                return Ok(changed);
            }
            let state = left.state.clone();
            left.take_excluded(&excluded).await?;
            commands.remove_leftover(&state, &*layer).await?;
            Ok(changed)
        };
        self.run_observed("commit_leftover", None, |_| 0, work).await
    }

    /// Discards a leftover.
    pub async fn discard_leftover(&self, id: &str) -> Result<()> {
        let work = async {
            let commands = self.commands()?;
            let _turn = commands.shell.take_bench_turn(&commands, "garret leftovers").await?;
            let (left, layer) = commands.find_leftover(id).await?;
            commands.remove_leftover(&left.state, &*layer).await?;
            left.release_bench().await
        };
        self.run_observed("discard_leftover", None, |()| 0, work).await
    }
}

impl CommandAccess {
    async fn open_leftovers(&self) -> Result<(LeftoverBench, Vec<Arc<dyn Layer>>)> {
        if !self.files.view.base.is_root() {
            return Err(Error::new(ErrorKind::Denied, "a scope has no leftovers").hint("use the whole workspace"));
        }
        let under = self.files_under_layer();
        let restrictions = under.find_restrictions().await?;
        // The bench must not change under a live layer, so it is not brought up to date then.
        let left = match self.shell.live.bench_state().await {
            Some(state) => LeftoverBench { state, held: None },
            None => {
                let (state, held) = self.shell.prepare_bench().await?;
                LeftoverBench {
                    state,
                    held: Some(held),
                }
            }
        };
        let sandbox = self.shell.sandbox_for(&restrictions, &left.state).await?;
        let layers = self.shell.find_leftover_layers(&*sandbox, &left.state).await?;
        Ok((left, layers))
    }

    async fn find_leftover(&self, id: &str) -> Result<(LeftoverBench, Arc<dyn Layer>)> {
        let (left, layers) = self.open_leftovers().await?;
        let found = layers.into_iter().find(|layer| layer.id() == id);
        let layer = found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown leftover {}", quote(id)))
                .hint("`leftovers` lists all leftovers")
        })?;
        Ok((left, layer))
    }

    /// Returns a leftover with the changes that a commit of it would make. If they cannot be read, as on a full disk,
    /// the leftover is still returned, with the reason, so that it can be discarded.
    async fn preview_leftover(&self, left: &LeftoverBench, layer: &dyn Layer) -> Leftover {
        let id = layer.id().to_owned();
        match self.commit_leftover_effects(left, layer, EffectsMode::Discard).await {
            Ok((command, changed, _)) => Leftover {
                id,
                command,
                // The preview discards nothing.
                changed: CommandChanges {
                    discarded: false,
                    ..changed
                },
            },
            Err(error) => Leftover {
                command: LayerNotePlace::new(&left.state, &id)
                    .read_note()
                    .map(|note| note.command),
                id,
                changed: CommandChanges {
                    refused: Some(EffectsRefusal::from(&error)),
                    ..CommandChanges::default()
                },
            },
        }
    }

    async fn commit_leftover_effects(
        &self,
        left: &LeftoverBench,
        layer: &dyn Layer,
        mode: EffectsMode,
    ) -> Result<(Option<String>, CommandChanges, Vec<Effect>)> {
        let under = self.files_under_layer();
        layer.lift().await?;
        let effects = self.shell.read_effects(layer, &left.state, None).await?;
        let place = LayerNotePlace::new(&left.state, layer.id());
        let known = place.read_note();
        let command = known.as_ref().map(|note| note.command.clone());
        let basis = LayerNote::basis_or_first(known.as_ref());
        let mut split = self.shell.split_effects(effects.effects).await?;
        if self.shell.are_effects_saved(&split.kept, known.as_ref()).await? {
            split.kept.clear();
        }
        let words = command.as_deref().map_or_else(String::new, |command| {
            format!(
                " `{}`",
                command_label::printable_label(&command_label::short_label(command))
            )
        });
        let commit = EffectsCommit {
            files: &under,
            basis: &basis,
            note: &place,
            origin: Origin {
                command: command.clone(),
                ..under.change_origin("commit_leftover", format!("work of{words} that was not saved before"))
            },
            mode,
            has_quota_turns: false,
        };
        let keeping = commit.commit_effects(&split).await?;
        let excluded = match keeping.kept {
            EffectCommitOutcome::Refused(_) => Vec::new(),
            _ => split.excluded,
        };
        let changed = self
            .files
            .view
            .summarize_effects(&keeping, &excluded, &effects.dropped, &self.shell.exclusions);
        Ok((command, changed, excluded))
    }

    async fn remove_leftover(&self, state: &BenchState, layer: &dyn Layer) -> Result<()> {
        layer.remove().await?;
        LayerNotePlace::new(state, layer.id()).remove_note();
        self.shell.forget_leftover(layer.id()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
