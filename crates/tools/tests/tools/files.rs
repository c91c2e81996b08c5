//! Each tool through its toolbox: the data exactly, and the text that a model reads.

use crate::support::{bounded, call, done, put, refused, toolbox};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const TIME: &str = "2026-01-02T03:04:05.000000Z";

#[test]
fn write_file_creates_and_then_replaces() {
    let tools = toolbox();
    let (text, data) = done(&tools, "write_file", json!({"path": "/a.txt", "content": "hi"}));
    let version = data["version"].as_str().unwrap().to_owned();
    assert_eq!(
        data,
        json!({"path": "a.txt", "version": version, "size": 2, "created": true})
    );
    assert_eq!(text, format!("created `a.txt` (2 bytes; version {version})"));
    let (text, data) = done(
        &tools,
        "write_file",
        json!({"path": "a.txt", "content": "aGVsbG8", "encoding": "base64"}),
    );
    assert_eq!((&data["size"], &data["created"]), (&json!(5), &json!(false)));
    assert!(text.starts_with("replaced `a.txt` (5 bytes; version "), "{text}");
}

#[test]
fn write_file_refuses_a_version_that_is_gone() {
    let tools = toolbox();
    put(&tools, "a.txt", "one");
    let (_, data) = done(&tools, "stat", json!({"path": "a.txt"}));
    put(&tools, "a.txt", "two");
    let arguments = json!({"path": "a.txt", "content": "three", "if_version": data["version"]});
    let answer = call(&tools, "write_file", arguments);
    let error = answer.to_json()["error"].clone();
    assert_eq!(error["kind"], "conflict");
    let (_, now) = done(&tools, "stat", json!({"path": "a.txt"}));
    assert_eq!(error["current_version"], now["version"]);
    assert!(
        answer.text.starts_with("conflict: `a.txt` has another version"),
        "{}",
        answer.text
    );
    let text = refused(
        &tools,
        "write_file",
        json!({"path": "a.txt", "content": "", "if_version": "absent"}),
    );
    assert!(text.starts_with("conflict: `a.txt` exists already"), "{text}");
}

#[test]
fn write_file_sets_the_mode_that_stat_shows() {
    let tools = toolbox();
    done(
        &tools,
        "write_file",
        json!({"path": "run", "content": "#!", "mode": "755"}),
    );
    assert_eq!(done(&tools, "stat", json!({"path": "run"})).1["mode"], "0755");
    let text = refused(
        &tools,
        "write_file",
        json!({"path": "run", "content": "", "mode": "rwx"}),
    );
    assert_eq!(
        text,
        "invalid: `mode` must be permission bits in octal, not `rwx`. Hint: pass a string such as \"644\" or \"755\"."
    );
    let text = refused(
        &tools,
        "write_file",
        json!({"path": "su", "content": "x", "mode": "4755"}),
    );
    assert!(text.starts_with("invalid: ") && text.contains("777"), "{text}");
    assert_eq!(done(&tools, "exists", json!({"path": "su"})).1["exists"], false);
}

#[test]
fn append_file_adds_bytes_to_bytes() {
    let tools = toolbox();
    done(
        &tools,
        "write_file",
        json!({"path": "b", "content": "//4=", "encoding": "base64"}),
    );
    let (text, data) = done(&tools, "append_file", json!({"path": "b", "content": "text"}));
    let version = data["version"].as_str().unwrap();
    assert_eq!(
        data,
        json!({"path": "b", "version": version, "size": 6, "created": false})
    );
    assert_eq!(
        text,
        format!("appended to `b` (4 bytes added, 6 bytes in all; version {version})")
    );
    let (_, data) = done(&tools, "read_file", json!({"path": "b"}));
    assert_eq!(data["content"], STANDARD.encode(b"\xff\xfetext"));
    let text = refused(
        &tools,
        "append_file",
        json!({"path": "none", "content": "x", "create": false}),
    );
    assert!(text.starts_with("not_found: "), "{text}");
}

#[test]
fn read_file_gives_the_text_and_its_numbered_lines() {
    let tools = toolbox();
    put(&tools, "a.txt", "one\r\ntwo\n\nfour");
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt"}));
    let version = data["version"].clone();
    assert_eq!(
        data,
        json!({"path": "a.txt", "content": "one\r\ntwo\n\nfour", "encoding": "utf-8", "version": version, "size": 14, "eof": true})
    );
    assert_eq!(text, "     1\tone\n     2\ttwo\n     3\t\n     4\tfour");
}

