//! Scans all files: the first step of a snapshot, and of a difference to the present state.
//!
//! A storage with handles is scanned on a few threads, with one stat for each entry; a file with its recorded version
//! is not read. Content is stored in the depot as it is read, so that memory holds names and addresses, not files.

use std::sync::{Arc, Condvar, Mutex};

use futures::channel::oneshot;
use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{
    DirectoryHandle, Entry, EntryKind, EntryPath, Error, ErrorKind, Exclusions, Follow, ListAllOptions, Result, Stat,
    StatOptions, Storage, WsPath, list_all,
};
use garret_depot::outside_files::{CapturedEntry, FoundEntry, KnownEntry, RecordContent};

use crate::compare::StorageComparer;
use crate::observed_files::{ObservedFiles, means_absent};
use crate::raw_names::{DirectoryHandles, split_raw_path};

const THREADS: usize = 4;
/// Bytes of content that are kept in memory before they are stored in the depot.
const GATHERED_BYTES: usize = 8 * 1024 * 1024;

type ScannedEntries = Vec<(Vec<u8>, Stat)>;

impl StorageComparer<'_> {
    /// Compares `within` and everything below it with the journal, and records the differences as one change.
    pub(crate) async fn scan_and_record(&mut self, within: &WsPath) -> Result<()> {
        self.synchronize_journal().await?;
        // The scan runs on other threads, so the recorded entries are fetched at the same time.
        let place = EntryPath::from(within.clone());
        let (walked, known) = futures::join!(scan_entries(self.files, &place), async {
            self.records.entries_below(within.as_str().as_bytes())
        });
        let (walked, known) = (walked?, known?);
        let mut findings = ScanFindings::new(self.files);
        let exclusions = self.files.journaled.exclusions.clone();
        // Entries that were recorded before they were kept out of history stay recorded as they are.
        let known = known
            .into_iter()
            .filter(|(path, one)| !exclusions.covers_bytes(path, is_directory(one)));
        let mut known = known.peekable();
        let mut differing = Vec::new();
        for (path, stat) in walked {
            while let Some((gone, _)) = known.next_if(|(known, _)| *known < path) {
                findings.add_difference(&gone, None);
            }
            let known = known.next_if(|(known, _)| *known == path).map(|(_, known)| known);
            if !known.as_ref().is_some_and(|known| is_plainly_same(known, &stat)) {
                differing.push(DifferingEntry { path, stat, known });
            }
        }
        known.for_each(|(gone, _)| findings.add_difference(&gone, None));
        findings.capture_differences(differing).await?;
        findings.store_gathered().await?;
        self.records
            .record_versions(std::mem::take(&mut findings.renewed))
            .await?;
        let is_whole = within.is_root();
        if findings.found.is_empty() && (!is_whole || self.files.room.has_recorded_all()?) {
            return Ok(());
        }
        self.record_differences(findings.found, is_whole).await?;
        self.synchronize_journal().await
    }
}

/// Returns everything at `within` and below it, with the stat of each entry.
pub(crate) async fn scan_entries(files: ObservedFiles<'_>, within: &EntryPath) -> Result<ScannedEntries> {
    let storage = files.journaled.files.clone();
    if storage.open_directory(&WsPath::root())?.is_some() {
        let within = within.clone();
        let exclusions = files.journaled.exclusions.clone();
        return scan_on_thread(move || scan_by_handle(&*storage, &within, &exclusions)).await;
    }
    match within.as_path() {
        Some(within) => scan_by_list(files, within).await,
        None => Ok(ScannedEntries::new()),
    }
}

async fn scan_by_list(files: ObservedFiles<'_>, within: &WsPath) -> Result<ScannedEntries> {
    let mut walked = ScannedEntries::new();
    if !within.is_root()
        && let Some(stat) = files.stat(within).await?
    {
        walked.push((within.as_str().as_bytes().to_vec(), stat));
    }
    let options = ListAllOptions {
        is_deep: true,
        follow: Follow::Never,
        limit: None,
    };
    let listed = match list_all(&*files.journaled.files, within, &options).await {
        Err(error) if means_absent(error.kind()) => return Ok(walked),
        listed => listed?.entries,
    };
    let exclusions = &files.journaled.exclusions;
    let is_kept = |entry: &Entry| !exclusions.covers_path(&entry.path, entry.kind == EntryKind::Directory);
    let looks = listed
        .into_iter()
        .filter(is_kept)
        .map(|entry| stat_listed_entry(files, entry));
    let mut looks = stream::iter(looks).buffered(files.journaled.request_concurrency());
    while let Some(found) = looks.try_next().await? {
        walked.extend(found);
    }
    Ok(walked)
}

