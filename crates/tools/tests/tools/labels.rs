//! Snapshots and branches, as a model meets them.

use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{ErrorKind, FsPolicy, ToolsConfig};
use garret_depot::DepotWorkspace;
use garret_tools::Toolbox;
use garret_workspace::Workspace;
use serde_json::json;

use crate::support::{call, done, historic, put, refused, room, with_history};

#[test]
fn a_snapshot_is_taken_listed_compared_and_gone_back_to() {
    let tools = historic();
    put(&tools, "a.txt", "one\n");
    let (text, data) = done(&tools, "snapshot", json!({"label": "before"}));
    assert_eq!(text, "snapshot `before` names change #1");
    assert_eq!((&data["label"], &data["number"]), (&json!("before"), &json!(1)));
    put(&tools, "a.txt", "two\n");
    put(&tools, "b.txt", "new\n");
    let differing = done(&tools, "diff", json!({"from": "before"})).1;
    assert_eq!(differing["path_count"], 2);
    done(&tools, "snapshot", json!({"label": "first", "at": 1}));
    done(&tools, "branch", json!({"name": "try", "from": "before"}));
    insta::assert_snapshot!("list_snapshots", done(&tools, "list_snapshots", json!({})).0);
    let (text, data) = done(&tools, "restore", json!({"to": "before", "path": "a.txt"}));
    insta::assert_snapshot!("restore", text);
    assert_eq!(data["paths"], json!(["~ a.txt"]));
    let (text, planned) = done(&tools, "restore", json!({"to": "before", "dry_run": true}));
    assert_eq!(text, "would change 1 path; nothing is written\n- b.txt");
    let data = done(&tools, "restore", json!({"to": "before"})).1;
    assert_eq!(planned["paths"], data["paths"]);
    assert_eq!(data["paths"], json!(["- b.txt"]));
    assert_eq!(
        done(&tools, "restore", json!({"to": "before"})).1,
        json!({"paths": [], "path_count": 0})
    );
    done(&tools, "undo", json!({}));
    assert_eq!(done(&tools, "exists", json!({"path": "b.txt"})).1["exists"], true);
}

#[test]
fn a_snapshot_is_listed_with_what_it_holds() {
    let tools = historic();
    put(&tools, "a.txt", "12345");
    put(&tools, "b.txt", "12");
    done(&tools, "snapshot", json!({"label": "both"}));
    let (text, data) = done(&tools, "list_snapshots", json!({"sizes": true}));
    assert!(text.contains("2 files, 7 bytes, 0 freed by deleting it"), "{text}");
    let size = json!({"files": 2, "bytes": 7, "alone_bytes": 0});
    assert_eq!(data["snapshots"][0]["size"], size);
    let plain = done(&tools, "list_snapshots", json!({"sizes": false})).1;
    assert_eq!(plain["snapshots"][0].get("size"), None);
    let fenced = FsPolicy {
        deny_read: vec!["hidden".into()],
        ..FsPolicy::default()
    };
    let tools = Toolbox::new(with_history(fenced), ToolsConfig::default());
    done(&tools, "snapshot", json!({"label": "both"}));
    let data = done(&tools, "list_snapshots", json!({"sizes": true})).1;
    assert_eq!(
        data["snapshots"][0].get("size"),
        None,
        "sizes would tell of what is hidden"
    );
}

#[test]
fn a_label_or_name_that_is_taken_or_odd_is_refused() {
    let tools = historic();
    done(&tools, "snapshot", json!({"label": "before"}));
    done(&tools, "branch", json!({"name": "try"}));
    let cases = [
        ("snapshot", json!({"label": "before"}), ErrorKind::AlreadyExists),
        ("snapshot", json!({"label": ""}), ErrorKind::Invalid),
        ("snapshot", json!({"label": "12"}), ErrorKind::Invalid),
        ("snapshot", json!({"label": "now"}), ErrorKind::Invalid),
        ("snapshot", json!({"label": "x", "at": "nowhere"}), ErrorKind::NotFound),
        ("branch", json!({"name": "try"}), ErrorKind::AlreadyExists),
        ("branch", json!({"name": ""}), ErrorKind::Invalid),
        ("branch", json!({"name": "x", "from": "nowhere"}), ErrorKind::NotFound),
        ("restore", json!({"to": "nowhere"}), ErrorKind::NotFound),
        ("restore", json!({"to": ""}), ErrorKind::NotFound),
        ("restore", json!({}), ErrorKind::Invalid),
    ];
    for (tool, arguments, kind) in cases {
        let answer = call(&tools, tool, arguments.clone());
        let error = answer
            .error
            .unwrap_or_else(|| panic!("{tool} {arguments}: {}", answer.text));
        assert_eq!(error.kind(), kind, "{tool} {arguments}: {error}");
        assert!(!error.hint_text().is_empty(), "{tool} {arguments}");
    }
}

