//! Changes of derived files, which commands and code make: plain undo steps over them.

use garret::{CodeRequest, ErrorKind, HistoryOperationResult, ScopeOptions, UndoRequest};

use crate::shell::support::{On, Room, each, everywhere, room, room_with};

/// Makes a cache as a run of the tests does.
const TEST: &str = "mkdir -p __pycache__ && echo compiled >> __pycache__/a.pyc";

async fn kinds(room: &Room) -> Vec<&'static str> {
    let log = room.workspace().log(Default::default()).await.unwrap();
    let own = log.changes.iter().map(|change| change.kind.as_str());
    // `capture` and `outside` depend on the storage.
    own.filter(|kind| !matches!(*kind, "capture" | "outside")).collect()
}

async fn undo(room: &Room) -> HistoryOperationResult {
    let undone = room.workspace().undo(UndoRequest::Last(1)).await;
    undone.unwrap_or_else(|error| panic!("{:?}: {error}", room.on))
}

/// Returns the count of the changes that an undo stepped over.
fn stepped_over(result: &HistoryOperationResult) -> u64 {
    result.stepped_over.as_ref().map_or(0, |changes| changes.count)
}

/// Undoes a change of derived files by its number.
async fn undo_derived(room: &Room) -> HistoryOperationResult {
    let log = room.workspace().log(Default::default()).await.unwrap();
    let stands = |change: &&garret::Change| change.kind.as_str() == "derived" && change.undone_by.is_none();
    let newest = log.changes.iter().find(stands).unwrap();
    let request = UndoRequest::Change(newest.number.to_string());
    room.workspace().undo(request).await.unwrap()
}

#[test]
fn promise_21_plain_undo_steps_over_changes_of_derived_files_and_says_so() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("a.py", "one").await;
        room.write("a.py", "two").await;
        room.sh(TEST).await;
        room.sh(TEST).await;
        assert_eq!(kinds(&room).await, ["derived", "derived", "change", "change"], "{on:?}");
        let planned = room.workspace().plan_undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(stepped_over(&planned), 2, "{on:?}: {planned:?}");
        let undone = undo(&room).await;
        assert_eq!(room.read("a.py").await, "one", "{on:?}");
        assert_eq!(room.read("__pycache__/a.pyc").await, "compiled\ncompiled\n", "{on:?}");
        let described = undone.stepped_over.unwrap().to_string();
        assert!(
            described.starts_with("stepped over 2 changes of derived files: "),
            "{on:?}: {described}"
        );
        room.sh(TEST).await;
        room.redo().await;
        assert_eq!(room.read("a.py").await, "two", "{on:?}: derived files clear no redo");
        undo(&room).await;
        assert_eq!(stepped_over(&undo(&room).await), 3, "{on:?}: repeating it steps back");
        let error = room.workspace().undo(UndoRequest::Last(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{on:?}: {error}");
        let expected = "only changes of derived files are left to undo: ";
        assert!(error.message().starts_with(expected), "{on:?}: {error}");
        undo_derived(&room).await;
        assert_eq!(room.read("__pycache__/a.pyc").await, "compiled\ncompiled\n", "{on:?}");
        room.redo().await;
        assert_eq!(
            room.read("__pycache__/a.pyc").await,
            "compiled\ncompiled\ncompiled\n",
            "{on:?}"
        );
    });
}

#[test]
fn a_change_is_derived_only_if_a_command_made_it_and_it_touched_nothing_else() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.code = garret::DeclaredCapability::Switch(true);
        })
        .await;
        room.write("target/notes", "by a tool").await;
        room.sh("echo made > a; mkdir node_modules; echo made > node_modules/a")
            .await;
        // The content of `a` stays as it is.
        room.sh("echo made > a; echo more > node_modules/b").await;
        let code = CodeRequest::new(garret::Language::Bash, "rm -r node_modules");
        room.workspace().run_code(code).await.unwrap();
        assert_eq!(kinds(&room).await, ["derived", "derived", "change", "change"], "{on:?}");
    });
}

#[test]
fn a_background_process_that_makes_derived_files_makes_derived_changes() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("a.py", "one").await;
        let id = room
            .start("mkdir target && echo built > target/x; echo up; sleep 1000")
            .await;
        room.output_with(&id, "up").await;
        room.write("a.py", "two").await;
        room.workspace().kill(&id).await.unwrap();
        assert!(kinds(&room).await.contains(&"derived"), "{on:?}");
        undo(&room).await;
        assert_eq!(
            (room.read("a.py").await, room.read("target/x").await),
            ("one".into(), "built\n".into())
        );
    });
}

