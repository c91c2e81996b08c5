//! A workspace as one portable file.

use std::io::{Cursor, Read, Write};

use bytes::Bytes;
use garret_core::{ChangeKind, EntryPath, ErrorKind, Origin, PathExpectation, PathPut, PlacedEntry, PutBatch, WsPath};
use garret_depot::{Depot, DepotWorkspace, NewWorkspace, Point, UndoSelection};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{link, make_dirs, path, remove_tree, rename_into, set_mode, write};
use garret_transfer::{ExportExtent, export_workspace, import_workspace, read_portable_manifest};
use serde_json::{Value, json};

use crate::support::{Desk, in_memory, on_disk, workspace};

fn noise(seed: u8, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes.into()
}

async fn exported(room: &DepotWorkspace, extent: &ExportExtent) -> Vec<u8> {
    let mut file = Vec::new();
    export_workspace(room, extent, &mut file, &mut |_| ())
        .await
        .expect("it can be exported");
    file
}

async fn imported(depot: &Depot, name: &str, file: &[u8]) -> Desk {
    let done = import_workspace(depot, NewWorkspace::named(name), Cursor::new(file), &mut |_| ()).await;
    Desk::over(done.expect("it can be imported").0)
}

/// A workspace with some of everything.
async fn lived_in(depot: &Depot) -> Desk {
    let desk = Desk::over(workspace(depot, "box").await);
    desk.probe
        .batch(vec![
            write("a", "one"),
            write("d/b", noise(1, 3_000_000)),
            link("l", "d/b"),
            make_dirs("empty"),
        ])
        .await;
    desk.probe.batch(vec![write("a", "two"), set_mode("d/b", 0o755)]).await;
    desk.room
        .snapshot("second", Point::Now)
        .await
        .expect("the test has set it up");
    desk.probe.apply(rename_into("d", "e")).await;
    desk.probe.apply(remove_tree("a")).await;
    desk.undone(UndoSelection::Last(1)).await;
    desk
}

