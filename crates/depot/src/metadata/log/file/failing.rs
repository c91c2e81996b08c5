//! Commits that fail at each of the calls they are made of, while others have the same database open through SQLite's own files.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rusqlite::Connection;

use super::super::committing;
use super::tests::{Bench, found, is_sound};
use super::*;

/// How a write fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Nothing of it arrives.
    Whole,
    /// The disk is full in its middle.
    Short,
    /// It arrives, and is called a failure all the same.
    Late,
    /// Every write arrives, and a sync fails.
    Sync,
}

/// What the writes of this thread meet.
struct Fault {
    failure: Failure,
    /// Calls that go well before one fails.
    before: Cell<u32>,
    is_met: Cell<bool>,
    /// Done when a call is about to fail.
    meanwhile: Box<dyn Fn()>,
    write: unsafe extern "C" fn(*mut sqlite3_file, *const c_void, c_int, i64) -> c_int,
    sync: unsafe extern "C" fn(*mut sqlite3_file, c_int) -> c_int,
}

impl Fault {
    /// Whether this call is the one that fails.
    fn strikes(&self) -> bool {
        let is_struck = self.before.get() == 0;
        match is_struck {
            true => (self.meanwhile)(),
            false => self.before.set(self.before.get() - 1),
        }
        self.is_met.set(self.is_met.get() || is_struck);
        is_struck
    }
}

thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

unsafe extern "C" fn failing_write(file: *mut sqlite3_file, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    FAULT.with_borrow(|fault| {
        let fault = fault.as_ref().unwrap();
        let (arrives, failed) = match fault.failure {
            Failure::Sync => (amount, None),
            _ if !fault.strikes() => (amount, None),
            Failure::Whole => return ffi::SQLITE_IOERR_WRITE,
            Failure::Short => (amount / 2, Some(ffi::SQLITE_FULL)),
            Failure::Late => (amount, Some(ffi::SQLITE_IOERR_WRITE)),
        };
        // SAFETY: SQLite's own write of SQLite's own file, of no more than there is.
        let written = unsafe { (fault.write)(file, data, arrives, offset) };
        failed.unwrap_or(written)
    })
}

unsafe extern "C" fn failing_sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    FAULT.with_borrow(|fault| {
        let fault = fault.as_ref().unwrap();
        if fault.failure == Failure::Sync && fault.strikes() {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        // SAFETY: SQLite's own sync of SQLite's own file.
        unsafe { (fault.sync)(file, flags) }
    })
}

/// SQLite's own file behind the log of a connection.
fn real_log(connection: &Connection) -> *mut sqlite3_file {
    let mut log: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and SQLite puts a pointer where it is asked to.
    let asked = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_JOURNAL_POINTER,
            (&raw mut log).cast(),
        )
    };
    assert_eq!(asked, ffi::SQLITE_OK);
    // SAFETY: the file is open.
    assert_eq!(unsafe { (*log).pMethods }, &raw const METHODS, "it is not the depot's");
    real(log)
}

/// Commits on a log of which the call after `before` others fails; tells what became of it, and whether the failure was met.
fn commit(
    writer: &Connection,
    failure: Failure,
    before: u32,
    meanwhile: Box<dyn Fn()>,
) -> (rusqlite::Result<()>, bool) {
    let log = real_log(writer);
    // SAFETY: the file is open, and this thread has it to itself; it gets its own methods back below.
    let plain = unsafe { (*log).pMethods };
    // SAFETY: as above.
    let mut failing = unsafe { *plain };
    let fault = Fault {
        failure,
        before: Cell::new(before),
        is_met: Cell::new(false),
        meanwhile,
        write: failing.xWrite.unwrap(),
        sync: failing.xSync.unwrap(),
    };
    failing.xWrite = Some(failing_write);
    failing.xSync = Some(failing_sync);
    FAULT.set(Some(fault));
    // SAFETY: the methods stay until they are replaced.
    unsafe { (*log).pMethods = &raw const failing };
    let committed = committing(|| writer.execute_batch("COMMIT"));
    // SAFETY: as above.
    unsafe { (*log).pMethods = plain };
    let is_met = FAULT.take().unwrap().is_met.get();
    (committed, is_met)
}

