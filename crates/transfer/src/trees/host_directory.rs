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

use super::unfinished_directory::UnfinishedDirectory;
use super::{
    CHUNK, DIRECTORY_MODE, FILE_MODE, TreeItem, TreeItemForm, TreeMessage, channel_closed, check_outside_path,
    host_error, host_path, permission_bits, skipped_entry,
};

/// Sends everything below `root`, in order, directories before their entries.
pub(super) fn read_directory(root: &Path, sender: &SyncSender<Result<TreeMessage>>) -> Result<()> {
    let metadata = std::fs::metadata(root).map_err(|error| host_error(&error, b""))?;
    if !metadata.is_dir() {
        return Err(
            Error::new(ErrorKind::NotADirectory, "the source of the import is not a directory")
                .hint("name a directory, or a file that ends in .tar, .tar.gz or .tar.zst"),
        );
    }
    let mut waiting = list_paths(root, b"")?;
    while let Some(path) = waiting.pop() {
        let place = host_path(root, &path);
        let metadata = std::fs::symlink_metadata(&place).map_err(|error| host_error(&error, &path))?;
        check_outside_path(&path)?;
        if metadata.is_dir() {
            send_message(sender, item_message(&path, TreeItemForm::Directory, &metadata))?;
            waiting.extend(list_paths(&place, &path)?);
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(&place).map_err(|error| host_error(&error, &path))?;
            send_message(
                sender,
                item_message(
                    &path,
                    TreeItemForm::SymbolicLink(target.into_os_string().into_vec()),
                    &metadata,
                ),
            )?;
        } else if metadata.is_file() {
            read_file(&place, &path, &metadata, sender)?;
        } else {
            let message = TreeMessage::Skipped(skipped_entry(&path, "it is neither a file, a directory nor a link"));
            send_message(sender, message)?;
        }
    }
    Ok(())
}

/// Returns the paths in a directory, in reverse order.
fn list_paths(place: &Path, path: &[u8]) -> Result<Vec<Vec<u8>>> {
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

fn item_message(path: &[u8], form: TreeItemForm, metadata: &Metadata) -> TreeMessage {
    TreeMessage::Item(TreeItem {
        path: path.to_vec(),
        form,
        mode: permission_bits(metadata.mode()),
        modified: metadata.mtime(),
    })
}

fn read_file(place: &Path, path: &[u8], seen: &Metadata, sender: &SyncSender<Result<TreeMessage>>) -> Result<()> {
    let mut file = File::open(place).map_err(|error| host_error(&error, path))?;
    let opened = file.metadata().map_err(|error| host_error(&error, path))?;
    // A link or another file may have taken its place since its stat.
    if (opened.dev(), opened.ino()) != (seen.dev(), seen.ino()) {
        return Err(changed_while_read(path));
    }
    send_message(sender, item_message(path, TreeItemForm::File(opened.len()), &opened))?;
    let mut left = opened.len();
    while left > 0 {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
        let count = file.read(&mut chunk).map_err(|error| host_error(&error, path))?;
        // The size is sent already, so a file that became shorter cannot be completed.
        if count == 0 {
            return Err(changed_while_read(path));
        }
        chunk.truncate(count);
        left -= count as u64;
        send_message(sender, TreeMessage::Data(chunk.into()))?;
    }
    Ok(())
}

fn changed_while_read(path: &[u8]) -> Error {
    let message = "a file was changed while it was read";
    let shown = garret_core::EntryPath::from_bytes(path.to_vec()).display_path();
    Error::new(ErrorKind::Conflict, message)
        .at_path_text(shown)
        .hint("nothing was imported; try again when no program writes there")
}

fn send_message(sender: &SyncSender<Result<TreeMessage>>, message: TreeMessage) -> Result<()> {
    sender.send(Ok(message)).map_err(|_| channel_closed())
}

/// Writes the received entries into the directory `root`, which is created, or exists and is empty. Afterwards the
/// directory is complete or unchanged, except after a crash in a directory that existed before.
pub(super) fn write_directory(root: &Path, receiver: &Receiver<TreeMessage>) -> Result<()> {
    let unfinished = UnfinishedDirectory::begin(root)?;
    if fill_directory(unfinished.place(), receiver)? {
        unfinished.keep_directory()
    } else {
        // The sending side reports the reason.
        Ok(())
    }
}

/// Writes the received entries into the empty directory `root`; returns whether all entries arrived.
fn fill_directory(root: &Path, receiver: &Receiver<TreeMessage>) -> Result<bool> {
    // Links are made last, so that nothing is written through one. The modes of directories are set last too, so that a
    // directory without write permission can be filled.
    let (mut links, mut directories) = (Vec::new(), Vec::new());
    let mut file: Option<(File, TreeItem)> = None;
    let mut is_whole = false;
    for message in receiver {
        match message {
            TreeMessage::Data(bytes) => {
                let (file, item) = file.as_mut().ok_or_else(channel_closed)?;
                file.write_all(&bytes).map_err(|error| host_error(&error, &item.path))?;
            }
            TreeMessage::Item(item) => {
                finish_file(file.take())?;
                check_outside_path(&item.path)?;
                let place = host_path(root, &item.path);
                match &item.form {
                    TreeItemForm::Directory => {
                        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(&place);
                        made.map_err(|error| host_error(&error, &item.path))?;
                        directories.push(item);
                    }
                    TreeItemForm::File(_) => {
                        let made = File::options()
                            .write(true)
                            // Never opens an existing file or link, even if one appears meanwhile.
                            .create_new(true)
                            .mode(FILE_MODE)
                            .open(&place);
                        let made = made.map_err(|error| host_error(&error, &item.path))?;
                        file = Some((made, item));
                    }
                    TreeItemForm::SymbolicLink(_) | TreeItemForm::HardLink(_) => links.push(item),
                }
            }
            TreeMessage::Skipped(_) => {}
            TreeMessage::End => is_whole = true,
        }
    }
    if !is_whole {
        return Ok(false);
    }
    finish_file(file.take())?;
    for link in links {
        make_link(&host_path(root, &link.path), &link)?;
    }
    for directory in directories.iter().rev() {
        set_mode(&host_path(root, &directory.path), directory)?;
    }
    Ok(true)
}

fn finish_file(file: Option<(File, TreeItem)>) -> Result<()> {
    let Some((file, item)) = file else { return Ok(()) };
    // Set explicitly, because the umask reduces the mode that a file is created with.
    let mode = Permissions::from_mode(item.mode);
    file.set_permissions(mode)
        .map_err(|error| host_error(&error, &item.path))
}

fn make_link(place: &Path, link: &TreeItem) -> Result<()> {
    let TreeItemForm::SymbolicLink(target) = &link.form else {
        return Ok(());
    };
    let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
    std::os::unix::fs::symlink(target, place).map_err(|error| host_error(&error, &link.path))
}

fn set_mode(place: &Path, directory: &TreeItem) -> Result<()> {
    let mode = Permissions::from_mode(directory.mode);
    std::fs::set_permissions(place, mode).map_err(|error| host_error(&error, &directory.path))
}
