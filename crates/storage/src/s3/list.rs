//! Listing a directory.
//!
//! A list comes in the byte order of the paths, in which the directory `a` stands before the file `a-b`; servers give keys, some in
//! byte order, where `a/x` stands after `a-b`, some in the order of a tree. Where that order can be relied on, a list is asked for page by
//! page, as far as it is wanted ([`Pages`]); else, and where much is wanted at once, its keys are gathered first, directories side by side, and
//! put in order here. A list that goes on over several pages is kept for the next one, until this handle changes something.
//!
//! S3 lists show no metadata. A link is an object of no bytes, so only those are looked at, several at once, and what they are is
//! remembered by their ETag and time.

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

/// Who wants more than this at once is not helped by one page after another.
const MUCH: usize = 2 * PAGE;

/// A list from which pages are cut.
#[derive(Debug)]
pub(super) struct Listing {
    directory: WsPath,
    is_deep: bool,
    /// The last path of the page before.
    last: Option<EntryPath>,
    /// What comes next, in order.
    ready: VecDeque<Item>,
    /// What the server was not asked for yet.
    rest: Option<Pages>,
    /// Directories that hold something for certain, where a server shows such as hold nothing.
    proven: HashSet<WsPath>,
    /// Whether any key was seen, the directory's own marker included.
    is_there: bool,
}

/// An entry before it is known whether it is a link.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) path: WsPath,
    /// Nothing for a directory.
    pub(super) object: Option<Listed>,
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
    let mut listing = match kept(shared, path, &options) {
        Some(listing) => listing,
        None => begin_or_follow(shared, path, &options).await?,
    };
    listing.fill(shared, options.limit).await?;
    cut(shared, listing, &options).await
}

/// All files and links below `path`, in order.
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

/// A list that was kept after the page that ended at the cursor.
fn kept(shared: &Shared, path: &WsPath, options: &ListOptions) -> Option<Listing> {
    let after = options.after.as_ref()?;
    shared.known.take_listing(|listing| {
        listing.is_deep == options.is_deep && listing.directory == *path && listing.last.as_ref() == Some(after)
    })
}

/// Begins a list of `path`; where nothing is there, finds out why.
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

/// Begins a list in the way that takes the fewest requests; `None` where no key is below the directory, its own marker included.
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
    // Nothing after a cursor says nothing of what is before it.
    let is_there = listing.is_there || options.after.is_some() && holds_something(shared, directory).await?;
    Ok(is_there.then_some(listing))
}

/// The same where everything in a directory comes before the next name. One page of all keys may tell enough, and which directories hold
/// something, should the server show some that do not.
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
    // What is below the last one may not all have come.
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

/// All keys, put in order.
async fn gathered(shared: &Shared, directory: &WsPath, options: &ListOptions) -> Result<Option<Listing>, Failure> {
    let prefix = shared.layout.directory(directory);
    let page = match options.is_deep {
        true => shared.bucket.list_below(&prefix).await?,
        false => shallow(shared, &prefix).await?,
    };
    let is_there = !page.objects.is_empty() || !page.prefixes.is_empty();
    let items = in_order(&shared.layout, directory, options.is_deep, page);
    Ok(is_there.then(|| Listing::of(directory, options, items)))
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
    let is_there = shared.first_below(&below).await?.is_some();
    Ok(is_there.then_some(below))
}

impl Listing {
    /// A list of which these items, in order, are what comes first.
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

    /// Asks for pages until more than `wanted` entries are ready, or all are.
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

    /// Gathers everything, where pages did not come as they should.
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

    /// Asks for what the server shows as directories among the next entries one by one, where it shows such as hold nothing.
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

/// Sorts out the keys: files and the directories that they imply. What is no path, is Garret's own, or lies below a file is left out.
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
    // Two runs that are in order, or nearly.
    items.sort_by(|one, other| one.path.cmp(&other.path));
    items
}

/// The directories that keys tell of.
struct Directories<'a> {
    within: &'a WsPath,
    noted: HashSet<WsPath>,
    /// The one noted last: keys of one directory come together.
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

    /// Takes note of a directory and those above it.
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

/// Cuts the page that the options ask for, and keeps the rest for the next.
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

/// Where each item points, if it is a link. Only objects of no bytes are looked at.
async fn targets(shared: &Shared, items: &[Item]) -> Result<Vec<Option<String>>> {
    let is_empty = |item: &Item| item.object.as_ref().is_some_and(|object| object.size == 0);
    let looks = items.iter().filter(|item| is_empty(item));
    let looks = looks.map(|item| target_of(shared, item).boxed());
    let mut looked = try_all(looks.collect()).await?.into_iter();
    let target = |item| match is_empty(item) {
        true => looked.next().flatten(),
        false => None,
    };
    Ok(items.iter().map(target).collect())
}

/// Where an object of no bytes points, if it is a link.
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
