//! Directories of the host, read and written. Links are never followed.

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

/// Sends everything below `root`, in order, directories before what they hold.
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

/// The paths in a directory, the first in order last.
fn names(place: &Path, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(place).map_err(|error| host_error(&error, path))? {
        let name = entry.map_err(|error| host_error(&error, path))?.file_name();
        let path = match path.is_empty() {
            true => name.as_bytes().to_vec(),
            false => [path, b"/", name.as_bytes()].concat(),
        };
        paths.push(path);
    }
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
    // A link or another file may have taken its place since it was looked at.
    if (opened.dev(), opened.ino()) != (seen.dev(), seen.ino()) {
        return Err(changed(path));
    }
    send(sender, item(path, Form::File(opened.len()), &opened))?;
    let mut left = opened.len();
    while left > 0 {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
        let count = file.read(&mut chunk).map_err(|error| host_error(&error, path))?;
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

/// Puts what comes into the directory `root`, which is made, or is there and empty. It is there whole or, but for a crash in one that was
/// there already, as it was before.
pub(super) fn write(root: &Path, receiver: &Receiver<Message>) -> Result<()> {
    let unfinished = Unfinished::begin(root)?;
    match fill(unfinished.place(), receiver)? {
        true => unfinished.keep(),
        // Whoever sends says why.
        false => Ok(()),
    }
}

/// Puts what comes into the empty directory `root`; gives whether all came. Links come last, so that nothing is written through one; the
/// modes of directories too, so that one that may not be written to can be filled.
fn fill(root: &Path, receiver: &Receiver<Message>) -> Result<bool> {
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
