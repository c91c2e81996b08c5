//! A look at everything: what a snapshot, and a difference to now, begin with.
//!
//! Storages with handles are walked on a few threads, one stat for each entry; whatever has the version that the journal knows is not
//! read. Content is put into the depot as it is met, so that memory holds names and addresses, not files.

use std::sync::{Arc, Condvar, Mutex};

use futures::channel::oneshot;
use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{
    Directory, Entry, EntryKind, EntryPath, Error, ErrorKind, Exclusions, Follow, ListAll, Result, Stat, StatOptions,
    Storage, WsPath, list_all,
};

use super::look::is_nothing;
use super::raw::{Way, split};
use super::record::{FoundEntry, Held, Known, Thing};
use super::turn::Turn;
use crate::metadata::Session;

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
        let mut differing = Vec::new();
        for (path, stat) in walked {
            while let Some((gone, _)) = known.next_if(|(known, _)| *known < path) {
                gathering.add(&gone, None);
            }
            let known = known.next_if(|(known, _)| *known == path).map(|(_, known)| known);
            if !known.as_ref().is_some_and(|known| is_plainly_same(known, &stat)) {
                differing.push(Differing { path, stat, known });
            }
        }
        known.for_each(|(gone, _)| gathering.add(&gone, None));
        self.gather(differing, &mut gathering).await?;
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

    /// Captures what differs, several files at once where each is a request.
    async fn gather(&self, differing: Vec<Differing>, gathering: &mut Gathering) -> Result<()> {
        let looks = differing.into_iter().map(|one| self.look_closely(one));
        let mut looks = stream::iter(looks).buffered(self.journaled.at_once());
        while let Some((path, looked)) = looks.try_next().await? {
            match looked {
                Looked::Same(Some(version)) => gathering.renewed.push((path, version)),
                Looked::Same(None) => {}
                Looked::Differs(thing) => gathering.add(&path, thing),
            }
            if gathering.bytes > GATHERED_BYTES {
                self.store(gathering).await?;
            }
        }
        Ok(())
    }

    async fn look_closely(&self, differing: Differing) -> Result<(Vec<u8>, Looked)> {
        let Differing { path, stat, known } = differing;
        let entry_path = EntryPath::from_bytes(path.clone());
        let thing = match entry_path.as_path() {
            Some(valid) => {
                if let Some(token) = known.as_ref().and_then(|known| unsure(known, &stat))
                    && !self.journaled.reach.is_far
                    && self.holds(valid, &token).await?
                {
                    let version = stat.version.map(|version| version.as_str().to_owned());
                    return Ok((path, Looked::Same(version)));
                }
                let stat = self.whole_stat(valid, stat.clone()).await?;
                self.capture(valid, stat).await?
            }
            None => self.capture_raw(&entry_path, &stat).await?,
        };
        if thing.is_none() && known.is_none() {
            return Ok((path, Looked::Same(None)));
        }
        let is_new_directory = known.is_none() && stat.kind == EntryKind::Directory;
        if let Some(directory) = entry_path.as_path().filter(|_| is_new_directory)
            && self.is_only_excluded(directory).await?
        {
            return Ok((path, Looked::Same(None)));
        }
        Ok((path, Looked::Differs(thing)))
    }

    /// What a list did not tell: of a file, reading it will.
    async fn whole_stat(&self, path: &WsPath, stat: Stat) -> Result<Option<Stat>> {
        match self.journaled.reach.is_far && stat.kind == EntryKind::Directory {
            true => self.stat(path).await,
            false => Ok(Some(stat)),
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
        if !within.is_root()
            && let Some(stat) = self.stat(within).await?
        {
            walked.push((within.as_str().as_bytes().to_vec(), stat));
        }
        let options = ListAll {
            is_deep: true,
            follow: Follow::Never,
            limit: None,
        };
        let listed = match list_all(&**files, within, &options).await {
            Err(error) if is_nothing(error.kind()) => return Ok(walked),
            listed => listed?.entries,
        };
        let exclusions = &self.journaled.exclusions;
        let is_kept = |entry: &Entry| !exclusions.covers(&entry.path, entry.kind == EntryKind::Directory);
        let looks = listed.into_iter().filter(is_kept).map(|entry| self.described(entry));
        let mut looks = stream::iter(looks).buffered(self.journaled.at_once());
        while let Some(found) = looks.try_next().await? {
            walked.extend(found);
        }
        Ok(walked)
    }

    /// What is at a listed path: from the list where that tells a version, so that it can be told whether it is what is known.
    async fn described(&self, entry: Entry) -> Result<Option<(Vec<u8>, Stat)>> {
        let Some(path) = entry.path.as_path() else {
            return Ok(None);
        };
        let is_told = match entry.kind {
            EntryKind::File => entry.version.is_some(),
            EntryKind::Directory => true,
            EntryKind::Symlink | EntryKind::Other => false,
        };
        let stat = match is_told && self.journaled.reach.is_far {
            true => Some(Stat {
                kind: entry.kind,
                size: entry.size,
                mode: None,
                created: None,
                modified: entry.modified,
                changed: None,
                version: entry.version.clone(),
                target: None,
                hard_linked: entry.hard_linked,
            }),
            false => self.stat(path).await?,
        };
        Ok(stat.map(|stat| (path.as_str().as_bytes().to_vec(), stat)))
    }
}

/// An entry that is not plainly what is known.
struct Differing {
    path: Vec<u8>,
    stat: Stat,
    known: Option<Known>,
}

/// What a closer look tells.
enum Looked {
    /// It is what is known; its version now, where it has another.
    Same(Option<String>),
    Differs(Option<Thing>),
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
