//! Content that stays in the file in which a command left it, until it is read.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use garret_core::{Content, ContentSource, EntryPath, Result};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use super::beneath::{GENTLY, Tree, open};
use super::budget::ReadingDeadline;
use super::error::{At, moved};
use super::extents::ExtentReader;
use super::seen::Seen;

/// Held while bits are lent: with two readers at a time, the first to finish would take the bits back too early.
static LENDING: Mutex<()> = Mutex::new(());

/// A file below a directory, with its status when it was seen.
struct LeftFile {
    top: Arc<OwnedFd>,
    path: EntryPath,
    seen: Mutex<Seen>,
    deadline: ReadingDeadline,
}

/// Returns the content of the file at `path` below `top`. Reading it is `unavailable` if the file is no longer the one
/// that was `seen`, and `too_large` after the deadline.
pub(super) fn content(top: Arc<OwnedFd>, path: EntryPath, seen: Seen, deadline: ReadingDeadline) -> Content {
    Content::from_source(LeftFile {
        top,
        path,
        seen: Mutex::new(seen),
        deadline,
    })
}

impl fmt::Debug for LeftFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("LeftFile").field(&self.path.shown()).finish()
    }
}

impl LeftFile {
    fn opened(&self) -> Result<OwnedFd> {
        match open(&self.top, self.path.as_bytes(), OFlags::RDONLY | GENTLY) {
            Err(Errno::ACCESS) => self.opened_with_lent_bits(),
            opened => self.checked(opened.at(self.path.as_bytes())?),
        }
    }

    fn opened_with_lent_bits(&self) -> Result<OwnedFd> {
        let _alone = LENDING.lock().expect("no holder panics");
        let mut tree = Tree::new(self.top.as_fd());
        let file = tree.file(self.path.as_bytes()).at(self.path.as_bytes())?;
        // Lending bits and taking them back sets the time of change; every other field must be the same.
        let mut seen = self.seen.lock().expect("no holder panics");
        let without_change = |seen: Seen| (seen.inode, seen.size, seen.modified, seen.kind());
        let is_it = |now: &Seen| without_change(*now) == without_change(*seen) && now.kind() == FileType::RegularFile;
        if !is_it(&Seen::of(&fstat(&file).at(self.path.as_bytes())?)) {
            return Err(moved(self.path.as_bytes()));
        }
        // Takes the bits back first, so that the new time of change is the final one.
        drop(tree);
        *seen = Seen::of(&fstat(&file).at(self.path.as_bytes())?);
        Ok(file)
    }

    fn checked(&self, file: OwnedFd) -> Result<OwnedFd> {
        let now = Seen::of(&fstat(&file).at(self.path.as_bytes())?);
        if now == *self.seen.lock().expect("no holder panics") && now.kind() == FileType::RegularFile {
            Ok(file)
        } else {
            Err(moved(self.path.as_bytes()))
        }
    }
}

impl ContentSource for LeftFile {
    fn size(&self) -> u64 {
        self.seen.lock().expect("no holder panics").size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let file = self.opened()?;
        Ok(Box::new(ExtentReader::new(file, self.size(), self.deadline)))
    }

    fn file(&self) -> Result<Option<File>> {
        Ok(Some(File::from(self.opened()?)))
    }
}
