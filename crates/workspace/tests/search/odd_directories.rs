//! Searches over directories that no storage has at hand for a test: one without end, one that cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;
use garret_core::{
    DirectoryEntry, DirectoryHandle, EntryAlteration, EntryKind, Error, ErrorKind, OpenFile, Result, Stat,
};
use garret_testkit::{Hook, Hooked};
use garret_workspace::Workspace;

use crate::search::support::{globbing, grepping, lines, rooms, skipped};

/// Directories that are made by a function, whatever is in the storage.
struct Odd<F>(F);

impl<F> std::fmt::Debug for Odd<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Odd")
    }
}

impl<F: Fn() -> Box<dyn DirectoryHandle> + Send + Sync> Hook for Odd<F> {
    fn directory(&self, _opened: Option<Box<dyn DirectoryHandle>>) -> Option<Box<dyn DirectoryHandle>> {
        Some((self.0)())
    }
}

fn workspace(open: impl Fn() -> Box<dyn DirectoryHandle> + Send + Sync + 'static) -> Workspace {
    let inner = rooms(&[]).memory;
    Workspace::builder(Arc::new(Hooked::new(inner, Odd(open))))
        .open()
        .unwrap()
}

fn entry(name: &str, kind: EntryKind) -> DirectoryEntry {
    let name = name.as_bytes().to_vec();
    DirectoryEntry { name, kind }
}

/// Two directories in every directory, for ever. Counts how many were opened.
struct Endless(Arc<AtomicU64>);

impl DirectoryHandle for Endless {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        Ok(vec![entry("a", EntryKind::Directory), entry("b", EntryKind::Directory)])
    }

    fn open_directory(&self, _name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }

    fn open_file(&self, _name: &[u8]) -> Result<OpenFile> {
        Err(Error::new(ErrorKind::NotFound, "there is none"))
    }

    fn stat_entry(&self, _name: &[u8]) -> Result<Stat> {
        Err(Error::new(ErrorKind::NotFound, "there is none"))
    }

    fn alter_entry(&self, _name: &[u8], _alteration: EntryAlteration<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::NotFound, "there is none"))
    }
}

#[test]
fn a_search_that_nobody_waits_for_any_more_ends() {
    let opened = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&opened);
    let workspace = workspace(move || Box::new(Endless(Arc::clone(&counted))));
    let mut search = Box::pin(workspace.glob(globbing("**")));
    assert!((&mut search).now_or_never().is_none());
    let is_under_way = || opened.load(Ordering::Relaxed) > 100;
    assert!((0..1_000).any(|_| is_under_way() || {
        sleep(Duration::from_millis(10));
        false
    }));
    drop(search);
    let is_quiet = || {
        let before = opened.load(Ordering::Relaxed);
        sleep(Duration::from_millis(50));
        before == opened.load(Ordering::Relaxed)
    };
    assert!(
        (0..200).any(|_| is_quiet()),
        "the walk goes on although its future is gone"
    );
}

/// A file that can be read, and one file and one directory that cannot; another vanished, another was swapped for a link.
struct Locked;

impl DirectoryHandle for Locked {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        let files = ["gone", "locked", "ok", "swapped"].map(|name| entry(name, EntryKind::File));
        let directories = ["gone-too", "private"].map(|name| entry(name, EntryKind::Directory));
        Ok(files.into_iter().chain(directories).collect())
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        let kind = if name == b"private" {
            ErrorKind::Denied
        } else {
            ErrorKind::NotFound
        };
        Err(Error::new(kind, "no"))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let kind = match name {
            b"ok" => {
                let content = Box::new(&b"needle\n"[..]);
                return Ok(OpenFile {
                    content,
                    size: 7,
                    hard_linked: None,
                });
            }
            b"locked" => ErrorKind::Denied,
            b"swapped" => ErrorKind::Unsupported,
            _ => ErrorKind::NotFound,
        };
        Err(Error::new(kind, "no"))
    }

    fn stat_entry(&self, _name: &[u8]) -> Result<Stat> {
        Err(Error::new(ErrorKind::Denied, "no"))
    }

    fn alter_entry(&self, _name: &[u8], _alteration: EntryAlteration<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Denied, "no"))
    }
}

#[test]
fn what_cannot_be_read_is_named_and_what_vanished_is_not() {
    let workspace = workspace(|| Box::new(Locked));
    let found = block_on(workspace.grep(grepping("needle"))).unwrap();
    assert_eq!(lines(&found), ["ok:1:needle"]);
    let reasons = [("locked", "denied"), ("private", "denied"), ("swapped", "special_file")];
    assert_eq!(skipped(&found), reasons.into());
    let names = block_on(workspace.glob(globbing("**"))).unwrap();
    assert_eq!(names.paths, ["gone", "locked", "ok", "swapped"]);
    let directories: Vec<_> = names
        .skipped
        .iter()
        .map(|skipped| (skipped.path.as_str(), skipped.reason))
        .collect();
    assert_eq!(directories, [("private", "denied")]);
}
