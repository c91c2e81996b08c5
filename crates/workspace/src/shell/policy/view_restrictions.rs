//! The restrictions of a view on its commands: paths that they do not see, and paths that they may not change.
//!
//! A filter decides which paths they see. The sandbox asks it about the very state of the bench that it lays a layer
//! over. A list would miss the paths that come to the files before, while or after a layer is laid.
//!
//! The paths that they may not change are a list. If a rule on writing depends on paths, the tree is walked as deep as
//! the rules differ between entries. A path that comes later is judged when the command has ended, as a new file of the
//! command is.

use std::sync::Arc;

use garret_core::{
    Access, Entry, EntryKind, EntryPath, ErrorKind, Follow, History, ListAllOptions, PathImage, Point, ReadFilter,
    Result, Storage, Visibility, WsPath, list_all,
};

use crate::file_access::FileAccess;
use crate::shell::runtime::ShellRuntime;
use crate::view::WorkspaceView;

/// The restrictions that a sandbox is asked to enforce for the commands of a view.
#[derive(Debug, Clone, Default)]
pub(in crate::shell) struct ViewRestrictions {
    /// Decides which paths they see; `None` for all paths.
    pub(in crate::shell) filter: Option<Arc<ViewFilter>>,
    pub(in crate::shell) read_only: Vec<WsPath>,
    /// The scope to which their home directory belongs.
    pub(in crate::shell) home_scope: String,
}

impl PartialEq for ViewRestrictions {
    fn eq(&self, other: &Self) -> bool {
        let has_same_filter = match (&self.filter, &other.filter) {
            (None, None) => true,
            (Some(one), Some(other)) => one.view.has_same_rules(&other.view),
            _ => false,
        };
        has_same_filter && self.read_only == other.read_only && self.home_scope == other.home_scope
    }
}

/// Shows the paths that a view may read, and the directories above the view's own.
#[derive(Debug)]
pub(in crate::shell) struct ViewFilter {
    view: Arc<WorkspaceView>,
}

impl ReadFilter for ViewFilter {
    fn entry_visibility(&self, path: &EntryPath, kind: EntryKind) -> Visibility {
        self.view.visibility_of(path, kind)
    }
}

/// The read-only paths that were found for a view when the journal was at the change `head`.
#[derive(Debug, Clone)]
pub(in crate::shell) struct CachedRestrictions {
    view: Arc<WorkspaceView>,
    head: u64,
    read_only: Vec<WsPath>,
}

