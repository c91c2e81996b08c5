//! Operations and their answers: events, searches, pages, refusals.

use super::*;

#[tokio::test]
async fn promise_13_every_operation_leaves_one_event() {
    for room in rooms(denying(&["denied"])).await {
        room.write("f", "x").await;
        room.refused("read_file", json!({"path": "denied"})).await;
        room.refused("read_file", json!({"path": "missing"})).await;
        room.refused("read_file", json!({"pth": "f"})).await;
        let broken = json!({"path": "f", "content": "%", "encoding": "base64"});
        room.refused("write_file", broken).await;
        room.refused("teleport", json!({})).await;
        let names: Vec<_> = room.events.events().into_iter().map(|event| event.operation).collect();
        let expected = [
            "write_file",
            "read_file",
            "read_file",
            "read_file",
            "write_file",
            "unknown_tool",
        ];
        assert_eq!(names, expected, "{}", room.kind);
        let outcomes: Vec<_> = room.events.events().into_iter().map(|event| event.outcome).collect();
        assert!(
            matches!(
                &outcomes[..],
                [
                    EventOutcome::Done,
                    EventOutcome::Refused { rule: Some(_) },
                    EventOutcome::Failed { .. },
                    EventOutcome::Failed { .. },
                    EventOutcome::Failed { .. },
                    EventOutcome::Failed { .. }
                ]
            ),
            "{outcomes:?}"
        );
    }
}

/// Never answers, so that an operation can be given up while it runs.
#[derive(Debug)]
struct Silent;

#[garret::async_trait]
impl Approver for Silent {
    async fn ask(&self, _request: ApprovalRequest) -> Approval {
        std::future::pending().await
    }
}

#[tokio::test]
async fn promise_13_a_cancelled_operation_leaves_one_event_too() {
    let events = Arc::new(MemoryEvents::default());
    let mut config = WorkspaceConfig::with_storage(StorageConfig::Url("memory:".into()));
    config.capabilities.fs = DeclaredCapability::Options(FsPolicy {
        require_approval: vec!["read_file".into()],
        ..FsPolicy::default()
    });
    let garret = Garret::new().events(events.clone()).approver(Arc::new(Silent));
    let toolbox = garret.open_config("room", &config).await.unwrap();
    let call = toolbox.call("read_file", json!({"path": "f"}));
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    let outcomes: Vec<_> = events.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [EventOutcome::Cancelled]);
}

#[tokio::test]
async fn promise_14_a_search_is_complete_or_says_what_it_left_out() {
    for room in open_rooms().await {
        for path in [
            "a.txt",
            "b.txt",
            "src/x",
            "src/deep/x",
            "m.rs",
            "m.md",
            "src/m.rs",
            "t.ts",
            "t.js",
        ] {
            room.write(path, "needle\n").await;
        }
        room.write("bin", "needle\0").await;
        room.write(".hidden", "needle\n").await;
        room.write(".gitignore", "ignored\n").await;
        room.write("ignored", "needle\n").await;
        let found = room.call("grep", json!({"pattern": "needle"})).await;
        assert_eq!(
            (found["match_count"].as_u64(), found["truncated"].as_bool()),
            (Some(10), Some(false)),
            "{}: {found}",
            room.kind
        );
        assert_eq!(found["skipped"][0]["path"], "bin");
        let found = room.call("grep", json!({"pattern": "needle", "limit": 3})).await;
        assert_eq!(
            (found["matches"].as_array().unwrap().len(), found["truncated"].as_bool()),
            (3, Some(true))
        );
        for (pattern, paths) in [
            ("[!a].txt", json!(["b.txt"])),
            ("{*.ts,*.js}", json!(["t.js", "t.ts"])),
            ("**/x", json!(["src/deep/x", "src/x"])),
            ("*.{rs,md}", json!(["m.md", "m.rs"])),
            ("src/*.rs", json!(["src/m.rs"])),
        ] {
            assert_eq!(
                room.call("glob", json!({"pattern": pattern})).await["paths"],
                paths,
                "{} {pattern}",
                room.kind
            );
        }
    }
}

#[tokio::test]
async fn promise_15_pages_add_up() {
    for room in open_rooms().await {
        let names: Vec<_> = (0..230).map(|number| format!("d/{number:03}.txt")).collect();
        for name in &names {
            room.write(name, "x\n").await;
        }
        for (tool, key, mut arguments) in [
            ("ls", "entries", json!({"path": "d", "limit": 37})),
            ("glob", "paths", json!({"pattern": "d/*", "limit": 37})),
        ] {
            let mut seen = Vec::new();
            loop {
                let page = room.call(tool, arguments.clone()).await;
                let entries = page[key].as_array().unwrap().iter();
                seen.extend(entries.map(|entry| entry.get("path").unwrap_or(entry).as_str().unwrap().to_owned()));
                match page.get("next_cursor") {
                    Some(cursor) if cursor.is_string() => arguments["cursor"] = cursor.clone(),
                    _ => break,
                }
            }
            assert_eq!(seen, names, "{tool} on {}", room.kind);
        }
    }
}

