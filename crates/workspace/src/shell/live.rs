//! The live layer: one layer for all background processes, and the exchange of changes between it and the files.
//!
//! File operations, undo and merges always go to the files under the layer. While a layer is live, the effects of its
//! processes are committed before an operation reads the files; this is called settling. The changes of an operation
//! are placed on the layer afterwards, so that the processes see them. Both happen while the processes are paused, so
//! that neither side sees half of a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garret_core::path::quote;
use garret_core::{
    BenchState, ChangeKind, Dropped, Effect, EffectsMode, EntryPath, Error, ErrorKind, Layer, Mark, OpenSandbox,
    Origin, PathChange, Placed, Point, Result, Taken, Timestamp, TurnGuard, WsPath,
};
use tokio::sync::{Mutex, MutexGuard};

use super::benched::Foreseen;
use super::beside::mark;
use super::filed;
use super::keep::{Basis, Keeping, Kept, Maker, Split};
use super::label;
use super::result::Changed;
use super::run::Prepared;
use super::shadow::Shadow;
use super::turn::CommandTurn;
use super::workshop::{Held, Laid, Workshop, in_background, is_over_limit};
use crate::Workspace;
use crate::workspace::View;

/// The place of the live layer, which may be empty.
#[derive(Debug, Default)]
pub(super) struct LiveSlot {
    /// Whether there is a live layer. Read without a lock, so that operations cost nothing more while there is none.
    is_live: AtomicBool,
    /// The view that the layer was laid for. The turns with its quotas are taken before the lock on the layer.
    view: std::sync::Mutex<Option<Workspace>>,
    live: Arc<Mutex<Option<Live>>>,
    /// Notices on commands that a pause ended, each with the view that started them. The next answer to a tool call
    /// returns them.
    pause_notices: std::sync::Mutex<Vec<(Arc<View>, String)>>,
    /// Notices on effects that could not be kept, each with the view of the processes.
    notices: std::sync::Mutex<Vec<(Arc<View>, String)>>,
}

/// A layer with background processes.
#[derive(Debug)]
struct Live {
    laid: Laid,
    state: BenchState,
    held: Option<Held>,
    /// The turn between processes, if the bench must not change as long as the layer lives.
    _turn: Option<Arc<TurnGuard>>,
    basis: Basis,
    mark: Option<Mark>,
    /// The index of the entries on the layer.
    shadow: Shadow,
    /// Paths at which the layer still differs from the files; the entries of the files are to be placed there.
    owed: BTreeSet<EntryPath>,
    /// The view that it was laid for. Its processes do not see paths that this view may not see.
    view: Workspace,
    /// The seats that are taken, each with the label of its command; `None` for a holder that only needs the layer to
    /// stay.
    seats: BTreeMap<u64, Option<String>>,
    next_seat: u64,
    /// The labels of all commands that had a seat since the last change: any of them may have written.
    writers: Vec<String>,
}

/// A seat on the live layer. The layer stays as long as somebody has one.
#[derive(Debug)]
pub(crate) struct Seat {
    shop: Arc<Workshop>,
    number: u64,
    laid: Laid,
    state: BenchState,
    /// The view that the layer was laid for.
    view: Arc<View>,
    is_taken: bool,
}

/// The layer that a foreground command runs on.
#[derive(Debug)]
pub(super) enum RunsOn {
    /// A layer of its own: there is no live layer.
    OwnLayer,
    /// The live layer, together with the background processes.
    LiveLayer(Seat),
    /// A layer of its own that begins with the entries of the live layer; the seat keeps the live layer.
    LayerBeside(Seat),
}

/// The report on effects that were committed from the live layer.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) keeping: Keeping,
    pub(super) excluded: Vec<Effect>,
    pub(super) dropped: Vec<Dropped>,
}

/// A request to commit the effects of the processes on the live layer.
#[derive(Debug, Clone, Default)]
pub(super) struct Taking {
    /// The operation, its summary and its actor; `None` for those of the processes themselves.
    pub(super) origin: Option<Origin>,
    /// Who gets the report.
    pub(super) told: Told,
}

/// Who gets the report on effects of background processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// Nobody at once: effects that could not be kept are noted for the next listing of the processes.
    #[default]
    Nobody,
    /// The caller gets it in the answer, so that no notice is needed.
    Caller,
}

