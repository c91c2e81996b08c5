//! What the home holds is its owner's alone, whatever the umask says and whoever may look into the directory it lies in.

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
/// What others may do.
const OTHERS: u32 = 0o077;

/// The id of the user who owns the home, where it is there.
pub(crate) fn owner(home: &Path) -> Option<u32> {
    std::fs::metadata(home).ok().map(|found| found.uid())
}

/// The id of the user that this process works as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a folder, and those above it, that nobody but its owner may look into; one that is there stays as it is.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(FOLDER))
}

/// Opens a file for reading and writing that nobody but its owner may open; one that is there stays as it is.
pub(crate) fn make_file(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(FILE);
    match options.clone().create_new(true).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(FILE)).map(|()| file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path),
        Err(error) => Err(error),
    }
}

/// Which of the things in the home others than its owner may use, with their modes; none where nobody else gets into the home at all.
pub(crate) fn exposed(home: &Path) -> Vec<(&'static str, u32)> {
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
