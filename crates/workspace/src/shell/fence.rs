//! What a view keeps from its commands: paths that do not exist for them, and paths that they may not change.
//!
//! Rules are patterns and a sandbox takes paths, so where a rule depends on paths the tree is looked through; a view without such rules
//! costs nothing. What a command makes anew is judged when it ends.

use garret_core::{Access, Entry, EntryKind, Follow, ListOptions, Result, WsPath};

use crate::Workspace;

/// The paths, for a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) hidden: Vec<WsPath>,
    pub(super) read_only: Vec<WsPath>,
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
        let has_rules = self.view.layers.iter().any(|layer| layer.rules.depends_on_path());
        (is_directory && has_rules).then(|| Ahead {
            path: path.clone(),
            is_read_only: above.is_read_only || !may_write,
        })
    }
}
