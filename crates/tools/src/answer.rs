//! The answer to a call: text for a model, data for a program, and images if a file is one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::Error;
use serde_json::{Value, json};

/// The outcome of a call. A failure is an answer too: the model reads it and acts on it.
#[derive(Debug, Clone)]
pub struct ToolAnswer {
    /// Whether the tool succeeded.
    pub ok: bool,
    /// The outcome for a model: bounded, with one last line that says how to get the rest if there is more.
    pub text: String,
    /// The outcome for a program, in the shape of the tool's output schema.
    pub data: Option<Value>,
    /// The error of a call that failed.
    pub error: Option<Error>,
    /// Images to show beside the text.
    pub images: Vec<AnswerImage>,
}

/// An image that a tool read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerImage {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: &'static str,
    /// The whole file.
    pub bytes: Bytes,
}

impl AnswerImage {
    /// Returns the file as base64, the form in which the wires of models carry it.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

impl ToolAnswer {
    /// Returns the answer to a call that failed.
    pub fn from_error(error: Error) -> Self {
        Self {
            ok: false,
            text: error.to_string(),
            data: None,
            error: Some(error),
            images: Vec::new(),
        }
    }

    /// Returns the answer in the form that every front door shows: `ok`, `text`, `data`, `error`; absent fields are
    /// null.
    pub fn to_json(&self) -> Value {
        json!({
            "ok": self.ok,
            "text": self.text,
            "data": self.data,
            "error": self.error.as_ref().map(Error::to_json),
        })
    }
}
