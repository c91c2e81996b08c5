//! Conversion of Garret's definitions and answers to MCP types.

use std::sync::Arc;

use garret::{Definition, Error, ToolAnswer};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject, Tool, ToolAnnotations};
use serde_json::Value;

use super::ServeOptions;

/// The key of the error in the metadata of a failed call: `kind`, `message`, `hint`, `path`.
const ERROR_KEY: &str = "garret/error";

/// Returns a definition as `tools/list` shows it: with an output schema if the answers carry data.
pub(super) fn convert_tool(definition: Definition, options: ServeOptions) -> Tool {
    let hints = definition.annotations;
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(false);
    let tool = Tool::new(
        definition.name,
        definition.description,
        schema_object(definition.input_schema),
    )
    .with_title(definition.title)
    .with_annotations(annotations);
    if options.structured {
        tool.with_raw_output_schema(schema_object(definition.output_schema))
    } else {
        tool
    }
}

fn schema_object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        other => unreachable!("the schema of a tool is an object, not {other}"),
    }
}

/// Returns an answer as `tools/call` returns it: the text, its images, and the data if the options ask for it.
pub(super) fn convert_answer(answer: ToolAnswer, options: ServeOptions) -> CallToolResult {
    let images = answer
        .images
        .iter()
        .map(|image| ContentBlock::image(image.to_base64(), image.mime_type));
    let content = std::iter::once(ContentBlock::text(answer.text)).chain(images).collect();
    match answer.error {
        None => {
            let mut result = CallToolResult::success(content);
            result.structured_content = answer.data.filter(|_| options.structured);
            result
        }
        Some(error) => {
            let mut result = CallToolResult::error(content);
            // Not in the structured content: clients check that against the output schema even for a failure, which has
            // no data. In the metadata a program finds the error, and no schema applies.
            result.meta = Some(error_meta(&error));
            result
        }
    }
}

fn error_meta(error: &Error) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert(ERROR_KEY.to_owned(), error.to_json());
    meta
}
