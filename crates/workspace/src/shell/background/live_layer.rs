//! The live layer: one layer for all background processes, and the exchange of changes between it and the files.
//!
//! File operations, undo and merges always go to the files under the layer. While a layer is live, the effects of its
//! processes are committed before an operation reads the files; this is called settling. The changes of an operation
//! are placed on the layer afterwards, so that the processes see them. Both happen while the processes are paused, so
//! that neither side sees half of a change.

mod process_pause;
mod settlement;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garret_core::path::quote;
use garret_core::{
    BenchState, Effect, EffectsMark, EffectsMode, EntryPath, Error, ErrorKind, Layer, OpenSandbox, Origin, PlacedEntry,
    Result, Timestamp, TurnGuard, WsPath,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::file_access::FileAccess;
use crate::shell::background::layer_index::LayerIndex;
use crate::shell::background::side_layer::mark_layer;
use crate::shell::effects::commit_effects::{EffectBasis, EffectCommitReport};
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::foreground::command_turn::CommandTurn;
use crate::shell::foreground::run::PreparedCommand;
use crate::shell::runtime::{BenchLease, SandboxLayer, ShellRuntime, is_over_limit, spawn_in_background};
use crate::view::WorkspaceView;

pub(crate) use process_pause::{ForeseenChange, ProcessPause};
pub(in crate::shell) use settlement::{SettleAudience, SettleReport, SettleRequest};

/// The place of the live layer, which may be empty.
#[derive(Debug, Default)]
pub(in crate::shell) struct LiveSlot {
    /// Whether there is a live layer. Read without a lock, so that operations cost nothing more while there is none.
    is_live: AtomicBool,
    /// The view that the layer was laid for. The turns with its quotas are taken before the lock on the layer.
    view: std::sync::Mutex<Option<Arc<WorkspaceView>>>,
    live: Arc<Mutex<Option<LiveLayer>>>,
    /// Notices on commands that a pause ended, each with the view that started them. The next answer to a tool call
    /// returns them.
    pause_notices: std::sync::Mutex<Vec<(Arc<WorkspaceView>, String)>>,
    /// Notices on effects that could not be kept, each with the view of the processes.
    notices: std::sync::Mutex<Vec<(Arc<WorkspaceView>, String)>>,
}

/// A layer with background processes.
#[derive(Debug)]
struct LiveLayer {
    laid: SandboxLayer,
    state: BenchState,
    held: Option<BenchLease>,
    /// The turn between processes, if the bench must not change as long as the layer lives.
    _turn: Option<Arc<TurnGuard>>,
    basis: EffectBasis,
    mark: Option<EffectsMark>,
    /// The index of the entries on the layer.
    shadow: LayerIndex,
    /// Paths at which the layer still differs from the files; the entries of the files are to be placed there.
    owed: BTreeSet<EntryPath>,
    /// The files under it, for the view that it was laid for. Its processes do not see paths that this view may not see.
    files: FileAccess,
    /// The seats that are taken, each with the label of its command; `None` for a holder that only needs the layer to
    /// stay.
    seats: BTreeMap<u64, Option<String>>,
    next_seat: u64,
    /// The labels of all commands that had a seat since the last change: any of them may have written.
    writers: Vec<String>,
}

/// A seat on the live layer. The layer stays as long as somebody has one.
#[derive(Debug)]
pub(crate) struct LiveLayerSeat {
    shell: Arc<ShellRuntime>,
    number: u64,
    laid: SandboxLayer,
    state: BenchState,
    /// The view that the layer was laid for.
    view: Arc<WorkspaceView>,
    is_taken: bool,
}

/// The layer that a foreground command runs on.
#[derive(Debug)]
pub(in crate::shell) enum CommandPlacement {
    /// A layer of its own: there is no live layer.
    Own,
    /// The live layer, together with the background processes.
    Live(LiveLayerSeat),
    /// A layer of its own that begins with the entries of the live layer; the seat keeps the live layer.
    Side(LiveLayerSeat),
}

impl LiveSlot {
    pub(in crate::shell) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Returns the sandbox of the live layer.
    pub(in crate::shell) async fn layer_sandbox(&self) -> Option<Arc<dyn OpenSandbox>> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.laid.sandbox.clone())
    }

    /// Returns the bench under the live layer.
    pub(in crate::shell) async fn bench_state(&self) -> Option<BenchState> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.state.clone())
    }

    /// Takes the notices on effects that could not be kept, as far as `view` may know of them. Each notice is returned
    /// once.
    pub(in crate::shell) fn take_notices(&self, view: &WorkspaceView) -> Vec<String> {
        let mut notices = self.notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Adds a notice for the next listing of the processes of `view`.
    pub(in crate::shell) fn add_notice(&self, view: &Arc<WorkspaceView>, text: String) {
        // Nobody may ever ask for them, and a process that is refused again and again makes the same one each time.
        const MOST: usize = 20;
        let mut notices = self.notices.lock().expect("no holder panics");
        if notices.len() < MOST && !notices.iter().any(|(_, known)| *known == text) {
            notices.push((view.clone(), text));
        }
    }

    /// Takes the notices on commands that a pause ended, as far as `view` may know of them.
    pub(in crate::shell) fn take_pause_notices(&self, view: &WorkspaceView) -> Vec<String> {
        let mut notices = self.pause_notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Pauses the processes of a layer. The next answer to a tool call names the commands that were ended because they
    /// did not stop.
    async fn pause_layer(&self, live: &LiveLayer) -> Result<PausedLayer> {
        // Made before the call: if the caller stops waiting in the middle of it, the drop of this guard lets the
        // processes go on.
        let mut paused = PausedLayer {
            layer: live.laid.layer.clone(),
            slot: self.live.clone(),
            is_paused: true,
        };
        let ended = paused.layer.pause().await;
        paused.is_paused = ended.is_ok();
        match ended? {
            0 => {}
            count => {
                let mut notices = self.pause_notices.lock().expect("no holder panics");
                notices.push((live.files.view.clone(), pause_notice(count)));
            }
        }
        Ok(paused)
    }

    /// Returns the view that the live layer was laid for.
    fn layer_view(&self) -> Option<Arc<WorkspaceView>> {
        if self.is_live() {
            self.view.lock().expect("no holder panics").clone()
        } else {
            None
        }
    }

    fn set_layer(&self, slot: &mut Option<LiveLayer>, live: Option<LiveLayer>) {
        *self.view.lock().expect("no holder panics") = live.as_ref().map(|live| live.files.view.clone());
        self.is_live.store(live.is_some(), Ordering::Release);
        *slot = live;
    }
}

impl ShellRuntime {
    /// Chooses the layer for a command: the live one, if the command has the same rules as the processes there and its
    /// effects are to be committed.
    pub(in crate::shell) async fn choose_layer(
        self: &Arc<Self>,
        view: &WorkspaceView,
        prepared: &PreparedCommand,
    ) -> CommandPlacement {
        match self.live.live.lock().await.as_mut() {
            None => CommandPlacement::Own,
            Some(live) if prepared.effects == EffectsMode::Commit && live.files.view.has_same_rules(view) => {
                CommandPlacement::Live(self.take_seat(live, Some(&prepared.label)))
            }
            Some(live) => CommandPlacement::Side(self.take_seat(live, None)),
        }
    }

    /// Takes a seat on the live layer. If there is none, lays one, in the turn `turn`.
    pub(in crate::shell) async fn join_or_lay_live_layer(
        self: &Arc<Self>,
        files: &FileAccess,
        name: &str,
        turn: &CommandTurn,
    ) -> Result<LiveLayerSeat> {
        if let Some(live) = self.live.live.lock().await.as_mut() {
            live.check_view(&files.view)?;
            return Ok(self.take_seat(live, Some(name)));
        }
        let under = self.files_under_layer(files);
        let restrictions = self.cached_restrictions(&under).await?;
        let (state, held) = self.prepare_bench().await?;
        let at = self.file_time().await?;
        let laid = self.lay_layer(&restrictions, &state).await?;
        for path in under.view.visible_corrupt_paths(&state) {
            let words = format!(
                "{} is damaged, and the background processes cannot see it",
                quote(&path)
            );
            self.live.add_notice(&under.view, words);
        }
        let basis = EffectBasis { head: state.head, at };
        LayerNotePlace::new(&state, laid.layer.id()).write_note(&basis, name)?;
        // A copy of the bench has all files from the beginning. The mark tells the effects of the processes from them.
        let mark = if laid.is_copy() {
            Some(mark_layer(&*laid.layer).await?)
        } else {
            None
        };
        let mut live = LiveLayer {
            laid,
            state,
            held: Some(held),
            _turn: turn.share_between_processes(),
            basis,
            mark,
            shadow: LayerIndex::default(),
            owed: BTreeSet::new(),
            files: under,
            seats: BTreeMap::new(),
            next_seat: 0,
            writers: Vec::new(),
        };
        let seat = self.take_seat(&mut live, Some(name));
        let mut slot = self.live.live.lock().await;
        self.live.set_layer(&mut slot, Some(live));
        Ok(seat)
    }

    fn take_seat(self: &Arc<Self>, live: &mut LiveLayer, name: Option<&str>) -> LiveLayerSeat {
        let number = live.next_seat;
        live.next_seat += 1;
        live.seats.insert(number, name.map(str::to_owned));
        live.writers.extend(name.map(str::to_owned));
        LiveLayerSeat {
            shell: self.clone(),
            number,
            laid: live.laid.clone(),
            state: live.state.clone(),
            view: live.files.view.clone(),
            is_taken: true,
        }
    }

    /// Brings the live layer and the files to the same state, with the changes that others made to the files so far.
    pub(in crate::shell) async fn catch_up(&self) -> Result<()> {
        if !self.live.is_live() {
            return Ok(());
        }
        // First the journal learns of changes by other programs, then settling places them on the layer.
        self.bench.record_outside_changes().await?;
        self.settle_live_layer(SettleRequest::default()).await.map(drop)
    }

    /// Handles an error of the live layer, so that a layer that cannot go on does not block later operations. A layer
    /// whose effects are over the limits is ended, and its effects since the last commit are discarded. A layer whose
    /// sandbox died is given up; its effects are a leftover. Any other error is returned, and the processes go on.
    async fn handle_layer_failure(
        &self,
        slot: &mut MutexGuard<'_, Option<LiveLayer>>,
        error: Error,
        told: SettleAudience,
    ) -> Result<Option<SettleReport>> {
        if is_over_limit(&error) {
            let Some(mut live) = slot.take() else { return Err(error) };
            self.live.set_layer(slot, None);
            return self.discard_live_layer(&mut live, error, told).await.map(Some);
        }
        let Some(live) = slot.as_ref() else { return Err(error) };
        // The storage may be unavailable for a moment, while the processes run on. So the sandbox itself is
        // asked if it is alive.
        if error.kind() != ErrorKind::Unavailable || live.laid.layer.resume().await.is_ok() {
            return Err(error);
        }
        let words = format!(
            "the sandbox of the background processes ended unexpectedly ({}); their last changes are kept as a leftover",
            error.message()
        );
        self.live.add_notice(&live.files.view, words);
        self.live.set_layer(slot, None);
        Ok(None)
    }

    /// Ends the processes on a layer whose effects are over the limits, and discards their effects since the last
    /// commit.
    async fn discard_live_layer(
        &self,
        live: &mut LiveLayer,
        refusal: Error,
        told: SettleAudience,
    ) -> Result<SettleReport> {
        let layer = live.laid.layer.clone();
        layer.lift().await?;
        if told == SettleAudience::Nobody {
            let words = format!(
                "the background processes were ended, and their last changes were rolled back: {}",
                refusal.message()
            );
            self.live.add_notice(&live.files.view, words);
        }
        if let Some(held) = live.held.take() {
            held.release_unchanged().await?;
        }
        live.note_place().remove_note();
        layer.remove().await?;
        Ok(SettleReport {
            keeping: EffectCommitReport::from_refusal(&[], refusal),
            excluded: Vec::new(),
            dropped: Vec::new(),
        })
    }

    /// Gives up a seat, or all seats: the effects on the layer are committed, and with the last seat the layer is
    /// removed.
    async fn leave_seats(&self, number: Option<u64>, taking: SettleRequest) -> Result<Option<SettleReport>> {
        let Some(view) = self.live.layer_view() else {
            return Ok(None);
        };
        let _turns = view.take_quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else { return Ok(None) };
        if let Some(number) = number
            && live.seats.keys().any(|seat| *seat != number)
        {
            let told = taking.told;
            let settled = self.pause_and_settle(live, taking).await;
            live.seats.remove(&number);
            return match settled {
                Ok(settled) => Ok(Some(settled)),
                Err(error) => self.handle_layer_failure(&mut slot, error, told).await,
            };
        }
        // From here on the layer belongs to nobody: effects that cannot be committed now are a leftover.
        let Some(mut live) = slot.take() else { return Ok(None) };
        self.live.set_layer(&mut slot, None);
        self.finish_live_layer(&mut live, taking).await.map(Some)
    }

    async fn leave_seat_unreported(&self, number: u64, view: &Arc<WorkspaceView>, origin: Option<Origin>) {
        let told = SettleAudience::Nobody;
        if let Err(error) = self.leave_seats(Some(number), SettleRequest { origin, told }).await {
            self.live.add_notice(
                view,
                format!("changes of the background processes were not kept: {}", error.message()),
            );
        }
    }

    /// Copies the entries of the live layer that the view of `files` may see to `layer`, which lies over the same bench. Returns the
    /// state of the files that `layer` now begins with; it was laid at the time `at` or later.
    pub(in crate::shell) async fn copy_live_layer(
        &self,
        files: &FileAccess,
        layer: &dyn Layer,
        at: Timestamp,
    ) -> Result<EffectBasis> {
        let owner = self.live.layer_view().ok_or_else(just_ended_error)?;
        let _turns = owner.take_quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let live = slot.as_mut().ok_or_else(just_ended_error)?;
        let paused = self.live.pause_layer(live).await?;
        self.settle_paused(live, SettleRequest::default()).await?;
        let whole = live.laid.layer.read_effects(None).await?;
        files.place_visible_effects(layer, whole.effects).await?;
        let basis = EffectBasis {
            head: live.basis.head,
            at,
        };
        paused.resume().await?;
        Ok(basis)
    }

    /// Places excluded effects on the live layer, from which the bench takes them over at the end. Returns the effects
    /// that the processes may not see.
    pub(in crate::shell) async fn show_excluded(&self, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut().filter(|_| !effects.is_empty()) else {
            return Ok(effects);
        };
        let (shown, hidden) = effects
            .into_iter()
            .partition(|effect| live.files.view.is_effect_visible(effect));
        let paused = self.live.pause_layer(live).await?;
        live.place_effects(shown).await?;
        paused.resume().await?;
        Ok(hidden)
    }

    /// Ends all processes and contexts, removes the live layer, and closes the sandboxes.
    pub(in crate::shell) async fn close_shell(&self) -> Result<()> {
        self.processes.end_all().await;
        self.contexts.end_all().await;
        self.leave_seats(None, SettleRequest::default()).await?;
        // Waits for the layers of cancelled commands, which are removed in the background and need their sandboxes.
        drop(self.clearing.write().await);
        self.close_sandboxes().await
    }
}

impl LiveLayer {
    fn check_view(&self, view: &WorkspaceView) -> Result<()> {
        if self.files.view.has_same_rules(view) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "background processes of another view of this workspace are running, and all background processes share one view of the files",
        )
        .hint("end them first, start this process from the same view, or run it in the foreground"))
    }

    /// Places the entries of the files on the layer at all owed paths.
    async fn place_owed(&mut self) -> Result<()> {
        let places = self.files.source.read_entries_as_effects(self.owed.iter()).await?;
        // Cleared before the attempt: an entry that the layer does not take would make every later operation fail, too.
        self.owed.clear();
        self.place_effects(places).await
    }

    /// Places effects on the layer, and updates the mark and the index, so that they are not taken for effects of the
    /// processes.
    async fn place_effects(&mut self, effects: Vec<Effect>) -> Result<()> {
        let placed = self.files.place_visible_effects(&*self.laid.layer, effects).await?;
        if !placed.is_empty() {
            self.mark = Some(self.laid.layer.read_effects(self.mark.as_ref()).await?.mark);
            self.shadow.add_effects(&placed)?;
        }
        Ok(())
    }
}

