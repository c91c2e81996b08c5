//! The walk: every directory below a start, by handle, on several threads.
//!
//! The threads share a stack of jobs: directories to open, and stretches of the files of large directories. A directory
//! is opened when its turn comes, through the handle of its parent, so that few handles are open at a time and no path
//! is ever resolved twice. Entries come in no particular order; visitors collect them, and sort at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;

use garret_core::{DirectoryEntry, DirectoryHandle, EntryKind, EntryPath, Error, ErrorKind, Result, WsPath};

use super::ignore::{IgnoreRules, IgnoreVerdict, RuleFiles, load_rules};
use crate::file_access::FileAccess;

const MAX_THREADS: usize = 12;
/// The most files of one directory that one thread takes at once.
const STRETCH: usize = 32;

/// The kinds of entries that a walk covers; all others are left out before a visitor sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalkCoverage {
    pub(super) hidden: bool,
    pub(super) include_ignored: bool,
    pub(super) include_git: bool,
}

/// An entry that the walk shows to a visitor.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkEntry<'a> {
    /// Its path below the root of the storage.
    pub(super) path: &'a [u8],
    /// The length of the part of `path` that leads to the start of the walk, its slash included.
    pub(super) start: usize,
    pub(super) kind: EntryKind,
}

impl<'a> WalkEntry<'a> {
    pub(super) fn name(&self) -> &'a [u8] {
        let slash = memchr::memrchr(b'/', self.path).map_or(0, |slash| slash + 1);
        &self.path[slash..]
    }

    /// Returns the path below the start of the walk.
    pub(super) fn relative_path(&self) -> &'a [u8] {
        &self.path[self.start..]
    }
}

/// Receives the entries of a walk on one thread.
pub(super) trait WalkVisitor: Send {
    /// Receives a directory, and returns whether the walk goes into it; `directory` is its parent.
    fn enter_directory(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle) -> bool;
    /// Receives any other entry; `directory` is its parent.
    fn visit_entry(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle);
    /// Receives a directory that cannot be read.
    fn report_failure(&mut self, path: &[u8], error: &Error);
}

/// The directory at which a walk begins.
pub(super) struct WalkStart {
    directory: Box<dyn DirectoryHandle>,
    path: WsPath,
    rules: Option<Arc<IgnoreRules>>,
}

impl WalkStart {
    /// Opens the directory at `path`, name by name from the root of the storage, and collects the ignore rules from
    /// `base` on.
    pub(super) fn open_at(root: Box<dyn DirectoryHandle>, base: &WsPath, path: &WsPath) -> Result<Self> {
        let mut start = Self {
            directory: root,
            path: WsPath::root(),
            rules: None,
        };
        for name in path.components() {
            if start.path.is_within(base) {
                start.rules = start.own_rules();
            }
            start.directory = start.directory.open_directory(name.as_bytes())?;
            start.path = start.path.child(name)?;
        }
        Ok(start)
    }

    fn own_rules(&self) -> Option<Arc<IgnoreRules>> {
        let path = self.path.as_str().as_bytes();
        load_rules(&*self.directory, path, RuleFiles::assume_all(), self.rules.as_ref())
    }

    /// Shows `visitor` the one entry `name`, whatever the rules say: it was asked for by name.
    pub(super) fn visit_only(&self, name: &str, kind: EntryKind, visitor: &mut impl WalkVisitor) -> Result<()> {
        let path = self.path.child(name)?;
        let spot = WalkEntry {
            path: path.as_str().as_bytes(),
            start: path.as_str().len() - name.len(),
            kind,
        };
        visitor.visit_entry(spot, &*self.directory);
        Ok(())
    }
}

/// The settings of a walk.
pub(super) struct SearchWalk<'a> {
    pub(super) coverage: WalkCoverage,
    /// The files, of which the policy hides some.
    pub(super) files: &'a FileAccess,
    pub(super) threads: usize,
    /// Whether the files are remote, so that a visit mostly waits.
    pub(super) is_far: bool,
    pub(super) is_cancelled: &'a AtomicBool,
}

/// A directory that was opened.
struct WalkNode {
    handle: Box<dyn DirectoryHandle>,
    path: Vec<u8>,
    rules: Option<Arc<IgnoreRules>>,
}

enum WalkJob {
    Open {
        parent: Arc<WalkNode>,
        name: Vec<u8>,
    },
    Visit {
        node: Arc<WalkNode>,
        files: Vec<DirectoryEntry>,
    },
}

