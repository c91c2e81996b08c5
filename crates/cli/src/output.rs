//! What a command gives back, and the only place that prints it.
//!
//! A result goes to standard output, an error to standard error, or, with `--json`, both to standard output as one object. A reader
//! that goes away early (`garret ls | head -1`) is no error. Output that cannot be written for another reason, such as a full disk, is.
//!
//! What goes to a terminal is escaped here, whatever it came from; only colour is added before, by those who escape on their own.

use std::borrow::Cow;
use std::io::{ErrorKind as IoErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;

use garret::{Answer, Error, ErrorKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::home::HomeChoice;
use crate::terminal::{self, EscapedStream};
use crate::{progress, wording};

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
    body: Body,
    /// The text with colour, its content escaped; `None` where it has no colour.
    painted: Option<String>,
    /// Makes the object of it, and of the text for a person.
    object: Box<dyn FnOnce(String) -> Value>,
    note: String,
    error: Option<Error>,
    /// Why output that was printed before did not arrive.
    lost: Option<IoErrorKind>,
    code: u8,
}

/// What goes to standard output in text form.
enum Body {
    /// Text, with a newline at its end whether it has one or not; or nothing.
    Text(String),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

impl Report {
    /// Something was done: `text` for a person, `data` for a program.
    pub(crate) fn done(text: impl Into<String>, data: impl Serialize + 'static) -> Self {
        let object = move |text| json!({"ok": true, "text": text, "data": plain(&data), "error": null});
        Self::new(Body::Text(text.into()), object)
    }

    /// Bytes as they are, for standard output in text form alone.
    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self::new(Body::Raw(bytes), |_| Value::Null)
    }

    /// A document that is the same with and without `--json`.
    pub(crate) fn document(value: &Value) -> Self {
        let body = Body::Text(format!("{value:#}"));
        let value = value.clone();
        Self::new(body, move |_| value)
    }

    /// What a tool answered.
    pub(crate) fn answer(answer: Answer) -> Self {
        let body = if answer.ok { answer.text.clone() } else { String::new() };
        let body = Body::Text(body);
        let (error, code) = (answer.error.clone(), if answer.ok { 0 } else { FAILED });
        let object = move |_| answer.to_json();
        Self {
            error,
            code,
            ..Self::new(body, object)
        }
    }

    /// What a tool answered to a command that is not `call`: nobody who typed it knows of the tool.
    pub(crate) fn answer_for_a_person(answer: Answer) -> Self {
        match answer.error {
            Some(error) => Self::answer(Answer::of_error(wording::for_a_person(error))),
            None => Self::answer(answer),
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
        let reason = error.to_json();
        let object = move |text| json!({"ok": false, "text": text, "data": plain(&data), "error": reason});
        Self {
            error: Some(error),
            code: FAILED,
            ..Self::new(Body::Text(text.into()), object)
        }
    }

    /// Nothing is left to say; standard output was somebody else's.
    pub(crate) fn silent() -> Self {
        Self::new(Body::Raw(Vec::new()), |_| Value::Null)
    }

    /// Ends the program with another exit code than that of success.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Shows `painted` to a person instead of the text. Whatever it shows of files and names must be escaped.
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

    /// Adds to it what a person should know and is no failure.
    pub(crate) fn with_remark(self, remark: &Error) -> Self {
        let note = format!("{}note: {}; {}\n", self.note, remark.message(), remark.hint_text());
        Self { note, ..self }
    }

    /// Says that some of what was printed before did not arrive.
    pub(crate) fn with_lost(self, lost: Option<IoErrorKind>) -> Self {
        Self { lost, ..self }
    }

    fn into_object(self) -> Value {
        let text = match self.body {
            Body::Text(text) => text,
            Body::Raw(_) => String::new(),
        };
        (self.object)(text)
    }

    fn new(body: Body, object: impl FnOnce(String) -> Value + 'static) -> Self {
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

/// Bytes that go to standard output as they come, because all of them may be more than fits into memory.
#[derive(Debug)]
pub(crate) struct Pipe {
    lost: Option<IoErrorKind>,
    /// What goes to a terminal is escaped.
    escaped: Option<EscapedStream>,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            lost: None,
            escaped: std::io::stdout().is_terminal().then(EscapedStream::default),
        }
    }
}

impl Pipe {
    /// Prints a piece; says to break off where nobody reads any more, or it cannot be written.
    pub(crate) fn put(&mut self, piece: &[u8]) -> ControlFlow<()> {
        match &mut self.escaped {
            Some(escaped) => {
                let piece = escaped.push(piece);
                self.put_as_it_is(&piece)
            }
            None => self.put_as_it_is(piece),
        }
    }

    /// Prints a piece that is escaped already.
    pub(crate) fn put_as_it_is(&mut self, piece: &[u8]) -> ControlFlow<()> {
        progress::stop();
        match write_all(std::io::stdout().lock(), &[piece]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                self.lost = lost(reason);
                ControlFlow::Break(())
            }
        }
    }

    /// How it ended.
    pub(crate) fn done(mut self) -> Report {
        if let Some(escaped) = self.escaped.take() {
            let _ = self.put_as_it_is(&escaped.finish());
        }
        Report::silent().with_lost(self.lost)
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

    /// What the command line names as input is wrong, or a file of it cannot be read, which is no wrong usage.
    pub(crate) fn of_input(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::usage(error),
            _ => error.into(),
        }
    }

    /// Names the home where the error is about it. The directory is the user's own, so that a person may see it.
    pub(crate) fn name_home(self, home: &HomeChoice) -> Self {
        let is_failure = matches!(
            self.error.kind(),
            ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::NotADirectory
        );
        let hint = self.error.hint_text().to_owned();
        if !is_failure || !hint.contains("home") {
            return self;
        }
        let choose = match hint.contains("--home") {
            true => "",
            false => ", and --home DIR or GARRET_HOME chooses another",
        };
        let hint = format!("{hint}; the home is {}{choose}", garret::path::quote(&home.written));
        Self {
            error: self.error.hint(hint),
            ..self
        }
    }

    /// The machine did not give what was needed.
    pub(crate) fn unavailable(message: &str) -> Self {
        Error::new(ErrorKind::Unavailable, message).into()
    }
}

/// What a command does goes wrong in the words of the layers below, which are those of the tools.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error: wording::for_a_person(error),
            code: FAILED,
        }
    }
}

