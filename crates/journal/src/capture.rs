//! Captures entries with their content, so that they can be recorded.

use std::io::Read;
use std::sync::Arc;

use garret_core::{
    Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Follow, Mutation, ReadOptions, ReadResult, Result,
    Stat, Storage, WsPath,
};
use garret_depot::outside_files::{CapturedEntry, RecordContent};

use crate::observed_files::{ObservedFiles, entry_of_stat, means_absent};
use crate::raw_names::{DirectoryHandles, displayed_path, split_raw_path};
use crate::spool::spool_content;

/// Number of times that a file is read again because it changes while it is read.
pub(crate) const TRIES: usize = 5;
/// A file up to this size is read in one piece.
pub(crate) const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

impl ObservedFiles<'_> {
    /// Returns the entry at `path`, with its content.
    pub(crate) async fn capture_entry(&self, path: &WsPath, stat: Option<Stat>) -> Result<Option<CapturedEntry>> {
        let Some(stat) = stat else { return Ok(None) };
        let mut known = entry_of_stat(&stat);
        if known.kind != EntryKind::File {
            return Ok(Some(CapturedEntry { known, content: None }));
        }
        if known.size > WHOLE_BYTES
            && let Some(thing) = self.capture_large(path).await?
        {
            return Ok(Some(thing));
        }
        for _ in 0..TRIES {
            match self.read_content(path, known.size).await {
                Ok((content, read)) => {
                    known.size = read.size;
                    known.mode = read.mode.unwrap_or(known.mode);
                    known.token = Some(read.version.as_str().to_owned());
                    let content = Some(self.hold_content(content).await?);
                    return Ok(Some(CapturedEntry { known, content }));
                }
                Err(error) if means_absent(error.kind()) => return Ok(None),
                // Another program wrote the file, maybe between two pieces.
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable) => {}
                Err(error) => return Err(error),
            }
        }
        Err(changing_file_error(path))
    }

    /// Reads the content of a file of about `size` bytes, a large one through a temporary file in the home. Returns it
    /// with the result of the first read.
    async fn read_content(&self, path: &WsPath, size: u64) -> Result<(Content, ReadResult)> {
        if let Some(home) = self.journaled.gate.files().filter(|_| size > WHOLE_BYTES) {
            return spool_content(self, path, &home.folder).await;
        }
        let options = ReadOptions {
            follow: Follow::Never,
            ..ReadOptions::default()
        };
        let read = self.journaled.files.read(path, options).await?;
        Ok((read.bytes.clone().into(), read))
    }

    /// Captures a large file by handle, without holding it in memory; `None` if the storage has no handles. A file that
    /// changes during the capture is read again.
    async fn capture_large(&self, path: &WsPath) -> Result<Option<CapturedEntry>> {
        for _ in 0..TRIES {
            let Some(before) = self.stat(path).await?.filter(|stat| stat.kind == EntryKind::File) else {
                return Ok(None);
            };
            if !self.has_handles()? {
                return Ok(None);
            }
            let known = entry_of_stat(&before);
            let content = self.content_by_handle(&path.clone().into(), before.size);
            let Ok(held) = self.hold_content(content).await else {
                continue;
            };
            if let Some(token) = &known.token
                && self.has_version(path, token).await?
            {
                return Ok(Some(CapturedEntry {
                    known,
                    content: Some(held),
                }));
            }
        }
        Err(changing_file_error(path))
    }

    fn has_handles(&self) -> Result<bool> {
        Ok(self.journaled.files.open_directory(&WsPath::root())?.is_some())
    }

    /// Returns the content of a file of `size` bytes in a storage with handles; it is read on use.
    pub(crate) fn content_by_handle(&self, path: &EntryPath, size: u64) -> Content {
        Content::from_source(HandleSource {
            files: self.journaled.files.clone(),
            path: path.clone(),
            size,
        })
    }

    /// Returns the content of a file of about `size` bytes. The content of a large file is read by handle on use, or
    /// goes through a temporary file in the home.
    pub(crate) async fn load_content(&self, path: &EntryPath, size: u64) -> Result<Content> {
        let Some(valid) = path.as_path() else {
            return Ok(self.content_by_handle(path, size));
        };
        if size > WHOLE_BYTES && self.has_handles()? {
            return Ok(self.content_by_handle(path, size));
        }
        Ok(self.read_content(valid, size).await?.0)
    }

    /// Prepares content for a record: small content is held in the record, larger content in the depot.
    pub(crate) async fn hold_content(&self, content: Content) -> Result<RecordContent> {
        if content.len() <= self.room.inline_bytes() {
            return content.to_bytes().map(RecordContent::Inline);
        }
        self.store_content(content).await
    }

    /// Stores content in the depot.
    pub(crate) async fn store_content(&self, content: Content) -> Result<RecordContent> {
        let mut stored = self.room.store_contents(vec![content]).await?;
        Ok(stored.pop().expect("one content was stored"))
    }

    /// Captures the entry at a raw name by handle. A file that changes during the capture is read again.
    pub(crate) async fn capture_raw(&self, path: &EntryPath, stat: &Stat) -> Result<Option<CapturedEntry>> {
        let mut stat = Some(stat.clone());
        for _ in 0..TRIES {
            let Some(known) = stat.as_ref().map(entry_of_stat) else {
                return Ok(None);
            };
            if known.kind != EntryKind::File {
                return Ok(Some(CapturedEntry { known, content: None }));
            }
            match self.hold_content(self.content_by_handle(path, known.size)).await {
                Ok(held) => {
                    let content = Some(held);
                    return Ok(Some(CapturedEntry { known, content }));
                }
                Err(error) if means_absent(error.kind()) || error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
            stat = self.directory_handles().stat(path.as_bytes())?;
        }
        Err(changing_file_error(&displayed_path(path)))
    }

    /// Prepares the content of each write for a record.
    pub(crate) async fn prepare_contents(&self, mutations: &[Mutation]) -> Result<Vec<Option<RecordContent>>> {
        let mut contents = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            contents.push(match mutation {
                Mutation::Write { path, content, .. } => {
                    let kept = self.hold_content(content.clone()).await;
                    Some(kept.map_err(|error| error.at_path(path))?)
                }
                _ => None,
            });
        }
        Ok(contents)
    }
}

pub(crate) fn changing_file_error(path: &WsPath) -> Error {
    Error::new(ErrorKind::Unavailable, "a file keeps changing while it is read").at_path(path)
}

/// A file of a storage with handles, opened anew for each read.
#[derive(Debug)]
struct HandleSource {
    files: Arc<dyn Storage>,
    path: EntryPath,
    size: u64,
}

impl ContentSource for HandleSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let (above, name) = split_raw_path(self.path.as_bytes());
        let Some(path) = self.path.as_path() else {
            let mut way = DirectoryHandles::new(&*self.files);
            return Ok(way.open_directory(above)?.open_file(name)?.content);
        };
        let above = path.parent().unwrap_or_else(WsPath::root);
        let directory = self
            .files
            .open_directory(&above)?
            .ok_or_else(|| changing_file_error(path))?;
        Ok(directory.open_file(name)?.content)
    }
}
