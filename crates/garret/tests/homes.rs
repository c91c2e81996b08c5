//! Workspaces that are kept in a home: by name, by ref, at a point.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says where it cannot go on, and looks at the files"
)]

use garret::{
    Capabilities, DeclaredCapability, ErrorKind, FsPolicy, Garret, HistoryMode, Home, LogRequest, MergeOptions,
    OptionEdit, Point, Reference, SnapshotOptions, StorageConfig, Toolbox, UndoRequest, WorkspaceConfig, WriteOptions,
};
use serde_json::json;

fn garret(home: &tempfile::TempDir) -> Garret {
    Garret::new().home(Home::new(home.path()))
}

fn filestore() -> WorkspaceConfig {
    WorkspaceConfig::with_storage(StorageConfig::Url("filestore".into()))
}

async fn write(toolbox: &Toolbox, path: &str, content: &str) {
    let options = WriteOptions::default();
    toolbox
        .workspace()
        .write(path, content.to_owned(), options)
        .await
        .unwrap();
}

async fn read(toolbox: &Toolbox, path: &str) -> String {
    let read = toolbox.workspace().read_bytes(path).await.unwrap();
    String::from_utf8(read.bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_named_workspace_is_there_again_for_the_next_program() {
    let home = tempfile::tempdir().unwrap();
    garret(&home).create("notes", &filestore()).await.unwrap();
    write(&garret(&home).open_named("notes").await.unwrap(), "a.txt", "one").await;
    let again = garret(&home).open_named("notes").await.unwrap();
    assert_eq!(read(&again, "a.txt").await, "one");
    let error = garret(&home).create("notes", &filestore()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        garret(&home).open_named("other").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn a_change_says_who_made_it_and_with_what() {
    let toolbox = Garret::new().open_url("memory:").await.unwrap();
    write(&toolbox, "a.txt", "one\n").await;
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    assert!(toolbox.call("edit_file", edit).await.ok);
    let log = toolbox.workspace().log(LogRequest::default()).await.unwrap();
    let told: Vec<_> = log
        .changes
        .iter()
        .map(|change| (change.operation.as_str(), change.summary.as_str()))
        .collect();
    assert_eq!(told, [("edit_file", "edit `a.txt`"), ("write_file", "write `a.txt`")]);
    assert_eq!(log.changes[0].actor.door, "api");
    assert_eq!(log.changes[0].paths[0].to_string(), "~ a.txt");
}

#[tokio::test]
async fn capabilities_that_are_said_anew_keep_their_options() {
    let home = tempfile::tempdir().unwrap();
    let policy = FsPolicy {
        read_only: true,
        ..FsPolicy::default()
    };
    let config = WorkspaceConfig {
        capabilities: Capabilities {
            fs: DeclaredCapability::Options(policy.clone()),
            ..Capabilities::default()
        },
        ..filestore()
    };
    garret(&home).create("notes", &config).await.unwrap();
    let wanted = Capabilities::from_names(["fs", "shell"]).unwrap();
    let kept = garret(&home).capabilities("notes", Some(&wanted)).await.unwrap();
    assert_eq!(kept.capabilities, ["fs", "shell"]);
    let config = garret(&home).config_of("notes").await.unwrap();
    assert_eq!(config.capabilities.declared_names(), kept.capabilities);
    assert_eq!(config.capabilities.fs.policy(), Some(policy));
    assert!(garret(&home).open_named("notes").await.is_ok());
    let missing = garret(&home).capabilities("other", Some(&wanted)).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_name_with_a_point_is_the_workspace_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    garret(&home).create("notes", &filestore()).await.unwrap();
    let now = garret(&home).open_named("notes").await.unwrap();
    write(&now, "a.txt", "before").await;
    now.workspace()
        .snapshot("first", SnapshotOptions::default())
        .await
        .unwrap();
    write(&now, "a.txt", "after").await;
    let past = garret(&home).open_named("notes@first").await.unwrap();
    assert_eq!(read(&past, "a.txt").await, "before");
    let refused = past
        .workspace()
        .write("a.txt", "x", WriteOptions::default())
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert_eq!(read(&now, "a.txt").await, "after");
}

#[tokio::test]
async fn a_ref_reopens_the_workspace_and_a_branch_has_one_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    garret(&home).create("notes", &filestore()).await.unwrap();
    let notes = garret(&home).open_named("notes").await.unwrap();
    write(&notes, "a.txt", "one").await;
    let text = notes.workspace().reference().unwrap().to_text();
    assert!(
        !text.contains(home.path().to_str().unwrap()),
        "a ref into the depot shows no path: {text}"
    );
    notes.workspace().branch("try", &Point::Now).await.unwrap();
    let branch = garret(&home).open_named("try").await.unwrap();
    assert_ne!(branch.workspace().reference().unwrap().to_text(), text);
    write(&branch, "a.txt", "two").await;
    let again = garret(&home).resolve(&Reference::parse(&text).unwrap()).await.unwrap();
    assert_eq!(read(&again, "a.txt").await, "one");
}

#[tokio::test]
async fn a_ref_carries_what_history_leaves_out() {
    let home = tempfile::tempdir().unwrap();
    let config = WorkspaceConfig {
        exclude: vec!["target/".into(), "*.log".into()],
        ..filestore()
    };
    garret(&home).create("notes", &config).await.unwrap();
    let notes = garret(&home).open_named("notes").await.unwrap();
    let reference = notes.workspace().reference().unwrap();
    assert_eq!(reference.exclude, config.exclude);
    let again = garret(&home)
        .resolve(&Reference::parse(&reference.to_text()).unwrap())
        .await
        .unwrap();
    assert_eq!(again.workspace().reference().unwrap().exclude, config.exclude);
}

#[tokio::test]
async fn a_ref_that_cannot_be_opened_says_why() {
    let home = tempfile::tempdir().unwrap();
    garret(&home).create("notes", &filestore()).await.unwrap();
    let reference = garret(&home)
        .open_named("notes")
        .await
        .unwrap()
        .workspace()
        .reference()
        .unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let error = garret(&elsewhere).resolve(&reference).await.unwrap_err();
    assert!(error.message().contains("another home"), "{error}");
    let unknown = Reference {
        kind: "s4".into(),
        ..reference.clone()
    };
    let error = garret(&home).resolve(&unknown).await.unwrap_err();
    assert!(error.message().contains("unknown storage kind `s4`"), "{error}");
    let newer = Reference { schema: 2, ..reference };
    assert_eq!(
        garret(&home).resolve(&newer).await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
    let error = Garret::new()
        .open_url("memory:")
        .await
        .unwrap()
        .workspace()
        .reference()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn history_that_is_off_has_no_log_and_one_without_a_home_lasts_a_session() {
    let off = WorkspaceConfig {
        history: Some(HistoryMode::Off),
        ..WorkspaceConfig::with_storage(StorageConfig::Url("memory:".into()))
    };
    let toolbox = Garret::new().open_config("box", &off).await.unwrap();
    let error = toolbox.workspace().log(LogRequest::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let durable = WorkspaceConfig {
        history: Some(HistoryMode::Durable),
        ..off
    };
    let error = Garret::new().open_config("box", &durable).await.unwrap_err();
    assert!(error.message().contains("needs a home"), "{error}");
    let toolbox = Garret::new().open_url("memory:").await.unwrap();
    write(&toolbox, "a.txt", "one").await;
    toolbox.workspace().undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(
        toolbox.workspace().read_bytes("a.txt").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    toolbox.workspace().redo().await.unwrap();
    assert_eq!(read(&toolbox, "a.txt").await, "one");
}

#[tokio::test]
async fn a_workspace_of_the_home_has_the_capabilities_it_was_made_with() {
    let home = tempfile::tempdir().unwrap();
    let config = WorkspaceConfig {
        capabilities: Capabilities::from_names(["fs"]).unwrap(),
        ..filestore()
    };
    garret(&home).create("notes", &config).await.unwrap();
    let toolbox = garret(&home).open_named("notes").await.unwrap();
    assert!(toolbox.definitions().iter().all(|tool| tool.name != "snapshot"));
    let error = Capabilities::from_names(["fss"]).unwrap_err();
    assert!(error.hint_text().starts_with("did you mean `fs`?"), "{error}");
}

#[tokio::test]
async fn a_directory_has_the_same_history_by_name_and_by_path() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("local:{}", directory.path().to_str().unwrap());
    write(&garret(&home).open_url(&url).await.unwrap(), "a.txt", "one").await;
    let local = WorkspaceConfig::with_storage(StorageConfig::Url(url.clone()));
    garret(&home).create("site", &local).await.unwrap();
    let named = garret(&home).open_named("site").await.unwrap();
    let log = named.workspace().log(LogRequest::default()).await.unwrap();
    assert_eq!(log.changes.len(), 1, "{log:?}");
    named.workspace().undo(UndoRequest::Last(1)).await.unwrap();
    assert!(!directory.path().join("a.txt").exists());
    let again = garret(&home).open_url(&url).await.unwrap();
    again.workspace().redo().await.unwrap();
    assert_eq!(std::fs::read(directory.path().join("a.txt")).unwrap(), b"one");
    let error = garret(&home).create("other", &local).await.unwrap_err();
    assert!(
        error.message().contains("already belong to the workspace `site`"),
        "{error}"
    );
    let reference = again.workspace().reference().unwrap();
    let resolved = garret(&home).resolve(&reference).await.unwrap();
    assert_eq!(read(&resolved, "a.txt").await, "one");
}

#[tokio::test]
async fn looking_at_a_directory_makes_no_home() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home_directory = home.path().join("garret");
    let garret = Garret::new().home(Home::new(&home_directory));
    let toolbox = garret.open_dir(directory.path()).await.unwrap();
    assert!(toolbox.call("ls", json!({"path": "."})).await.ok);
    assert!(!home_directory.exists());
}

#[tokio::test]
async fn a_session_forgets_its_history_and_keeps_its_files() {
    let home = tempfile::tempdir().unwrap();
    let config = WorkspaceConfig {
        history: Some(HistoryMode::Session),
        ..WorkspaceConfig::with_storage(StorageConfig::Url("filestore:box".into()))
    };
    let first = garret(&home).open_config("box", &config).await.unwrap();
    write(&first, "a.txt", "one").await;
    write(&first, "a.txt", "two").await;
    first.workspace().undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(read(&first, "a.txt").await, "one");
    drop(first);
    let second = garret(&home).open_config("box", &config).await.unwrap();
    assert_eq!(read(&second, "a.txt").await, "one");
    let error = second.workspace().undo(UndoRequest::Last(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn a_branch_allows_no_more_than_what_it_was_branched_off() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("key"), "hidden").unwrap();
    let mut config = WorkspaceConfig::with_storage(StorageConfig::Url(format!("local:{}", directory.path().display())));
    config.capabilities.fs = garret::DeclaredCapability::Options(garret::FsPolicy {
        deny_read: vec!["key".into()],
        ..Default::default()
    });
    let fenced = garret(&home).open_config("site", &config).await.unwrap();
    assert!(fenced.call("branch", json!({"name": "try"})).await.ok);
    let branch = garret(&home).open_named("try").await.unwrap();
    let error = branch.workspace().read_bytes("key").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn a_home_inside_the_workspace_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let inside = Garret::new().home(Home::new(directory.path().join("deep/home")));
    let error = inside.open_dir(directory.path()).await.unwrap_err();
    assert!(error.message().contains("the home lies inside"), "{error}");
}

#[tokio::test]
async fn a_merge_takes_along_what_other_programs_did_in_a_checked_out_branch() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    garret(&home).create("notes", &filestore()).await.unwrap();
    let notes = garret(&home).open_named("notes").await.unwrap();
    write(&notes, "a.txt", "one").await;
    notes.workspace().branch("work", &Point::Now).await.unwrap();
    let place = StorageConfig::Url(format!("local:{}", directory.path().display()));
    garret(&home).check_out("work", &place).await.unwrap();
    std::fs::write(directory.path().join("b.txt"), "by another program").unwrap();
    let merged = notes.call("merge", json!({"from": "work"})).await;
    assert!(merged.ok, "{}", merged.text);
    assert_eq!(read(&notes, "b.txt").await, "by another program");
    std::fs::write(directory.path().join("c.txt"), "later").unwrap();
    let work = garret(&home).open_named("work").await.unwrap();
    work.workspace().branch("more", &Point::Now).await.unwrap();
    let more = garret(&home).open_named("more").await.unwrap();
    assert_eq!(read(&more, "c.txt").await, "later", "so does a branch of it");
}

#[tokio::test]
async fn a_merge_from_a_directory_without_a_name_takes_it_as_it_is_now() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("local:{}", directory.path().display());
    let site = garret(&home).open_url(&url).await.unwrap();
    write(&site, "a.txt", "one").await;
    site.workspace().branch("try", &Point::Now).await.unwrap();
    let branch = garret(&home).open_branch(site.workspace(), "try").await.unwrap();
    std::fs::write(directory.path().join("a.txt"), "by another program").unwrap();
    let merge = async || {
        let parent = site.workspace().id().unwrap();
        branch.workspace().merge(parent, MergeOptions::default()).await
    };
    merge().await.unwrap();
    assert_eq!(read(&branch, "a.txt").await, "by another program");
    let hidden = directory.path().display().to_string();
    directory.close().unwrap();
    let error = merge().await.unwrap_err();
    assert!(error.message().contains("cannot be opened"), "{error}");
    assert!(!error.to_string().contains(&hidden), "{error}");
}

#[tokio::test]
async fn a_branch_that_ends_with_the_program_is_opened_through_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("key"), "hidden").unwrap();
    for url in ["memory:".to_owned(), format!("local:{}", directory.path().display())] {
        let mut config = WorkspaceConfig::with_storage(StorageConfig::Url(url.clone()));
        config.capabilities.fs = garret::DeclaredCapability::Options(garret::FsPolicy {
            deny_read: vec!["key".into()],
            ..Default::default()
        });
        // No home: its history is a session's.
        let garret = Garret::new();
        let parent = garret.open_config("box", &config).await.unwrap();
        write(&parent, "a.txt", "before").await;
        let workspace = parent.workspace();
        workspace.snapshot("first", SnapshotOptions::default()).await.unwrap();
        write(&parent, "a.txt", "after").await;
        workspace
            .branch("past", &Point::Snapshot("first".into()))
            .await
            .unwrap();
        let past = garret.open_branch(workspace, "past").await.unwrap();
        assert_eq!(past.workspace().name(), "past");
        assert_eq!(
            read(&past, "a.txt").await,
            "before",
            "{url}: a restore into a new workspace"
        );
        let error = past.workspace().read_bytes("key").await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Denied,
            "{url}: it allows what its parent allows"
        );
        write(&past, "a.txt", "elsewhere").await;
        assert_eq!(read(&parent, "a.txt").await, "after", "{url}");
        past.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        past.workspace().branch("deeper", &Point::Now).await.unwrap();
        let deeper = garret.open_branch(past.workspace(), "deeper").await.unwrap();
        assert_eq!(read(&deeper, "a.txt").await, "before", "{url}");
        let refused =
            async |view: &garret::Workspace, name: &str| garret.open_branch(view, name).await.unwrap_err().kind();
        assert_eq!(
            refused(workspace, "deeper").await,
            ErrorKind::NotFound,
            "{url}: that is none of its own"
        );
        let narrowed = workspace.scope("sub", garret::ScopeOptions::default()).unwrap();
        assert_eq!(refused(&narrowed, "past").await, ErrorKind::Denied, "{url}");
    }
}

#[tokio::test]
async fn a_durable_history_is_never_dropped_by_opening_without_one() {
    let home = tempfile::tempdir().unwrap();
    let open = async |mode: Option<HistoryMode>| {
        let config = WorkspaceConfig {
            history: mode,
            ..WorkspaceConfig::with_storage(StorageConfig::Url("filestore:box".into()))
        };
        garret(&home).open_config("box", &config).await
    };
    write(&open(None).await.unwrap(), "a.txt", "one").await;
    for mode in [HistoryMode::Session, HistoryMode::Off] {
        let error = open(Some(mode)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.message().contains("would delete"), "{error}");
    }
    let kept = open(None).await.unwrap();
    assert_eq!(
        kept.workspace().log(LogRequest::default()).await.unwrap().changes.len(),
        1
    );
    // Whoever wants it gone says so, and then may.
    let depot = garret(&home).depot().await.unwrap();
    depot
        .workspace("box")
        .await
        .unwrap()
        .forget_history(&Point::Now)
        .await
        .unwrap();
    let session = open(Some(HistoryMode::Session)).await.unwrap();
    write(&session, "a.txt", "two").await;
    session.workspace().undo(UndoRequest::Last(1)).await.unwrap();
    drop(session);
    let by_name = garret(&home).open_named("box").await.unwrap();
    let log = by_name.workspace().log(LogRequest::default()).await.unwrap();
    assert!(log.changes.is_empty(), "opened by name, it still is a session: {log:?}");
    write(&open(Some(HistoryMode::Durable)).await.unwrap(), "a.txt", "three").await;
    assert!(open(Some(HistoryMode::Session)).await.is_err(), "it is durable again");
}

#[tokio::test]
async fn a_ref_says_how_long_the_history_is_kept() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for url in [
        "filestore:box".to_owned(),
        format!("local:{}", directory.path().display()),
    ] {
        let config = WorkspaceConfig {
            history: Some(HistoryMode::Off),
            ..WorkspaceConfig::with_storage(StorageConfig::Url(url.clone()))
        };
        let toolbox = garret(&home).open_config("box", &config).await.unwrap();
        let reference = toolbox.workspace().reference().unwrap();
        assert_eq!(reference.history, HistoryMode::Off, "{url}");
        let again = garret(&home)
            .resolve(&Reference::parse(&reference.to_text()).unwrap())
            .await
            .unwrap();
        assert!(!again.workspace().has_history(), "{url}");
        let plain = WorkspaceConfig {
            history: None,
            ..config
        };
        let durable = garret(&home).open_config("box", &plain).await.unwrap();
        let reference = durable.workspace().reference().unwrap();
        assert_eq!(reference.history, HistoryMode::Durable, "{url}");
        let error = Garret::new().resolve(&reference).await.unwrap_err();
        assert!(error.message().contains("home"), "{url}: it is not weakened: {error}");
    }
}