/// Prints the outcome; the exit code says how it ended.
pub(crate) fn print(outcome: Outcome, format: Format) -> ExitCode {
    let code = match (outcome, format) {
        (Ok(report), Format::Text) => {
            let code = put_report(&report);
            // The program ends: to take apart what a large search found would only keep its caller waiting.
            std::mem::forget(report);
            code
        }
        (Ok(report), Format::Json) => {
            let code = report.code;
            put_object(&report.into_object(), code)
        }
        (Err(failure), Format::Text) => put_note(&error_lines(&failure.error), failure.code),
        (Err(failure), Format::Json) => put_object(&failed(&failure.error), failure.code),
    };
    ExitCode::from(code)
}

fn put_report(report: &Report) -> u8 {
    let bytes = match (&report.painted, &report.body) {
        (Some(painted), _) => Cow::Borrowed(painted.as_bytes()),
        (None, Body::Raw(bytes)) if std::io::stdout().is_terminal() => Cow::Owned(terminal::escape_bytes(bytes)),
        (None, Body::Text(text)) if std::io::stdout().is_terminal() => Cow::Owned(terminal::escape(text).into_bytes()),
        (None, Body::Raw(bytes)) => Cow::Borrowed(bytes.as_slice()),
        (None, Body::Text(text)) => Cow::Borrowed(text.as_bytes()),
    };
    let is_text = matches!(report.body, Body::Text(_));
    let end = if is_text && !bytes.is_empty() && !bytes.ends_with(b"\n") {
        "\n"
    } else {
        ""
    };
    let code = put_out(&[&bytes, end.as_bytes()], report.lost, report.code);
    let error = report.error.as_ref().map_or_else(String::new, error_lines);
    put_note(&format!("{}{error}", report.note), code)
}

/// Says something on standard error while a command goes on.
pub(crate) fn print_note(text: &str) {
    put_note(&format!("note: {text}\n"), 0);
}

fn put_note(text: &str, code: u8) -> u8 {
    match write_all(std::io::stderr().lock(), &[terminal::escape(text).as_bytes()])
        .err()
        .and_then(lost)
    {
        Some(_) => code.max(FAILED),
        None => code,
    }
}

fn put_object(object: &Value, code: u8) -> u8 {
    match object {
        Value::Null => code,
        object if std::io::stdout().is_terminal() => put_out(
            &[terminal::escape_json(&object.to_string()).as_bytes(), b"\n"],
            None,
            code,
        ),
        object => put_out(&[format!("{object}\n").as_bytes()], None, code),
    }
}

/// Writes to standard output; the exit code is `code`, unless this or something before, for the reason `before`, did not arrive.
fn put_out(parts: &[&[u8]], before: Option<IoErrorKind>, code: u8) -> u8 {
    let written = write_all(std::io::stdout().lock(), parts);
    match before.or_else(|| written.err().and_then(lost)) {
        Some(reason) => put_note(&error_lines(&not_written(reason)), code.max(FAILED)),
        None => code,
    }
}

/// Prints wrong usage in the words of the parser, which quotes what was typed.
pub(crate) fn print_usage_error(text: &str, code: u8) -> ExitCode {
    ExitCode::from(put_note(text, code))
}

/// Says that standard output did not take what was printed.
pub(crate) fn print_lost(reason: IoErrorKind) -> ExitCode {
    ExitCode::from(put_out(&[], lost(reason), 0))
}

/// Writes everything to where it goes at last.
pub(crate) fn write_all(mut stream: impl Write, parts: &[&[u8]]) -> Result<(), IoErrorKind> {
    let mut parts = parts.iter();
    parts
        .try_for_each(|part| stream.write_all(part))
        .and_then(|()| stream.flush())
        .map_err(|error| error.kind())
}

/// Whether output is missed that did not arrive for `reason`: a reader who went away wants no more of it.
pub(crate) fn lost(reason: IoErrorKind) -> Option<IoErrorKind> {
    (reason != IoErrorKind::BrokenPipe).then_some(reason)
}

fn not_written(reason: IoErrorKind) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the output could not be written: {reason}"),
    )
    .hint("check that the destination can be written and has free space; changes to the workspace are kept")
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

fn plain(data: &impl Serialize) -> Value {
    serde_json::to_value(data).expect("results are plain data")
}
