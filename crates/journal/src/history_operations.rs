//! Undo, redo, restore and put on files that live outside the depot: the depot plans, the storage is changed to match
//! the plan, and the depot records the change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use garret_core::path::quote;
use garret_core::{
    Actor, Change, ChangePlan, EntryKind, EntryPath, Error, ErrorKind, History, HistoryOperation, Mutation, Origin,
    PathChange, PathClash, PathExpectation, PathImage, PathPut, PutBatch, RestoreTarget, Result, WsPath,
    find_hard_links,
};
use garret_depot::outside_files::{ChangeAuthorship, ChangeIntent, IntentWork, ObservedEntry};

use crate::materialize::PathGoal;
use crate::write_session::{ObservedFiles, WriteSession};

/// Number of times that an operation is planned again because the comparison of its paths found a difference.
const ROUNDS: usize = 5;

impl WriteSession<'_> {
    /// Plans an undo, a redo or a restore, after a comparison of everything that it touches with the storage.
    pub(crate) async fn plan_operation(&mut self, operation: &HistoryOperation) -> Result<ChangePlan> {
        self.synchronize_journal().await?;
        let restored = match operation {
            HistoryOperation::Restore(RestoreTarget::Point { path, .. }) => Some((path.clone().into(), true)),
            HistoryOperation::Restore(RestoreTarget::Version { path, .. }) => Some((path.clone().into(), false)),
            HistoryOperation::Undo(_) | HistoryOperation::Redo => None,
        };
        // Recording a difference can change the plan, so planning and comparing repeat until the plan is stable.
        let mut looked: Option<ChangePlan> = None;
        for _ in 0..ROUNDS {
            let plan = History::plan(self.files.room.history(), operation).await?;
            let is_stable = looked.as_ref().is_some_and(|looked| {
                looked.paths == plan.paths && looked.clashes.is_empty() == plan.clashes.is_empty()
            });
            if is_stable {
                return Ok(self.describe_restore(operation, plan));
            }
            if plan.clashes.is_empty() {
                self.compare_planned_paths(&plan.paths, restored.clone()).await?;
            } else {
                self.compare_clashes(&plan.clashes).await?;
            }
            looked = Some(plan);
        }
        Err(contended_error())
    }

    /// Adds the paths that the history never captured to the summary of a restore.
    fn describe_restore(&self, operation: &HistoryOperation, mut plan: ChangePlan) -> ChangePlan {
        if let HistoryOperation::Restore(RestoreTarget::Point { .. }) = operation
            && let Some(unmet) = describe_uncaptured(&self.new)
        {
            plan.puts.summary = format!("{}; {unmet}", plan.puts.summary);
        }
        plan
    }

    /// Plans a put, after a comparison of everything that it touches with the storage.
    pub(crate) async fn plan_put(&mut self, puts: &PutBatch) -> Result<Vec<PathChange>> {
        self.synchronize_journal().await?;
        let is_conditional = self.files.is_conditional(puts);
        if !is_conditional {
            self.compare_put_paths(puts).await?;
        }
        let mut looked = None;
        for _ in 0..ROUNDS {
            let planned = self.files.room.history().plan_put(puts).await?;
            if looked.as_ref() == Some(&planned) {
                return Ok(planned);
            }
            let mut entries = compared_entries(&planned);
            if is_conditional {
                entries.retain(|(_, is_deep)| *is_deep);
            }
            self.compare_entries(&entries).await?;
            self.synchronize_journal().await?;
            looked = Some(planned);
        }
        Err(contended_error())
    }

    /// Puts the entries at their paths as one change. New content is in the depot.
    pub(crate) async fn put(mut self, puts: PutBatch, origin: Origin) -> Result<Option<Change>> {
        let planned = self.plan_put(&puts).await?;
        if planned.is_empty() && puts.reverses.is_empty() {
            // No path differs, but the depot records that a merge was made.
            return self.files.room.history().put(puts, origin).await;
        }
        self.carry_out(puts, origin, planned).await
    }

    async fn compare_clashes(&mut self, clashes: &[PathClash]) -> Result<()> {
        let entries: Vec<_> = clashes.iter().map(|clash| (clash.path.clone(), false)).collect();
        self.compare_entries(&entries).await?;
        self.synchronize_journal().await
    }

    /// Compares everything that the plan touches, and `other`.
    async fn compare_planned_paths(&mut self, planned: &[PathChange], other: Option<(EntryPath, bool)>) -> Result<()> {
        let mut entries = compared_entries(planned);
        entries.extend(other);
        clear_nested_deep_flags(&mut entries);
        self.compare_entries(&entries).await?;
        self.synchronize_journal().await
    }

    /// Compares the paths of puts that were computed from files which the journal may never have recorded.
    async fn compare_put_paths(&mut self, puts: &PutBatch) -> Result<()> {
        let is_unmet = |put: &&PathPut| matches!(put.expected, PathExpectation::UnchangedSince { .. });
        let unmet = puts.puts.iter().filter(is_unmet);
        let entries: Vec<_> = unmet.map(|put| (put.path.clone(), false)).collect();
        self.compare_entries(&entries).await?;
        self.synchronize_journal().await?;
        self.files.check_untouched(puts).await
    }

    async fn carry_out(&mut self, puts: PutBatch, origin: Origin, planned: Vec<PathChange>) -> Result<Option<Change>> {
        let origin = Origin {
            summary: if origin.summary.is_empty() {
                puts.summary.clone()
            } else {
                origin.summary
            },
            ..origin
        };
        let goals: Vec<_> = planned.iter().map(PathGoal::forward).collect();
        // Raw names are not in the batch, so the storage cannot check their versions.
        self.check_raw(&goals)?;
        let named = self.find_new_hard_links(&goals);
        let mut batch = self.build_goal_batch(&goals).await?;
        batch
            .mutations
            .iter_mut()
            .for_each(|mutation| mark_hard_link(mutation, &named));
        let id = self.next_id();
        let work = IntentWork::Put(puts.clone());
        let by = ChangeAuthorship::new(String::new(), self.files.journaled.clock.now(), origin.clone());
        self.open_intent(ChangeIntent {
            id,
            by,
            work: work.clone(),
        })?;
        self.lock.begin_change()?;
        let mut applied = Vec::new();
        if !batch.mutations.is_empty() {
            applied = match self.apply_with_owner_bits(batch.clone()).await {
                Ok(applied) => applied,
                Err(error) => {
                    self.abort_intent()?;
                    self.lock.end_change()?;
                    return Err(error);
                }
            };
        }
        if let Err(error) = self.files.materialize_raw(&goals).await {
            // If this fails too, the next write session finds the intent open and recovers it.
            self.revert_put(&work, &planned).await?;
            return Err(error);
        }
        let (raw, touched): (Vec<_>, Vec<_>) = goals
            .iter()
            .map(|goal| goal.path.clone())
            .partition(EntryPath::is_escaped);
        let mut touched: BTreeSet<WsPath> = touched.iter().filter_map(|path| path.as_path().cloned()).collect();
        // A new hard link changes the version of the file that it links to.
        touched.extend(named.into_values());
        let mut left = self.observe_batch(&batch, &applied, touched).await?;
        let mut misfits = self.find_uncertain_files(&batch, &applied, &mut left.looked).await?;
        let mut seen = left.into_all();
        seen.extend(self.files.observe_entries(raw).await?);
        misfits.extend(take_mismatched_paths(&goals, &mut seen));
        let done = self.files.room.put_intent(id, seen.clone(), puts, origin).await;
        // Every path has its target state, so readers may see them. If the depot failed, the next write session finds
        // the intent open and everything done, and records the change.
        self.lock.end_change()?;
        let done = done?;
        self.state.knowledge.set_observed(&seen);
        // The transaction has recorded that the intent is done. This record saves the next write session from finding
        // that out.
        self.abort_intent()?;
        if !misfits.is_empty() {
            self.add_mismatches(misfits);
            // The change is made, whatever other programs did to it. If this fails, the next write session compares the
            // paths.
            let _ = self.synchronize_journal().await;
        }
        Ok(done)
    }

    /// Returns the goals that become another name (hard link) of a file that is there by then, by path.
    fn find_new_hard_links(&mut self, goals: &[PathGoal]) -> BTreeMap<WsPath, WsPath> {
        let names = std::mem::take(&mut self.names);
        let is_written = |goal: &&PathGoal| goal.to.as_ref().is_some_and(|image| !goal.has_same_content(image));
        let written: BTreeSet<_> = goals
            .iter()
            .filter(is_written)
            .filter_map(|goal| goal.path.as_path())
            .collect();
        find_hard_links(&names, |path| written.contains(path))
    }
}