async fn assert_same_history(one: &Desk, other: &Desk) {
    assert!(one.probe.tree().await == other.probe.tree().await);
    let (first, second) = (
        one.room.describe().await.expect("the test has set it up"),
        other.room.describe().await.expect("the test has set it up"),
    );
    assert_eq!(first.head, second.head);
    for number in 0..=first.head {
        let point = Point::Number(number);
        match (
            one.room.open_view_at(&point).await,
            other.room.open_view_at(&point).await,
        ) {
            (Ok(_), Ok(_)) => assert!(one.tree_at(&point).await == other.tree_at(&point).await, "at {number}"),
            (Err(one), Err(other)) => assert_eq!(one.kind(), other.kind()),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
    }
    let summaries = |changes: Vec<garret_depot::Change>| {
        let shown = changes
            .into_iter()
            .map(|one| (one.number, one.summary, one.at, one.reverses, one.undone_by));
        shown.collect::<Vec<_>>()
    };
    let changes = (
        one.room.changes(None, 100).await.expect("the test has set it up"),
        other.room.changes(None, 100).await.expect("the test has set it up"),
    );
    assert_eq!(summaries(changes.0), summaries(changes.1));
}

#[test]
fn a_portable_file_makes_no_file_that_starts_with_anothers_rights() {
    block_on(async {
        let desk = Desk::in_memory().await;
        desk.probe.batch(vec![write("su", "x"), set_mode("su", 0o4755)]).await;
        let file = exported(&desk.room, &ExportExtent::History).await;
        let other = imported(&in_memory(), "copy", &file).await;
        assert_eq!(other.probe.stat("su").await.mode, Some(0o755));
    });
}

#[test]
fn a_workspace_comes_back_with_all_its_history() {
    block_on(async {
        let (here, home) = (in_memory(), tempfile::tempdir().unwrap());
        let there = on_disk(home.path()).await;
        let desk = lived_in(&here).await;
        let file = exported(&desk.room, &ExportExtent::History).await;
        let copy = imported(&there, "copy", &file).await;
        assert_same_history(&desk, &copy).await;
        assert_ne!(copy.room.id(), desk.room.id());
        let ids = |changes: Vec<garret_depot::Change>| changes.into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(
            ids(copy.room.changes(None, 100).await.unwrap()),
            ids(desk.room.changes(None, 100).await.unwrap()),
            "in another home the ids are free"
        );
        let versions = copy.room.versions(&path("e/b"), 10).await.unwrap();
        assert_eq!(
            versions.len(),
            desk.room.versions(&path("e/b"), 10).await.unwrap().len()
        );
        assert_eq!(copy.room.snapshots().await.unwrap()[0].label, "second");
        copy.redone().await;
        assert!(copy.probe.try_read("a").await.is_err(), "redo goes on where it was");
        assert_eq!(there.check().await.unwrap(), []);
        // A second time, into the home it came from.
        let again = imported(&here, "again", &file).await;
        assert_same_history(&desk, &again).await;
        assert_eq!(here.check().await.unwrap(), []);
        assert!(there.collect(std::time::Duration::ZERO).await.unwrap().workspaces == 0);
        assert_eq!(there.check().await.unwrap(), []);
    });
}

#[test]
fn the_files_of_a_point_travel_without_history() {
    block_on(async {
        let depot = in_memory();
        let desk = lived_in(&depot).await;
        let file = exported(&desk.room, &ExportExtent::Files(Point::Snapshot("second".into()))).await;
        assert_eq!(
            read_portable_manifest(Cursor::new(&file)).unwrap().name.as_deref(),
            Some("box")
        );
        let copy = imported(&depot, "copy", &file).await;
        assert!(copy.probe.tree().await == desk.tree_at(&Point::Snapshot("second".into())).await);
        assert_eq!(copy.room.changes(None, 10).await.unwrap(), []);
        copy.probe.write("a", "new").await;
        copy.undone(UndoSelection::Last(1)).await;
        assert_eq!(copy.probe.text("a").await, "two");
        assert_eq!(depot.check().await.unwrap(), []);
    });
}

#[test]
fn a_branch_travels_as_a_workspace_of_its_own() {
    block_on(async {
        for is_flat in [false, true] {
            let depot = in_memory();
            let desk = lived_in(&depot).await;
            let branch = desk
                .room
                .branch(NewWorkspace::named("branch"), &Point::Number(2))
                .await
                .unwrap();
            let branch = Desk::over(branch);
            if is_flat {
                branch.room.flatten().await.unwrap();
            }
            branch.probe.batch(vec![remove_tree("d"), write("new", "x")]).await;
            branch
                .probe
                .batch(vec![write("d/again", "y"), write("a", "mine")])
                .await;
            branch
                .room
                .snapshot("old", Point::Snapshot("second".into()))
                .await
                .unwrap_err();
            let there = in_memory();
            let copy = imported(&there, "copy", &exported(&branch.room, &ExportExtent::History).await).await;
            assert_same_history(&branch, &copy).await;
            assert_eq!(copy.room.describe().await.unwrap().fork, None);
            assert_eq!(there.check().await.unwrap(), []);
        }
    });
}

/// A put of a new entry.
fn put(path: EntryPath, placed: PlacedEntry) -> PathPut {
    let expected = PathExpectation::Is(None);
    PathPut { path, expected, placed }
}

#[test]
fn a_change_of_derived_files_stays_one_in_an_import() {
    block_on(async {
        let (depot, there) = (in_memory(), in_memory());
        let desk = Desk::over(workspace(&depot, "box").await);
        let file = PlacedEntry::File {
            content: "derived".into(),
            mode: 0o644,
        };
        let puts = PutBatch {
            puts: vec![put(EntryPath::from_bytes(b"a.pyc".to_vec()), file)],
            kind: ChangeKind::Derived,
            ..PutBatch::default()
        };
        desk.room.put(puts, Origin::default()).await.unwrap();
        let copy = imported(&there, "copy", &exported(&desk.room, &ExportExtent::History).await).await;
        assert_same_history(&desk, &copy).await;
        assert_eq!(copy.room.changes(None, 1).await.unwrap()[0].kind, ChangeKind::Derived);
    });
}

#[test]
fn whatever_is_exported_can_be_imported() {
    block_on(async {
        let (depot, there) = (in_memory(), in_memory());
        let desk = Desk::over(workspace(&depot, "box").await);
        desk.probe.batch(vec![write("a", "1"), write("b", "2")]).await;
        // A path as a directory of the host may have, and moves as merges once wrote them.
        let long = (0..20).fold(EntryPath::from_bytes(Vec::new()), |path, _| path.child(&[b'x'; 250]));
        let above = long.as_bytes().iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = above.map(|(slash, _)| EntryPath::from_bytes(long.as_bytes()[..slash].to_vec()));
        let mut puts: Vec<PathPut> = above
            .map(|path| put(path, PlacedEntry::Directory { mode: 0o755 }))
            .collect();
        let (content, mode) = (Bytes::from_static(b"deep").into(), 0o644);
        puts.push(put(long.clone(), PlacedEntry::File { content, mode }));
        let path_of = |name: &str| EntryPath::from_bytes(name.as_bytes().to_vec());
        let moves = [
            ("a", "\0merge-0"),
            ("b", "\0merge-1"),
            ("\0merge-0", "b"),
            ("\0merge-1", "a"),
        ];
        for (to, content) in [("a", "2"), ("b", "1")] {
            let before = desk.room.versions(&path(to), 1).await.unwrap().remove(0).image;
            puts.push(PathPut {
                path: path_of(to),
                expected: PathExpectation::Is(Some(before)),
                placed: PlacedEntry::File {
                    content: Bytes::from_static(content.as_bytes()).into(),
                    mode,
                },
            });
        }
        let puts = PutBatch {
            puts,
            moves: moves.map(|(from, to)| (path_of(from), path_of(to))).to_vec(),
            ..PutBatch::default()
        };
        desk.room.put(puts, Origin::default()).await.unwrap();
        let file = exported(&desk.room, &ExportExtent::History).await;
        let copy = imported(&there, "box", &file).await;
        assert!(
            exported(&copy.room, &ExportExtent::History).await == file,
            "it holds the same"
        );
        for name in ["a", "b"] {
            let names =
                |versions: Vec<garret_core::PathVersion>| versions.into_iter().map(|one| one.path).collect::<Vec<_>>();
            let found = names(copy.room.versions(&path(name), 9).await.unwrap());
            assert_eq!(found, names(desk.room.versions(&path(name), 9).await.unwrap()));
            assert_ne!(found[0], found[1], "it was the other one");
        }
        let too_long = put(
            EntryPath::from_bytes(vec![b'x'; 256]),
            PlacedEntry::Directory { mode: 0o755 },
        );
        let puts = PutBatch {
            puts: vec![too_long],
            ..PutBatch::default()
        };
        desk.room.put(puts, Origin::default()).await.unwrap();
        let error = export_workspace(&desk.room, &ExportExtent::History, Vec::new(), &mut |_| ())
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.path().map(str::len)),
            (ErrorKind::Invalid, Some(256))
        );
    });
}

