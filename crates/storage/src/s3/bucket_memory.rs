//! The memory of a handle: recent facts about the bucket, so that it need not ask again at once.
//!
//! It holds only facts that do no harm when they are stale: that a name was free (a write is conditional on it all the
//! same), the metadata of an object that is about to be replaced (the replacement is conditional on its ETag), and that
//! an empty object is a link (identified by its ETag and time). No read, stat or list is answered from it. It is
//! forgotten after a few seconds, because no condition covers one case: that another program makes a *directory* of a
//! name that was free.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use garret_core::{Clock, Timestamp, WsPath};

use super::bucket::S3Object;
use super::list::S3Listing;

/// The time for which names and metadata are believed.
const BELIEVED: Duration = Duration::from_secs(5);
const MAX_DIRECTORIES: usize = 1_024;
const MAX_OBJECTS: usize = 4_096;
const MAX_EMPTY: usize = 65_536;
const MAX_MADE: usize = 1_024;
const MAX_LISTINGS: usize = 4;

/// The memory of one handle.
#[derive(Debug)]
pub(super) struct BucketMemory {
    clock: Arc<dyn Clock>,
    inner: Mutex<BucketMemoryState>,
}

#[derive(Debug, Default)]
struct BucketMemoryState {
    directories: HashMap<WsPath, DirectoryChildren>,
    objects: HashMap<WsPath, (Duration, S3Object)>,
    empty: HashMap<String, EmptyObject>,
    listings: VecDeque<S3Listing>,
    /// Directories that this handle made, numbered, for lists that were requested before and answered after.
    made: VecDeque<(u64, WsPath)>,
    count: u64,
}

/// The names in a directory, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectoryChildren {
    pub(super) files: HashSet<String>,
    pub(super) directories: HashSet<String>,
    /// The name from which on names are not known.
    pub(super) until: Option<String>,
    seen: Duration,
}

impl DirectoryChildren {
    /// Returns whether the directory has no names; then it does not exist, unless it is the root.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.directories.is_empty()
    }

    /// Returns whether `name` would be known if it existed.
    pub(super) fn covers(&self, name: &str) -> bool {
        let Some(until) = &self.until else { return true };
        // In the spelling of a key, such a name may stand elsewhere in the order of the server.
        if name.contains('\\') {
            return false;
        }
        let first = until.split('/').next().unwrap_or_default();
        // A directory `name/` may come later in a list than the file `name`, so both must be covered.
        name < first && format!("{name}/").as_str() <= until.as_str()
    }

    fn is_free(&self, name: &str) -> bool {
        self.covers(name) && !self.files.contains(name) && !self.directories.contains(name)
    }
}

/// An empty object whose metadata is known.
#[derive(Debug, Clone)]
struct EmptyObject {
    tag: String,
    modified: Option<Timestamp>,
    target: Option<String>,
}

