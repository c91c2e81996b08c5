//! The past, as a model meets it: the journal, differences, the way back, and looks at what was.

use futures::executor::block_on;
use garret_core::{
    Actor, Capabilities, ChangeKind, EntryPath, ErrorKind, FsPolicy, Origin, PathExpectation, PathPut, PlacedEntry,
    PutBatch, ToolsConfig,
};
use garret_depot::DepotWorkspace;
use garret_tools::Toolbox;
use serde_json::{Value, json};

use crate::support::{call, done, historic, over_room, put, refused, room, toolbox, with_history};

/// A workspace with three changes: two versions of `a.txt`, and `d/b.txt`.
fn worked() -> Toolbox {
    let tools = historic();
    put(&tools, "a.txt", "one\ntwo\n");
    let edit = json!({"path": "a.txt", "old_text": "two", "new_text": "2"});
    done(&tools, "edit_file", edit);
    put(&tools, "d/b.txt", "b\n");
    tools
}

fn content(tools: &Toolbox, path: &str) -> Value {
    done(tools, "read_file", json!({"path": path})).1["content"].clone()
}

fn bounded_history(max_lines: usize, max_kib: usize) -> Toolbox {
    let config = ToolsConfig {
        max_lines,
        max_kib,
        ..ToolsConfig::default()
    };
    Toolbox::new(with_history(FsPolicy::default()), config)
}

fn acting(tools: &Toolbox, session: &str, tool_call: &str) -> Toolbox {
    let actor = Actor {
        agent: Some("writer".into()),
        session: Some(session.into()),
        tool_call: Some(tool_call.into()),
        door: "mcp".into(),
        command: None,
    };
    tools.on(tools.workspace().acting_as(actor))
}

#[test]
fn tools_of_the_past_are_offered_only_where_there_is_one() {
    let names = |tools: &Toolbox| -> Vec<_> { tools.definitions().iter().map(|one| one.canonical).collect() };
    let past = ["history", "diff", "undo", "restore_version"];
    let points = ["snapshot", "list_snapshots", "restore", "branch", "merge"];
    let without = names(&toolbox());
    assert!(
        !past.iter().chain(&points).any(|name| without.contains(name)),
        "{without:?}"
    );
    let of = |capabilities: &[&str]| {
        let capabilities = Capabilities::from_names(capabilities.iter().copied()).unwrap();
        let workspace = with_history(FsPolicy::default());
        names(&Toolbox::with_capabilities(
            workspace,
            ToolsConfig::default(),
            &capabilities,
        ))
    };
    let fs = of(&["fs"]);
    assert!(past.iter().all(|name| fs.contains(name)) && !points.iter().any(|name| fs.contains(name)));
    assert_eq!(of(&["snapshot"]), points);
    assert_eq!(of(&["fs", "snapshot"]).len(), 14 + past.len() + points.len());
}

