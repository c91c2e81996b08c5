//! Listing directories in the byte order of full paths.
//!
//! In that order `a-b` stands between `a` and `a/x`, because `-` comes before `/`. So a directory gives two items to
//! its parent's order: its own entry at `a`, and its content at `a/`. Sorting the items of one directory then orders
//! the whole tree, and a cursor decides for each item whether it, or anything below it, is still wanted: only the
//! directories on the path to the cursor are read again. One directory is open at a time, however deep the tree.

use std::os::fd::OwnedFd;

use garret_core::path::join_path;
use garret_core::{Entry, EntryPath, ListOptions, ListPage, Result, WsPath};
use garret_handles::stat_entry;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::beneath::{LocalFinalLink, LocalLinkRules, RootDirectory};
use super::directory_entries::{entry_kind, for_each_name, stat_kind, stat_size, timestamp_of};
use super::error::AccessError;
use super::hard_links::hard_linked;

/// Lists a page.
pub(super) fn list_page(root: &RootDirectory, path: &WsPath, options: &ListOptions) -> Result<ListPage> {
    let way = LocalLinkRules {
        last: LocalFinalLink::Followed,
        follow: options.follow,
    };
    root.with_real_path(path, way, |real| {
        let mut listing = LocalListing {
            root,
            options,
            frames: Vec::new(),
            page: ListPage::default(),
        };
        let handle = root.open_directory(real.as_str().as_bytes())?;
        listing.push_directory(real.as_str().as_bytes().to_vec(), handle)?;
        listing.fill_page()?;
        Ok(listing.page)
    })
}

/// A directory that is being listed.
struct DirectoryListFrame {
    path: Vec<u8>,
    /// The remaining items, the last first.
    items: Vec<LocalListItem>,
    /// The handle; closed while a directory below is listed.
    handle: Option<OwnedFd>,
}

/// A position in the order of a directory: an entry, or (with a slash at the end of its key) the content of one.
struct LocalListItem {
    key: Vec<u8>,
    kind: FileType,
    is_below: bool,
}

impl LocalListItem {
    fn name(&self) -> &[u8] {
        &self.key[..self.key.len() - usize::from(self.is_below)]
    }
}

struct LocalListing<'a> {
    root: &'a RootDirectory,
    options: &'a ListOptions,
    frames: Vec<DirectoryListFrame>,
    page: ListPage,
}

impl LocalListing<'_> {
    fn fill_page(&mut self) -> Result<(), AccessError> {
        while let Some(frame) = self.frames.last_mut() {
            let Some(item) = frame.items.pop() else {
                self.frames.pop();
                continue;
            };
            if item.is_below {
                self.descend_into(&item)?;
            } else if let Some(entry) = self.describe_entry(&item)? {
                if self.page.entries.len() == self.options.limit {
                    self.page.has_more = true;
                    return Ok(());
                }
                self.page.entries.push(entry);
            }
        }
        Ok(())
    }

    /// Lists the content of a directory next. A directory that is gone, or is no directory any more, has none.
    fn descend_into(&mut self, item: &LocalListItem) -> Result<(), AccessError> {
        let frame = self.frames.last_mut().expect("the item came from a frame");
        // The number of open handles must not grow with the depth of the tree.
        frame.handle = None;
        let path = join_path(&frame.path, item.name());
        match self.root.open_directory(&path) {
            Ok(handle) => self.push_directory(path, handle),
            Err(cause) if is_gone(cause) => Ok(()),
            // A directory that may not be read is listed as an entry; its content stays unknown.
            Err(AccessError::System(Errno::ACCESS | Errno::NAMETOOLONG)) => Ok(()),
            Err(cause) => Err(cause),
        }
    }

    /// Returns the description of an entry; `None` if it was removed meanwhile.
    fn describe_entry(&mut self, item: &LocalListItem) -> Result<Option<Entry>, AccessError> {
        let root = self.root;
        let frame = self.frames.last_mut().expect("the item came from a frame");
        if frame.handle.is_none() {
            match root.open_directory(&frame.path) {
                Ok(handle) => frame.handle = Some(handle),
                Err(cause) if is_gone(cause) => return Ok(None),
                Err(cause) => return Err(cause),
            }
        }
        let handle = frame.handle.as_ref().expect("it was opened above");
        let path = EntryPath::from_bytes(join_path(&frame.path, item.name()));
        match stat_entry(handle, item.name()) {
            // A directory with read but without search permission shows names and kinds, nothing else.
            Err(Errno::ACCESS) => Ok(Some(Entry {
                path,
                kind: entry_kind(item.kind),
                size: 0,
                modified: None,
                version: None,
                hard_linked: None,
            })),
            found => Ok(found?.map(|stat| entry_from_stat(path, &stat))),
        }
    }

    fn push_directory(&mut self, path: Vec<u8>, handle: OwnedFd) -> Result<(), AccessError> {
        let mut items = Vec::new();
        for_each_name(&handle, |name, kind| {
            items.push(LocalListItem {
                key: name.to_vec(),
                kind,
                is_below: false,
            });
            // Some file systems give no type with the name; then opening shows whether it is a directory.
            if self.options.is_deep && matches!(kind, FileType::Directory | FileType::Unknown) {
                items.push(LocalListItem {
                    key: [name, b"/"].concat(),
                    kind,
                    is_below: true,
                });
            }
        })?;
        if let Some(after) = &self.options.after {
            items.retain(|item| is_after_cursor(&join_path(&path, &item.key), item.is_below, after.as_bytes()));
        }
        // Reversed, so that `pop` takes the next item from the end.
        items.sort_unstable_by(|a, b| b.key.cmp(&a.key));
        let handle = Some(handle);
        self.frames.push(DirectoryListFrame { path, items, handle });
        Ok(())
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
fn entry_from_stat(path: EntryPath, stat: &Stat) -> Entry {
    Entry {
        path,
        kind: stat_kind(stat),
        size: stat_size(stat),
        modified: timestamp_of(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        // A version may cost a read of the whole file, so a list gives none.
        version: None,
        hard_linked: hard_linked(stat),
    }
}

/// Returns whether the entry at `path`, or anything below it, comes after the cursor.
fn is_after_cursor(path: &[u8], is_below: bool, after: &[u8]) -> bool {
    path > after || (is_below && after.starts_with(path))
}

fn is_gone(cause: AccessError) -> bool {
    cause.is_missing() || matches!(cause, AccessError::Link | AccessError::System(Errno::NOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_inside_a_directory_wants_what_is_below_it() {
        assert!(is_after_cursor(b"a/", true, b"a/x"), "the rest of a");
        assert!(!is_after_cursor(b"a/", true, b"a0"), "all of a lies before");
        assert!(is_after_cursor(b"a/", true, b"a-b"), "all of a lies after");
        assert!(!is_after_cursor(b"a", false, b"a-b"), "the entry itself lies before");
    }
}
