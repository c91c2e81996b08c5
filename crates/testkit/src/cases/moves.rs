//! Moving, copying and removing.

use garret_core::ErrorKind;
use garret_workspace::{RemoveOptions, TransferOptions};

use super::Room;
use crate::mutations::write;

/// No-op; the file is intact.
pub async fn a_file_onto_itself(room: Room) {
    room.write("d/f", "precious").await;
    let before = room.probe.tree().await;
    for overwrite in [false, true] {
        for to in ["d/f", "/d/f", "./d//f", "d/../d/f", "/workspace/d/f"] {
            let options = TransferOptions { overwrite };
            room.workspace
                .rename("d/f", to, options)
                .await
                .expect("a move onto itself is a no-op");
        }
    }
    assert_eq!(room.probe.tree().await, before);
}

/// Invalid; nothing changed.
pub async fn a_directory_into_its_own_subtree(room: Room) {
    room.write("d/e/f", "precious").await;
    for to in ["d/x", "d/e", "d/e/x", "d/new/deep", "./d/e/../y"] {
        for overwrite in [false, true] {
            let options = TransferOptions { overwrite };
            room.refuses(ErrorKind::Invalid, room.workspace.rename("d", to, options))
                .await;
            room.refuses(ErrorKind::Invalid, room.workspace.copy("d", to, options))
                .await;
        }
    }
}

/// All 1,500 arrive.
pub async fn a_directory_of_1500_files(room: Room) {
    let name = |index: usize| format!("{}/{index:04}", index % 3);
    let files = (0..1_500).map(|index| write(&format!("from/{}", name(index)), format!("{index}")));
    room.probe.batch(files.collect()).await;
    let options = TransferOptions::default();
    room.workspace
        .copy("from", "copied", options)
        .await
        .expect("a directory can be copied");
    room.workspace
        .rename("from", "deep/moved", options)
        .await
        .expect("a directory can be moved");
    assert!(!room.probe.exists("from").await);
    for to in ["copied", "deep/moved"] {
        assert_eq!(room.probe.names_deep(to).await.len(), 1_503, "{to}");
        for index in [0, 999, 1_000, 1_001, 1_499] {
            assert_eq!(
                room.probe.text(&format!("{to}/{}", name(index))).await,
                format!("{index}")
            );
        }
    }
}

/// Denied; the workspace stays.
pub async fn the_root_is_removed(room: Room) {
    room.write("d/f", "precious").await;
    for root in ["", "/", ".", "/workspace", "d/.."] {
        for recursive in [false, true] {
            let options = RemoveOptions {
                recursive,
                ..RemoveOptions::default()
            };
            room.refuses(ErrorKind::Denied, room.workspace.remove(root, options))
                .await;
        }
    }
    let options = TransferOptions { overwrite: true };
    room.refuses(ErrorKind::Denied, room.workspace.rename("/", "elsewhere", options))
        .await;
}