#[test]
fn the_history_tells_what_was_done_and_by_whom() {
    let tools = worked();
    done(&acting(&tools, "s1", "c1"), "rm", json!({"path": "a.txt"}));
    done(&tools, "undo", json!({}));
    let (text, data) = done(&tools, "history", json!({}));
    insta::assert_snapshot!("history", text);
    let changes = data["changes"].as_array().unwrap();
    let kinds: Vec<_> = changes.iter().map(|change| change["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["undo", "change", "change", "change", "change"]);
    assert_eq!(changes[0]["reverses"], json!([4]));
    assert_eq!(changes[1]["undone_by"], 5);
    let actor = json!({"agent": "writer", "session": "s1", "tool_call": "c1", "door": "mcp"});
    assert_eq!(changes[1]["actor"], actor);
    assert_eq!(changes[2]["paths"], json!(["+ d", "+ d/b.txt"]));
    for key in ["change", "at", "actor", "kind", "summary", "paths"] {
        assert!(changes.iter().all(|change| !change[key].is_null()), "{key}");
    }
}

/// Writes a file as a command does that makes derived files and nothing else.
fn derive(room: &DepotWorkspace, path: &str) {
    let put = PathPut {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        expected: PathExpectation::Is(None),
        placed: PlacedEntry::File {
            content: "derived".into(),
            mode: 0o644,
        },
    };
    let puts = PutBatch {
        puts: vec![put],
        kind: ChangeKind::Derived,
        ..PutBatch::default()
    };
    block_on(room.put(puts, Origin::default())).unwrap();
}

#[test]
fn the_history_folds_changes_of_derived_files_and_an_undo_steps_over_them() {
    let room = room();
    let tools = Toolbox::new(over_room(room.clone(), FsPolicy::default()), ToolsConfig::default());
    put(&tools, "a", "1");
    derive(&room, "1.pyc");
    put(&tools, "b", "1");
    for path in ["2.pyc", "3.pyc", "4.pyc"] {
        derive(&room, path);
    }
    let (text, data) = done(&tools, "history", json!({}));
    insta::assert_snapshot!("history_of_derived_files", text);
    assert_eq!(
        data["changes"].as_array().unwrap().len(),
        6,
        "the data has every change"
    );
    let each = done(&tools, "history", json!({"path": "2.pyc"})).0;
    assert!(each.contains("[derived files]"), "{each}");
    let (text, page) = done(&tools, "history", json!({"limit": 2}));
    assert!(text.starts_with("#6 to #5  "), "{text}");
    assert!(text.ends_with("\n[2 changes; older: cursor=\"5\"]"), "{text}");
    let rest = done(&tools, "history", json!({"cursor": page["next_cursor"]})).1;
    assert_eq!(rest["changes"][0]["number"], 4);
    insta::assert_snapshot!("undo_beside_derived_files", done(&tools, "undo", json!({})).0);
}

#[test]
fn a_row_of_derived_files_that_does_not_fit_begins_the_next_page() {
    let room = room();
    let config = ToolsConfig {
        max_lines: 3,
        ..ToolsConfig::default()
    };
    let tools = Toolbox::new(over_room(room.clone(), FsPolicy::default()), config);
    for path in ["1.pyc", "2.pyc"] {
        derive(&room, path);
    }
    for path in ["a", "b", "c"] {
        put(&tools, path, "1");
    }
    let page = done(&tools, "history", json!({})).1;
    let shown = page["changes"].as_array().unwrap().len();
    assert!(shown < 5, "{page}");
    let next = done(&tools, "history", json!({"cursor": page["next_cursor"]})).1;
    let numbers = [&page, &next]
        .map(|page| page["changes"].as_array().unwrap().clone())
        .concat();
    let numbers: Vec<_> = numbers
        .iter()
        .map(|change| change["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
}

#[test]
fn the_history_of_a_path_is_its_own() {
    let tools = worked();
    let numbers = |arguments: Value| -> Vec<u64> {
        let data = done(&tools, "history", arguments).1;
        let changes = data["changes"].as_array().unwrap();
        changes
            .iter()
            .map(|change| change["number"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(numbers(json!({"path": "a.txt"})), [2, 1]);
    assert_eq!(numbers(json!({"path": "d"})), [3]);
    assert_eq!(numbers(json!({"path": ""})), [3, 2, 1]);
    assert_eq!(
        numbers(json!({"versions": true})),
        [3, 2, 1],
        "versions are of one path"
    );
    assert_eq!(done(&tools, "history", json!({"path": "none"})).0, "[no changes]");
}

#[test]
fn versions_follow_a_file_through_renames() {
    let tools = worked();
    done(&tools, "move", json!({"src": "a.txt", "dest": "c.txt"}));
    done(&tools, "rm", json!({"path": "c.txt"}));
    let (text, data) = done(&tools, "history", json!({"path": "c.txt", "versions": true}));
    insta::assert_snapshot!("versions", text);
    let versions = data["versions"].as_array().unwrap();
    let told: Vec<_> = versions
        .iter()
        .map(|version| {
            (
                version["path"].as_str().unwrap(),
                version["operation"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [("c.txt", "move"), ("a.txt", "edit_file"), ("a.txt", "write_file")]
    );
    let first = &versions[2];
    assert_eq!(first["size"], 8);
    for key in ["version", "at", "actor"] {
        assert!(!first[key].is_null(), "{key}");
    }
    let restored = done(
        &tools,
        "restore_version",
        json!({"path": "c.txt", "version": first["version"]}),
    );
    assert!(restored.1["change"].is_string());
    assert_eq!(content(&tools, "c.txt"), "one\ntwo\n");
    let again = json!({"path": "c.txt", "version": first["version"]});
    assert_eq!(
        done(&tools, "restore_version", again).1,
        json!({"paths": [], "path_count": 0})
    );
    let text = refused(&tools, "restore_version", json!({"path": "c.txt", "version": "none"}));
    assert!(text.starts_with("not_found: `c.txt` has no such version"), "{text}");
}

#[test]
fn the_pages_of_the_history_are_the_history() {
    for (limit, max_lines, max_kib) in [
        (None, 2_000, 100),
        (Some(7), 2_000, 100),
        (None, 3, 100),
        (Some(500), 2_000, 1),
    ] {
        let tools = bounded_history(max_lines, max_kib);
        for n in 0..60 {
            put(&tools, "a.txt", &format!("{n}"));
        }
        for (arguments, key) in [
            (json!({"limit": limit}), "changes"),
            (json!({"limit": limit, "path": "a.txt", "versions": true}), "versions"),
        ] {
            let (mut found, mut arguments) = (Vec::new(), arguments);
            loop {
                let (text, data) = done(&tools, "history", arguments.clone());
                assert!(
                    text.len() <= max_kib * 1024 && text.lines().count() <= max_lines + 1,
                    "{text}"
                );
                let page = data[key].as_array().unwrap();
                assert!(limit.is_none_or(|limit| page.len() <= limit) && !page.is_empty());
                found.extend(page.iter().map(|one| one["change"].clone()));
                let Some(cursor) = data.get("next_cursor") else { break };
                assert!(text.ends_with(&format!("; older: cursor={cursor}]")), "{text}");
                arguments["cursor"] = cursor.clone();
            }
            let distinct: std::collections::BTreeSet<_> = found.iter().map(Value::to_string).collect();
            assert_eq!((found.len(), distinct.len()), (60, 60), "{key} by {limit:?}");
        }
    }
    let tools = worked();
    let text = refused(&tools, "history", json!({"cursor": "x"}));
    assert!(
        text.starts_with("invalid: this cursor was not made by Garret"),
        "{text}"
    );
    let text = refused(
        &tools,
        "history",
        json!({"cursor": "x", "path": "a.txt", "versions": true}),
    );
    assert!(
        text.starts_with("invalid: this cursor was not made by Garret"),
        "{text}"
    );
}

#[test]
fn a_diff_shows_the_newest_change_one_change_or_everything_since_a_point() {
    let tools = worked();
    let shown = |arguments: Value| done(&tools, "diff", arguments).0;
    insta::assert_snapshot!("diff_of_the_newest_change", shown(json!({})));
    insta::assert_snapshot!("diff_of_one_change", shown(json!({"to": 2})));
    insta::assert_snapshot!("diff_since_the_beginning", shown(json!({"from": "0"})));
    assert_eq!(shown(json!({"from": "2", "path": "a.txt"})), "[no differences]");
    assert_eq!(shown(json!({"from": "now"})), "[no differences]");
    let data = done(&tools, "diff", json!({"from": "1", "path": "a.txt"})).1;
    assert_eq!(data["path_count"], 1);
    let path = &data["paths"][0];
    assert_eq!(
        (&path["path"], &path["status"], &path["insertions"], &path["deletions"]),
        (&json!("a.txt"), &json!("modified"), &json!(1), &json!(1))
    );
    let text = refused(&tools, "diff", json!({"from": "nowhere"}));
    assert!(
        text.starts_with("not_found: there is no snapshot, change or time `nowhere`"),
        "{text}"
    );
}

#[test]
fn the_pages_of_a_diff_are_the_diff() {
    let tools = bounded_history(20, 2);
    let long: String = (0..300).map(|n| format!("line {n}\n")).collect();
    put(&tools, "a.txt", &long);
    let (mut together, mut offset) = (String::new(), 0);
    loop {
        let (text, data) = done(&tools, "diff", json!({"from": "0", "offset": offset}));
        assert!(text.len() <= 2 * 1024 && text.lines().count() <= 21, "{text}");
        together.push_str(data["diff"].as_str().unwrap());
        let Some(next) = data.get("next_offset") else { break };
        assert!(text.ends_with(&format!("; more: offset={next}]")), "{text}");
        offset = next.as_u64().unwrap();
    }
    let added: String = together
        .lines()
        .filter_map(|line| line.strip_prefix("+line"))
        .map(|rest| format!("line{rest}\n"))
        .collect();
    assert_eq!(added, long);
    assert!(together.contains("+++ b/a.txt"), "{together}");
    let past = done(&tools, "diff", json!({"from": "0", "offset": 10_000})).0;
    assert_eq!(past, "[nothing at offset 10,000: 1 path differs]");
}

#[test]
fn undo_steps_back_and_redo_forward() {
    let tools = worked();
    let undone = done(&tools, "undo", json!({}));
    insta::assert_snapshot!("undo", undone.0);
    assert_eq!(undone.1["reverses"], json!([3]));
    assert_eq!(done(&tools, "exists", json!({"path": "d"})).1["exists"], false);
    done(&tools, "undo", json!({"what": "last", "count": 0}));
    assert_eq!(content(&tools, "a.txt"), "one\ntwo\n");
    assert_eq!(done(&tools, "undo", json!({"what": "redo"})).1["kind"], "redo");
    assert_eq!(content(&tools, "a.txt"), "one\n2\n");
    done(&tools, "undo", json!({"what": "redo"}));
    assert_eq!(content(&tools, "d/b.txt"), "b\n");
    let text = refused(&tools, "undo", json!({"what": "redo"}));
    assert!(text.starts_with("not_found: there is no undo left to redo"), "{text}");
    let all = done(&tools, "undo", json!({"count": 3})).0;
    assert!(!all.contains("left to undo"), "{all}");
    assert_eq!(done(&tools, "ls", json!({})).0, "[empty directory]");
    put(&tools, "again", "x");
    let one = done(&tools, "undo", json!({"count": 3})).0;
    assert!(one.ends_with("\nonly 1 change was left to undo, not 3"), "{one}");
}

#[test]
fn undo_takes_one_change_out_of_the_middle_or_says_what_is_in_the_way() {
    let tools = worked();
    done(&tools, "undo", json!({"id": 2}));
    assert_eq!(content(&tools, "a.txt"), "one\ntwo\n");
    assert_eq!(content(&tools, "d/b.txt"), "b\n");
    put(&tools, "a.txt", "new\n");
    let answer = call(&tools, "undo", json!({"what": "change", "id": "1", "count": 7}));
    assert_eq!(answer.error.unwrap().kind(), ErrorKind::Conflict);
    insta::assert_snapshot!("undo_clashes", answer.text);
    assert_eq!(content(&tools, "a.txt"), "new\n");
}

#[test]
fn undo_takes_back_a_session_or_a_tool_call() {
    let tools = historic();
    let (one, two) = (acting(&tools, "s1", "c1"), acting(&tools, "s2", "c2"));
    put(&one, "a", "1");
    put(&two, "b", "2");
    put(&acting(&tools, "s1", "c3"), "c", "3");
    done(&tools, "undo", json!({"what": "tool_call", "id": "c2"}));
    assert_eq!(
        done(&tools, "glob", json!({"pattern": "*"})).1["paths"],
        json!(["a", "c"])
    );
    done(&one, "undo", json!({"what": "session"}));
    assert_eq!(done(&tools, "glob", json!({"pattern": "*"})).1["paths"], json!([]));
    put(&acting(&tools, "s3", "2"), "d", "4");
    put(&acting(&tools, "s4", "2"), "e", "5");
    let text = refused(&tools, "undo", json!({"what": "tool_call", "id": "2"}));
    assert!(text.contains("`s3`, `s4`"), "{text}");
    done(&tools, "undo", json!({"id": "2", "session": "s3"}));
    assert_eq!(done(&tools, "glob", json!({"pattern": "*"})).1["paths"], json!(["e"]));
    done(&tools, "undo", json!({"session": "s4"}));
    assert_eq!(done(&tools, "glob", json!({"pattern": "*"})).1["paths"], json!([]));
    for what in ["change", "session", "tool_call"] {
        let text = refused(&tools, "undo", json!({"what": what, "id": ""}));
        assert!(text.contains("needs an `id`"), "{text}");
    }
}

#[test]
fn every_tool_that_reads_can_look_at_the_past() {
    let tools = worked();
    done(&tools, "snapshot", json!({"label": "before"}));
    done(&tools, "rm", json!({"path": "d", "recursive": true}));
    put(&tools, "a.txt", "needle\n");
    for at in [json!("before"), json!("3"), json!(3)] {
        let with = |mut arguments: Value| {
            arguments["at"] = at.clone();
            arguments
        };
        let read = done(&tools, "read_file", with(json!({"path": "a.txt"})));
        assert_eq!(read.1["content"], "one\n2\n");
        assert_eq!(done(&tools, "ls", with(json!({"path": "d"}))).0, "b.txt  2 B");
        let found = done(&tools, "glob", with(json!({"pattern": "**/*.txt"})));
        assert_eq!(found.1["paths"], json!(["a.txt", "d/b.txt"]));
        assert_eq!(
            done(&tools, "grep", with(json!({"pattern": "needle"}))).1["match_count"],
            0
        );
        assert_eq!(
            done(&tools, "grep", with(json!({"pattern": "one"}))).1["match_count"],
            1
        );
        assert_eq!(done(&tools, "stat", with(json!({"path": "d/b.txt"}))).1["size"], 2);
        assert_eq!(done(&tools, "exists", with(json!({"path": "d"}))).1["exists"], true);
    }
    for at in [json!(""), json!("now"), Value::Null] {
        let read = done(&tools, "read_file", json!({"path": "a.txt", "at": at}));
        assert_eq!(read.1["content"], "needle\n");
    }
    let text = refused(&tools, "ls", json!({"at": "nowhere"}));
    assert!(
        text.starts_with("not_found: there is no snapshot, change or time `nowhere`"),
        "{text}"
    );
    let text = refused(&toolbox(), "ls", json!({"at": "1"}));
    assert!(
        text.starts_with("unsupported: this workspace keeps no history"),
        "{text}"
    );
}
