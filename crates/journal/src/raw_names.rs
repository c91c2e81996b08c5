//! Raw names in the storage: names that a `WsPath` cannot express, because they are not UTF-8 or the path is too long.
//! They are reached by handle, one directory after the other.
//!
//! A batch cannot contain raw names, so they are changed beside it: after the batch, because each directory above them
//! is in the batch or is a raw name itself, and before the journal records the change. If a change of them fails, it is
//! reverted together with the batch.

use crate::compare::StorageComparer;
use crate::materialize::PathGoal;
use crate::observed_files::{ObservedFiles, means_absent};
use crate::scan::is_plainly_same;
use garret_core::{
    Content, DirectoryHandle, EntryAlteration, EntryKind, EntryPath, Error, ErrorKind, NewEntry, PathImage, Result,
    Stat, Storage, WsPath,
};

/// The most handles that are kept on the way down; beyond it every second handle is closed.
const MOST_HANDLES: usize = 128;

/// Open handles from the root to the directory that was used last, so that its neighbours are opened quickly.
pub(crate) struct DirectoryHandles<'f> {
    files: &'f dyn Storage,
    /// The open directories, the deepest last, each below the previous one.
    opened: Vec<(Vec<u8>, Box<dyn DirectoryHandle>)>,
}

impl<'f> DirectoryHandles<'f> {
    pub(crate) fn new(files: &'f dyn Storage) -> Self {
        let opened = Vec::new();
        Self { files, opened }
    }

    /// Opens the directory at `path`; `unsupported` if the storage has no handles.
    pub(crate) fn open_directory(&mut self, path: &[u8]) -> Result<&dyn DirectoryHandle> {
        let is_above = |above: &[u8]| match path.strip_prefix(above) {
            Some(rest) => above.is_empty() || rest.is_empty() || rest[0] == b'/',
            None => false,
        };
        while self.opened.last().is_some_and(|(opened, _)| !is_above(opened)) {
            self.opened.pop();
        }
        if self.opened.is_empty() {
            let root = self
                .files
                .open_directory(&WsPath::root())?
                .ok_or_else(no_handles_error)?;
            self.opened.push((Vec::new(), root));
        }
        let known = self.opened.last().map_or(0, |(opened, _)| opened.len());
        for name in path[known..]
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let (above, directory) = self.opened.last().expect("the root is there");
            let below = if above.is_empty() {
                name.to_vec()
            } else {
                [above, b"/".as_slice(), name].concat()
            };
            let opened = directory.open_directory(name)?;
            self.opened.push((below, opened));
            self.close_some_handles();
        }
        Ok(&*self.opened.last().expect("the root is there").1)
    }

    fn close_some_handles(&mut self) {
        if self.opened.len() > MOST_HANDLES {
            let last = self.opened.len() - 1;
            let mut place = 0..;
            // The root and the deepest directory stay open.
            self.opened
                .retain(|_| place.next().is_some_and(|place| place % 2 == 0 || place == last));
        }
    }

    /// Returns the stat of `path`; `None` if nothing is there.
    pub(crate) fn stat(&mut self, path: &[u8]) -> Result<Option<Stat>> {
        let (above, name) = split_raw_path(path);
        let stat = self
            .open_directory(above)
            .and_then(|directory| directory.stat_entry(name));
        match stat {
            Ok(stat) if stat.kind == EntryKind::Other => Ok(None),
            Err(error) if means_absent(error.kind()) => Ok(None),
            stat => stat.map(Some),
        }
    }

    fn alter_entry(&mut self, path: &[u8], alteration: EntryAlteration<'_>) -> Result<()> {
        let (above, name) = split_raw_path(path);
        self.open_directory(above)?.alter_entry(name, alteration)
    }
}

/// Splits a path into its directory and its last name.
pub(crate) fn split_raw_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// Returns the directories above a path, the highest first, without the root.
pub(crate) fn parent_directories(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

fn no_handles_error() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this storage cannot hold names that are not UTF-8, or paths that are too long",
    )
    .hint("give the files names that are UTF-8")
}

