//! Listing a directory.
//!
//! A list comes in the byte order of the paths, in which the directory `a` stands before the file `a-b`; servers give
//! keys, some in byte order, in which `a/x` stands after `a-b`, some in the order of a tree. If that order is known, a
//! list is requested page by page, as far as it is wanted ([`PagedListing`]); otherwise, and for large requests, all keys are
//! gathered first, directories concurrently, and sorted here. A list of several pages is kept for the next page, until
//! this handle changes something.
//!
//! S3 lists show no metadata. A link is an object of no bytes, so only empty objects get a HEAD request, several at
//! once, and the result is remembered by ETag and time.

use std::collections::{HashSet, VecDeque};

use futures::FutureExt;
use garret_core::{Entry, EntryKind, EntryPath, Error, ListOptions, ListPage, Result, Timestamp, Version, WsPath};

use super::S3Context;
use super::bucket::{ListCall, PAGE};
use super::concurrent::run_concurrently;
use super::keys::{KeyLayout, KeyMeaning};
use super::list_order::ListOrder;
use super::locate::{S3FinalLink, S3FoundEntry, S3LinkRules, error_at_path};
use super::paged_listing::{ListDisorder, PagedListing};
use super::wire::failure::S3RequestError;
use super::wire::xml::{ListedObject, S3ListPage};

/// The limit above which gathering all keys concurrently is faster than one page after another.
const MUCH: usize = 2 * PAGE;

/// A list from which pages are taken.
#[derive(Debug)]
pub(super) struct S3Listing {
    directory: WsPath,
    is_deep: bool,
    /// The last path of the page before.
    last: Option<EntryPath>,
    /// The next entries, in order.
    ready: VecDeque<S3ListItem>,
    /// The pages that were not requested yet.
    rest: Option<PagedListing>,
    /// Directories that are certain to hold a key, for a server that also shows empty ones.
    proven: HashSet<WsPath>,
    /// Whether any key was seen, the directory's own marker included.
    is_there: bool,
}

