//! Writing, appending and listing.

use std::collections::BTreeSet;
use std::sync::Arc;

use garret_core::{ErrorKind, Precondition};
use garret_workspace::{
    AppendOptions, Edit, EditOptions, ListRequest, PatchOptions, ReadRequest, RemoveOptions, TransferOptions,
    WriteOptions,
};

use super::Room;
use crate::faults::Call;
use crate::{Fault, FaultStorage, Moment};

/// `is_a_directory`; nothing changed.
pub async fn a_write_to_a_directory(room: Room) {
    room.write("d/f", "x").await;
    for at in ["d", "/", "d/../d/"] {
        let written = room.workspace.write(at, "y", WriteOptions::default());
        room.refuses(ErrorKind::IsADirectory, written).await;
        let appended = room.workspace.append(at, "y", AppendOptions::default());
        room.refuses(ErrorKind::IsADirectory, appended).await;
    }
}

/// `not_a_directory`; nothing changed.
pub async fn a_write_below_a_file(room: Room) {
    room.write("f", "x").await;
    for at in ["f/x", "f/x/y/z"] {
        let written = room.workspace.write(at, "y", WriteOptions::default());
        room.refuses(ErrorKind::NotADirectory, written).await;
        let appended = room.workspace.append(at, "y", AppendOptions::default());
        room.refuses(ErrorKind::NotADirectory, appended).await;
        room.refuses(ErrorKind::NotADirectory, room.workspace.make_dir(at, true))
            .await;
    }
}

/// `ff fe` followed by the text, byte-exact.
pub async fn an_append_to_bytes(room: Room) {
    room.write("f", vec![0xff, 0xfe]).await;
    let appended = room.workspace.append("f", "text\r\n", AppendOptions::default()).await;
    assert_eq!(appended.expect("bytes can be appended to").size, 8);
    assert_eq!(room.probe.read("f").await.bytes, b"\xff\xfetext\r\n".as_slice());
}

/// 100 bytes.
pub async fn a_hundred_appends_at_once(room: Room) {
    let append = |index: u8| {
        let workspace = room.workspace.clone();
        tokio::spawn(async move { workspace.append("log", vec![index], AppendOptions::default()).await })
    };
    let tasks: Vec<_> = (0..100).map(append).collect();
    for task in tasks {
        task.await.expect("no task panics").expect("an append succeeds");
    }
    let mut bytes = room.probe.read("log").await.bytes.to_vec();
    bytes.sort_unstable();
    assert_eq!(bytes, (0..100).collect::<Vec<u8>>());
}

/// One wins, the other gets `conflict` with the current version.
pub async fn two_writers_with_one_version(room: Room) {
    for turn in 0..10 {
        room.write("f", format!("start {turn}")).await;
        let version = room.workspace.read_bytes("f").await.expect("the file is there").version;
        let write = |content: &'static str| {
            let (workspace, precondition) = (room.workspace.clone(), Precondition::Version(version.clone()));
            let options = WriteOptions {
                precondition,
                ..WriteOptions::default()
            };
            tokio::spawn(async move { workspace.write("f", content, options).await })
        };
        let (one, other) = (write("one"), write("other"));
        let outcomes = [one.await, other.await].map(|outcome| outcome.expect("no task panics"));
        let lost: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        assert_eq!(lost.len(), 1, "one wins: {outcomes:?}");
        assert_eq!(lost[0].kind(), ErrorKind::Conflict);
        let current = lost[0]
            .current_version()
            .expect("a conflict carries the current version")
            .clone();
        let precondition = Precondition::Version(current);
        let options = WriteOptions {
            precondition,
            ..WriteOptions::default()
        };
        room.workspace
            .write("f", "after reading again", options)
            .await
            .expect("the carried version is current");
    }
}

/// `corrupt`; never empty. Whatever would read the lost content says so, and writes nothing in its place.
pub async fn damaged_content(room: Room) {
    room.write("f", "precious\n").await;
    let damaged = || {
        room.with_wrapper(|inner| {
            let fault = Fault {
                call: Some(Call::Read),
                after_calls: 0,
                kind: ErrorKind::Corrupt,
                moment: Moment::Before,
            };
            Arc::new(FaultStorage::planned(inner, vec![fault; 100]))
        })
    };
    let room = damaged();
    room.refuses(ErrorKind::Corrupt, room.workspace.read("f", ReadRequest::default()))
        .await;
    room.refuses(ErrorKind::Corrupt, room.workspace.read_bytes("f")).await;
    let edit = Edit {
        old_text: "precious".into(),
        new_text: "worthless".into(),
        ..Edit::default()
    };
    room.refuses(
        ErrorKind::Corrupt,
        room.workspace.edit("f", &[edit], EditOptions::default()),
    )
    .await;
    let patch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-precious\n+worthless\n";
    room.refuses(
        ErrorKind::Corrupt,
        room.workspace.apply_patch(patch, PatchOptions::default()),
    )
    .await;
    let outcomes = room
        .events()
        .iter()
        .filter(|event| event.outcome != garret_core::EventOutcome::Done)
        .count();
    assert_eq!(outcomes, 4, "each failure left an event");
}

/// Paged with a cursor; none missing, none twice.
pub async fn a_list_of_5000_entries(room: Room) {
    let wanted: BTreeSet<String> = (0..5_000).map(|index| format!("d/{index}")).collect();
    let files = wanted.iter().map(|at| crate::mutations::write(at, "x"));
    room.probe.batch(files.collect()).await;
    let mut seen = Vec::new();
    let mut request = ListRequest {
        limit: 900,
        ..ListRequest::default()
    };
    loop {
        let page = room
            .workspace
            .list("d", request.clone())
            .await
            .expect("the directory is there");
        assert!(page.entries.len() <= 900);
        seen.extend(page.entries.into_iter().map(|entry| entry.path));
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5_000, "none twice");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), wanted, "none missing");
}

/// Ordinary names.
pub async fn a_name_like_a_command(room: Room) {
    for name in [
        "$(touch x)",
        "a;b",
        "-rf",
        "`id`",
        "| cat",
        "&& true",
        "--help",
        "%s",
        "${IFS}",
    ] {
        room.write(name, name).await;
        let read = room
            .workspace
            .read(name, ReadRequest::default())
            .await
            .expect("an ordinary name");
        assert_eq!(read.content, name);
        let copy = format!("copies/{name}");
        let options = TransferOptions::default();
        room.workspace
            .copy(name, &copy, options)
            .await
            .expect("an ordinary name");
        room.workspace
            .rename(&copy, &format!("{copy}2"), options)
            .await
            .expect("an ordinary name");
        let gone = room.workspace.remove(name, RemoveOptions::default()).await;
        assert_eq!(gone.expect("an ordinary name").path, name);
        let left = room
            .workspace
            .exists(&format!("{copy}2"))
            .await
            .expect("an ordinary name");
        assert!(left.exists);
    }
    assert_eq!(room.probe.names("").await, ["copies"]);
}
