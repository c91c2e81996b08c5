//! Names of arguments from other systems are taken, and mean what they mean there.

use serde_json::{Value, json};

use crate::support::{call, done, put, refused, toolbox};

#[test]
fn a_file_is_written_edited_and_read_by_the_names_of_other_systems() {
    let tools = toolbox();
    for (path, old, new) in [
        ("file_path", "old_string", "new_string"),
        ("filePath", "oldStr", "newStr"),
        ("file", "old_str", "new_str"),
        ("filename", "oldText", "newText"),
    ] {
        done(&tools, "write_file", json!({path: "a.txt", "file_text": "one two\n"}));
        done(&tools, "edit_file", json!({path: "a.txt", old: "one", new: "1"}));
        done(
            &tools,
            "edit_file",
            json!({path: "a.txt", "edits": [{old: "two", new: "2"}]}),
        );
        let (_, data) = done(&tools, "read_file", json!({path: "a.txt"}));
        assert_eq!(data["content"], "1 2\n", "{path}, {old}, {new}");
    }
    done(&tools, "move", json!({"source": "a.txt", "destination": "b.txt"}));
    done(&tools, "mkdir", json!({"path": "d/e", "recursive": true}));
    done(
        &tools,
        "apply_patch",
        json!({"patch": "--- b.txt\n+++ b.txt\n@@ -1 +1 @@\n-1 2\n+3\n"}),
    );
}

#[test]
fn a_search_takes_the_names_of_other_searches() {
    let tools = toolbox();
    put(&tools, "a.rs", "Needle\nneedle\n");
    put(&tools, "b.md", "needle\n");
    let count = |arguments: Value| done(&tools, "grep", arguments).1["match_count"].clone();
    assert_eq!(count(json!({"pattern": "needle"})), 2);
    for case in [
        json!({"pattern": "needle", "-i": true}),
        json!({"query": "needle", "case_insensitive": true}),
        json!({"pattern": "needle", "caseInsensitive": true, "-n": true}),
        json!({"pattern": "needle", "case_sensitive": false}),
        json!({"pattern": "needle", "-i": true, "case_sensitive": false, "ignore_case": true}),
    ] {
        assert_eq!(count(case.clone()), 3, "{case}");
    }
    assert_eq!(count(json!({"pattern": "needle", "case_sensitive": true})), 2);
    for name in ["glob", "include_glob", "includeGlob", "include_pattern"] {
        assert_eq!(count(json!({"pattern": "needle", name: "*.md"})), 1, "{name}");
    }
    let (_, data) = done(
        &tools,
        "grep",
        json!({"pattern": "needle", "output_mode": "files_with_matches"}),
    );
    assert_eq!(data["files"], json!(["a.rs", "b.md"]));
    let (_, data) = done(&tools, "grep", json!({"pattern": "needle", "max_results": 1, "-A": 1}));
    assert_eq!(data["matches"].as_array().unwrap().len(), 1);
    // In the search by names, a glob is the pattern itself.
    let (_, data) = done(&tools, "glob", json!({"glob": "*.md", "maxResults": 5}));
    assert_eq!(data["paths"], json!(["b.md"]));
}

#[test]
fn two_names_of_one_argument_must_agree() {
    let tools = toolbox();
    put(&tools, "a.txt", "a\n");
    done(&tools, "read_file", json!({"path": "a.txt", "file_path": "a.txt"}));
    let text = refused(&tools, "read_file", json!({"path": "a.txt", "file_path": "b.txt"}));
    assert!(
        text.starts_with(
            "invalid: `path` and `file_path` are two names of the same argument, and their values differ."
        ),
        "{text}"
    );
    let text = refused(
        &tools,
        "grep",
        json!({"pattern": "a", "-i": true, "case_sensitive": true}),
    );
    assert!(text.contains("`-i` and `case_sensitive`"), "{text}");
}

#[test]
fn an_unknown_argument_is_told_the_right_one() {
    let tools = toolbox();
    for (tool, name, right) in [
        ("read_file", "flie_path", "`path`"),
        ("edit_file", "old_strng", "`old_text`"),
        ("grep", "case_insensitve", "`ignore_case`"),
        ("grep", "max_result", "`limit`"),
    ] {
        let text = refused(&tools, tool, json!({name: "x"}));
        assert!(text.contains(&format!("did you mean {right}?")), "{text}");
    }
    let text = refused(&tools, "read_file", json!({"path": "a", "view_range": [1, 20]}));
    assert!(text.contains("`offset: 10, limit: 20`"), "{text}");
    let text = refused(&tools, "grep", json!({"pattern": "a", "type": "rust"}));
    assert!(text.contains("`include`"), "{text}");
}

#[test]
fn an_alias_of_one_tool_is_unknown_to_another() {
    let answer = call(&toolbox(), "stat", json!({"path": "a", "old_string": "x"}));
    assert_eq!(answer.error.unwrap().message(), "unknown key `old_string`");
}
