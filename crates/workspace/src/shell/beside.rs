//! A command beside the processes in the background: on a layer of its own that begins as the live one stands.
//!
//! On the live layer, what a command does cannot be told from what the processes do meanwhile, and it sees what they see. So a command
//! whose work may have to be forgotten, and a command of a view with other rules, has a second layer over the same bench. Everything that the
//! live layer has is put there first, while its processes stand still; then they go on, and neither side sees the other until the command has
//! ended and what it did is a change like any other.

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

/// Longer than what a file system takes for one moment: what was put on a layer before it is not taken for the command's work.
const MOMENT: Duration = Duration::from_millis(60);

impl Workspace {
    /// Runs a command on a layer of its own while processes live on theirs.
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
        // What became of the command does not depend on whether anybody else needs the live layer.
        if let Some((seat, _turn)) = cover.off().await? {
            seat.leave_untold(None).await;
        }
        Ok(RunResult {
            corrupt,
            ..result(ran, changed, &laid)
        })
    }

    /// Keeps what the command did, and shows it to the processes.
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
        // Whoever only looks need not have the processes stand still.
        let keeping = match prepared.effects {
            EffectsMode::Discard => shop.under(self).keep(&split, basis, maker).await?,
            EffectsMode::Commit | EffectsMode::Ask => self.keep(&split, basis, maker).await?,
        };
        let is_in_files = keeping.is_in_files() && prepared.effects != EffectsMode::Discard;
        let excluded = match is_in_files || matches!(keeping.kept, Kept::Branch(_)) {
            true => split.excluded,
            false => Vec::new(),
        };
        let hidden = shop.show_excluded(excluded.clone()).await?;
        if let Kept::Change(change) = &keeping.kept {
            shop.note_kept_out(change.number, &excluded);
        }
        let dropped: Vec<_> = effects.dropped.into_iter().chain(hidden.iter().map(unseen)).collect();
        Ok(self.changed(&keeping, &excluded, &dropped, shop))
    }
}

/// Where a layer stands on which nothing runs yet.
pub(super) async fn mark(layer: &dyn Layer) -> Result<Mark> {
    tokio::time::sleep(MOMENT).await;
    layer.pause().await?;
    let effects = layer.effects(None).await?;
    layer.resume().await?;
    Ok(effects.mark)
}

/// What is in no history, and nowhere where the processes that hold the bench may see it.
fn unseen(effect: &Effect) -> Dropped {
    Dropped {
        path: effect.path.clone(),
        what: "path that is excluded from history and hidden from background processes",
    }
}
