//! Runs a command on a side layer: a layer of its own, beside the live layer of the background processes, that begins
//! with the same files.
//!
//! On the live layer, the effects of a command cannot be told from those of the processes, and the command sees the
//! files that they see. So a command whose effects may have to be discarded, and a command of a view with other rules,
//! gets a second layer over the same bench. The entries of the live layer are copied to it first, while the processes
//! are paused. Then both sides go on apart, until the command has ended and its effects are committed as any other
//! change.

use std::time::Duration;

use garret_core::{CommandExit, DroppedEntry, Effect, Effects, EffectsMark, EffectsMode, Layer, Result};

use crate::Workspace;
use crate::shell::OutputSink;
use crate::shell::background::live_layer::LiveLayerSeat;
use crate::shell::effects::commit_effects::{EffectBasis, EffectCommitOutcome, EffectCommitRequest};
use crate::shell::effects::layer_note;
use crate::shell::foreground::command_turn::CommandTurn;
use crate::shell::foreground::result::{CommandChanges, RunResult};
use crate::shell::foreground::run::{CommandLayerGuard, PreparedCommand, build_run_result, follow_output};
use crate::shell::runtime::{ShellRuntime, is_over_limit};

/// Longer than one tick of the clock that dates files. Entries that were placed on a layer this long ago are older than
/// all effects of the command.
const MOMENT: Duration = Duration::from_millis(60);

impl Workspace {
    /// Runs a command on a layer of its own while background processes run on the live layer.
    pub(in crate::shell) async fn run_on_side_layer(
        &self,
        seat: LiveLayerSeat,
        turn: CommandTurn,
        prepared: PreparedCommand,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let shop = self.shell_runtime()?;
        let under = shop.view_under_layer(self);
        let fence = under.cached_restrictions(shop).await?;
        let state = seat.bench_state().clone();
        // The time is taken before the layer is laid: a file that others change in between must count as changed since.
        let at = shop.file_time().await?;
        let laid = shop.lay_layer(&fence, &state).await?;
        let cover = CommandLayerGuard::new(shop, &laid, state, (seat, turn));
        let basis = shop.copy_live_layer(&under, &*laid.layer, at).await?;
        layer_note::write_note(&cover.state, laid.layer.id(), &basis, &prepared.label)?;
        let mark = mark_layer(&*laid.layer).await?;
        let mut process = laid.layer.start_last_process(prepared.command.clone()).await?;
        let running = async {
            let ran = follow_output(&mut *process, &prepared, sink).await?;
            laid.layer.lift().await?;
            let changed = match shop.read_effects(&*laid.layer, &cover.state, Some(&mark)).await {
                Ok(effects) => {
                    self.commit_side_layer(shop, &basis, &prepared, &ran.exit, effects)
                        .await?
                }
                Err(refusal) if is_over_limit(&refusal) => CommandChanges::from_refusal(&refusal),
                Err(error) => return Err(error),
            };
            Ok((ran, changed))
        };
        let (ran, changed) = match running.await {
            Ok(ran) => ran,
            Err(error) => return Err(cover.keep_as_leftover(&error)),
        };
        let corrupt = self.visible_corrupt_paths(&cover.state);
        // The result of the command does not depend on the effects of the processes, so an error from them is only
        // noted.
        if let Some((seat, _turn)) = cover.remove_layer().await? {
            seat.leave_unreported(None).await;
        }
        Ok(RunResult {
            corrupt,
            ..build_run_result(ran, changed, &laid)
        })
    }

    /// Commits the effects of the command, and shows them to the background processes.
    async fn commit_side_layer(
        &self,
        shop: &ShellRuntime,
        basis: &EffectBasis,
        prepared: &PreparedCommand,
        exit: &CommandExit,
        effects: Effects,
    ) -> Result<CommandChanges> {
        let split = self.split_effects(shop, effects.effects).await?;
        let maker = EffectCommitRequest {
            origin: self.run_origin(prepared, exit),
            mode: prepared.effects,
            has_quota_turns: false,
        };
        // A preview changes no file, so it goes past the wrappers and does not pause the processes.
        let keeping = match prepared.effects {
            EffectsMode::Discard => shop.view_under_layer(self).commit_effects(&split, basis, maker).await?,
            EffectsMode::Commit | EffectsMode::Ask => self.commit_effects(&split, basis, maker).await?,
        };
        let is_in_files = keeping.is_in_files() && prepared.effects != EffectsMode::Discard;
        let excluded = if is_in_files || matches!(keeping.kept, EffectCommitOutcome::Branch(_)) {
            split.excluded
        } else {
            Vec::new()
        };
        let hidden = shop.show_excluded(excluded.clone()).await?;
        if let EffectCommitOutcome::Change(change) = &keeping.kept {
            shop.note_excluded_effects(change.number, &excluded);
        }
        let dropped: Vec<_> = effects
            .dropped
            .into_iter()
            .chain(hidden.iter().map(dropped_as_hidden))
            .collect();
        Ok(self.summarize_effects(&keeping, &excluded, &dropped, shop))
    }
}

/// Returns the mark of the present state of a layer on which nothing runs yet.
pub(in crate::shell) async fn mark_layer(layer: &dyn Layer) -> Result<EffectsMark> {
    tokio::time::sleep(MOMENT).await;
    layer.pause().await?;
    let effects = layer.read_effects(None).await?;
    layer.resume().await?;
    Ok(effects.mark)
}

/// Reports an effect as dropped: its path is excluded from history, and hidden from the processes whose layer holds the
/// bench.
fn dropped_as_hidden(effect: &Effect) -> DroppedEntry {
    DroppedEntry {
        path: effect.path.clone(),
        what: "path that is excluded from history and hidden from background processes",
    }
}