impl BucketMemory {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            inner: Mutex::default(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, BucketMemoryState> {
        self.inner.lock().expect("no holder panics")
    }

    fn is_fresh(&self, seen: Duration) -> bool {
        self.clock.elapsed().saturating_sub(seen) < BELIEVED
    }

    /// Returns whether, as far as is known, nothing is at `path` and its directory exists.
    pub(super) fn is_free(&self, path: &WsPath) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return false;
        };
        self.children(&parent)
            .is_some_and(|children| (parent.is_root() || !children.is_empty()) && children.is_free(name))
    }

    /// Returns whether, as far as is known, a directory above `path` does not exist, so that nothing is at `path`. Then
    /// the missing directories are remembered as empty, because the write that follows makes them.
    pub(super) fn is_in_new_directory(&self, path: &WsPath) -> bool {
        let above: Vec<_> = path.ancestry().filter(|above| above != path).collect();
        let Some(first) = above.iter().position(|above| self.is_free(above)) else {
            return false;
        };
        let seen = self.clock.elapsed();
        let mut inner = self.lock_state();
        for directory in &above[first..] {
            let fresh = DirectoryChildren {
                seen,
                ..DirectoryChildren::default()
            };
            inner.directories.insert(directory.clone(), fresh);
        }
        true
    }

    /// Returns the names in `directory`, if they are known.
    pub(super) fn children(&self, directory: &WsPath) -> Option<DirectoryChildren> {
        let inner = self.lock_state();
        let children = inner.directories.get(directory)?;
        self.is_fresh(children.seen).then(|| children.clone())
    }

    /// Returns a number to pass back with the result of a list that begins now.
    pub(super) fn current_mark(&self) -> u64 {
        self.lock_state().count
    }

    /// Remembers the names that a list found in `directory`; `mark` is from before the request.
    pub(super) fn remember_children(&self, directory: &WsPath, mut children: DirectoryChildren, mark: u64) {
        children.seen = self.clock.elapsed();
        let mut inner = self.lock_state();
        // The log of made directories was cut since the mark, so the list may lack one of them.
        if inner.made.front().is_some_and(|(first, _)| *first > mark + 1) && inner.made.len() == MAX_MADE {
            return;
        }
        let meanwhile: Vec<_> = inner
            .made
            .iter()
            .filter(|(number, made)| *number > mark && made.parent().as_ref() == Some(directory))
            .filter_map(|(_, made)| made.name().map(str::to_owned))
            .collect();
        children.directories.extend(meanwhile);
        if inner.directories.len() >= MAX_DIRECTORIES {
            inner.directories.clear();
        }
        inner.directories.insert(directory.clone(), children);
    }

    /// Returns the object at `path` as this handle last saw it.
    pub(super) fn object(&self, path: &WsPath) -> Option<S3Object> {
        let inner = self.lock_state();
        let (seen, object) = inner.objects.get(path)?;
        self.is_fresh(*seen).then(|| object.clone())
    }

    /// Remembers an object that was seen.
    pub(super) fn remember_object(&self, path: &WsPath, object: &S3Object) {
        let seen = self.clock.elapsed();
        let mut inner = self.lock_state();
        // Cleared as a whole: the facts expire within seconds, so an order of eviction is not worth keeping.
        if inner.objects.len() >= MAX_OBJECTS {
            inner.objects.clear();
        }
        inner.objects.insert(path.clone(), (seen, object.clone()));
    }

    /// Remembers a file that this handle wrote.
    pub(super) fn remember_write(&self, path: &WsPath, object: &S3Object) {
        self.remember_object(path, object);
        let mut inner = self.lock_state();
        // A kept list would not show this change.
        inner.listings.clear();
        inner.change_children(path, |children, name| {
            children.files.insert(name);
        });
        inner.add_made_ancestors(path);
    }

    /// Remembers a directory that this handle made.
    pub(super) fn remember_directory(&self, path: &WsPath) {
        let mut inner = self.lock_state();
        inner.listings.clear();
        inner.add_made_directory(path);
        inner.add_made_ancestors(path);
    }

    /// Forgets a file that was removed.
    pub(super) fn forget_file(&self, path: &WsPath) {
        let mut inner = self.lock_state();
        inner.listings.clear();
        inner.objects.remove(path);
        inner.change_children(path, |children, name| {
            children.files.remove(&name);
        });
    }

    /// Forgets everything at and below `path`, and the names beside it.
    pub(super) fn forget_tree(&self, path: &WsPath) {
        let mut inner = self.lock_state();
        inner.listings.clear();
        inner.objects.retain(|known, _| !known.is_within(path));
        let parent = path.parent();
        inner
            .directories
            .retain(|known, _| !known.is_within(path) && Some(known) != parent.as_ref());
    }

    /// Returns the target of the empty object at `key`, if its metadata is known: `Some(None)` for a file.
    pub(super) fn empty_object_target(
        &self,
        key: &str,
        tag: &str,
        modified: Option<Timestamp>,
    ) -> Option<Option<String>> {
        let inner = self.lock_state();
        let empty = inner.empty.get(key)?;
        (empty.tag == tag && empty.modified == modified && modified.is_some()).then(|| empty.target.clone())
    }

    /// Remembers whether an empty object is a link.
    pub(super) fn remember_empty_object(&self, key: &str, object: &S3Object) {
        // The time has a grain of a second: a younger object could be followed by another with the same ETag and time.
        let settled = object
            .modified
            .is_some_and(|modified| self.clock.now().as_second() - modified.as_second() > 2);
        if !settled {
            return;
        }
        let mut inner = self.lock_state();
        if inner.empty.len() >= MAX_EMPTY {
            inner.empty.clear();
        }
        let empty = EmptyObject {
            tag: object.tag.clone(),
            modified: object.modified,
            target: object.metadata.target.clone(),
        };
        inner.empty.insert(key.to_owned(), empty);
    }

    /// Keeps a list of which more pages will be requested.
    pub(super) fn keep_listing(&self, listing: S3Listing) {
        let mut inner = self.lock_state();
        if inner.listings.len() >= MAX_LISTINGS {
            inner.listings.pop_front();
        }
        inner.listings.push_back(listing);
    }

    /// Takes out a kept list that fits.
    pub(super) fn take_listing(&self, fits: impl Fn(&S3Listing) -> bool) -> Option<S3Listing> {
        let mut inner = self.lock_state();
        let at = inner.listings.iter().position(fits)?;
        inner.listings.remove(at)
    }
}