/// Whether no path was created, removed or changed in kind between two changes.
async fn has_same_entries(history: &dyn History, from: u64, to: u64) -> Result<bool> {
    if from == to {
        return Ok(true);
    }
    let kind = |image: &Option<PathImage>| image.as_ref().map(|image| image.kind);
    let (from, to) = (Point::Number(from), Point::Number(to));
    match history.diff(&from, &to, &WsPath::root()).await {
        Ok(changes) => Ok(changes.iter().all(|change| kind(&change.before) == kind(&change.after))),
        // The journal no longer holds one of the changes, so it cannot compare them.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl FileAccess {
    /// Returns the restrictions of this view, with the read-only paths that the tree has now.
    pub(in crate::shell) async fn find_restrictions(&self) -> Result<ViewRestrictions> {
        Ok(ViewRestrictions {
            filter: self.read_filter(),
            read_only: self.read_only_paths().await?,
            home_scope: self.view.home_scope(),
        })
    }

    /// Returns the paths of the present tree that commands of this view may not change.
    async fn read_only_paths(&self) -> Result<Vec<WsPath>> {
        if self.view.layers.iter().any(|layer| layer.rules.policy().read_only) {
            return Ok(vec![WsPath::root()]);
        }
        let mut read_only = Vec::new();
        if !self.view.depends_on_path_to_write() {
            return Ok(read_only);
        }
        let mut ahead = vec![WsPath::root()];
        while let Some(next) = ahead.pop() {
            for entry in list_directory_entries(self.storage(), &next).await? {
                ahead.extend(self.view.restrict_entry(&entry, &mut read_only));
            }
        }
        Ok(read_only)
    }

    /// Returns the filter on the paths that commands of this view see; `None` if they see all paths.
    fn read_filter(&self) -> Option<Arc<ViewFilter>> {
        let view = self.view.clone();
        self.view.hides_paths().then(|| Arc::new(ViewFilter { view }))
    }
}

impl WorkspaceView {
    /// Returns the scope to which the home directory of the commands belongs; empty for the workspace itself. Scopes with
    /// other directories or policies have other homes, because a home would carry what one may read to the other.
    pub(in crate::shell) fn home_scope(&self) -> String {
        let scopes = self.layers.iter().skip(1);
        let written: Vec<_> = scopes
            .map(|layer| (layer.base.as_str(), layer.rules.policy()))
            .collect();
        if written.is_empty() {
            return String::new();
        }
        serde_json::to_string(&written).expect("a policy has a JSON form")
    }

    /// Returns whether `scope`, as [`WorkspaceView::home_scope`] writes it, is that of this view or of a scope in it.
    pub(in crate::shell) fn encloses_home_scope(&self, scope: &str) -> bool {
        // The list of a scope in it begins with the same layers.
        scope.starts_with(self.home_scope().trim_end_matches(']'))
    }

    fn depends_on_path_to_write(&self) -> bool {
        let mut layers = self.layers.iter();
        layers.any(|layer| layer.rules.depends_on_path_to_write())
    }

    /// Whether every rule treats all paths below a directory alike.
    fn is_uniform_below(&self, directory: &WsPath) -> bool {
        self.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.is_uniform_below(&relative))
        })
    }

    /// Adds an entry that may not be changed to `read_only`. Returns the path of a directory if some entries in it may
    /// be changed and others may not.
    fn restrict_entry(&self, entry: &Entry, read_only: &mut Vec<WsPath>) -> Option<WsPath> {
        let base = &self.base;
        let is_directory = entry.kind == EntryKind::Directory;
        // No rule can name a path that is not UTF-8. The review judges it if a command changes it.
        let path = entry.path.as_path()?;
        if base.is_within(path) && path != base {
            return is_directory.then(|| path.clone());
        }
        let is_hidden = !path.is_within(base) || (path != base && !self.is_visible(path, is_directory));
        if is_hidden {
            return None;
        }
        let may_write = if is_directory {
            self.check_directory(path).is_ok()
        } else {
            self.check_rules(path, &[Access::Write]).is_ok()
        };
        if !may_write {
            read_only.push(path.clone());
            return None;
        }
        (is_directory && !self.is_uniform_below(path)).then(|| path.clone())
    }
}

impl ShellRuntime {
    /// Returns the restrictions of a view. If all changes of the files go through the journal, the read-only paths
    /// that were found before are used again until the journal shows that a path came, went or changed in kind.
    pub(in crate::shell) async fn cached_restrictions(&self, files: &FileAccess) -> Result<ViewRestrictions> {
        let Some(history) = files
            .source
            .history
            .clone()
            .filter(|_| !self.is_direct && files.view.depends_on_path_to_write())
        else {
            return files.find_restrictions().await;
        };
        // The head is read before the tree is walked: a change during the walk is then found by the next comparison.
        let head = history.head().await?;
        let mut known = self.known_restrictions.lock().await;
        let of_view = known.as_ref().filter(|known| files.view.has_same_rules(&known.view));
        if let Some(one) = of_view
            && one.head <= head
            && has_same_entries(&*history, one.head, head).await?
        {
            let read_only = one.read_only.clone();
            *known = Some(CachedRestrictions { head, ..one.clone() });
            return Ok(ViewRestrictions {
                filter: files.read_filter(),
                read_only,
                home_scope: files.view.home_scope(),
            });
        }
        let restrictions = files.find_restrictions().await?;
        *known = Some(CachedRestrictions {
            view: files.view.clone(),
            head,
            read_only: restrictions.read_only.clone(),
        });
        Ok(restrictions)
    }
}

async fn list_directory_entries(storage: &dyn Storage, path: &WsPath) -> Result<Vec<Entry>> {
    let options = ListAllOptions {
        is_deep: false,
        follow: Follow::Never,
        limit: None,
    };
    match list_all(storage, path, &options).await {
        // Another program removed the directory during the walk.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => Ok(listed?.entries),
    }
}
