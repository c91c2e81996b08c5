//! The only writer of a process: a thread that takes all waiting jobs, of any workspace, and commits them as one group.
//!
//! One transaction and one sync serve the whole group, which makes durable writes from many tasks cheap. A job of
//! several steps runs under a savepoint, so that a refused job is rolled back alone. A job of one step is refused
//! before its first write, if at all; if it fails halfway nevertheless, the whole group is rolled back, and the other
//! jobs get an error that asks for a retry. No job is answered before the commit.
//!
//! Several processes on one home take turns: each takes a lock file first and then the database's own lock. The kernel
//! wakes a process that waits for the lock file, while the database's lock has to be polled, and a waiting process may
//! starve. Correctness depends on the database's lock alone.
//!
//! A small job without a promised sync runs on its caller's thread if nobody else writes: handing it to the writer's
//! thread and back would cost more than the job.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::channel::oneshot;
use garret_core::{Error, ErrorKind, Result};

use crate::content::ContentStore;
use crate::error;
use crate::metadata::{MetadataSession, WriteConnection, WriteTransaction, retry_while_busy};
use garret_core::Durability;

/// The maximum number of jobs in one transaction, so that the first of them does not wait for ever.
const GROUP: usize = 512;
/// The time that a group which is smaller than the one before it waits for each further job before it commits. Callers
/// that were answered together come back together, and a sync for the first of them alone would make the others wait
/// for it.
const GATHERING: Duration = Duration::from_micros(100);
/// The maximum wait for the lock file before the depot counts as busy; about as long as the wait for the database's
/// lock.
const LONGEST_TURN: Duration = Duration::from_secs(60);

/// A handle on the writer. Dropping it waits for the jobs under way.
#[derive(Debug)]
pub(crate) struct DepotWriter {
    jobs: Option<Sender<WriteJob>>,
    thread: Option<JoinHandle<()>>,
    seat: Arc<Mutex<WriterResources>>,
}

/// The resources of the writer; the mutex around them allows one user at a time.
struct WriterResources {
    connection: WriteConnection,
    /// The lock file by which processes take turns.
    turns: Option<File>,
    content: Arc<ContentStore>,
}

impl fmt::Debug for WriterResources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seat")
    }
}

/// The cost of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobWeight {
    /// A few rows and no blob; all checks come before the first write, so that only the database can fail the job
    /// afterwards.
    Single,
    /// A few rows and no blob.
    Small,
    /// Anything.
    Any,
}

