//! The model of a disk that loses power.
//!
//! - What a file holds is durable as of its last `fsync` or `fdatasync`. A later write may be there, missing, or there in part, sector by
//!   sector, whatever became of the writes around it; the file may have grown without the bytes, which then read as zeros or as noise.
//! - A sync covers the calls that had returned before it began, and counts from its return.
//! - A name (created, linked, renamed, removed) is durable once its directory is synced; syncing the file alone is not enough. Until then
//!   each such operation is there or not, whatever became of its neighbours; of a directory that is lost, everything below is lost.
//! - A rename is one operation: never both names, never neither. Sectors are never torn within.
//!
//! This is harsher than any journaling file system in use: what survives here survives there. What it leaves out: writes acknowledged by
//! the drive itself and lost, and damage to what was durable.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use garret_testkit::fuzz::Random;

use crate::strace::{Call, Moment, Record};

const SECTOR: usize = 512;

/// The disk at one moment of a record.
#[derive(Debug)]
pub(crate) struct Disk<'r> {
    record: &'r Record,
    root: String,
    syncs: Syncs,
    nodes: Vec<Node>,
    open: HashMap<i64, Open>,
    begun: HashMap<usize, usize>,
    moment: usize,
}

/// Which syncs the disk heeds; one that does not is there to show that the checks would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syncs {
    Heeded,
    /// Those of files and directories whose path contains the text are passed over.
    IgnoredFor(&'static str),
}

#[derive(Debug)]
enum Node {
    File {
        durable: Vec<u8>,
        pending: Vec<Pending<FileStep>>,
    },
    Directory {
        durable: BTreeMap<String, usize>,
        live: BTreeMap<String, usize>,
        pending: Vec<Pending<Names>>,
    },
}

/// A step that is not durable yet; `returned` is the moment at which its call had.
#[derive(Debug)]
struct Pending<S> {
    step: S,
    returned: usize,
}

#[derive(Debug)]
enum FileStep {
    Write { at: usize, data: Vec<u8> },
    Truncate(usize),
}

/// Names that change together.
type Names = Vec<(String, Option<usize>)>;

#[derive(Debug, Clone, Copy)]
struct Open {
    node: usize,
    position: usize,
    is_appending: bool,
}

/// What becomes of everything that is not durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) data: Share,
    pub(crate) names: Share,
}

/// How much of it reaches the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Share {
    Nothing,
    Everything,
    /// This many of a hundred, drawn one by one.
    Percent(u64),
}

impl Share {
    fn takes(self, random: &mut Random) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Percent(percent) => random.below(100) < percent,
        }
    }

    fn sector(self, random: &mut Random) -> Sector {
        match self {
            _ if self.takes(random) => Sector::New,
            Self::Percent(_) if random.below(2) == 0 => Sector::Grown([0, 0xa5][random.below(2) as usize]),
            _ => Sector::Old,
        }
    }
}

impl<'r> Disk<'r> {
    /// The disk before the record, with the empty directory `root`.
    pub(crate) fn before(record: &'r Record, root: &str, syncs: Syncs) -> Self {
        Self {
            record,
            root: root.to_owned(),
            syncs,
            nodes: vec![directory()],
            open: HashMap::new(),
            begun: HashMap::new(),
            moment: 0,
        }
    }

    /// Lets the next moment of the record pass; gives what the process said then.
    pub(crate) fn advance(&mut self) -> Option<String> {
        let record = self.record;
        let moment = record.moments[self.moment];
        self.moment += 1;
        match moment {
            Moment::Begin(index) => {
                self.begun.insert(index, self.moment);
                self.begin(index, &record.calls[index])
            }
            Moment::End(index) => {
                let begun = self.begun.remove(&index).expect("what ends has begun");
                if record.calls[index].is_done() {
                    self.end(begun, &record.calls[index]);
                }
                None
            }
        }
    }

