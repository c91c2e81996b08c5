//! The content of a write: bytes in memory, or a source that is read while it is stored.
//!
//! A file may be larger than memory, so a storage never needs all of it at once: each call of [`Content::open`] gives a
//! new reader. The length is known beforehand, because quotas and limits are checked before anything is stored. A
//! source whose length differs from the declared one is an error, not a file of another size.
//!
//! Content may name another path that has the very same file ([`Content::with_other_name`]): if both paths are written, a
//! storage with hard links can make them two names of one file. Any other storage writes it like any content.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Error, ErrorKind, Result, WsPath};

/// A source that content is read from. Reading may block, and each [`ContentSource::open`] begins at the start.
pub trait ContentSource: Send + Sync + fmt::Debug {
    /// Returns the number of bytes.
    fn size(&self) -> u64;
    /// Opens a reader that gives the bytes from the first to the last.
    fn open(&self) -> Result<Box<dyn Read + Send>>;
    /// Opens a file that holds exactly these bytes, for reading, so that a storage can share its blocks or take it
    /// over; `None` if there is no such file.
    fn backing_file(&self) -> Result<Option<File>> {
        Ok(None)
    }
}

/// The whole content of a file to be written. Cheap to clone. Two are equal if they have the same bytes or are the same
/// source.
#[derive(Clone)]
pub struct Content {
    form: ContentForm,
    also_at: Option<Arc<WsPath>>,
}

#[derive(Clone)]
enum ContentForm {
    Bytes(Bytes),
    Source(Arc<dyn ContentSource>),
}

impl Content {
    /// Returns content that is read from `source` when it is stored.
    pub fn from_source(source: impl ContentSource + 'static) -> Self {
        ContentForm::Source(Arc::new(source)).into()
    }

    /// Adds the path of another name of the same file.
    pub fn with_other_name(self, path: WsPath) -> Self {
        let also_at = Some(Arc::new(path));
        Self { also_at, ..self }
    }

    /// Returns the path of another name of the file that has this content. A storage may write this content as a hard
    /// link to that path, as long as the file there has these very bytes. In the effects of a command, all names of one
    /// file carry the same path, which is one of them; [`find_hard_links`] tells which of the names to link.
    pub fn other_name(&self) -> Option<&WsPath> {
        self.also_at.as_deref()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match &self.form {
            ContentForm::Bytes(bytes) => bytes.len() as u64,
            ContentForm::Source(source) => source.size(),
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes, if they are in memory.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match &self.form {
            ContentForm::Bytes(bytes) => Some(bytes),
            ContentForm::Source(_) => None,
        }
    }

    /// Reads all the bytes into memory, for a storage that keeps them there.
    pub fn to_bytes(&self) -> Result<Bytes> {
        if let Some(bytes) = self.as_bytes() {
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::new();
        // A declared size that does not fit into memory is an error here; a plain allocation would abort the process.
        let size = usize::try_from(self.len()).ok();
        size.and_then(|size| bytes.try_reserve_exact(size).ok())
            .ok_or_else(out_of_memory_error)?;
        let mut reader = self.open()?;
        while reader.append_to(&mut bytes, PIECE)? > 0 {}
        Ok(bytes.into())
    }

    /// Opens the file that holds the content, if there is one: see [`ContentSource::backing_file`].
    pub fn backing_file(&self) -> Result<Option<File>> {
        match &self.form {
            ContentForm::Bytes(_) => Ok(None),
            ContentForm::Source(source) => source.backing_file(),
        }
    }

    /// Opens the content for reading from the start.
    pub fn open(&self) -> Result<ContentReader> {
        let bytes: Box<dyn Read + Send> = match &self.form {
            ContentForm::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes.clone())),
            ContentForm::Source(source) => source.open()?,
        };
        Ok(ContentReader {
            bytes,
            size: self.len(),
            read: 0,
            is_checked: false,
        })
    }
}

const PIECE: usize = 256 * 1024;