#[test]
fn what_retention_left_is_what_travels() {
    block_on(async {
        let (depot, there) = (in_memory(), in_memory());
        let desk = lived_in(&depot).await;
        desk.room.forget_history(&Point::Number(4)).await.unwrap();
        let copy = imported(&there, "copy", &exported(&desk.room, &ExportExtent::History).await).await;
        assert_same_history(&desk, &copy).await;
        assert!(
            copy.tree_at(&Point::Snapshot("second".into())).await
                == desk.tree_at(&Point::Snapshot("second".into())).await
        );
        assert_eq!(there.check().await.unwrap(), []);
    });
}

#[test]
fn a_file_that_is_damaged_cut_short_or_newer_leaves_nothing_behind() {
    block_on(async {
        let depot = in_memory();
        let desk = lived_in(&depot).await;
        let file = exported(&desk.room, &ExportExtent::History).await;
        let home = tempfile::tempdir().unwrap();
        let there = on_disk(home.path()).await;
        let mut bad: Vec<Vec<u8>> = (0..20).map(|part| file[..file.len() * part / 20].to_vec()).collect();
        bad.push(file[..file.len() - 1].to_vec());
        for position in (0..file.len()).step_by(file.len() / 40) {
            let mut flipped = file.clone();
            flipped[position] ^= 0x20;
            bad.push(flipped);
        }
        bad.push(b"not a workspace at all".to_vec());
        bad.push(repacked(&file, |name, bytes| (name != "end.json").then_some(bytes)));
        bad.push(repacked(&file, |name, bytes| {
            (!name.starts_with("lists/")).then_some(bytes)
        }));
        for file in bad {
            let outcome = import_workspace(&there, NewWorkspace::named("copy"), Cursor::new(file), &mut |_| ()).await;
            let error = outcome.expect_err("it is refused");
            assert!(
                matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Invalid),
                "{error}"
            );
            assert!(!error.hint_text().is_empty());
        }
        let newer = repacked(&file, |name, bytes| {
            let text = String::from_utf8_lossy(&bytes).replace("\"version\":1", "\"version\":2");
            Some(if name == "manifest.json" {
                text.into_bytes()
            } else {
                bytes
            })
        });
        let outcome = import_workspace(&there, NewWorkspace::named("copy"), Cursor::new(newer), &mut |_| ()).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(there.workspaces().await.unwrap(), []);
        let usage = there.usage().await.unwrap();
        assert_eq!((usage.blobs, usage.workspaces.len()), (0, 0));
        assert_eq!(there.inspect().await.unwrap().pieces, 0);
        imported(&there, "copy", &file).await;
    });
}

