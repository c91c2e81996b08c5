//! What stays inside: paths, scopes, messages and events.

use super::*;

#[tokio::test]
async fn promise_09_a_denied_path_stays_denied_under_every_name() {
    let room = Room::open("local", denying(&["secret", "app/.env"])).await;
    let host = room.host_path().unwrap();
    for directory in ["secret", "app"] {
        std::fs::create_dir(host.join(directory)).unwrap();
    }
    std::fs::write(host.join("secret/key"), "CANARY\n").unwrap();
    std::fs::write(host.join("app/.env"), "CANARY\n").unwrap();
    room.link("alias", "secret").await;
    room.link("link", "app/.env").await;
    for path in ["secret/key", "alias/key", "link", "app/.env"] {
        let answer = room.toolbox.call("read_file", json!({"path": path})).await;
        assert_eq!(answer.to_json()["error"]["kind"], "denied", "{path}");
        assert!(
            answer.text.contains("deny_read"),
            "the refusal names the rule: {}",
            answer.text
        );
    }
    std::fs::hard_link(host.join("secret/key"), host.join("second")).unwrap();
    for (tool, arguments) in [
        ("read_file", json!({"path": "second"})),
        ("stat", json!({"path": "second"})),
        ("copy", json!({"src": "second", "dest": "third"})),
        ("move", json!({"src": "second", "dest": "third"})),
        ("write_file", json!({"path": "second", "content": "x"})),
        ("grep", json!({"pattern": "CANARY", "path": "second"})),
    ] {
        let answer = room.toolbox.call(tool, arguments).await;
        assert_eq!(answer.to_json()["error"]["kind"], "denied", "{tool}");
        let shown = answer.to_json().to_string();
        assert!(
            !shown.contains("secret") && !shown.contains("key"),
            "the refusal does not tell the denied name: {shown}"
        );
    }
    for tool in ["copy", "move"] {
        let answer = room.toolbox.call(tool, json!({"src": "app", "dest": "other"})).await;
        assert_eq!(answer.to_json()["error"]["kind"], "denied", "{tool}");
        assert!(
            answer.text.contains("deny_read") && !answer.to_json().to_string().contains(".env"),
            "what lists do not show is not named: {}",
            answer.text
        );
        assert_eq!(
            room.refused(tool, json!({"src": "secret/key", "dest": "other"})).await,
            "denied",
            "{tool}"
        );
    }
    for (tool, arguments) in [
        ("grep", json!({"pattern": "CANARY", "include_ignored": true})),
        ("glob", json!({"pattern": "**"})),
        ("ls", json!({"recursive": true})),
    ] {
        let shown = room.toolbox.call(tool, arguments).await.to_json().to_string();
        let names = ["key", ".env", "CANARY\\n"];
        assert!(names.iter().all(|name| !shown.contains(name)), "{tool}: {shown}");
    }
}

#[tokio::test]
async fn promise_10_a_scope_is_never_wider() {
    for room in rooms(denying(&["**/.env"])).await {
        room.write("users/alice/a", "a").await;
        room.write("users/bob/b", "b").await;
        let alice = room
            .toolbox
            .workspace()
            .scope("users/alice", ScopeOptions::default())
            .unwrap();
        assert_eq!(
            alice
                .scope("../bob", ScopeOptions::default())
                .unwrap_err()
                .kind()
                .as_str(),
            "path_escape"
        );
        assert_eq!(
            alice.read_bytes("../bob/b").await.unwrap_err().kind().as_str(),
            "path_escape"
        );
        assert_eq!(
            alice.read_bytes(".env").await.unwrap_err().kind().as_str(),
            "denied",
            "the outer rule holds inside"
        );
        if room.kind == "local" {
            room.link("users/alice/peek", "../bob").await;
            assert_eq!(
                alice.read_bytes("peek/b").await.unwrap_err().kind().as_str(),
                "path_escape"
            );
            let users = room.host_path().unwrap().join("users");
            std::fs::hard_link(users.join("bob/b"), users.join("alice/b")).unwrap();
            assert_eq!(alice.read_bytes("b").await.unwrap_err().kind().as_str(), "denied");
        }
    }
}

#[tokio::test]
async fn promise_11_no_message_shows_a_path_of_the_host() {
    let room = Room::open("local", denying(&["denied"])).await;
    let host = room.host_path().unwrap();
    std::fs::create_dir(host.join("dir")).unwrap();
    room.link("out", "/etc").await;
    room.link("loop", "loop").await;
    let tools = [
        "read_file",
        "write_file",
        "append_file",
        "edit_file",
        "ls",
        "stat",
        "mkdir",
        "rm",
        "copy",
        "move",
        "grep",
        "glob",
    ];
    for tool in tools {
        for path in [
            "missing/x",
            "dir",
            "out/passwd",
            "loop/x",
            "denied/x",
            "../x",
            "a\0b",
            "dir/../../x",
        ] {
            let arguments = match tool {
                "write_file" | "append_file" => json!({"path": path, "content": "x"}),
                "edit_file" => json!({"path": path, "old_text": "a", "new_text": "b"}),
                "copy" | "move" => json!({"src": path, "dest": "dir"}),
                "grep" | "glob" => json!({"path": path, "pattern": "x"}),
                _ => json!({"path": path}),
            };
            let shown = room.toolbox.call(tool, arguments).await.to_json().to_string();
            assert!(!shown.contains(host.to_str().unwrap()), "{tool} {path}: {shown}");
        }
    }
}

#[tokio::test]
async fn promise_12_no_event_holds_content_or_secrets() {
    for room in open_rooms().await {
        room.write("f", "CANARY").await;
        room.call(
            "edit_file",
            json!({"path": "f", "old_text": "CANARY", "new_text": "CANARY2"}),
        )
        .await;
        room.refused(
            "edit_file",
            json!({"path": "f", "old_text": "CANARY9", "new_text": "x"}),
        )
        .await;
        room.call("grep", json!({"pattern": "CANARY"})).await;
        room.refused("apply_patch", json!({"diff": "CANARY"})).await;
        let log = serde_json::to_string(&room.events.events()).unwrap();
        assert_eq!(room.events.events().len(), 5);
        assert!(!log.contains("CANARY"), "{}: {log}", room.kind);
    }
}
