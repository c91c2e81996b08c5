//! Applies a batch of mutations to the storage and records it in the journal.

use garret_core::{Batch, Error, ErrorKind, Mutation, MutationOutcome, Result};
use garret_depot::outside_files::{ChangeAuthorship, IntentWork, ObservedEntry, RecordContent, summary_of};

use crate::compare::ComparedPath;
use crate::conditional_write::{build_conditional_batch, find_directories_to_create};
use crate::history_operations::contended_error;
use crate::observed::AppliedBatch;
use crate::resolved_batch::{ResolvedBatch, parse_ws_path, to_logged_steps};
use crate::write_session::WriteSession;

/// Number of times that a batch is started again because other programs changed its paths in the meantime.
const TRIES: usize = 5;

impl WriteSession<'_> {
    /// Applies the batch as one change.
    pub(crate) async fn apply(mut self, mut batch: Batch) -> Result<Vec<MutationOutcome>> {
        if batch.origin.summary.is_empty() {
            batch.origin.summary = summary_of(&batch);
        }
        let made = find_directories_to_create(&mut self.comparer, &batch).await?;
        if let Some(guarded) = build_conditional_batch(&mut self.comparer, &batch, &made)? {
            match self.apply_conditionally(guarded, made).await {
                Ok(applied) => return Ok(applied),
                // An entry is not in its recorded state. The full attempt finds out why, or returns the proper error.
                Err(error) if is_unexpected_state(&error) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..TRIES {
            match self.attempt_batch(&batch, true).await {
                Err(AttemptRefusal::Raced) => {}
                Err(AttemptRefusal::Error(error)) => return Err(error),
                Ok(applied) => return Ok(applied),
            }
        }
        self.attempt_batch(&batch, false)
            .await
            .map_err(AttemptRefusal::into_error)
    }

    /// Writes the intent of `batch` to the log.
    pub(crate) fn log_batch_intent(&mut self, batch: &Batch, contents: Vec<Option<RecordContent>>) -> Result<()> {
        // The change gets its id when it enters the journal; nobody asks for it earlier.
        let now = self.files.journaled.clock.now();
        let by = ChangeAuthorship::new(String::new(), now, batch.origin.clone());
        let work = IntentWork::Batch {
            follow: batch.follow,
            steps: to_logged_steps(&batch.mutations, contents),
        };
        self.comparer.records.open_intent(by, work).map(|_| ())
    }

    /// Makes one full attempt: compares the paths, logs the intent, applies the batch and closes the intent.
    async fn attempt_batch(&mut self, batch: &Batch, is_guarded: bool) -> Result<Vec<MutationOutcome>, AttemptRefusal> {
        let Some(mut resolved) = ResolvedBatch::resolve(self.files, batch).await? else {
            return self.expect_refusal(batch, &[]).await;
        };
        let comparer = &mut self.comparer;
        comparer.compare_paths(resolved.places()).await?;
        if !resolved.preconditions_hold(comparer).await? || !resolved.has_required_entries(&mut comparer.records)? {
            return self.expect_refusal(batch, resolved.places()).await;
        }
        let contents = self.files.prepare_contents(&batch.mutations).await?;
        let Some(mut touched) = resolved.touched_paths(comparer, &contents).await? else {
            return self.expect_refusal(batch, resolved.places()).await;
        };
        let goes_far = batch.mutations.len() > 1 || touched.len() > resolved.places().len();
        let below = resolved.recorded_paths_below(&comparer.records)?;
        let planned = resolved.with_resolved_paths();
        let sent = if is_guarded {
            resolved.bind_to_recorded_versions(&mut comparer.records, &planned)?
        } else {
            planned.clone()
        };
        self.log_batch_intent(&planned, contents)?;
        // A change of one path is atomic in the storage. Readers need to wait only if several paths change.
        if goes_far {
            self.lock.begin_change()?;
        }
        let applied = match self.files.journaled.files.apply(sent.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.comparer.records.abort_intent()?;
                self.lock.end_change()?;
                let is_overtaken = sent != planned && error.kind() == ErrorKind::Conflict;
                let is_led_astray = planned.follow != batch.follow && error.kind() == ErrorKind::PathEscape;
                if is_overtaken || is_led_astray {
                    return Err(AttemptRefusal::Raced);
                }
                return if planned.mutations == batch.mutations {
                    Err(AttemptRefusal::Error(error))
                } else {
                    // The caller must see the error with the paths that it gave, not with the resolved ones.
                    self.expect_refusal(batch, resolved.places()).await
                };
            }
        };
        touched.extend(resolved.paths_after_rename(&below));
        if self.files.journaled.reach.is_remote {
            // On a remote storage the answer to the batch tells which of the entries below are gone.
            touched.extend(below.iter().filter_map(|path| parse_ws_path(path)));
        }
        let sent = AppliedBatch {
            sent: &sent,
            applied: &applied,
        };
        let mut left = sent.observe_paths(&mut self.comparer, touched).await?;
        left.observe_remaining_paths(self.files, &below).await?;
        let doubtful = left.take_uncertain_files(sent, &mut self.comparer).await?;
        let seen = left.into_all();
        if let Some(mode) = mode_of_new_file(batch, &applied, &seen) {
            self.comparer.records.set_file_mode(mode);
        }
        self.comparer.records.close_intent(seen).await?;
        self.lock.end_change()?;
        if !doubtful.is_empty() {
            // The change is made, whatever other programs did to it. If this comparison fails, a later one finds the
            // difference.
            let _ = self.comparer.compare_with_parents(&doubtful).await;
        }
        Ok(applied)
    }

    /// Lets the storage report why it refuses the batch. If it accepts it, because other programs changed the paths in
    /// the meantime, the result is recorded as a change by others.
    async fn expect_refusal(
        &mut self,
        batch: &Batch,
        places: &[ComparedPath],
    ) -> Result<Vec<MutationOutcome>, AttemptRefusal> {
        self.lock.begin_change()?;
        let applied = self.files.journaled.files.apply(batch.clone()).await;
        self.lock.end_change()?;
        let applied = applied?;
        let resolved = ResolvedBatch::resolve(self.files, batch).await?;
        let resolved = resolved.as_ref().map_or(&[][..], ResolvedBatch::places);
        self.comparer.compare_paths(&[resolved, places].concat()).await?;
        Ok(applied)
    }
}

/// Returns the mode that the system gave to a new file, if the batch made one without a mode.
fn mode_of_new_file(batch: &Batch, applied: &[MutationOutcome], seen: &[ObservedEntry]) -> Option<u32> {
    let [Mutation::Write { path, mode: None, .. }] = batch.mutations.as_slice() else {
        return None;
    };
    let mut made = seen.iter().filter(|seen| seen.path == path.as_str().as_bytes());
    let known = made.next()?.known.as_ref()?;
    applied[0].created.then_some(known.mode)
}

/// Why an attempt ended.
enum AttemptRefusal {
    Error(Error),
    /// Other programs changed a path during the attempt.
    Raced,
}

impl AttemptRefusal {
    fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Raced => contended_error(),
        }
    }
}

impl From<Error> for AttemptRefusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns whether a conditional write failed because an entry was not in its recorded state.
fn is_unexpected_state(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::QuotaExceeded | ErrorKind::TooLarge
    )
}