/// Checks that the raw names still have their recorded state, and that the storage can change raw names at all.
pub(crate) fn check_raw_names(comparer: &mut StorageComparer<'_>, goals: &[PathGoal]) -> Result<()> {
    let mut way = comparer.files.directory_handles();
    for goal in goals.iter().filter(|goal| goal.path.is_escaped()) {
        way.open_directory(b"")?;
        let path = goal.path.as_bytes();
        let known = comparer
            .records
            .recorded_entry(path)?
            .filter(|known| known.token.is_some());
        let stat = way.stat(path)?;
        if known.is_some_and(|known| !stat.is_some_and(|stat| is_plainly_same(&known, &stat))) {
            return Err(Error::conflict(&displayed_path(&goal.path), None));
        }
    }
    Ok(())
}

/// Gives the raw names their target state, after the batch is applied.
pub(crate) async fn materialize_raw_names(files: ObservedFiles<'_>, goals: &[PathGoal]) -> Result<()> {
    remove_raw_entries(files, goals)?;
    create_raw_entries(files, goals).await
}

/// Removes the raw names that the goals remove, the deepest first.
pub(crate) fn remove_raw_entries(files: ObservedFiles<'_>, goals: &[PathGoal]) -> Result<()> {
    let mut way = files.directory_handles();
    let raw = raw_goals(goals).into_iter().rev();
    for goal in raw.filter(|goal| goal.from.is_some() && goal.is_remade()) {
        match way.alter_entry(goal.path.as_bytes(), EntryAlteration::Remove) {
            // It was removed with its directory.
            Err(error) if means_absent(error.kind()) => {}
            // The directory holds entries that are kept out of history.
            Err(error) if error.kind() == ErrorKind::NotEmpty && !files.journaled.exclusions.is_empty() => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Creates and changes the raw names that the goals set, the highest first; then sets the modes of directories.
pub(crate) async fn create_raw_entries(files: ObservedFiles<'_>, goals: &[PathGoal]) -> Result<()> {
    let (goals, mut way) = (raw_goals(goals), files.directory_handles());
    for goal in &goals {
        if let Some(image) = &goal.to {
            create_raw_entry(files, &mut way, goal, image).await?;
        }
    }
    // Deepest first, and only after all files are written: a mode may close its directory.
    for goal in goals.iter().rev() {
        if let Some(image) = goal.to.as_ref().filter(|image| image.kind == EntryKind::Directory) {
            way.alter_entry(goal.path.as_bytes(), EntryAlteration::SetMode(image.mode))?;
        }
    }
    Ok(())
}

async fn create_raw_entry(
    files: ObservedFiles<'_>,
    way: &mut DirectoryHandles<'_>,
    goal: &PathGoal,
    image: &PathImage,
) -> Result<()> {
    let (path, is_new) = (goal.path.as_bytes(), goal.is_remade());
    let mode = image.mode;
    match image.kind {
        EntryKind::Directory if is_new => {
            // The owner's bits let the entries be created in it; the final mode is set afterwards.
            let directory = NewEntry::Directory { mode: mode | 0o700 };
            match way.alter_entry(path, EntryAlteration::Make(directory)) {
                // A directory stays if it holds entries that are kept out of history.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made,
            }
        }
        EntryKind::Directory | EntryKind::Other => Ok(()),
        EntryKind::Symlink => {
            let target = image.target.as_deref().unwrap_or_default();
            way.alter_entry(path, EntryAlteration::Make(NewEntry::Symlink { target }))
        }
        EntryKind::File if goal.has_same_content(image) => way.alter_entry(path, EntryAlteration::SetMode(mode)),
        EntryKind::File => {
            let content: &Content = &files.room.load_image_content(image).await?;
            let alteration = if is_new {
                EntryAlteration::Make(NewEntry::File { content, mode })
            } else {
                EntryAlteration::Replace { content, mode }
            };
            way.alter_entry(path, alteration)
        }
    }
}

/// Returns the goals with raw names, sorted by path.
fn raw_goals(goals: &[PathGoal]) -> Vec<&PathGoal> {
    let mut raw: Vec<_> = goals.iter().filter(|goal| goal.path.is_escaped()).collect();
    raw.sort_by(|one, other| one.path.cmp(&other.path));
    raw
}

/// Returns a path for a message, with a raw name escaped.
pub(crate) fn displayed_path(path: &EntryPath) -> WsPath {
    WsPath::parse(&path.display_path()).unwrap_or_else(|_| WsPath::root())
}
