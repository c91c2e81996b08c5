//! Content that stays in the file in which a command left it, until it is read.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use garret_core::{Content, ContentSource, EntryPath, Result};
use garret_handles::{GENTLY, HandleTree, open_beneath};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::entry_status::EntryStatus;
use super::extent_reader::ExtentReader;
use super::path_error::{ErrnoAtPath, changed_content_error};
use super::reading_deadline::ReadingDeadline;

/// Held while bits are lent: with two readers at a time, the first to finish would take the bits back too early.
static LENDING: Mutex<()> = Mutex::new(());

/// A file below a directory, with its status when it was seen.
struct LayerFileSource {
    top: Arc<OwnedFd>,
    path: EntryPath,
    seen: Mutex<EntryStatus>,
    deadline: ReadingDeadline,
}

/// Returns the content of the file at `path` below `top`. Reading it is `unavailable` if the file is no longer the one
/// that was `seen`, and `too_large` after the deadline.
pub(super) fn content_of_file(
    top: Arc<OwnedFd>,
    path: EntryPath,
    seen: EntryStatus,
    deadline: ReadingDeadline,
) -> Content {
    Content::from_source(LayerFileSource {
        top,
        path,
        seen: Mutex::new(seen),
        deadline,
    })
}

impl fmt::Debug for LayerFileSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("LeftFile")
            .field(&self.path.display_path())
            .finish()
    }
}

impl LayerFileSource {
    fn open_unchanged(&self) -> Result<OwnedFd> {
        match open_beneath(&self.top, self.path.as_bytes(), OFlags::RDONLY | GENTLY) {
            Err(Errno::ACCESS) => self.open_with_lent_bits(),
            opened => self.check_unchanged(opened.at_path(self.path.as_bytes())?),
        }
    }

    fn open_with_lent_bits(&self) -> Result<OwnedFd> {
        let _alone = LENDING.lock().expect("no holder panics");
        let mut tree = HandleTree::new(self.top.as_fd());
        let file = tree.open_file(self.path.as_bytes()).at_path(self.path.as_bytes())?;
        // Lending bits and taking them back sets the time of change; every other field must be the same.
        let mut seen = self.seen.lock().expect("no holder panics");
        let without_change = |seen: EntryStatus| (seen.inode, seen.size, seen.modified, seen.kind());
        let is_it =
            |now: &EntryStatus| without_change(*now) == without_change(*seen) && now.kind() == FileType::RegularFile;
        if !is_it(&self.status_of(&file)?) {
            return Err(changed_content_error(self.path.as_bytes()));
        }
        // Takes the bits back first, so that the new time of change is the final one.
        drop(tree);
        *seen = self.status_of(&file)?;
        Ok(file)
    }

    fn status_of(&self, file: &OwnedFd) -> Result<EntryStatus> {
        let stat = fstat(file).at_path(self.path.as_bytes())?;
        Ok(EntryStatus::from_stat(&stat))
    }

    fn check_unchanged(&self, file: OwnedFd) -> Result<OwnedFd> {
        let now = self.status_of(&file)?;
        if now == *self.seen.lock().expect("no holder panics") && now.kind() == FileType::RegularFile {
            Ok(file)
        } else {
            Err(changed_content_error(self.path.as_bytes()))
        }
    }
}

impl ContentSource for LayerFileSource {
    fn size(&self) -> u64 {
        self.seen.lock().expect("no holder panics").size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let file = self.open_unchanged()?;
        Ok(Box::new(ExtentReader::new(file, self.size(), self.deadline)))
    }

    fn backing_file(&self) -> Result<Option<File>> {
        Ok(Some(File::from(self.open_unchanged()?)))
    }
}