#[test]
fn a_file_that_is_whole_and_says_what_cannot_be_is_corrupt() {
    block_on(async {
        let depot = in_memory();
        let desk = lived_in(&depot).await;
        let file = exported(&desk.room, &ExportExtent::History).await;
        let there = in_memory();
        let long = format!("\"label\":\"{}\"", "x".repeat(70_000));
        let forgeries: [(&str, &str, &str); 12] = [
            ("journal/", "\"label\":\"second\"", "\"label\":\"\\u001b[2J\""),
            ("journal/", "\"label\":\"second\"", "\"label\":\"\""),
            ("journal/", "\"label\":\"second\"", &long),
            (
                "journal/",
                "\"label\":\"second\",\"change\":",
                "\"label\":\"second\",\"change\":-",
            ),
            ("journal/", "\"number\":2,", "\"number\":1,"),
            ("journal/", "\"number\":2,", "\"number\":-2,"),
            ("journal/", "\"since\":1,", "\"since\":-1,"),
            ("journal/", "\"door\":\"", "\"door\":\"\\u001b[2J"),
            ("journal/", "\"operation\":\"", "\"operation\":\"\\n"),
            ("manifest.json", "\"head\":", "\"head\":922337203685477580"),
            ("journal/", "\"target\":\"d/b\"", "\"target\":\"\""),
            ("journal/", "\"target\":\"d/b\"", "\"target\":\"d\\u0000b\""),
        ];
        for (place, from, to) in forgeries {
            let forged = forged(&file, place, from, to);
            assert!(forged != file, "{from} is not there");
            let outcome = import_workspace(&there, NewWorkspace::named("copy"), Cursor::new(forged), &mut |_| ()).await;
            let error = outcome.expect_err(to);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{to}: {error}");
        }
        assert_eq!(there.workspaces().await.unwrap(), []);
    });
}

/// A portable file of our own making, with counts and a sum that fit: `records` are its journal, of so many changes.
fn made(head: usize, records: &[Value], pieces: &[(String, Vec<u8>)]) -> Vec<u8> {
    let manifest = json!({"format": "garret-workspace", "version": 1, "name": "made", "head": head,
        "oldest": 0, "oldest_at": 0, "has_history": true});
    let journal: String = records.iter().map(|record| format!("{record}\n")).collect();
    let mut entries = vec![
        ("manifest.json".to_owned(), manifest.to_string().into_bytes()),
        ("journal/000001.jsonl".to_owned(), journal.into_bytes()),
    ];
    entries.extend_from_slice(pieces);
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in &entries {
        hasher.update(name.as_bytes()).update(b"\0").update(bytes);
    }
    let bytes: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
    let end = json!({"records": records.len(), "pieces": pieces.len(), "bytes": bytes,
        "blake3": hasher.finalize().to_hex().as_str()});
    entries.push(("end.json".to_owned(), end.to_string().into_bytes()));
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        append(&mut builder, &name, &bytes);
    }
    zstd::stream::encode_all(builder.into_inner().expect("memory takes it").as_slice(), 3).expect("memory takes it")
}

fn change(number: usize) -> Value {
    json!({"type": "change", "number": number, "id": format!("made-{number}"), "at": number, "kind": "change",
        "operation": "write", "summary": "made", "door": "api"})
}

/// A file with the content at `address`, from one change until another.
fn entry(path: &str, valid: (usize, Option<usize>), address: &str, size: u64) -> Value {
    let mut entry = json!({"type": "entry", "path": path, "since": valid.0, "kind": "file", "mode": 0o644,
        "size": size, "content": address, "created": 1, "modified": 1});
    if let Some(until) = valid.1 {
        entry["until"] = until.into();
    }
    entry
}

