//! The one writer of a process: a thread that takes every job that waits, in whatever workspace, and commits them as one group.
//!
//! One transaction and one sync then serve them all, which is what makes durable writes from many tasks cheap. A job runs under a
//! savepoint, so a refused one takes back only itself; nobody is answered before the commit. Of several processes on one home, each
//! takes a turn at a lock file and then the database's own lock: the lock file wakes those who wait, where the database's would have them
//! poll and starve; the database's lock is the one that counts.
//!
//! A small job that no sync is promised to, while nobody else writes, is done by its caller: handing it to another thread and back would
//! cost more than the job.

use std::fmt;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use futures::channel::oneshot;
use garret_core::{Error, ErrorKind, Result};

use crate::content::ContentStore;
use crate::error;
use crate::metadata::{Session, WriteConnection, Writing, patiently};
use garret_core::Durability;

/// The most jobs in one transaction, so that the first of them does not wait for ever.
const GROUP: usize = 512;
/// How long a group that is smaller than the one before it waits for each further job. Those that were answered together come back
/// together, and a sync for the first of them alone would make the others wait for it.
const GATHERING: Duration = Duration::from_micros(100);

/// A handle on the writer. Dropping it waits for the jobs under way.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    seat: Arc<Mutex<Seat>>,
}

/// What whoever writes needs, one at a time.
struct Seat {
    connection: WriteConnection,
    /// The lock file that processes take turns at.
    turns: Option<File>,
    content: Arc<ContentStore>,
}

impl fmt::Debug for Seat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Seat")
    }
}

/// How much a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// A few rows, and no blob is touched.
    Small,
    /// Anything.
    Any,
}

