//! Listing a directory.
//!
//! A list comes in the byte order of the paths, in which the directory `a` stands before the file `a-b`; servers give
//! keys, some in byte order, in which `a/x` stands after `a-b`, some in the order of a tree. If that order is known, a
//! list is requested page by page, as far as it is wanted ([`Pages`]); otherwise, and for large requests, all keys are
//! gathered first, directories concurrently, and sorted here. A list of several pages is kept for the next page, until
//! this handle changes something.
//!
//! S3 lists show no metadata. A link is an object of no bytes, so only empty objects get a HEAD request, several at
//! once, and the result is remembered by ETag and time.

use std::collections::{HashSet, VecDeque};

use futures::FutureExt;
use garret_core::{Entry, EntryKind, EntryPath, Error, ListOptions, ListPage, Result, Timestamp, Version, WsPath};

use super::Shared;
use super::at_once::try_all;
use super::bucket::{ListCall, PAGE};
use super::keys::{Layout, Meaning};
use super::locate::{Found, Last, Way, failed};
use super::order::Order;
use super::pages::{Disorder, Pages};
use super::wire::failure::Failure;
use super::wire::xml::{Listed, Page};

/// The limit above which gathering all keys concurrently is faster than one page after another.
const MUCH: usize = 2 * PAGE;

/// A list from which pages are taken.
#[derive(Debug)]
pub(super) struct Listing {
    directory: WsPath,
    is_deep: bool,
    /// The last path of the page before.
    last: Option<EntryPath>,
    /// The next entries, in order.
    ready: VecDeque<Item>,
    /// The pages that were not requested yet.
    rest: Option<Pages>,
    /// Directories that are certain to hold a key, for a server that also shows empty ones.
    proven: HashSet<WsPath>,
    /// Whether any key was seen, the directory's own marker included.
    is_there: bool,
}

/// An entry before it is known whether it is a link.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) path: WsPath,
    /// The object; `None` for a directory.
    pub(super) object: Option<Listed>,
}

/// An object below a directory, with the version that a list shows and an [`Entry`] does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The path of the object.
    pub path: WsPath,
    /// The kind: a file or a link.
    pub kind: EntryKind,
    /// The size in bytes.
    pub size: u64,
    /// The version, the same as a read returns.
    pub version: Version,
    /// The time of the last write.
    pub modified: Option<Timestamp>,
}

pub(super) async fn list(shared: &Shared, path: &WsPath, options: ListOptions) -> Result<ListPage> {
    super::keys::refuse_reserved(path)?;
    let mut listing = match kept(shared, path, &options) {
        Some(listing) => listing,
        None => begin_or_follow(shared, path, &options).await?,
    };
    listing.fill(shared, options.limit).await?;
    cut(shared, listing, &options).await
}

/// Returns all files and links below `path`, in order.
pub(super) async fn objects_below(shared: &Shared, path: &WsPath) -> Result<Vec<ObjectEntry>> {
    let options = ListOptions {
        is_deep: true,
        limit: usize::MAX,
        ..ListOptions::default()
    };
    let listing = begin_or_follow(shared, path, &options).await?;
    let objects: Vec<_> = listing.ready.into_iter().filter(|item| item.object.is_some()).collect();
    let targets = targets(shared, &objects).await?;
    let entries = objects.into_iter().zip(targets);
    Ok(entries
        .filter_map(|(item, target)| object_entry(item, target))
        .collect())
}

