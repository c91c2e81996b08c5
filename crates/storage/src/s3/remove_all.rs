//! Removing many files and directories that a batch names one by one: concurrently, each on its condition.
//!
//! The files that a command deleted, or that undo removes, come as a run of removals, the content of a directory before
//! the directory. Everything is checked before anything is removed: that each entry exists, that it satisfies its
//! precondition, and that no directory holds an entry that is not in the run. A directory that loses its last entry and
//! stays gets its marker, once.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::FutureExt;
use garret_core::{Error, Follow, Mutation, MutationOutcome, Precondition, Result, WsPath};

use super::batch::S3BatchRun;
use super::bucket::S3Object;
use super::concurrent::run_concurrently;
use super::keys::KeyMeaning;
use super::locate::{S3FinalLink, S3FoundEntry, error_at_path};
use super::metadata::ObjectMetadata;
use super::remove::GONE;
use super::stat::version_of;
use super::wire::xml::ListedObject;

/// Returns the removals at the front of a batch that can be done together; none if there is only one.
pub(super) fn leading_removals<'m>(mutations: &'m [Mutation], follow: Follow) -> Vec<BatchRemoval<'m>> {
    let mut seen = HashSet::new();
    let removal = |mutation: &'m Mutation| match mutation {
        Mutation::Remove {
            path,
            recursive: false,
            precondition,
        } if follow == Follow::Never && seen.insert(path) => Some(BatchRemoval { path, precondition }),
        _ => None,
    };
    let run: Vec<_> = mutations.iter().map_while(removal).collect();
    match run.len() {
        1 => Vec::new(),
        _ => run,
    }
}

/// A removal in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchRemoval<'m> {
    path: &'m WsPath,
    precondition: &'m Precondition,
}

/// The entries of a run, sorted by kind.
#[derive(Debug, Default)]
struct RemovalSet<'m> {
    files: BTreeMap<&'m WsPath, S3Object>,
    directories: BTreeSet<&'m WsPath>,
}

impl RemovalSet<'_> {
    fn contains_path(&self, path: &WsPath) -> bool {
        self.files.contains_key(path) || self.directories.contains(path)
    }

    /// Returns the directories that are in no other directory of the run.
    fn topmost_directories(&self) -> impl Iterator<Item = &WsPath> {
        let is_inside = |path: &WsPath| {
            path.ancestry()
                .any(|above| above != *path && self.directories.contains(&above))
        };
        self.directories.iter().copied().filter(move |path| !is_inside(path))
    }

    /// Returns the directories that stay and lose an entry.
    fn parents_losing_entries(&self) -> BTreeSet<WsPath> {
        let all = self.files.keys().chain(&self.directories);
        let parents = all.filter_map(|path| path.parent());
        parents
            .filter(|parent| !parent.is_root() && !self.contains_path(parent))
            .collect()
    }
}

