//! `glob` and `grep` as a model meets them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_tools::Toolbox;
use serde_json::json;

use crate::support::{done, put, refused, toolbox};

fn small_tree() -> Toolbox {
    let tools = toolbox();
    put(&tools, "src/main.rs", "use a;\n\nfn main() {\n    run();\n}\n");
    put(&tools, "src/deep/lib.rs", "fn run() {}\nfn other() {}\nfn last() {}\n");
    put(&tools, "notes.md", "run it\r\nRUN\r\n");
    put(&tools, ".gitignore", "target/\n");
    put(&tools, "target/out.rs", "fn run() {}\n");
    put(&tools, "na\nme.rs", "");
    let bytes = STANDARD.encode(b"run\0\xff");
    done(
        &tools,
        "write_file",
        json!({"path": "a.bin", "content": bytes, "encoding": "base64"}),
    );
    tools
}

#[test]
fn glob_names_a_path_on_each_line() {
    let tools = small_tree();
    let (text, data) = done(&tools, "glob", json!({"pattern": "**/*.rs"}));
    assert_eq!(text, "na\\nme.rs\nsrc/deep/lib.rs\nsrc/main.rs");
    assert_eq!(data, json!({"paths": ["na\nme.rs", "src/deep/lib.rs", "src/main.rs"]}));
    let (text, _) = done(
        &tools,
        "glob",
        json!({"pattern": "*.rs", "path": "src", "include_ignored": true}),
    );
    assert_eq!(text, "src/main.rs");
    let (text, data) = done(&tools, "glob", json!({"pattern": "**/*.rs", "limit": 1}));
    assert_eq!(text, "na\\nme.rs\n[1 path; more: cursor=\"na\\u000ame.rs\"]");
    assert_eq!(
        (&data["paths"], &data["next_cursor"]),
        (&json!(["na\nme.rs"]), &json!("na\nme.rs"))
    );
    let (text, data) = done(&tools, "glob", json!({"pattern": "*.py"}));
    assert_eq!(text, "[no path matches `*.py`]");
    assert_eq!(data, json!({"paths": []}));
}

#[test]
fn grep_answers_with_path_line_and_text() {
    let tools = small_tree();
    let (text, data) = done(&tools, "grep", json!({"pattern": "run"}));
    insta::assert_snapshot!("grep", text);
    assert_eq!(
        data["matches"][0],
        json!({"path": "notes.md", "line_number": 1, "line": "run it"}),
        "{data}"
    );
    assert_eq!((&data["match_count"], &data["truncated"]), (&json!(3), &json!(false)));
    assert_eq!(data["skipped"], json!([{"path": "a.bin", "reason": "binary"}]));
}

#[test]
fn grep_shows_each_line_of_context_once() {
    let tools = toolbox();
    let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    put(&tools, "a.txt", &lines);
    put(&tools, "b.txt", "line 6\n");
    let (text, data) = done(&tools, "grep", json!({"pattern": "line (6|8|9|20)$", "context": 2}));
    insta::assert_snapshot!("grep_with_context", text);
    assert_eq!(data["matches"][0]["before"], json!(["line 4", "line 5"]));
    assert_eq!(data["matches"][0]["after"], json!(["line 7", "line 8"]));
}

#[test]
fn grep_answers_with_files_or_counts() {
    let tools = small_tree();
    let (text, data) = done(&tools, "grep", json!({"pattern": "fn", "output": "files"}));
    assert_eq!(
        text,
        "src/deep/lib.rs\nsrc/main.rs\n[4 matches in 2 files; skipped 1: a.bin (binary)]"
    );
    assert_eq!(
        (&data["files"], &data["matches"]),
        (&json!(["src/deep/lib.rs", "src/main.rs"]), &json!([]))
    );
    let (text, data) = done(
        &tools,
        "grep",
        json!({"pattern": "FN", "ignoreCase": true, "output": "counts", "limit": 1}),
    );
    assert_eq!(
        text,
        "src/deep/lib.rs:3\n[results 1–1 of 4 matches in 2 files; more: offset=1; skipped 1: a.bin (binary)]"
    );
    assert_eq!(
        (&data["counts"], &data["truncated"]),
        (&json!([{"path": "src/deep/lib.rs", "count": 3}]), &json!(true))
    );
}

#[test]
fn grep_takes_what_models_write() {
    let tools = small_tree();
    let arguments = json!({"pattern": "run()", "literal": true, "include": "*.rs", "exclude": [""], "output": "", "before": 0, "after": 1});
    let (text, _) = done(&tools, "grep", arguments);
    assert_eq!(
        text,
        "src/deep/lib.rs:1:fn run() {}\nsrc/deep/lib.rs-2-fn other() {}\n--\nsrc/main.rs:4:    run();\nsrc/main.rs-5-}\n\
         [2 matches in 2 files]"
    );
    let (text, _) = done(
        &tools,
        "grep",
        json!({"pattern": "main\\(\\) \\{\\n.*run", "multiline": true}),
    );
    assert_eq!(
        text,
        "src/main.rs:3:fn main() {\nsrc/main.rs:4:    run();\n[1 match in 1 file; skipped 1: a.bin (binary)]"
    );
    let text = refused(&tools, "grep", json!({"pattern": "a(b"}));
    insta::assert_snapshot!("grep_with_a_wrong_pattern", text);
}

#[test]
fn grep_bounds_a_line_and_a_match() {
    let tools = toolbox();
    put(&tools, "a.js", &format!("needle{}\n", "x".repeat(50_000)));
    put(&tools, "b.txt", &"part\n".repeat(3_000));
    let (text, data) = done(&tools, "grep", json!({"pattern": "needle"}));
    assert!(
        text.len() < 2_200 && text.contains("… [line cut: 2,000 of 50,006 characters]"),
        "{} bytes",
        text.len()
    );
    assert!(data["matches"][0]["line"].as_str().unwrap().len() < 2_100);
    let (text, _) = done(&tools, "grep", json!({"pattern": "(?s)part.*part", "multiline": true}));
    assert_eq!(text.lines().count(), 101);
    assert!(text.contains("… [match cut: 100 of 3,000 lines]"), "{text}");
}

#[test]
fn search_sees_a_write_that_returned() {
    let tools = toolbox();
    for n in 0..50 {
        put(&tools, "a.txt", &format!("needle-{n}\n"));
        let (_, data) = done(&tools, "grep", json!({"pattern": format!("needle-{n}$")}));
        assert_eq!(data["match_count"], 1);
    }
}
