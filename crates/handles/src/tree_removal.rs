//! Removes a tree that any program may have made, in any shape, and may still be changing.
//!
//! No link is followed and no other mount is entered. A directory whose owner may not open it is given the bits first.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, ftruncate, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::{GENTLY, for_each_name, force_mode, open_beneath, stat_entry};

/// Below this depth, directories are moved up before they are emptied, so that a deep tree does not use up the handles.
const MAX_OPEN_DEPTH: usize = 64;
/// The number of times that a tree is emptied while another program adds entries to it.
const MAX_TRIES: usize = 8;
/// The prefix of the names of directories that were moved up. `local` hides such names and removes them after a crash.
const HOISTED_PREFIX: &str = ".garret-tmp-";

/// The bytes of a file that are freed at once, and the most such pieces of a file; a larger file has larger pieces. The
/// kernel frees a file in one call that no signal interrupts, and for a file in many extents that takes minutes; a
/// program that ends waits for the call.
const PIECE_BYTES: u64 = 1 << 20;
const MOST_PIECES: u64 = 4096;

/// Removes the entry `name` in `parent`: a file, a link, or a directory with everything in it. Succeeds if there is
/// none; entries that other programs remove at the same time count as removed. `name` is one name, not a path.
pub fn remove_tree(parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    remove_with(parent.as_fd(), name, FileRemoval::AtOnce)
}

/// Removes a tree as [`remove_tree`] does, and empties large files piece by piece, so that a program that ends
/// meanwhile waits for one piece only. No process may have a file of the tree open: it would see the file shrink.
pub fn remove_tree_in_pieces(parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    remove_with(parent.as_fd(), name, FileRemoval::InPieces)
}

/// How a file is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileRemoval {
    AtOnce,
    /// The file is emptied from its end first.
    InPieces,
}

fn remove_with(parent: BorrowedFd<'_>, name: &[u8], files: FileRemoval) -> Result<(), Errno> {
    // The kernel would take a path, or the directory itself, as well.
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(Errno::INVAL);
    }
    if remove_without_entering(parent, name, FileType::Unknown, files)? {
        return Ok(());
    }
    for _ in 0..MAX_TRIES {
        let top = match open_to_empty(parent, name) {
            Err(Errno::NOENT) => return Ok(()),
            top => top?,
        };
        let mut removal = TreeRemoval {
            top: top.as_fd(),
            files,
            hoisted: 0,
        };
        removal.empty_directory(top.as_fd(), 0)?;
        // Hoisted directories are now entries of the top, so each round empties the levels below them.
        while removal.hoisted > 0 {
            removal.hoisted = 0;
            removal.empty_directory(top.as_fd(), 0)?;
        }
        match unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // Another program added an entry after the scan: empty the directory again.
            Err(Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes an entry unless it is a directory with entries; returns whether it is gone.
fn remove_without_entering(
    directory: BorrowedFd<'_>,
    name: &[u8],
    kind: FileType,
    files: FileRemoval,
) -> Result<bool, Errno> {
    if kind != FileType::Directory {
        if files == FileRemoval::InPieces {
            // A file that cannot be emptied is removed at once.
            let _ = empty_in_pieces(directory, name);
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            // Linux answers `EISDIR` for a directory; POSIX and some file systems answer `EPERM`.
            Err(errno @ (Errno::ISDIR | Errno::PERM)) if !is_directory(directory, name)? => return Err(errno),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
    }
    match unlinkat(directory, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // It has entries, or it is no longer a directory: opening it tells which.
        Err(_) => Ok(false),
    }
}

struct TreeRemoval<'a> {
    top: BorrowedFd<'a>,
    files: FileRemoval,
    /// The directories that were moved up in this round.
    hoisted: usize,
}

impl TreeRemoval<'_> {
    fn empty_directory(&mut self, directory: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        let mut names = Vec::new();
        let listed = for_each_name(directory, |name, kind| {
            names.push((name.to_vec(), kind));
            ControlFlow::Continue(())
        });
        // A directory that was removed while it was read has no names any more.
        ignore_missing(listed)?;
        names
            .iter()
            .try_for_each(|(name, kind)| self.remove_entry(directory, name, *kind, depth))
    }

    fn remove_entry(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        kind: FileType,
        depth: usize,
    ) -> Result<(), Errno> {
        if remove_without_entering(directory, name, kind, self.files)? {
            return Ok(());
        }
        if depth >= MAX_OPEN_DEPTH {
            return self.hoist_directory(directory, name);
        }
        match open_to_empty(directory, name) {
            Err(Errno::NOENT) => return Ok(()),
            child => self.empty_directory(child?.as_fd(), depth + 1)?,
        }
        match unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // Entries that another program added meanwhile are removed in the next round.
            Err(Errno::NOTEMPTY) => Ok(()),
            other => ignore_missing(other),
        }
    }

    /// Moves a directory to the top of the tree, where it is within reach of the next round.
    fn hoist_directory(&mut self, directory: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        let (mut number, mut has_bits) = (self.hoisted, false);
        loop {
            let new = format!("{HOISTED_PREFIX}{number}");
            // The rename can replace an empty directory; everything below the top is removed in any case.
            match renameat(directory, name, self.top, &new) {
                // An entry of the tree has this name.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => number += 1,
                // A directory that moves gets another `..`, for which its owner needs the right to write it.
                Err(Errno::ACCESS) if !has_bits => {
                    has_bits = true;
                    force_mode(directory, name, 0o700)?;
                }
                other => {
                    self.hoisted = number + 1;
                    return ignore_missing(other);
                }
            }
        }
    }
}