#[test]
fn the_pages_of_the_snapshots_are_the_snapshots() {
    let config = ToolsConfig {
        max_lines: 4,
        ..ToolsConfig::default()
    };
    let tools = Toolbox::new(with_history(FsPolicy::default()), config);
    for n in 0..10 {
        done(&tools, "snapshot", json!({"label": format!("s{n}")}));
    }
    for n in 0..3 {
        done(&tools, "branch", json!({"name": format!("b{n}")}));
    }
    let (mut names, mut arguments) = (Vec::new(), json!({}));
    loop {
        let (text, data) = done(&tools, "list_snapshots", arguments.clone());
        assert!(text.lines().count() <= 5, "{text}");
        let labels = data["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["label"].clone());
        let branches = data["branches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].clone());
        names.extend(labels.chain(branches));
        let Some(cursor) = data.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    let expected: Vec<_> = (0..10)
        .map(|n| format!("s{n}"))
        .chain((0..3).map(|n| format!("b{n}")))
        .collect();
    assert_eq!(names, expected);
    let text = refused(&tools, "list_snapshots", json!({"cursor": "snapshot:none"}));
    assert!(text.starts_with("invalid: this cursor is not"), "{text}");
}

/// The tools of one room of a depot.
fn tools_of(room: DepotWorkspace) -> Toolbox {
    let workspace = Workspace::builder(Arc::new(room.clone())).history(Some(Arc::new(room)));
    Toolbox::new(workspace.open().unwrap(), ToolsConfig::default())
}

/// A workspace with two files, and a branch of it.
fn forked() -> (Toolbox, Toolbox) {
    let room = room();
    let tools = tools_of(room.clone());
    put(&tools, "a.txt", "one\ntwo\nthree\nfour\n");
    put(&tools, "b.txt", "b\n");
    done(&tools, "branch", json!({"name": "try"}));
    let branch = block_on(room.depot().workspace("try")).unwrap();
    (tools, tools_of(branch))
}

fn edit(tools: &Toolbox, old_text: &str, new_text: &str) {
    let arguments = json!({"path": "a.txt", "old_text": old_text, "new_text": new_text});
    done(tools, "edit_file", arguments);
}

#[test]
fn a_merge_brings_in_what_a_branch_did() {
    let (tools, branch) = forked();
    edit(&tools, "one", "1");
    edit(&branch, "four", "4");
    done(&branch, "move", json!({"src": "b.txt", "dest": "c.txt"}));
    let (text, data) = done(&tools, "merge", json!({"from": "try", "dry_run": true}));
    insta::assert_snapshot!("merge_tried", text);
    assert!(data.get("change").is_none());
    let (text, data) = done(&tools, "merge", json!({"from": "try"}));
    insta::assert_snapshot!("merge", text);
    assert_eq!((&data["kind"], &data["conflict_count"]), (&json!("merge"), &json!(0)));
    let read = done(&tools, "read_file", json!({"path": "a.txt"})).1;
    assert_eq!(read["content"], "1\ntwo\nthree\n4\n");
    assert_eq!(
        done(&tools, "glob", json!({"pattern": "*"})).1["paths"],
        json!(["a.txt", "c.txt"])
    );
    let again = done(&tools, "merge", json!({"from": "try"}));
    assert_eq!(
        (again.0.as_str(), &again.1["path_count"]),
        (
            "nothing to merge from `try`: this workspace has all of its changes",
            &json!(0)
        )
    );
    done(&tools, "undo", json!({}));
    assert_eq!(
        done(&tools, "glob", json!({"pattern": "*"})).1["paths"],
        json!(["a.txt", "b.txt"])
    );
}

#[test]
fn a_conflict_is_reported_and_settled_only_as_asked() {
    let settled = |on_conflict: &str| {
        let (tools, branch) = forked();
        edit(&tools, "two", "2");
        edit(&branch, "two", "zwei");
        let merged = done(&tools, "merge", json!({"from": "try", "on_conflict": on_conflict}));
        let read = done(&tools, "read_file", json!({"path": "a.txt"})).1;
        (merged, read["content"].as_str().unwrap().to_owned())
    };
    let ((text, data), content) = settled("");
    insta::assert_snapshot!("merge_conflicts", text);
    assert_eq!(content, "one\n2\nthree\nfour\n");
    let conflict = &data["conflicts"][0];
    assert_eq!(
        (&conflict["path"], &conflict["kind"]),
        (&json!("a.txt"), &json!("content"))
    );
    assert_eq!(conflict["base"]["text"], "one\ntwo\nthree\nfour\n");
    assert_eq!(conflict["theirs"]["text"], "one\nzwei\nthree\nfour\n");
    assert_eq!(settled("ours").1, "one\n2\nthree\nfour\n");
    assert_eq!(settled("theirs").1, "one\nzwei\nthree\nfour\n");
    let ((text, _), content) = settled("markers");
    insta::assert_snapshot!("merge_with_markers", format!("{text}\n\n{content}"));
}

#[test]
fn workspaces_that_are_not_there_are_not_merged() {
    let (tools, _) = forked();
    let text = refused(&tools, "merge", json!({"from": "none"}));
    assert!(text.starts_with("not_found: "), "{text}");
}
