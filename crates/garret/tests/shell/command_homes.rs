//! The home directories of commands: one for the workspace, and one for each scope.

use garret::{EffectsMode, FsPolicy, Garret, Home, RunRequest, ScopeOptions, UndoRequest, Workspace};

use crate::shell::support::{On, Room, each, on_all, room};

/// A room with the directories of two tenants.
async fn room_of_tenants(on: On) -> Room {
    let room = room(on).await;
    room.write("team/a/inner/file", "").await;
    room.write("team/b/file", "").await;
    room
}

fn scope(workspace: &Workspace, path: &str) -> Workspace {
    workspace.scope(path, ScopeOptions::default()).unwrap()
}

async fn run(workspace: &Workspace, text: &str) -> String {
    let ran = workspace.run(RunRequest::shell(text)).await;
    ran.unwrap_or_else(|error| panic!("{text}: {error}")).output
}

async fn home_bytes(workspace: &Workspace) -> u64 {
    workspace.command_home().await.unwrap().home.unwrap().bytes
}

/// Lists the files of the home, and looks for those of another one everywhere else.
const LOOK: &str = "ls -A ~; find / -xdev -name 'of-*' -not -path \"$HOME/*\" 2>/dev/null";

#[test]
fn each_scope_has_a_home_of_its_own_which_its_next_command_finds_again() {
    each(|on| async move {
        let room = room_of_tenants(on).await;
        let (whole, changes) = (room.workspace(), room.changes().await);
        let views = [
            ("whole", whole.clone()),
            ("a", scope(whole, "team/a")),
            ("b", scope(whole, "team/b")),
            ("inner", scope(&scope(whole, "team"), "a/inner")),
        ];
        for (name, view) in &views {
            let put = format!("printf {name} > ~/of-{name}; echo $HOME; getent passwd $(id -u) | cut -d: -f6");
            let homes = run(view, &put).await;
            let (variable, record) = homes.split_once('\n').unwrap();
            assert_eq!(variable, record.trim_end(), "{on:?}: {name}");
        }
        for (name, view) in &views {
            assert_eq!(run(view, LOOK).await, format!("of-{name}\n"), "{on:?}");
        }
        assert_eq!(run(&scope(whole, "team/a"), LOOK).await, "of-a\n", "{on:?}");
        // Under other rules the home would carry what the one view may read to the other.
        let policy = FsPolicy {
            deny_read: vec!["secret".into()],
            ..FsPolicy::default()
        };
        let options = ScopeOptions {
            policy,
            ..ScopeOptions::default()
        };
        let fenced = whole.scope("team/a", options).unwrap();
        assert_eq!(run(&fenced, LOOK).await, "", "{on:?}");
        assert_eq!(room.changes().await, changes, "{on:?}: a home is in no change");
        whole.close().await.unwrap();
    });
}

#[test]
fn the_homes_of_scopes_outlive_the_program_and_are_emptied_together() {
    on_all(&[On::Filestore, On::Local], |on| async move {
        let room = room_of_tenants(on).await;
        let put = "head -c 100000 /dev/zero > ~/kept";
        run(room.workspace(), put).await;
        run(&scope(room.workspace(), "team/a"), put).await;
        room.workspace().close().await.unwrap();
        let other = Garret::new().home(Home::new(room.home.path()));
        let other = other.open_config("box", &room.config).await.unwrap();
        let other = other.workspace();
        let views = [other.clone(), scope(other, "team/a")];
        for view in &views {
            assert_eq!(run(view, "ls -A ~").await, "kept\n", "{on:?}");
            assert!(home_bytes(view).await >= 100_000, "{on:?}");
        }
        assert_eq!(home_bytes(&scope(other, "team/b")).await, 0, "{on:?}");
        other.clear_command_homes().await.unwrap();
        for view in &views {
            assert_eq!(run(view, "ls -A ~").await, "", "{on:?}");
            assert!(home_bytes(view).await < 100_000, "{on:?}");
        }
        other.close().await.unwrap();
    });
}

#[test]
fn a_discarded_command_of_a_scope_gets_an_empty_home() {
    each(|on| async move {
        let room = room_of_tenants(on).await;
        let tenant = scope(room.workspace(), "team/a");
        run(&tenant, "echo kept > ~/kept").await;
        let discarded = RunRequest {
            effects: Some(EffectsMode::Discard),
            ..RunRequest::shell("ls -A ~; echo gone > ~/gone; ls ~")
        };
        assert_eq!(tenant.run(discarded).await.unwrap().output, "gone\n", "{on:?}");
        assert_eq!(run(&tenant, "ls -A ~").await, "kept\n", "{on:?}");
        room.workspace().close().await.unwrap();
    });
}

#[test]
fn promise_30_undo_does_not_cover_the_home() {
    each(|on| async move {
        let room = room(on).await;
        run(room.workspace(), "echo one > file; echo kept > ~/of-home").await;
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert!(!room.workspace().exists("file").await.unwrap().exists, "{on:?}");
        assert_eq!(run(room.workspace(), "cat ~/of-home").await, "kept\n", "{on:?}");
        room.workspace().close().await.unwrap();
    });
}