/// Returns the stat of a listed entry. On a remote storage it comes from the list if that includes a version to
/// compare.
async fn stat_listed_entry(files: ObservedFiles<'_>, entry: Entry) -> Result<Option<(Vec<u8>, Stat)>> {
    let Some(path) = entry.path.as_path() else {
        return Ok(None);
    };
    let is_told = match entry.kind {
        EntryKind::File => entry.version.is_some(),
        EntryKind::Directory => true,
        EntryKind::Symlink | EntryKind::Other => false,
    };
    let stat = if is_told && files.journaled.reach.is_remote {
        Some(Stat {
            kind: entry.kind,
            size: entry.size,
            mode: None,
            created: None,
            modified: entry.modified,
            changed: None,
            version: entry.version.clone(),
            target: None,
            hard_linked: entry.hard_linked,
        })
    } else {
        files.stat(path).await?
    };
    Ok(stat.map(|stat| (path.as_str().as_bytes().to_vec(), stat)))
}

/// An entry whose stat differs from the recorded entry.
struct DifferingEntry {
    path: Vec<u8>,
    stat: Stat,
    known: Option<KnownEntry>,
}

/// The result of a closer comparison.
enum ComparisonOutcome {
    /// The entry is unchanged; its present version, if that has another text.
    Same(Option<String>),
    Differs(Option<CapturedEntry>),
}

/// The findings of a scan.
struct ScanFindings<'j> {
    files: ObservedFiles<'j>,
    found: Vec<FoundEntry>,
    /// Number of `found` entries whose content is in the depot.
    stored: usize,
    /// Bytes of content of the others.
    bytes: usize,
    renewed: Vec<(Vec<u8>, String)>,
}

impl<'j> ScanFindings<'j> {
    fn new(files: ObservedFiles<'j>) -> Self {
        Self {
            files,
            found: Vec::new(),
            stored: 0,
            bytes: 0,
            renewed: Vec::new(),
        }
    }

    /// Captures the differing entries, several at once on a remote storage.
    async fn capture_differences(&mut self, differing: Vec<DifferingEntry>) -> Result<()> {
        let files = self.files;
        let looks = differing.into_iter().map(|one| compare_closely(files, one));
        let mut looks = stream::iter(looks).buffered(files.journaled.request_concurrency());
        while let Some((path, looked)) = looks.try_next().await? {
            match looked {
                ComparisonOutcome::Same(Some(version)) => self.renewed.push((path, version)),
                ComparisonOutcome::Same(None) => {}
                ComparisonOutcome::Differs(thing) => self.add_difference(&path, thing),
            }
            if self.bytes > GATHERED_BYTES {
                self.store_gathered().await?;
            }
        }
        Ok(())
    }

    /// Stores the content gathered so far in the depot.
    async fn store_gathered(&mut self) -> Result<()> {
        let (mut contents, mut places) = (Vec::new(), Vec::new());
        for entry in &mut self.found[self.stored..] {
            let Some(place) = entry.thing.as_mut().and_then(|thing| thing.content.as_mut()) else {
                continue;
            };
            if let RecordContent::Inline(bytes) = place {
                contents.push(bytes.clone().into());
                places.push(place);
            }
        }
        for (place, stored) in places.into_iter().zip(self.files.room.store_contents(contents).await?) {
            *place = stored;
        }
        self.stored = self.found.len();
        self.bytes = 0;
        Ok(())
    }

    fn add_difference(&mut self, path: &[u8], thing: Option<CapturedEntry>) {
        if let Some(RecordContent::Inline(bytes)) = thing.as_ref().and_then(|thing| thing.content.as_ref()) {
            self.bytes += bytes.len();
        }
        let path = path.to_vec();
        self.found.push(FoundEntry { path, thing });
    }
}