#[tokio::test]
async fn promise_16_a_wrong_call_is_answered() {
    for room in open_rooms().await {
        room.write("f", "x").await;
        for (tool, arguments) in [
            ("read_file", json!({})),
            ("read_file", json!({"path": 3})),
            ("read_file", json!({"pth": "f"})),
            ("read_file", json!(["f"])),
            (
                "write_file",
                json!({"path": "f", "content": "%%%", "encoding": "base64"}),
            ),
            ("edit_file", json!({"path": "f", "old_text": "", "new_text": "y"})),
            ("apply_patch", json!({"diff": "not a diff"})),
            ("grep", json!({"pattern": "("})),
            ("glob", json!({"pattern": "[a"})),
            ("ls", json!({"cursor": "%zz"})),
            ("raed_file", json!({})),
        ] {
            let answer = room.toolbox.call(tool, arguments.clone()).await;
            let error = answer.to_json()["error"].clone();
            assert!(!answer.ok, "{tool} {arguments}");
            assert!(
                error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
                "{tool} {arguments}: {error}"
            );
        }
        assert_eq!(room.read("f").await, "x", "{}", room.kind);
    }
}

#[tokio::test]
async fn promise_17_nothing_is_ignored_silently() {
    for text in [
        r#"{"storage": "memory:", "capabilities": {"fs": {"readonly": true}}}"#,
        r#"{"storage": "memory:", "capabilities": {"git": true}}"#,
        r#"{"storage": "memory:", "naming": "bare"}"#,
    ] {
        assert_eq!(
            WorkspaceConfig::from_json(text).unwrap_err().kind().as_str(),
            "invalid",
            "{text}"
        );
    }
    for text in [
        r#"{"storage": {"kind": "memory", "durability": "full"}}"#,
        r#"{"storage": {"kind": "local", "dir": ".", "durabilty": "full"}}"#,
        r#"{"storage": {"kind": "s4"}}"#,
        r#"{"storage": "memory:", "capabilities": {"fs": {"require_approval": ["delete"]}}}"#,
    ] {
        let config = WorkspaceConfig::from_json(text).unwrap();
        assert!(Garret::new().open_config("x", &config).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn promise_18_the_same_calls_give_the_same_results() {
    let mut answers = Vec::new();
    for room in open_rooms().await {
        let mut transcript = Vec::new();
        for (tool, arguments) in [
            ("write_file", json!({"path": "a/b.txt", "content": "one\ntwo\n"})),
            ("append_file", json!({"path": "a/b.txt", "content": "three"})),
            (
                "edit_file",
                json!({"path": "a/b.txt", "old_text": "two", "new_text": "2"}),
            ),
            ("copy", json!({"src": "a", "dest": "c"})),
            ("move", json!({"src": "c/b.txt", "dest": "c/d.txt"})),
            ("move", json!({"src": "a", "dest": "a/in"})),
            ("move", json!({"src": "a/b.txt", "dest": "c/d.txt"})),
            ("rm", json!({"path": "c"})),
            ("rm", json!({"path": "", "recursive": true})),
            ("mkdir", json!({"path": "a/b.txt/x"})),
            ("ls", json!({"recursive": true})),
            ("read_file", json!({"path": "c/d.txt", "offset": 1, "limit": 1})),
            ("grep", json!({"pattern": "t[a-z]+"})),
            ("read_file", json!({"path": "a"})),
            ("read_file", json!({"path": "a/b.txt/x"})),
        ] {
            let mut answer = room.toolbox.call(tool, arguments).await.to_json();
            forget_what_differs(&mut answer);
            transcript.push(answer);
        }
        answers.push(transcript);
    }
    let local = answers.pop().unwrap();
    for (memory, local) in answers.pop().unwrap().into_iter().zip(local) {
        assert_eq!(memory, local);
    }
}

/// Takes out versions, ids of changes and times, which differ by their nature, and numbers of changes, which not every
/// storage knows at once.
fn forget_what_differs(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !["version", "modified_at", "text", "change", "number"].contains(&key.as_str()));
            object.values_mut().for_each(forget_what_differs);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_what_differs),
        _ => {}
    }
}
