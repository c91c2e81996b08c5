//! Runs a command on a side layer: a layer of its own, beside the live layer of the background processes, that begins
//! with the same files.
//!
//! On the live layer, the effects of a command cannot be told from those of the processes, and the command sees the
//! files that they see. So a command whose effects may have to be discarded, and a command of a view with other rules,
//! gets a second layer over the same bench. The entries of the live layer are copied to it first, while the processes
//! are paused. Then both sides go on apart, until the command has ended and its effects are committed as any other
//! change.

use std::time::Duration;

use garret_core::{Dropped, Effect, Effects, EffectsMode, Exit, Layer, Mark, Result};

use super::keep::{Basis, Kept, Maker};
use super::live::Seat;
use super::result::{Changed, RunResult};
use super::run::{Cover, Prepared, follow_output, result};
use super::turn::CommandTurn;
use super::workshop::{Workshop, is_over_limit};
use super::{OutputSink, note};
use crate::Workspace;

/// Longer than one tick of the clock that dates files. Entries that were placed on a layer this long ago are older than
/// all effects of the command.
const MOMENT: Duration = Duration::from_millis(60);

impl Workspace {
    /// Runs a command on a layer of its own while background processes run on the live layer.
    pub(super) async fn run_beside(
        &self,
        seat: Seat,
        turn: CommandTurn,
        prepared: Prepared,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        let shop = self.workshop()?;
        let under = shop.under(self);
        let fence = under.fence_in(shop).await?;
        let state = seat.state().clone();
        // The time is taken before the layer is laid: a file that others change in between must count as changed since.
        let at = shop.file_time().await?;
        let laid = shop.lay(&fence, &state).await?;
        let cover = Cover::new(shop, &laid, state, (seat, turn));
        let basis = shop.begin_as_live(&under, &*laid.layer, at).await?;
        note::write(&cover.state, laid.layer.id(), &basis, &prepared.label)?;
        let mark = mark(&*laid.layer).await?;
        let mut process = laid.layer.start_last(prepared.command.clone()).await?;
        let running = async {
            let ran = follow_output(&mut *process, &prepared, sink).await?;
            laid.layer.lift().await?;
            let changed = match shop.effects_of(&*laid.layer, &cover.state, Some(&mark)).await {
                Ok(effects) => self.keep_beside(shop, &basis, &prepared, &ran.exit, effects).await?,
                Err(refusal) if is_over_limit(&refusal) => Changed::refused(&refusal),
                Err(error) => return Err(error),
            };
            Ok((ran, changed))
        };
        let (ran, changed) = match running.await {
            Ok(ran) => ran,
            Err(error) => return Err(cover.leave_behind(&error)),
        };
        let corrupt = self.shown_corrupt(&cover.state);
        // The result of the command does not depend on the effects of the processes, so an error from them is only
        // noted.
        if let Some((seat, _turn)) = cover.off().await? {
            seat.leave_untold(None).await;
        }
        Ok(RunResult {
            corrupt,
            ..result(ran, changed, &laid)
        })
    }

    /// Commits the effects of the command, and shows them to the background processes.
    async fn keep_beside(
        &self,
        shop: &Workshop,
        basis: &Basis,
        prepared: &Prepared,
        exit: &Exit,
        effects: Effects,
    ) -> Result<Changed> {
        let split = self.split(shop, effects.effects).await?;
        let maker = Maker {
            origin: self.run_origin(prepared, exit),
            mode: prepared.effects,
            has_quota_turns: false,
        };
        // A preview changes no file, so it goes past the wrappers and does not pause the processes.
        let keeping = match prepared.effects {
            EffectsMode::Discard => shop.under(self).keep(&split, basis, maker).await?,
            EffectsMode::Commit | EffectsMode::Ask => self.keep(&split, basis, maker).await?,
        };
        let is_in_files = keeping.is_in_files() && prepared.effects != EffectsMode::Discard;
        let excluded = if is_in_files || matches!(keeping.kept, Kept::Branch(_)) {
            split.excluded
        } else {
            Vec::new()
        };
        let hidden = shop.show_excluded(excluded.clone()).await?;
        if let Kept::Change(change) = &keeping.kept {
            shop.note_kept_out(change.number, &excluded);
        }
        let dropped: Vec<_> = effects.dropped.into_iter().chain(hidden.iter().map(unseen)).collect();
        Ok(self.changed(&keeping, &excluded, &dropped, shop))
    }
}

/// Returns the mark of the present state of a layer on which nothing runs yet.
pub(super) async fn mark(layer: &dyn Layer) -> Result<Mark> {
    tokio::time::sleep(MOMENT).await;
    layer.pause().await?;
    let effects = layer.effects(None).await?;
    layer.resume().await?;
    Ok(effects.mark)
}

/// Reports an effect as dropped: its path is excluded from history, and hidden from the processes whose layer holds the
/// bench.
fn unseen(effect: &Effect) -> Dropped {
    Dropped {
        path: effect.path.clone(),
        what: "path that is excluded from history and hidden from background processes",
    }
}