impl BucketMemoryState {
    fn change_children(&mut self, path: &WsPath, change: impl FnOnce(&mut DirectoryChildren, String)) {
        if let (Some(parent), Some(name)) = (path.parent(), path.name())
            && let Some(children) = self.directories.get_mut(&parent)
        {
            change(children, name.to_owned());
        }
    }

    fn add_made_ancestors(&mut self, path: &WsPath) {
        for above in path.ancestry().filter(|above| above != path) {
            self.add_made_directory(&above);
        }
    }

    fn add_made_directory(&mut self, path: &WsPath) {
        let mut is_new = true;
        self.change_children(path, |children, name| is_new = children.directories.insert(name));
        if !is_new {
            return;
        }
        self.count += 1;
        self.made.push_back((self.count, path.clone()));
        if self.made.len() > MAX_MADE {
            self.made.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use garret_core::FixedClock;

    use super::super::metadata::ObjectMetadata;
    use super::*;

    fn path(text: &str) -> WsPath {
        WsPath::parse(text).unwrap()
    }

    fn object() -> S3Object {
        S3Object {
            tag: "t".into(),
            size: 0,
            modified: None,
            metadata: ObjectMetadata::default(),
        }
    }

    fn known() -> (Arc<FixedClock>, BucketMemory) {
        let clock = Arc::new(FixedClock::starting_at("2026-11-16T05:00:00Z".parse().unwrap()));
        (clock.clone(), BucketMemory::new(clock))
    }

    #[test]
    fn a_name_is_free_only_where_its_directory_is_known() {
        let (clock, known) = known();
        assert!(!known.is_free(&path("a")));
        known.remember_children(&WsPath::root(), DirectoryChildren::default(), known.current_mark());
        assert!(known.is_free(&path("a")));
        assert!(!known.is_free(&path("a/b")), "nothing is known of `a`");
        clock.advance(BELIEVED);
        assert!(!known.is_free(&path("a")), "it is too long ago");
    }

    #[test]
    fn what_this_handle_makes_is_not_free() {
        let (_, known) = known();
        known.remember_children(&WsPath::root(), DirectoryChildren::default(), known.current_mark());
        known.remember_write(&path("a/b"), &object());
        known.remember_write(&path("f"), &object());
        assert!(!known.is_free(&path("a")) && !known.is_free(&path("f")));
        known.forget_file(&path("f"));
        assert!(known.is_free(&path("f")));
    }

    #[test]
    fn a_directory_made_while_a_list_was_under_way_is_not_lost() {
        let (_, known) = known();
        let mark = known.current_mark();
        known.remember_write(&path("a/b"), &object());
        known.remember_children(&WsPath::root(), DirectoryChildren::default(), mark);
        assert!(!known.is_free(&path("a")));
    }

    #[test]
    fn what_is_made_in_a_new_directory_is_known() {
        let (_, known) = known();
        known.remember_children(&WsPath::root(), DirectoryChildren::default(), known.current_mark());
        assert!(!known.is_in_new_directory(&path("f")));
        assert!(known.is_in_new_directory(&path("a/b/c")));
        known.remember_write(&path("a/b/c"), &object());
        assert!(known.is_free(&path("a/b/d")) && known.is_free(&path("a/e")));
        assert!(!known.is_free(&path("a/b")));
        assert!(!known.is_in_new_directory(&path("a/b/d")));
    }

    #[test]
    fn a_part_of_a_list_knows_only_its_part() {
        let children = DirectoryChildren {
            until: Some("a-b".into()),
            ..DirectoryChildren::default()
        };
        assert!(children.covers("A") && children.covers("a!"));
        assert!(!children.covers("a"), "`a/` comes after `a-b`");
        assert!(!children.covers("b"));
    }

    #[test]
    fn a_young_empty_object_is_not_remembered() {
        let (clock, known) = known();
        let mut link = object();
        link.modified = Some(clock.now());
        known.remember_empty_object("k", &link);
        assert_eq!(known.empty_object_target("k", "t", link.modified), None);
        clock.advance(Duration::from_secs(3));
        known.remember_empty_object("k", &link);
        assert_eq!(known.empty_object_target("k", "t", link.modified), Some(None));
        assert_eq!(known.empty_object_target("k", "t", None), None);
    }
}
