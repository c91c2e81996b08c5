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

use crate::shell::OutputSink;
use crate::shell::background::live_layer::LiveLayerSeat;
use crate::shell::command_access::CommandAccess;
use crate::shell::effects::commit_effects::{CommittedEffects, EffectBasis, EffectsCommit};
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::foreground::command_turn::CommandTurn;
use crate::shell::foreground::run::{CommandLayerGuard, PreparedCommand, build_run_result, follow_output};
use crate::shell::runtime::is_over_limit;
use crate::{CommandChanges, RunResult};

/// Longer than one tick of the clock that dates files. Entries that were placed on a layer this long ago are older than
/// all effects of the command.
const MOMENT: Duration = Duration::from_millis(60);

impl CommandAccess {
    /// Runs a command on a layer of its own while background processes run on the live layer.
    pub(in crate::shell) async fn run_on_side_layer(
        &self,
        seat: LiveLayerSeat,
        turn: CommandTurn,
        prepared: PreparedCommand,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let under = self.files_under_layer();
        let restrictions = self.shell.cached_restrictions(&under).await?;
        let state = seat.bench_state().clone();
        // The time is taken before the layer is laid: a file that others change in between must count as changed since.
        let at = self.shell.file_time().await?;
        let laid = self.shell.lay_layer(&restrictions, &state).await?;
        let cover = CommandLayerGuard::new(&self.shell, &laid, state, (seat, turn));
        let basis = self.shell.copy_live_layer(&under, &*laid.layer, at).await?;
        cover.note.write_note(&basis, &prepared.label)?;
        let mark = mark_layer(&*laid.layer).await?;
        let mut process = laid
            .layer
            .start_last_process(laid.complete_command(&prepared.command, &self.files.view.base))
            .await?;
        let running = async {
            let ran = follow_output(&mut *process, &prepared, sink).await?;
            laid.layer.lift().await?;
            let changed = match self.shell.read_effects(&*laid.layer, &cover.state, Some(&mark)).await {
                Ok(effects) => {
                    self.commit_side_layer((&basis, &cover.note), &prepared, &ran.exit, effects)
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
        let corrupt = self.files.view.visible_corrupt_paths(&cover.state);
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
        (basis, note): (&EffectBasis, &LayerNotePlace),
        prepared: &PreparedCommand,
        exit: &CommandExit,
        effects: Effects,
    ) -> Result<CommandChanges> {
        // A preview changes no file, so it does not pause the processes.
        let files = match prepared.effects {
            EffectsMode::Discard => self.files_under_layer(),
            EffectsMode::Commit | EffectsMode::Ask => self.files.clone(),
        };
        let commit = EffectsCommit {
            files: &files,
            basis,
            note,
            origin: self.run_origin(prepared, exit),
            mode: prepared.effects,
            has_quota_turns: false,
        };
        let committed = self.shell.commit_command_effects(&commit, effects.effects).await?;
        let CommittedEffects { keeping, excluded, .. } = committed;
        let hidden = self.shell.show_excluded(excluded.clone()).await?;
        let dropped: Vec<_> = effects
            .dropped
            .into_iter()
            .chain(hidden.iter().map(dropped_as_hidden))
            .collect();
        Ok(self
            .files
            .view
            .summarize_effects(&keeping, &excluded, &dropped, &self.shell.exclusions))
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
