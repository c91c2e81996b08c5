//! Definitions in the formats that clients of models take.

use serde_json::{Map, Value, json};

use crate::Definition;

/// A format for definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// The `tools` of an MCP `tools/list` result.
    Mcp,
    /// The `tools` of an OpenAI request: functions.
    OpenAi,
    /// The `tools` of an Anthropic request.
    Anthropic,
    /// An object from each tool's name to the JSON schema of its arguments.
    JsonSchema,
}

/// Returns the definitions in `format`, in their order.
pub(crate) fn export_definitions(definitions: &[Definition], format: ExportFormat) -> Value {
    match format {
        ExportFormat::Mcp => definitions.iter().map(to_mcp).collect(),
        ExportFormat::OpenAi => definitions.iter().map(to_open_ai).collect(),
        ExportFormat::Anthropic => definitions.iter().map(to_anthropic).collect(),
        ExportFormat::JsonSchema => Value::Object(definitions.iter().map(to_json_schema).collect::<Map<_, _>>()),
    }
}

fn to_mcp(definition: &Definition) -> Value {
    json!({
        "name": definition.name,
        "title": definition.title,
        "description": definition.description,
        "inputSchema": definition.input_schema,
        "outputSchema": definition.output_schema,
        "annotations": {
            "readOnlyHint": definition.annotations.read_only,
            "destructiveHint": definition.annotations.destructive,
            "idempotentHint": definition.annotations.idempotent,
            "openWorldHint": false,
        },
    })
}

fn to_open_ai(definition: &Definition) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": definition.name,
            "description": definition.description,
            "parameters": definition.input_schema,
        },
    })
}

fn to_anthropic(definition: &Definition) -> Value {
    json!({
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.input_schema,
    })
}

fn to_json_schema(definition: &Definition) -> (String, Value) {
    let mut schema = definition.input_schema.clone();
    if let Value::Object(object) = &mut schema {
        // Each insertion goes before the ones already there, so the first key comes last.
        object.shift_insert(0, "description".into(), definition.description.clone().into());
        object.shift_insert(0, "title".into(), definition.name.clone().into());
        object.shift_insert(
            0,
            "$schema".into(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
    }
    (definition.name.clone(), schema)
}
