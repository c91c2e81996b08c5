//! The names in a directory, read straight from the kernel.

use std::ops::ControlFlow;
use std::os::fd::AsFd;

use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use rustix::io::Errno;

const BUFFER_BYTES: usize = 32 * 1024;

/// Calls `take` with each name in `directory` and its type, except `.` and `..`, until `take` breaks. Moves the
/// position of the handle. Fails with `NOENT` if the directory is removed while it is read.
pub fn for_each_name(
    directory: impl AsFd,
    mut take: impl FnMut(&[u8], FileType) -> ControlFlow<()>,
) -> Result<(), Errno> {
    // The handle may have been read before, and the position is shared by all of its duplicates.
    seek(&directory, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && take(name, entry.file_type()).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the names in a directory.
pub fn list_names(directory: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    list_names_up_to(directory, None).map(Option::unwrap_or_default)
}

/// Returns the names in a directory; `None` if there are more than `most`.
pub fn list_names_up_to(directory: impl AsFd, most: Option<usize>) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    let mut names = Some(Vec::new());
    for_each_name(directory, |name, _| match &mut names {
        Some(names) if most.is_none_or(|most| names.len() < most) => {
            names.push(name.to_vec());
            ControlFlow::Continue(())
        }
        _ => {
            names = None;
            ControlFlow::Break(())
        }
    })?;
    Ok(names)
}