    /// Data may reach the disk as soon as its call has begun.
    fn begin(&mut self, index: usize, call: &Call) -> Option<String> {
        match call.name.as_str() {
            "write" | "writev" if call.number(0) == 1 => return String::from_utf8(call.data(1)).ok(),
            "write" | "writev" | "pwrite64" | "pwritev" => self.write(index, call),
            "ftruncate" if call.is_done() => {
                let length = call.number(1) as usize;
                self.on_file(call.number(0), index, FileStep::Truncate(length));
            }
            "close" => {
                self.open.remove(&call.number(0));
            }
            "mmap" => self.refuse_mapped(call),
            _ => {}
        }
        None
    }

    fn write(&mut self, index: usize, call: &Call) {
        let Some(open) = self.open.get(&call.number(0)).copied() else {
            return;
        };
        let mut data = call.data(1);
        match call.result {
            Some(written) if written < 0 => return,
            Some(written) => data.truncate(written as usize),
            None => {}
        }
        let at = match call.name.as_str() {
            "pwrite64" | "pwritev" => call.number(3) as usize,
            _ if open.is_appending => self.live(open.node).len(),
            _ => open.position,
        };
        if !call.name.starts_with('p') {
            self.open.get_mut(&call.number(0)).expect("it is open").position = at + data.len();
        }
        self.on_file(call.number(0), index, FileStep::Write { at, data });
    }

    fn on_file(&mut self, descriptor: i64, index: usize, step: FileStep) {
        let returned = self.end_of(index);
        if let Some(open) = self.open.get(&descriptor)
            && let Node::File { pending, .. } = &mut self.nodes[open.node]
        {
            pending.push(Pending { step, returned });
        }
    }

    /// The moment at which a call that begins now will have returned.
    fn end_of(&self, index: usize) -> usize {
        let later = &self.record.moments[self.moment..];
        let after = later.iter().position(|moment| *moment == Moment::End(index));
        after.map_or(usize::MAX, |after| self.moment + after + 1)
    }

    /// Only SQLite's shared index, which it makes anew, may be written through memory.
    fn refuse_mapped(&self, call: &Call) {
        let is_written = call.has_flag(2, "PROT_WRITE") && call.has_flag(3, "MAP_SHARED");
        let Some(open) = self.open.get(&call.number(4)).filter(|_| is_written) else {
            return;
        };
        let path = self.path_of(open.node);
        assert!(
            path.ends_with("-shm"),
            "{path} is written through memory, which the record does not show"
        );
    }

    fn end(&mut self, begun: usize, call: &Call) {
        let result = call.result.expect("it is done");
        match call.name.as_str() {
            "open" => self.opened(result, &self.placed("AT_FDCWD", call.path(0)), call, 1),
            "creat" => panic!("the replay does not know creat"),
            "openat" => self.opened(result, &self.placed(&call.arguments[0], call.path(1)), call, 2),
            "dup" | "dup2" | "dup3" => self.copied(call.number(0), result),
            "fcntl" if call.arguments[1].starts_with("F_DUPFD") => self.copied(call.number(0), result),
            "lseek" => {
                if let Some(open) = self.open.get_mut(&call.number(0)) {
                    open.position = result as usize;
                }
            }
            "fsync" | "fdatasync" => self.sync(call.number(0), begun),
            "truncate" => panic!("the replay does not know truncate"),
            "mkdir" => self.made(&self.placed("AT_FDCWD", call.path(0)), directory()),
            "mkdirat" => self.made(&self.placed(&call.arguments[0], call.path(1)), directory()),
            "rmdir" | "unlink" => self.removed(&self.placed("AT_FDCWD", call.path(0))),
            "unlinkat" => self.removed(&self.placed(&call.arguments[0], call.path(1))),
            "rename" => self.renamed(
                &self.placed("AT_FDCWD", call.path(0)),
                &self.placed("AT_FDCWD", call.path(1)),
            ),
            "renameat" | "renameat2" => self.renamed(
                &self.placed(&call.arguments[0], call.path(1)),
                &self.placed(&call.arguments[2], call.path(3)),
            ),
            "link" => self.linked(
                &self.placed("AT_FDCWD", call.path(0)),
                &self.placed("AT_FDCWD", call.path(1)),
            ),
            "linkat" => self.linked(
                &self.placed(&call.arguments[0], call.path(1)),
                &self.placed(&call.arguments[2], call.path(3)),
            ),
            "symlink" | "symlinkat" => panic!("the replay does not know {}", call.name),
            _ => {}
        }
    }

