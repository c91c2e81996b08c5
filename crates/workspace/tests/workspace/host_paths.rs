//! Absolute paths of the host: those beneath the directory of the files name files, others do not build a machine's tree.

use garret_core::{ErrorKind, FsPolicy, OpenedStorage};
use garret_workspace::{
    AppendOptions, GlobRequest, GrepRequest, ListRequest, PatchOptions, RemoveOptions, ScopeOptions, TransferOptions,
    Workspace, WriteOptions,
};

use crate::workspace::support::{builder_on, get, put, shown, storage, with_events, workspace};

/// A workspace whose files are said to lie in `/data/proj`, which `/data/link` leads to.
fn hosted() -> Workspace {
    let opened = OpenedStorage {
        given_directory: Some("/data/link".into()),
        ..in_directory("/data/proj")
    };
    builder_on(opened).open().unwrap()
}

fn in_directory(directory: &str) -> OpenedStorage {
    OpenedStorage {
        directory: Some(directory.into()),
        ..storage().into()
    }
}

#[tokio::test]
async fn every_operation_takes_a_path_of_the_host() {
    let workspace = hosted();
    let written = workspace
        .write("/data/proj/src/a.rs", "fn a() {}\n", WriteOptions::default())
        .await
        .unwrap();
    assert_eq!(written.path, "src/a.rs");
    assert_eq!(get(&workspace, "/data/link/src/a.rs").await, "fn a() {}\n");
    workspace
        .append("/data/proj/src/a.rs", "fn b() {}\n", AppendOptions::default())
        .await
        .unwrap();
    workspace.make_dir("/data/proj/empty", false).await.unwrap();
    let options = TransferOptions::default();
    workspace
        .copy("/data/proj/src", "/data/link/copy", options)
        .await
        .unwrap();
    workspace
        .rename("/data/proj/copy", "/data/proj/moved", options)
        .await
        .unwrap();
    workspace
        .remove("/data/proj/empty", RemoveOptions::default())
        .await
        .unwrap();
    let patch = "--- /data/proj/src/a.rs\n+++ /data/proj/src/a.rs\n@@ -1 +1 @@\n-fn a() {}\n+fn c() {}\n\
                 --- /dev/null\n+++ /data/link/new.rs\n@@ -0,0 +1 @@\n+new\n";
    let patched = workspace.apply_patch(patch, PatchOptions::default()).await.unwrap();
    let names: Vec<_> = patched.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(names, ["src/a.rs", "new.rs"]);
    let listed = workspace.list("/data/proj", ListRequest::default()).await.unwrap();
    let names: Vec<_> = listed.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["moved", "new.rs", "src"]);
    assert_eq!(
        shown(&workspace).await,
        ["moved", "moved/a.rs", "new.rs", "src", "src/a.rs"]
    );
}

#[tokio::test]
async fn a_glob_may_begin_with_the_directory_that_is_searched() {
    let workspace = hosted();
    for path in ["a.rs", "src/a.rs", "src/deep/b.rs", "data/proj/src/c.rs"] {
        put(&workspace, path, "word\n").await;
    }
    let found = async |pattern: &str, path: &str| {
        let request = GlobRequest {
            pattern: pattern.into(),
            path: path.into(),
            ..GlobRequest::default()
        };
        workspace.glob(request).await.unwrap().paths
    };
    assert_eq!(found("/data/proj/src/**/*.rs", "").await, ["src/a.rs", "src/deep/b.rs"]);
    assert_eq!(found("/data/proj/src/*.rs", "src").await, ["src/a.rs"]);
    assert_eq!(found("/data/link/*.rs", "/data/proj").await, ["a.rs"]);
    assert!(found("/data/proj/*.rs", "src").await.is_empty());
    let request = GrepRequest {
        pattern: "word".into(),
        include: vec!["/data/proj/*.rs".into(), "/data/proj/src/**".into()],
        exclude: vec!["/data/proj/src/deep/".into()],
        ..GrepRequest::default()
    };
    let found = workspace.grep(request).await.unwrap();
    let paths: Vec<_> = found.matches.iter().map(|found| found.path.as_str()).collect();
    assert_eq!(paths, ["a.rs", "src/a.rs"]);
}

#[tokio::test]
async fn a_path_that_climbs_out_of_the_directory_is_an_escape() {
    let workspace = hosted();
    for path in ["/data/proj/../x", "/data/proj/../../etc/passwd", "/data/link/a/../../x"] {
        let error = workspace.write(path, "x", WriteOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PathEscape, "{path}");
        assert!(!error.to_string().contains("/data"), "{error}");
    }
    put(&workspace, "/data/proj/../proj/a", "x").await;
    put(&workspace, "/data/project/a", "elsewhere").await;
    assert_eq!(shown(&workspace).await, ["a", "data", "data/project", "data/project/a"]);
}

