//! The contract of a tool: its names, its typed arguments and data, and its function.

use futures::FutureExt;
use futures::future::BoxFuture;
use garret_core::{Error, ErrorKind, Result, shape};
use garret_workspace::Workspace;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::aliases::ALIASES;
use crate::{Annotations, AnswerImage, AnswerLimits, Definition, ToolAnswer, schema};

/// One operation that a model may call. Each tool is a type; the registry holds them as [`AnyTool`].
pub(crate) trait Tool: 'static {
    /// The arguments; their schema is generated from this type, and no others are accepted.
    type Arguments: DeserializeOwned + JsonSchema + Send;
    /// The data of an answer without an error.
    type Data: Serialize + JsonSchema;

    /// The name in this project.
    const NAME: &'static str;
    /// The name under the `short` naming.
    const SHORT: &'static str;
    /// A few words for people.
    const TITLE: &'static str;
    /// A description for a model: the effect of the tool and when to use it.
    const DESCRIPTION: &'static str;
    /// The assumptions that a client may make.
    const ANNOTATIONS: Annotations;

    /// Runs the tool.
    fn run(
        workspace: &Workspace,
        arguments: Self::Arguments,
        limits: &AnswerLimits,
    ) -> impl Future<Output = ToolResult<Self>> + Send;
}

/// The output of a tool `T`, or the error for which it failed.
pub(crate) type ToolResult<T> = Result<ToolOutput<<T as Tool>::Data>>;

/// The result of a tool that succeeded.
#[derive(Debug)]
pub(crate) struct ToolOutput<D> {
    pub(crate) text: String,
    pub(crate) data: D,
    pub(crate) images: Vec<AnswerImage>,
}

impl<D> ToolOutput<D> {
    pub(crate) fn new(text: impl Into<String>, data: D) -> Self {
        Self {
            text: text.into(),
            data,
            images: Vec::new(),
        }
    }
}

/// A [`Tool`] without its types, so that tools of different types fit into one list.
pub(crate) struct AnyTool {
    pub(crate) name: &'static str,
    pub(crate) short_name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) annotations: Annotations,
    title: &'static str,
    arguments_schema: fn() -> Value,
    pub(crate) data_schema: fn() -> Value,
    pub(crate) call: for<'a> fn(&'a Workspace, Value, &'a AnswerLimits) -> BoxFuture<'a, Result<ToolAnswer>>,
}

impl AnyTool {
    pub(crate) const fn from_tool<T: Tool>() -> Self {
        Self {
            name: T::NAME,
            short_name: T::SHORT,
            description: T::DESCRIPTION,
            annotations: T::ANNOTATIONS,
            title: T::TITLE,
            arguments_schema: schema::arguments_schema::<T::Arguments>,
            data_schema: schema::data_schema::<T::Data>,
            call: |workspace, arguments, limits| call_tool::<T>(workspace, arguments, limits).boxed(),
        }
    }

    /// Describes the tool under the name by which it is offered, with the languages of the workspace.
    pub(crate) fn definition(&self, name: String, workspace: &Workspace) -> Definition {
        Definition {
            name,
            canonical: self.name,
            title: self.title,
            description: self.description.to_owned(),
            input_schema: self.input_schema(workspace),
            output_schema: (self.data_schema)(),
            annotations: self.annotations,
        }
    }

    pub(crate) fn input_schema(&self, workspace: &Workspace) -> Value {
        let mut schema = (self.arguments_schema)();
        if let (Some(language), Some(policy)) = (schema.pointer_mut("/properties/language"), workspace.code_policy()) {
            let names = policy.languages.iter().map(|language| Value::from(language.as_str()));
            language["enum"] = names.collect();
        }
        schema
    }
}

async fn call_tool<T: Tool>(workspace: &Workspace, arguments: Value, limits: &AnswerLimits) -> Result<ToolAnswer> {
    let arguments = read_arguments::<T::Arguments>(arguments)?;
    let output = T::run(workspace, arguments, limits).await?;
    let data = serde_json::to_value(output.data).map_err(|error| {
        Error::new(
            ErrorKind::Internal,
            format!("the result cannot be written as JSON: {error}"),
        )
    })?;
    Ok(ToolAnswer {
        ok: true,
        text: output.text,
        data: Some(data),
        error: None,
        images: output.images,
    })
}

/// Reads the arguments; no arguments at all count as an empty object. Every error tells the right shape.
fn read_arguments<A: DeserializeOwned + JsonSchema>(arguments: Value) -> Result<A> {
    let read = match arguments {
        // A client may leave out the arguments of a tool that needs none.
        Value::Null => shape::from_value(Value::Object(Map::new())),
        Value::Object(_) => shape::from_value_with(arguments, &ALIASES),
        other => Err(
            Error::invalid(format!("the arguments must be an object, not {}", json_kind(&other)))
                .hint(shape_hint(&schemars::schema_for!(A))),
        ),
    };
    read.map_err(|error| add_shape_hint(error, &schemars::schema_for!(A)))
}

fn add_shape_hint(error: Error, schema: &Schema) -> Error {
    let right = shape_hint(schema);
    if error.hint_text().contains(&right) {
        return error;
    }
    let hint = format!("{}; {right}", error.hint_text());
    error.hint(hint)
}

fn shape_hint(schema: &Schema) -> String {
    format!("expected: {}", shape::outline_schema(schema))
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
