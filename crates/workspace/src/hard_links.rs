//! Hard links: files that have a denied name beside an allowed one.
//!
//! A hard link is a name of a file, as good as any other, and policies apply to files. So if a view may not read every
//! path, a file with several names is denied under all of them if one of them is denied. Names outside the workspace
//! are not judged by any rule.
//!
//! No file system tells the other names of a file. When an operation meets a file with several names, the tree is
//! walked once for denied files with several names, and the files are compared. A file with one name costs nothing.
//!
//! A directory that Garret cannot read may hold denied names of files that it can read elsewhere. If the walk for
//! denied names meets one, the visible names of each file are counted, too: a file that has more names than that may
//! have a denied one, and is denied.
//!
//! The history keeps each name as a file of its own. A path of the past is judged by the file that is at the path now.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::thread;

use futures::channel::oneshot;
use garret_core::{
    DirectoryHandle, Entry, EntryKind, EntryPath, Error, ErrorKind, FileIdentity, Follow, HardLinkedFile, ReadOptions,
    ReadResult, Result, StatOptions, Storage, Visibility, WsPath,
};

use crate::Workspace;
use crate::admission::AdmittedPath;
use crate::change_review::hidden_change_error;
use crate::file_access::FileAccess;
use crate::view::WorkspaceView;

pub(crate) type DeniedNames = Arc<HashSet<EntryPath>>;

/// The files that a view denies under every name.
#[derive(Debug, Default)]
struct DeniedFiles {
    /// Files that have a denied name.
    named: HashSet<FileIdentity>,
    /// How many visible names each file with several names has; set if a directory that may hold denied names cannot be
    /// read.
    visible_names: Option<HashMap<FileIdentity, u64>>,
}

impl DeniedFiles {
    fn contains(&self, file: HardLinkedFile) -> bool {
        let visible = |names: &HashMap<_, _>| names.get(&file.identity).copied().unwrap_or(0);
        let has_unseen_name = self
            .visible_names
            .as_ref()
            .is_some_and(|names| visible(names) < file.names);
        has_unseen_name || self.named.contains(&file.identity)
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.visible_names.is_none()
    }
}

/// The results of the walks of one operation.
#[derive(Debug, Default)]
pub(crate) struct HardLinkMemo {
    files: OnceLock<Result<Arc<DeniedFiles>>>,
    names: OnceLock<Result<DeniedNames>>,
}

impl Workspace {
    /// Returns this workspace for one operation on several files: the tree is walked for hard links to denied files
    /// once, and not for each file. Links that are made after the walk are not seen.
    #[must_use]
    pub fn remembering_hard_links(&self) -> Self {
        Self {
            files: self.files.remembering_hard_links(),
            ..self.clone()
        }
    }
}

impl FileAccess {
    /// Reads an admitted file. A file that has a denied name is `denied`, whatever else is wrong with the request.
    pub(crate) async fn read_admitted(&self, target: &AdmittedPath, options: ReadOptions) -> Result<ReadResult> {
        match self.storage().read(&target.real, options).await {
            Ok(read) => {
                self.hard_links().check_file(&target.real, read.hard_linked).await?;
                Ok(read)
            }
            // A conflict would tell the version of the file, and a limit its size.
            Err(error) => {
                self.hard_links().check_file_at(&target.real).await?;
                Err(error)
            }
        }
    }
}

/// Checks files for denied names, by the rules of one view.
#[derive(Debug, Clone)]
pub(crate) struct HardLinkCheck {
    pub(crate) view: Arc<WorkspaceView>,
    pub(crate) storage: Arc<dyn Storage>,
    /// In a view of the past, the storage with the files as they are now.
    pub(crate) present: Option<Arc<dyn Storage>>,
    /// The results of earlier walks, if they may be used again.
    pub(crate) memo: Option<Arc<HardLinkMemo>>,
}

impl HardLinkCheck {
    /// Refuses the file at `path` if it has a denied name. `file` identifies it; `None` for a file with one name.
    pub(crate) async fn check_file(&self, path: &WsPath, file: Option<HardLinkedFile>) -> Result<()> {
        if !self.may_be_denied(file) {
            return Ok(());
        }
        let entry = EntryPath::from(path.clone());
        let is_denied = self.run_on_own_thread(move |check| check.is_denied_file(&entry, file));
        if is_denied.await? {
            return Err(denied_link_error(&self.view.relative_path(path)));
        }
        Ok(())
    }

    /// Refuses the file that is at `path` if it has a denied name. A path without a file passes.
    pub(crate) async fn check_file_at(&self, path: &WsPath) -> Result<()> {
        if !self.judges_hard_links() {
            return Ok(());
        }
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        let stat = self.storage.stat(path, options).await;
        self.check_file(path, stat.ok().and_then(|stat| stat.hard_linked)).await
    }