async fn compare_closely(files: ObservedFiles<'_>, differing: DifferingEntry) -> Result<(Vec<u8>, ComparisonOutcome)> {
    let DifferingEntry { path, stat, known } = differing;
    let entry_path = EntryPath::from_bytes(path.clone());
    let thing = match entry_path.as_path() {
        Some(valid) => {
            if let Some(token) = known.as_ref().and_then(|known| version_to_confirm(known, &stat))
                && !files.journaled.reach.is_remote
                && files.has_version(valid, &token).await?
            {
                let version = stat.version.map(|version| version.as_str().to_owned());
                return Ok((path, ComparisonOutcome::Same(version)));
            }
            // Only a directory's stat that comes from a list lacks something: reading a file returns its mode.
            let stat = if files.journaled.reach.is_remote && stat.kind == EntryKind::Directory {
                files.stat(valid).await?
            } else {
                Some(stat.clone())
            };
            files.capture_entry(valid, stat).await?
        }
        None => files.capture_raw(&entry_path, &stat).await?,
    };
    if thing.is_none() && known.is_none() {
        return Ok((path, ComparisonOutcome::Same(None)));
    }
    let is_new_directory = known.is_none() && stat.kind == EntryKind::Directory;
    if let Some(directory) = entry_path.as_path().filter(|_| is_new_directory)
        && files.is_only_excluded(directory).await?
    {
        return Ok((path, ComparisonOutcome::Same(None)));
    }
    Ok((path, ComparisonOutcome::Differs(thing)))
}

fn is_directory(known: &KnownEntry) -> bool {
    known.kind == EntryKind::Directory
}

/// Returns whether the stat alone shows that nothing changed.
pub(crate) fn is_plainly_same(known: &KnownEntry, stat: &Stat) -> bool {
    let is_same = known.kind == stat.kind && stat.mode.is_none_or(|mode| mode == known.mode);
    is_same
        && match stat.kind {
            EntryKind::File => {
                known.token.is_some() && known.token.as_deref() == stat.version.as_ref().map(|v| v.as_str())
            }
            EntryKind::Symlink => known.target == stat.target,
            _ => true,
        }
}

/// Returns the recorded version to ask the storage about, if nothing but the text of the version differs.
fn version_to_confirm(known: &KnownEntry, stat: &Stat) -> Option<String> {
    let is_like = known.kind == EntryKind::File
        && stat.kind == EntryKind::File
        && known.size == stat.size
        && stat.mode.is_none_or(|mode| mode == known.mode);
    known.token.clone().filter(|_| is_like)
}

/// A directory that is still to be scanned.
struct PendingDirectory {
    path: Vec<u8>,
    above: Arc<dyn DirectoryHandle>,
    name: Vec<u8>,
}

#[derive(Default)]
struct ScanQueue {
    ahead: Vec<PendingDirectory>,
    at_work: usize,
    failed: Option<Error>,
}

fn scan_by_handle(files: &dyn Storage, within: &EntryPath, exclusions: &Exclusions) -> Result<ScannedEntries> {
    let mut walked = stat_scan_root(files, within)?;
    if walked.iter().any(|(_, stat)| stat.kind != EntryKind::Directory) {
        return Ok(walked);
    }
    let root = match open_scan_root(files, within) {
        Ok(Some(root)) => root,
        Ok(None) => return Ok(walked),
        // It is not a directory, so there are no entries below it.
        Err(error) if means_absent(error.kind()) => return Ok(walked),
        Err(error) => return Err(error),
    };
    let root: Arc<dyn DirectoryHandle> = Arc::from(root);
    let queue = (Mutex::new(ScanQueue::default()), Condvar::new());
    let first = scan_directory(&root, within.as_bytes(), exclusions, &queue)?;
    walked.extend(first);
    let parts: Vec<Result<ScannedEntries>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| scan_pending(&queue, exclusions)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a thread that scans the files failed")))
            })
            .collect()
    });
    for part in parts {
        walked.extend(part?);
    }
    walked.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    match queue.0.into_inner().expect("no holder panics").failed {
        Some(error) => Err(error),
        None => Ok(walked),
    }
}

/// Opens the directory at `within`; `None` if the storage has no handles.
fn open_scan_root(files: &dyn Storage, within: &EntryPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
    if let Some(path) = within.as_path() {
        return files.open_directory(path);
    }
    let (above, name) = split_raw_path(within.as_bytes());
    DirectoryHandles::new(files)
        .open_directory(above)?
        .open_directory(name)
        .map(Some)
}

