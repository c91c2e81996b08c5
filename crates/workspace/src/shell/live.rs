//! What lives on: one layer for all processes in the background, and the way between it and the files.
//!
//! File operations, undo and merges go to the files underneath, whatever lives; so there is one way for them. While a layer is live, what
//! its processes did is taken over before an operation looks (`settle`), and what an operation did is put where the processes see it
//! (`follow`). All that happens while the processes stand still, so that nothing is seen half.

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

/// The live layer, where there is one.
#[derive(Debug, Default)]
pub(super) struct LiveSlot {
    /// Seen without a lock by operations that need do nothing where nothing lives.
    is_live: AtomicBool,
    /// The view that the layer was laid for: its quotas are waited for before the layer is.
    view: std::sync::Mutex<Option<Workspace>>,
    live: Arc<Mutex<Option<Live>>>,
    /// Of commands that a pause ended, and the view of those who started them: told by the next answer to a tool call.
    pause_notices: std::sync::Mutex<Vec<(Arc<View>, String)>>,
    /// What could not be kept, and the view of those who did it.
    notices: std::sync::Mutex<Vec<(Arc<View>, String)>>,
}

/// A layer with processes that live on.
#[derive(Debug)]
struct Live {
    laid: Laid,
    state: BenchState,
    held: Option<Held>,
    /// The turn between processes, where the bench must not change as long as the layer lives.
    _turn: Option<Arc<TurnGuard>>,
    basis: Basis,
    mark: Option<Mark>,
    /// What the layer has of the files.
    shadow: Shadow,
    /// Where it is still to have what the files have.
    owed: BTreeSet<EntryPath>,
    /// The view that it was laid for: what that may not see is not shown to its processes.
    view: Workspace,
    /// Who sits there, by name; without one where somebody only needs the layer to stay.
    seats: BTreeMap<u64, Option<String>>,
    next_seat: u64,
    /// Whoever sat there since the last change: any of them may have written.
    writers: Vec<String>,
}

/// A place on the live layer. The layer stays as long as somebody has one.
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

/// Where a command in the foreground runs.
#[derive(Debug)]
pub(super) enum RunsOn {
    /// On a layer of its own: nothing lives.
    OwnLayer,
    /// With the processes in the background.
    LiveLayer(Seat),
    /// On a layer of its own that begins as the live one stands; the seat keeps that.
    LayerBeside(Seat),
}

/// What was taken over from a layer.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) keeping: Keeping,
    pub(super) excluded: Vec<Effect>,
    pub(super) dropped: Vec<Dropped>,
}

/// Who takes over what the processes did, and says so in the journal.
#[derive(Debug, Clone, Default)]
pub(super) struct Taking {
    /// The operation, its summary and its actor; those of the first process where none is given.
    pub(super) origin: Option<Origin>,
    /// Who learns at once what it came to.
    pub(super) told: Told,
}

/// Who learns what became of the work of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// Nobody: what could not be kept is noted for whoever asks after the processes.
    #[default]
    Nobody,
    /// Whoever called has it in the answer.
    Caller,
}

