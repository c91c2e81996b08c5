//! Plain files in and out.

use std::io::{Cursor, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::FutureExt;
use garret_core::{EntryKind, ErrorKind, Origin, WsPath};
use garret_depot::{NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{link, path, set_mode, write};
use garret_transfer::{
    Compression, ExportExtent, Progress, TreeSource, TreeTarget, TreeTransferReport, export_storage, export_tree,
    export_workspace, import_files, import_tree, import_workspace,
};

use crate::support::Desk;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];

fn noise(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"tree").finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// A sink that can be looked at afterwards.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the test has set it up").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn archive(bytes: Vec<u8>, compression: Compression) -> TreeSource {
    TreeSource::Archive(Box::new(Cursor::new(bytes)), compression)
}

async fn take_in(desk: &Desk, source: TreeSource, into: &str) -> garret_core::Result<TreeTransferReport> {
    let into = WsPath::parse(into).expect("it is a path");
    import_tree(&desk.room, source, &into, Origin::default(), &mut |_| ()).await
}

fn raw_name() -> &'static std::ffi::OsStr {
    std::ffi::OsStr::from_bytes(b"not-\xff-utf8")
}

fn on_host() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("the test has set it up");
    let at = |name: &str| root.path().join(name);
    std::fs::create_dir_all(at("d/e")).expect("the test has set it up");
    std::fs::write(at("d/e/large"), noise(3_000_000)).expect("the test has set it up");
    std::fs::write(at("run.sh"), "#!/bin/sh\n").expect("the test has set it up");
    std::fs::set_permissions(at("run.sh"), std::fs::Permissions::from_mode(0o755)).expect("the test has set it up");
    std::fs::write(at("empty"), "").expect("the test has set it up");
    std::os::unix::fs::symlink("/etc/passwd", at("out")).expect("the test has set it up");
    std::os::unix::fs::symlink("d/e", at("in")).expect("the test has set it up");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("the test has set it up");
    std::fs::set_permissions(at("d/e"), std::fs::Permissions::from_mode(0o555)).expect("the test has set it up");
    root
}

/// Every entry of a directory: its path, mode, and content or target.
fn listed(root: &Path) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).expect("the test has set it up") {
            let place = entry.expect("the test has set it up").path();
            let metadata = std::fs::symlink_metadata(&place).expect("the test has set it up");
            let content = match () {
                () if metadata.is_dir() => {
                    waiting.push(place.clone());
                    b"directory".to_vec()
                }
                () if metadata.is_symlink() => std::fs::read_link(&place)
                    .expect("the test has set it up")
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
                () if metadata.is_file() => std::fs::read(&place).expect("the test has set it up"),
                () => continue,
            };
            let mode = if metadata.is_symlink() {
                0
            } else {
                metadata.permissions().mode() & 0o7777
            };
            let path = place
                .strip_prefix(root)
                .expect("the test has set it up")
                .as_os_str()
                .as_bytes()
                .to_vec();
            found.push((path, mode, content));
        }
    }
    found.sort();
    found
}

#[test]
fn a_workspace_of_plain_files_is_there_when_all_of_them_are() {
    block_on(async {
        let home = crate::support::scratch();
        let depot = crate::support::on_disk(home.path()).await;
        let host = on_host();
        let source = || TreeSource::Directory(host.path().to_owned());
        let new = || NewWorkspace::named("tree");
        let mut looks = Vec::new();
        let mut watch = |_: Progress| {
            let seen = depot.workspaces().now_or_never().expect("nothing is waited for");
            looks.push(seen.unwrap().len());
        };
        let made = import_files(&depot, new(), source(), Origin::default(), &mut watch);
        let (tree, taken) = made.await.unwrap();
        assert_eq!(taken.files, 3);
        assert!(!looks.is_empty() && looks.iter().all(|seen| *seen == 0), "{looks:?}");
        assert_eq!(depot.workspace("tree").await.unwrap().id(), tree.id());
        depot.delete("tree").await.unwrap();
        depot.rename("tree", tree.id()).await.unwrap();

        let cut = archive(b"no archive".to_vec(), Compression::Zstd);
        let refused = import_files(&depot, new(), cut, Origin::default(), &mut |_| ()).await;
        assert!(refused.is_err());
        let again = import_files(&depot, new(), source(), Origin::default(), &mut |_| ()).await;
        assert!(again.is_ok(), "the name is free");
    });
}

