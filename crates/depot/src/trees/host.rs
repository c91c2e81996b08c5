//! Reads and writes directories of the host. Links are never followed.

#![allow(
    clippy::disallowed_methods,
    reason = "this file is where plain files of the host are taken in and put out"
)]

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender};

use garret_core::{Error, ErrorKind, Result};

use super::unfinished::Unfinished;
use super::{
    CHUNK, DIRECTORY_MODE, FILE_MODE, Form, Item, Message, below, checked_path, gone, host_error, permissions, skipped,
};

/// Sends everything below `root`, in order, directories before their entries.
pub(super) fn read(root: &Path, sender: &SyncSender<Result<Message>>) -> Result<()> {
    let metadata = std::fs::metadata(root).map_err(|error| host_error(&error, b""))?;
    if !metadata.is_dir() {
        return Err(
            Error::new(ErrorKind::NotADirectory, "the source of the import is not a directory")
                .hint("name a directory, or a file that ends in .tar, .tar.gz or .tar.zst"),
        );
    }
    let mut waiting = names(root, b"")?;
    while let Some(path) = waiting.pop() {
        let place = below(root, &path);
        let metadata = std::fs::symlink_metadata(&place).map_err(|error| host_error(&error, &path))?;
        checked_path(&path)?;
        if metadata.is_dir() {
            send(sender, item(&path, Form::Directory, &metadata))?;
            waiting.extend(names(&place, &path)?);
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(&place).map_err(|error| host_error(&error, &path))?;
            send(
                sender,
                item(&path, Form::Link(target.into_os_string().into_vec()), &metadata),
            )?;
        } else if metadata.is_file() {
            read_file(&place, &path, &metadata, sender)?;
        } else {
            let message = Message::Skipped(skipped(&path, "it is neither a file, a directory nor a link"));
            send(sender, message)?;
        }
    }
    Ok(())
}

/// Returns the paths in a directory, in reverse order.
fn names(place: &Path, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(place).map_err(|error| host_error(&error, path))? {
        let name = entry.map_err(|error| host_error(&error, path))?.file_name();
        let path = if path.is_empty() {
            name.as_bytes().to_vec()
        } else {
            [path, b"/", name.as_bytes()].concat()
        };
        paths.push(path);
    }
    // The caller takes paths from the end, so the first in order must come last.
    paths.sort_unstable_by(|one, other| other.cmp(one));
    Ok(paths)
}

fn item(path: &[u8], form: Form, metadata: &Metadata) -> Message {
    Message::Item(Item {
        path: path.to_vec(),
        form,
        mode: permissions(metadata.mode()),
        modified: metadata.mtime(),
    })
}

fn read_file(place: &Path, path: &[u8], seen: &Metadata, sender: &SyncSender<Result<Message>>) -> Result<()> {
    let mut file = File::open(place).map_err(|error| host_error(&error, path))?;
    let opened = file.metadata().map_err(|error| host_error(&error, path))?;
    // A link or another file may have taken its place since its stat.
    if (opened.dev(), opened.ino()) != (seen.dev(), seen.ino()) {
        return Err(changed(path));
    }
    send(sender, item(path, Form::File(opened.len()), &opened))?;
    let mut left = opened.len();
    while left > 0 {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
        let count = file.read(&mut chunk).map_err(|error| host_error(&error, path))?;
        // The size is sent already, so a file that became shorter cannot be completed.
        if count == 0 {
            return Err(changed(path));
        }
        chunk.truncate(count);
        left -= count as u64;
        send(sender, Message::Data(chunk.into()))?;
    }
    Ok(())
}

fn changed(path: &[u8]) -> Error {
    let message = "a file was changed while it was read";
    let shown = garret_core::EntryPath::from_bytes(path.to_vec()).shown();
    Error::new(ErrorKind::Conflict, message)
        .at_text(shown)
        .hint("nothing was imported; try again when no program writes there")
}

fn send(sender: &SyncSender<Result<Message>>, message: Message) -> Result<()> {
    sender.send(Ok(message)).map_err(|_| gone())
}

/// Writes the received entries into the directory `root`, which is created, or exists and is empty. Afterwards the
/// directory is complete or unchanged, except after a crash in a directory that existed before.
pub(super) fn write(root: &Path, receiver: &Receiver<Message>) -> Result<()> {
    let unfinished = Unfinished::begin(root)?;
    if fill(unfinished.place(), receiver)? {
        unfinished.keep()
    } else {
        // The sending side reports the reason.
        Ok(())
    }
}

/// Writes the received entries into the empty directory `root`; returns whether all entries arrived.
fn fill(root: &Path, receiver: &Receiver<Message>) -> Result<bool> {
    // Links are made last, so that nothing is written through one. The modes of directories are set last too, so that a
    // directory without write permission can be filled.
    let (mut links, mut directories) = (Vec::new(), Vec::new());
    let mut file: Option<(File, Item)> = None;
    let mut is_whole = false;
    for message in receiver {
        match message {
            Message::Data(bytes) => {
                let (file, item) = file.as_mut().ok_or_else(gone)?;
                file.write_all(&bytes).map_err(|error| host_error(&error, &item.path))?;
            }
            Message::Item(item) => {
                close(file.take())?;
                checked_path(&item.path)?;
                let place = below(root, &item.path);
                match &item.form {
                    Form::Directory => {
                        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(&place);
                        made.map_err(|error| host_error(&error, &item.path))?;
                        directories.push(item);
                    }
                    Form::File(_) => {
                        let made = File::options()
                            .write(true)
                            // Never opens an existing file or link, even if one appears meanwhile.
                            .create_new(true)
                            .mode(FILE_MODE)
                            .open(&place);
                        let made = made.map_err(|error| host_error(&error, &item.path))?;
                        file = Some((made, item));
                    }
                    Form::Link(_) | Form::Same(_) => links.push(item),
                }
            }
            Message::Skipped(_) => {}
            Message::End => is_whole = true,
        }
    }
    if !is_whole {
        return Ok(false);
    }
    close(file.take())?;
    for link in links {
        make_link(&below(root, &link.path), &link)?;
    }
    for directory in directories.iter().rev() {
        set_mode(&below(root, &directory.path), directory)?;
    }
    Ok(true)
}

fn close(file: Option<(File, Item)>) -> Result<()> {
    let Some((file, item)) = file else { return Ok(()) };
    // Set explicitly, because the umask reduces the mode that a file is created with.
    let mode = Permissions::from_mode(item.mode);
    file.set_permissions(mode)
        .map_err(|error| host_error(&error, &item.path))
}

fn make_link(place: &Path, link: &Item) -> Result<()> {
    let Form::Link(target) = &link.form else { return Ok(()) };
    let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
    std::os::unix::fs::symlink(target, place).map_err(|error| host_error(&error, &link.path))
}

fn set_mode(place: &Path, directory: &Item) -> Result<()> {
    let mode = Permissions::from_mode(directory.mode);
    std::fs::set_permissions(place, mode).map_err(|error| host_error(&error, &directory.path))
}
