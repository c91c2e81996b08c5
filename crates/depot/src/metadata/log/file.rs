//! The files of a database, of which the log is one that holds pages back. Everything else is left to SQLite's own files.

#![allow(
    unsafe_code,
    reason = "SQLite takes files as tables of functions that it calls with pointers"
)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use garret_core::{Error, ErrorKind, Result};
use rusqlite::ffi::{self, sqlite3_file, sqlite3_filename, sqlite3_io_methods, sqlite3_vfs};

use super::COMMIT;
use super::held::{Held, Taken};

const NAME: &CStr = c"garret";

/// The files that come with SQLite.
struct Plain(*mut sqlite3_vfs);

// SAFETY: SQLite registers them when it begins, lets any thread use them, and never changes or frees them.
unsafe impl Send for Plain {}
// SAFETY: as above.
unsafe impl Sync for Plain {}

static PLAIN: OnceLock<Option<Plain>> = OnceLock::new();

/// A log that is open. SQLite's own file lies right behind it, in the same piece of memory.
#[repr(C, align(8))]
struct Log {
    file: sqlite3_file,
    held: Held,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The name by which a connection asks for these files.
pub(in crate::metadata) fn files() -> Result<&'static CStr> {
    match PLAIN.get_or_init(register) {
        Some(_) => Ok(NAME),
        None => Err(Error::new(
            ErrorKind::Internal,
            "SQLite does not take the depot's files",
        )),
    }
}

fn register() -> Option<Plain> {
    // SAFETY: no name asks for the default, which is there as long as the process.
    let plain = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    // SAFETY: it is either nothing or what SQLite found, which nobody changes.
    let mut files = unsafe { plain.as_ref() }.copied()?;
    files.pNext = ptr::null_mut();
    files.zName = NAME.as_ptr();
    files.szOsFile += size_of::<Log>() as c_int;
    files.xOpen = Some(open);
    let files = Box::leak(Box::new(files));
    // SAFETY: they and their name stay for as long as the process does.
    let registered = unsafe { ffi::sqlite3_vfs_register(files, 0) };
    (registered == ffi::SQLITE_OK).then_some(Plain(plain))
}

/// SQLite's own file behind a log.
fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: `szOsFile` has SQLite make room for both.
    unsafe { file.cast::<Log>().add(1).cast() }
}

/// What SQLite's own file can do.
///
/// # Safety
/// `file` is a log that is open.
unsafe fn methods<'f>(file: *mut sqlite3_file) -> &'f sqlite3_io_methods {
    // SAFETY: an open file has methods, and they outlive it.
    unsafe { &*(*real(file)).pMethods }
}

unsafe extern "C" fn open(
    _files: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    given: *mut c_int,
) -> c_int {
    let Some(Some(Plain(plain))) = PLAIN.get() else {
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: SQLite's own files can be opened, by a function that is there as long as they are.
    let open_plain = |file| unsafe {
        match (**plain).xOpen {
            Some(open) => open(*plain, name, file, flags, given),
            None => ffi::SQLITE_CANTOPEN,
        }
    };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        return open_plain(file);
    }
    let opened = open_plain(real(file));
    if opened != ffi::SQLITE_OK {
        // SAFETY: nothing is open then, whatever SQLite's own file has for methods; a log without them is not closed.
        unsafe { (*file).pMethods = ptr::null() };
        return opened;
    }
    let log = Log {
        file: sqlite3_file { pMethods: &METHODS },
        held: Held::default(),
    };
    // SAFETY: SQLite has made room for it, aligned to eight bytes, with nothing in it.
    unsafe { file.cast::<Log>().write(log) };
    ffi::SQLITE_OK
}

/// Writes what is held. Where that fails, it is given up: so is the transaction, whose pages are then written anew.
///
/// # Safety
/// `file` is a log that is open, and nobody else uses it meanwhile.
unsafe fn put_down(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the caller has it to itself.
    let held = unsafe { &mut (*file.cast::<Log>()).held }.of(COMMIT.get());
    let done = match held.run() {
        // SAFETY: as above.
        Some((bytes, offset)) => unsafe { write_real(file, bytes, offset) },
        None => ffi::SQLITE_OK,
    };
    held.clear();
    done
}