impl WorkspaceView {
    /// Whether `view` is the view of this workspace, or was made by narrowing it.
    pub(crate) fn encloses(&self, view: &WorkspaceView) -> bool {
        let own = &self.layers;
        let mut layers = own.iter().zip(&view.layers);
        own.len() <= view.layers.len() && layers.all(|(one, two)| one.has_same_rules(two))
    }

    /// Whether a process of this view may see the path of an effect. The directories above the view's own are visible,
    /// too.
    fn is_effect_visible(&self, effect: &Effect) -> bool {
        let is_above = |path: &WsPath| self.base.is_within(path);
        let is_directory = !matches!(effect.placed, PlacedEntry::File { .. } | PlacedEntry::Symlink { .. });
        self.is_entry_visible(&effect.path, is_directory) || effect.path.as_path().is_some_and(is_above)
    }
}

impl FileAccess {
    /// Places the effects that the processes of this view may see on a layer, and returns those. Further names of a
    /// denied file are left out.
    async fn place_visible_effects(&self, layer: &dyn Layer, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        // To find the further names costs a look at the whole tree, so it is done only if it can matter.
        let has_file = effects
            .iter()
            .any(|effect| matches!(effect.placed, PlacedEntry::File { .. }));
        let denied = if has_file {
            self.hard_links().denied_names().await?
        } else {
            Arc::default()
        };
        let is_shown = |effect: &Effect| self.view.is_effect_visible(effect) && !denied.contains(&effect.path);
        let shown = effects.into_iter().filter(is_shown);
        // Entries inside a directory are removed before it, and created after it.
        let (gone, come): (Vec<_>, Vec<_>) = shown.partition(|effect| effect.placed == PlacedEntry::Nothing);
        let ordered: Vec<_> = gone.into_iter().rev().chain(come).collect();
        if !ordered.is_empty() {
            layer.place_entries(ordered.clone()).await?;
        }
        Ok(ordered)
    }
}

