//! The result of a command, and the only code that prints it.
//!
//! A result goes to standard output and an error to standard error; with `--json`, both go to standard output as one
//! object. A reader that goes away early (`garret ls | head -1`) is no error. Output that cannot be written for another
//! reason, such as a full disk, is one.
//!
//! Text for a terminal is escaped here, whatever its source. Only coloured text arrives escaped: `render::painted`
//! escapes it before it adds the colour.

use std::borrow::Cow;
use std::io::{ErrorKind as IoErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use garret::{Error, ErrorKind, ToolAnswer};
use serde::Serialize;
use serde_json::{Value, json};

use crate::home::HomeChoice;
use crate::terminal::{self, EscapedStream};
use crate::{error_wording, progress};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

/// The form in which results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For a person.
    Text,
    /// One JSON object.
    Json,
}

/// The end of a command: a report, or the reason why the command failed.
pub(crate) type CliOutcome = Result<CliReport, CliFailure>;

/// The result of a command, for a person and for a program.
pub(crate) struct CliReport {
    body: ReportBody,
    /// The text with colour, already escaped; `None` if it has no colour.
    painted: Option<String>,
    /// Makes the JSON object of the report; its argument is the text for a person.
    object: Box<dyn FnOnce(String) -> Value>,
    note: String,
    error: Option<Error>,
    /// The reason why output that was printed earlier did not arrive.
    lost: Option<IoErrorKind>,
    code: u8,
}

/// The content for standard output in text form.
enum ReportBody {
    /// Text. A newline is added at its end if it has none, except to an empty text.
    Text(String),
    /// Bytes that are printed unchanged.
    Raw(Vec<u8>),
}

impl CliReport {
    /// Reports a success: `text` for a person, `data` for a program.
    pub(crate) fn success(text: impl Into<String>, data: impl Serialize + 'static) -> Self {
        let object = move |text| json!({"ok": true, "text": text, "data": to_plain_json(&data), "error": null});
        Self::new(ReportBody::Text(text.into()), object)
    }

    /// Reports bytes that are printed unchanged, in text form only.
    pub(crate) fn raw_bytes(bytes: Vec<u8>) -> Self {
        Self::new(ReportBody::Raw(bytes), |_| Value::Null)
    }

    /// Reports a document that is the whole output, with and without `--json`.
    pub(crate) fn document(value: &Value) -> Self {
        let body = ReportBody::Text(format!("{value:#}"));
        let value = value.clone();
        Self::new(body, move |_| value)
    }

    /// Reports the answer of a tool.
    pub(crate) fn tool_answer(answer: ToolAnswer) -> Self {
        let body = if answer.ok { answer.text.clone() } else { String::new() };
        let body = ReportBody::Text(body);
        let (error, code) = (answer.error.clone(), if answer.ok { 0 } else { FAILED });
        let object = move |_| answer.to_json();
        Self {
            error,
            code,
            ..Self::new(body, object)
        }
    }

    /// Reports the answer of a tool for a command that is not `call`. Its user does not know the tool, so an error is
    /// put into the words of the command line.
    pub(crate) fn translated_answer(answer: ToolAnswer) -> Self {
        match answer.error {
            Some(error) => Self::tool_answer(ToolAnswer::from_error(error_wording::translate_error(error))),
            None => Self::tool_answer(answer),
        }
    }

    /// Reports a check that found problems: it is printed as a result, with the exit code of a failure.
    pub(crate) fn with_problems(text: impl Into<String>, data: impl Serialize + 'static) -> Self {
        Self {
            code: FAILED,
            ..Self::success(text, data)
        }
    }

    /// Reports an operation that was not done, with details that are worth reading: `text` and `data` are printed as a
    /// result, beside the error.
    pub(crate) fn refusal(text: impl Into<String>, data: impl Serialize + 'static, error: Error) -> Self {
        let reason = error.to_json();
        let object = move |text| json!({"ok": false, "text": text, "data": to_plain_json(&data), "error": reason});
        Self {
            error: Some(error),
            code: FAILED,
            ..Self::new(ReportBody::Text(text.into()), object)
        }
    }

    /// Reports nothing, because other code has already written to standard output.
    pub(crate) fn silent() -> Self {
        Self::new(ReportBody::Raw(Vec::new()), |_| Value::Null)
    }

    /// Sets the exit code with which the program ends.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Prints `painted` to a person instead of the text. Names and file content in it must be escaped already.
    pub(crate) fn with_painted(self, painted: Option<String>) -> Self {
        Self { painted, ..self }
    }