/// Returns the stat of the start of the scan itself; nothing for the root.
fn stat_scan_root(files: &dyn Storage, place: &EntryPath) -> Result<ScannedEntries> {
    let stat = match place.as_path() {
        Some(path) if path.is_root() => None,
        Some(path) => {
            let options = StatOptions {
                follow: Follow::Never,
                with_version: true,
            };
            match futures::executor::block_on(files.stat(path, options)) {
                Err(error) if means_absent(error.kind()) => None,
                stat => Some(stat?),
            }
        }
        None => DirectoryHandles::new(files).stat(place.as_bytes())?,
    };
    Ok(stat.map(|stat| (place.as_bytes().to_vec(), stat)).into_iter().collect())
}

fn scan_pending(queue: &(Mutex<ScanQueue>, Condvar), exclusions: &Exclusions) -> Result<ScannedEntries> {
    let mut walked = Vec::new();
    while let Some(next) = take_pending(queue) {
        let visited = match next.above.open_directory(&next.name) {
            Ok(opened) => {
                let opened: Arc<dyn DirectoryHandle> = Arc::from(opened);
                scan_directory(&opened, &next.path, exclusions, queue)
            }
            // It is gone, or access is denied: its entries stay unknown.
            Err(error) if means_absent(error.kind()) || error.kind() == ErrorKind::Denied => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let mut state = queue.0.lock().expect("no holder panics");
        state.at_work -= 1;
        match visited {
            Ok(entries) => walked.extend(entries),
            Err(error) => {
                state.ahead.clear();
                state.failed = Some(error);
            }
        }
        // Threads that add work wake the others; this wake-up only says that there will be no more work.
        if state.at_work == 0 && state.ahead.is_empty() {
            queue.1.notify_all();
        }
    }
    Ok(walked)
}

fn take_pending(queue: &(Mutex<ScanQueue>, Condvar)) -> Option<PendingDirectory> {
    let mut state = queue.0.lock().expect("no holder panics");
    loop {
        if let Some(next) = state.ahead.pop() {
            state.at_work += 1;
            return Some(next);
        }
        if state.at_work == 0 {
            return None;
        }
        state = queue.1.wait(state).expect("no holder panics");
    }
}

/// Returns the stats of the entries of a directory, and adds its directories to the queue.
fn scan_directory(
    directory: &Arc<dyn DirectoryHandle>,
    path: &[u8],
    exclusions: &Exclusions,
    queue: &(Mutex<ScanQueue>, Condvar),
) -> Result<ScannedEntries> {
    let mut walked = Vec::new();
    let mut ahead = Vec::new();
    for entry in directory
        .list_entries()?
        .into_iter()
        // Sockets, fifos and devices are not part of a workspace.
        .filter(|entry| entry.kind != EntryKind::Other)
    {
        let below = match path {
            b"" => entry.name.clone(),
            path => [path, b"/", &entry.name].concat(),
        };
        if exclusions.covers_bytes(&below, entry.kind == EntryKind::Directory) {
            continue;
        }
        let stat = match directory.stat_entry(&entry.name) {
            Ok(stat) if stat.kind == EntryKind::Other => continue,
            Ok(stat) => stat,
            Err(error) if means_absent(error.kind()) || error.kind() == ErrorKind::Denied => continue,
            Err(error) => return Err(error),
        };
        if stat.kind == EntryKind::Directory {
            ahead.push(PendingDirectory {
                path: below.clone(),
                // A handle, not a path: others may exchange directories during the scan.
                above: directory.clone(),
                name: entry.name,
            });
        }
        walked.push((below, stat));
    }
    if !ahead.is_empty() {
        queue.0.lock().expect("no holder panics").ahead.extend(ahead);
        queue.1.notify_all();
    }
    Ok(walked)
}

/// Runs `work` on a separate thread, so that the caller's thread can run other futures.
async fn scan_on_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (sender, done) = oneshot::channel();
    let failed = || Error::new(ErrorKind::Unavailable, "no thread can be started");
    let started = std::thread::Builder::new()
        .name("garret-journal-walk".into())
        .spawn(move || sender.send(work()).map_err(|_| ()));
    started.map_err(|_| failed())?;
    done.await.map_err(|_| failed())?
}
