//! Restricts the home to its owner, whatever the umask is and whatever users may access the directory above it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file makes the folders and files of the home, and looks at their modes"
)]

use std::fs::{DirBuilder, File, Permissions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// The permission bits of the group and of other users.
const OTHERS: u32 = 0o077;

/// Returns the id of the user who owns the home; `None` if the home does not exist.
pub(crate) fn owner_of_home(home: &Path) -> Option<u32> {
    std::fs::metadata(home).ok().map(|found| found.uid())
}

/// Returns the effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates a folder, and the missing folders above it, with access for the owner only. An existing folder stays as it
/// is.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder)?;
    // The mode of the creation is limited by the umask, which may take rights away from the owner, too.
    std::fs::set_permissions(folder, Permissions::from_mode(FOLDER))
}

/// Opens a file for reading and writing; creates it with access for the owner only. The mode of an existing file stays
/// as it is.
pub fn make_file(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(FILE);
    // `create_new` first, so that only the mode of a file that was created here is set.
    match options.clone().create_new(true).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(FILE)).map(|()| file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path),
        Err(error) => Err(error),
    }
}

/// Returns the files and folders of the home that users other than its owner may access, with their modes; none if no
/// other user may enter the home.
pub(crate) fn exposed_files(home: &Path) -> Vec<(&'static str, u32)> {
    let others = |path: &Path| {
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
        (mode & OTHERS != 0).then_some(mode)
    };
    if others(home).is_none() {
        return Vec::new();
    }
    let inside = ["depot.db", "depot.db-wal", "depot.lock", "blobs", "journals"];
    let inside = inside
        .into_iter()
        .filter_map(|name| Some((name, others(&home.join(name))?)));
    inside.collect()
}