/// The work of a job. It gets the session of the transaction, or the error if the transaction could not begin.
type JobWork = dyn FnOnce(Result<MetadataSession<'_>>) -> FinishedJob + Send;

struct WriteJob {
    durability: Durability,
    weight: JobWeight,
    run: Box<JobWork>,
}

/// A job that has run and waits for the commit.
struct FinishedJob {
    /// The reason why the job must be rolled back, if it failed.
    error: Option<Error>,
    answer: Box<dyn FnOnce(Result<()>) + Send>,
}

impl DepotWriter {
    /// Starts the writer's thread. `turns` is the lock file by which processes take turns; a depot in memory needs
    /// none.
    pub(crate) fn start(connection: WriteConnection, turns: Option<File>, content: Arc<ContentStore>) -> Result<Self> {
        let (jobs, waiting) = channel();
        let seat = Arc::new(Mutex::new(WriterResources {
            connection,
            turns,
            content,
        }));
        let taken = seat.clone();
        let thread = std::thread::Builder::new()
            .name("garret-depot-writer".into())
            .spawn(move || serve_jobs(&taken, &waiting))
            .map_err(|_| Error::new(ErrorKind::Unavailable, "the writer of the home cannot start"))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            seat,
        })
    }

    /// Runs `work` in a transaction, and returns after the commit. If `work` fails, its writes are rolled back.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(MetadataSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_weighed(JobWeight::Any, durability, work).await
    }

    /// Runs `work` on a draft of the tables, returns its result, and takes back everything that it wrote.
    pub(crate) async fn preview<T: Send + 'static>(
        &self,
        work: impl FnOnce(MetadataSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write(Durability::Relaxed, move |session| session.with_draft(|| work(session)))
            .await
    }

    /// Runs `work` in a transaction, with a cost that the caller knows, and returns after the commit. If `work` fails,
    /// its writes are rolled back.
    pub(crate) async fn write_weighed<T: Send + 'static>(
        &self,
        weight: JobWeight,
        durability: Durability,
        work: impl FnOnce(MetadataSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let run = move |session: Result<MetadataSession<'_>>| {
            let outcome = session.and_then(|session| catch_panic(|| work(session)));
            FinishedJob {
                error: outcome.as_ref().err().cloned(),
                answer: Box::new(move |committed: Result<()>| {
                    // A caller that gave up waiting does not receive the answer; its change is committed all the same.
                    let _ = sender.send(outcome.and_then(|done| committed.map(|()| done)));
                }),
            }
        };
        let job = WriteJob {
            durability,
            weight,
            run: Box::new(run),
        };
        // A durable job has to wait for a sync anyway, which it should share with the jobs of others.
        let is_quick = weight != JobWeight::Any && durability == Durability::Relaxed;
        let Some(job) = (if is_quick { self.write_here(job) } else { Some(job) }) else {
            return answer.await.map_err(|_| writer_ended())?;
        };
        let jobs = self.jobs.as_ref().expect("it is there until the drop");
        jobs.send(job).map_err(|_| writer_ended())?;
        answer.await.map_err(|_| writer_ended())?
    }
}

impl DepotWriter {
    /// Runs the job on this thread if that needs no wait; otherwise returns the job.
    fn write_here(&self, job: WriteJob) -> Option<WriteJob> {
        let Ok(seat) = self.seat.try_lock() else {
            return Some(job);
        };
        let turn = match seat.turns.as_ref().map(WriterTurn::try_take) {
            Some(None) => return Some(job),
            // The writer's thread reports that the home was removed.
            Some(Some(turn)) if is_removed(turn.0) => return Some(job),
            Some(turn) => turn,
            None => None,
        };
        let (ran, committed) = match seat.connection.with_connection(|writing| commit_single(writing, job)) {
            Ok(done) => done,
            Err(job) => return Some(job),
        };
        drop(turn);
        drop(seat);
        (ran.answer)(committed);
        None
    }
}

impl Drop for DepotWriter {
    fn drop(&mut self) {
        // Closing the channel ends the writer's thread after the jobs that already wait.
        drop(self.jobs.take());
        // A job may own the last handle. Then this runs on the writer's own thread, which cannot wait for its own end.
        let is_elsewhere = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_elsewhere) {
            // A panic of the writer was reported to the callers that waited for it.
            let _ = thread.join();
        }
    }
}

/// Runs the work of a job. A panic becomes an error, so that no transaction stays open; `run_job` decides whether the
/// group is rolled back.
fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Unwind safe: the writes of the job are rolled back, and it shares no other state with the writer.
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::Internal,
            "a change failed before it was complete; nothing of it was kept",
        ))
    })
}

fn writer_ended() -> Error {
    Error::new(ErrorKind::Internal, "the writer of the home has ended")
}

fn serve_jobs(seat: &Mutex<WriterResources>, waiting: &Receiver<WriteJob>) {
    let mut coming = IncomingJobs::new(waiting);
    while coming.begin_group() {
        let seat = seat.lock().expect("no holder panics");
        let WriterResources {
            connection,
            turns,
            content,
        } = &*seat;
        let turn = turns
            .as_ref()
            .and_then(|turns| WriterTurn::wait_for(turns, LONGEST_TURN));
        let (group, committed) = match turns {
            Some(_) if turn.is_none() => (refuse_jobs(&mut coming, &error::home_is_busy()), Ok(())),
            Some(turns) if is_removed(turns) => (refuse_jobs(&mut coming, &error::home_is_gone()), Ok(())),
            _ => connection.with_connection(|writing| commit_group(writing, &mut coming, content)),
        };
        // Released before the answers: a caller that is woken may want to write at once.
        drop(turn);
        drop(seat);
        group.into_iter().for_each(|ran| (ran.answer)(committed.clone()));
    }
}