    /// Adds a remark for a person, which goes to standard error.
    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }

    /// Adds a note for a person about a problem that is not a failure.
    pub(crate) fn with_remark(self, remark: &Error) -> Self {
        let note = format!("{}note: {}; {}\n", self.note, remark.message(), remark.hint_text());
        Self { note, ..self }
    }

    /// Records the reason why some earlier output did not arrive, if some did not.
    pub(crate) fn with_lost(self, lost: Option<IoErrorKind>) -> Self {
        Self { lost, ..self }
    }

    fn into_object(self) -> Value {
        let text = match self.body {
            ReportBody::Text(text) => text,
            ReportBody::Raw(_) => String::new(),
        };
        (self.object)(text)
    }

    fn new(body: ReportBody, object: impl FnOnce(String) -> Value + 'static) -> Self {
        Self {
            body,
            painted: None,
            object: Box::new(object),
            note: String::new(),
            error: None,
            lost: None,
            code: 0,
        }
    }
}

/// Prints bytes to standard output piece by piece, because all of them together may not fit into memory.
#[derive(Debug)]
pub(crate) struct StdoutPipe {
    lost: Option<IoErrorKind>,
    /// Escapes the pieces if standard output is a terminal.
    escaped: Option<EscapedStream>,
}

impl Default for StdoutPipe {
    fn default() -> Self {
        Self {
            lost: None,
            escaped: std::io::stdout().is_terminal().then(EscapedStream::default),
        }
    }
}

impl StdoutPipe {
    /// Prints a piece. Returns a break if nobody reads the output any more, or if it cannot be written.
    pub(crate) fn put_piece(&mut self, piece: &[u8]) -> ControlFlow<()> {
        match &mut self.escaped {
            Some(escaped) => {
                let piece = escaped.push(piece);
                self.put_escaped(&piece)
            }
            None => self.put_escaped(piece),
        }
    }

    /// Prints a piece that is escaped already.
    pub(crate) fn put_escaped(&mut self, piece: &[u8]) -> ControlFlow<()> {
        // Otherwise the progress line and the output would share a line of the screen.
        progress::stop_general_line();
        match write_all(std::io::stdout().lock(), &[piece]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                self.lost = lost_reason(reason);
                ControlFlow::Break(())
            }
        }
    }

    /// Prints the bytes that were held back, and reports how the printing ended.
    pub(crate) fn into_report(mut self) -> CliReport {
        if let Some(escaped) = self.escaped.take() {
            let _ = self.put_escaped(&escaped.finish());
        }
        CliReport::silent().with_lost(self.lost)
    }
}

/// The reason why a command failed, with the exit code for it.
#[derive(Debug)]
pub(crate) struct CliFailure {
    error: Error,
    code: u8,
}

impl CliFailure {
    /// Makes the failure for a wrong command line, or for a wrong file or workspace that it names.
    pub(crate) fn wrong_usage(error: Error) -> Self {
        Self {
            error,
            code: WRONG_USAGE,
        }
    }

    /// Makes the failure for wrong input. Invalid input is wrong usage; an input file that cannot be read is not.
    pub(crate) fn wrong_input(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::wrong_usage(error),
            _ => error.into(),
        }
    }

    /// Adds the directory of the home to an error about the home. The directory is the user's own, so it may be shown.
    pub(crate) fn name_home(self, home: &HomeChoice) -> Self {
        // Storages fail with the same kinds; only the hint tells that an error is about the home.
        let is_failure = matches!(
            self.error.kind(),
            ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::NotADirectory
        );
        let hint = self.error.hint_text().to_owned();
        if !is_failure || !hint.contains("home") {
            return self;
        }
        let choose = if hint.contains("--home") {
            ""
        } else {
            ", and --home DIR or GARRET_HOME chooses another"
        };
        let hint = format!("{hint}; the home is {}{choose}", garret::path::quote(&home.written));
        Self {
            error: self.error.hint(hint),
            ..self
        }
    }

    /// Makes the failure for a resource that the machine does not provide.
    pub(crate) fn unavailable(message: &str) -> Self {
        Error::new(ErrorKind::Unavailable, message).into()
    }
}

/// Translates an error of the layers below, which name the arguments of tools, into the words of the command line.
impl From<Error> for CliFailure {
    fn from(error: Error) -> Self {
        Self {
            error: error_wording::translate_error(error),
            code: FAILED,
        }
    }
}

/// Prints the outcome, and returns the exit code of the program.
pub(crate) fn print_outcome(outcome: CliOutcome, format: Format) -> ExitCode {
    let code = match (outcome, format) {
        (Ok(report), Format::Text) => {
            let code = put_report(&report);
            // The program ends now: to free the results of a large search would only keep its caller waiting.
            std::mem::forget(report);
            code
        }
        (Ok(report), Format::Json) => {
            let code = report.code;
            put_object(&report.into_object(), code)
        }
        (Err(failure), Format::Text) => put_note(&error_lines(&failure.error), failure.code),
        (Err(failure), Format::Json) => put_object(&error_object(&failure.error), failure.code),
    };
    ExitCode::from(code)
}

