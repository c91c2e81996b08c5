//! Reads the entries of a tar archive from an untrusted source.
//!
//! The headers before an entry (long names, extended attributes, the map of a sparse file) are read into memory by the
//! tar reader, however long they claim to be. Here they are refused above a size that no tool writes, so that a small
//! archive which unpacks to gigabytes of a name takes no more memory than another.

use std::cell::Cell;
use std::io::{Error, ErrorKind, Read, Result};
use std::rc::Rc;

/// The most bytes that are read from one entry to the next.
pub(crate) const LONGEST_HEADERS: u64 = 4 << 20;

/// A tar archive whose headers are bounded in size.
pub(crate) struct Archive<R: Read> {
    archive: tar::Archive<BoundedReader<R>>,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Archive<R> {
    pub(crate) fn new(source: R) -> Self {
        // Shared with the reader, because the tar reader owns it while the entries are read.
        let left = Rc::new(Cell::new(u64::MAX));
        let bounded = BoundedReader {
            source,
            left: left.clone(),
        };
        Self {
            archive: tar::Archive::new(bounded),
            left,
        }
    }

    /// Returns the entries in order. The caller reads all content of an entry before it takes the next one: unread
    /// content counts as headers.
    pub(crate) fn entries(&mut self) -> Result<ArchiveEntries<'_, R>> {
        Ok(ArchiveEntries {
            entries: self.archive.entries()?,
            left: self.left.clone(),
        })
    }

    /// Returns the bytes after the archive.
    pub(crate) fn into_rest(self) -> impl Read {
        self.archive.into_inner()
    }
}

/// The entries of an archive.
pub(crate) struct ArchiveEntries<'a, R: Read> {
    entries: tar::Entries<'a, BoundedReader<R>>,
    left: Rc<Cell<u64>>,
}

impl<'a, R: Read> Iterator for ArchiveEntries<'a, R> {
    type Item = Result<tar::Entry<'a, BoundedReader<R>>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left.set(LONGEST_HEADERS);
        let next = self.entries.next();
        // The bound is for headers only; the content of an entry may have any size.
        self.left.set(u64::MAX);
        next
    }
}

/// A reader that fails after a given number of bytes.
pub(crate) struct BoundedReader<R> {
    source: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(Error::new(
                ErrorKind::FileTooLarge,
                "the headers of an entry are too long",
            ));
        }
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.source.read(&mut buffer[..length])?;
        self.left.set(left - count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a header of this kind for `size` bytes, without the bytes.
    fn header(kind: tar::EntryType, size: u64) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    /// Reads an archive that never ends after its first header; returns the number of bytes read and the error.
    fn read_of_endless(kind: tar::EntryType) -> (u64, ErrorKind) {
        let first = header(kind, 3 << 30);
        let taken = Cell::new(0);
        let counted = Counted(first.as_slice().chain(std::io::repeat(b'a')), &taken);
        let mut archive = Archive::new(counted);
        let next = archive.entries().expect("it is at its beginning").next();
        let error = next.expect("there is one").err().expect("it is refused");
        (taken.get(), error.kind())
    }

    struct Counted<'c, R>(R, &'c Cell<u64>);

    impl<R: Read> Read for Counted<'_, R> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            let count = self.0.read(buffer)?;
            self.1.set(self.1.get() + count as u64);
            Ok(count)
        }
    }

    #[test]
    fn headers_that_no_tool_writes_are_refused_before_they_are_in_memory() {
        for kind in [
            tar::EntryType::GNULongName,
            tar::EntryType::GNULongLink,
            tar::EntryType::XHeader,
        ] {
            let (taken, error) = read_of_endless(kind);
            assert_eq!((taken, error), (LONGEST_HEADERS, ErrorKind::FileTooLarge), "{kind:?}");
        }
    }

    #[test]
    fn the_content_of_an_entry_has_no_bound() {
        let size = 2 * LONGEST_HEADERS;
        let mut bytes = header(tar::EntryType::Regular, size);
        bytes.resize(bytes.len() + size as usize, b'a');
        let second = header(tar::EntryType::Regular, 0);
        bytes.extend_from_slice(&second);
        let mut archive = Archive::new(bytes.as_slice());
        let mut sizes = Vec::new();
        for entry in archive.entries().expect("it is at its beginning") {
            let mut entry = entry.expect("it is whole");
            sizes.push(std::io::copy(&mut entry, &mut std::io::sink()).expect("it is whole"));
        }
        assert_eq!(sizes, [size, 0]);
    }
}
