//! Patches.

use garret_core::ErrorKind;
use garret_workspace::PatchOptions;

use super::Room;

async fn apply(room: &Room, diff: &str) -> Vec<(String, &'static str)> {
    let patched = room.workspace.apply_patch(diff, PatchOptions::default()).await;
    let patched = patched.unwrap_or_else(|error| panic!("the patch applies: {error:?}"));
    patched
        .files
        .into_iter()
        .map(|file| (file.path, file.status.as_str()))
        .collect()
}

/// Applies.
pub async fn a_blank_context_line_without_its_space(room: Room) {
    room.write("f", "one\n\ntwo\n\nthree\n").await;
    let diff = "--- a/f\n+++ b/f\n@@ -1,5 +1,5 @@\n one\n\n-two\n+2\n\n three\n";
    assert_eq!(apply(&room, diff).await, [("f".to_owned(), "modified")]);
    assert_eq!(room.probe.text("f").await, "one\n\n2\n\nthree\n");
}

/// Invalid, naming the hunk and line; no file of the patch changed.
pub async fn a_wrong_context(room: Room) {
    room.write("good", "one\ntwo\n").await;
    room.write("bad", "alpha\nbeta\ngamma\n").await;
    let good = "--- a/good\n+++ b/good\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    let bad = "--- a/bad\n+++ b/bad\n@@ -1,3 +1,3 @@\n alpha\n-not beta\n+BETA\n gamma\n";
    for diff in [format!("{good}{bad}"), format!("{bad}{good}")] {
        let work = room.workspace.apply_patch(&diff, PatchOptions::default());
        let error = room.refuses(ErrorKind::Invalid, work).await;
        assert_eq!(error.path(), Some("bad"));
        let told = error.to_string();
        assert!(told.contains("hunk") && told.contains("line"), "{told}");
    }
}

/// One atomic change.
pub async fn a_patch_of_many_files(room: Room) {
    room.write("gone", "bye\n").await;
    room.write("old/name", "same\nline\n").await;
    room.write("kept", "one\n").await;
    let created = "diff --git a/new/file b/new/file\nnew file mode 100644\n--- /dev/null\n+++ b/new/file\n@@ -0,0 +1 @@\n+hello\n";
    let deleted =
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n";
    let renamed = "diff --git a/old/name b/moved/name\nrename from old/name\nrename to moved/name\n--- a/old/name\n+++ b/moved/name\n@@ -1,2 +1,2 @@\n same\n-line\n+LINE\n";
    let wrong = "diff --git a/kept b/kept\n--- a/kept\n+++ b/kept\n@@ -1 +1 @@\n-not one\n+two\n";
    let many = format!("{created}{deleted}{renamed}");
    for diff in [format!("{many}{wrong}"), format!("{wrong}{many}")] {
        room.refuses(
            ErrorKind::Invalid,
            room.workspace.apply_patch(&diff, PatchOptions::default()),
        )
        .await;
    }
    let events = room.events().len();
    let actions = apply(&room, &many).await;
    let wanted = [("new/file", "added"), ("gone", "deleted"), ("moved/name", "renamed")];
    assert_eq!(actions, wanted.map(|(path, action)| (path.to_owned(), action)));
    assert_eq!(room.events().len(), events + 1, "one change is one event");
    assert_eq!(room.probe.text("new/file").await, "hello\n");
    assert_eq!(room.probe.text("moved/name").await, "same\nLINE\n");
    assert!(!room.probe.exists("gone").await && !room.probe.exists("old/name").await);
}
