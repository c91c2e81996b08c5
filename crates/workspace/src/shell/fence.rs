//! What a view keeps from its commands: paths that do not exist for them, and paths that they may not change.
//!
//! Rules are patterns and a sandbox takes paths, so where a rule depends on paths the tree is looked through, as far as a rule could tell
//! apart what is there; a view without such rules costs nothing. What a command makes anew is judged when it ends.

use std::sync::Arc;

use garret_core::{Access, Entry, EntryKind, ErrorKind, Follow, History, Image, ListOptions, Point, Result, WsPath};

use super::workshop::Workshop;
use crate::Workspace;
use crate::workspace::View;

/// The paths, for a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) hidden: Vec<WsPath>,
    pub(super) read_only: Vec<WsPath>,
}

/// What was found for a view when the journal was at a change.
#[derive(Debug, Clone)]
pub(super) struct KnownFence {
    view: Arc<View>,
    head: u64,
    fence: Fence,
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

/// A directory to look through.
struct Ahead {
    path: WsPath,
    /// Whether it is read-only as a whole already.
    is_read_only: bool,
}

impl Workspace {
    /// What of the tree, as it is now, this view keeps from its commands.
    pub(super) async fn fence(&self) -> Result<Fence> {
        let mut fence = Fence::default();
        let is_read_only = self.view.layers.iter().any(|layer| layer.rules.policy().read_only);
        if is_read_only {
            fence.read_only.push(WsPath::root());
        }
        if !self.is_fenced() {
            return Ok(fence);
        }
        let path = WsPath::root();
        let mut ahead = vec![Ahead { path, is_read_only }];
        while let Some(next) = ahead.pop() {
            for entry in self.entries_of(&next.path).await? {
                ahead.extend(self.fence_entry(&entry, &next, &mut fence));
            }
        }
        Ok(fence)
    }

    /// Whether no rule tells apart what is below a directory.
    fn is_uniform_below(&self, directory: &WsPath) -> bool {
        self.view.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.is_uniform_below(&relative))
        })
    }

    /// The same as [`Workspace::fence`] where the files change by the journal alone: as long as that says that nothing came or went, what
    /// was found before holds.
    pub(super) async fn fence_in(&self, shop: &Workshop) -> Result<Fence> {
        let Some(history) = self
            .shared
            .history
            .clone()
            .filter(|_| !shop.is_direct && self.is_fenced())
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
            let fence = one.fence.clone();
            *known = Some(KnownFence { head, ..one.clone() });
            return Ok(fence);
        }
        let fence = self.fence().await?;
        *known = Some(KnownFence {
            view: self.view.clone(),
            head,
            fence: fence.clone(),
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

    /// Notes what holds of an entry; gives it back where what is in it must be looked at too.
    fn fence_entry(&self, entry: &Entry, above: &Ahead, fence: &mut Fence) -> Option<Ahead> {
        let base = &self.view.base;
        let is_directory = entry.kind == EntryKind::Directory;
        let Some(path) = entry.path.as_path() else {
            // A name that no rule can judge goes with its directory, where that may go.
            let may_hide = above.path.is_within(base) && above.path != *base;
            if may_hide && !self.is_entry_visible(&entry.path, is_directory) {
                fence.hidden.push(above.path.clone());
            }
            return None;
        };
        if base.is_within(path) && path != base {
            let is_read_only = above.is_read_only;
            let path = path.clone();
            return is_directory.then_some(Ahead { path, is_read_only });
        }
        if !path.is_within(base) || (path != base && !self.is_visible(path, is_directory)) {
            fence.hidden.push(path.clone());
            return None;
        }
        let may_write = match is_directory {
            true => self.check_directory(path).is_ok(),
            false => self.check_rules(path, &[Access::Write]).is_ok(),
        };
        if !may_write && !above.is_read_only {
            fence.read_only.push(path.clone());
        }
        (is_directory && !self.is_uniform_below(path)).then(|| Ahead {
            path: path.clone(),
            is_read_only: above.is_read_only || !may_write,
        })
    }
}