impl From<ContentForm> for Content {
    fn from(form: ContentForm) -> Self {
        Self { form, also_at: None }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            ContentForm::Bytes(bytes) => bytes.fmt(formatter),
            ContentForm::Source(source) => source.fmt(formatter),
        }
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (&self.form, &other.form) {
            (ContentForm::Bytes(one), ContentForm::Bytes(two)) => one == two,
            // Bytes are not compared: that would read both sources whole.
            (ContentForm::Source(one), ContentForm::Source(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl Eq for Content {}

impl Default for Content {
    fn default() -> Self {
        Bytes::new().into()
    }
}

macro_rules! from_bytes {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Content {
            fn from(bytes: $kind) -> Self {
                ContentForm::Bytes(bytes.into()).into()
            }
        })*
    };
}

from_bytes!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);

impl<const N: usize> From<&'static [u8; N]> for Content {
    fn from(bytes: &'static [u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

/// Returns, for files with several names, the names to write as hard links, each with the path to link to.
///
/// `files` gives the names in the order in which they are written, each with the path that identifies its file. The
/// path to link to is a name that is not written and so keeps its file, or else the first name.
pub fn find_hard_links<'a>(
    files: impl IntoIterator<Item = (&'a WsPath, &'a WsPath)>,
    is_written: impl Fn(&WsPath) -> bool,
) -> BTreeMap<WsPath, WsPath> {
    let mut groups: BTreeMap<&WsPath, Vec<&WsPath>> = BTreeMap::new();
    for (path, file) in files {
        groups.entry(file).or_default().push(path);
    }
    let mut others = BTreeMap::new();
    for paths in groups.values() {
        // A name that is not written keeps its file, so that the other names can be linked to it.
        let stays = paths.iter().find(|path| !is_written(path));
        let Some(there) = stays.or(paths.first()) else { continue };
        let written = paths.iter().filter(|path| *path != there && is_written(path));
        others.extend(written.map(|path| ((*path).clone(), (*there).clone())));
    }
    others
}

/// A reader of content. It gives exactly as many bytes as were declared, or an error.
pub struct ContentReader {
    bytes: Box<dyn Read + Send>,
    size: u64,
    read: u64,
    is_checked: bool,
}

impl fmt::Debug for ContentReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ContentReader");
        shown.field("size", &self.size).field("read", &self.read);
        shown.finish_non_exhaustive()
    }
}

impl ContentReader {
    /// Adds up to `most` bytes to `buffer` and returns how many it added; fewer than `most` only at the end. A source
    /// that fails, ends early or goes on past its size is `unavailable`.
    pub fn append_to(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<usize> {
        let before = buffer.len();
        let rest = self.size - self.read;
        let wanted = rest.min(most as u64);
        let got = (&mut self.bytes)
            .take(wanted)
            .read_to_end(buffer)
            .map_err(source_error)?;
        debug_assert_eq!(got, buffer.len() - before);
        self.read += got as u64;
        if (got as u64) < wanted {
            return Err(wrong_size_error(self.size, &format!("ended after {}", self.read)));
        }
        // Checked with the last byte, because a caller that has all bytes need not read again.
        if self.read == self.size {
            self.check_end()?;
        }
        Ok(got)
    }

    /// Checks, once, that nothing comes after the last byte.
    fn check_end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_checked, true) {
            return Ok(());
        }
        let mut more = Vec::with_capacity(1);
        let more = (&mut self.bytes).take(1).read_to_end(&mut more).map_err(source_error)?;
        if more > 0 {
            return Err(wrong_size_error(self.size, "has more"));
        }
        Ok(())
    }
}

impl Read for ContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // The bytes go through `append_to`, so that a reader by this trait notices a source of another size, too.
        let mut piece = Vec::new();
        let most = buffer.len().min(PIECE);
        let got = self.append_to(&mut piece, most).map_err(std::io::Error::other)?;
        buffer[..got].copy_from_slice(&piece);
        Ok(got)
    }
}

/// Returns the error for a source that cannot be read; an [`Error`] of the source itself is passed on.
fn source_error(failure: std::io::Error) -> Error {
    failure.downcast::<Error>().unwrap_or_else(|_| {
        Error::new(ErrorKind::Unavailable, "the content to write cannot be read").hint("nothing was changed; try again")
    })
}