fn object_entry(item: Item, target: Option<String>) -> Option<ObjectEntry> {
    let object = item.object?;
    Some(ObjectEntry {
        path: item.path,
        kind: kind(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        version: Version::new(&object.tag),
        modified: object.modified,
    })
}

/// Returns the list that was kept after the page that ended at the cursor.
fn kept(shared: &Shared, path: &WsPath, options: &ListOptions) -> Option<Listing> {
    let after = options.after.as_ref()?;
    shared.known.take_listing(|listing| {
        listing.is_deep == options.is_deep && listing.directory == *path && listing.last.as_ref() == Some(after)
    })
}

/// Begins a list of `path`; if no key is below it, follows links or finds the error.
async fn begin_or_follow(shared: &Shared, path: &WsPath, options: &ListOptions) -> Result<Listing> {
    let begun = begin(shared, path, options).await;
    if let Some(listing) = begun.map_err(|failure| failed(path, failure))? {
        return Ok(listing);
    }
    let way = Way {
        last: Last::Followed,
        follow: options.follow,
    };
    let located = shared.locate(path, way).await?;
    let real = &located.path;
    match located.found {
        Found::Directory { .. } => {
            let begun = begin(shared, real, options).await;
            let listing = begun.map_err(|failure| failed(real, failure))?;
            Ok(listing.unwrap_or_else(|| Listing::of(real, options, Vec::new())))
        }
        Found::Nothing { .. } | Found::Blocked => Err(located.missing()),
        Found::File(_) | Found::Link(_) => Err(Error::not_a_directory(real)),
    }
}

/// Begins a list with as few requests as possible; `None` if no key is below the directory, its own marker included.
async fn begin(shared: &Shared, directory: &WsPath, options: &ListOptions) -> Result<Option<Listing>, Failure> {
    let abilities = &shared.abilities;
    let listing = match abilities.order {
        Order::Keys if !abilities.shows_ghosts && (!options.is_deep || options.limit <= MUCH) => {
            paged(shared, directory, options).await?
        }
        Order::Tree if !options.is_deep => in_tree_order(shared, directory, options).await?,
        _ => gathered(shared, directory, options).await?,
    };
    Ok(listing.or_else(|| directory.is_root().then(|| Listing::of(directory, options, Vec::new()))))
}

async fn paged(shared: &Shared, directory: &WsPath, options: &ListOptions) -> Result<Option<Listing>, Failure> {
    let mut listing = Listing::of(directory, options, Vec::new());
    listing.rest = Some(Pages::new(shared, directory, options.is_deep, options.after.as_ref()));
    listing.go_on(shared).await?;
    // No key after the cursor does not mean that there is none before it.
    let is_there = listing.is_there || options.after.is_some() && holds_something(shared, directory).await?;
    Ok(is_there.then_some(listing))
}

/// Begins a list on a server that gives everything in a directory before the next name.
async fn in_tree_order(shared: &Shared, directory: &WsPath, options: &ListOptions) -> Result<Option<Listing>, Failure> {
    let prefix = shared.layout.directory(directory);
    let flat = ListCall {
        prefix: &prefix,
        limit: PAGE,
        ..ListCall::default()
    };
    let flat = shared.bucket.list(&flat).await?;
    if flat.objects.is_empty() {
        return Ok(None);
    }
    // One page of all keys may be everything. If not, it proves for many directories that they hold a key, which a
    // server with ghosts would otherwise have to be asked for each.
    let is_all = flat.next.is_none();
    let mut items = in_order(&shared.layout, directory, false, flat);
    if is_all {
        return Ok(Some(Listing::of(directory, options, items)));
    }
    let proven = items
        .iter()
        .filter(|item| item.object.is_none())
        .map(|item| item.path.clone());
    let proven = proven.collect();
    // Keys below the last name may be on the next page.
    items.pop();
    let mut listing = Listing::of(directory, options, items);
    if listing.ready.len() <= options.limit {
        listing.ready.clear();
    }
    let last = listing.ready.back().map(|item| item.path.clone().into());
    let after = last.as_ref().or(options.after.as_ref());
    listing.rest = Some(Pages::new(shared, directory, false, after));
    listing.proven = proven;
    Ok(Some(listing))
}

/// Gathers all keys and sorts them.
async fn gathered(shared: &Shared, directory: &WsPath, options: &ListOptions) -> Result<Option<Listing>, Failure> {
    let prefix = shared.layout.directory(directory);
    let page = if options.is_deep {
        shared.bucket.list_below(&prefix).await?
    } else {
        shallow(shared, &prefix).await?
    };
    let is_there = !page.objects.is_empty() || !page.prefixes.is_empty();
    let items = in_order(&shared.layout, directory, options.is_deep, page);
    Ok(is_there.then(|| Listing::of(directory, options, items)))
}

/// Returns the keys in one directory, and the prefixes of its subdirectories.
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
    // Too many keys to read all: each prefix is checked with a request of its own.
    let mut page = shared.bucket.list_all(prefix, true).await?;
    let prefixes = std::mem::take(&mut page.prefixes);
    let checks = prefixes.into_iter().map(|below| real(shared, below).boxed());
    page.prefixes = try_all(checks.collect()).await?.into_iter().flatten().collect();
    Ok(page)
}