#[test]
fn a_directory_comes_in_as_one_change_and_goes_out_as_it_was() {
    block_on(async {
        let host = on_host();
        let desk = Desk::in_memory().await;
        let mut seen = Vec::new();
        let source = TreeSource::Directory(host.path().to_owned());
        let (root, mut watch) = (WsPath::root(), |at: Progress| seen.push(at));
        let taken = import_tree(&desk.room, source, &root, Origin::default(), &mut watch)
            .await
            .unwrap();
        assert_eq!(
            (taken.files, taken.directories, taken.links, taken.bytes),
            (3, 2, 2, 3_000_010)
        );
        assert_eq!(taken.skipped.len(), 1);
        assert_eq!(taken.skipped[0].path.display_path(), "socket");
        assert_eq!(taken.change.unwrap().path_count, 7);
        assert_eq!(seen.last().unwrap().bytes, 3_000_010);
        assert_eq!(desk.room.changes(None, 10).await.unwrap().len(), 1);
        assert_eq!(desk.probe.read("d/e/large").await.bytes, noise(3_000_000));
        assert_eq!(
            desk.probe.try_read("out").await.unwrap_err().kind(),
            ErrorKind::PathEscape
        );

        let out = tempfile::tempdir().unwrap();
        let target = TreeTarget::Directory(out.path().join("made"));
        let moved = export_tree(&desk.room, &Point::Now, &WsPath::root(), target, &mut |_| ())
            .await
            .unwrap();
        assert_eq!((moved.files, moved.directories, moved.links), (3, 2, 2));
        assert!(listed(&out.path().join("made")) == listed(host.path()));

        for compression in COMPRESSIONS {
            let sink = Sink::default();
            let target = TreeTarget::Archive(Box::new(sink.clone()), compression);
            export_tree(&desk.room, &Point::Now, &WsPath::root(), target, &mut |_| ())
                .await
                .unwrap();
            let other = Desk::in_memory().await;
            let bytes = sink.0.lock().unwrap().clone();
            take_in(&other, archive(bytes, compression), "").await.unwrap();
            assert!(desk.probe.tree().await == other.probe.tree().await, "{compression:?}");
        }
        desk.undone(UndoSelection::Last(1)).await;
        assert!(desk.probe.tree().await.is_empty());
    });
}

#[test]
fn names_that_are_not_utf8_are_carried_all_the_way() {
    block_on(async {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir(host.path().join(raw_name())).unwrap();
        std::fs::write(host.path().join(raw_name()).join(raw_name()), "raw").unwrap();
        let first = Desk::in_memory().await;
        take_in(&first, TreeSource::Directory(host.path().to_owned()), "")
            .await
            .unwrap();
        let sink = Sink::default();
        let target = TreeTarget::Archive(Box::new(sink.clone()), Compression::Gzip);
        export_tree(&first.room, &Point::Now, &WsPath::root(), target, &mut |_| ())
            .await
            .unwrap();
        let second = Desk::in_memory().await;
        let bytes = sink.0.lock().unwrap().clone();
        take_in(&second, archive(bytes, Compression::Gzip), "").await.unwrap();
        let mut file = Vec::new();
        export_workspace(&second.room, &ExportExtent::History, &mut file, &mut |_| ())
            .await
            .unwrap();
        let new = garret_depot::NewWorkspace::named("third");
        let third = import_workspace(second.room.depot(), new, Cursor::new(file), &mut |_| ())
            .await
            .unwrap()
            .0;
        let out = tempfile::tempdir().unwrap();
        let target = TreeTarget::Directory(out.path().to_owned());
        export_tree(&third, &Point::Now, &WsPath::root(), target, &mut |_| ())
            .await
            .unwrap();
        assert_eq!(listed(out.path()), listed(host.path()));
        assert_eq!(third.depot().check().await.unwrap(), []);
        let target = TreeTarget::Archive(Box::new(Sink::default()), Compression::None);
        let moved = export_storage(&third, &WsPath::root(), target, &mut |_| ())
            .await
            .unwrap();
        assert_eq!(moved.skipped.len(), 2, "a storage cannot open them by a path");
    });
}

