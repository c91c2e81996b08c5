//! Wrong arguments are answered with what was wrong and what would be right; odd but harmless ones are taken.

use garret_core::{Capabilities, FsPolicy, ToolNaming, ToolsConfig};
use garret_tools::Toolbox;
use serde_json::{Value, json};

use crate::support::{call, done, historic, put, refused, toolbox, workspace};

#[test]
fn a_wrong_argument_is_answered_with_the_right_shape() {
    let tools = historic();
    put(&tools, "a.txt", "a");
    let cases = [
        ("read_file", json!({})),
        ("read_file", json!("a.txt")),
        ("read_file", json!({"path": 3})),
        ("read_file", json!({"path": "a.txt", "offset": -1})),
        ("read_file", json!({"path": "a.txt", "ofset": 1})),
        ("read_file", json!({"path": "a.txt", "encoding": "latin-1"})),
        ("read_file", json!({"path": "../a.txt"})),
        ("read_file", json!({"path": "b.txt"})),
        ("write_file", json!({"path": "a.txt", "content": {"a": 1}})),
        (
            "write_file",
            json!({"path": "a.txt", "content": "%%", "encoding": "base64"}),
        ),
        ("write_file", json!({"filepth": "a.txt", "content": ""})),
        ("edit_file", json!({"path": "a.txt"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "a"})),
        ("edit_file", json!({"path": "a.txt", "edits": [{"old_text": "a"}]})),
        (
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "a", "newText": "b", "replace_al": true}]}),
        ),
        ("apply_patch", json!({"pach": "--- a"})),
        ("apply_patch", json!({"diff": "no diff at all"})),
        ("ls", json!({"cursor": "%zz"})),
        ("ls", json!({"path": "a.txt"})),
        ("glob", json!({"pattern": "a[b"})),
        ("grep", json!({"pattern": "a", "output": "lines"})),
        ("grep", json!({"pattern": "a", "include": 3})),
        ("copy", json!({"src": "a.txt"})),
        ("move", json!({"sorce": "a.txt", "dest": "b"})),
        ("read_file", json!({"path": "a.txt", "at": ["before"]})),
        ("history", json!({"path": "a.txt", "version": true})),
        ("diff", json!({"from": {"change": 1}})),
        ("undo", json!({"what": "everything"})),
        ("undo", json!({"what": "change"})),
        ("restore_version", json!({"path": "a.txt"})),
        ("snapshot", json!({"tag": "before"})),
        ("restore", json!({"label": "before"})),
        ("branch", json!({"from": "before"})),
        ("merge", json!({"from": "try", "on_conflict": "mine"})),
        ("read", json!({"path": "a.txt"})),
        ("teleport", json!({})),
    ];
    let table =
        cases.map(|(tool, arguments)| format!("{tool} {arguments}\n  {}", refused(&tools, tool, arguments.clone())));
    insta::assert_snapshot!("wrong_arguments", table.join("\n"));
}

#[test]
fn both_spellings_of_an_argument_are_taken() {
    let tools = toolbox();
    done(
        &tools,
        "write_file",
        json!({"path": "a", "content": "x", "ifVersion": "absent"}),
    );
    let arguments = json!({"path": "a", "oldText": "x", "newText": "y", "replaceAll": true, "expectedReplacements": 1, "dryRun": false});
    done(&tools, "edit_file", arguments);
    assert_eq!(done(&tools, "read_file", json!({"path": "a"})).1["content"], "y");
}

/// Every optional argument filled with a value that says nothing.
fn filled_with(schema: &Value, filling: fn(&Value) -> Value) -> Value {
    let required: Vec<_> = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().unwrap();
    let optional = properties.iter().filter(|(name, _)| !required.contains(&json!(name)));
    Value::Object(
        optional
            .map(|(name, property)| (name.clone(), filling(property)))
            .collect(),
    )
}

fn nothing_of(property: &Value) -> Value {
    match property["type"].as_str() {
        Some("string") => json!(""),
        Some("integer") => json!(0),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        other => panic!("{other:?} in {property}"),
    }
}

