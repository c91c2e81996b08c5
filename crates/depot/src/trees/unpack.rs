//! Reads a tar archive, compressed or not.

use std::io::Read;
use std::sync::mpsc::SyncSender;

use garret_core::{EntryPath, Error, ErrorKind, Result};
use tar::EntryType;

use super::{CHUNK, Compression, Form, Item, Message, checked_path, gone, permissions, skipped};
use crate::archive::Archive;

/// Sends the entries of the archive, in its order.
pub(super) fn read(
    archive: Box<dyn Read + Send>,
    compression: Compression,
    sender: &SyncSender<Result<Message>>,
) -> Result<()> {
    let plain: Box<dyn Read> = match compression {
        Compression::None => archive,
        // Some tools write a gzip file of several members.
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(archive)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(archive).map_err(|_| damaged())?),
    };
    let mut archive = Archive::over(plain);
    for entry in archive.entries().map_err(|_| damaged())? {
        let mut entry = entry.map_err(|error| unread(&error))?;
        if let Some(message) = message_of(&mut entry)? {
            let size = match &message {
                Message::Item(Item {
                    form: Form::File(size), ..
                }) => *size,
                _ => 0,
            };
            send(sender, message)?;
            send_data(&mut entry, size, sender)?;
        }
        // The rest of an entry would be taken for the headers of the next one.
        std::io::copy(&mut entry, &mut std::io::sink()).map_err(|_| damaged())?;
    }
    Ok(())
}

/// Returns the message for an entry; `None` for the root of the archive.
fn message_of<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Option<Message>> {
    check_sparse(entry)?;
    let Some(path) = path_of(&entry.path_bytes())? else {
        return Ok(None);
    };
    let target = entry
        .link_name_bytes()
        .map(|name| name.into_owned())
        .unwrap_or_default();
    let form = match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Form::File(entry.size()),
        EntryType::Directory => Form::Directory,
        EntryType::Symlink => Form::Link(target),
        EntryType::Link => Form::Same(path_of(&target)?.ok_or_else(damaged)?),
        // These are headers for other entries, not files.
        EntryType::XGlobalHeader | EntryType::XHeader => return Ok(None),
        _ => {
            let why = "it is neither a file, a directory nor a link";
            return Ok(Some(Message::Skipped(skipped(&path, why))));
        }
    };
    Ok(Some(Message::Item(Item {
        path,
        form,
        mode: permissions(entry.header().mode().map_err(|_| damaged())?),
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
    let attributes = entry.pax_extensions().map_err(|_| damaged())?;
    for attribute in attributes.into_iter().flatten() {
        let attribute = attribute.map_err(|_| damaged())?;
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
        .at_text(EntryPath::from_bytes(name).shown())
        .hint("nothing was imported; make the archive again without `-S`, or with `--format=gnu`"))
    } else {
        Ok(())
    }
}

fn send_data(content: &mut impl Read, size: u64, sender: &SyncSender<Result<Message>>) -> Result<()> {
    let mut left = size;
    while left > 0 {
        let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
        let count = content.read(&mut chunk).map_err(|_| damaged())?;
        if count == 0 {
            return Err(damaged());
        }
        chunk.truncate(count);
        left -= count as u64;
        send(sender, Message::Data(chunk.into()))?;
    }
    Ok(())
}

/// Returns the path of an entry below the destination; `None` for the destination itself. A path that leads outside is
/// `path_escape`.
fn path_of(name: &[u8]) -> Result<Option<Vec<u8>>> {
    let shown = || EntryPath::from_bytes(name.to_vec()).shown();
    let is_parent = |part: &[u8]| part == b"..";
    if name.starts_with(b"/") || name.split(|byte| *byte == b'/').any(is_parent) {
        return Err(Error::new(
            ErrorKind::PathEscape,
            "the archive names a path outside of its own root",
        )
        .at_text(shown())
        .hint("nothing was imported; make the archive again with relative paths"));
    }
    let names = name.split(|byte| *byte == b'/');
    let parts: Vec<_> = names.filter(|part| !matches!(*part, b"" | b".")).collect();
    let path = parts.join(&b'/');
    if path.is_empty() {
        return Ok(None);
    }
    checked_path(&path)?;
    Ok(Some(path))
}

fn send(sender: &SyncSender<Result<Message>>, message: Message) -> Result<()> {
    sender.send(Ok(message)).map_err(|_| gone())
}

/// Converts an error in reading the headers of an entry.
fn unread(error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            Error::invalid("an entry of the archive has a name or attributes that are too long")
                .hint("nothing was imported; make the archive again without extended attributes")
        }
        _ => damaged(),
    }
}

fn damaged() -> Error {
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
        let path = |name: &str| path_of(name.as_bytes());
        assert_eq!(path("./a//b/").unwrap().unwrap(), b"a/b");
        assert_eq!(path("./").unwrap(), None);
        for name in ["/etc/passwd", "../a", "a/../../b", "a/.."] {
            assert_eq!(path(name).unwrap_err().kind(), ErrorKind::PathEscape, "{name}");
        }
        assert_eq!(path(&"x".repeat(300)).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