    /// Refuses to change the files at the paths that `list_paths` returns if one of them has a denied name.
    pub(crate) async fn check_changed_files(mut self, list_paths: impl FnOnce() -> Vec<EntryPath>) -> Result<()> {
        if !self.judges_hard_links() {
            return Ok(());
        }
        // The history keeps each name as a file: an undo would bring the content back under the allowed name alone.
        self.memo.get_or_insert_default();
        for path in list_paths() {
            match path.as_path() {
                Some(path) => self.check_file_at(path).await?,
                // A storage cannot look up a name that is not UTF-8.
                None if self.denied_names().await?.contains(&path) => return Err(hidden_change_error()),
                None => {}
            }
        }
        Ok(())
    }

    /// Removes the files that have a denied name from the entries of a list.
    pub(crate) async fn without_denied_files(&self, entries: Vec<Entry>) -> Result<Vec<Entry>> {
        if !entries.iter().any(|entry| self.may_be_denied(entry.hard_linked)) {
            return Ok(entries);
        }
        let judge = move |check: &Self| {
            let mut shown = Vec::with_capacity(entries.len());
            for entry in entries {
                if !check.is_denied_file(&entry.path, entry.hard_linked)? {
                    shown.push(entry);
                }
            }
            Ok(shown)
        };
        self.run_on_own_thread(judge).await
    }

    /// Whether the file at `path` has a denied name. May walk the tree on this thread.
    pub(crate) fn is_denied_file(&self, path: &EntryPath, file: Option<HardLinkedFile>) -> Result<bool> {
        match (&self.present, file) {
            _ if !self.may_be_denied(file) => Ok(false),
            (None, Some(file)) => Ok(self.find_denied_files()?.contains(file)),
            _ => Ok(self.find_denied_names()?.contains(path)),
        }
    }

    /// Returns the visible paths at which files with a denied name are now.
    pub(crate) async fn denied_names(&self) -> Result<DeniedNames> {
        if !self.judges_hard_links() {
            return Ok(DeniedNames::default());
        }
        self.run_on_own_thread(Self::find_denied_names).await
    }

    /// Whether a file can have a name that this view may not read.
    fn judges_hard_links(&self) -> bool {
        self.view.hides_paths() && self.present_files().info().has_hard_links
    }

    /// Whether `file` can have a name that this view may not read.
    pub(crate) fn may_be_denied(&self, file: Option<HardLinkedFile>) -> bool {
        match &self.present {
            None => file.is_some() && self.view.hides_paths(),
            // The history does not record how many names a file had, so each file of the past is judged.
            Some(_) => self.judges_hard_links(),
        }
    }

    /// Returns the storage with the files as they are now, also in a view of the past.
    fn present_files(&self) -> &dyn Storage {
        self.present.as_ref().unwrap_or(&self.storage).as_ref()
    }

    fn find_denied_files(&self) -> Result<Arc<DeniedFiles>> {
        let find = || {
            let mut files = DeniedFiles::default();
            let coverage = self.each_linked_file(HardLinkScanSide::Denied, |_, file| {
                files.named.insert(file.identity);
            })?;
            if coverage == HardLinkScanCoverage::Part {
                files.visible_names = Some(self.count_visible_names()?);
            }
            Ok(Arc::new(files))
        };
        match &self.memo {
            Some(memo) => memo.files.get_or_init(find).clone(),
            None => find(),
        }
    }

    fn count_visible_names(&self) -> Result<HashMap<FileIdentity, u64>> {
        let mut names = HashMap::new();
        // A visible name that is not found counts as a denied one.
        self.each_linked_file(HardLinkScanSide::Visible, |_, file| {
            *names.entry(file.identity).or_default() += 1
        })?;
        Ok(names)
    }

    fn find_denied_names(&self) -> Result<DeniedNames> {
        let find = || {
            let files = self.find_denied_files()?;
            let mut names = HashSet::new();
            if !files.is_empty() {
                self.each_linked_file(HardLinkScanSide::Visible, |path, file| {
                    if files.contains(file) {
                        names.insert(path);
                    }
                })?;
            }
            Ok(Arc::new(names))
        };
        match &self.memo {
            Some(memo) => memo.names.get_or_init(find).clone(),
            None => find(),
        }
    }

    fn each_linked_file(
        &self,
        side: HardLinkScanSide,
        take: impl FnMut(EntryPath, HardLinkedFile),
    ) -> Result<HardLinkScanCoverage> {
        match self.present_files().open_directory(&WsPath::root())? {
            Some(root) => walk_linked_files(root, &self.view, side, take),
            None => Ok(HardLinkScanCoverage::Whole),
        }
    }