impl S3BatchRun<'_> {
    /// Removes every entry of the run. Fails before anything is removed, unless another program interferes.
    pub(super) async fn remove_all(&self, run: &[BatchRemoval<'_>]) -> Result<Vec<MutationOutcome>> {
        let going = self.look_at_all(run).await?;
        let topmost: Vec<_> = going.topmost_directories().collect();
        let lists = topmost.iter().map(|path| self.list_objects_below(path).boxed());
        let lists = run_concurrently(lists.collect()).await?;
        let mut markers = Vec::new();
        for object in lists.into_iter().flatten() {
            markers.extend(self.marker_or_file(&going, object)?);
        }
        let losing = going.parents_losing_entries();
        // The markers come before the removals: in between, a directory would not exist.
        let kept = losing
            .iter()
            .map(|parent| self.preserve_parent_without(parent, &going).boxed());
        run_concurrently(kept.collect()).await?;
        let discards = going
            .files
            .iter()
            .map(|(path, object)| self.discard_or_retry(path, object, run).boxed());
        run_concurrently(discards.collect()).await?;
        self.discard_markers(markers).await?;
        topmost.iter().for_each(|path| self.shared.known.forget_tree(path));
        Ok(vec![GONE; run.len()])
    }

    /// Removes markers, the deepest first.
    async fn discard_markers(&self, mut markers: Vec<ListedObject>) -> Result<()> {
        let depth = |marker: &ListedObject| std::cmp::Reverse(marker.key.matches('/').count());
        // Some servers refuse to remove a directory that holds another.
        markers.sort_by_key(depth);
        for level in markers.chunk_by(|one, other| depth(one) == depth(other)) {
            self.discard_all(&WsPath::root(), level).await?;
        }
        Ok(())
    }

    /// Finds every entry of the run, and checks each as if it were removed alone.
    async fn look_at_all<'m>(&self, run: &[BatchRemoval<'m>]) -> Result<RemovalSet<'m>> {
        let named: HashSet<_> = run.iter().map(|removal| removal.path).collect();
        let mut holders = HashSet::new();
        for removal in run {
            let above = removal.path.ancestry().filter(|above| above != removal.path);
            holders.extend(above.filter(|above| named.contains(above)));
        }
        let looks = run
            .iter()
            .map(|removal| self.look_at(*removal, holders.contains(removal.path)).boxed());
        let mut going = RemovalSet::default();
        for (removal, object) in run.iter().zip(run_concurrently(looks.collect()).await?) {
            match object {
                Some(object) => drop(going.files.insert(removal.path, object)),
                None => drop(going.directories.insert(removal.path)),
            }
        }
        Ok(going)
    }

    /// Returns the object to remove; `None` for a directory.
    async fn look_at(&self, removal: BatchRemoval<'_>, is_holder: bool) -> Result<Option<S3Object>> {
        let BatchRemoval { path, precondition } = removal;
        if path.is_root() {
            return Err(Error::root_denied("removed"));
        }
        let found = if is_holder {
            // No request: an entry that holds another of the run is a directory, or the check of that other fails.
            S3FoundEntry::Directory { has_marker: false }
        } else {
            let located = self
                .shared
                .locate_entry(path, self.link_rules(S3FinalLink::Kept))
                .await?;
            match located.found {
                S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => return Err(located.missing_error()),
                found => found,
            }
        };
        match found {
            S3FoundEntry::File(object) => {
                precondition.check_version(path, Some(&version_of(&object)))?;
                Ok(Some(object))
            }
            _ if *precondition != Precondition::Any => Err(Error::conflict(path, None)),
            S3FoundEntry::Link(object) => Ok(Some(object)),
            _ => Ok(None),
        }
    }

    /// Returns the object if it is the marker of a directory in the run, `None` if it is a file in the run, and an
    /// error if it is not in the run.
    fn marker_or_file(&self, going: &RemovalSet<'_>, object: ListedObject) -> Result<Option<ListedObject>> {
        let stray = match self.shared.layout.classify_key(&object.key) {
            KeyMeaning::File(path) if going.files.contains_key(&path) => return Ok(None),
            KeyMeaning::Directory(path) if going.directories.contains(&path) => return Ok(Some(object)),
            KeyMeaning::File(path) | KeyMeaning::Directory(path) => path,
            // Such keys were refused when the list was made.
            KeyMeaning::Reserved | KeyMeaning::NotAPath(_) => return Ok(None),
        };
        let above = stray
            .ancestry()
            .filter(|above| *above != stray && going.directories.contains(above));
        let holder = above.last().unwrap_or(stray);
        Err(Error::not_empty(&holder).hint("set `recursive` to remove it with everything in it"))
    }

    /// Makes sure that a directory stays after the removals: writes its marker if no other key holds it.
    async fn preserve_parent_without(&self, parent: &WsPath, going: &RemovalSet<'_>) -> Result<()> {
        let prefix = self.shared.layout.directory_key(parent);
        let page = self.shared.bucket.list_all(&prefix, true).await;
        let page = page.map_err(|failure| error_at_path(parent, failure))?;
        let layout = &self.shared.layout;
        let stays = |key: &str| match layout.classify_key(key) {
            KeyMeaning::File(path) | KeyMeaning::Directory(path) => !going.contains_path(&path),
            KeyMeaning::Reserved | KeyMeaning::NotAPath(_) => true,
        };
        let is_held = page.objects.iter().any(|object| stays(&object.key));
        // A prefix may be a ghost, a directory that the server still shows although it is empty.
        let by_directory = page.prefixes.iter().any(|prefix| stays(prefix)) && !self.shared.abilities.shows_ghosts;
        if is_held || by_directory {
            Ok(())
        } else {
            self.put_marker(parent, ObjectMetadata::new(self.shared.clock.now()))
                .await
        }
    }

    async fn discard_or_retry(&self, path: &WsPath, object: &S3Object, run: &[BatchRemoval<'_>]) -> Result<()> {
        if self.discard_object(path, object).await? {
            return Ok(());
        }
        // Another program changed the file: check and remove it again, as if it were alone.
        let removal = run.iter().find(|removal| removal.path == path);
        let precondition = removal.map_or(&Precondition::Any, |removal| removal.precondition);
        self.remove(path, false, precondition).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remove(text: &str, recursive: bool) -> Mutation {
        Mutation::Remove {
            path: WsPath::parse(text).unwrap(),
            recursive,
            precondition: Precondition::Any,
        }
    }

    #[test]
    fn removals_that_stand_together_go_together() {
        let count = |mutations: &[Mutation], follow| leading_removals(mutations, follow).len();
        let run = [remove("d/a", false), remove("d/b", false), remove("d", false)];
        assert_eq!(count(&run, Follow::Never), 3);
        assert_eq!(count(&run, Follow::Inside), 0, "a link may make two of them one");
        assert_eq!(count(&run[..1], Follow::Never), 0);
        assert_eq!(count(&[remove("a", false), remove("a", false)], Follow::Never), 0);
        let mixed = [
            remove("a", false),
            remove("b", false),
            remove("c", true),
            remove("d", false),
        ];
        assert_eq!(count(&mixed, Follow::Never), 2);
    }
}