impl LiveSlot {
    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Returns the sandbox of the live layer.
    pub(super) async fn sandbox(&self) -> Option<Arc<dyn OpenSandbox>> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.laid.sandbox.clone())
    }

    /// Returns the bench under the live layer.
    pub(super) async fn state(&self) -> Option<BenchState> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.state.clone())
    }

    /// Takes the notices on effects that could not be kept, as far as `view` may know of them. Each notice is returned
    /// once.
    pub(super) fn notices(&self, view: &Workspace) -> Vec<String> {
        let mut notices = self.notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Adds a notice for the next listing of the processes of `view`.
    pub(super) fn notice(&self, view: &Arc<View>, text: String) {
        // Nobody may ever ask for them, and a process that is refused again and again makes the same one each time.
        const MOST: usize = 20;
        let mut notices = self.notices.lock().expect("no holder panics");
        if notices.len() < MOST && !notices.iter().any(|(_, known)| *known == text) {
            notices.push((view.clone(), text));
        }
    }

    /// Takes the notices on commands that a pause ended, as far as `view` may know of them.
    pub(super) fn take_pause_notices(&self, view: &Workspace) -> Vec<String> {
        let mut notices = self.pause_notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Pauses the processes of a layer. The next answer to a tool call names the commands that were ended because they
    /// did not stop.
    async fn pause(&self, live: &Live) -> Result<Paused> {
        // Made before the call: if the caller stops waiting in the middle of it, the drop of this guard lets the
        // processes go on.
        let mut paused = Paused {
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
                notices.push((live.view.view.clone(), ended_by_pause(count)));
            }
        }
        Ok(paused)
    }

    /// Returns the view that the live layer was laid for.
    fn view(&self) -> Option<Workspace> {
        if self.is_live() {
            self.view.lock().expect("no holder panics").clone()
        } else {
            None
        }
    }

    fn set(&self, slot: &mut Option<Live>, live: Option<Live>) {
        *self.view.lock().expect("no holder panics") = live.as_ref().map(|live| live.view.clone());
        self.is_live.store(live.is_some(), Ordering::Release);
        *slot = live;
    }
}

impl Workshop {
    /// Chooses the layer for a command: the live one, if the command has the same rules as the processes there and its
    /// effects are to be committed.
    pub(super) async fn place_for(self: &Arc<Self>, view: &Workspace, prepared: &Prepared) -> RunsOn {
        match self.live.live.lock().await.as_mut() {
            None => RunsOn::OwnLayer,
            Some(live) if prepared.effects == EffectsMode::Commit && live.view.has_same_rules(view) => {
                RunsOn::LiveLayer(self.sit(live, Some(&prepared.label)))
            }
            Some(live) => RunsOn::LayerBeside(self.sit(live, None)),
        }
    }

    /// Takes a seat on the live layer. If there is none, lays one, in the turn `turn`.
    pub(super) async fn seat_or_lay(
        self: &Arc<Self>,
        view: &Workspace,
        name: &str,
        turn: &CommandTurn,
    ) -> Result<Seat> {
        if let Some(live) = self.live.live.lock().await.as_mut() {
            live.check_view(view)?;
            return Ok(self.sit(live, Some(name)));
        }
        let under = self.under(view);
        let fence = under.fence_in(self).await?;
        let (state, held) = self.ready().await?;
        let at = self.file_time().await?;
        let laid = self.lay(&fence, &state).await?;
        for path in under.shown_corrupt(&state) {
            let words = format!(
                "{} is damaged, and the background processes cannot see it",
                quote(&path)
            );
            self.live.notice(&under.view, words);
        }
        let basis = Basis { head: state.head, at };
        super::note::write(&state, laid.layer.id(), &basis, name)?;
        // A copy of the bench has all files from the beginning. The mark tells the effects of the processes from them.
        let mark = if laid.is_copy() {
            Some(mark(&*laid.layer).await?)
        } else {
            None
        };
        let mut live = Live {
            laid,
            state,
            held: Some(held),
            _turn: turn.share_between_processes(),
            basis,
            mark,
            shadow: Shadow::default(),
            owed: BTreeSet::new(),
            view: under,
            seats: BTreeMap::new(),
            next_seat: 0,
            writers: Vec::new(),
        };
        let seat = self.sit(&mut live, Some(name));
        let mut slot = self.live.live.lock().await;
        self.live.set(&mut slot, Some(live));
        Ok(seat)
    }

