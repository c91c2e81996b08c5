//! Listing a directory.
//!
//! A list comes in the byte order of the paths, in which the directory `a` stands before the file `a-b`; servers give keys, some in
//! byte order, where `a/x` stands after `a-b`, some in the order of a tree. So the keys of a list are gathered first and put in order
//! here. A list that goes on over several pages is kept for the next one, until this handle changes something.
//!
//! S3 lists show no metadata. A link is an object of no bytes, so only those are looked at, several at once, and what they are is
//! remembered by their ETag and time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use garret_core::{Entry, EntryKind, EntryPath, Error, ListOptions, ListPage, Result, Timestamp, Version, WsPath};

use super::Shared;
use super::at_once::try_all;
use super::bucket::{ListCall, PAGE};
use super::keys::Meaning;
use super::locate::{Found, Last, Way, failed};
use super::wire::failure::Failure;
use super::wire::xml::{Listed, Page};

/// A list in order, from which pages are cut.
#[derive(Debug)]
pub(super) struct Snapshot {
    directory: WsPath,
    is_deep: bool,
    items: Vec<Item>,
    /// Where the last page that was cut ended.
    cut: usize,
}

/// An entry before it is known whether it is a link.
#[derive(Debug, Clone)]
struct Item {
    path: WsPath,
    object: Option<Listed>,
}

/// An object below a directory, with the version that a list shows and an [`Entry`] does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Where it is.
    pub path: WsPath,
    /// A file, or a link.
    pub kind: EntryKind,
    /// How many bytes it has.
    pub size: u64,
    /// Its version: what a read of it would give.
    pub version: Version,
    /// When it was last written.
    pub modified: Option<Timestamp>,
}

pub(super) async fn list(shared: &Shared, path: &WsPath, options: ListOptions) -> Result<ListPage> {
    super::keys::refuse_reserved(path)?;
    let snapshot = match kept(shared, path, &options) {
        Some(snapshot) => snapshot,
        None => gather_or_follow(shared, path, &options).await?,
    };
    cut(shared, &snapshot, &options).await
}

/// All files and links below `path`, in order.
pub(super) async fn objects_below(shared: &Shared, path: &WsPath) -> Result<Vec<ObjectEntry>> {
    let options = ListOptions {
        is_deep: true,
        ..ListOptions::default()
    };
    let snapshot = gather_or_follow(shared, path, &options).await?;
    let entries = snapshot.items.iter().map(|item| object_entry(shared, item).boxed());
    Ok(try_all(entries.collect()).await?.into_iter().flatten().collect())
}

