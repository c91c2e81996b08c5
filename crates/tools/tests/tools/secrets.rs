//! What the policy denies is in no answer.

use garret_core::{FsPolicy, ToolsConfig};
use garret_tools::Toolbox;
use serde_json::json;

use crate::support::{call, with_history};

const CANARY: &str = "CANARY-7f3a";

#[test]
fn no_answer_holds_denied_content() {
    let open = with_history(FsPolicy::default());
    let write = |path: &str, content: &str| {
        futures::executor::block_on(open.write(path, content.to_owned(), garret_workspace::WriteOptions::default()))
            .unwrap();
    };
    write("secrets/key.txt", &format!("{CANARY}\nline\n"));
    write("public.txt", "line\n");
    write("secrets/key.txt", &format!("{CANARY} again\nline\n"));
    let policy = FsPolicy {
        deny_read: vec!["secrets/**".into()],
        ..FsPolicy::default()
    };
    let options = garret_workspace::ScopeOptions {
        policy,
        ..Default::default()
    };
    let tools = Toolbox::new(open.scope("", options).unwrap(), ToolsConfig::default());
    let path = "secrets/key.txt";
    let calls = [
        ("read_file", json!({"path": path})),
        ("read_file", json!({"path": path, "encoding": "base64"})),
        ("edit_file", json!({"path": path, "old_text": "lin", "new_text": "x"})),
        (
            "edit_file",
            json!({"path": path, "old_text": "CANARY-7f3", "new_text": "x", "dry_run": true}),
        ),
        (
            "apply_patch",
            json!({"diff": format!("--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n wrong\n-line\n+x\n")}),
        ),
        (
            "apply_patch",
            json!({"diff": format!("diff --git a/{path} b/p\nrename from {path}\nrename to p\n")}),
        ),
        ("stat", json!({"path": path})),
        ("exists", json!({"path": path})),
        ("ls", json!({"recursive": true})),
        ("ls", json!({"path": "secrets"})),
        ("glob", json!({"pattern": "**", "include_ignored": true})),
        (
            "grep",
            json!({"pattern": "CANARY|line", "include_ignored": true, "context": 3}),
        ),
        ("grep", json!({"pattern": "CANARY", "path": path})),
        ("copy", json!({"src": path, "dest": "copy.txt"})),
        ("copy", json!({"src": "secrets", "dest": "copies"})),
        ("move", json!({"src": path, "dest": "moved.txt"})),
        ("rm", json!({"path": path})),
        ("read_file", json!({"path": path, "at": "1"})),
        ("stat", json!({"path": path, "at": "1"})),
        ("exists", json!({"path": path, "at": "1"})),
        ("ls", json!({"recursive": true, "at": "1"})),
        ("glob", json!({"pattern": "**", "include_ignored": true, "at": "1"})),
        (
            "grep",
            json!({"pattern": "CANARY|line", "include_ignored": true, "at": "1"}),
        ),
        ("history", json!({})),
        ("history", json!({"path": path, "versions": true})),
        ("history", json!({"path": path})),
        ("diff", json!({"from": "0"})),
        ("diff", json!({"to": "3"})),
        ("diff", json!({"from": "0", "path": path})),
        ("restore_version", json!({"path": path, "version": "id-2"})),
        ("restore_version", json!({"path": "copy.txt", "version": "id-2"})),
        ("undo", json!({"id": "1"})),
        ("undo", json!({"id": "3"})),
        ("restore", json!({"to": "1"})),
        ("restore", json!({"to": "1", "path": "secrets"})),
    ];
    for (tool, arguments) in calls {
        let answer = call(&tools, tool, arguments.clone());
        let json = answer.to_json().to_string();
        assert!(!json.contains(CANARY), "{tool} {arguments}: {json}");
        let names_it = arguments.to_string().contains("secrets/key");
        // A copy of the directory above it says which file stands in the way.
        assert!(
            names_it || tool == "copy" || !json.contains("key.txt"),
            "{tool} {arguments}: {json}"
        );
        assert!(
            !answer.ok || ["ls", "glob", "grep", "history", "diff"].contains(&tool),
            "{tool} {arguments}: {json}"
        );
        assert!(answer.images.is_empty());
    }
    let listing = call(&tools, "ls", json!({"recursive": true})).to_json().to_string();
    assert!(
        listing.contains("public.txt") && !listing.contains("key.txt"),
        "{listing}"
    );
    let kept = futures::executor::block_on(open.read_bytes(path)).unwrap();
    assert!(kept.bytes.starts_with(CANARY.as_bytes()), "nothing was changed either");
}