#[test]
fn optional_arguments_that_say_nothing_change_nothing() {
    let required = [
        ("write_file", json!({"path": "a.txt", "content": "b\n"})),
        ("append_file", json!({"path": "a.txt", "content": "c\n"})),
        ("edit_file", json!({"path": "a.txt", "old_text": "b", "new_text": "x"})),
        ("read_file", json!({"path": "a.txt"})),
        ("ls", json!({})),
        ("glob", json!({"pattern": "*.txt"})),
        ("grep", json!({"pattern": "x"})),
        ("stat", json!({"path": "a.txt"})),
        ("exists", json!({"path": "a.txt"})),
        ("mkdir", json!({"path": "d"})),
        (
            "apply_patch",
            json!({"diff": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y\n"}),
        ),
        ("copy", json!({"src": "a.txt", "dest": "b.txt"})),
        ("move", json!({"src": "b.txt", "dest": "c.txt"})),
        ("rm", json!({"path": "c.txt"})),
        ("history", json!({})),
        ("diff", json!({})),
        ("undo", json!({})),
        ("undo", json!({"id": "5"})),
        ("snapshot", json!({"label": "before"})),
        ("list_snapshots", json!({})),
        ("branch", json!({"name": "try"})),
        ("merge", json!({"from": "try"})),
        ("restore", json!({"to": "1"})),
    ];
    let run = |fill: &dyn Fn(&Value) -> Value| {
        let tools = historic();
        put(&tools, "a.txt", "a\n");
        let schemas = tools.definitions();
        let mut answers = Vec::new();
        for (tool, given) in &required {
            let schema = &schemas
                .iter()
                .find(|definition| definition.canonical == *tool)
                .unwrap()
                .input_schema;
            let mut arguments = fill(schema);
            arguments
                .as_object_mut()
                .unwrap()
                .extend(given.as_object().unwrap().clone());
            answers.push((tool.to_string(), call(&tools, tool, arguments).to_json()));
        }
        answers
    };
    let plain = run(&|_| json!({}));
    assert!(plain.iter().all(|(_, answer)| answer["ok"] == true), "{plain:?}");
    assert_eq!(plain, run(&|schema| filled_with(schema, |_| Value::Null)));
    // False is a meaning for these two: their default is true.
    let empty = |schema: &Value| {
        let mut arguments = filled_with(schema, nothing_of);
        for name in ["create", "parents"] {
            arguments.as_object_mut().unwrap().shift_remove(name);
        }
        arguments
    };
    assert_eq!(plain, run(&empty));
}

#[test]
fn an_answer_has_exactly_four_keys() {
    let tools = toolbox();
    for arguments in [json!({"path": ""}), json!({"path": "none"})] {
        let json = call(&tools, "stat", arguments).to_json();
        assert_eq!(
            json.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["ok", "text", "data", "error"]
        );
    }
    let error = call(&tools, "stat", json!({"path": "none"})).to_json()["error"].clone();
    for key in ["kind", "message", "hint", "path"] {
        assert!(error[key].is_string(), "{key} in {error}");
    }
}

#[test]
fn a_tool_answers_to_the_name_it_is_offered_under() {
    let config = ToolsConfig {
        naming: ToolNaming::Short,
        ..ToolsConfig::default()
    };
    let tools = Toolbox::new(workspace(FsPolicy::default()), config);
    assert!(call(&tools, "write", json!({"path": "a", "content": ""})).ok);
    let text = refused(&tools, "write_file", json!({"path": "a", "content": ""}));
    assert!(
        text.starts_with("invalid: there is no tool `write_file`. Hint: did you mean `write`?"),
        "{text}"
    );
    let answer = futures::executor::block_on(tools.call_canonical("write_file", json!({"path": "a", "content": ""})));
    assert!(answer.ok, "{}", answer.text);
}

#[test]
fn a_capability_that_is_not_declared_has_no_tools() {
    let capabilities = Capabilities::from_names([]).unwrap();
    let tools = Toolbox::with_capabilities(workspace(FsPolicy::default()), ToolsConfig::default(), &capabilities);
    assert!(tools.definitions().is_empty());
    let answer = call(&tools, "read_file", json!({"path": "a"}));
    assert_eq!(answer.error.unwrap().kind(), garret_core::ErrorKind::Unsupported);
    let answer = futures::executor::block_on(tools.call_canonical("read_file", json!({"path": "a"})));
    assert!(!answer.ok);
}