impl LiveSlot {
    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// The sandbox in which the layer lives.
    pub(super) async fn sandbox(&self) -> Option<Arc<dyn OpenSandbox>> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.laid.sandbox.clone())
    }

    /// The bench under the layer.
    pub(super) async fn state(&self) -> Option<BenchState> {
        let live = self.live.lock().await;
        live.as_ref().map(|live| live.state.clone())
    }

    /// What could not be kept since somebody last asked, of what `view` may know of. Each is told once.
    pub(super) fn notices(&self, view: &Workspace) -> Vec<String> {
        let mut notices = self.notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Notes for whoever asks after the processes of `view`.
    pub(super) fn notice(&self, view: &Arc<View>, text: String) {
        const MOST: usize = 20;
        let mut notices = self.notices.lock().expect("no holder panics");
        if notices.len() < MOST && !notices.iter().any(|(_, known)| *known == text) {
            notices.push((view.clone(), text));
        }
    }

    /// Takes what is to be said of commands that a pause ended, of what `view` may know of.
    pub(super) fn take_pause_notices(&self, view: &Workspace) -> Vec<String> {
        let mut notices = self.pause_notices.lock().expect("no holder panics");
        let told = notices.extract_if(.., |(of, _)| view.encloses(of));
        told.map(|(_, text)| text).collect()
    }

    /// Has the processes of a layer stand still. What is ended because it does not is told by the next answer to a tool call.
    async fn pause(&self, live: &Live) -> Result<Paused> {
        // Made first: whoever stops waiting for the pause drops it, and the processes go on.
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

    /// The view that the layer was laid for, where there is one.
    fn view(&self) -> Option<Workspace> {
        match self.is_live() {
            true => self.view.lock().expect("no holder panics").clone(),
            false => None,
        }
    }

    fn set(&self, slot: &mut Option<Live>, live: Option<Live>) {
        *self.view.lock().expect("no holder panics") = live.as_ref().map(|live| live.view.clone());
        self.is_live.store(live.is_some(), Ordering::Release);
        *slot = live;
    }
}

impl Workshop {
    /// Where a command runs: with the processes in the background, if it may see what they see and do what they do.
    pub(super) async fn place_for(self: &Arc<Self>, view: &Workspace, prepared: &Prepared) -> RunsOn {
        match self.live.live.lock().await.as_mut() {
            None => RunsOn::OwnLayer,
            Some(live) if prepared.effects == EffectsMode::Commit && live.view.has_same_rules(view) => {
                RunsOn::LiveLayer(self.sit(live, Some(&prepared.label)))
            }
            Some(live) => RunsOn::LayerBeside(self.sit(live, None)),
        }
    }

    /// A seat on the live layer, which is laid where there is none, in `turn`.
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
        // What lies on a copy from the beginning is told from what is done there by where it stands now.
        let mark = match laid.is_copy() {
            true => Some(mark(&*laid.layer).await?),
            false => None,
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

    /// Has whatever is done next beside the processes begin on the files as they are: with what others did to them until now.
    pub(super) async fn catch_up(&self) -> Result<()> {
        if !self.live.is_live() {
            return Ok(());
        }
        self.bench.look().await?;
        self.settle(Taking::default()).await.map(drop)
    }

    /// Takes over what the processes did, where something lives.
    pub(super) async fn settle(&self, taking: Taking) -> Result<Option<Settled>> {
        let Some(view) = self.live.view() else { return Ok(None) };
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
        let resumed = paused.resume().await;
        settled.and_then(|settled| resumed.map(|()| settled))
    }

    /// Whether a change must be known before it is made: where the files lie right under the layer, the kernel does not notice that
    /// something went there, so it must go on the layer first.
    pub(super) fn must_foresee(&self) -> bool {
        self.is_direct && self.live.is_live()
    }

    /// Does `work`, which changes the files, while the processes stand still, and shows them what it did.
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
                // It is done all the same.
                let words = format!(
                    "the background processes do not see the last change yet: {}",
                    error.message()
                );
                self.live.notice(&view, words);
            }
        }
        done
    }

    /// Takes over what the processes did before `foreseen` happens, and makes the layer ready for it.
    async fn prepare(&self, live: &mut Live, foreseen: &Foreseen) -> Result<()> {
        self.settle_paused(live, Taking::default()).await?;
        match self.is_direct {
            true => live.prepare(foreseen).await,
            false => Ok(()),
        }
    }

    /// A layer that cannot go on holds nothing up. One that has more on it than can be read is ended, and nothing of what was done since the
    /// last time is kept. One whose sandbox died has dead processes, and what is on it is found again; whether it died the sandbox is asked:
    /// files and history may be out of reach for a moment, and the processes run on.
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

    /// Ends the processes on a layer that has more on it than can be read, and forgets what they did since the last time.
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
        let at = self.file_time().await?;
        let unseen = match self.is_direct {
            true => live.laid.layer.look_below().await?,
            false => Vec::new(),
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
            // Whatever others did until then is on the layer.
            live.basis.at = at;
        }
        Ok(Settled {
            keeping,
            excluded,
            dropped: effects.dropped,
        })
    }

    /// Remembers what a taking came to. Whoever is told of it at once needs no notice.
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

    /// Shows the processes what others did to the files.
    async fn follow(&self, live: &mut Live, foreseen: &Foreseen, has_failed: bool) -> Result<()> {
        live.meet_news(&Keeping::default(), self.is_direct).await?;
        live.place_owed().await?;
        let mut places = Vec::new();
        let touched: Vec<_> = foreseen.gone.iter().chain(&foreseen.come).cloned().collect();
        // What went ahead of a change that was not made comes back.
        if has_failed && self.is_direct {
            places.extend(live.view.below_in_files(&foreseen.gone).await?);
        } else if live.view.shared.history.is_none() {
            places.extend(live.view.below_in_files(&touched).await?);
        }
        live.place(places).await
    }

    /// Gives up a seat: what was done is taken over, and the layer goes with the last one.
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
        // From here on it is nobody's: what cannot be kept now is found when the workspace is opened again.
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

    /// Takes the layer off, and takes over everything.
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
        // What is kept out of history came over all the time that the layer lived.
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

    /// Has `layer`, which is laid over the same bench, begin as the live one stands: what that has and `view` may see is put on it.
    /// Gives the state of the files that this is; the layer was laid at the time `at` or later.
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

    /// Puts what history leaves out where the processes see it, and so where the bench takes it from; gives back what they may not see.
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

    /// Ends everything that lives, and gives everything back.
    pub(super) async fn close(&self) -> Result<()> {
        self.processes.end_all().await;
        self.contexts.end_all().await;
        self.close_live().await?;
        drop(self.clearing.write().await);
        self.close_sandboxes().await
    }
}