/// An entry before it is known whether it is a link.
#[derive(Debug, Clone)]
pub(super) struct S3ListItem {
    pub(super) path: WsPath,
    /// The object; `None` for a directory.
    pub(super) object: Option<ListedObject>,
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

pub(super) async fn list_page(shared: &S3Context, path: &WsPath, options: ListOptions) -> Result<ListPage> {
    super::keys::refuse_reserved(path)?;
    let mut listing = match take_kept_listing(shared, path, &options) {
        Some(listing) => listing,
        None => begin_or_follow(shared, path, &options).await?,
    };
    listing.fill_ready(shared, options.limit).await?;
    take_page(shared, listing, &options).await
}

/// Returns all files and links below `path`, in order.
pub(super) async fn objects_below(shared: &S3Context, path: &WsPath) -> Result<Vec<ObjectEntry>> {
    let options = ListOptions {
        is_deep: true,
        limit: usize::MAX,
        ..ListOptions::default()
    };
    let listing = begin_or_follow(shared, path, &options).await?;
    let objects: Vec<_> = listing.ready.into_iter().filter(|item| item.object.is_some()).collect();
    let targets = link_targets(shared, &objects).await?;
    let entries = objects.into_iter().zip(targets);
    Ok(entries
        .filter_map(|(item, target)| object_entry(item, target))
        .collect())
}

fn object_entry(item: S3ListItem, target: Option<String>) -> Option<ObjectEntry> {
    let object = item.object?;
    Some(ObjectEntry {
        path: item.path,
        kind: kind_by_target(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        version: Version::new(&object.tag),
        modified: object.modified,
    })
}

/// Returns the list that was kept after the page that ended at the cursor.
fn take_kept_listing(shared: &S3Context, path: &WsPath, options: &ListOptions) -> Option<S3Listing> {
    let after = options.after.as_ref()?;
    shared.known.take_listing(|listing| {
        listing.is_deep == options.is_deep && listing.directory == *path && listing.last.as_ref() == Some(after)
    })
}

/// Begins a list of `path`; if no key is below it, follows links or finds the error.
async fn begin_or_follow(shared: &S3Context, path: &WsPath, options: &ListOptions) -> Result<S3Listing> {
    let begun = begin_listing(shared, path, options).await;
    if let Some(listing) = begun.map_err(|failure| error_at_path(path, failure))? {
        return Ok(listing);
    }
    let way = S3LinkRules {
        last: S3FinalLink::Followed,
        follow: options.follow,
    };
    let located = shared.locate_entry(path, way).await?;
    let real = &located.path;
    match located.found {
        S3FoundEntry::Directory { .. } => {
            let begun = begin_listing(shared, real, options).await;
            let listing = begun.map_err(|failure| error_at_path(real, failure))?;
            Ok(listing.unwrap_or_else(|| S3Listing::with_items(real, options, Vec::new())))
        }
        S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => Err(located.missing_error()),
        S3FoundEntry::File(_) | S3FoundEntry::Link(_) => Err(Error::not_a_directory(real)),
    }
}

/// Begins a list with as few requests as possible; `None` if no key is below the directory, its own marker included.
async fn begin_listing(
    shared: &S3Context,
    directory: &WsPath,
    options: &ListOptions,
) -> Result<Option<S3Listing>, S3RequestError> {
    let abilities = &shared.abilities;
    let listing = match abilities.order {
        ListOrder::Keys if !abilities.shows_ghosts && (!options.is_deep || options.limit <= MUCH) => {
            begin_paged(shared, directory, options).await?
        }
        ListOrder::Tree if !options.is_deep => begin_in_tree_order(shared, directory, options).await?,
        _ => gather_listing(shared, directory, options).await?,
    };
    Ok(listing.or_else(|| {
        directory
            .is_root()
            .then(|| S3Listing::with_items(directory, options, Vec::new()))
    }))
}

async fn begin_paged(
    shared: &S3Context,
    directory: &WsPath,
    options: &ListOptions,
) -> Result<Option<S3Listing>, S3RequestError> {
    let mut listing = S3Listing::with_items(directory, options, Vec::new());
    listing.rest = Some(PagedListing::new(
        shared,
        directory,
        options.is_deep,
        options.after.as_ref(),
    ));
    listing.request_next_page(shared).await?;
    // No key after the cursor does not mean that there is none before it.
    let is_there = listing.is_there || options.after.is_some() && has_key_below(shared, directory).await?;
    Ok(is_there.then_some(listing))
}

/// Begins a list on a server that gives everything in a directory before the next name.
async fn begin_in_tree_order(
    shared: &S3Context,
    directory: &WsPath,
    options: &ListOptions,
) -> Result<Option<S3Listing>, S3RequestError> {
    let prefix = shared.layout.directory_key(directory);
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
    let mut items = sort_items(&shared.layout, directory, false, flat);
    if is_all {
        return Ok(Some(S3Listing::with_items(directory, options, items)));
    }
    let proven = items
        .iter()
        .filter(|item| item.object.is_none())
        .map(|item| item.path.clone());
    let proven = proven.collect();
    // Keys below the last name may be on the next page.
    items.pop();
    let mut listing = S3Listing::with_items(directory, options, items);
    if listing.ready.len() <= options.limit {
        listing.ready.clear();
    }
    let last = listing.ready.back().map(|item| item.path.clone().into());
    let after = last.as_ref().or(options.after.as_ref());
    listing.rest = Some(PagedListing::new(shared, directory, false, after));
    listing.proven = proven;
    Ok(Some(listing))
}

/// Gathers all keys and sorts them.
async fn gather_listing(
    shared: &S3Context,
    directory: &WsPath,
    options: &ListOptions,
) -> Result<Option<S3Listing>, S3RequestError> {
    let prefix = shared.layout.directory_key(directory);
    let page = if options.is_deep {
        shared.bucket.list_below(&prefix).await?
    } else {
        list_shallow(shared, &prefix).await?
    };
    let is_there = !page.objects.is_empty() || !page.prefixes.is_empty();
    let items = sort_items(&shared.layout, directory, options.is_deep, page);
    Ok(is_there.then(|| S3Listing::with_items(directory, options, items)))
}

/// Returns the keys in one directory, and the prefixes of its subdirectories.
async fn list_shallow(shared: &S3Context, prefix: &str) -> Result<S3ListPage, S3RequestError> {
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
    let checks = prefixes
        .into_iter()
        .map(|below| prefix_if_nonempty(shared, below).boxed());
    page.prefixes = run_concurrently(checks.collect())
        .await?
        .into_iter()
        .flatten()
        .collect();
    Ok(page)
}

/// Returns the prefix if a key lies below it.
async fn prefix_if_nonempty(shared: &S3Context, below: String) -> Result<Option<String>, S3RequestError> {
    let is_there = shared.first_key_below(&below).await?.is_some();
    Ok(is_there.then_some(below))
}

impl S3Listing {
    /// Makes a list that begins with these items, which are in order.
    fn with_items(directory: &WsPath, options: &ListOptions, mut items: Vec<S3ListItem>) -> Self {
        if let Some(after) = options.after.as_ref().map(EntryPath::as_bytes) {
            let is_before = |item: &S3ListItem| item.path.as_str().as_bytes() <= after;
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
    async fn fill_ready(&mut self, shared: &S3Context, wanted: usize) -> Result<()> {
        let filled = self.try_fill(shared, wanted).await;
        filled.map_err(|failure| error_at_path(&self.directory, failure))
    }

    async fn try_fill(&mut self, shared: &S3Context, wanted: usize) -> Result<(), S3RequestError> {
        loop {
            self.drop_ghosts(shared, wanted.saturating_add(1)).await?;
            if self.ready.len() > wanted || self.rest.is_none() {
                return Ok(());
            }
            self.request_next_page(shared).await?;
        }
    }

    async fn request_next_page(&mut self, shared: &S3Context) -> Result<(), S3RequestError> {
        let Some(rest) = &mut self.rest else { return Ok(()) };
        match rest.request_next(shared).await? {
            Ok(settled) => self.ready.extend(settled),
            Err(ListDisorder) => return self.start_over(shared).await,
        }
        self.is_there |= rest.is_there;
        if rest.is_complete() {
            self.rest = None;
        }
        Ok(())
    }

    /// Gathers all keys, after pages did not come in the expected order.
    async fn start_over(&mut self, shared: &S3Context) -> Result<(), S3RequestError> {
        let last = self.ready.back().map(|item| item.path.clone().into());
        let options = ListOptions {
            is_deep: self.is_deep,
            after: last.or(self.last.take()),
            ..ListOptions::default()
        };
        let all = gather_listing(shared, &self.directory, &options).await?;
        self.is_there = all.is_some();
        self.ready.extend(all.map(|all| all.ready).unwrap_or_default());
        self.last = options.after;
        self.rest = None;
        Ok(())
    }

    /// Removes ghosts from the next entries, on a server that shows them: each unproven directory is checked with a
    /// request.
    async fn drop_ghosts(&mut self, shared: &S3Context, wanted: usize) -> Result<(), S3RequestError> {
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
            let checks = doubtful.iter().map(|path| has_key_below(shared, path).boxed());
            let checked = run_concurrently(checks.collect()).await?;
            let (real, ghosts): (Vec<_>, Vec<_>) = doubtful.into_iter().zip(checked).partition(|(_, is_real)| *is_real);
            self.proven.extend(real.into_iter().map(|(path, _)| path));
            let ghosts: HashSet<_> = ghosts.into_iter().map(|(path, _)| path).collect();
            self.ready
                .retain(|item| item.object.is_some() || !ghosts.contains(&item.path));
        }
    }
}

async fn has_key_below(shared: &S3Context, directory: &WsPath) -> Result<bool, S3RequestError> {
    let first = shared.first_key_below(&shared.layout.directory_key(directory)).await?;
    Ok(first.is_some())
}

/// Converts keys into sorted items: files and the directories that they imply. Leaves out keys that are no path, are
/// Garret's own, or lie below a file.
fn sort_items(layout: &KeyLayout, directory: &WsPath, is_deep: bool, page: S3ListPage) -> Vec<S3ListItem> {
    let mut files: Vec<S3ListItem> = Vec::with_capacity(page.objects.len());
    let mut directories = ImpliedDirectories::below_directory(directory);
    for object in page.objects {
        match layout.classify_key(&object.key) {
            KeyMeaning::File(path) => {
                directories.add_with_ancestors(path.parent());
                files.push(S3ListItem {
                    path,
                    object: Some(object),
                });
            }
            KeyMeaning::Directory(path) => directories.add_with_ancestors(Some(path)),
            KeyMeaning::Reserved | KeyMeaning::NotAPath(_) => {}
        }
    }
    for prefix in &page.prefixes {
        if let KeyMeaning::Directory(path) = layout.classify_key(prefix) {
            directories.add_with_ancestors(Some(path));
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
    items.extend(directories.into_iter().map(|path| S3ListItem { path, object: None }));
    items.retain(|item| is_shown(&item.path));
    // A stable sort is fast here, because these are two runs that are nearly in order.
    items.sort_by(|one, other| one.path.cmp(&other.path));
    items
}

/// The directories that keys imply.
struct ImpliedDirectories<'a> {
    within: &'a WsPath,
    noted: HashSet<WsPath>,
    /// The directory that was added last: keys of one directory come together.
    last: Option<WsPath>,
}

impl<'a> ImpliedDirectories<'a> {
    fn below_directory(within: &'a WsPath) -> Self {
        Self {
            within,
            noted: HashSet::new(),
            last: None,
        }
    }

    /// Adds a directory and those above it.
    fn add_with_ancestors(&mut self, directory: Option<WsPath>) {
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
async fn take_page(shared: &S3Context, mut listing: S3Listing, options: &ListOptions) -> Result<ListPage> {
    let count = listing.ready.len().min(options.limit);
    let items: Vec<_> = listing.ready.drain(..count).collect();
    let targets = link_targets(shared, &items).await?;
    let has_more = !listing.ready.is_empty();
    if let (true, Some(last)) = (has_more, items.last()) {
        listing.last = Some(last.path.clone().into());
        shared.known.keep_listing(listing);
    }
    let entries = items
        .into_iter()
        .zip(targets)
        .map(|(item, target)| to_entry(item, target));
    Ok(ListPage {
        entries: entries.collect(),
        has_more,
    })
}

fn to_entry(item: S3ListItem, target: Option<String>) -> Entry {
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
        kind: kind_by_target(target.as_deref()),
        size: target.as_ref().map_or(object.size, |target| target.len() as u64),
        modified: object.modified,
        version: target.is_none().then(|| Version::new(&object.tag)),
        hard_linked: None,
    }
}

fn kind_by_target(target: Option<&str>) -> EntryKind {
    match target {
        Some(_) => EntryKind::Symlink,
        None => EntryKind::File,
    }
}

/// Returns the target of each item that is a link. Only objects of no bytes get a HEAD request.
async fn link_targets(shared: &S3Context, items: &[S3ListItem]) -> Result<Vec<Option<String>>> {
    let is_empty = |item: &S3ListItem| item.object.as_ref().is_some_and(|object| object.size == 0);
    let looks = items.iter().filter(|item| is_empty(item));
    let looks = looks.map(|item| link_target_of(shared, item).boxed());
    let mut looked = run_concurrently(looks.collect()).await?.into_iter();
    let target = |item| if is_empty(item) { looked.next().flatten() } else { None };
    Ok(items.iter().map(target).collect())
}

/// Returns the target of an empty object, if it is a link.
async fn link_target_of(shared: &S3Context, item: &S3ListItem) -> Result<Option<String>> {
    let Some(listed) = &item.object else { return Ok(None) };
    if let Some(target) = shared
        .known
        .empty_object_target(&listed.key, &listed.tag, listed.modified)
    {
        return Ok(target);
    }
    let object = shared.bucket.head(&listed.key).await;
    let Some(object) = object.map_err(|failure| error_at_path(&item.path, failure))? else {
        return Ok(None);
    };
    shared.known.remember_empty_object(&listed.key, &object);
    Ok(object.metadata.target)
}