/// Has each write of a commit, or each sync, fail once; gives how many there are.
fn fail_everywhere(failure: Failure, synchronous: &str, cached: u32) -> u32 {
    let bench = Bench::new(synchronous, cached);
    bench.work(70);
    let fails = |number: &u32| fails_at(&bench, failure, *number);
    (0..).take_while(fails).count() as u32
}

/// Has the call with that number fail, and others commit where the pages of the commit would have been; tells whether there is such a call.
fn fails_at(bench: &Bench, failure: Failure, number: u32) -> bool {
    let (other, onlooker) = (bench.other(), bench.other());
    if number.is_multiple_of(2) {
        // The commit then begins the log anew, and writes its head.
        let emptied = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        emptied.unwrap();
    }
    let before = found(&other);
    begin(
        &bench.writer,
        "UPDATE line SET data = randomblob(3000) WHERE number <= 60;
         UPDATE line SET data = randomblob(3000) WHERE number <= 60 AND number % 3 = 1",
    );
    let intended = found(&bench.writer);
    onlooker.busy_timeout(Duration::ZERO).unwrap();
    let meanwhile = move || {
        assert_eq!(found(&onlooker), before);
        assert!(onlooker.execute_batch("BEGIN IMMEDIATE").is_err(), "the log is taken");
    };
    let (committed, is_met) = commit(&bench.writer, failure, number, Box::new(meanwhile));
    if !is_met {
        committed.unwrap();
        assert_eq!(found(&other), intended);
        return false;
    }
    committed.unwrap_err();
    if !bench.writer.is_autocommit() {
        bench.writer.execute_batch("ROLLBACK").unwrap();
    }
    assert_eq!(found(&other), before, "{failure:?}, call {number}");
    assert_eq!(found(&bench.writer), before, "{failure:?}, call {number}");
    let left = bench.after_a_crash();
    // Nobody tells those who find the whole of it that it was called a failure.
    let is_whole = matches!(failure, Failure::Late | Failure::Sync) && left == intended;
    assert!(left == before || is_whole, "{failure:?}, call {number}");
    work_goes_on(bench, &other);
    true
}

/// First the other commits, and then this one.
fn work_goes_on(bench: &Bench, other: &Connection) {
    let before = found(other);
    let theirs = "UPDATE line SET data = randomblob(2500) WHERE number % 9 = 4";
    other.execute_batch(theirs).unwrap();
    let theirs = found(other);
    assert_ne!(theirs, before);
    assert_eq!(found(&bench.writer), theirs);
    assert_eq!(bench.after_a_crash(), theirs);

    begin(
        &bench.writer,
        "UPDATE line SET data = randomblob(3000) WHERE number % 2 = 1",
    );
    committing(|| bench.writer.execute_batch("COMMIT")).unwrap();
    let mine = found(&bench.writer);
    assert_ne!(mine, theirs);
    assert_eq!(found(other), mine);
    assert_eq!(bench.after_a_crash(), mine);
    assert!(is_sound(other) && is_sound(&bench.writer));
}

fn begin(writer: &Connection, change: &str) {
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    writer.execute_batch(change).unwrap();
}

#[test]
fn nothing_of_a_commit_that_fails_between_two_runs_is_seen_and_what_others_commit_then_stays() {
    for failure in [Failure::Whole, Failure::Short, Failure::Late] {
        for synchronous in ["FULL", "NORMAL"] {
            // Sixty pages and those above them, in runs of sixteen, after the head of the log.
            let writes = fail_everywhere(failure, synchronous, 1000);
            assert!((4..=7).contains(&writes), "{writes} writes");
        }
    }
}

#[test]
fn the_same_holds_where_a_sync_fails() {
    let syncs = fail_everywhere(Failure::Sync, "FULL", 1000);
    assert!((1..=2).contains(&syncs), "{syncs} syncs");
}

#[test]
fn the_same_holds_where_most_pages_were_put_into_the_log_before_the_commit() {
    for failure in [Failure::Whole, Failure::Short, Failure::Late] {
        // The sums of all those pages are written anew.
        let writes = fail_everywhere(failure, "NORMAL", 8);
        assert!(writes > 20, "{writes} writes");
    }
}