impl Live {
    fn check_view(&self, view: &Workspace) -> Result<()> {
        match self.view.has_same_rules(view) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Unavailable,
                "background processes of another view of this workspace are running, and all background processes share one view of the files",
            )
            .hint("end them first, start this process from the same view, or run it in the foreground")),
        }
    }

    /// What a change of theirs says.
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

    /// Owes the layer what others changed in the files since the last time, and moves the basis on. What `kept` tells is on the layer
    /// already; what other programs did to the bench itself shows through it.
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

    /// Puts on the layer what it is owed.
    async fn place_owed(&mut self) -> Result<()> {
        let places = self.view.as_in_files(self.owed.iter()).await?;
        // What the layer itself does not take is tried once: it would refuse every later operation, too.
        self.owed.clear();
        self.place(places).await
    }

    /// Lets go on the layer what is about to go below it, and takes the directories of what comes onto it.
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

    /// Puts things on the layer, so that the next taking does not find them as new.
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
    /// Whether both look at the same directory under the same policies.
    fn has_same_rules(&self, other: &Self) -> bool {
        self.has_rules_of(&other.view)
    }

    /// Whether this looks at the same directory under the same policies as a view.
    pub(crate) fn has_rules_of(&self, view: &View) -> bool {
        self.view.has_rules_of(view)
    }

    /// Whether a view is this one, or was made by narrowing this one.
    pub(crate) fn encloses(&self, view: &View) -> bool {
        let own = &self.view.layers;
        let mut layers = own.iter().zip(&view.layers);
        own.len() <= view.layers.len() && layers.all(|(one, two)| one.has_rules_of(two))
    }

    /// Puts the effects on a layer that its processes may see, and gives those back. A second name of a denied file is not among them.
    async fn place_shown(&self, layer: &dyn Layer, effects: Vec<Effect>) -> Result<Vec<Effect>> {
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
        let (gone, come): (Vec<_>, Vec<_>) = shown.partition(|effect| effect.placed == Placed::Nothing);
        let ordered: Vec<_> = gone.into_iter().rev().chain(come).collect();
        if !ordered.is_empty() {
            layer.place(ordered.clone()).await?;
        }
        Ok(ordered)
    }

    /// Whether a process of this view may see an effect; the way to its directory included.
    fn is_effect_shown(&self, effect: &Effect) -> bool {
        let is_above = |path: &WsPath| self.view.base.is_within(path);
        let is_directory = !matches!(effect.placed, Placed::File { .. } | Placed::Symlink { .. });
        self.is_entry_visible(&effect.path, is_directory) || effect.path.as_path().is_some_and(is_above)
    }
}

impl Settled {
    /// What it came to, as `view` shows it.
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
    /// The layer, and the sandbox it is in.
    pub(super) fn laid(&self) -> &Laid {
        &self.laid
    }

    /// The bench under the layer.
    pub(super) fn state(&self) -> &BenchState {
        &self.state
    }

    /// Gives it up; what was done on the layer is taken over.
    pub(super) async fn leave(mut self, taking: Taking) -> Result<Option<Settled>> {
        self.is_taken = false;
        self.shop.leave(self.number, taking).await
    }

    /// The same where nobody waits for what it comes to: what cannot be kept is noted for whoever asks after the processes.
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

/// Processes that stand still. They go on whatever happens to whoever stopped them.
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
                // Whoever has the slot may have paused the layer again.
                let _slot = slot.lock().await;
                // A sandbox that is dead has nothing to go on.
                let _ = layer.resume().await;
            });
        }
    }
}

#[cfg(test)]
mod tests;