    /// The path below the root that a call means; `None` where it is elsewhere.
    fn placed(&self, beneath: &str, path: String) -> Option<String> {
        let whole = match beneath.parse::<i64>().ok().filter(|_| !path.starts_with('/')) {
            Some(descriptor) => format!("{}{}/{path}", self.root, self.path_of(self.open.get(&descriptor)?.node)),
            None => path,
        };
        let below = whole.strip_prefix(&self.root)?;
        (below.is_empty() || below.starts_with('/')).then(|| below.trim_matches('/').to_owned())
    }

    fn find(&self, path: &str) -> Option<usize> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(0, |node, name| match &self.nodes[node] {
                Node::Directory { live, .. } => live.get(name).copied(),
                Node::File { .. } => None,
            })
    }

    /// A path of the node, from the root.
    fn path_of(&self, wanted: usize) -> String {
        let mut todo = vec![(0, String::new())];
        while let Some((node, path)) = todo.pop() {
            if node == wanted {
                return path;
            }
            if let Node::Directory { live, .. } = &self.nodes[node] {
                todo.extend(live.iter().map(|(name, below)| (*below, format!("{path}/{name}"))));
            }
        }
        String::new()
    }

    fn opened(&mut self, descriptor: i64, path: &Option<String>, call: &Call, flags: usize) {
        let Some(path) = path else { return };
        let node = match self.find(path) {
            Some(node) => node,
            None => {
                self.made(
                    &Some(path.clone()),
                    Node::File {
                        durable: Vec::new(),
                        pending: Vec::new(),
                    },
                );
                self.find(path)
                    .unwrap_or_else(|| panic!("{path} is opened and was never made"))
            }
        };
        let returned = self.moment;
        if call.has_flag(flags, "O_TRUNC")
            && let Node::File { pending, .. } = &mut self.nodes[node]
        {
            pending.push(Pending {
                step: FileStep::Truncate(0),
                returned,
            });
        }
        let is_appending = call.has_flag(flags, "O_APPEND");
        self.open.insert(
            descriptor,
            Open {
                node,
                position: 0,
                is_appending,
            },
        );
    }

    /// A copied descriptor shares its position, which the replay does not follow; nothing here writes through one.
    fn copied(&mut self, from: i64, to: i64) {
        match self.open.get(&from).copied() {
            Some(open) => self.open.insert(to, open),
            None => self.open.remove(&to),
        };
    }

    fn made(&mut self, path: &Option<String>, node: Node) {
        let Some(path) = path else { return };
        let index = self.nodes.len();
        self.nodes.push(node);
        self.rename_in(path, vec![(name_of(path), Some(index))]);
    }

    fn removed(&mut self, path: &Option<String>) {
        let Some(path) = path else { return };
        self.rename_in(path, vec![(name_of(path), None)]);
    }

    fn linked(&mut self, from: &Option<String>, to: &Option<String>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        let node = self.find(from);
        self.rename_in(to, vec![(name_of(to), node)]);
    }

    fn renamed(&mut self, from: &Option<String>, to: &Option<String>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        assert_eq!(
            above(from),
            above(to),
            "the replay does not know a rename between directories"
        );
        let node = self.find(from);
        self.rename_in(to, vec![(name_of(from), None), (name_of(to), node)]);
    }

    /// Changes names in the directory of `path`.
    fn rename_in(&mut self, path: &str, names: Names) {
        let parent = self
            .find(above(path))
            .unwrap_or_else(|| panic!("{path} is in a directory that was seen"));
        let returned = self.moment;
        let Node::Directory { live, pending, .. } = &mut self.nodes[parent] else {
            panic!("{path} is below a file")
        };
        put_names(live, &names);
        pending.push(Pending { step: names, returned });
    }

    fn sync(&mut self, descriptor: i64, begun: usize) {
        let Some(open) = self.open.get(&descriptor).copied() else {
            return;
        };
        if let Syncs::IgnoredFor(text) = self.syncs
            && self.path_of(open.node).contains(text)
        {
            return;
        }
        match &mut self.nodes[open.node] {
            Node::File { durable, pending } => {
                for done in pending.extract_if(.., |one| one.returned < begun) {
                    put_step(durable, &done.step, &mut || Sector::New);
                }
            }
            Node::Directory { durable, pending, .. } => {
                for done in pending.extract_if(.., |one| one.returned < begun) {
                    put_names(durable, &done.step);
                }
            }
        }
    }

    /// What a file holds for the running system.
    fn live(&self, node: usize) -> Vec<u8> {
        let Node::File { durable, pending } = &self.nodes[node] else {
            return Vec::new();
        };
        let mut bytes = durable.clone();
        pending
            .iter()
            .for_each(|one| put_step(&mut bytes, &one.step, &mut || Sector::New));
        bytes
    }

    /// Writes to the directory `to` what a restart would find.
    pub(crate) fn survive(&self, fate: Fate, random: &mut Random, to: &Path) {
        self.survive_below(0, fate, random, to);
    }

    fn survive_below(&self, node: usize, fate: Fate, random: &mut Random, to: &Path) {
        match &self.nodes[node] {
            Node::File { .. } if to.to_string_lossy().ends_with("-shm") => {}
            Node::File { durable, pending } => {
                let bytes = surviving(durable, pending, fate.data, random);
                std::fs::write(to, bytes).expect("the directory of the test can be written");
            }
            Node::Directory { durable, pending, .. } => {
                let mut names = durable.clone();
                for one in pending {
                    if fate.names.takes(random) {
                        put_names(&mut names, &one.step);
                    }
                }
                std::fs::create_dir_all(to).expect("the directory of the test can be written");
                for (name, below) in names {
                    self.survive_below(below, fate, random, &to.join(name));
                }
            }
        }
    }
}