/// Returns the prefix if a key lies below it.
async fn real(shared: &Shared, below: String) -> Result<Option<String>, Failure> {
    let is_there = shared.first_below(&below).await?.is_some();
    Ok(is_there.then_some(below))
}

impl Listing {
    /// Makes a list that begins with these items, which are in order.
    fn of(directory: &WsPath, options: &ListOptions, mut items: Vec<Item>) -> Self {
        if let Some(after) = options.after.as_ref().map(EntryPath::as_bytes) {
            let is_before = |item: &Item| item.path.as_str().as_bytes() <= after;
            items.drain(..items.partition_point(is_before));
        }
        Self {
            directory: directory.clone(),
            is_deep: options.is_deep,
            last: options.after.clone(),
            ready: items.into(),
            rest: None,
            proven: HashSet::new(),
            is_there: false,
        }
    }

    /// Requests pages until more than `wanted` entries are ready, or all are.
    async fn fill(&mut self, shared: &Shared, wanted: usize) -> Result<()> {
        let filled = self.try_fill(shared, wanted).await;
        filled.map_err(|failure| failed(&self.directory, failure))
    }

    async fn try_fill(&mut self, shared: &Shared, wanted: usize) -> Result<(), Failure> {
        loop {
            self.drop_ghosts(shared, wanted.saturating_add(1)).await?;
            if self.ready.len() > wanted || self.rest.is_none() {
                return Ok(());
            }
            self.go_on(shared).await?;
        }
    }

    async fn go_on(&mut self, shared: &Shared) -> Result<(), Failure> {
        let Some(rest) = &mut self.rest else { return Ok(()) };
        match rest.go_on(shared).await? {
            Ok(settled) => self.ready.extend(settled),
            Err(Disorder) => return self.start_over(shared).await,
        }
        self.is_there |= rest.is_there;
        if rest.is_complete() {
            self.rest = None;
        }
        Ok(())
    }

    /// Gathers all keys, after pages did not come in the expected order.
    async fn start_over(&mut self, shared: &Shared) -> Result<(), Failure> {
        let last = self.ready.back().map(|item| item.path.clone().into());
        let options = ListOptions {
            is_deep: self.is_deep,
            after: last.or(self.last.take()),
            ..ListOptions::default()
        };
        let all = gathered(shared, &self.directory, &options).await?;
        self.is_there = all.is_some();
        self.ready.extend(all.map(|all| all.ready).unwrap_or_default());
        self.last = options.after;
        self.rest = None;
        Ok(())
    }

    /// Removes ghosts from the next entries, on a server that shows them: each unproven directory is checked with a
    /// request.
    async fn drop_ghosts(&mut self, shared: &Shared, wanted: usize) -> Result<(), Failure> {
        if !shared.abilities.shows_ghosts || self.rest.is_none() && self.proven.is_empty() {
            return Ok(());
        }
        loop {
            let next = self.ready.iter().take(wanted);
            let doubtful = next.filter(|item| item.object.is_none() && !self.proven.contains(&item.path));
            let doubtful: Vec<_> = doubtful.map(|item| item.path.clone()).collect();
            if doubtful.is_empty() {
                return Ok(());
            }
            let checks = doubtful.iter().map(|path| holds_something(shared, path).boxed());
            let checked = try_all(checks.collect()).await?;
            let (real, ghosts): (Vec<_>, Vec<_>) = doubtful.into_iter().zip(checked).partition(|(_, is_real)| *is_real);
            self.proven.extend(real.into_iter().map(|(path, _)| path));
            let ghosts: HashSet<_> = ghosts.into_iter().map(|(path, _)| path).collect();
            self.ready
                .retain(|item| item.object.is_some() || !ghosts.contains(&item.path));
        }
    }
}

async fn holds_something(shared: &Shared, directory: &WsPath) -> Result<bool, Failure> {
    let first = shared.first_below(&shared.layout.directory(directory)).await?;
    Ok(first.is_some())
}