fn put_report(report: &CliReport) -> u8 {
    // A pipe or a file gets the bytes unchanged; only a terminal would obey control characters in them.
    let bytes = match (&report.painted, &report.body) {
        (Some(painted), _) => Cow::Borrowed(painted.as_bytes()),
        (None, ReportBody::Raw(bytes)) if std::io::stdout().is_terminal() => Cow::Owned(terminal::escape_bytes(bytes)),
        (None, ReportBody::Text(text)) if std::io::stdout().is_terminal() => {
            Cow::Owned(terminal::escape_text(text).into_bytes())
        }
        (None, ReportBody::Raw(bytes)) => Cow::Borrowed(bytes.as_slice()),
        (None, ReportBody::Text(text)) => Cow::Borrowed(text.as_bytes()),
    };
    let is_text = matches!(report.body, ReportBody::Text(_));
    let end = if is_text && !bytes.is_empty() && !bytes.ends_with(b"\n") {
        "\n"
    } else {
        ""
    };
    let code = put_output(&[&bytes, end.as_bytes()], report.lost, report.code);
    let error = report.error.as_ref().map_or_else(String::new, error_lines);
    put_note(&format!("{}{error}", report.note), code)
}

/// Prints a note on standard error while a command goes on.
pub(crate) fn print_note(text: &str) {
    put_note(&format!("note: {text}\n"), 0);
}

fn put_note(text: &str, code: u8) -> u8 {
    match write_all(std::io::stderr().lock(), &[terminal::escape_text(text).as_bytes()])
        .err()
        .and_then(lost_reason)
    {
        Some(_) => code.max(FAILED),
        None => code,
    }
}

fn put_object(object: &Value, code: u8) -> u8 {
    match object {
        // A raw or silent report has no object: its output was written already.
        Value::Null => code,
        // Escaped in the way of JSON, so that the output can still be parsed.
        object if std::io::stdout().is_terminal() => put_output(
            &[terminal::escape_json(&object.to_string()).as_bytes(), b"\n"],
            None,
            code,
        ),
        object => put_output(&[format!("{object}\n").as_bytes()], None, code),
    }
}

/// Writes to standard output. Returns `code`, or the code of a failure if this output was lost, or if earlier output
/// was lost for the reason `before`.
fn put_output(parts: &[&[u8]], before: Option<IoErrorKind>, code: u8) -> u8 {
    let written = write_all(std::io::stdout().lock(), parts);
    match before.or_else(|| written.err().and_then(lost_reason)) {
        Some(reason) => put_note(&error_lines(&unwritten_error(reason)), code.max(FAILED)),
        None => code,
    }
}

/// Prints the parser's error for a wrong command line. The error quotes the arguments, so it is escaped as every note
/// is.
pub(crate) fn print_usage_error(text: &str, code: u8) -> ExitCode {
    ExitCode::from(put_note(text, code))
}

/// Reports that text for standard output could not be written.
pub(crate) fn print_lost(reason: IoErrorKind) -> ExitCode {
    ExitCode::from(put_output(&[], lost_reason(reason), 0))
}

/// Writes all parts to the stream and flushes it.
pub(crate) fn write_all(mut stream: impl Write, parts: &[&[u8]]) -> Result<(), IoErrorKind> {
    let mut parts = parts.iter();
    // Flushed here, so that an error is reported and not lost at the end of the program.
    parts
        .try_for_each(|part| stream.write_all(part))
        .and_then(|()| stream.flush())
        .map_err(|error| error.kind())
}

/// Returns the reason why output was lost; `None` for a broken pipe, which is no loss.
pub(crate) fn lost_reason(reason: IoErrorKind) -> Option<IoErrorKind> {
    // A reader that went away, such as `head`, wants no more output.
    (reason != IoErrorKind::BrokenPipe).then_some(reason)
}

fn unwritten_error(reason: IoErrorKind) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the output could not be written: {reason}"),
    )
    .hint("check that the destination can be written and has free space; changes to the workspace are kept")
}

fn error_object(error: &Error) -> Value {
    json!({"ok": false, "text": error.to_string(), "data": null, "error": error.to_json()})
}

/// Formats an error for a person, without colour.
pub(crate) fn error_lines(error: &Error) -> String {
    format!(
        "error: {}: {}\n  hint: {}\n",
        error.kind(),
        error.message_with_path(),
        error.hint_text()
    )
}

fn to_plain_json(data: &impl Serialize) -> Value {
    serde_json::to_value(data).expect("results are plain data")
}
