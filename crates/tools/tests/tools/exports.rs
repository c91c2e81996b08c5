//! What models are told about the tools, in every form.

use futures::executor::block_on;
use garret_core::{ErrorKind, FsPolicy, ToolNaming, ToolsConfig};
use garret_tools::{ExportFormat, Toolbox};
use serde_json::{Value, json};

use crate::support::{historic, with_history};

#[test]
fn the_export_for_mcp() {
    insta::assert_json_snapshot!("mcp", historic().export(ExportFormat::Mcp));
}

#[test]
fn the_export_for_openai() {
    insta::assert_json_snapshot!("openai", historic().export(ExportFormat::OpenAi));
}

#[test]
fn the_export_for_anthropic() {
    insta::assert_json_snapshot!("anthropic", historic().export(ExportFormat::Anthropic));
}

#[test]
fn the_export_as_json_schema() {
    insta::assert_json_snapshot!("json_schema", historic().export(ExportFormat::JsonSchema));
}

#[test]
fn the_names_under_each_naming() {
    let names = |naming| {
        let config = ToolsConfig {
            naming,
            ..ToolsConfig::default()
        };
        let tools = Toolbox::new(with_history(FsPolicy::default()), config);
        let names: Vec<_> = tools
            .definitions()
            .into_iter()
            .map(|definition| definition.name)
            .collect();
        names.join(" ")
    };
    let all = [
        ToolNaming::Prefixed,
        ToolNaming::Flat,
        ToolNaming::Bare,
        ToolNaming::Short,
    ]
    .map(names);
    insta::assert_snapshot!("names", all.join("\n"));
}

/// The arguments whose names say everything: the list of tools is read by every model in every conversation, so it has no idle word.
const PLAIN_NAMES: &[&str] = &[
    "path",
    "content",
    "encoding",
    "dry_run",
    "src",
    "limit",
    "cursor",
    "ignore_case",
    "whole_word",
    "before",
    "after",
    "multiline",
    "include_git",
    "include_directories",
    "overwrite",
    "at",
];

/// Visits every schema within a schema.
fn visit(schema: &Value, look: &mut dyn FnMut(&Value)) {
    look(schema);
    for key in ["properties", "items", "anyOf", "oneOf"] {
        match &schema[key] {
            Value::Object(inner) if key == "properties" => inner.values().for_each(|schema| visit(schema, look)),
            Value::Array(inner) => inner.iter().for_each(|schema| visit(schema, look)),
            Value::Null => {}
            inner => visit(inner, look),
        }
    }
}

#[test]
fn an_input_schema_is_described_and_whole() {
    for definition in historic().definitions() {
        let schema = &definition.input_schema;
        let text = schema.to_string();
        assert!(
            !text.contains("$ref") && !text.contains("$defs") && !text.contains("$schema"),
            "{text}"
        );
        visit(schema, &mut |schema| {
            assert!(schema["type"].is_string(), "{} has {schema}", definition.canonical);
        });
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string() || PLAIN_NAMES.contains(&name.as_str()),
                "{} has {name} without a word",
                definition.canonical
            );
        }
    }
}

#[test]
fn an_output_schema_is_an_object_without_references() {
    for definition in historic().definitions() {
        assert_eq!(definition.output_schema["type"], "object", "{}", definition.canonical);
        assert!(
            !definition.output_schema.to_string().contains("$ref"),
            "{}",
            definition.canonical
        );
    }
}

#[test]
fn only_the_tools_that_are_named_are_offered_and_called() {
    let config = ToolsConfig {
        naming: ToolNaming::Short,
        ..ToolsConfig::default()
    };
    let all = Toolbox::new(with_history(FsPolicy::default()), config);
    let some = all.only(&["grep", "read_file", "write"]).unwrap();
    let names: Vec<_> = some.definitions().into_iter().map(|one| one.canonical).collect();
    assert_eq!(names, ["read_file", "write_file", "grep"], "in the order of the list");
    for answer in [
        block_on(some.call("rm", json!({"path": "a"}))),
        block_on(some.call_canonical("rm", json!({"path": "a"}))),
        block_on(some.on(some.workspace().clone()).call("rm", json!({"path": "a"}))),
    ] {
        assert_eq!(answer.error.unwrap().kind(), ErrorKind::Invalid, "{}", answer.text);
    }
    assert!(block_on(some.call("write", json!({"path": "a", "content": "x"}))).ok);
}

#[test]
fn a_tool_that_cannot_be_selected_is_refused() {
    let tools = historic();
    let wrong = tools.only(&["read_file", "grap"]).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    assert!(wrong.hint_text().contains("`grep`"), "{wrong}");
    let missing = tools.only(&["run"]).unwrap_err();
    assert!(
        missing.to_string().contains("does not offer the tool `run`"),
        "{missing}"
    );
    assert!(missing.hint_text().contains("declare `shell`"), "{missing}");
}