/// The jobs to do, and the number of threads that work on one.
#[derive(Default)]
struct WalkJobStack {
    jobs: Vec<WalkJob>,
    busy: usize,
}

struct SharedJobStack {
    stack: Mutex<WalkJobStack>,
    changed: Condvar,
}

impl SearchWalk<'_> {
    /// Walks everything below `start` with one visitor for each thread, and returns the visitors. A start that cannot
    /// be read is an error.
    pub(super) fn run<V: WalkVisitor>(&self, start: WalkStart, visitor: impl Fn() -> V + Sync) -> Result<Vec<V>> {
        let start_length = if start.path.is_root() {
            0
        } else {
            start.path.as_str().len() + 1
        };
        let shared = SharedJobStack {
            stack: Mutex::default(),
            changed: Condvar::new(),
        };
        let mut first = self.new_worker(start_length, visitor());
        let entries = start.directory.list_entries()?;
        let path = start.path.as_str().as_bytes().to_vec();
        first.expand_directory(start.directory, path, start.rules.as_ref(), entries);
        // A small directory is done by now, without the cost of starting threads.
        if first.found.is_empty() {
            return Ok(vec![first.visitor]);
        }
        shared
            .stack
            .lock()
            .expect("no holder panics")
            .jobs
            .append(&mut first.found);
        thread::scope(|scope| {
            // If the system refuses a thread, the walk goes on with those it has.
            let others: Vec<_> = (1..self.threads)
                .map_while(|_| {
                    let mut worker = self.new_worker(start_length, visitor());
                    let work = || {
                        worker.run_jobs(&shared);
                        worker.visitor
                    };
                    thread::Builder::new().spawn_scoped(scope, work).ok()
                })
                .collect();
            first.run_jobs(&shared);
            let joined = others
                .into_iter()
                .map(|other| other.join().map_err(|_| thread_failure()));
            std::iter::once(Ok(first.visitor)).chain(joined).collect()
        })
    }

    fn new_worker<V>(&self, start: usize, visitor: V) -> WalkWorker<'_, V> {
        let rules = self.files.view.layers.iter().map(|layer| &layer.rules);
        WalkWorker {
            walk: self,
            has_path_rules: rules.into_iter().any(|rules| rules.depends_on_path()),
            start,
            visitor,
            path: Vec::new(),
            found: Vec::new(),
        }
    }
}

/// Returns the number of threads that a walk uses.
pub(super) fn thread_count() -> usize {
    // Asked once, because the answer may cost several reads of system files.
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS))
}

/// Returns the error for a thread of a search that panicked.
pub(super) fn thread_failure() -> Error {
    Error::new(ErrorKind::Internal, "a thread of the search failed")
}

/// One thread of a walk.
struct WalkWorker<'a, V> {
    walk: &'a SearchWalk<'a>,
    has_path_rules: bool,
    start: usize,
    visitor: V,
    /// The path of the current entry, in a buffer that is reused.
    path: Vec<u8>,
    /// Jobs that were found and are not yet on the stack.
    found: Vec<WalkJob>,
}