/// Empties a large file from its end, piece by piece, unless it has another name, whose content must stay.
fn empty_in_pieces(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let Some(stat) = stat_entry(parent, name)? else {
        return Ok(());
    };
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let allocated = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
    if !is_file || stat.st_nlink > 1 || allocated <= PIECE_BYTES {
        return Ok(());
    }
    let file = openat(parent, name, OFlags::WRONLY | GENTLY, Mode::empty())?;
    let mut size = u64::try_from(stat.st_size).unwrap_or(0);
    let piece = PIECE_BYTES.max(size / MOST_PIECES);
    while size > 0 {
        size = size.saturating_sub(piece);
        ftruncate(&file, size)?;
    }
    Ok(())
}

fn is_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Errno> {
    let stat = stat_entry(parent, name)?;
    Ok(stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory))
}

/// Opens a directory that is to be emptied; gives its owner the missing permission bits first.
fn open_to_empty(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    // Beneath and on the same mount: the files of another mount are not part of the tree.
    let open = || open_beneath(parent, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW);
    let directory = match open() {
        Err(Errno::ACCESS) => {
            force_mode(parent, name, 0o700)?;
            open()?
        }
        other => other?,
    };
    let lacks_bits = fstat(&directory)?.st_mode & 0o700 != 0o700;
    if lacks_bits {
        // A failure is ignored: it shows at the removal of the first entry, with a better error.
        let _ = fchmod(&directory, Mode::RWXU);
    }
    Ok(directory)
}

fn ignore_missing(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make and look at files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::mkdirat;

    use super::*;

    fn open_root(directory: &Path) -> OwnedFd {
        fs::File::open(directory).unwrap().into()
    }

    #[test]
    fn large_files_are_removed_in_pieces_and_other_names_of_one_keep_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        fs::create_dir_all(gone.join("below")).unwrap();
        let content = vec![7; 5 << 20];
        for name in ["large", "below/large", "shared"] {
            fs::write(gone.join(name), &content).unwrap();
        }
        fs::hard_link(gone.join("shared"), directory.path().join("kept")).unwrap();
        let sparse = fs::File::create(gone.join("sparse")).unwrap();
        rustix::io::pwrite(&sparse, &content, 1 << 40).unwrap();
        let open = fs::File::open(gone.join("large")).unwrap();
        remove_tree_in_pieces(open_root(directory.path()), b"gone").unwrap();
        assert!(!gone.exists());
        assert_eq!(open.metadata().unwrap().len(), 0, "it was emptied first");
        assert!(fs::read(directory.path().join("kept")).unwrap() == content);
    }

    #[test]
    fn a_tree_deeper_than_the_handles_is_removed_without_a_trace() {
        let directory = tempfile::tempdir().unwrap();
        let root = open_root(directory.path());
        mkdirat(&root, "deep", Mode::RWXU).unwrap();
        let mut here = open_beneath(&root, b"deep", OFlags::PATH).unwrap();
        // Names that the removal itself gives to directories that it moves up.
        for name in [".garret-tmp-0", ".garret-tmp-1"] {
            mkdirat(&here, name, Mode::RWXU).unwrap();
            fs::write(directory.path().join("deep").join(name).join("file"), "x").unwrap();
        }
        fs::write(directory.path().join("deep/.garret-tmp-2"), "x").unwrap();
        for depth in 0..2_500 {
            // Every seventh may not be entered, moved or emptied by its owner.
            mkdirat(&here, "d", Mode::RWXU).unwrap();
            let next = open_beneath(&here, b"d", OFlags::PATH).unwrap();
            if depth % 7 == 6 {
                crate::set_mode(&here, 0o100).unwrap();
            }
            here = next;
        }
        remove_tree(&root, b"deep").unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_removed_and_never_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, gone) = (directory.path().join("kept"), directory.path().join("gone"));
        fs::create_dir_all(kept.join("below")).unwrap();
        fs::create_dir(&gone).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&kept, gone.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../kept", gone.join("relative")).unwrap();
        std::os::unix::fs::symlink("kept", directory.path().join("link")).unwrap();
        let root = open_root(directory.path());
        remove_tree(&root, b"gone").unwrap();
        remove_tree(&root, b"link").unwrap();
        remove_tree(&root, b"missing").unwrap();
        assert!(!gone.exists() && kept.join("below").exists());
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_path_or_the_directory_itself_is_no_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        let root = open_root(&directory.path().join("a"));
        for name in [&b""[..], b".", b"..", b"../a", b"b/", b"/"] {
            assert_eq!(remove_tree(&root, name), Err(Errno::INVAL));
        }
        assert!(directory.path().join("a/b").exists());
    }

    #[test]
    fn directories_without_any_bits_and_names_of_any_bytes_are_removed() {
        use std::os::unix::ffi::OsStrExt;

        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("gone/closed/empty");
        fs::create_dir_all(&below).unwrap();
        let odd = std::ffi::OsStr::from_bytes(b"\xff\n-rf *");
        fs::write(directory.path().join("gone/closed").join(odd), "x").unwrap();
        for path in [&below, below.parent().unwrap()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(open_root(directory.path()), b"gone").unwrap();
        assert!(!directory.path().join("gone").exists());
    }
}
