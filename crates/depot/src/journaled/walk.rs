//! A look at everything: what a snapshot, and a difference to now, begin with.
//!
//! Storages with handles are walked on a few threads, one stat for each entry; whatever has the version that the journal knows is not
//! read. Content is put into the depot as it is met, so that memory holds names and addresses, not files.

use std::sync::{Arc, Condvar, Mutex};

use futures::channel::oneshot;
use garret_core::{
    Directory, EntryKind, EntryPath, Error, ErrorKind, Exclusions, Follow, ListOptions, Result, Stat, StatOptions,
    Storage, WsPath,
};

use super::look::is_nothing;
use super::raw::{Way, split};
use super::record::{FoundEntry, Held, Known, Thing};
use super::turn::Turn;
use crate::metadata::Session;

const PAGE: usize = 1_000;
const THREADS: usize = 4;
/// Content kept in memory before it is put into the depot.
const GATHERED_BYTES: usize = 8 * 1024 * 1024;

type Visited = Vec<(Vec<u8>, Stat)>;
/// In the order of paths.
pub(super) type Walked = Visited;

impl Turn<'_> {
    /// Looks at `within` and everything below it, and records what differs as one change.
    pub(super) async fn look_everywhere(&mut self, within: &WsPath) -> Result<()> {
        self.drain().await?;
        // The walk runs on threads of its own, so what is known is fetched meanwhile.
        let place = EntryPath::from(within.clone());
        let (walked, known) = futures::join!(self.walked(&place), async {
            self.state.knowledge.below(self.room, within.as_str().as_bytes())
        });
        let (walked, known) = (walked?, known?);
        let mut gathering = Gathering::default();
        let exclusions = self.journaled.exclusions.clone();
        // What was recorded before it was kept out of history stays as it is there.
        let known = known
            .into_iter()
            .filter(|(path, one)| !exclusions.covers_bytes(path, is_directory(one)));
        let mut known = known.peekable();
        for (path, stat) in &walked {
            while let Some((gone, _)) = known.next_if(|(known, _)| known < path) {
                gathering.add(&gone, None);
            }
            let known = known.next_if(|(known, _)| known == path).map(|(_, known)| known);
            if known.as_ref().is_some_and(|known| is_plainly_same(known, stat)) {
                continue;
            }
            self.look_closely(path, stat, known, &mut gathering).await?;
        }
        known.for_each(|(gone, _)| gathering.add(&gone, None));
        self.store(&mut gathering).await?;
        self.note_tokens(std::mem::take(&mut gathering.renewed)).await?;
        let is_whole = within.is_root();
        if gathering.found.is_empty() && (!is_whole || self.is_whole()?) {
            return Ok(());
        }
        self.record(gathering.found, is_whole).await?;
        self.drain().await
    }

    fn is_whole(&self) -> Result<bool> {
        let read = |session: Session<'_>| session.journal(self.room.number);
        Ok(self
            .room
            .shared()
            .database
            .read(read)?
            .is_some_and(|row| row.whole.is_some()))
    }

    async fn look_closely(
        &mut self,
        path: &[u8],
        stat: &Stat,
        known: Option<Known>,
        gathering: &mut Gathering,
    ) -> Result<()> {
        let entry_path = EntryPath::from_bytes(path.to_vec());
        let thing = match entry_path.as_path() {
            Some(valid) => {
                if let Some(token) = known.as_ref().and_then(|known| unsure(known, stat))
                    && self.holds(valid, &token).await?
                {
                    gathering.renew(path, stat);
                    return Ok(());
                }
                self.capture(valid, Some(stat.clone())).await?
            }
            None => self.capture_raw(&entry_path, stat).await?,
        };
        if thing.is_none() && known.is_none() {
            return Ok(());
        }
        let is_new_directory = known.is_none() && stat.kind == EntryKind::Directory;
        if let Some(directory) = entry_path.as_path().filter(|_| is_new_directory)
            && self.is_only_excluded(directory).await?
        {
            return Ok(());
        }
        gathering.add(path, thing);
        match gathering.bytes > GATHERED_BYTES {
            true => self.store(gathering).await,
            false => Ok(()),
        }
    }

    /// Puts the content gathered so far into the depot.
    async fn store(&self, gathering: &mut Gathering) -> Result<()> {
        let shared = self.room.shared().clone();
        let durability = self.journaled.durability;
        let mut prepared = Vec::new();
        for entry in &mut gathering.found[gathering.stored..] {
            let Some(content) = entry.thing.as_mut().and_then(|thing| thing.content.as_mut()) else {
                continue;
            };
            if let Held::Inline(bytes) = content {
                let one = shared
                    .content
                    .prepare(&shared.database, &bytes.clone().into(), durability)
                    .await?;
                *content = Held::Stored {
                    address: one.address,
                    size: one.size,
                };
                prepared.push(one);
            }
        }
        gathering.stored = gathering.found.len();
        gathering.bytes = 0;
        if prepared.is_empty() {
            return Ok(());
        }
        let writer = shared.clone();
        let record =
            move |session: Session<'_>| prepared.iter().try_for_each(|one| shared.content.record(session, one));
        writer.writer.write(durability, record).await
    }

    /// Remembers newer versions of content that has not changed.
    async fn note_tokens(&mut self, renewed: Vec<(Vec<u8>, String)>) -> Result<()> {
        if renewed.is_empty() {
            return Ok(());
        }
        for (path, token) in &renewed {
            if let Some(known) = self.known(path)? {
                let token = Some(token.clone());
                self.state.knowledge.set(path, Some(Known { token, ..known }));
            }
        }
        let number = self.room.number;
        let note = move |session: Session<'_>| {
            renewed
                .iter()
                .try_for_each(|(path, token)| session.set_seen(number, path, Some(token)))
        };
        self.room.shared().writer.write(self.journaled.durability, note).await
    }

    /// Everything at `within` and below it, with what its stat tells.
    pub(super) async fn walked(&self, within: &EntryPath) -> Result<Walked> {
        let files = self.journaled.files.clone();
        if files.open_directory(&WsPath::root())?.is_some() {
            let within = within.clone();
            let exclusions = self.journaled.exclusions.clone();
            return elsewhere(move || walk_by_handle(&*files, &within, &exclusions)).await;
        }
        match within.as_path() {
            Some(within) => self.walked_by_list(within).await,
            None => Ok(Walked::new()),
        }
    }

    async fn walked_by_list(&self, within: &WsPath) -> Result<Walked> {
        let files = &self.journaled.files;
        let mut walked = Walked::new();
        if let Some(stat) = self.stat(within).await?.filter(|_| !within.is_root()) {
            walked.push((within.as_str().as_bytes().to_vec(), stat));
        }
        let mut after = None;
        loop {
            let options = ListOptions {
                is_deep: true,
                after,
                limit: PAGE,
                follow: Follow::Never,
            };
            let page = match files.list(within, options).await {
                Err(error) if is_nothing(error.kind()) => return Ok(walked),
                page => page?,
            };
            let is_kept = |entry: &&garret_core::Entry| {
                let exclusions = &self.journaled.exclusions;
                !exclusions.covers(&entry.path, entry.kind == EntryKind::Directory)
            };
            for path in page
                .entries
                .iter()
                .filter(is_kept)
                .filter_map(|entry| entry.path.as_path())
            {
                if let Some(stat) = self.stat(path).await? {
                    walked.push((path.as_str().as_bytes().to_vec(), stat));
                }
            }
            match page.entries.last() {
                Some(last) if page.has_more => after = Some(last.path.clone()),
                _ => return Ok(walked),
            }
        }
    }
}

