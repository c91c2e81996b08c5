//! Writes a tar archive, compressed or not.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use garret_core::Result;

use super::{Compression, TreeItem, TreeItemForm, TreeMessage, check_outside_path};
use crate::error::export_not_written;

const LEVEL: i32 = 3;

/// Writes the received entries into an archive.
pub(super) fn write_archive(
    sink: Box<dyn Write + Send>,
    compression: Compression,
    receiver: &Receiver<TreeMessage>,
) -> Result<()> {
    let packed = match compression {
        Compression::None => pack_entries(sink, receiver)?.flush(),
        Compression::Gzip => {
            let encoder = flate2::write::GzEncoder::new(sink, flate2::Compression::default());
            pack_entries(encoder, receiver)?
                .finish()
                .and_then(|mut sink| sink.flush())
        }
        Compression::Zstd => {
            let encoder = zstd::stream::write::Encoder::new(sink, LEVEL).map_err(|error| export_not_written(&error))?;
            pack_entries(encoder, receiver)?
                .finish()
                .and_then(|mut sink| sink.flush())
        }
    };
    packed.map_err(|error| export_not_written(&error))
}

fn pack_entries<W: Write>(sink: W, receiver: &Receiver<TreeMessage>) -> Result<W> {
    let mut archive = tar::Builder::new(sink);
    for message in receiver {
        if let TreeMessage::Item(item) = message {
            check_outside_path(&item.path)?;
            append_item(&mut archive, &item, receiver).map_err(|error| export_not_written(&error))?;
        }
    }
    archive.into_inner().map_err(|error| export_not_written(&error))
}

fn append_item<W: Write>(
    archive: &mut tar::Builder<W>,
    item: &TreeItem,
    receiver: &Receiver<TreeMessage>,
) -> std::io::Result<()> {
    let path = Path::new(OsStr::from_bytes(&item.path));
    let mut header = tar::Header::new_gnu();
    header.set_mode(item.mode);
    header.set_mtime(u64::try_from(item.modified).unwrap_or(0));
    header.set_size(0);
    match &item.form {
        TreeItemForm::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, path, std::io::empty())
        }
        TreeItemForm::SymbolicLink(target) => {
            header.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut header, path, Path::new(OsStr::from_bytes(target)))
        }
        TreeItemForm::File(size) => {
            header.set_size(*size);
            let content = IncomingFileData {
                receiver,
                chunk: Bytes::new(),
                left: *size,
            };
            archive.append_data(&mut header, path, content)
        }
        // An export sends every name of a file as a file of its own.
        TreeItemForm::HardLink(_) => Ok(()),
    }
}

/// The data of one file as it arrives over the channel.
struct IncomingFileData<'r> {
    receiver: &'r Receiver<TreeMessage>,
    chunk: Bytes,
    left: u64,
}

impl Read for IncomingFileData<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.chunk.is_empty() && self.left > 0 {
            match self.receiver.recv() {
                Ok(TreeMessage::Data(bytes)) => self.chunk = bytes,
                // The sender stopped in the middle of a file.
                _ => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        self.left -= count as u64;
        Ok(count)
    }
}