fn wrong_size_error(size: u64, what: &str) -> Error {
    let message = format!("the declared size of the content is {size} bytes, but the content {what}");
    Error::new(ErrorKind::Unavailable, message)
        .hint("nothing was changed; try again when no program changes its source")
}

fn out_of_memory_error() -> Error {
    Error::new(ErrorKind::TooLarge, "the content to write does not fit into memory")
        .hint("use a storage that keeps files on a disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says one size and gives another.
    #[derive(Debug)]
    struct Liar {
        said: u64,
        given: u64,
    }

    impl ContentSource for Liar {
        fn size(&self) -> u64 {
            self.said
        }

        fn open(&self) -> Result<Box<dyn Read + Send>> {
            Ok(Box::new(std::io::repeat(7).take(self.given)))
        }
    }

    fn read(said: u64, given: u64) -> Result<Bytes> {
        Content::from_source(Liar { said, given }).to_bytes()
    }

    #[test]
    fn names_of_one_file_lead_to_the_one_that_stays_or_else_to_the_first() {
        let at = |path: &str| WsPath::parse(path).unwrap();
        let files = [
            (at("a"), at("a")),
            (at("b"), at("b")),
            (at("c"), at("a")),
            (at("d"), at("a")),
        ];
        let others = |staying: &'static str| {
            let files = files.iter().map(|(path, file)| (path, file));
            let others = find_hard_links(files, |path| path.as_str() != staying);
            let shown = |(path, there): (&WsPath, &WsPath)| format!("{path} {there}");
            others.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(others("none"), ["c a", "d a"]);
        assert_eq!(others("c"), ["a c", "d c"]);
        assert!(others("b").iter().all(|pair| !pair.contains('b')));
    }

    #[test]
    fn a_source_gives_what_it_announced_as_often_as_it_is_opened() {
        let content = Content::from_source(Liar {
            said: 700_000,
            given: 700_000,
        });
        for _ in 0..2 {
            assert_eq!(content.to_bytes().unwrap(), vec![7; 700_000]);
        }
        assert_eq!(read(0, 0).unwrap(), Bytes::new());
    }

    #[test]
    fn a_source_of_another_size_is_an_error_that_says_so() {
        for (said, given, told) in [(5, 3, "ended after 3"), (3, 5, "has more"), (0, 1, "has more")] {
            let error = read(said, given).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.message().contains(told), "{error}");
        }
    }

    /// Refuses to be read, and says why.
    #[derive(Debug)]
    struct Refusing;

    impl Read for Refusing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other(Error::new(
                ErrorKind::TooLarge,
                "enough was read",
            )))
        }
    }

    impl ContentSource for Refusing {
        fn size(&self) -> u64 {
            9
        }

        fn open(&self) -> Result<Box<dyn Read + Send>> {
            Ok(Box::new(Self))
        }
    }

    #[test]
    fn the_reason_of_a_source_is_the_error_of_who_reads_it() {
        let error = Content::from_source(Refusing).to_bytes().unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::TooLarge, "enough was read")
        );
    }

    #[test]
    fn pieces_are_as_long_as_asked_for_up_to_the_last() {
        let content = Content::from(vec![1; 10]);
        let mut reader = content.open().unwrap();
        let mut buffer = Vec::new();
        let lengths: Vec<_> = (0..4).map(|_| reader.append_to(&mut buffer, 4).unwrap()).collect();
        assert_eq!(lengths, [4, 4, 2, 0]);
        assert_eq!(buffer, [1; 10]);
    }

    #[test]
    fn bytes_are_equal_by_value_and_sources_by_identity() {
        assert_eq!(Content::from("a"), Content::from(vec![b'a']));
        let source = Content::from_source(Liar { said: 1, given: 1 });
        assert_eq!(source, source.clone());
        assert_ne!(source, Content::from_source(Liar { said: 1, given: 1 }));
        assert_ne!(source, Content::from(vec![7]));
    }
}