#[tokio::test]
async fn a_configuration_says_how_much_history_is_kept() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for url in [
        "filestore:box".to_owned(),
        format!("local:{}", directory.path().display()),
    ] {
        let text = format!("storage = {url:?}\nkeep = ['30d', 2]");
        let config = WorkspaceConfig::from_toml(&text).unwrap();
        let toolbox = garret(&home).open_config("box", &config).await.unwrap();
        for content in ["1", "2", "3", "4"] {
            write(&toolbox, "a.txt", content).await;
        }
        toolbox.workspace().log(LogRequest::default()).await.unwrap();
        let depot = garret(&home).depot().await.unwrap();
        let kept = depot.workspace(toolbox.workspace().id().unwrap()).await.unwrap();
        assert_eq!(kept.keep().await.unwrap(), "30d,2".parse().unwrap(), "{url}");
        depot.retain_all(garret::Timestamp::now()).await.unwrap();
        let log = toolbox.workspace().log(LogRequest::default()).await.unwrap();
        assert_eq!(log.changes.len(), 2, "{url}");
        let session = WorkspaceConfig {
            history: Some(HistoryMode::Session),
            ..config
        };
        let error = Garret::new().open_config("box", &session).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: nothing is ignored: {error}");
    }
    let kept = WorkspaceConfig {
        keep: Some("5".parse().unwrap()),
        ..filestore()
    };
    garret(&home).create("notes", &kept).await.unwrap();
    let notes = garret(&home).depot().await.unwrap().workspace("notes").await.unwrap();
    assert_eq!(notes.keep().await.unwrap(), "5".parse().unwrap());
    notes.set_keep(&"7".parse().unwrap()).await.unwrap();
    garret(&home).open_named("notes").await.unwrap();
    assert_eq!(
        notes.keep().await.unwrap(),
        "7".parse().unwrap(),
        "what was said later holds"
    );
}