#[test]
fn derived_files_that_stand_in_the_way_of_an_undo_are_undone_with_it() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("echo '{}' > package.json; mkdir node_modules; echo x > node_modules/x")
            .await;
        room.sh("mkdir node_modules/.cache; echo y > node_modules/.cache/y")
            .await;
        let undone = undo(&room).await;
        assert_eq!(
            (undone.reverses().len(), stepped_over(&undone)),
            (2, 0),
            "{on:?}: {undone:?}"
        );
        assert!(!room.workspace().exists("node_modules").await.unwrap().exists, "{on:?}");
        let summary = &undone.change.as_ref().unwrap().summary;
        assert!(
            summary.ends_with(", with 1 change of derived files"),
            "{on:?}: {summary}"
        );
        room.redo().await;
        assert_eq!(room.read("node_modules/.cache/y").await, "y\n", "{on:?}");
    });
}

#[test]
fn a_view_of_a_part_steps_over_its_own_derived_changes_alone() {
    each(|on| async move {
        let room = room(on).await;
        room.write("p/a.py", "one").await;
        room.write("p/a.py", "two").await;
        room.sh("mkdir p/target && echo x > p/target/x").await;
        room.sh("mkdir target && echo y > target/y").await;
        let part = room.workspace().scope("p", ScopeOptions::default()).unwrap();
        let undone = part.undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(stepped_over(&undone), 1, "{on:?}: {undone:?}");
        assert_eq!(room.read("p/a.py").await, "one", "{on:?}");
        // The directory of the view goes with its first file, so what is in it goes too.
        let undone = part.undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(
            (undone.reverses().len(), stepped_over(&undone)),
            (2, 0),
            "{on:?}: {undone:?}"
        );
        room.write("p/a.py", "again").await;
        room.sh("echo '{}' > p/package.json; mkdir p/node_modules").await;
        room.sh("echo y > p/node_modules/y").await;
        room.sh("echo z > target/z").await;
        let undone = part.undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(
            (undone.reverses().len(), stepped_over(&undone)),
            (2, 0),
            "{on:?}: {undone:?}"
        );
        assert!(!part.exists("node_modules").await.unwrap().exists, "{on:?}");
        assert_eq!(
            room.read("target/z").await,
            "z\n",
            "{on:?}: a change that this view does not show"
        );
    });
}

#[test]
fn a_view_with_rules_is_told_that_only_derived_changes_are_left() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.fs = garret::DeclaredCapability::Options(garret::FsPolicy {
                deny_read: vec!["secret".into()],
                ..Default::default()
            });
        })
        .await;
        room.sh(TEST).await;
        let error = room.workspace().undo(UndoRequest::Last(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{on:?}");
        let expected = "only changes of derived files are left to undo: 1";
        assert_eq!(error.message(), expected, "{on:?}");
    });
}

#[test]
fn a_workspace_chooses_its_derived_files() {
    each(|on| async move {
        let room = room_with(on, |config| config.derived = vec!["/out/".into()]).await;
        room.sh("mkdir target && echo x > target/x").await;
        room.sh("mkdir out && echo x > out/x").await;
        assert_eq!(kinds(&room).await, ["derived", "change"], "{on:?}");
        let none = room_with(on, |config| config.derived.clear()).await;
        none.sh(TEST).await;
        assert_eq!(kinds(&none).await, ["change"], "{on:?}");
    });
}

#[tokio::test]
async fn a_ref_carries_the_derived_files() {
    let room = room_with(On::Filestore, |config| config.derived = vec!["/out/".into()]).await;
    let reference = room.workspace().reference().unwrap();
    assert_eq!(reference.derived, ["/out/"]);
    let again = room.garret.resolve(&reference).await.unwrap();
    let request = garret::RunRequest::shell("mkdir out && echo x > out/x");
    again.workspace().run(request).await.unwrap();
    assert_eq!(kinds(&room).await, ["derived"]);
}

#[test]
fn what_a_gitignore_names_is_no_derived_file() {
    each(|on| async move {
        let room = room(on).await;
        room.write(".gitignore", "notes/\n").await;
        room.sh("mkdir notes && echo mine > notes/a").await;
        assert_eq!(stepped_over(&undo(&room).await), 0, "{on:?}");
        assert!(!room.workspace().exists("notes").await.unwrap().exists, "{on:?}");
    });
}