#[test]
fn what_is_there_is_replaced_kept_or_refused() {
    block_on(async {
        let host = on_host();
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("in/run.sh", "old"), write("in/kept", "x")])
            .await;
        let source = || TreeSource::Directory(host.path().to_owned());
        take_in(&desk, source(), "in").await.unwrap();
        assert_eq!(desk.probe.text("in/kept").await, "x");
        assert_eq!(desk.probe.text("in/run.sh").await, "#!/bin/sh\n");
        assert_eq!(
            take_in(&desk, source(), "in").await.unwrap().change,
            None,
            "nothing differs"
        );
        desk.probe.write("other/d", "a file").await;
        let before = desk.probe.tree().await;
        let error = take_in(&desk, source(), "other").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::AlreadyExists, Some("other/d"))
        );
        let error = take_in(&desk, source(), "in/kept").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        assert!(desk.probe.tree().await == before);
        let missing = TreeSource::Directory(host.path().join("missing"));
        let error = take_in(&desk, missing, "").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!error.to_string().contains(host.path().to_str().unwrap()), "{error}");
    });
}

#[test]
fn an_export_does_not_mix_with_what_is_there_and_shows_the_past() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("d/a", "old"), link("d/l", "a"), set_mode("d/a", 0o600)])
            .await;
        desk.probe.write("d/a", "new").await;
        let out = tempfile::tempdir().unwrap();
        let export = |point: Point, name: &str| {
            let (room, target) = (desk.room.clone(), TreeTarget::Directory(out.path().join(name)));
            async move { export_tree(&room, &point, &path("d"), target, &mut |_| ()).await }
        };
        export(Point::Number(1), "old").await.unwrap();
        assert_eq!(std::fs::read_to_string(out.path().join("old/a")).unwrap(), "old");
        assert_eq!(std::fs::read_link(out.path().join("old/l")).unwrap(), Path::new("a"));
        let error = export(Point::Now, "old").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(!error.to_string().contains(out.path().to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(out.path().join("old/a")).unwrap(), "old");
        let sink = Sink::default();
        let target = TreeTarget::Archive(Box::new(sink.clone()), Compression::None);
        let moved = export_storage(&desk.room, &path("d"), target, &mut |_| ())
            .await
            .unwrap();
        assert_eq!((moved.files, moved.links, moved.bytes), (1, 1, 3));
        let other = Desk::in_memory().await;
        let bytes = sink.0.lock().unwrap().clone();
        take_in(&other, archive(bytes, Compression::None), "").await.unwrap();
        assert_eq!(other.probe.text("a").await, "new");
    });
}

