//! Files larger than what is worked on in memory.

#![allow(clippy::disallowed_methods, reason = "the file is made without writing its content")]

use std::sync::Arc;

use garret_core::{CountedIds, ErrorKind, OpenContext, SystemClock};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_workspace::{Edit, EditOptions, PatchOptions};

use crate::workspace::support::builder_on;

#[tokio::test]
async fn a_file_too_large_to_change_in_memory_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    // Sparse: it takes no room on the disk.
    let file = std::fs::File::create(dir.path().join("huge")).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    let options = LocalOptions {
        dir: dir.path().to_str().unwrap().to_owned(),
        durability: Durability::Relaxed,
    };
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(CountedIds::default()),
        history: garret_core::HistoryMode::Durable,
    };
    let storage = Arc::new(LocalStorage::open(&options, &context).unwrap());
    let workspace = builder_on(storage).open().unwrap();
    let edit = Edit {
        old_text: "a".into(),
        new_text: "b".into(),
        ..Edit::default()
    };
    let edited = workspace.edit("huge", &[edit], EditOptions::default()).await;
    assert_eq!(edited.unwrap_err().kind(), ErrorKind::TooLarge);
    let diff = "--- a/huge\n+++ b/huge\n@@ -1 +1 @@\n-a\n+b\n";
    let patched = workspace.apply_patch(diff, PatchOptions::default()).await;
    assert_eq!(patched.unwrap_err().kind(), ErrorKind::TooLarge);
}
