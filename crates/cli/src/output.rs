//! What a command gives back, and the only place that prints it.
//!
//! A result goes to standard output, an error to standard error, or, with `--json`, both to standard output as one object. A reader
//! that goes away early (`garret ls | head -1`) is no error.

use std::io::{ErrorKind as IoErrorKind, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use garret::{Answer, Error, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// One JSON object.
    Json,
}

/// How a command ends.
pub(crate) type Outcome = Result<Report, Failure>;

/// What a command found or did.
pub(crate) struct Report {
    body: Vec<u8>,
    object: Box<dyn FnOnce() -> Value>,
    note: String,
    error: Option<Error>,
    code: u8,
}

impl Report {
    /// Something was done: `text` for a person, `data` for a program.
    pub(crate) fn done(text: impl Into<String>, data: impl Serialize + 'static) -> Self {
        let text = text.into();
        let body = ended(&text).into_bytes();
        let object = move || json!({"ok": true, "text": text, "data": plain(&data), "error": null});
        Self::new(body, object)
    }

    /// Bytes as they are, for standard output in text form alone.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self::new(bytes, || Value::Null)
    }

    /// A document that is the same with and without `--json`.
    pub(crate) fn document(value: &Value) -> Self {
        let body = format!("{value:#}\n").into_bytes();
        let value = value.clone();
        Self::new(body, move || value)
    }

    /// What a tool answered.
    pub(crate) fn answer(answer: Answer) -> Self {
        let body = if answer.ok {
            ended(&answer.text).into_bytes()
        } else {
            Vec::new()
        };
        let (error, code) = (answer.error.clone(), if answer.ok { 0 } else { FAILED });
        let object = move || answer.to_json();
        Self {
            error,
            code,
            ..Self::new(body, object)
        }
    }

    /// Something was looked at and found wanting: printed as a result, with the exit code of a failure.
    pub(crate) fn wanting(text: impl Into<String>, data: impl Serialize + 'static) -> Self {
        Self {
            code: FAILED,
            ..Self::done(text, data)
        }
    }

    /// What was asked for was not done, and what stood in its way is worth looking at: printed as a result, beside the reason.
    pub(crate) fn refused(text: impl Into<String>, data: impl Serialize + 'static, error: Error) -> Self {
        let text = text.into();
        let body = ended(&text).into_bytes();
        let reason = error.to_json();
        let object = move || json!({"ok": false, "text": text, "data": plain(&data), "error": reason});
        Self {
            error: Some(error),
            code: FAILED,
            ..Self::new(body, object)
        }
    }

    /// Nothing is left to say; standard output was somebody else's.
    pub(crate) fn silent() -> Self {
        Self::new(Vec::new(), || Value::Null)
    }

    /// Ends the program with another exit code than that of success.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Adds a remark for a person, which goes to standard error.
    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }

    fn new(body: Vec<u8>, object: impl FnOnce() -> Value + 'static) -> Self {
        Self {
            body,
            object: Box::new(object),
            note: String::new(),
            error: None,
            code: 0,
        }
    }
}

/// Bytes that go to standard output as they come, because all of them may be more than fits into memory.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    code: u8,
}

impl Pipe {
    /// Prints a piece; says to break off where nobody reads any more.
    pub(crate) fn put(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(piece).and_then(|()| stdout.flush()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.code = if error.kind() == IoErrorKind::BrokenPipe {
                    0
                } else {
                    FAILED
                };
                ControlFlow::Break(())
            }
        }
    }

    /// How it ended.
    pub(crate) fn done(self) -> Report {
        Report {
            code: self.code,
            ..Report::silent()
        }
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Error,
    code: u8,
}

impl Failure {
    /// The command line, or what it names, is wrong.
    pub(crate) fn usage(error: Error) -> Self {
        Self {
            error,
            code: WRONG_USAGE,
        }
    }

    /// The machine did not give what was needed.
    pub(crate) fn unavailable(message: &str) -> Self {
        Error::new(ErrorKind::Unavailable, message).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, code: FAILED }
    }
}

/// Prints the outcome; the exit code says how it ended.
pub(crate) fn print(outcome: Outcome, format: Format) -> ExitCode {
    let code = match (outcome, format) {
        (Ok(report), Format::Text) => put_report(&report),
        (Ok(report), Format::Json) => put_object(&(report.object)(), report.code),
        (Err(failure), Format::Text) => put_note(&error_lines(&failure.error), failure.code),
        (Err(failure), Format::Json) => put_object(&failed(&failure.error), failure.code),
    };
    ExitCode::from(code)
}

fn put_report(report: &Report) -> u8 {
    let code = put(std::io::stdout().lock(), &report.body, report.code);
    let error = report.error.as_ref().map_or_else(String::new, error_lines);
    put_note(&format!("{}{error}", report.note), code)
}

fn put_note(text: &str, code: u8) -> u8 {
    put(std::io::stderr().lock(), text.as_bytes(), code)
}

fn put_object(object: &Value, code: u8) -> u8 {
    match object {
        Value::Null => code,
        object => put(std::io::stdout().lock(), format!("{object}\n").as_bytes(), code),
    }
}

/// Writes everything; the exit code is `code`, unless the writing itself failed.
fn put(mut stream: impl Write, bytes: &[u8], code: u8) -> u8 {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != IoErrorKind::BrokenPipe => FAILED,
        _ => code,
    }
}

fn failed(error: &Error) -> Value {
    json!({"ok": false, "text": error.to_string(), "data": null, "error": error.to_json()})
}

/// An error as a person reads it, without colour.
pub(crate) fn error_lines(error: &Error) -> String {
    format!(
        "error: {}: {}\n  hint: {}\n",
        error.kind(),
        error.named_message(),
        error.hint_text()
    )
}

/// `text` with one newline at its end, or nothing.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

fn plain(data: &impl Serialize) -> Value {
    serde_json::to_value(data).expect("results are plain data")
}