    /// Runs `work`, which may walk the tree, on a thread of its own; on this thread if the result of the walk is known
    /// already.
    async fn run_on_own_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let is_known = |memo: &Arc<HardLinkMemo>| match &self.present {
            None => memo.files.get().is_some(),
            Some(_) => memo.names.get().is_some(),
        };
        if self.memo.as_ref().is_some_and(is_known) {
            return work(self);
        }
        let check = self.clone();
        // A walk of the whole tree blocks; on a thread that drives futures it would hold up every other operation.
        let (done, outcome) = oneshot::channel();
        let work = move || drop(done.send(work(&check)));
        let spawned = thread::Builder::new().name("garret-links".into()).spawn(work);
        spawned.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                "the system gives no thread to look for hard links",
            )
        })?;
        let ended = || {
            Error::new(
                ErrorKind::Internal,
                "the look for hard links ended in the middle of its work",
            )
        };
        outcome.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// The files of a view that a walk looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HardLinkScanSide {
    Denied,
    Visible,
}

/// How much of its side of the view a walk has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HardLinkScanCoverage {
    Whole,
    /// Garret may not look into a directory, or at an entry.
    Part,
}

impl HardLinkScanCoverage {
    /// Turns the error of an entry that is gone into `None`. An entry that Garret itself may not look at is `None`,
    /// too, and makes the coverage partial.
    fn skip_missing<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
                ErrorKind::Denied => {
                    *self = Self::Part;
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }
}

/// A directory that a walk has opened.
struct OpenedDirectory {
    handle: Arc<dyn DirectoryHandle>,
    path: EntryPath,
    visibility: Visibility,
}

/// A directory that a walk has found and not yet opened.
struct UnopenedDirectory {
    parent: Arc<dyn DirectoryHandle>,
    name: Vec<u8>,
    path: EntryPath,
    visibility: Visibility,
}

/// Passes each file with several names on this side of the view to `take`. The other files are not opened; only their
/// names are read.
fn walk_linked_files(
    root: Box<dyn DirectoryHandle>,
    view: &WorkspaceView,
    side: HardLinkScanSide,
    mut take: impl FnMut(EntryPath, HardLinkedFile),
) -> Result<HardLinkScanCoverage> {
    let mut coverage = HardLinkScanCoverage::Whole;
    let mut waiting = Vec::new();
    let mut next = Some(OpenedDirectory {
        handle: Arc::from(root),
        path: WsPath::root().into(),
        visibility: Visibility::Partial,
    });
    while let Some(directory) = next {
        for entry in coverage
            .skip_missing(directory.handle.list_entries())?
            .unwrap_or_default()
        {
            let path = directory.path.child(&entry.name);
            let visibility = match directory.visibility {
                Visibility::Partial => view.visibility_of(&path, entry.kind),
                // Below a directory that is visible or hidden as a whole, the rules need not be asked again.
                settled => settled,
            };
            let is_on_side = (side == HardLinkScanSide::Denied) == (visibility == Visibility::Hidden);
            match entry.kind {
                EntryKind::Directory if is_on_side || visibility == Visibility::Partial => {
                    waiting.push(UnopenedDirectory {
                        parent: Arc::clone(&directory.handle),
                        name: entry.name,
                        path,
                        visibility,
                    })
                }
                EntryKind::File if is_on_side => {
                    let stat = coverage.skip_missing(directory.handle.stat_entry(&entry.name))?;
                    if let Some(file) = stat.and_then(|stat| stat.hard_linked) {
                        take(path, file);
                    }
                }
                _ => {}
            }
        }
        next = next_directory(&mut waiting, &mut coverage)?;
    }
    Ok(coverage)
}

/// Opens the next directory of a walk; `None` at its end.
fn next_directory(
    waiting: &mut Vec<UnopenedDirectory>,
    coverage: &mut HardLinkScanCoverage,
) -> Result<Option<OpenedDirectory>> {
    // Opened one at a time and not when found: a process may hold a limited number of open directories.
    while let Some(one) = waiting.pop() {
        if let Some(handle) = coverage.skip_missing(one.parent.open_directory(&one.name))? {
            return Ok(Some(OpenedDirectory {
                handle: Arc::from(handle),
                path: one.path,
                visibility: one.visibility,
            }));
        }
    }
    Ok(None)
}

/// The error for a file that has a denied name. It must not tell that name.
fn denied_link_error(shown: &WsPath) -> Error {
    let message = format!(
        "{} may not be read: it is a hard link, and the file has another name that this view may not read or that Garret cannot find",
        shown.to_quoted()
    );
    Error::new(ErrorKind::Denied, message)
        .at_path(shown)
        .hint("choose another file: rules hold for a file under all of its names, and a name in a directory that Garret cannot read counts as denied")
}
