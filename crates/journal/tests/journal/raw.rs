//! Names that no path can spell: changed with the rest of a change, or not at all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use garret_core::{
    Clock, DirectoryEntry, DirectoryHandle, EntryAlteration, EntryPath, Error, ErrorKind, History, OpenFile,
    PathExpectation, PathPut, PlacedEntry, PutBatch, Result, Stat, SystemClock, UndoSelection,
};
use garret_testkit::Hook;

use crate::journal::desk::{Desk, making};

fn file(content: &str) -> PlacedEntry {
    PlacedEntry::File {
        content: content.to_owned().into(),
        mode: 0o640,
    }
}

async fn puts(desk: &Desk, all: Vec<(&[u8], PlacedEntry)>) -> PutBatch {
    let change = History::head(&*desk.room).await.unwrap();
    let at = SystemClock::default().now();
    let put = |(path, placed): (&[u8], PlacedEntry)| PathPut {
        path: EntryPath::from_bytes(path.to_vec()),
        expected: PathExpectation::UnchangedSince { change, at },
        placed,
    };
    PutBatch {
        puts: all.into_iter().map(put).collect(),
        ..PutBatch::default()
    }
}

/// Everything on the disk: mode, and content or target.
fn everything(directory: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    let mut ahead = vec![directory.to_owned()];
    while let Some(next) = ahead.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let stat = std::fs::symlink_metadata(&path).unwrap();
            let content = match stat.file_type() {
                kind if kind.is_dir() => "directory".to_owned(),
                kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().display().to_string(),
                _ => std::fs::read_to_string(&path).unwrap(),
            };
            let name = path.strip_prefix(directory).unwrap().to_owned();
            let described = format!("{:o} {content}", stat.permissions().mode());
            all.insert(name.into_os_string().into_vec(), described);
            if stat.is_dir() {
                ahead.push(path);
            }
        }
    }
    all
}

async fn desk() -> Desk {
    let desk = Desk::over(&[("plain", "1"), ("gone", "2")]).await;
    let odd = |name: &[u8]| desk.path("").join(OsStr::from_bytes(name));
    std::fs::write(odd(b"changed-\xff"), "old").unwrap();
    std::fs::write(odd(b"gone-\xfe"), "went").unwrap();
    std::fs::create_dir(odd(b"dir-\xfd")).unwrap();
    std::fs::write(odd(b"dir-\xfd/in"), "inside").unwrap();
    desk.room.snapshot("start", Default::default()).await.unwrap();
    desk
}

/// Touches names that paths spell and names that none does.
async fn work(desk: &Desk) -> PutBatch {
    let all: Vec<(&[u8], PlacedEntry)> = vec![
        (b"dir-\xfd/in", PlacedEntry::Nothing),
        (b"dir-\xfd", PlacedEntry::Nothing),
        (b"gone", PlacedEntry::Nothing),
        (b"gone-\xfe", PlacedEntry::Nothing),
        (b"changed-\xff", file("new")),
        (b"made", PlacedEntry::Directory { mode: 0o755 }),
        (b"made/a", file("plain")),
        (b"made/b-\xfc", PlacedEntry::Directory { mode: 0o500 }),
        (b"made/b-\xfc/c", file("deep")),
        (b"plain", file("changed")),
    ];
    puts(desk, all).await
}

#[tokio::test]
async fn a_change_with_such_names_is_rolled_forward_from_wherever_it_stopped() {
    let wanted = {
        let other = desk().await;
        other.room.put(work(&other).await, making()).await.unwrap();
        everything(&other.path(""))
    };
    assert!(wanted.contains_key(b"made/b-\xfc/c".as_slice()), "{wanted:?}");
    for steps in 0..=4 {
        let mut desk = desk().await;
        let start = everything(&desk.path(""));
        let puts = work(&desk).await;
        desk.crash(steps, |room| async move { room.put(puts, making()).await })
            .await;
        desk.reopen().await;
        assert_eq!(everything(&desk.path("")), wanted, "after {steps} steps");
        desk.undo().await;
        assert_eq!(everything(&desk.path("")), start, "after {steps} steps");
        desk.redo().await;
        assert_eq!(everything(&desk.path("")), wanted, "after {steps} steps");
    }
}

#[tokio::test]
async fn where_such_a_name_cannot_be_changed_nothing_is() {
    for refused in [b"changed-\xff".as_slice(), b"gone-\xfe", b"c"] {
        let desk = desk().await;
        let start = everything(&desk.path(""));
        let room = desk.hooked(Refusing(refused.to_vec())).await;
        let refusal = room.put(work(&desk).await, making()).await.unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Denied, "{refusal}");
        assert_eq!(everything(&desk.path("")), start, "{refused:?}");
        drop(room);
        let again = desk.again().await;
        assert_eq!(everything(&desk.path("")), start, "{refused:?}");
        assert_eq!(
            again.undo(UndoSelection::Last(1), making()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}

#[tokio::test]
async fn what_others_made_of_such_a_name_is_not_overwritten() {
    let desk = desk().await;
    let puts = work(&desk).await;
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::write(desk.path("").join(OsStr::from_bytes(b"changed-\xff")), "theirs").unwrap();
    let refusal = desk.room.put(puts, making()).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Conflict, "{refusal}");
    let there = everything(&desk.path(""));
    assert!(there[b"changed-\xff".as_slice()].ends_with("theirs"), "{there:?}");
    assert!(there.contains_key(b"gone".as_slice()), "{there:?}");
}

/// One name cannot be changed by handle.
#[derive(Debug)]
struct Refusing(Vec<u8>);

impl Hook for Refusing {
    fn directory(&self, opened: Option<Box<dyn DirectoryHandle>>) -> Option<Box<dyn DirectoryHandle>> {
        let name = self.0.clone();
        opened.map(|inner| Box::new(RefusingDirectory { inner, name }) as Box<dyn DirectoryHandle>)
    }
}

struct RefusingDirectory {
    inner: Box<dyn DirectoryHandle>,
    name: Vec<u8>,
}

impl DirectoryHandle for RefusingDirectory {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        self.inner.list_entries()
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        let inner = self.inner.open_directory(name)?;
        let name = self.name.clone();
        Ok(Box::new(Self { inner, name }))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        self.inner.open_file(name)
    }

    fn stat_entry(&self, name: &[u8]) -> Result<Stat> {
        self.inner.stat_entry(name)
    }

    fn alter_entry(&self, name: &[u8], alteration: EntryAlteration<'_>) -> Result<()> {
        match name == self.name {
            true => Err(Error::new(ErrorKind::Denied, "not this one")),
            false => self.inner.alter_entry(name, alteration),
        }
    }
}
