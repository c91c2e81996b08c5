//! Removes a tree that commands made, in any shape.

#![cfg(target_os = "linux")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The depth at which a deeper part of a tree is moved up beside it; a command can nest directories deeper than there
/// are descriptors.
const DEEPEST: usize = 64;

/// The bytes of a file that are freed at once, and the most such pieces of a file; a larger file has larger pieces. The
/// kernel frees a file in one call that no signal interrupts, and for a file in many extents that takes minutes; a
/// program that ends waits for the call.
const PIECE_BYTES: u64 = 1 << 20;
const MOST_PIECES: u64 = 4096;

/// Removes the entry `name`, with everything in it, and follows no link. A directory whose owner may not open it is
/// given the bits first.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    remove_with(parent, name, FileRemoval::AtOnce)
}

/// Removes a tree as [`remove_tree`] does, and empties large files piece by piece, so that a program that ends
/// meanwhile waits for one piece only. No process may have a file of the tree open: it would see the file shrink.
pub(crate) fn remove_tree_in_pieces(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    remove_with(parent, name, FileRemoval::InPieces)
}

fn remove_with(parent: BorrowedFd<'_>, name: &[u8], files: FileRemoval) -> rustix::io::Result<()> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let mut removal = LayerTreeRemoval {
        top: parent,
        name: &name,
        files,
        brought_up: 0,
    };
    removal.remove_entry(parent, &name, 0)?;
    // Parts that were moved up lie beside the tree, and removing one may move up more.
    let mut next = 0;
    while next < removal.brought_up {
        let part = removal.part_name(next);
        removal.remove_entry(parent, &part, 0)?;
        next += 1;
    }
    Ok(())
}

/// How a file is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRemoval {
    AtOnce,
    /// The file is emptied from its end first.
    InPieces,
}

struct LayerTreeRemoval<'a> {
    top: BorrowedFd<'a>,
    name: &'a CStr,
    files: FileRemoval,
    brought_up: usize,
}

impl LayerTreeRemoval<'_> {
    /// Returns the name of a part that was moved up.
    fn part_name(&self, number: usize) -> CString {
        let name = self.name.to_bytes();
        let mut part = name[..name.len().min(200)].to_vec();
        part.extend_from_slice(format!(".{number}.deep").as_bytes());
        CString::new(part).expect("the name had no NUL before")
    }

    fn remove_entry(&mut self, parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> rustix::io::Result<()> {
        if self.files == FileRemoval::InPieces {
            // A file that cannot be emptied is removed at once.
            let _ = empty_in_pieces(parent, name);
        }
        // The kind is not looked up first: the error of this call shows a directory.
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        if rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        if depth == DEEPEST {
            rustix::fs::renameat(parent, name, self.top, self.part_name(self.brought_up))?;
            self.brought_up += 1;
            return Ok(());
        }
        let directory = open_with_owner_bits(parent, name)?;
        for child in list_names(&directory)? {
            self.remove_entry(directory.as_fd(), &child, depth + 1)?;
        }
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
    }
}

/// Empties a large file from its end, piece by piece, unless it has another name, whose content must stay.
fn empty_in_pieces(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    if !is_file || stat.st_nlink > 1 || allocated <= PIECE_BYTES {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    let mut size = u64::try_from(stat.st_size).unwrap_or(0);
    let piece = PIECE_BYTES.max(size / MOST_PIECES);
    while size > 0 {
        size = size.saturating_sub(piece);
        rustix::fs::ftruncate(&file, size)?;
    }
    Ok(())
}

/// Opens a directory, and gives its owner the bits for that if they are missing.
fn open_with_owner_bits(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // `chmodat` follows links, but only a directory gets here, and nobody changes the tree any more.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())?
        }
        other => other?,
    };
    let mode = rustix::fs::fstat(&directory)?.st_mode;
    if mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
    }
    Ok(directory)
}

fn list_names(directory: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make and look at files")]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_removed_in_pieces_and_other_names_of_one_keep_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        std::fs::create_dir_all(gone.join("below")).unwrap();
        let content = vec![7; 5 << 20];
        for name in ["large", "below/large", "shared"] {
            std::fs::write(gone.join(name), &content).unwrap();
        }
        std::fs::hard_link(gone.join("shared"), directory.path().join("kept")).unwrap();
        let sparse = std::fs::File::create(gone.join("sparse")).unwrap();
        rustix::io::pwrite(&sparse, &content, 1 << 40).unwrap();
        let open = std::fs::File::open(gone.join("large")).unwrap();
        let parent = OwnedFd::from(std::fs::File::open(directory.path()).unwrap());
        remove_tree_in_pieces(parent.as_fd(), b"gone").unwrap();
        assert!(!gone.exists());
        assert_eq!(open.metadata().unwrap().len(), 0, "it was emptied first");
        assert!(std::fs::read(directory.path().join("kept")).unwrap() == content);
    }
}