async fn object_entry(shared: &Shared, item: &Item) -> Result<Option<ObjectEntry>> {
    let Some(object) = &item.object else { return Ok(None) };
    let target = target_of(shared, item, object).await?;
    Ok(Some(ObjectEntry {
        path: item.path.clone(),
        kind: kind(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        version: Version::new(&object.tag),
        modified: object.modified,
    }))
}

/// A list that was kept after the page that ended at the cursor.
fn kept(shared: &Shared, path: &WsPath, options: &ListOptions) -> Option<Arc<Snapshot>> {
    let after = options.after.as_ref()?.as_path()?;
    shared.known.take_snapshot(|snapshot| {
        let last = snapshot.cut.checked_sub(1).and_then(|at| snapshot.items.get(at));
        snapshot.is_deep == options.is_deep
            && snapshot.directory == *path
            && last.is_some_and(|last| last.path == *after)
    })
}

/// Gathers what is below `path`; where nothing is, finds out why.
async fn gather_or_follow(shared: &Shared, path: &WsPath, options: &ListOptions) -> Result<Arc<Snapshot>> {
    let found = gather(shared, path, options.is_deep).await?;
    if found.is_there || path.is_root() {
        return Ok(Arc::new(found.snapshot));
    }
    let way = Way {
        last: Last::Followed,
        follow: options.follow,
    };
    let located = shared.locate(path, way).await?;
    match located.found {
        Found::Directory { .. } => Ok(Arc::new(gather(shared, &located.path, options.is_deep).await?.snapshot)),
        Found::Nothing { .. } | Found::Blocked => Err(located.missing()),
        Found::File(_) | Found::Link(_) => Err(Error::not_a_directory(&located.path)),
    }
}

struct Gathered {
    snapshot: Snapshot,
    /// Whether any key is below the directory, its own marker included.
    is_there: bool,
}

async fn gather(shared: &Shared, directory: &WsPath, is_deep: bool) -> Result<Gathered> {
    let prefix = shared.layout.directory(directory);
    let pages = match is_deep {
        true => shared.bucket.list_all(&prefix, false).await,
        false => shallow(shared, &prefix).await,
    };
    let page = pages.map_err(|failure| failed(directory, failure))?;
    Ok(Gathered {
        is_there: !page.objects.is_empty() || !page.prefixes.is_empty(),
        snapshot: Snapshot {
            directory: directory.clone(),
            is_deep,
            items: in_order(shared, directory, is_deep, page),
            cut: 0,
        },
    })
}

/// The keys in one directory, and the prefixes of those in it.
async fn shallow(shared: &Shared, prefix: &str) -> Result<Page, Failure> {
    if !shared.abilities.shows_ghosts {
        return shared.bucket.list_all(prefix, true).await;
    }
    let flat = ListCall {
        prefix,
        limit: PAGE,
        ..ListCall::default()
    };
    let flat = shared.bucket.list(&flat).await?;
    if flat.next.is_none() {
        return Ok(flat);
    }
    // Too much to take all: what the server shows as directories is asked for one by one.
    let mut page = shared.bucket.list_all(prefix, true).await?;
    let prefixes = std::mem::take(&mut page.prefixes);
    let checks = prefixes.into_iter().map(|below| real(shared, below).boxed());
    page.prefixes = try_all(checks.collect()).await?.into_iter().flatten().collect();
    Ok(page)
}

/// The prefix, if anything lies below it.
async fn real(shared: &Shared, below: String) -> Result<Option<String>, Failure> {
    let list = ListCall {
        prefix: &below,
        limit: 1,
        ..ListCall::default()
    };
    let is_there = !shared.bucket.list(&list).await?.objects.is_empty();
    Ok(is_there.then_some(below))
}

/// Sorts out the keys: files and the directories that they imply. What is no path, is Garret's own, or lies below a file is left out.
fn in_order(shared: &Shared, directory: &WsPath, is_deep: bool, page: Page) -> Vec<Item> {
    let mut items: BTreeMap<WsPath, Option<Listed>> = BTreeMap::new();
    let mut directories: HashSet<WsPath> = HashSet::new();
    let mut note = |path: &WsPath| {
        let inside: Vec<_> = path
            .ancestry()
            .filter(|above| above.is_within(directory) && above != directory)
            .collect();
        directories.extend(inside);
    };
    for object in page.objects {
        match shared.layout.meaning(&object.key) {
            Meaning::File(path) => {
                if let Some(parent) = path.parent() {
                    note(&parent);
                }
                items.insert(path, Some(object));
            }
            Meaning::Directory(path) => note(&path),
            Meaning::Reserved | Meaning::Odd(_) => {}
        }
    }
    for prefix in &page.prefixes {
        if let Meaning::Directory(path) = shared.layout.meaning(prefix) {
            note(&path);
        }
    }
    let (shadows, directories): (Vec<_>, Vec<_>) = directories.into_iter().partition(|path| items.contains_key(path));
    items.extend(directories.into_iter().map(|path| (path, None)));
    let is_shown = |path: &WsPath| {
        let below_file = shadows.iter().any(|file| path != file && path.is_within(file));
        let is_direct = || path.parent().as_ref() == Some(directory);
        !below_file && (is_deep || is_direct())
    };
    let shown = items.into_iter().filter(|(path, _)| is_shown(path));
    shown.map(|(path, object)| Item { path, object }).collect()
}

/// Cuts the page that the options ask for, and keeps the rest for the next.
async fn cut(shared: &Shared, snapshot: &Arc<Snapshot>, options: &ListOptions) -> Result<ListPage> {
    let after = options.after.as_ref().map(EntryPath::as_bytes);
    let is_before = |item: &Item| after.is_some_and(|after| item.path.as_str().as_bytes() <= after);
    let start = snapshot.items.partition_point(is_before);
    let end = snapshot.items.len().min(start.saturating_add(options.limit));
    let page = snapshot.items[start..end]
        .iter()
        .map(|item| entry(shared, item).boxed());
    let entries = try_all(page.collect()).await?;
    let has_more = end < snapshot.items.len();
    if has_more && end > start {
        shared.known.keep(Arc::new(Snapshot {
            directory: snapshot.directory.clone(),
            is_deep: snapshot.is_deep,
            items: snapshot.items[start..].to_vec(),
            cut: end - start,
        }));
    }
    Ok(ListPage { entries, has_more })
}

async fn entry(shared: &Shared, item: &Item) -> Result<Entry> {
    let Some(object) = &item.object else {
        return Ok(Entry {
            path: item.path.clone().into(),
            kind: EntryKind::Directory,
            size: 0,
            modified: None,
            version: None,
        });
    };
    let target = target_of(shared, item, object).await?;
    Ok(Entry {
        path: item.path.clone().into(),
        kind: kind(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        modified: object.modified,
        version: target.is_none().then(|| Version::new(&object.tag)),
    })
}

fn kind(target: Option<&str>) -> EntryKind {
    match target {
        Some(_) => EntryKind::Symlink,
        None => EntryKind::File,
    }
}

/// Where a listed object points, if it is a link.
async fn target_of(shared: &Shared, item: &Item, listed: &Listed) -> Result<Option<String>> {
    if listed.size > 0 {
        return Ok(None);
    }
    if let Some(target) = shared.known.empty(&listed.key, &listed.tag, listed.modified) {
        return Ok(target);
    }
    let object = shared.bucket.head(&listed.key).await;
    let Some(object) = object.map_err(|failure| failed(&item.path, failure))? else {
        return Ok(None);
    };
    shared.known.met_empty(&listed.key, &object);
    Ok(object.metadata.target)
}