impl ObservedFiles<'_> {
    /// Returns whether a put needs no comparison, because each file is written or removed on the condition that it has
    /// its recorded version. Then no change by others can be overwritten: the storage refuses instead. A directory that
    /// is removed with its entries is compared all the same.
    fn is_conditional(&self, puts: &PutBatch) -> bool {
        let is_unmet = |put: &PathPut| matches!(put.expected, PathExpectation::UnchangedSince { .. });
        self.journaled.reach.is_remote && puts.puts.iter().all(is_unmet)
    }

    /// Records a put that a crash interrupted, after recovery has finished it in the storage.
    pub(crate) async fn record_put(
        &self,
        id: u64,
        puts: PutBatch,
        by: ChangeAuthorship,
        seen: Vec<ObservedEntry>,
    ) -> Result<()> {
        self.room.put_intent(id, seen, puts, origin_of(by)).await.map(|_| ())
    }
}

fn contended_error() -> Error {
    Error::new(ErrorKind::Unavailable, "other programs keep changing the same files")
}

/// Returns the paths of a plan to compare; a directory that is removed is compared with all entries in it.
fn compared_entries(planned: &[PathChange]) -> Vec<(EntryPath, bool)> {
    let is_directory =
        |image: &Option<PathImage>| image.as_ref().is_some_and(|image| image.kind == EntryKind::Directory);
    let goes = |change: &PathChange| is_directory(&change.before) && !is_directory(&change.after);
    let entries = planned.iter().map(|change| (change.path.clone(), goes(change)));
    let mut entries: Vec<_> = entries.collect();
    clear_nested_deep_flags(&mut entries);
    entries
}