    fn sit(self: &Arc<Self>, live: &mut Live, name: Option<&str>) -> Seat {
        let number = live.next_seat;
        live.next_seat += 1;
        live.seats.insert(number, name.map(str::to_owned));
        live.writers.extend(name.map(str::to_owned));
        Seat {
            shop: self.clone(),
            number,
            laid: live.laid.clone(),
            state: live.state.clone(),
            view: live.view.view.clone(),
            is_taken: true,
        }
    }

    /// Brings the live layer and the files to the same state, with the changes that others made to the files so far.
    pub(super) async fn catch_up(&self) -> Result<()> {
        if !self.live.is_live() {
            return Ok(());
        }
        // First the journal learns of changes by other programs, then settling places them on the layer.
        self.bench.look().await?;
        self.settle(Taking::default()).await.map(drop)
    }

    /// Commits the effects of the background processes; `None` if there is no live layer.
    pub(super) async fn settle(&self, taking: Taking) -> Result<Option<Settled>> {
        let Some(view) = self.live.view() else { return Ok(None) };
        // Quotas before the layer, in the order of every other change of the files: the other order could deadlock.
        let _turns = view.quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else { return Ok(None) };
        let told = taking.told;
        match self.settle_pausing(live, taking).await {
            Err(error) => self.unless_ended(&mut slot, error, told).await,
            Ok(settled) => Ok(Some(settled)),
        }
    }

    async fn settle_pausing(&self, live: &mut Live, taking: Taking) -> Result<Settled> {
        let paused = self.live.pause(live).await?;
        let settled = self.settle_paused(live, taking).await;
        // The processes go on even if their effects could not be committed.
        let resumed = paused.resume().await;
        settled.and_then(|settled| resumed.map(|()| settled))
    }

    /// Whether the paths of a change must be known before it is made.
    pub(super) fn must_foresee(&self) -> bool {
        // If the files lie directly under the layer, the kernel does not notice that an entry below it is removed. So
        // the entry must be removed on the layer first.
        self.is_direct && self.live.is_live()
    }

    /// Runs `work`, which changes the files, while the processes are paused, and places its changes on the layer.
    pub(super) async fn mutating<T>(&self, foreseen: &Foreseen, work: impl Future<Output = Result<T>>) -> Result<T> {
        if !self.live.is_live() {
            return work.await;
        }
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else { return work.await };
        let before = async {
            let paused = self.live.pause(live).await?;
            match self.prepare(live, foreseen).await {
                Ok(()) => Ok(paused),
                Err(error) => paused.resume().await.and(Err(error)),
            }
        };
        let paused = match before.await {
            Ok(paused) => paused,
            Err(error) => {
                self.unless_ended(&mut slot, error, Told::Nobody).await?;
                return work.await;
            }
        };
        let done = work.await;
        let followed = self.follow(live, foreseen, done.is_err()).await;
        let resumed = paused.resume().await;
        if let Err(error) = followed.and(resumed) {
            let view = live.view.view.clone();
            if let Err(error) = self.unless_ended(&mut slot, error, Told::Nobody).await {
                // The change itself is made, so it must not fail for the caller.
                let words = format!(
                    "the background processes do not see the last change yet: {}",
                    error.message()
                );
                self.live.notice(&view, words);
            }
        }
        done
    }

    /// Commits the effects of the processes before the change `foreseen` is made, and prepares the layer for it.
    async fn prepare(&self, live: &mut Live, foreseen: &Foreseen) -> Result<()> {
        self.settle_paused(live, Taking::default()).await?;
        if self.is_direct {
            live.prepare(foreseen).await
        } else {
            Ok(())
        }
    }