/// Converts keys into sorted items: files and the directories that they imply. Leaves out keys that are no path, are
/// Garret's own, or lie below a file.
fn in_order(layout: &Layout, directory: &WsPath, is_deep: bool, page: Page) -> Vec<Item> {
    let mut files: Vec<Item> = Vec::with_capacity(page.objects.len());
    let mut directories = Directories::within(directory);
    for object in page.objects {
        match layout.meaning(&object.key) {
            Meaning::File(path) => {
                directories.note(path.parent());
                files.push(Item {
                    path,
                    object: Some(object),
                });
            }
            Meaning::Directory(path) => directories.note(Some(path)),
            Meaning::Reserved | Meaning::Odd(_) => {}
        }
    }
    for prefix in &page.prefixes {
        if let Meaning::Directory(path) = layout.meaning(prefix) {
            directories.note(Some(path));
        }
    }
    files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    let is_file = |path: &WsPath| files.binary_search_by(|item| item.path.cmp(path)).is_ok();
    let (shadows, directories): (Vec<_>, Vec<_>) = directories.noted.into_iter().partition(is_file);
    let is_shown = |path: &WsPath| {
        let below_file = shadows.iter().any(|file| path != file && path.is_within(file));
        let is_direct = || path.parent().as_ref() == Some(directory);
        !below_file && (is_deep || is_direct())
    };
    let mut items = files;
    items.extend(directories.into_iter().map(|path| Item { path, object: None }));
    items.retain(|item| is_shown(&item.path));
    // A stable sort is fast here, because these are two runs that are nearly in order.
    items.sort_by(|one, other| one.path.cmp(&other.path));
    items
}

/// The directories that keys imply.
struct Directories<'a> {
    within: &'a WsPath,
    noted: HashSet<WsPath>,
    /// The directory that was added last: keys of one directory come together.
    last: Option<WsPath>,
}

impl<'a> Directories<'a> {
    fn within(within: &'a WsPath) -> Self {
        Self {
            within,
            noted: HashSet::new(),
            last: None,
        }
    }

    /// Adds a directory and those above it.
    fn note(&mut self, directory: Option<WsPath>) {
        if directory == self.last {
            return;
        }
        self.last.clone_from(&directory);
        let mut next = directory;
        while let Some(path) = next.filter(|path| path.is_within(self.within) && path != self.within) {
            next = path.parent();
            if !self.noted.insert(path) {
                return;
            }
        }
    }
}

/// Takes a page from the list, and keeps the rest for the next page.
async fn cut(shared: &Shared, mut listing: Listing, options: &ListOptions) -> Result<ListPage> {
    let count = listing.ready.len().min(options.limit);
    let items: Vec<_> = listing.ready.drain(..count).collect();
    let targets = targets(shared, &items).await?;
    let has_more = !listing.ready.is_empty();
    if let (true, Some(last)) = (has_more, items.last()) {
        listing.last = Some(last.path.clone().into());
        shared.known.keep(listing);
    }
    let entries = items.into_iter().zip(targets).map(|(item, target)| entry(item, target));
    Ok(ListPage {
        entries: entries.collect(),
        has_more,
    })
}

fn entry(item: Item, target: Option<String>) -> Entry {
    let Some(object) = item.object else {
        return Entry {
            path: item.path.into(),
            kind: EntryKind::Directory,
            size: 0,
            modified: None,
            version: None,
            hard_linked: None,
        };
    };
    Entry {
        path: item.path.into(),
        kind: kind(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        modified: object.modified,
        version: target.is_none().then(|| Version::new(&object.tag)),
        hard_linked: None,
    }
}

fn kind(target: Option<&str>) -> EntryKind {
    match target {
        Some(_) => EntryKind::Symlink,
        None => EntryKind::File,
    }
}

/// Returns the target of each item that is a link. Only objects of no bytes get a HEAD request.
async fn targets(shared: &Shared, items: &[Item]) -> Result<Vec<Option<String>>> {
    let is_empty = |item: &Item| item.object.as_ref().is_some_and(|object| object.size == 0);
    let looks = items.iter().filter(|item| is_empty(item));
    let looks = looks.map(|item| target_of(shared, item).boxed());
    let mut looked = try_all(looks.collect()).await?.into_iter();
    let target = |item| if is_empty(item) { looked.next().flatten() } else { None };
    Ok(items.iter().map(target).collect())
}

/// Returns the target of an empty object, if it is a link.
async fn target_of(shared: &Shared, item: &Item) -> Result<Option<String>> {
    let Some(listed) = &item.object else { return Ok(None) };
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
