//! Files outside of workspaces, which an export writes and an import reads.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line opens the files that its user names"
)]

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use garret::path::quote;
use garret::{Error, ErrorKind, Result};

/// The endings of archives and other single files that Garret does not write plain files into.
const FILE_ENDINGS: [&str; 18] = [
    "7z", "br", "bz2", "cab", "cpio", "garret", "gz", "iso", "jar", "lz", "lz4", "lzma", "rar", "tbz", "txz", "xz",
    "zip", "zst",
];

/// Returns the directory for an export of plain files. Refuses a name that looks like an archive, unless a directory of
/// that name exists.
pub(crate) fn target_directory(place: &str) -> Result<PathBuf> {
    let path = Path::new(place);
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    // The user meant an archive in a format that Garret does not write, and not a directory of that name.
    let is_file = |ending: &String| FILE_ENDINGS.contains(&ending.as_str());
    let shown = quote(place);
    match ending.filter(is_file) {
        Some(_) if path.is_dir() => Ok(path.to_owned()),
        Some(ending) if ending == "garret" => Err(Error::invalid(format!(
            "{shown} is neither a directory nor the name of an archive"
        ))
        .hint("leave out --to for a portable file")),
        Some(_) => Err(
            Error::invalid(format!("{shown} is not an archive format that Garret can write"))
                .hint("name a .tar, .tar.gz or .tar.zst, or a directory"),
        ),
        None => Ok(path.to_owned()),
    }
}

/// Returns the directory at `place`; it must exist.
pub(crate) fn existing_directory(place: &str) -> Result<PathBuf> {
    if Path::new(place).is_dir() {
        Ok(PathBuf::from(place))
    } else {
        Err(Error::new(
            ErrorKind::NotFound,
            format!("{} is neither a directory nor the name of an archive", quote(place)),
        )
        .hint("name an existing directory, or a .tar, .tar.gz or .tar.zst"))
    }
}

/// Makes a directory, or checks that an existing one is empty.
pub(crate) fn make_empty_directory(place: &str) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o755).create(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(file_error(place, "made", &error)),
        _ => {}
    }
    let mut entries = std::fs::read_dir(place).map_err(|error| file_error(place, "read", &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(
            Error::new(ErrorKind::NotEmpty, format!("{} is not empty", quote(place)))
                .hint("name a directory that is new or empty"),
        ),
    }
}

/// Opens a file for reading.
pub(crate) fn open_for_reading(name: &str) -> Result<BufReader<File>> {
    File::open(name)
        .map(BufReader::new)
        .map_err(|error| file_error(name, "read", &error))
}

/// A new file that is removed on drop unless it was kept.
pub(crate) struct UnfinishedFile {
    name: String,
    file: File,
    is_kept: bool,
}

impl UnfinishedFile {
    /// Makes the file; fails if the file exists already.
    pub(crate) fn create(name: &str) -> Result<Self> {
        // Others must not be able to write the file, whatever the umask is.
        let made = File::options().write(true).create_new(true).mode(0o644).open(name);
        let file = made.map_err(|error| file_error(name, "written", &error))?;
        Ok(Self {
            name: name.to_owned(),
            file,
            is_kept: false,
        })
    }

    /// Returns a writer for the content of the file.
    pub(crate) fn content_writer(&mut self) -> Result<impl Write + Send + use<>> {
        let file = self
            .file
            .try_clone()
            .map_err(|error| file_error(&self.name, "written", &error))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    /// Marks the file as complete: it is on the disk when this returns, and is not removed.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|error| file_error(&self.name, "written", &error))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // A drop cannot report an error, and nothing depends on a file that could not be removed.
            let _ = std::fs::remove_file(&self.name);
        }
    }
}

fn file_error(name: &str, verb: &str, error: &io::Error) -> Error {
    let shown = quote(name);
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Error::new(ErrorKind::AlreadyExists, format!("the file {shown} exists already"))
                .hint("choose another name, or remove it first")
        }
        io::ErrorKind::NotFound if verb != "read" => {
            let above = Path::new(name).parent().unwrap_or(Path::new("")).to_string_lossy();
            let message = format!("the directory {} does not exist", quote(&above));
            Error::new(ErrorKind::NotFound, message).hint("make it first, or choose another place")
        }
        io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("no such file: {shown}")).hint("check the name")
        }
        _ => Error::new(ErrorKind::Denied, format!("{shown} cannot be {verb}"))
            .hint("check the permissions of the file, or name another file"),
    }
}
