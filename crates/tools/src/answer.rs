//! What a call gives back: text for a model, data for a program, and images where a file is one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::Error;
use serde_json::{Value, json};

/// The outcome of a call. A failure is an answer too: the model reads it and acts on it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Whether the tool did what was asked.
    pub ok: bool,
    /// The outcome for a model: bounded, with one last line that says how to get more where there is more.
    pub text: String,
    /// The outcome for a program, in the shape of the tool's output schema.
    pub data: Option<Value>,
    /// What went wrong.
    pub error: Option<Error>,
    /// Images to show beside the text.
    pub images: Vec<Image>,
}

/// An image that a tool read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: &'static str,
    /// The whole file.
    pub bytes: Bytes,
}

impl Image {
    /// The file as base64, as the wires of models carry it.
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.bytes)
    }
}

impl Answer {
    /// The answer of a call that failed.
    pub fn of_error(error: Error) -> Self {
        Self {
            ok: false,
            text: error_text(&error),
            data: None,
            error: Some(error),
            images: Vec::new(),
        }
    }

    /// The answer as every front door shows it: `ok`, `text`, `data`, `error`; what is absent is null.
    pub fn to_json(&self) -> Value {
        json!({
            "ok": self.ok,
            "text": self.text,
            "data": self.data,
            "error": self.error.as_ref().map(Error::to_json),
        })
    }
}

/// The error as a model reads it. A message of several lines may end with a line of a file, which the hint must not seem to be part of.
fn error_text(error: &Error) -> String {
    let (kind, message) = (error.kind(), error.message().trim_end());
    let hint = sentence(error.hint_text());
    if message.contains('\n') {
        return format!("{kind}: {message}\nHint: {hint}");
    }
    format!("{kind}: {} Hint: {hint}", sentence(message))
}

/// The text with one full stop; an example of several lines ends as it is.
fn sentence(text: &str) -> String {
    if text.contains('\n') {
        return text.trim_end().to_owned();
    }
    format!("{}.", text.trim_end_matches('.'))
}