/// What comes in has lost such bits; what a workspace has of an earlier time loses them on its way out.
#[test]
fn bits_that_have_a_program_start_with_anothers_rights_neither_come_in_nor_go_out() {
    block_on(async {
        let host = tempfile::tempdir().unwrap();
        let set_modes = |mode: u32| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(host.path().join("su"), mode.clone()).unwrap();
            std::fs::set_permissions(host.path().join("d"), mode).unwrap();
        };
        std::fs::write(host.path().join("su"), "x").unwrap();
        std::fs::create_dir(host.path().join("d")).unwrap();
        set_modes(0o7755);
        let plain = Desk::in_memory().await;
        let source = TreeSource::Directory(host.path().to_owned());
        take_in(&plain, source, "").await.unwrap();
        for name in ["su", "d"] {
            assert_eq!(plain.probe.stat(name).await.mode, Some(0o755), "{name}");
        }

        let mut builder = tar::Builder::new(Vec::new());
        builder.append_dir_all("", host.path()).unwrap();
        let packed = builder.into_inner().unwrap();
        let other = Desk::in_memory().await;
        take_in(&other, archive(packed, Compression::None), "").await.unwrap();
        assert!(other.probe.tree().await == plain.probe.tree().await);

        other
            .probe
            .batch(vec![set_mode("su", 0o4755), set_mode("d", 0o2755)])
            .await;
        let out = tempfile::tempdir().unwrap();
        let target = TreeTarget::Directory(out.path().join("made"));
        let root = WsPath::root();
        let moved = export_tree(&other.room, &Point::Now, &root, target, &mut |_| ()).await;
        moved.unwrap();
        set_modes(0o755);
        assert_eq!(listed(&out.path().join("made")), listed(host.path()));

        let target = TreeTarget::Directory(out.path().join("again"));
        let moved = export_storage(&other.room, &root, target, &mut |_| ()).await;
        moved.unwrap();
        assert_eq!(listed(&out.path().join("again")), listed(host.path()));

        let sink = Sink::default();
        let target = TreeTarget::Archive(Box::new(sink.clone()), Compression::None);
        let moved = export_tree(&other.room, &Point::Now, &root, target, &mut |_| ()).await;
        moved.unwrap();
        let bytes = sink.0.lock().unwrap().clone();
        for entry in tar::Archive::new(Cursor::new(bytes)).entries().unwrap() {
            assert_eq!(entry.unwrap().header().mode().unwrap(), 0o755);
        }
    });
}

type Entry<'e> = (&'e str, tar::EntryType, &'e str);

/// An archive of names that a builder would refuse.
fn hostile(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let is_link = matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link);
        let data = if is_link { "" } else { content };
        if is_link {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
        }
        header.set_size(data.len() as u64);
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(data.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

#[test]
fn an_archive_cannot_reach_outside_nor_write_through_a_link() {
    block_on(async {
        use tar::EntryType::{Fifo, Link, Regular, Symlink};
        let cases: [(&[Entry<'_>], ErrorKind); 6] = [
            (&[("../x", Regular, "x")], ErrorKind::PathEscape),
            (&[("/etc/x", Regular, "x")], ErrorKind::PathEscape),
            (&[("a/../../x", Regular, "x")], ErrorKind::PathEscape),
            (
                &[("a", Symlink, "/etc"), ("a/x", Regular, "x")],
                ErrorKind::NotADirectory,
            ),
            (&[("a", Link, "/etc/passwd")], ErrorKind::PathEscape),
            (&[("a", Link, "missing")], ErrorKind::Invalid),
        ];
        for (entries, kind) in cases {
            let desk = Desk::in_memory().await;
            let error = take_in(&desk, archive(hostile(entries), Compression::None), "")
                .await
                .unwrap_err();
            assert_eq!(error.kind(), kind, "{entries:?}");
            assert!(desk.probe.tree().await.is_empty(), "{entries:?}");
            assert_eq!(desk.room.changes(None, 10).await.unwrap(), []);
        }
        let desk = Desk::in_memory().await;
        let entries = hostile(&[("./d/a", Regular, "x"), ("same", Link, "./d/a"), ("pipe", Fifo, "")]);
        let moved = take_in(&desk, archive(entries, Compression::None), "").await.unwrap();
        assert_eq!((moved.files, moved.skipped.len()), (2, 1));
        assert_eq!(desk.probe.text("same").await, "x");
        assert_eq!(desk.probe.text("d/a").await, "x");
    });
}

#[test]
fn a_second_name_of_a_link_is_a_link_and_the_last_of_one_name_counts() {
    block_on(async {
        use tar::EntryType::{Link, Regular, Symlink};
        let desk = Desk::in_memory().await;
        let entries = hostile(&[
            ("a", Regular, "old"),
            ("l", Symlink, "a"),
            ("same", Link, "l"),
            ("a", Regular, "newer"),
        ]);
        let moved = take_in(&desk, archive(entries, Compression::None), "").await.unwrap();
        assert_eq!((moved.files, moved.links, moved.bytes), (1, 2, 5));
        assert_eq!(desk.probe.kind("same").await, Some(EntryKind::Symlink));
        assert_eq!(desk.probe.text("same").await, "newer");
    });
}

#[test]
fn an_archive_with_headers_that_no_tool_writes_is_refused() {
    block_on(async {
        use tar::EntryType::{Fifo, GNULongName, Regular};
        let long = "a".repeat(8 << 20);
        let desk = Desk::in_memory().await;
        let entries = hostile(&[("name", GNULongName, &long), ("a", Regular, "x")]);
        let error = take_in(&desk, archive(entries, Compression::None), "")
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("too long"), "{error}");
        let entries = hostile(&[("pipe", Fifo, &long), ("a", Regular, "x")]);
        let moved = take_in(&desk, archive(entries, Compression::None), "").await.unwrap();
        assert_eq!(
            (moved.files, moved.skipped.len()),
            (1, 1),
            "what is left out may be long"
        );
    });
}

/// One attribute as `pax` writes it: with its own length in front.
fn attribute(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (1..).find(|length: &usize| length.to_string().len() + rest.len() == *length);
    format!("{}{rest}", length.expect("some length fits"))
}

#[test]
fn a_sparse_file_in_the_form_of_posix_is_refused() {
    block_on(async {
        use tar::EntryType::{Regular, XHeader};
        let desk = Desk::in_memory().await;
        let attributes = [
            attribute("GNU.sparse.major", "1"),
            attribute("GNU.sparse.name", "d/holes"),
            attribute("GNU.sparse.realsize", "1024"),
        ];
        let map = format!("1\n1023\n1\n{}x", "\0".repeat(503));
        let entries = [
            ("d/x", XHeader, attributes.concat()),
            ("d/GNUSparseFile.0/holes", Regular, map),
        ];
        let entries = entries
            .each_ref()
            .map(|(name, kind, data)| (*name, *kind, data.as_str()));
        let error = take_in(&desk, archive(hostile(&entries), Compression::None), "")
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.path()),
            (ErrorKind::Unsupported, Some("d/holes")),
            "{error}"
        );
        assert!(desk.probe.tree().await.is_empty());
    });
}