#[test]
fn read_file_gives_a_window_of_lines() {
    let tools = toolbox();
    put(&tools, "a.txt", "one\ntwo\nthree\nfour\n");
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt", "offset": 1, "limit": 2}));
    assert_eq!(data["content"], "two\nthree\n");
    assert_eq!(data["range"], json!({"unit": "lines", "start": 1, "end": 3}));
    assert_eq!((&data["next_offset"], &data["eof"]), (&json!(3), &json!(false)));
    assert_eq!(
        text,
        "     2\ttwo\n     3\tthree\n[lines 2–3 of 19 bytes; more: offset=3]"
    );
    let (text, _) = done(&tools, "read_file", json!({"path": "a.txt", "offset": 3}));
    assert_eq!(text, "     4\tfour\n[line 4 of 19 bytes; end of file]");
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt", "offset": 9}));
    assert_eq!(text, "[nothing after line 9: the file is shorter (it has 19 bytes)]");
    assert_eq!(data["eof"], true);
}

#[test]
fn read_file_of_an_empty_file_says_so() {
    let tools = toolbox();
    put(&tools, "empty", "");
    let (text, data) = done(&tools, "read_file", json!({"path": "empty"}));
    assert_eq!(text, "[empty file]");
    assert_eq!(
        (&data["content"], &data["eof"], &data["encoding"]),
        (&json!(""), &json!(true), &json!("utf-8"))
    );
}

#[test]
fn read_file_cuts_long_lines_in_the_text_only() {
    let tools = toolbox();
    let long = "é".repeat(3_000);
    put(&tools, "a.txt", &format!("{long}\nshort\n"));
    let (text, data) = done(&tools, "read_file", json!({"path": "a.txt"}));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        format!("     1\t{}… [line cut: 2,000 of 3,000 characters]", "é".repeat(2_000))
    );
    assert_eq!(lines[1], "     2\tshort");
    assert_eq!(data["content"], format!("{long}\nshort\n"));
}

#[test]
fn read_file_says_when_a_line_is_longer_than_a_page() {
    let tools = bounded(100, 1);
    put(&tools, "a.js", &format!("{}\nend\n", "x".repeat(5_000)));
    let (text, data) = done(&tools, "read_file", json!({"path": "a.js"}));
    assert_eq!(data["line_cut"], true);
    assert_eq!(data["next_offset"], 1);
    let footer = text.lines().last().unwrap();
    assert_eq!(
        footer,
        "[line 1 of 5,005 bytes, longer than a page and cut; next line: offset=1, its bytes: encoding=\"base64\"]"
    );
}

#[test]
fn read_file_of_bytes_counts_bytes() {
    let tools = toolbox();
    let bytes = [0xff, b'\n', 0, b'\n', 1, 2, 3];
    done(
        &tools,
        "write_file",
        json!({"path": "b", "content": STANDARD.encode(bytes), "encoding": "base64"}),
    );
    let (text, data) = done(&tools, "read_file", json!({"path": "b"}));
    assert_eq!(
        text,
        "`b` is not text (7 bytes); `encoding: \"base64\"` shows its bytes"
    );
    assert_eq!(
        (&data["content"], &data["encoding"]),
        (&json!(STANDARD.encode(bytes)), &json!("base64"))
    );
    let (text, data) = done(
        &tools,
        "read_file",
        json!({"path": "b", "offset": 4, "limit": 2, "encoding": "base64"}),
    );
    assert_eq!(
        text,
        format!("{}\n[bytes 4–6 of 7 bytes; more: offset=6]", STANDARD.encode([1, 2]))
    );
    assert_eq!(data["range"], json!({"unit": "bytes", "start": 4, "end": 6}));
    let (_, auto) = done(&tools, "read_file", json!({"path": "b", "offset": 4, "limit": 2}));
    assert_eq!(
        auto, data,
        "the file decides what is counted, not whether the encoding was named"
    );
}

#[test]
fn read_file_shows_an_image() {
    let tools = toolbox();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.extend(std::iter::repeat_n(7, 200_000));
    done(
        &tools,
        "write_file",
        json!({"path": "shot.dat", "content": STANDARD.encode(&png), "encoding": "base64"}),
    );
    let arguments = json!({"path": "shot.dat", "encoding": "utf-8", "offset": 0, "limit": 2000});
    let answer = call(&tools, "read_file", arguments);
    assert_eq!(answer.text, "`shot.dat` is an image (image/png, 200,008 bytes)");
    assert_eq!(answer.images.len(), 1);
    assert_eq!(
        (answer.images[0].mime_type, answer.images[0].bytes.as_ref()),
        ("image/png", png.as_slice())
    );
    let data = answer.data.unwrap();
    assert_eq!(
        (&data["content"], &data["eof"]),
        (&json!(STANDARD.encode(&png)), &json!(true))
    );
}