/// The incoming jobs, group by group. Jobs that arrive while a group is being run still join it.
struct IncomingJobs<'r> {
    waiting: &'r Receiver<WriteJob>,
    /// The jobs that were received and not run yet.
    here: VecDeque<WriteJob>,
    is_durable: bool,
    given: usize,
    /// The number of jobs in the previous group.
    before: usize,
}

impl<'r> IncomingJobs<'r> {
    fn new(waiting: &'r Receiver<WriteJob>) -> Self {
        Self {
            waiting,
            here: VecDeque::new(),
            is_durable: false,
            given: 0,
            before: 0,
        }
    }

    /// Waits for the first job of a group; returns `false` if no more jobs will come.
    fn begin_group(&mut self) -> bool {
        self.before = std::mem::take(&mut self.given);
        if self.here.is_empty() {
            self.here.extend(self.waiting.recv().ok());
        }
        self.here.extend(self.waiting.try_iter().take(GROUP));
        // One durable job makes the whole group durable; its sync then serves all jobs.
        self.is_durable = self.here.iter().any(|job| job.durability == Durability::Full);
        !self.here.is_empty()
    }

    /// Returns the next job: a received one, or one that arrives soon if the previous group was larger.
    fn next_job(&mut self) -> Option<WriteJob> {
        let here = self.here.pop_front().or_else(|| self.waiting.try_recv().ok());
        here.or_else(|| {
            if self.given < self.before {
                self.waiting.recv_timeout(GATHERING).ok()
            } else {
                None
            }
        })
    }
}

impl Iterator for IncomingJobs<'_> {
    type Item = WriteJob;

    fn next(&mut self) -> Option<WriteJob> {
        let job = if self.given < GROUP {
            self.next_job()?
        } else {
            return None;
        };
        if job.durability == Durability::Full && !self.is_durable {
            // The open transaction will not be synced, so the job waits for the next group.
            self.here.push_front(job);
            return None;
        }
        self.given += 1;
        Some(job)
    }
}

/// Runs one job in a transaction without a sync. Returns the job if the transaction cannot begin, because another
/// process writes or the disk fails.
fn commit_single(writing: WriteTransaction<'_>, job: WriteJob) -> Result<(FinishedJob, Result<()>), WriteJob> {
    if begin_transaction(writing, false).is_err() {
        return Err(job);
    }
    let ran = (job.run)(Ok(writing.session()));
    let ended = match ran.error {
        None => writing.commit_or_roll_back(Ok(())),
        Some(_) => writing.roll_back(),
    };
    Ok((ran, ended))
}

/// Runs the jobs in one transaction; returns them with the result of the commit.
fn commit_group(
    writing: WriteTransaction<'_>,
    jobs: &mut IncomingJobs<'_>,
    content: &ContentStore,
) -> (Vec<FinishedJob>, Result<()>) {
    let is_durable = jobs.is_durable;
    // Retries only while another process holds the database; a failing disk is reported at once.
    if let Err(error) = retry_while_busy(|| begin_transaction(writing, is_durable)) {
        return (refuse_jobs(jobs, &error), Ok(()));
    }
    let (mut group, mut spoiled) = (Vec::with_capacity(jobs.before), Ok(()));
    while spoiled.is_ok()
        && let Some(job) = jobs.next()
    {
        group.push(run_job(writing, job, &mut spoiled));
    }
    // Blobs are synced before the commit: a durable change must not survive without the blobs of the relaxed changes
    // that it builds upon.
    let sync = |()| {
        if is_durable {
            content.sync_listed(writing.session())
        } else {
            Ok(())
        }
    };
    (group, writing.commit_or_roll_back(spoiled.and_then(sync)))
}