/// What a look has gathered.
#[derive(Debug, Default)]
struct Gathering {
    found: Vec<FoundEntry>,
    /// How many of them have their content in the depot.
    stored: usize,
    /// Content of the others.
    bytes: usize,
    renewed: Vec<(Vec<u8>, String)>,
}

impl Gathering {
    fn add(&mut self, path: &[u8], thing: Option<Thing>) {
        if let Some(Held::Inline(bytes)) = thing.as_ref().and_then(|thing| thing.content.as_ref()) {
            self.bytes += bytes.len();
        }
        let path = path.to_vec();
        self.found.push(FoundEntry { path, thing });
    }

    fn renew(&mut self, path: &[u8], stat: &Stat) {
        if let Some(version) = &stat.version {
            self.renewed.push((path.to_vec(), version.as_str().to_owned()));
        }
    }
}

fn is_directory(known: &Known) -> bool {
    known.kind == EntryKind::Directory
}

/// Whether the stat alone shows that nothing changed.
pub(super) fn is_plainly_same(known: &Known, stat: &Stat) -> bool {
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

/// The version to ask the storage about, where it differs in nothing but its text.
fn unsure(known: &Known, stat: &Stat) -> Option<String> {
    let is_like = known.kind == EntryKind::File
        && stat.kind == EntryKind::File
        && known.size == stat.size
        && stat.mode.is_none_or(|mode| mode == known.mode);
    known.token.clone().filter(|_| is_like)
}

/// A directory still to be walked.
struct Ahead {
    path: Vec<u8>,
    above: Arc<dyn Directory>,
    name: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    ahead: Vec<Ahead>,
    at_work: usize,
    failed: Option<Error>,
}

fn walk_by_handle(files: &dyn Storage, within: &EntryPath, exclusions: &Exclusions) -> Result<Walked> {
    let mut walked = walk_one(files, within)?;
    if walked.iter().any(|(_, stat)| stat.kind != EntryKind::Directory) {
        return Ok(walked);
    }
    let root = match opened(files, within) {
        Ok(Some(root)) => root,
        Ok(None) => return Ok(walked),
        // It is no directory: what it is, is all there is.
        Err(error) if is_nothing(error.kind()) => return Ok(walked),
        Err(error) => return Err(error),
    };
    let root: Arc<dyn Directory> = Arc::from(root);
    let queue = (Mutex::new(Queue::default()), Condvar::new());
    let first = visit(&root, within.as_bytes(), exclusions, &queue)?;
    walked.extend(first);
    let parts: Vec<Result<Visited>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| walk_queue(&queue, exclusions)))
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a walk failed")))
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