/// The content of a file of which so much of what is pending has reached the disk.
fn surviving(durable: &[u8], pending: &[Pending<FileStep>], share: Share, random: &mut Random) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    for one in pending {
        put_step(&mut bytes, &one.step, &mut || share.sector(random));
    }
    bytes
}

/// What became of a sector that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sector {
    New,
    Old,
    /// Where the file grew by it: it did, and holds that byte.
    Grown(u8),
}

/// Applies a step, of a write what `becomes` says sector by sector.
fn put_step(bytes: &mut Vec<u8>, step: &FileStep, becomes: &mut dyn FnMut() -> Sector) {
    match step {
        FileStep::Truncate(length) => {
            if becomes() == Sector::New {
                bytes.resize(*length, 0);
            }
        }
        FileStep::Write { at, data } => {
            let end = at + data.len();
            let mut from = *at;
            while from < end {
                let to = end.min((from / SECTOR + 1) * SECTOR);
                put_sector(bytes, from, &data[from - at..to - at], becomes());
                from = to;
            }
        }
    }
}

fn put_sector(bytes: &mut Vec<u8>, at: usize, data: &[u8], sector: Sector) {
    let end = at + data.len();
    match sector {
        Sector::Old => {}
        Sector::Grown(byte) => bytes.resize(bytes.len().max(end), byte),
        Sector::New => {
            bytes.resize(bytes.len().max(end), 0);
            bytes[at..end].copy_from_slice(data);
        }
    }
}

fn put_names(names: &mut BTreeMap<String, usize>, changes: &Names) {
    for (name, node) in changes {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

fn directory() -> Node {
    Node::Directory {
        durable: BTreeMap::new(),
        live: BTreeMap::new(),
        pending: Vec::new(),
    }
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn name_of(path: &str) -> String {
    path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned()
}