impl<V: WalkVisitor> WalkWorker<'_, V> {
    fn run_jobs(&mut self, shared: &SharedJobStack) {
        let _bell = WakeOthers(shared);
        let mut was_busy = false;
        while let Some(job) = self.next_job(shared, was_busy) {
            was_busy = true;
            match job {
                WalkJob::Open { parent, name } => self.open_directory(parent, &name),
                WalkJob::Visit { node, files } => self.visit_all(&node, &files),
            }
        }
    }

    /// Puts the jobs that were found on the stack and takes the next one; `None` if there is none and none can come.
    fn next_job(&mut self, shared: &SharedJobStack, was_busy: bool) -> Option<WalkJob> {
        let mut stack = shared.stack.lock().expect("no holder panics");
        stack.busy -= usize::from(was_busy);
        // This thread takes one of the jobs itself; only for more are others woken.
        if self.found.len() > 1 {
            shared.changed.notify_all();
        }
        stack.jobs.append(&mut self.found);
        loop {
            if self.is_cancelled() {
                stack.jobs.clear();
            } else if let Some(job) = stack.jobs.pop() {
                stack.busy += 1;
                return Some(job);
            }
            // A busy thread may still find jobs, so an empty stack alone is not the end.
            if stack.busy == 0 {
                return None;
            }
            stack = shared.changed.wait(stack).expect("no holder panics");
        }
    }

    fn is_cancelled(&self) -> bool {
        self.walk.is_cancelled.load(Ordering::Relaxed)
    }

    fn open_directory(&mut self, parent: Arc<WalkNode>, name: &[u8]) {
        self.set_path(&parent.path, name);
        let opened = parent.handle.open_directory(name);
        let rules = parent.rules.clone();
        // The handle of the parent is closed here, unless a sibling of this directory still needs it.
        drop(parent);
        let read = opened.and_then(|directory| Ok((directory.list_entries()?, directory)));
        match read {
            Ok((entries, directory)) => self.expand_directory(directory, self.path.clone(), rules.as_ref(), entries),
            Err(error) if is_gone(&error) => {}
            Err(error) => self.visitor.report_failure(&self.path, &error),
        }
    }

    /// Turns the entries of a directory into jobs, except for a first stretch of files, which is visited at once.
    fn expand_directory(
        &mut self,
        handle: Box<dyn DirectoryHandle>,
        path: Vec<u8>,
        above: Option<&Arc<IgnoreRules>>,
        entries: Vec<DirectoryEntry>,
    ) {
        let rules = if self.walk.coverage.include_ignored {
            None
        } else {
            load_rules(&*handle, &path, RuleFiles::among_entries(&entries), above)
        };
        let node = Arc::new(WalkNode { handle, path, rules });
        let mut files = Vec::with_capacity(entries.len());
        for entry in entries {
            if !self.covers_entry(&node, &entry) {
                continue;
            }
            if entry.kind != EntryKind::Directory {
                files.push(entry);
            } else if self.asks_to_enter(&*node.handle) {
                let parent = Arc::clone(&node);
                self.found.push(WalkJob::Open {
                    parent,
                    name: entry.name,
                });
            }
        }
        // A visit of a remote file mostly waits, so each one is a job of its own, for as many threads as there are.
        let (stretch, own) = if self.walk.is_far { (1, 0) } else { (STRETCH, STRETCH) };
        while files.len() > own {
            let files = files.split_off(files.len() - stretch);
            let node = Arc::clone(&node);
            self.found.push(WalkJob::Visit { node, files });
        }
        self.visit_all(&node, &files);
    }

    fn visit_all(&mut self, node: &WalkNode, files: &[DirectoryEntry]) {
        for file in files {
            if self.is_cancelled() {
                return;
            }
            self.set_path(&node.path, &file.name);
            let spot = WalkEntry {
                path: &self.path,
                start: self.start,
                kind: file.kind,
            };
            self.visitor.visit_entry(spot, &*node.handle);
        }
    }

    /// Returns whether the entry is part of the walk; leaves its path in the buffer.
    fn covers_entry(&mut self, node: &WalkNode, entry: &DirectoryEntry) -> bool {
        let coverage = self.walk.coverage;
        if !coverage.include_git && entry.name == b".git" {
            return false;
        }
        self.set_path(&node.path, &entry.name);
        let is_directory = entry.kind == EntryKind::Directory;
        let verdict = match &node.rules {
            Some(rules) => rules.judge_path(&self.path, is_directory),
            None => IgnoreVerdict::Unmentioned,
        };
        let is_hidden = !coverage.hidden && entry.name.first() == Some(&b'.');
        match verdict {
            IgnoreVerdict::Ignored => false,
            IgnoreVerdict::Unmentioned if is_hidden => false,
            _ => self.is_visible(is_directory),
        }
    }

    fn is_visible(&self, is_directory: bool) -> bool {
        let entry = || EntryPath::from_bytes(self.path.clone());
        // Without rules on paths nothing is hidden, and the path need not be copied.
        !self.has_path_rules || self.walk.files.view.is_entry_visible(&entry(), is_directory)
    }

    fn set_path(&mut self, directory: &[u8], name: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(directory);
        if !directory.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
    }

    /// Asks the visitor whether to go into the directory whose path is in the buffer.
    fn asks_to_enter(&mut self, directory: &dyn DirectoryHandle) -> bool {
        let spot = WalkEntry {
            path: &self.path,
            start: self.start,
            kind: EntryKind::Directory,
        };
        self.visitor.enter_directory(spot, directory)
    }
}

/// Wakes the other threads when one ends, so that none waits for jobs that nobody will add.
struct WakeOthers<'a>(&'a SharedJobStack);

impl Drop for WakeOthers<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // The thread was at work and cannot take itself off the count; the others would wait for it forever.
            let mut stack = self.0.stack.lock().expect("a visitor panicked, not a holder");
            stack.busy -= 1;
            stack.jobs.clear();
        }
        self.0.changed.notify_all();
    }
}

/// Returns whether the error means that a file or directory vanished or changed its kind during the walk. It is then
/// left out, as if the walk had come later.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
