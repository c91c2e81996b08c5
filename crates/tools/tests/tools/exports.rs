//! What models are told about the tools, in every form.

use garret_core::{FsPolicy, Naming, ToolsConfig};
use garret_tools::{ExportFormat, Toolbox};
use serde_json::Value;

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
    let all = [Naming::Prefixed, Naming::Flat, Naming::Bare, Naming::Short].map(names);
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