/// A job under way; an error where its transaction could not begin.
type Run = dyn FnOnce(Result<Session<'_>>) -> Ran + Send;

struct Job {
    durability: Durability,
    run: Box<Run>,
}

/// A job that has run and waits for the commit.
struct Ran {
    is_kept: bool,
    answer: Box<dyn FnOnce(Result<()>) + Send>,
}

impl Writer {
    /// Starts the thread. `turns` is the lock file that processes take turns at; memory needs none.
    pub(crate) fn start(connection: WriteConnection, turns: Option<File>, content: Arc<ContentStore>) -> Result<Self> {
        let (jobs, waiting) = channel();
        let seat = Arc::new(Mutex::new(Seat {
            connection,
            turns,
            content,
        }));
        let taken = seat.clone();
        let thread = std::thread::Builder::new()
            .name("garret-depot-writer".into())
            .spawn(move || serve(&taken, &waiting))
            .map_err(|_| Error::new(ErrorKind::Unavailable, "the depot cannot start its writer"))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
            seat,
        })
    }

    /// Runs `work` in a transaction; done when that is committed. Where it fails, nothing of it stays.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        work: impl FnOnce(Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.write_weighed(Weight::Any, durability, work).await
    }

    /// The same, where the caller knows how much it is.
    pub(crate) async fn write_weighed<T: Send + 'static>(
        &self,
        weight: Weight,
        durability: Durability,
        work: impl FnOnce(Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let run = move |session: Result<Session<'_>>| {
            let outcome = session.and_then(work);
            Ran {
                is_kept: outcome.is_ok(),
                answer: Box::new(move |committed: Result<()>| {
                    // Whoever gave up waiting has no use for the answer; the change stands all the same.
                    let _ = sender.send(outcome.and_then(|done| committed.map(|()| done)));
                }),
            }
        };
        let job = Job {
            durability,
            run: Box::new(run),
        };
        let is_quick = weight == Weight::Small && durability == Durability::Relaxed;
        let Some(job) = (if is_quick { self.write_here(job) } else { Some(job) }) else {
            return answer.await.map_err(|_| gone())?;
        };
        let jobs = self.jobs.as_ref().expect("it is there until the drop");
        jobs.send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Writer {
    /// Does the job on this thread, unless that means to wait for anybody: then it is given back.
    fn write_here(&self, job: Job) -> Option<Job> {
        let Ok(seat) = self.seat.try_lock() else {
            return Some(job);
        };
        let turn = match seat.turns.as_ref().map(Turn::try_take) {
            Some(None) => return Some(job),
            Some(Some(turn)) if is_removed(turn.0) => return Some(job),
            Some(turn) => turn,
            None => None,
        };
        let (ran, committed) = match seat.connection.with(|writing| commit_alone(writing, job)) {
            Ok(done) => done,
            Err(job) => return Some(job),
        };
        drop(turn);
        drop(seat);
        (ran.answer)(committed);
        None
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // The last handle may be one that a job held, and then this is the writer itself, about to end.
        let is_elsewhere = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_elsewhere) {
            // A panic of the writer was told to those who waited for it.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Internal, "the depot's writer has ended")
}

fn serve(seat: &Mutex<Seat>, waiting: &Receiver<Job>) {
    let mut before = 1;
    while let Ok(first) = waiting.recv() {
        let jobs = gather(first, waiting, before);
        before = jobs.len();
        let is_durable = jobs.iter().any(|job| job.durability == Durability::Full);
        let seat = seat.lock().expect("no holder panics");
        let Seat {
            connection,
            turns,
            content,
        } = &*seat;
        let turn = turns.as_ref().map(Turn::take);
        let (group, committed) = match turns.as_ref().is_some_and(is_removed) {
            true => (refused(jobs, &error::home_is_gone()), Ok(())),
            false => connection.with(|writing| commit_group(writing, jobs, is_durable.then_some(&**content))),
        };
        drop(turn);
        drop(seat);
        group.into_iter().for_each(|ran| (ran.answer)(committed.clone()));
    }
}

/// The jobs that wait, and those that come soon where many came before.
fn gather(first: Job, waiting: &Receiver<Job>, before: usize) -> Vec<Job> {
    let mut jobs = vec![first];
    jobs.extend(waiting.try_iter().take(GROUP - 1));
    while jobs.len() < before
        && let Ok(job) = waiting.recv_timeout(GATHERING)
    {
        jobs.push(job);
        jobs.extend(waiting.try_iter().take(GROUP - jobs.len()));
    }
    jobs
}

/// Runs one job in a transaction without a sync; given back where that cannot begin, because another writes or the disk fails.
fn commit_alone(writing: Writing<'_>, job: Job) -> Result<(Ran, Result<()>), Job> {
    if begin(writing, false).is_err() {
        return Err(job);
    }
    let ran = (job.run)(Ok(writing.session()));
    let ended = if ran.is_kept {
        writing.end(Ok(()))
    } else {
        writing.take_back()
    };
    Ok((ran, ended))
}

/// Runs the jobs in one transaction; gives them with what became of it. With `durable` content, it is synced before the commit: a
/// durable change must not outlive the blobs of the relaxed ones that it builds upon.
fn commit_group(writing: Writing<'_>, jobs: Vec<Job>, durable: Option<&ContentStore>) -> (Vec<Ran>, Result<()>) {
    // Only a database that another holds is waited for; a disk that fails is told at once.
    if let Err(error) = patiently(|| begin(writing, durable.is_some())) {
        return (refused(jobs, &error), Ok(()));
    }
    let group = jobs.into_iter().map(|job| run_job(writing, job)).collect();
    let synced = durable.map_or(Ok(()), |content| content.sync_listed(writing.session()));
    (group, writing.end(synced))
}

/// The jobs, none of which was begun.
fn refused(jobs: Vec<Job>, error: &Error) -> Vec<Ran> {
    let refuse = |job: Job| (job.run)(Err(error.clone()));
    jobs.into_iter().map(refuse).collect()
}

/// Whether an open file has no name any more. That of the lock file goes with the home, and the database with it: SQLite would go on to
/// commit into a file that nobody can open again.
pub(crate) fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() == 0)
}

fn run_job(writing: Writing<'_>, job: Job) -> Ran {
    let ran = match writing.begin_job() {
        Ok(()) => (job.run)(Ok(writing.session())),
        Err(error) => return (job.run)(Err(error)),
    };
    match writing.end_job(ran.is_kept) {
        Ok(()) => ran,
        Err(error) => Ran {
            is_kept: false,
            answer: Box::new(move |_| (ran.answer)(Err(error))),
        },
    }
}

fn begin(writing: Writing<'_>, is_durable: bool) -> Result<()> {
    writing.set_durable(is_durable)?;
    writing.begin()
}

/// A turn among the processes of a home; ends when dropped, or when the process dies.
struct Turn<'a>(&'a File);

impl<'a> Turn<'a> {
    /// A turn, where nobody has it.
    fn try_take(file: &'a File) -> Option<Self> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Ok(()) | Err(TryLockError::Error(_)) => Some(Self(file)),
        }
    }

    fn take(file: &'a File) -> Self {
        // On a disk without locks the database's own lock still keeps writers apart, only less fairly.
        let _ = file.lock();
        Self(file)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