/// # Safety
/// `file` is a log that is open.
unsafe fn write_real(file: *mut sqlite3_file, bytes: &[u8], offset: i64) -> c_int {
    // SAFETY: the bytes are there until it returns.
    unsafe {
        match methods(file).xWrite {
            Some(write) => write(real(file), bytes.as_ptr().cast(), bytes.len() as c_int, offset),
            None => ffi::SQLITE_IOERR_WRITE,
        }
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite gives so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), amount.unsigned_abs() as usize) };
    // SAFETY: SQLite calls with an open log, on one thread at a time.
    unsafe {
        match (*file.cast::<Log>()).held.of(COMMIT.get()).take(bytes, offset) {
            Taken::Held => ffi::SQLITE_OK,
            Taken::Complete => put_down(file),
            Taken::Apart => match put_down(file) {
                ffi::SQLITE_OK => write_real(file, bytes, offset),
                failed => failed,
            },
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open log once. What is held then belongs to no complete transaction.
    unsafe {
        let closed = methods(file).xClose.map_or(ffi::SQLITE_OK, |close| close(real(file)));
        ptr::drop_in_place(file.cast::<Log>());
        closed
    }
}

/// A call that finds what is held in the file, and is then SQLite's own.
macro_rules! after_what_is_held {
    ($name:ident, $method:ident, $failed:expr, $($argument:ident: $kind:ty),*) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($argument: $kind),*) -> c_int {
            // SAFETY: SQLite calls with an open log, on one thread at a time, and the arguments are passed on as they are.
            unsafe {
                match (put_down(file), methods(file).$method) {
                    (ffi::SQLITE_OK, Some(method)) => method(real(file), $($argument),*),
                    (ffi::SQLITE_OK, None) => $failed,
                    (failed, _) => failed,
                }
            }
        }
    };
}

after_what_is_held!(read, xRead, ffi::SQLITE_IOERR_READ, data: *mut c_void, amount: c_int, offset: i64);
after_what_is_held!(truncate, xTruncate, ffi::SQLITE_IOERR_TRUNCATE, size: i64);
after_what_is_held!(sync, xSync, ffi::SQLITE_IOERR_FSYNC, flags: c_int);
after_what_is_held!(file_size, xFileSize, ffi::SQLITE_IOERR_FSTAT, size: *mut i64);
after_what_is_held!(lock, xLock, ffi::SQLITE_IOERR_LOCK, level: c_int);
after_what_is_held!(unlock, xUnlock, ffi::SQLITE_IOERR_UNLOCK, level: c_int);
after_what_is_held!(check_reserved_lock, xCheckReservedLock, ffi::SQLITE_IOERR_LOCK, held: *mut c_int);
after_what_is_held!(file_control, xFileControl, ffi::SQLITE_NOTFOUND, what: c_int, argument: *mut c_void);

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls with an open log.
    unsafe { methods(file).xSectorSize.map_or(0, |method| method(real(file))) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls with an open log.
    unsafe {
        methods(file)
            .xDeviceCharacteristics
            .map_or(0, |method| method(real(file)))
    }
}