#[tokio::test]
async fn a_scope_takes_paths_beneath_its_own_directory_alone() {
    let workspace = hosted();
    put(&workspace, "alice/a", "alice").await;
    put(&workspace, "bob/b", "bob").await;
    let alice = workspace.scope("/data/proj/alice", ScopeOptions::default()).unwrap();
    assert_eq!(get(&alice, "/data/proj/alice/a").await, "alice");
    for path in ["/data/proj/bob/b", "/data/proj/alice/../bob/b"] {
        assert!(alice.read(path, Default::default()).await.is_err(), "{path}");
    }
    put(&alice, "/data/proj/bob/b", "own").await;
    assert_eq!(get(&workspace, "alice/data/proj/bob/b").await, "own");
    assert_eq!(get(&workspace, "bob/b").await, "bob");
    let outside = alice.scope("/data/proj/alice/..", ScopeOptions::default());
    assert_eq!(outside.unwrap_err().kind(), ErrorKind::PathEscape);
}

#[tokio::test]
async fn the_mount_point_keeps_its_meaning() {
    let workspace = builder_on(in_directory("/workspace/proj")).open().unwrap();
    put(&workspace, "/workspace/proj/a", "x").await;
    assert_eq!(get(&workspace, "proj/a").await, "x");
}

#[tokio::test]
async fn an_absolute_path_does_not_build_the_tree_of_a_machine() {
    let workspace = workspace();
    put(&workspace, "a", "x").await;
    let patch = |path: &str| format!("--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+x\n");
    let options = TransferOptions::default();
    for top in ["home", "Users", "root", "tmp", "var", "etc", "usr", "opt", "mnt"] {
        let path = format!("/{top}/someone/x");
        let refusals = [
            workspace.write(&path, "x", WriteOptions::default()).await.map(drop),
            workspace
                .write(&format!("/{top}"), "x", WriteOptions::default())
                .await
                .map(drop),
            workspace.append(&path, "x", AppendOptions::default()).await.map(drop),
            workspace.make_dir(&path, true).await.map(drop),
            workspace.make_dir(&format!("//./{top}/"), true).await.map(drop),
            workspace.copy("a", &path, options).await.map(drop),
            workspace.rename("a", &path, options).await.map(drop),
            workspace
                .apply_patch(&patch(&path), PatchOptions::default())
                .await
                .map(drop),
        ];
        for refusal in refusals {
            let error = refusal.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PathEscape, "{error}");
            assert!(error.hint_text().contains("leading slash"), "{error}");
        }
    }
    assert_eq!(shown(&workspace).await, ["a"]);
}

#[tokio::test]
async fn what_is_meant_for_the_workspace_is_created() {
    let workspace = workspace();
    put(&workspace, "home/a", "1").await;
    put(&workspace, "/home/b", "2").await;
    put(&workspace, "/workspace/tmp/c", "3").await;
    put(&workspace, "/src/d", "4").await;
    put(&workspace, "./etc/e", "5").await;
    put(&workspace, "/homes/f", "6").await;
    put(&workspace, "/lib/g", "7").await;
    let removed = workspace.remove("/opt/x", RemoveOptions::default()).await;
    assert_eq!(removed.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(get(&workspace, "home/b").await, "2");
}

#[tokio::test]
async fn whether_a_hidden_directory_is_there_does_not_show() {
    let policy = FsPolicy {
        deny_read: vec!["home/**".into(), "home".into()],
        ..FsPolicy::default()
    };
    let kinds = async |workspace: &Workspace| {
        let error = workspace
            .write("/home/x", "x", WriteOptions::default())
            .await
            .unwrap_err();
        (error.kind(), error.to_string())
    };
    let storage = crate::workspace::support::storage();
    let narrow = crate::workspace::support::with_policy(&storage, policy);
    let absent = kinds(&narrow).await;
    crate::workspace::support::fill(&storage, &[("home/secret", "x")]).await;
    assert_eq!(kinds(&narrow).await, absent);
}

#[tokio::test]
async fn an_event_names_the_file_without_the_path_of_the_host() {
    let (workspace, events) = with_events(FsPolicy::default());
    put(&workspace, "/data/proj/a", "x").await;
    assert_eq!(
        events.events()[0].path.as_deref(),
        Some("/data/proj/a"),
        "no directory of the host is known"
    );
    let events = std::sync::Arc::new(garret_core::MemoryEvents::default());
    let workspace = builder_on(in_directory("/data/proj"))
        .events(events.clone())
        .open()
        .unwrap();
    put(&workspace, "/data/proj/a", "x").await;
    assert_eq!(events.events()[0].path.as_deref(), Some("a"));
}
