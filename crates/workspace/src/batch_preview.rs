//! The paths that a batch of mutations changes, with the states before and after as far as a limit needs them.

use std::collections::BTreeMap;

use garret_core::{Batch, EntryKind, EntryPath, Follow, Mutation, PathChange, PathImage, Result, WsPath};

use crate::admission::PathSubject;
use crate::file_access::FileAccess;
use crate::path_images::{bare_image, read_image};

/// The changes of a batch so far.
struct BatchPreview<'a> {
    files: &'a FileAccess,
    /// How the batch treats links in its paths.
    follow: Follow,
    /// Whether a quota needs the states before.
    has_quota: bool,
    /// The entries that earlier mutations left: a file that one removes must not be removed again by the next.
    changed: BTreeMap<EntryPath, Option<PathImage>>,
    paths: Vec<PathChange>,
}

impl FileAccess {
    /// Returns the paths that a batch of admitted mutations changes, in its order. Without a limit on sizes, a quota or
    /// excluded paths, nothing is looked at and none are returned.
    pub(crate) async fn preview_batch(&self, batch: &Batch) -> Result<Vec<PathChange>> {
        let layers = &self.view.layers;
        let has_quota = layers.iter().any(|layer| layer.quota.is_some());
        let is_sized = |mutation: &Mutation| {
            matches!(
                mutation,
                Mutation::Write { .. } | Mutation::Append { .. } | Mutation::Copy { .. }
            )
        };
        let has_sizes = layers
            .iter()
            .any(|layer| layer.rules.policy().max_file_size_mb.is_some());
        let needs_all = has_quota || !self.source.exclusions.is_empty();
        let mut preview = BatchPreview {
            files: self,
            follow: batch.follow,
            has_quota,
            changed: BTreeMap::new(),
            paths: Vec::new(),
        };
        for mutation in &batch.mutations {
            if needs_all || has_sizes && is_sized(mutation) {
                preview.add_mutation(mutation).await?;
            }
        }
        Ok(preview.paths)
    }
}

impl BatchPreview<'_> {
    async fn add_mutation(&mut self, mutation: &Mutation) -> Result<()> {
        match mutation {
            Mutation::Write { path, content, .. } => {
                let path = self.resolve_content(path).await;
                let after = bare_image(EntryKind::File, content.len());
                let before = self.read_before(&path, false).await?;
                self.add_change(path.into(), before, Some(after));
            }
            Mutation::Append { path, content, .. } => {
                let path = self.resolve_content(path).await;
                let before = self.read_before(&path, true).await?;
                let size = before.as_ref().map_or(0, |before| before.size) + content.len() as u64;
                self.add_change(path.into(), before, Some(bare_image(EntryKind::File, size)));
            }
            Mutation::Copy { from, to, .. } => {
                let (from, to) = (self.resolve_content(from).await, self.resolve_entry(to).await);
                let copied = self.read_before(&from, true).await?;
                if from != to {
                    let before = self.read_before(&to, false).await?;
                    self.add_change(to.into(), before, copied);
                }
            }
            Mutation::Remove { path, .. } if self.has_quota => {
                let path = self.resolve_entry(path).await;
                for (path, image) in self.read_tree(&path).await? {
                    self.add_change(path, Some(image), None);
                }
            }
            Mutation::Rename { from, to, .. } => {
                let (from, to) = (self.resolve_entry(from).await, self.resolve_entry(to).await);
                if from != to {
                    self.add_move(&from, &to).await?;
                }
            }
            Mutation::MakeDir { path, .. } => {
                let path = self.resolve_entry(path).await;
                self.add_change(path.into(), None, Some(bare_image(EntryKind::Directory, 0)));
            }
            Mutation::Symlink { path, .. } => {
                let path = self.resolve_entry(path).await;
                self.add_change(path.into(), None, Some(bare_image(EntryKind::Symlink, 0)));
            }
            Mutation::Remove { .. } | Mutation::SetMode { .. } => {}
        }
        Ok(())
    }

    async fn add_move(&mut self, from: &WsPath, to: &WsPath) -> Result<()> {
        let moved = self.read_tree(from).await?;
        let replaced = if self.has_quota {
            self.read_tree(to).await?
        } else {
            BTreeMap::new()
        };
        for (path, image) in replaced {
            self.add_change(path, Some(image), None);
        }
        for (path, image) in moved {
            let place = [to.as_str().as_bytes(), &path.as_bytes()[from.as_str().len()..]].concat();
            self.add_change(path, Some(image.clone()), None);
            self.add_change(EntryPath::from_bytes(place), None, Some(image));
        }
        Ok(())
    }

    fn add_change(&mut self, path: EntryPath, before: Option<PathImage>, after: Option<PathImage>) {
        self.changed.insert(path.clone(), after.clone());
        self.paths.push(PathChange { path, before, after });
    }

    /// Returns `path` with the links above it followed, or unchanged if it cannot be resolved.
    async fn resolve_entry(&self, path: &WsPath) -> WsPath {
        self.resolve_or_keep(path, PathSubject::Entry).await
    }

    /// Returns the path of the content that `path` leads to, or `path` itself if it cannot be resolved.
    async fn resolve_content(&self, path: &WsPath) -> WsPath {
        if !self.changed.is_empty() {
            let entry = self.resolve_entry(path).await;
            // The storage still has the entry from before the batch: a link there may be a file by now, and must not be
            // followed.
            if self.changed.contains_key(&EntryPath::from(entry.clone())) {
                return entry;
            }
        }
        self.resolve_or_keep(path, PathSubject::Content).await
    }

    async fn resolve_or_keep(&self, path: &WsPath, names: PathSubject) -> WsPath {
        match self.follow {
            // An earlier mutation of the batch may make the directories of this path; the storage, which sees them all,
            // decides.
            Follow::Inside => self.files.real_path(path, names).await.unwrap_or_else(|_| path.clone()),
            Follow::Never => path.clone(),
        }
    }

    /// Returns the entry at a resolved path, if a quota or the caller needs it.
    async fn read_before(&self, path: &WsPath, is_needed: bool) -> Result<Option<PathImage>> {
        match self.changed.get(&EntryPath::from(path.clone())) {
            Some(left) => Ok(left.clone()),
            None if self.has_quota || is_needed => read_image(self.files.storage(), path).await,
            None => Ok(None),
        }
    }

    /// Returns the entry at a resolved path, and everything below it.
    async fn read_tree(&self, path: &WsPath) -> Result<BTreeMap<EntryPath, PathImage>> {
        let mut tree = BTreeMap::new();
        let Some(top) = self.read_before(path, true).await? else {
            return Ok(tree);
        };
        if top.kind == EntryKind::Directory {
            let below = self.files.entries_below(path, Follow::Never).await?;
            tree.extend(
                below
                    .into_iter()
                    .map(|entry| (entry.path, bare_image(entry.kind, entry.size))),
            );
            for (changed, left) in &self.changed {
                match left {
                    None => drop(tree.remove(changed)),
                    Some(left) if changed.as_path().is_some_and(|one| one != path && one.is_within(path)) => {
                        tree.insert(changed.clone(), left.clone());
                    }
                    Some(_) => {}
                }
            }
        }
        tree.insert(path.clone().into(), top);
        Ok(tree)
    }
}