/// Clears the deep flag of directories that lie in another deep directory, so that a deep tree is scanned once and not
/// once for each level. Sorts the entries.
fn clear_nested_deep_flags(entries: &mut [(EntryPath, bool)]) {
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
fn mark_hard_link(mutation: &mut Mutation, named: &BTreeMap<WsPath, WsPath>) {
    if let Mutation::Write { path, content, .. } = mutation
        && let Some(there) = named.get(path)
    {
        *content = std::mem::take(content).with_other_name(there.clone());
    }
}

/// Returns the paths that do not have their target state, because other programs changed them too, and drops their
/// recorded state from `seen`.
fn take_mismatched_paths(goals: &[PathGoal], seen: &mut [ObservedEntry]) -> Vec<Vec<u8>> {
    let mut misfits = Vec::new();
    let goals: HashMap<&[u8], &PathGoal> = goals.iter().map(|goal| (goal.path.as_bytes(), goal)).collect();
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
fn describe_uncaptured(new: &[Vec<u8>]) -> Option<String> {
    const NAMED: usize = 20;
    let shown = |path: &Vec<u8>| quote(&EntryPath::from_bytes(path.clone()).display_path());
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

/// Returns the origin that a record tells.
fn origin_of(by: ChangeAuthorship) -> Origin {
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
        clear_nested_deep_flags(&mut entries);
        let deep = entries.iter().filter(|(_, is_deep)| *is_deep);
        assert_eq!(
            deep.map(|(path, _)| path.display_path()).collect::<Vec<_>>(),
            ["d", "d-x", "e"]
        );
        assert_eq!(entries.len(), 7, "each is looked at all the same");
    }
}
