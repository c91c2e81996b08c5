//! What a view keeps from its commands: paths that do not exist for them, and paths that they may not change.
//!
//! What they see is decided by a filter, which the sandbox asks about the very state of the bench that it lays a layer over. So no path that
//! comes to the files before, while or after a layer is laid can be missing from a list.
//!
//! What they may not change is a list of paths. Where a rule on writing depends on paths, the tree is looked through, as far as a rule could
//! tell apart what is there. A path that comes later is judged when the command ends, as what it makes anew.

use std::sync::Arc;

use garret_core::{
    Access, Entry, EntryKind, EntryPath, ErrorKind, Follow, History, Image, ListOptions, Point, ReadFilter, Result,
    Visibility, WsPath,
};

use super::workshop::Workshop;
use crate::Workspace;
use crate::workspace::View;

/// What a sandbox is asked to keep from commands.
#[derive(Debug, Clone, Default)]
pub(super) struct Fence {
    /// What they see; without one, everything.
    pub(super) filter: Option<Arc<ViewFilter>>,
    pub(super) read_only: Vec<WsPath>,
}

impl PartialEq for Fence {
    fn eq(&self, other: &Self) -> bool {
        let has_same_filter = match (&self.filter, &other.filter) {
            (None, None) => true,
            (Some(one), Some(other)) => one.view.has_rules_of(&other.view),
            _ => false,
        };
        has_same_filter && self.read_only == other.read_only
    }
}

/// Shows what a view may read, and the way to its directory.
#[derive(Debug)]
pub(super) struct ViewFilter {
    view: Arc<View>,
}

impl ReadFilter for ViewFilter {
    fn visibility(&self, path: &EntryPath, kind: EntryKind) -> Visibility {
        self.view.visibility(path, kind)
    }
}

/// What was found for a view when the journal was at a change.
#[derive(Debug, Clone)]
pub(super) struct KnownFence {
    view: Arc<View>,
    head: u64,
    read_only: Vec<WsPath>,
}

/// Whether nothing came, went or became something else between two changes.
async fn is_same_shape(history: &dyn History, from: u64, to: u64) -> Result<bool> {
    if from == to {
        return Ok(true);
    }
    let kind = |image: &Option<Image>| image.as_ref().map(|image| image.kind);
    let (from, to) = (Point::Number(from), Point::Number(to));
    match history.diff(&from, &to, &WsPath::root()).await {
        Ok(changes) => Ok(changes.iter().all(|change| kind(&change.before) == kind(&change.after))),
        // The journal no longer knows.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Workspace {
    /// What this view keeps from its commands, with the paths that the tree has now.
    pub(super) async fn fence(&self) -> Result<Fence> {
        Ok(Fence {
            filter: self.read_filter(),
            read_only: self.read_only_paths().await?,
        })
    }

    /// What commands of this view see, where that is not everything.
    fn read_filter(&self) -> Option<Arc<ViewFilter>> {
        let view = self.view.clone();
        self.view.hides_paths().then(|| Arc::new(ViewFilter { view }))
    }

    fn depends_on_path_to_write(&self) -> bool {
        let mut layers = self.view.layers.iter();
        layers.any(|layer| layer.rules.depends_on_path_to_write())
    }

    /// What of the tree, as it is now, commands of this view may not change.
    async fn read_only_paths(&self) -> Result<Vec<WsPath>> {
        if self.view.layers.iter().any(|layer| layer.rules.policy().read_only) {
            return Ok(vec![WsPath::root()]);
        }
        let mut read_only = Vec::new();
        if !self.depends_on_path_to_write() {
            return Ok(read_only);
        }
        let mut ahead = vec![WsPath::root()];
        while let Some(next) = ahead.pop() {
            for entry in self.entries_of(&next).await? {
                ahead.extend(self.fence_entry(&entry, &mut read_only));
            }
        }
        Ok(read_only)
    }

    /// Whether no rule tells apart what is below a directory.
    fn is_uniform_below(&self, directory: &WsPath) -> bool {
        self.view.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.is_uniform_below(&relative))
        })
    }

    /// What this view keeps from its commands. Where the files change by the journal alone, the paths that were found before hold as long as
    /// the journal says that nothing came or went.
    pub(super) async fn fence_in(&self, shop: &Workshop) -> Result<Fence> {
        let Some(history) = self
            .shared
            .history
            .clone()
            .filter(|_| !shop.is_direct && self.depends_on_path_to_write())
        else {
            return self.fence().await;
        };
        let head = history.head().await?;
        let mut known = shop.fence.lock().await;
        let of_view = known.as_ref().filter(|known| self.has_rules_of(&known.view));
        if let Some(one) = of_view
            && one.head <= head
            && is_same_shape(&*history, one.head, head).await?
        {
            let read_only = one.read_only.clone();
            *known = Some(KnownFence { head, ..one.clone() });
            return Ok(Fence {
                filter: self.read_filter(),
                read_only,
            });
        }
        let fence = self.fence().await?;
        *known = Some(KnownFence {
            view: self.view.clone(),
            head,
            read_only: fence.read_only.clone(),
        });
        Ok(fence)
    }

    async fn entries_of(&self, path: &WsPath) -> Result<Vec<Entry>> {
        let mut options = ListOptions {
            follow: Follow::Never,
            ..ListOptions::default()
        };
        let mut entries = Vec::new();
        loop {
            let page = match self.storage().list(path, options.clone()).await {
                // Somebody else took it away meanwhile.
                Err(error) if error.kind() == garret_core::ErrorKind::NotFound => return Ok(entries),
                page => page?,
            };
            entries.extend(page.entries);
            match entries.last().filter(|_| page.has_more) {
                Some(last) => options.after = Some(last.path.clone()),
                None => return Ok(entries),
            }
        }
    }

    /// Notes an entry that may not be changed; gives back a directory in which some entries may be and others not.
    fn fence_entry(&self, entry: &Entry, read_only: &mut Vec<WsPath>) -> Option<WsPath> {
        let base = &self.view.base;
        let is_directory = entry.kind == EntryKind::Directory;
        // A name that no rule can judge is judged when somebody changed it.
        let path = entry.path.as_path()?;
        if base.is_within(path) && path != base {
            return is_directory.then(|| path.clone());
        }
        let is_hidden = !path.is_within(base) || (path != base && !self.is_visible(path, is_directory));
        if is_hidden {
            return None;
        }
        let may_write = match is_directory {
            true => self.check_directory(path).is_ok(),
            false => self.check_rules(path, &[Access::Write]).is_ok(),
        };
        if !may_write {
            read_only.push(path.clone());
            return None;
        }
        (is_directory && !self.is_uniform_below(path)).then(|| path.clone())
    }
}