    /// Handles an error of the live layer, so that a layer that cannot go on does not block later operations. A layer
    /// whose effects are over the limits is ended, and its effects since the last commit are discarded. A layer whose
    /// sandbox died is given up; its effects are a leftover. Any other error is returned, and the processes go on.
    async fn unless_ended(
        &self,
        slot: &mut MutexGuard<'_, Option<Live>>,
        error: Error,
        told: Told,
    ) -> Result<Option<Settled>> {
        if is_over_limit(&error) {
            let Some(mut live) = slot.take() else { return Err(error) };
            self.live.set(slot, None);
            return self.discard(&mut live, error, told).await.map(Some);
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
        self.live.notice(&live.view.view, words);
        self.live.set(slot, None);
        Ok(None)
    }

    /// Ends the processes on a layer whose effects are over the limits, and discards their effects since the last
    /// commit.
    async fn discard(&self, live: &mut Live, refusal: Error, told: Told) -> Result<Settled> {
        let layer = live.laid.layer.clone();
        layer.lift().await?;
        if told == Told::Nobody {
            let words = format!(
                "the background processes were ended, and their last changes were rolled back: {}",
                refusal.message()
            );
            self.live.notice(&live.view.view, words);
        }
        if let Some(held) = live.held.take() {
            held.release().await?;
        }
        super::note::remove(&live.state, layer.id());
        layer.remove().await?;
        Ok(Settled {
            keeping: Keeping {
                kept: Kept::Refused(refusal),
                ..Keeping::default()
            },
            excluded: Vec::new(),
            dropped: Vec::new(),
        })
    }

    async fn settle_paused(&self, live: &mut Live, taking: Taking) -> Result<Settled> {
        // Taken first: a file that others change while this runs must count as changed the next time.
        let at = self.file_time().await?;
        let unseen = if self.is_direct {
            live.laid.layer.look_below().await?
        } else {
            Vec::new()
        };
        let layer = live.laid.layer.clone();
        let effects = self.effects_of(&*layer, &live.state, live.mark.as_ref()).await?;
        let fresh = live.shadow.fresh(effects.effects)?;
        let split = live.view.split(self, fresh).await?;
        let told = taking.told;
        let keeping = live.view.keep(&split, &live.basis, live.maker(taking)).await?;
        let Split { kept, excluded } = split;
        live.mark = Some(effects.mark);
        live.shadow.remember(&kept)?;
        self.note(live, &keeping, &excluded, told);
        // Effects that were refused, or went on a branch, are not in the files. The layer must not show them any
        // longer.
        if !keeping.is_in_files() {
            live.owed.extend(kept.into_iter().map(|effect| effect.path));
        }
        live.meet_news(&keeping, self.is_direct).await?;
        live.place_owed().await?;
        if self.is_direct {
            let mut strays = live.shadow.strays(&live.view, &self.exclusions).await?;
            let unseen = live.view.as_in_files(unseen.iter()).await?;
            strays.extend(live.shadow.fresh(unseen)?);
            live.place(strays).await?;
            // All changes by others until this time are on the layer now.
            live.basis.at = at;
        }
        Ok(Settled {
            keeping,
            excluded,
            dropped: effects.dropped,
        })
    }

    /// Notes the outcome of a commit of effects. A caller that gets the report needs no notice.
    fn note(&self, live: &mut Live, keeping: &Keeping, excluded: &[Effect], told: Told) {
        match &keeping.kept {
            Kept::Change(change) => self.note_kept_out(change.number, excluded),
            Kept::Refused(_) | Kept::Branch(_) if told == Told::Caller => {}
            Kept::Refused(error) => {
                let words = format!(
                    "changes of the background processes were rolled back: {}",
                    error.message()
                );
                self.live.notice(&live.view.view, words);
            }
            Kept::Branch(name) => {
                let words = format!(
                    "not applied: the files changed while the processes ran; their effects are on branch `{name}`; merge it"
                );
                self.live.notice(&live.view.view, words);
            }
            _ => {}
        }
        if !matches!(keeping.kept, Kept::Nothing) {
            live.writers = live.seats.values().flatten().cloned().collect();
        }
    }

    /// Places the changes that others made to the files on the layer.
    async fn follow(&self, live: &mut Live, foreseen: &Foreseen, has_failed: bool) -> Result<()> {
        live.meet_news(&Keeping::default(), self.is_direct).await?;
        live.place_owed().await?;
        let mut places = Vec::new();
        let touched: Vec<_> = foreseen.gone.iter().chain(&foreseen.come).cloned().collect();
        // The layer was prepared for a change that was not made: the removed entries come back. Without a history,
        // nothing but the foreseen paths tells which entries changed.
        if has_failed && self.is_direct {
            places.extend(live.view.below_in_files(&foreseen.gone).await?);
        } else if live.view.shared.history.is_none() {
            places.extend(live.view.below_in_files(&touched).await?);
        }
        live.place(places).await
    }

    /// Gives up a seat: the effects on the layer are committed, and with the last seat the layer is removed.
    async fn leave(&self, number: u64, taking: Taking) -> Result<Option<Settled>> {
        let Some(view) = self.live.view() else { return Ok(None) };
        let _turns = view.quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut() else { return Ok(None) };
        if live.seats.keys().any(|seat| *seat != number) {
            let told = taking.told;
            let settled = self.settle_pausing(live, taking).await;
            live.seats.remove(&number);
            return match settled {
                Ok(settled) => Ok(Some(settled)),
                Err(error) => self.unless_ended(&mut slot, error, told).await,
            };
        }
        // From here on the layer belongs to nobody: effects that cannot be committed now are a leftover.
        let Some(mut live) = slot.take() else { return Ok(None) };
        self.live.set(&mut slot, None);
        self.finish(&mut live, taking).await.map(Some)
    }

    async fn leave_untold(&self, number: u64, view: &Arc<View>, origin: Option<Origin>) {
        let told = Told::Nobody;
        if let Err(error) = self.leave(number, Taking { origin, told }).await {
            self.live.notice(
                view,
                format!("changes of the background processes were not kept: {}", error.message()),
            );
        }
    }

    /// Lifts the layer off the bench, commits its effects, and removes it.
    async fn finish(&self, live: &mut Live, taking: Taking) -> Result<Settled> {
        let layer = live.laid.layer.clone();
        layer.lift().await?;
        let told = taking.told;
        let effects = match self.effects_of(&*layer, &live.state, live.mark.as_ref()).await {
            Err(refusal) if is_over_limit(&refusal) => return self.discard(live, refusal, told).await,
            effects => effects?,
        };
        let fresh = live.shadow.fresh(effects.effects)?;
        let split = live.view.split(self, fresh).await?;
        let keeping = live.view.keep(&split, &live.basis, live.maker(taking)).await?;
        self.note(live, &keeping, &split.excluded, told);
        // Excluded effects were made all the time that the layer lived, and the bench has none of them yet. So the
        // whole layer is read.
        let mut excluded = Vec::new();
        if !self.exclusions.is_empty() {
            let whole = layer.effects(None).await?;
            excluded = live.view.split(self, whole.effects).await?.excluded;
        }
        excluded.retain(|effect| live.view.review_effects(std::slice::from_ref(effect)).is_ok());
        let taken = Taken {
            committed: &[],
            excluded: &excluded,
            head: live.state.head,
        };
        if let Some(held) = live.held.take() {
            held.take(taken).await?;
        }
        super::note::remove(&live.state, layer.id());
        layer.remove().await?;
        Ok(Settled {
            keeping,
            excluded,
            dropped: effects.dropped,
        })
    }

    /// Copies the entries of the live layer that `view` may see to `layer`, which lies over the same bench. Returns the
    /// state of the files that `layer` now begins with; it was laid at the time `at` or later.
    pub(super) async fn begin_as_live(&self, view: &Workspace, layer: &dyn Layer, at: Timestamp) -> Result<Basis> {
        let owner = self.live.view().ok_or_else(just_ended)?;
        let _turns = owner.quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let live = slot.as_mut().ok_or_else(just_ended)?;
        let paused = self.live.pause(live).await?;
        self.settle_paused(live, Taking::default()).await?;
        let whole = live.laid.layer.effects(None).await?;
        view.place_shown(layer, whole.effects).await?;
        let basis = Basis {
            head: live.basis.head,
            at,
        };
        paused.resume().await?;
        Ok(basis)
    }

    /// Places excluded effects on the live layer, from which the bench takes them over at the end. Returns the effects
    /// that the processes may not see.
    pub(super) async fn show_excluded(&self, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        let mut slot = self.live.live.lock().await;
        let Some(live) = slot.as_mut().filter(|_| !effects.is_empty()) else {
            return Ok(effects);
        };
        let (shown, hidden) = effects
            .into_iter()
            .partition(|effect| live.view.is_effect_shown(effect));
        let paused = self.live.pause(live).await?;
        live.place(shown).await?;
        paused.resume().await?;
        Ok(hidden)
    }

    async fn close_live(&self) -> Result<()> {
        let Some(view) = self.live.view() else { return Ok(()) };
        let _turns = view.quota_turns().await;
        let mut slot = self.live.live.lock().await;
        let Some(mut live) = slot.take() else { return Ok(()) };
        self.live.set(&mut slot, None);
        self.finish(&mut live, Taking::default()).await.map(|_| ())
    }

    /// Ends all processes and contexts, removes the live layer, and closes the sandboxes.
    pub(super) async fn close(&self) -> Result<()> {
        self.processes.end_all().await;
        self.contexts.end_all().await;
        self.close_live().await?;
        // Waits for the layers of cancelled commands, which are removed in the background and need their sandboxes.
        drop(self.clearing.write().await);
        self.close_sandboxes().await
    }
}

impl Live {
    fn check_view(&self, view: &Workspace) -> Result<()> {
        if self.view.has_same_rules(view) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "background processes of another view of this workspace are running, and all background processes share one view of the files",
        )
        .hint("end them first, start this process from the same view, or run it in the foreground"))
    }

    /// Returns the settings for a commit of the effects on the layer.
    fn maker(&self, taking: Taking) -> Maker {
        let command = label::joined(&self.writers);
        let shown = label::printed(&label::short(&command));
        let own = || self.view.origin("start", format!("start `{shown}`: in the background"));
        let origin = taking.origin.unwrap_or_else(own);
        Maker {
            origin: Origin {
                command: Some(command),
                ..origin
            },
            mode: EffectsMode::Commit,
            has_quota_turns: true,
        }
    }

    /// Marks the paths that others changed since the last commit as owed to the layer, and moves the basis to the
    /// newest change. The change that `kept` reports is left out: the layer has it already.
    async fn meet_news(&mut self, kept: &Keeping, is_direct: bool) -> Result<()> {
        let Some(history) = self.view.shared.history.clone() else {
            return Ok(());
        };
        let own = match &kept.kept {
            Kept::Change(change) => Some(change.number),
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
            super::note::replace(
                &self.state,
                self.laid.layer.id(),
                &self.basis,
                &label::joined(&self.writers),
            )?;
        }
        Ok(())
    }

    /// Places the entries of the files on the layer at all owed paths.
    async fn place_owed(&mut self) -> Result<()> {
        let places = self.view.as_in_files(self.owed.iter()).await?;
        // Cleared before the attempt: an entry that the layer does not take would make every later operation fail, too.
        self.owed.clear();
        self.place(places).await
    }

    /// Prepares the layer for a change of the files under it: removes the entries that are about to be removed, and
    /// places the directories above those that are about to be made.
    async fn prepare(&mut self, foreseen: &Foreseen) -> Result<()> {
        let above: BTreeSet<EntryPath> = foreseen.come.iter().flat_map(filed::ancestry).collect();
        let mut places = self.view.as_in_files(above.iter()).await?;
        places.retain(|effect| matches!(effect.placed, Placed::Directory { .. }));
        places.extend(foreseen.gone.iter().map(|path| Effect {
            path: path.clone(),
            placed: Placed::Nothing,
            modified: None,
            is_lost_below: false,
        }));
        self.place(places).await
    }

    /// Places effects on the layer, and updates the mark and the index, so that they are not taken for effects of the
    /// processes.
    async fn place(&mut self, effects: Vec<Effect>) -> Result<()> {
        let placed = self.view.place_shown(&*self.laid.layer, effects).await?;
        if !placed.is_empty() {
            self.mark = Some(self.laid.layer.effects(self.mark.as_ref()).await?.mark);
            self.shadow.remember(&placed)?;
        }
        Ok(())
    }
}