#[test]
fn read_file_does_not_show_an_image_that_is_too_large() {
    let tools = toolbox();
    let mut gif = b"GIF89a\x01\0\x01\0".to_vec();
    gif.resize((5 << 20) + 1, 0xaa);
    done(
        &tools,
        "write_file",
        json!({"path": "big.gif", "content": STANDARD.encode(&gif), "encoding": "base64"}),
    );
    let answer = call(&tools, "read_file", json!({"path": "big.gif"}));
    assert!(answer.ok && answer.images.is_empty());
    assert!(
        answer
            .text
            .starts_with("`big.gif` is an image (image/gif, 5,242,881 bytes) too large to show"),
        "{}",
        answer.text
    );
    let data = answer.data.unwrap();
    assert!(data["content"].as_str().unwrap().len() <= 100 * 1024);
    assert_eq!(data["eof"], false);
}

#[test]
fn edit_file_replaces_and_shows_the_difference() {
    let tools = toolbox();
    put(&tools, "a.txt", "one\r\ntwo\r\n");
    let (text, data) = done(
        &tools,
        "edit_file",
        json!({"path": "a.txt", "old_text": "two", "new_text": "$&"}),
    );
    let version = data["version"].as_str().unwrap();
    let diff = data["diff"].as_str().unwrap();
    assert_eq!(
        data,
        json!({"path": "a.txt", "version": version, "size": 9, "replacements": 1, "diff": diff})
    );
    assert!(
        text.starts_with(&format!("edited `a.txt`: 1 replacement (9 bytes; version {version})\n")),
        "{text}"
    );
    assert!(text.contains("-two") && text.contains("+$&"), "{text}");
    assert_eq!(
        done(&tools, "read_file", json!({"path": "a.txt"})).1["content"],
        "one\r\n$&\r\n"
    );
}

#[test]
fn edit_file_tries_without_writing() {
    let tools = toolbox();
    put(&tools, "a.txt", "one one");
    let arguments = json!({"path": "a.txt", "old_text": "one", "new_text": "1", "replace_all": true, "dry_run": true});
    let (text, data) = done(&tools, "edit_file", arguments);
    assert!(
        text.starts_with("would edit `a.txt`: 2 replacements (3 bytes then); nothing is written"),
        "{text}"
    );
    assert_eq!((&data["dry_run"], &data["replacements"]), (&json!(true), &json!(2)));
    assert_eq!(
        done(&tools, "read_file", json!({"path": "a.txt"})).1["content"],
        "one one"
    );
}

#[test]
fn edit_file_takes_one_edit_several_or_both() {
    let cases = [
        (json!({"old_text": "a", "new_text": "1"}), "1 b c"),
        (
            json!({"edits": [{"old_text": "a", "new_text": "1"}, {"old_text": "1 b", "new_text": "2"}]}),
            "2 c",
        ),
        (
            json!({"old_text": "a", "new_text": "1", "edits": [{"old_text": "1 b", "new_text": "2"}]}),
            "2 c",
        ),
        (
            json!({"old_text": "a", "new_text": "1", "edits": [{"old_text": "a", "new_text": "1"}]}),
            "1 b c",
        ),
        (
            json!({"old_text": "", "new_text": "", "edits": [{"old_text": "c", "new_text": ""}]}),
            "a b ",
        ),
        (
            json!({"old_text": "a", "new_text": "1", "edits": [{"old_text": "", "new_text": ""}]}),
            "1 b c",
        ),
        (
            json!({"old_text": "a", "new_text": "1", "edits": null, "replace_all": null, "expected_replacements": 0}),
            "1 b c",
        ),
        (
            json!({"oldText": "b", "newText": "", "edits": [], "dryRun": false, "ifVersion": ""}),
            "a  c",
        ),
    ];
    for (mut arguments, expected) in cases {
        let tools = toolbox();
        put(&tools, "f", "a b c");
        arguments["path"] = json!("f");
        done(&tools, "edit_file", arguments.clone());
        let (_, data) = done(&tools, "read_file", json!({"path": "f"}));
        assert_eq!(data["content"], expected, "{arguments}");
    }
}