#[test]
fn a_link_that_no_system_can_make_is_refused() {
    block_on(async {
        use tar::EntryType::{Symlink, XHeader};
        let (long, cut) = (attribute("linkpath", &"x".repeat(4096)), attribute("linkpath", "a\0b"));
        let cases: [&[Entry<'_>]; 3] = [
            &[("l", Symlink, "")],
            &[("x", XHeader, &cut), ("l", Symlink, "a")],
            &[("x", XHeader, &long), ("l", Symlink, "a")],
        ];
        for entries in cases {
            let desk = Desk::in_memory().await;
            let error = take_in(&desk, archive(hostile(entries), Compression::None), "")
                .await
                .unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::Invalid, Some("l")), "{error}");
        }
    });
}

#[test]
fn an_archive_that_is_cut_short_leaves_nothing() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe
            .batch(vec![write("a", noise(2_000_000)), write("b", "x")])
            .await;
        for compression in COMPRESSIONS {
            let sink = Sink::default();
            let target = TreeTarget::Archive(Box::new(sink.clone()), compression);
            export_tree(&desk.room, &Point::Now, &WsPath::root(), target, &mut |_| ())
                .await
                .unwrap();
            let whole = sink.0.lock().unwrap().clone();
            for length in [100, 5_000, whole.len() / 2] {
                let other = Desk::in_memory().await;
                let cut = archive(whole[..length].to_vec(), compression);
                let error = take_in(&other, cut, "").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{compression:?} {length}: {error}");
                assert!(other.probe.tree().await.is_empty());
            }
        }
        assert_eq!(Compression::of_name("X.TAR.GZ"), Some(Compression::Gzip));
        assert_eq!(Compression::of_name("x.tgz"), Some(Compression::Gzip));
        assert_eq!(Compression::of_name("x.tar.zst"), Some(Compression::Zstd));
        assert_eq!(Compression::of_name("x.tar"), Some(Compression::None));
        assert_eq!(Compression::of_name("x.zip"), None);
    });
}