#[cfg(test)]
mod failing;

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the kernel's own count of writes")]

    use rusqlite::{Connection, OpenFlags};
    use tempfile::TempDir;

    use super::super::committing;
    use super::*;

    pub(super) struct Bench {
        directory: TempDir,
        pub(super) writer: Connection,
    }

    impl Bench {
        /// A database of few cached pages, so that a transaction is put into the log before it is complete.
        pub(super) fn new(synchronous: &str, cached: u32) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("database");
            let writer = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), files().unwrap()).unwrap();
            writer
                .execute_batch(&format!(
                    "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = {synchronous};
                     PRAGMA cache_size = {cached}; CREATE TABLE line (number INTEGER PRIMARY KEY, data BLOB)"
                ))
                .unwrap();
            Self { directory, writer }
        }

        /// A connection through SQLite's own files.
        pub(super) fn other(&self) -> Connection {
            Connection::open(self.directory.path().join("database")).unwrap()
        }

        /// What somebody finds who opens the database after this process was killed just now.
        pub(super) fn after_a_crash(&self) -> (i64, blake3::Hash) {
            let copy = tempfile::tempdir().unwrap();
            for name in ["database", "database-wal"] {
                std::fs::copy(self.directory.path().join(name), copy.path().join(name)).unwrap();
            }
            let copied = Connection::open(copy.path().join("database")).unwrap();
            assert!(is_sound(&copied));
            found(&copied)
        }

        /// Changes some lines, and adds some.
        pub(super) fn work(&self, lines: u32) {
            let work = format!(
                "UPDATE line SET data = randomblob(2000) WHERE number % 7 = {lines} % 7;
                 WITH RECURSIVE many(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM many WHERE number < {lines})
                 INSERT INTO line (data) SELECT randomblob(3000) FROM many"
            );
            self.writer.execute_batch(&work).unwrap();
        }
    }

    /// What a connection finds: how many lines, and the sum of their bytes.
    pub(super) fn found(connection: &Connection) -> (i64, blake3::Hash) {
        let lines = "SELECT count(*), CAST(group_concat(hex(data)) AS BLOB) FROM line";
        let found = connection.query_row(lines, [], |row| Ok((row.get(0)?, row.get::<_, Option<Vec<u8>>>(1)?)));
        let (count, bytes) = found.unwrap();
        (count, blake3::hash(&bytes.unwrap_or_default()))
    }

    pub(super) fn is_sound(connection: &Connection) -> bool {
        let word = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        word.unwrap() == "ok"
    }

    /// How often this thread has called upon the kernel to write.
    fn writes() -> u64 {
        let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = counts.lines().find_map(|line| line.strip_prefix("syscw: "));
        count.unwrap().parse().unwrap()
    }

    #[test]
    fn another_process_sees_a_transaction_when_it_is_complete_and_not_before() {
        for synchronous in ["FULL", "NORMAL", "OFF"] {
            let bench = Bench::new(synchronous, 8);
            let other = bench.other();
            for round in 1..40 {
                let before = found(&other);
                bench.writer.execute_batch("BEGIN").unwrap();
                bench.work(round);
                bench.writer.execute_batch("SAVEPOINT part").unwrap();
                bench.work(round + 3);
                bench.writer.execute_batch("ROLLBACK TO part").unwrap();
                assert_eq!(found(&other), before, "{synchronous}, round {round}");
                let mine = found(&bench.writer);
                assert_ne!(mine, before);
                let (end, expected) = match round % 3 {
                    0 => ("ROLLBACK", before),
                    _ => ("COMMIT", mine),
                };
                committing(|| bench.writer.execute_batch(end)).unwrap();
                assert_eq!(found(&other), expected, "{synchronous}, round {round}");
                assert_eq!(found(&bench.writer), expected);
            }
            assert!(is_sound(&other) && is_sound(&bench.writer));
        }
    }

    #[test]
    fn what_a_commit_that_failed_held_is_never_written_over_what_others_committed() {
        let bench = Bench::new("NORMAL", 8);
        bench.work(60);
        let other = bench.other();
        for lines in 1..40 {
            // An empty log, so that looking for a page does not look into it.
            let emptied = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            assert_eq!(emptied, Ok(0));
            let change = format!("UPDATE line SET data = randomblob(3000) WHERE number <= {lines}");
            bench.writer.execute_batch("BEGIN").unwrap();
            // As if the commit had put pages into the log and then failed.
            committing(|| bench.writer.execute_batch(&change)).unwrap();
            bench.writer.execute_batch("ROLLBACK").unwrap();
            other.execute_batch(&change).unwrap();
            assert_eq!(found(&bench.writer), found(&other));
        }
        bench.work(1);
        assert_eq!(found(&other), found(&bench.writer));
        assert!(is_sound(&bench.other()));
    }

    #[test]
    fn what_was_committed_is_there_when_nothing_is_closed() {
        let bench = Bench::new("NORMAL", 1000);
        bench.writer.execute_batch("BEGIN").unwrap();
        bench.work(50);
        committing(|| bench.writer.execute_batch("COMMIT")).unwrap();
        assert_eq!(bench.after_a_crash(), found(&bench.writer));
    }

    #[test]
    fn the_pages_of_a_transaction_are_written_together() {
        let bench = Bench::new("FULL", 1000);
        bench.work(1);
        bench.writer.execute_batch("BEGIN").unwrap();
        bench.work(100);
        let before = writes();
        committing(|| bench.writer.execute_batch("COMMIT")).unwrap();
        let pages = 100 + 20;
        assert!(writes() - before < pages / 8, "{} writes", writes() - before);
    }
}