#[test]
fn edit_file_answers_a_failed_match_with_the_nearest_lines() {
    let tools = toolbox();
    put(&tools, "a.py", "def f():\n\treturn 1\n");
    let text = refused(
        &tools,
        "edit_file",
        json!({"path": "a.py", "old_text": "    return 1", "new_text": "    return 2"}),
    );
    insta::assert_snapshot!("a_failed_match", text);
}

#[test]
fn apply_patch_changes_files_together() {
    let tools = toolbox();
    put(&tools, "a.txt", "one\ntwo\n");
    put(&tools, "old.txt", "same\n");
    put(&tools, "gone.txt", "bye\n");
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
                diff --git a/old.txt b/new.txt\nsimilarity index 100%\nrename from old.txt\nrename to new.txt\n\
                diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n\
                diff --git a/made.txt b/made.txt\nnew file mode 100644\n--- /dev/null\n+++ b/made.txt\n@@ -0,0 +1 @@\n+hello\n";
    let (text, data) = done(&tools, "apply_patch", json!({"diff": diff}));
    insta::assert_snapshot!("a_patch", text);
    assert_eq!(
        data,
        json!({"paths": ["~ a.txt", "- old.txt", "+ new.txt", "- gone.txt", "+ made.txt"], "path_count": 5, "files": [
            {"path": "a.txt", "status": "modified", "insertions": 1, "deletions": 1},
            {"path": "new.txt", "status": "renamed", "old_path": "old.txt", "insertions": 0, "deletions": 0},
            {"path": "gone.txt", "status": "deleted", "insertions": 0, "deletions": 1},
            {"path": "made.txt", "status": "added", "insertions": 1, "deletions": 0},
        ]})
    );
    let (text, data) = done(
        &tools,
        "apply_patch",
        json!({"diff": "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-2\n+3\n", "dry_run": true}),
    );
    assert_eq!(
        text,
        "the patch applies to 1 file; nothing is written\nmodified a.txt (+1 -1)"
    );
    assert_eq!(data["dry_run"], true);
    assert_eq!(
        done(&tools, "read_file", json!({"path": "a.txt"})).1["content"],
        "one\n2\n"
    );
}

#[test]
fn ls_lists_a_directory() {
    let tools = toolbox();
    put(&tools, "b.txt", &"x".repeat(1_500));
    put(&tools, "a/c/d.txt", "x");
    put(&tools, ".hidden", "");
    put(&tools, "na\nme", "x");
    let (text, data) = done(&tools, "ls", json!({}));
    assert_eq!(text, ".hidden  0 B\na/\nb.txt  1.5 KiB\nna\\nme  1 B");
    assert_eq!(
        data["entries"][2],
        json!({"path": "b.txt", "type": "file", "size": 1500})
    );
    assert_eq!(data["entries"][1]["type"], "directory");
    assert!(data.get("next_cursor").is_none());
    assert_eq!(
        done(&tools, "ls", json!({"path": "a", "depth": null, "cursor": ""})).0,
        "c/"
    );
}

#[test]
fn ls_shows_a_tree() {
    let tools = toolbox();
    for path in ["src/a.rs", "src/deep/down/b.rs", "README.md", "z"] {
        put(&tools, path, "x");
    }
    let tree = "README.md  1 B\nsrc/\n  a.rs  1 B\n  deep/\n    down/\n      b.rs  1 B\nz  1 B";
    assert_eq!(done(&tools, "ls", json!({"recursive": true})).0, tree);
    let (text, _) = done(&tools, "ls", json!({"path": "src", "depth": 2}));
    assert_eq!(text, "a.rs  1 B\ndeep/\n  down/");
    let (text, data) = done(&tools, "ls", json!({"recursive": true, "limit": 3}));
    assert_eq!(
        text,
        "README.md  1 B\nsrc/\n  a.rs  1 B\n[3 entries; more: cursor=\"src/a.rs\"]"
    );
    let (text, _) = done(&tools, "ls", json!({"recursive": true, "cursor": data["next_cursor"]}));
    assert_eq!(text, "src/ (continued)\n  deep/\n    down/\n      b.rs  1 B\nz  1 B");
}

#[test]
fn ls_of_nothing_says_so() {
    let tools = toolbox();
    let (text, data) = done(&tools, "ls", json!(null));
    assert_eq!(text, "[empty directory]");
    assert_eq!(data, json!({"entries": []}));
}