impl LiveLayerSeat {
    /// Returns the live layer, and the sandbox that it belongs to.
    pub(in crate::shell) fn sandbox_layer(&self) -> &SandboxLayer {
        &self.laid
    }

    /// Returns the bench under the live layer.
    pub(in crate::shell) fn bench_state(&self) -> &BenchState {
        &self.state
    }

    /// Gives up the seat, and commits the effects on the layer.
    pub(in crate::shell) async fn leave_and_report(mut self, taking: SettleRequest) -> Result<Option<SettleReport>> {
        self.is_taken = false;
        self.shell.leave_seats(Some(self.number), taking).await
    }

    /// Gives up the seat, and commits the effects on the layer. For a caller that does not wait for the result: effects
    /// that cannot be kept are noted for the next listing of the processes.
    pub(in crate::shell) async fn leave_unreported(mut self, origin: Option<Origin>) {
        self.is_taken = false;
        self.shell.leave_seat_unreported(self.number, &self.view, origin).await;
    }
}

impl Drop for LiveLayerSeat {
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let (shell, number, view) = (self.shell.clone(), self.number, self.view.clone());
        spawn_in_background(async move { shell.leave_seat_unreported(number, &view, None).await });
    }
}

fn pause_notice(count: u64) -> String {
    let subject = match count {
        1 => "1 command that was running during this call was ended: its processes".to_owned(),
        count => format!("{count} commands that were running during this call were ended: their processes"),
    };
    format!("{subject} did not stop within one second while Garret read or changed the files (written files are kept)")
}

fn just_ended_error() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the background processes ended before the command began",
    )
    .hint("run it again")
}

/// A pause of the processes on a layer. They go on when it is dropped, too.
struct PausedLayer {
    layer: Arc<dyn Layer>,
    slot: Arc<Mutex<Option<LiveLayer>>>,
    is_paused: bool,
}

impl PausedLayer {
    async fn resume(mut self) -> Result<()> {
        self.layer.resume().await?;
        self.is_paused = false;
        Ok(())
    }
}

impl Drop for PausedLayer {
    fn drop(&mut self) {
        if self.is_paused {
            let (layer, slot) = (self.layer.clone(), self.slot.clone());
            spawn_in_background(async move {
                // The holder of the lock may have paused the layer again, and its pause must not be ended here.
                let _slot = slot.lock().await;
                // In a dead sandbox there is nothing to resume.
                let _ = layer.resume().await;
            });
        }
    }
}

#[cfg(test)]
mod tests;