#[tokio::test]
async fn options_that_are_set_at_the_same_time_are_all_kept() {
    let home = tempfile::tempdir().unwrap();
    let [one, other] = [garret(&home), garret(&home)];
    one.create("box", &filestore()).await.unwrap();
    let edit = |text: &str| [OptionEdit::parse(text).unwrap()];
    for round in 0..20 {
        one.configure("box", &edit("keep=")).await.unwrap();
        let (kept, variable) = (edit("keep=30d"), edit(&format!("env.ROUND={round}")));
        let (first, second) = tokio::join!(one.configure("box", &variable), other.configure("box", &kept));
        first.and(second).unwrap();
        let options = one.configure("box", &[]).await.unwrap().options;
        let value = |key: &str| options.iter().find(|option| option.key == key).unwrap().value_as_toml();
        assert_eq!(value("keep"), "\"30d\"", "round {round}");
        assert_eq!(value("env"), format!("{{ ROUND = \"{round}\" }}"));
    }
}

#[tokio::test]
async fn now_is_a_point_like_any_other() {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("local:{}", directory.path().display());
    let local = WorkspaceConfig::with_storage(StorageConfig::Url(url));
    garret(&home).create("site", &local).await.unwrap();
    garret(&home).create("notes", &filestore()).await.unwrap();
    for name in ["notes", "site"] {
        let toolbox = garret(&home).open_named(name).await.unwrap();
        write(&toolbox, "a.txt", "one").await;
        if name == "site" {
            std::fs::write(directory.path().join("b.txt"), "by another program").unwrap();
        }
        let now = garret(&home).open_named(&format!("{name}@now")).await.unwrap();
        write(&toolbox, "a.txt", "two").await;
        assert_eq!(read(&now, "a.txt").await, "one", "{name}: a point does not move");
        if name == "site" {
            assert_eq!(read(&now, "b.txt").await, "by another program");
        }
        let named = Point::Named("now".into());
        let restore = garret::RestoreRequest {
            point: named.clone(),
            path: None,
        };
        assert_eq!(
            toolbox.workspace().restore(restore).await.unwrap().change,
            None,
            "{name}"
        );
        toolbox.workspace().branch(&format!("{name}-2"), &named).await.unwrap();
        let branch = garret(&home).open_named(&format!("{name}-2")).await.unwrap();
        assert_eq!(read(&branch, "a.txt").await, "two", "{name}");
        assert_eq!(
            toolbox.workspace().show(&named).await.unwrap().change.number,
            toolbox.workspace().log(LogRequest::default()).await.unwrap().changes[0].number
        );
    }
}