/// Opens the directory at `within`; `None` where the storage has no handles.
fn opened(files: &dyn Storage, within: &EntryPath) -> Result<Option<Box<dyn Directory>>> {
    if let Some(path) = within.as_path() {
        return files.open_directory(path);
    }
    let (above, name) = split(within.as_bytes());
    Way::new(files).directory(above)?.open_directory(name).map(Some)
}

/// What is at the place itself; of the root nothing is told.
fn walk_one(files: &dyn Storage, place: &EntryPath) -> Result<Walked> {
    let stat = match place.as_path() {
        Some(path) if path.is_root() => None,
        Some(path) => {
            let options = StatOptions {
                follow: Follow::Never,
                with_version: true,
            };
            match futures::executor::block_on(files.stat(path, options)) {
                Err(error) if is_nothing(error.kind()) => None,
                stat => Some(stat?),
            }
        }
        None => Way::new(files).stat(place.as_bytes())?,
    };
    Ok(stat.map(|stat| (place.as_bytes().to_vec(), stat)).into_iter().collect())
}

fn walk_queue(queue: &(Mutex<Queue>, Condvar), exclusions: &Exclusions) -> Result<Visited> {
    let mut walked = Vec::new();
    while let Some(next) = take(queue) {
        let visited = match next.above.open_directory(&next.name) {
            Ok(opened) => {
                let opened: Arc<dyn Directory> = Arc::from(opened);
                visit(&opened, &next.path, exclusions, queue)
            }
            // Gone meanwhile, or not to be entered: its content stays unknown.
            Err(error) if is_nothing(error.kind()) || error.kind() == ErrorKind::Denied => Ok(Vec::new()),
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
        // Whoever adds work wakes the others; here it is only told that there will be no more.
        if state.at_work == 0 && state.ahead.is_empty() {
            queue.1.notify_all();
        }
    }
    Ok(walked)
}

fn take(queue: &(Mutex<Queue>, Condvar)) -> Option<Ahead> {
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

/// Describes the entries of a directory and puts those that are directories into the queue.
fn visit(
    directory: &Arc<dyn Directory>,
    path: &[u8],
    exclusions: &Exclusions,
    queue: &(Mutex<Queue>, Condvar),
) -> Result<Visited> {
    let mut walked = Vec::new();
    let mut ahead = Vec::new();
    for entry in directory
        .entries()?
        .into_iter()
        .filter(|entry| entry.kind != EntryKind::Other)
    {
        let below = match path {
            b"" => entry.name.clone(),
            path => [path, b"/", &entry.name].concat(),
        };
        if exclusions.covers_bytes(&below, entry.kind == EntryKind::Directory) {
            continue;
        }
        let stat = match directory.stat(&entry.name) {
            Ok(stat) if stat.kind == EntryKind::Other => continue,
            Ok(stat) => stat,
            Err(error) if is_nothing(error.kind()) || error.kind() == ErrorKind::Denied => continue,
            Err(error) => return Err(error),
        };
        if stat.kind == EntryKind::Directory {
            ahead.push(Ahead {
                path: below.clone(),
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

/// Works on a thread of its own, so that the caller's drives other futures.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (sender, done) = oneshot::channel();
    let failed = || Error::new(ErrorKind::Unavailable, "no thread can be started");
    let started = std::thread::Builder::new()
        .name("garret-journal-walk".into())
        .spawn(move || sender.send(work()).map_err(|_| ()));
    started.map_err(|_| failed())?;
    done.await.map_err(|_| failed())?
}
