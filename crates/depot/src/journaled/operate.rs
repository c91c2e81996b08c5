//! Undo, redo, restore and put on files that live outside the depot: the depot plans, the storage is changed to match
//! the plan, and the depot records the change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use garret_core::path::quote;
use garret_core::{
    Actor, Change, Clash, EntryPath, Error, ErrorKind, Expected, Making, Mutation, Origin, PathChange, Put, Puts,
    Restore, Result, Reversed, WsPath, other_names,
};

use super::bring::Goal;
use super::ingest::{is_only_looking, note_seen, only_looking};
use super::record::{Authorship, Intent, Operation, Seen, Work};
use super::turn::Turn;
use crate::metadata::Session;
use crate::workspace::DepotWorkspace;

/// Number of times that an operation is planned again because the comparison of its paths found a difference.
const ROUNDS: usize = 5;

/// The plan of an operation.
#[derive(Debug)]
pub(super) enum Planned {
    /// The operation changes these paths.
    Paths(Vec<PathChange>),
    /// The operation changes nothing.
    Nothing,
    /// The operation cannot be done.
    Clashed(Vec<Clash>),
}

/// The outcome of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    Done(Option<Box<Change>>),
    Clashed(Vec<Clash>),
}

impl Turn<'_> {
    /// Carries out the operation as one change.
    pub(super) async fn operate(mut self, operation: Operation, making: Making) -> Result<Outcome> {
        self.drain().await?;
        if let Operation::Put(puts) = &operation
            && !self.is_bound(&operation)
        {
            self.look_at_puts(puts).await?;
        }
        // Recording a difference can change the plan, so planning and comparing repeat until the plan is stable.
        let mut looked = None;
        for _ in 0..ROUNDS {
            let planned = match self.plan(&operation).await? {
                Planned::Nothing if looked.is_some() => return Ok(Outcome::Done(None)),
                Planned::Nothing => Vec::new(),
                Planned::Paths(paths) => paths,
                Planned::Clashed(clashes) if looked.is_some() => return Ok(Outcome::Clashed(clashes)),
                Planned::Clashed(clashes) => {
                    self.look_at_clashes(&clashes).await?;
                    looked = Some(Vec::new());
                    continue;
                }
            };
            if looked.as_ref() == Some(&planned) {
                return self.carry_out(operation, making, planned).await;
            }
            self.look_at_plan(&operation, &planned).await?;
            looked = Some(planned);
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "other programs keep changing the same files",
        ))
    }

    async fn look_at_clashes(&mut self, clashes: &[Clash]) -> Result<()> {
        let entries: Vec<_> = clashes.iter().map(|clash| (clash.path.clone(), false)).collect();
        self.look_at_entries(&entries).await?;
        self.drain().await
    }

    /// Compares everything that the plan touches. A directory that is removed is compared with all entries in it.
    async fn look_at_plan(&mut self, operation: &Operation, planned: &[PathChange]) -> Result<()> {
        let is_directory = |image: &Option<garret_core::Image>| {
            image
                .as_ref()
                .is_some_and(|image| image.kind == garret_core::EntryKind::Directory)
        };
        let goes = |change: &PathChange| is_directory(&change.before) && !is_directory(&change.after);
        let mut entries: Vec<_> = planned
            .iter()
            .map(|change| (change.path.clone(), goes(change)))
            .collect();
        if let Operation::Restore(Restore::Point { path, .. } | Restore::Version { path, .. }) = operation {
            let is_deep = matches!(operation, Operation::Restore(Restore::Point { .. }));
            entries.push((path.clone().into(), is_deep));
        }
        look_below_once(&mut entries);
        if self.is_bound(operation) {
            entries.retain(|(_, is_deep)| *is_deep);
        }
        self.look_at_entries(&entries).await?;
        self.drain().await
    }

    /// Returns whether the operation needs no comparison, because each file is written or removed on the condition that
    /// it has its recorded version. Then no change by others can be overwritten: the storage refuses instead. A
    /// directory that is removed with its entries is compared all the same.
    fn is_bound(&self, operation: &Operation) -> bool {
        let is_unmet = |put: &Put| matches!(put.expected, Expected::UnchangedSince { .. });
        let is_command = matches!(operation, Operation::Put(puts) if puts.puts.iter().all(is_unmet));
        self.journaled.reach.is_far && is_command
    }

    /// Compares the paths of puts that were computed from files which the journal may never have recorded.
    async fn look_at_puts(&mut self, puts: &Puts) -> Result<()> {
        let is_unmet = |put: &&Put| matches!(put.expected, Expected::UnchangedSince { .. });
        let unmet = puts.puts.iter().filter(is_unmet);
        let entries: Vec<_> = unmet.map(|put| (put.path.clone(), false)).collect();
        self.look_at_entries(&entries).await?;
        self.drain().await?;
        self.check_untouched(puts).await
    }

    async fn carry_out(
        &mut self,
        operation: Operation,
        mut making: Making,
        planned: Vec<PathChange>,
    ) -> Result<Outcome> {
        if let Operation::Restore(Restore::Point { path, .. }) = &operation
            && let Some(unmet) = unmet(&self.new)
            && making.origin.summary.is_empty()
        {
            making.origin.summary = format!("restore {}; {unmet}", path.quoted());
        }
        if let Some(review) = &making.review {
            review(&planned)?;
        }
        let goals: Vec<_> = planned.iter().map(Goal::forward).collect();
        // Raw names are not in the batch, so the storage cannot check their versions.
        self.check_raw(&goals)?;
        let named = self.named_again(&goals);
        let mut batch = self.bringing(&goals).await?;
        batch
            .mutations
            .iter_mut()
            .for_each(|mutation| tell_name(mutation, &named));
        let id = self.next_id();
        let by = Authorship::new(String::new(), self.now(), making.origin.clone());
        self.open_intent(Intent {
            id,
            by,
            work: Work::Operation(operation.clone()),
        })?;
        self.lock.begin()?;
        let mut applied = Vec::new();
        if !batch.mutations.is_empty() {
            applied = match self.apply_lending(batch.clone()).await {
                Ok(applied) => applied,
                Err(error) => {
                    self.abort()?;
                    self.lock.end()?;
                    return Err(error);
                }
            };
        }
        if let Err(error) = self.bring_raw(&goals).await {
            // If this fails too, the next write session finds the intent open and recovers it.
            self.take_back(&operation, &planned).await?;
            return Err(error);
        }
        let (raw, touched): (Vec<_>, Vec<_>) = goals
            .iter()
            .map(|goal| goal.path.clone())
            .partition(EntryPath::is_escaped);
        let mut touched: BTreeSet<WsPath> = touched.iter().filter_map(|path| path.as_path().cloned()).collect();
        // A new hard link changes the version of the file that it links to.
        touched.extend(named.into_values());
        let mut left = self.left(&batch, &applied, touched).await?;
        let mut misfits = self.doubtful(&batch, &applied, &mut left.looked).await?;
        let mut seen = left.all();
        seen.extend(self.seen_entries(raw).await?);
        misfits.extend(unfit(&goals, &mut seen));
        let done = run(&self.concluding(id, seen.clone()), operation, making.origin.into()).await;
        // Every path has its target state, so readers may see them. If the depot failed, the next write session finds
        // the intent open and everything done, and records the change.
        self.lock.end()?;
        let done = done?;
        self.state.knowledge.take(&seen);
        // The transaction has recorded that the intent is done. This record saves the next write session from finding
        // that out.
        self.abort()?;
        if !misfits.is_empty() {
            self.doubt(misfits);
            // The change is made, whatever other programs did to it. If this fails, the next write session compares the
            // paths.
            let _ = self.drain().await;
        }
        Ok(done)
    }

    /// Returns the goals that become another name (hard link) of a file that is there by then, by path.
    fn named_again(&mut self, goals: &[Goal]) -> BTreeMap<WsPath, WsPath> {
        let names = std::mem::take(&mut self.names);
        let is_written = |goal: &&Goal| goal.to.as_ref().is_some_and(|image| !goal.has_same_content(image));
        let written: BTreeSet<_> = goals
            .iter()
            .filter(is_written)
            .filter_map(|goal| goal.path.as_path())
            .collect();
        other_names(&names, |path| written.contains(path))
    }

    /// Returns the workspace with an epilogue that records, in the same transaction, that the intent `id` is in the
    /// journal.
    fn concluding(&self, id: u64, seen: Vec<Seen>) -> DepotWorkspace {
        let number = self.room.number;
        self.room.clone().with_epilogue(move |session: Session<'_>| {
            session.set_ingested(number, id as i64)?;
            note_seen(session, number, &seen)
        })
    }

    /// Records an operation that a crash interrupted, after recovery has finished it in the storage.
    pub(super) async fn conclude(
        &mut self,
        id: u64,
        operation: Operation,
        by: Authorship,
        seen: Vec<Seen>,
    ) -> Result<()> {
        let making = Making::from(origin_of(by));
        run(&self.concluding(id, seen), operation, making).await.map(|_| ())
    }

    /// Returns the plan of the operation, computed from the journal alone.
    pub(super) async fn plan(&self, operation: &Operation) -> Result<Planned> {
        let seen: Arc<Mutex<Option<Vec<PathChange>>>> = Arc::default();
        let told = seen.clone();
        let making = Making {
            review: Some(Arc::new(move |paths: &[PathChange]| {
                *told.lock().expect("no holder panics") = Some(paths.to_vec());
                // The error rolls the transaction back, so that planning changes nothing.
                Err(only_looking())
            })),
            ..Making::default()
        };
        match run(self.room, operation.clone(), making).await {
            Err(error) if is_only_looking(&error) => {
                let paths = seen.lock().expect("no holder panics").take();
                Ok(Planned::Paths(paths.unwrap_or_default()))
            }
            Ok(Outcome::Clashed(clashes)) => Ok(Planned::Clashed(clashes)),
            Ok(Outcome::Done(_)) => Ok(Planned::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Clears the deep flag of directories that lie in another deep directory, so that a deep tree is scanned once and not
/// once for each level. Sorts the entries.
fn look_below_once(entries: &mut [(EntryPath, bool)]) {
    fn names(path: &EntryPath) -> impl Iterator<Item = &[u8]> {
        path.as_bytes().split(|byte| *byte == b'/')
    }
    entries.sort_by(|(one, _), (other, _)| names(one).cmp(names(other)));
    let mut above: Option<&EntryPath> = None;
    for (path, is_deep) in entries.iter_mut().filter(|(_, is_deep)| *is_deep) {
        let is_in = |above: &EntryPath| match path.as_bytes().strip_prefix(above.as_bytes()) {
            Some([] | [b'/', ..]) => true,
            rest => above.as_bytes().is_empty() && rest.is_some(),
        };
        if above.is_some_and(is_in) {
            *is_deep = false;
        } else {
            above = Some(path);
        }
    }
}

/// Marks the content of a write as another name of the file that `named` has for its path.
fn tell_name(mutation: &mut Mutation, named: &BTreeMap<WsPath, WsPath>) {
    if let Mutation::Write { path, content, .. } = mutation
        && let Some(there) = named.get(path)
    {
        *content = std::mem::take(content).also_at(there.clone());
    }
}

/// Returns the paths that do not have their target state, because other programs changed them too, and drops their
/// recorded state from `seen`.
fn unfit(goals: &[Goal], seen: &mut [Seen]) -> Vec<Vec<u8>> {
    let mut misfits = Vec::new();
    let goals: HashMap<&[u8], &Goal> = goals.iter().map(|goal| (goal.path.as_bytes(), goal)).collect();
    for one in seen {
        let goal = goals.get(one.path.as_slice());
        if goal.is_some_and(|goal| !goal.is_reached_by(one.known.as_ref())) {
            one.known = None;
            misfits.push(one.path.clone());
        }
    }
    misfits
}

/// Names the paths that were never captured, for a summary that says that their earlier state is not known.
fn unmet(new: &[Vec<u8>]) -> Option<String> {
    const NAMED: usize = 20;
    let shown = |path: &Vec<u8>| quote(&EntryPath::from_bytes(path.clone()).shown());
    let names: Vec<_> = new.iter().take(NAMED).map(shown).collect();
    let more = match new.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!new.is_empty()).then(|| {
        format!(
            "never captured by the history, and left unchanged: {}{more}",
            names.join(", ")
        )
    })
}

async fn run(room: &DepotWorkspace, operation: Operation, making: Making) -> Result<Outcome> {
    let reversed = |reversed| match reversed {
        Reversed::Done(change) => Outcome::Done(Some(change)),
        Reversed::Clashed(clashes) => Outcome::Clashed(clashes),
    };
    let done = |change: Option<Change>| Outcome::Done(change.map(Box::new));
    match operation {
        Operation::Undo(selection) => room.undo(selection, making).await.map(reversed),
        Operation::Redo => room.redo(making).await.map(reversed),
        Operation::Restore(Restore::Point { point, path }) => room.restore(point, &path, making).await.map(done),
        Operation::Restore(Restore::Version { path, version }) => {
            room.restore_version(&path, &version, making).await.map(done)
        }
        Operation::Put(puts) => room.put(puts, making).await.map(done),
    }
}

/// Returns the origin that a record tells.
fn origin_of(by: Authorship) -> Origin {
    Origin {
        operation: by.operation.into(),
        summary: by.summary,
        actor: Actor {
            agent: by.actor.agent,
            session: by.actor.session,
            tool_call: by.actor.tool_call,
            door: by.actor.door.into(),
        },
        command: by.actor.command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_highest_of_directories_in_each_other_is_looked_into() {
        let entry = |path: &str, is_deep| (EntryPath::from_bytes(path.as_bytes().to_vec()), is_deep);
        let paths = ["d/d", "d", "d-x", "d/d/d", "e", "d-x/y"];
        let mut entries: Vec<_> = paths.map(|path| entry(path, true)).into();
        entries.push(entry("d/f", false));
        look_below_once(&mut entries);
        let deep = entries.iter().filter(|(_, is_deep)| *is_deep);
        assert_eq!(
            deep.map(|(path, _)| path.shown()).collect::<Vec<_>>(),
            ["d", "d-x", "e"]
        );
        assert_eq!(entries.len(), 7, "each is looked at all the same");
    }
}