fn piece(content: &[u8]) -> (String, Vec<u8>) {
    let address = blake3::hash(content).to_hex();
    (format!("content/{address}"), content.to_vec())
}

/// A list of parts, whatever it says of them; and its address.
fn list(parts: &[([u8; 32], u64)]) -> (String, Vec<u8>) {
    let bytes: Vec<u8> = parts
        .iter()
        .flat_map(|(address, size)| [&address[..], &size.to_le_bytes()].concat())
        .collect();
    (list_address(&bytes), bytes)
}

fn list_address(bytes: &[u8]) -> String {
    let address = blake3::derive_key("garret depot list of parts", bytes);
    blake3::Hash::from_bytes(address).to_hex().to_string()
}

async fn refused(depot: &Depot, file: Vec<u8>, why: &str) {
    let outcome = import_workspace(depot, NewWorkspace::named("copy"), Cursor::new(file), &mut |_| ()).await;
    let error = outcome.map(|_| ()).expect_err(why);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{why}: {error}");
}

#[test]
fn a_list_that_does_not_fit_its_parts_is_corrupt() {
    block_on(async {
        let there = in_memory();
        let part = vec![b'p'; 70_000];
        let address = *blake3::hash(&part).as_bytes();
        let file = |(list, bytes): (String, Vec<u8>), size: u64, more: &[(String, Vec<u8>)]| {
            let mut pieces = [&[piece(&part)], more].concat();
            pieces.push((format!("lists/{list}"), bytes));
            made(1, &[change(1), entry("a", (1, None), &list, size)], &pieces)
        };
        let (whole, bytes) = list(&[(address, 70_000)]);
        let whole_address = *blake3::Hash::from_hex(&whole).unwrap().as_bytes();
        let inner = [(format!("lists/{whole}"), bytes.clone())];
        let tail = [bytes.as_slice(), b"tail"].concat();
        for (forged, why) in [
            (
                file(list(&[(address, 70_000), (address, 1)]), 70_001, &[]),
                "a size lies",
            ),
            (
                file(list(&[(address, 1 << 63), (address, (1 << 63) + 5)]), 5, &[]),
                "sizes go round",
            ),
            (
                file(list(&[(whole_address, 70_000)]), 70_000, &inner),
                "a list of a list",
            ),
            (file((list_address(&tail), tail), 70_000, &[]), "a list goes on"),
            (file((list_address(b""), Vec::new()), 0, &[]), "a list of nothing"),
            (file(list(&[(address, 70_000)]), 70_001, &[]), "an entry lies"),
        ] {
            refused(&there, forged, why).await;
        }
        assert_eq!(there.inspect().await.unwrap().pieces, 0);
        let copy = imported(
            &there,
            "copy",
            &file(list(&[(address, 70_000), (address, 70_000)]), 140_000, &[]),
        )
        .await;
        assert_eq!(copy.probe.read("a").await.bytes, [part.as_slice(), &part].concat());
    });
}

#[test]
fn a_past_that_cannot_have_been_is_corrupt() {
    block_on(async {
        let there = in_memory();
        let content = piece(b"x");
        let address = blake3::hash(b"x").to_hex();
        let file = |path: &str, valid| entry(path, valid, &address, 1);
        let moved = |from: &str| json!({"type": "move", "change": 1, "step": 1, "from": from, "to": "a"});
        let reversal = json!({"type": "reversal", "change": 2, "target": 1});
        let link = json!({"type": "entry", "path": "a", "since": 1, "until": 2, "kind": "symlink", "mode": 0o777,
            "target": "/etc", "created": 1, "modified": 1});
        let cases = [
            (vec![moved("p"), moved("q"), file("a", (1, None))], "a move twice"),
            (
                vec![reversal.clone(), reversal, file("a", (1, None))],
                "a reversal twice",
            ),
            (
                vec![file("a", (1, Some(3))), file("a/b", (2, Some(3)))],
                "inside a file",
            ),
            (vec![link, file("a/b", (1, Some(2)))], "inside a link"),
        ];
        for (records, why) in cases {
            let records = [vec![change(1), change(2), change(3)], records].concat();
            refused(&there, made(3, &records, std::slice::from_ref(&content)), why).await;
        }
        let directory = json!({"type": "entry", "path": "a", "since": 2, "kind": "directory", "mode": 0o755,
            "created": 1, "modified": 1});
        let records = [
            change(1),
            change(2),
            file("a", (1, Some(2))),
            directory,
            file("a/b", (2, None)),
        ];
        let copy = imported(&there, "copy", &made(2, &records, &[content])).await;
        assert_eq!(copy.probe.text("a/b").await, "x");
    });
}