impl Workspace {
    /// Whether both views have the same directory and the same policies.
    fn has_same_rules(&self, other: &Self) -> bool {
        self.has_rules_of(&other.view)
    }

    /// Whether this workspace has the same directory and the same policies as `view`.
    pub(crate) fn has_rules_of(&self, view: &View) -> bool {
        self.view.has_rules_of(view)
    }

    /// Whether `view` is the view of this workspace, or was made by narrowing it.
    pub(crate) fn encloses(&self, view: &View) -> bool {
        let own = &self.view.layers;
        let mut layers = own.iter().zip(&view.layers);
        own.len() <= view.layers.len() && layers.all(|(one, two)| one.has_rules_of(two))
    }

    /// Places the effects that the processes of this view may see on a layer, and returns those. Further names of a
    /// denied file are left out.
    async fn place_shown(&self, layer: &dyn Layer, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        // To find the further names costs a look at the whole tree, so it is done only if it can matter.
        let has_file = effects
            .iter()
            .any(|effect| matches!(effect.placed, Placed::File { .. }));
        let denied = if has_file {
            self.denied_names().await?
        } else {
            Arc::default()
        };
        let is_shown = |effect: &Effect| self.is_effect_shown(effect) && !denied.contains(&effect.path);
        let shown = effects.into_iter().filter(is_shown);
        // Entries inside a directory are removed before it, and created after it.
        let (gone, come): (Vec<_>, Vec<_>) = shown.partition(|effect| effect.placed == Placed::Nothing);
        let ordered: Vec<_> = gone.into_iter().rev().chain(come).collect();
        if !ordered.is_empty() {
            layer.place(ordered.clone()).await?;
        }
        Ok(ordered)
    }

