//! Reads a tar archive, compressed or not.

use std::io::Read;
use std::sync::mpsc::SyncSender;

use garret_core::{EntryPath, Error, ErrorKind, Result};
use tar::EntryType;

use super::{
    CHUNK, Compression, TreeItem, TreeItemForm, TreeMessage, channel_closed, check_outside_path, permission_bits,
    skipped_entry,
};
use crate::archive::Archive;

/// Sends the entries of the archive, in its order.
pub(super) fn read_archive(
    archive: Box<dyn Read + Send>,
    compression: Compression,
    sender: &SyncSender<Result<TreeMessage>>,
) -> Result<()> {
    let plain: Box<dyn Read> = match compression {
        Compression::None => archive,
        // Some tools write a gzip file of several members.
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(archive)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(archive).map_err(|_| damaged_archive())?),
    };
    let mut archive = Archive::new(plain);
    for entry in archive.entries().map_err(|_| damaged_archive())? {
        let mut entry = entry.map_err(|error| header_error(&error))?;
        if let Some(message) = message_of(&mut entry)? {
            let size = match &message {
                TreeMessage::Item(TreeItem {
                    form: TreeItemForm::File(size),
                    ..
                }) => *size,
                _ => 0,
            };
            send_message(sender, message)?;
            send_data(&mut entry, size, sender)?;
        }
        // The rest of an entry would be taken for the headers of the next one.
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|_| damaged_archive())?;
    }
    Ok(())
}

/// Returns the message for an entry; `None` for the root of the archive.
fn message_of<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Option<TreeMessage>> {
    check_sparse(entry)?;
    let Some(path) = entry_path_below(&entry.path_bytes())? else {
        return Ok(None);
    };
    let target = entry
        .link_name_bytes()
        .map(|name| name.into_owned())
        .unwrap_or_default();
    let form = match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => TreeItemForm::File(entry.size()),
        EntryType::Directory => TreeItemForm::Directory,
        EntryType::Symlink => TreeItemForm::SymbolicLink(target),
        EntryType::Link => TreeItemForm::HardLink(entry_path_below(&target)?.ok_or_else(damaged_archive)?),
        // These are headers for other entries, not files.
        EntryType::XGlobalHeader | EntryType::XHeader => return Ok(None),
        _ => {
            let why = "it is neither a file, a directory nor a link";
            return Ok(Some(TreeMessage::Skipped(skipped_entry(&path, why))));
        }
    };
    Ok(Some(TreeMessage::Item(TreeItem {
        path,
        form,
        mode: permission_bits(entry.header().mode().map_err(|_| damaged_archive())?),
        modified: entry.header().mtime().unwrap_or(0) as i64,
    })))
}

/// Refuses a sparse file in the POSIX format.
fn check_sparse<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<()> {
    if !entry.header().entry_type().is_file() {
        return Ok(());
    }
    // Such an entry holds the pieces of the file, one after the other; taken as it is, it would be another file.
    let (mut is_sparse, mut name) = (false, entry.path_bytes().into_owned());
    let attributes = entry.pax_extensions().map_err(|_| damaged_archive())?;
    for attribute in attributes.into_iter().flatten() {
        let attribute = attribute.map_err(|_| damaged_archive())?;
        is_sparse |= attribute.key_bytes().starts_with(b"GNU.sparse.");
        if attribute.key_bytes() == b"GNU.sparse.name" {
            name = attribute.value_bytes().to_vec();
        }
    }
    if is_sparse {
        Err(Error::new(
            ErrorKind::Unsupported,
            "the archive has a sparse file in a format that Garret cannot read",
        )
        .at_path_text(EntryPath::from_bytes(name).display_path())
        .hint("nothing was imported; make the archive again without `-S`, or with `--format=gnu`"))
    } else {
        Ok(())
    }
}

fn send_data(content: &mut impl Read, size: u64, sender: &SyncSender<Result<TreeMessage>>) -> Result<()> {
    let mut left = size;
    while left > 0 {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
        let count = content.read(&mut chunk).map_err(|_| damaged_archive())?;
        if count == 0 {
            return Err(damaged_archive());
        }
        chunk.truncate(count);
        left -= count as u64;
        send_message(sender, TreeMessage::Data(chunk.into()))?;
    }
    Ok(())
}

/// Returns the path of an entry below the destination; `None` for the destination itself. A path that leads outside is
/// `path_escape`.
fn entry_path_below(name: &[u8]) -> Result<Option<Vec<u8>>> {
    let shown = || EntryPath::from_bytes(name.to_vec()).display_path();
    let is_parent = |part: &[u8]| part == b"..";
    if name.starts_with(b"/") || name.split(|byte| *byte == b'/').any(is_parent) {
        return Err(Error::new(
            ErrorKind::PathEscape,
            "the archive names a path outside of its own root",
        )
        .at_path_text(shown())
        .hint("nothing was imported; make the archive again with relative paths"));
    }
    let names = name.split(|byte| *byte == b'/');
    let parts: Vec<_> = names.filter(|part| !matches!(*part, b"" | b".")).collect();
    let path = parts.join(&b'/');
    if path.is_empty() {
        return Ok(None);
    }
    check_outside_path(&path)?;
    Ok(Some(path))
}

fn send_message(sender: &SyncSender<Result<TreeMessage>>, message: TreeMessage) -> Result<()> {
    sender.send(Ok(message)).map_err(|_| channel_closed())
}

/// Converts an error in reading the headers of an entry.
fn header_error(error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            Error::invalid("an entry of the archive has a name or attributes that are too long")
                .hint("nothing was imported; make the archive again without extended attributes")
        }
        _ => damaged_archive(),
    }
}

fn damaged_archive() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the archive is damaged, truncated, or not a tar archive",
    )
    .hint("nothing was imported; check the archive, and that its file extension matches its compression")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_an_archive_stays_where_it_is_put() {
        let path = |name: &str| entry_path_below(name.as_bytes());
        assert_eq!(path("./a//b/").unwrap().unwrap(), b"a/b");
        assert_eq!(path("./").unwrap(), None);
        for name in ["/etc/passwd", "../a", "a/../../b", "a/.."] {
            assert_eq!(path(name).unwrap_err().kind(), ErrorKind::PathEscape, "{name}");
        }
        assert_eq!(path(&"x".repeat(300)).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