/// Fails all received jobs with `error`, without running them.
fn refuse_jobs(jobs: &mut IncomingJobs<'_>, error: &Error) -> Vec<FinishedJob> {
    let refuse = |job: WriteJob| (job.run)(Err(error.clone()));
    jobs.here.drain(..).map(refuse).collect()
}

/// Returns whether an open file was deleted.
pub(crate) fn is_removed(file: &File) -> bool {
    // The lock file is deleted with its home, and the database, too: SQLite would go on to commit into a file that
    // nobody can open again.
    file.metadata().is_ok_and(|found| found.nlink() == 0)
}

/// Runs a job, and rolls it back if it is refused. If it cannot be rolled back alone, sets `spoiled` to the reason to
/// roll back the group.
fn run_job(writing: WriteTransaction<'_>, job: WriteJob, spoiled: &mut Result<()>) -> FinishedJob {
    if job.weight != JobWeight::Single {
        return run_in_savepoint(writing, job, spoiled);
    }
    // No savepoint for a job of one step: it is refused before its first write. The count of rows proves that.
    let before = writing.changed_rows();
    let ran = (job.run)(Ok(writing.session()));
    if let Some(error) = &ran.error
        && (!writing.is_open() || writing.changed_rows() != before)
    {
        *spoiled = Err(group_failed(error));
    }
    ran
}

/// Returns the error for the other jobs of a group in which one failed halfway with `error`: that of the failing disk,
/// or a request to retry.
fn group_failed(error: &Error) -> Error {
    if error::is_disk_failure(error) {
        return error.clone();
    }
    let message = "another change in the same commit failed before it was complete";
    Error::new(ErrorKind::Unavailable, message).hint("nothing was changed; try again")
}

/// Runs a job under a savepoint, for which SQLite keeps a copy of each page that the job changes.
fn run_in_savepoint(writing: WriteTransaction<'_>, job: WriteJob, spoiled: &mut Result<()>) -> FinishedJob {
    if let Err(error) = writing.begin_job() {
        *spoiled = Err(error.clone());
        return (job.run)(Err(error));
    }
    let ran = (job.run)(Ok(writing.session()));
    if let Err(error) = writing.end_job(ran.error.is_none()) {
        *spoiled = Err(error::rollback_failed(ran.error.as_ref(), error));
    }
    ran
}

fn begin_transaction(writing: WriteTransaction<'_>, is_durable: bool) -> Result<()> {
    writing.set_durable(is_durable)?;
    writing.begin()
}

/// A held lock file, by which the processes of a home take turns. Released when dropped, or when the process dies.
struct WriterTurn<'a>(&'a File);

impl<'a> WriterTurn<'a> {
    /// Takes the lock if no other process has it.
    fn try_take(file: &'a File) -> Option<Self> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            // On a file system without locks, the database's own lock still keeps writers apart, only less fairly.
            Ok(()) | Err(TryLockError::Error(_)) => Some(Self(file)),
        }
    }

    /// Waits for the lock; `None` if another process holds it for longer than `longest`, because it hangs or was
    /// stopped.
    fn wait_for(file: &'a File, longest: Duration) -> Option<Self> {
        let turn = Self::try_take(file);
        if turn.is_some() {
            return turn;
        }
        // The kernel wakes waiting processes in order, but has no timeout for a file lock: so another thread waits for
        // it.
        let (tell, told) = sync_channel(0);
        match Self::wait_on_thread(file, tell) {
            Ok(()) => told.recv_timeout(longest).ok()?,
            Err(_) => drop(file.lock()),
        }
        Some(Self(file))
    }

    /// Starts a thread that takes the lock and reports it to `tell`.
    fn wait_on_thread(file: &File, tell: SyncSender<()>) -> std::io::Result<()> {
        let waiting = file.try_clone()?;
        let wait = move || {
            let _ = waiting.lock();
            // The caller has given up. This may release a later turn of this process, which then relies on the
            // database's lock alone.
            if tell.send(()).is_err() {
                let _ = waiting.unlock();
            }
        };
        let thread = std::thread::Builder::new().name("garret-depot-turn".into());
        thread.spawn(wait).map(|_| ())
    }
}