#[test]
fn stat_describes_a_file_and_a_directory() {
    let tools = toolbox();
    put(&tools, "d/a.txt", "hello");
    let (text, data) = done(&tools, "stat", json!({"path": "d/a.txt"}));
    let version = data["version"].as_str().unwrap();
    assert_eq!(
        data,
        json!({"path": "d/a.txt", "type": "file", "size": 5, "mode": "0644", "created_at": TIME, "modified_at": TIME, "version": version})
    );
    assert_eq!(
        text,
        format!(
            "path: d/a.txt\ntype: file\nsize: 5 bytes\nmode: 0644\ncreated: {TIME}\nmodified: {TIME}\nversion: {version}"
        )
    );
    let (_, data) = done(&tools, "stat", json!({"path": "d"}));
    assert_eq!((&data["type"], &data["version"]), (&json!("directory"), &json!(null)));
}

#[test]
fn exists_answers_either_way() {
    let tools = toolbox();
    put(&tools, "d/a", "");
    let (text, data) = done(&tools, "exists", json!({"path": "d"}));
    assert_eq!(
        (text.as_str(), &data["exists"]),
        ("yes: `d` is a directory", &json!(true))
    );
    let (text, data) = done(&tools, "exists", json!({"path": "d/a/b"}));
    assert_eq!(
        (text.as_str(), data),
        ("no: `d/a/b` does not exist", json!({"exists": false}))
    );
}

#[test]
fn mkdir_makes_what_is_missing_above() {
    let tools = toolbox();
    let (text, data) = done(&tools, "mkdir", json!({"path": "a/b"}));
    assert_eq!(
        (text.as_str(), data),
        ("made the directory `a/b`", json!({"path": "a/b", "created": true}))
    );
    let (text, _) = done(&tools, "mkdir", json!({"path": "a/b", "recursive": true}));
    assert_eq!(text, "the directory `a/b` exists already");
    let text = refused(&tools, "mkdir", json!({"path": "x/y", "parents": false}));
    assert!(text.starts_with("not_found: "), "{text}");
}

#[test]
fn rm_removes_and_asks_before_it_removes_much() {
    let tools = toolbox();
    put(&tools, "d/a", "");
    let text = refused(&tools, "rm", json!({"path": "d"}));
    assert!(text.starts_with("not_empty: the directory `d` is not empty"), "{text}");
    let (text, data) = done(&tools, "rm", json!({"path": "d", "recursive": true}));
    assert_eq!((text.as_str(), data), ("removed `d`", json!({"path": "d"})));
    let text = refused(&tools, "rm", json!({"path": "/", "recursive": true}));
    assert!(
        text.starts_with("denied: the root of the workspace cannot be removed"),
        "{text}"
    );
}

#[test]
fn copy_and_move_take_files_and_directories() {
    let tools = toolbox();
    put(&tools, "d/a", "x");
    put(&tools, "d/b", "y");
    let (text, data) = done(&tools, "copy", json!({"src": "d", "dest": "e/f"}));
    assert_eq!(
        (text.as_str(), data),
        (
            "copied `d` to `e/f` (2 files)",
            json!({"src": "d", "dest": "e/f", "files": 2})
        )
    );
    let (text, data) = done(&tools, "move", json!({"src": "d/a", "dest": "z"}));
    let version = data["version"].as_str().expect("a file that was moved has a version");
    assert_eq!(text, format!("moved `d/a` to `z` (1 file; version {version})"));
    let text = refused(&tools, "copy", json!({"src": "d/b", "dest": "z"}));
    assert!(text.starts_with("already_exists: `z` exists already"), "{text}");
    done(&tools, "copy", json!({"src": "d/b", "dest": "z", "overwrite": true}));
    assert_eq!(done(&tools, "read_file", json!({"path": "z"})).1["content"], "y");
}

#[test]
fn at_most_so_many_occurrences_are_replaced() {
    let tools = toolbox();
    put(&tools, "a.txt", "a a a\n");
    let arguments = json!({"path": "a.txt", "old_text": "a", "new_text": "b", "max_replacements": 2});
    let (text, data) = done(&tools, "edit_file", arguments);
    assert!(
        text.starts_with("edited `a.txt`: 2 replacements, 1 occurrence left ("),
        "{text}"
    );
    assert_eq!(
        (&data["replacements"], &data["occurrences_left"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(
        done(&tools, "read_file", json!({"path": "a.txt"})).1["content"],
        "b b a\n"
    );
}