    /// Whether a process of this view may see the path of an effect. The directories above the view's own are visible,
    /// too.
    fn is_effect_shown(&self, effect: &Effect) -> bool {
        let is_above = |path: &WsPath| self.view.base.is_within(path);
        let is_directory = !matches!(effect.placed, Placed::File { .. } | Placed::Symlink { .. });
        self.is_entry_visible(&effect.path, is_directory) || effect.path.as_path().is_some_and(is_above)
    }
}

impl Settled {
    /// Returns the result of the commit, with the paths that `view` may see.
    pub(super) fn changed(&self, view: &Workspace, shop: &Workshop) -> Changed {
        view.changed(&self.keeping, &self.excluded, &self.dropped, shop)
    }
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            kept: Kept::Nothing,
            left_out: Vec::new(),
        }
    }
}

impl Seat {
    /// Returns the live layer, and the sandbox that it belongs to.
    pub(super) fn laid(&self) -> &Laid {
        &self.laid
    }

    /// Returns the bench under the live layer.
    pub(super) fn state(&self) -> &BenchState {
        &self.state
    }

    /// Gives up the seat, and commits the effects on the layer.
    pub(super) async fn leave(mut self, taking: Taking) -> Result<Option<Settled>> {
        self.is_taken = false;
        self.shop.leave(self.number, taking).await
    }