/// The same file with words of the entries below `place` exchanged, and a sum that fits.
fn forged(file: &[u8], place: &str, from: &str, to: &str) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    repacked(file, |name, bytes| {
        if name == "end.json" {
            let mut end: serde_json::Value = serde_json::from_slice(&bytes).expect("the test has set it up");
            end["blake3"] = hasher.finalize().to_hex().as_str().into();
            return Some(end.to_string().into_bytes());
        }
        let bytes = match name.starts_with(place) {
            true => String::from_utf8(bytes)
                .expect("the journal is text")
                .replacen(from, to, 1)
                .into_bytes(),
            false => bytes,
        };
        hasher.update(name.as_bytes()).update(b"\0").update(&bytes);
        Some(bytes)
    })
}

/// The same archive with other entries: what `each` gives for a name and its bytes.
fn repacked(file: &[u8], mut each: impl FnMut(&str, Vec<u8>) -> Option<Vec<u8>>) -> Vec<u8> {
    let plain = zstd::stream::decode_all(file).expect("the test has set it up");
    let mut archive = tar::Archive::new(plain.as_slice());
    let mut builder = tar::Builder::new(Vec::new());
    for entry in archive.entries().expect("the test has set it up") {
        let mut entry = entry.expect("the test has set it up");
        let name = entry
            .path()
            .expect("the test has set it up")
            .to_str()
            .expect("the test has set it up")
            .to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the test has set it up");
        if let Some(bytes) = each(&name, bytes) {
            append(&mut builder, &name, &bytes);
        }
    }
    zstd::stream::encode_all(builder.into_inner().expect("the test has set it up").as_slice(), 3)
        .expect("the test has set it up")
}

fn append(builder: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    builder
        .append_data(&mut header, name, bytes)
        .expect("the test has set it up");
}

#[test]
fn a_name_that_is_taken_is_found_out_first_and_damaged_content_is_not_exported() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let desk = lived_in(&depot).await;
        let file = exported(&desk.room, &ExportExtent::History).await;
        let outcome = import_workspace(&depot, NewWorkspace::named("box"), Cursor::new(&file), &mut |_| ()).await;
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let folders = std::fs::read_dir(home.path().join("blobs")).unwrap();
        let mut blobs = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
        let blob = blobs.next().expect("there are blobs").unwrap();
        std::fs::remove_file(blob.path()).unwrap();
        let error = export_workspace(&desk.room, &ExportExtent::History, &mut Vec::new(), &mut |_| ())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.path().is_some_and(|path| path.ends_with("/b")), "{error}");
    });
}

#[test]
fn an_export_while_others_write_is_the_state_at_its_beginning() {
    block_on(async {
        let home = tempfile::tempdir().unwrap();
        let depot = on_disk(home.path()).await;
        let desk = lived_in(&depot).await;
        let writing = {
            let desk = desk.clone();
            tokio::spawn(async move {
                for turn in 0..60 {
                    desk.probe.apply(write("busy", format!("{turn}"))).await;
                }
            })
        };
        let there = in_memory();
        let mut turn = 0;
        while !writing.is_finished() {
            let file = exported(&desk.room, &ExportExtent::History).await;
            let copy = imported(&there, &format!("copy{turn}"), &file).await;
            let head = copy.room.describe().await.unwrap().head;
            assert!(copy.probe.tree().await == desk.tree_at(&Point::Number(head)).await);
            turn += 1;
        }
        writing.await.unwrap();
        assert_eq!(there.check().await.unwrap(), []);
    });
}

#[test]
fn a_sink_that_fails_is_an_error_and_not_an_end() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    block_on(async {
        let desk = lived_in(&in_memory()).await;
        for room in [0, 100, 100_000, 1_000_000] {
            let error = export_workspace(&desk.room, &ExportExtent::History, Full(room), &mut |_| ())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
        }
        let restored = desk
            .room
            .restore(Point::Number(1), &WsPath::root(), Origin::default())
            .await;
        assert!(restored.is_ok());
    });
}
