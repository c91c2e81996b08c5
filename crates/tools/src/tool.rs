//! The contract of a tool: its names, its typed arguments and data, and its function.

use async_trait::async_trait;
use garret_core::{Error, Result, shape};
use garret_workspace::Workspace;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::aliases::ALIASES;
use crate::answer_limits::AnswerLimits;
use crate::{Annotations, AnswerImage, ToolAnswer, schema};

/// One operation that a model may call. Each tool is a type; the registry holds them as [`AnyTool`].
pub(crate) trait Tool: Send + Sync {
    /// The arguments; their schema is generated from this type.
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

    /// Narrows the schema of the arguments to the options that the workspace offers.
    fn narrow_schema(_schema: &mut Value, _workspace: &Workspace) {}

    /// Runs the tool.
    fn run(
        workspace: &Workspace,
        arguments: Self::Arguments,
        limits: &AnswerLimits,
    ) -> impl Future<Output = Result<ToolOutput<Self::Data>>> + Send;
}

/// The result of a tool that succeeded.
#[derive(Debug)]
pub(crate) struct ToolOutput<D> {
    pub(crate) text: String,
    pub(crate) data: D,
    pub(crate) images: Vec<AnswerImage>,
}

impl<D> ToolOutput<D> {
    /// Returns the text and images with the data converted.
    pub(crate) fn map_data<T>(self, change: impl FnOnce(D) -> T) -> ToolOutput<T> {
        ToolOutput {
            text: self.text,
            data: change(self.data),
            images: self.images,
        }
    }

    pub(crate) fn new(text: impl Into<String>, data: D) -> Self {
        Self {
            text: text.into(),
            data,
            images: Vec::new(),
        }
    }
}

/// A [`Tool`] without its types, so that tools of different types fit into one list.
#[async_trait]
pub(crate) trait AnyTool: Send + Sync {
    fn name(&self) -> &'static str;
    fn short_name(&self) -> &'static str;
    fn title(&self) -> &'static str;
    fn description(&self) -> &'static str;
    fn annotations(&self) -> Annotations;
    fn input_schema(&self, workspace: &Workspace) -> Value;
    fn output_schema(&self) -> Value;
    async fn call(&self, workspace: &Workspace, arguments: Value, limits: &AnswerLimits) -> Result<ToolAnswer>;
}

#[async_trait]
impl<T: Tool> AnyTool for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn short_name(&self) -> &'static str {
        T::SHORT
    }

    fn title(&self) -> &'static str {
        T::TITLE
    }

    fn description(&self) -> &'static str {
        T::DESCRIPTION
    }

    fn annotations(&self) -> Annotations {
        T::ANNOTATIONS
    }

    fn input_schema(&self, workspace: &Workspace) -> Value {
        let mut schema = schema::arguments_schema::<T::Arguments>();
        T::narrow_schema(&mut schema, workspace);
        schema
    }

    fn output_schema(&self) -> Value {
        schema::data_schema::<T::Data>()
    }

    async fn call(&self, workspace: &Workspace, arguments: Value, limits: &AnswerLimits) -> Result<ToolAnswer> {
        let arguments = read_arguments::<T::Arguments>(arguments)?;
        let output = T::run(workspace, arguments, limits).await?;
        let data = serde_json::to_value(output.data).map_err(|error| {
            Error::new(
                garret_core::ErrorKind::Internal,
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
}

/// Reads the arguments; no arguments at all count as an empty object. Every error tells the right shape.
fn read_arguments<A: DeserializeOwned + JsonSchema>(arguments: Value) -> Result<A> {
    let read = match arguments {
        // A client may leave out the arguments of a tool that needs none.
        Value::Null => shape::from_value(Value::Object(Map::new())),
        Value::Object(_) => shape::from_value_with(arguments, ALIASES),
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