    /// Gives up the seat, and commits the effects on the layer. For a caller that does not wait for the result: effects
    /// that cannot be kept are noted for the next listing of the processes.
    pub(super) async fn leave_untold(mut self, origin: Option<Origin>) {
        self.is_taken = false;
        self.shop.leave_untold(self.number, &self.view, origin).await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.is_taken {
            return;
        }
        let (shop, number, view) = (self.shop.clone(), self.number, self.view.clone());
        in_background(async move { shop.leave_untold(number, &view, None).await });
    }
}

fn ended_by_pause(count: u64) -> String {
    let subject = match count {
        1 => "1 command that was running during this call was ended: its processes".to_owned(),
        count => format!("{count} commands that were running during this call were ended: their processes"),
    };
    format!("{subject} did not stop within one second while Garret read or changed the files (written files are kept)")
}

fn just_ended() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the background processes ended before the command began",
    )
    .hint("run it again")
}

/// A pause of the processes on a layer. They go on when it is dropped, too.
struct Paused {
    layer: Arc<dyn Layer>,
    slot: Arc<Mutex<Option<Live>>>,
    is_paused: bool,
}

impl Paused {
    async fn resume(mut self) -> Result<()> {
        self.layer.resume().await?;
        self.is_paused = false;
        Ok(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if self.is_paused {
            let (layer, slot) = (self.layer.clone(), self.slot.clone());
            in_background(async move {
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