impl Drop for WriterTurn<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::join;
    use garret_core::SystemClock;

    use super::*;
    use crate::content::PieceAddress;
    use crate::metadata::{MetadataDatabase, StoredPiece};

    fn started() -> (MetadataDatabase, DepotWriter) {
        let (database, connection) = MetadataDatabase::in_memory().unwrap();
        let content = ContentStore::in_memory(1024, Arc::new(SystemClock::default()));
        (
            database,
            DepotWriter::start(connection, None, Arc::new(content)).unwrap(),
        )
    }

    fn put(session: MetadataSession<'_>, text: &str) -> Result<()> {
        let size = text.len() as u64;
        let piece = StoredPiece {
            is_list: false,
            size,
            stored: size,
            data: Some(text.as_bytes()),
        };
        session
            .contents()
            .put_content(PieceAddress::of_bytes(text.as_bytes()), &piece, 0)
            .map(|_| ())
    }

    fn has(database: &MetadataDatabase, text: &str) -> bool {
        let address = PieceAddress::of_bytes(text.as_bytes());
        database
            .read(|session| session.contents().content(address))
            .unwrap()
            .is_some()
    }

    /// Runs a job that puts down `before`, then `work`, then one that puts down `after`, all in one group.
    fn grouped(
        writer: &DepotWriter,
        weight: JobWeight,
        work: impl FnOnce(MetadataSession<'_>) -> Result<()> + Send + 'static,
    ) -> (Result<()>, Result<()>, Result<()>) {
        let (tell, told) = channel();
        let before = move |session: MetadataSession<'_>| {
            // Until the others have joined the group.
            told.recv().expect("it is told");
            put(session, "before")
        };
        block_on(async {
            let sent = async { tell.send(()).expect("the writer waits for it") };
            let after = |session: MetadataSession<'_>| put(session, "after");
            let (before, done, after, ()) = join!(
                writer.write(Durability::Full, before),
                writer.write_weighed(weight, Durability::Full, work),
                writer.write(Durability::Full, after),
                sent
            );
            (before, done, after)
        })
    }

    #[test]
    fn a_job_of_one_step_that_is_refused_leaves_the_others_alone() {
        let (database, writer) = started();
        let refused = |_: MetadataSession<'_>| Err(Error::new(ErrorKind::Conflict, "no"));
        let (before, done, after) = grouped(&writer, JobWeight::Single, refused);
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(before.is_ok() && after.is_ok());
        assert!(has(&database, "before") && has(&database, "after"));
    }

    #[test]
    fn a_job_of_one_step_that_fails_in_its_middle_takes_back_what_came_before_it() {
        let (database, writer) = started();
        let failing = |session: MetadataSession<'_>| {
            put(session, "half")?;
            Err(Error::new(ErrorKind::Unavailable, "the disk fails"))
        };
        let (before, done, after) = grouped(&writer, JobWeight::Single, failing);
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(before.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(!has(&database, "before") && !has(&database, "half"));
        assert!(after.is_ok(), "it came later, and is in the next group");
        assert!(has(&database, "after"));
    }

    #[test]
    fn a_disk_that_fails_under_a_job_is_why_the_others_of_its_group_fail() {
        let (database, writer) = started();
        let failing = |session: MetadataSession<'_>| {
            put(session, "half")?;
            session.end_as_a_failing_disk_does();
            Err::<(), _>(Error::new(ErrorKind::Unavailable, "the disk fails"))
        };
        let (before, done, _) = grouped(&writer, JobWeight::Any, failing);
        assert_eq!(done.unwrap_err().message(), "the disk fails");
        assert_eq!(before.unwrap_err().message(), "the disk fails");
        assert!(!has(&database, "before") && !has(&database, "half"));
        block_on(writer.write(Durability::Full, |session| put(session, "after"))).unwrap();
        assert!(has(&database, "after"));
    }

    #[test]
    fn a_refusal_under_which_the_disk_fails_is_told_to_nobody_else() {
        let (database, writer) = started();
        let refused = |session: MetadataSession<'_>| {
            put(session, "half")?;
            session.end_as_a_failing_disk_does();
            Err::<(), _>(Error::new(ErrorKind::Conflict, "no"))
        };
        let (before, done, after) = grouped(&writer, JobWeight::Any, refused);
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict);
        let before = before.unwrap_err();
        assert_eq!(
            (before.kind(), before.message()),
            (ErrorKind::Unavailable, "the disk of the home reports an error")
        );
        assert!(!has(&database, "before") && !has(&database, "half"));
        assert!(after.is_ok());
    }

    #[test]
    fn a_job_that_panics_is_refused_and_the_writer_goes_on() {
        for durability in [Durability::Full, Durability::Relaxed] {
            for weight in [JobWeight::Single, JobWeight::Small, JobWeight::Any] {
                let (database, writer) = started();
                let panicking = |session: MetadataSession<'_>| -> Result<()> {
                    put(session, "half")?;
                    panic!("of no good reason")
                };
                let refused = block_on(writer.write_weighed(weight, durability, panicking));
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::Internal);
                assert!(!has(&database, "half"));
                block_on(writer.write_weighed(weight, durability, |session| put(session, "after"))).unwrap();
                assert!(has(&database, "after"), "{weight:?}, {durability:?}");
            }
        }
    }

    #[test]
    fn a_job_of_one_step_that_panics_in_its_middle_has_the_others_of_its_group_try_again() {
        let (database, writer) = started();
        let panicking = |session: MetadataSession<'_>| -> Result<()> {
            put(session, "half")?;
            panic!("of no good reason")
        };
        let (before, done, after) = grouped(&writer, JobWeight::Single, panicking);
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Internal);
        let before = before.unwrap_err();
        assert_eq!(before.kind(), ErrorKind::Unavailable, "{before}");
        assert!(!has(&database, "before") && !has(&database, "half"));
        assert!(after.is_ok(), "it came later, and is in the next group");
        let (before, done, _) = grouped(&writer, JobWeight::Small, panicking);
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Internal);
        assert!(before.is_ok(), "under a savepoint, only the job itself is taken back");
        assert!(has(&database, "before") && !has(&database, "half"));
    }

    #[test]
    fn a_turn_that_another_keeps_is_given_up_and_one_that_it_gives_back_is_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mine, other) = (file.reopen().unwrap(), file.reopen().unwrap());
        other.lock().unwrap();
        assert!(WriterTurn::wait_for(&mine, Duration::from_millis(1)).is_none());
        let kept = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| WriterTurn::wait_for(&mine, LONGEST_TURN));
            other.unlock().unwrap();
            waiting.join().unwrap()
        });
        drop(kept.expect("it was given back"));
        // Returns only after the thread that waited in vain has released the lock, too.
        other.lock().unwrap();
    }

    #[test]
    fn a_durable_job_does_not_join_a_group_that_is_not_synced() {
        let (jobs, waiting) = channel();
        let job = |durability| WriteJob {
            durability,
            weight: JobWeight::Any,
            run: Box::new(|_| FinishedJob {
                error: None,
                answer: Box::new(|_| ()),
            }),
        };
        let mut coming = IncomingJobs::new(&waiting);
        jobs.send(job(Durability::Relaxed)).unwrap();
        assert!(coming.begin_group() && !coming.is_durable);
        jobs.send(job(Durability::Full)).unwrap();
        jobs.send(job(Durability::Relaxed)).unwrap();
        assert_eq!(coming.by_ref().count(), 1);
        assert!(coming.begin_group() && coming.is_durable);
        drop(jobs);
        assert_eq!(coming.by_ref().count(), 2, "a durable group takes any");
        assert!(!coming.begin_group());
    }
}
