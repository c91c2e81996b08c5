//! The one error of Garret.
//!
//! There are few kinds, chosen by the next step of the caller; each error names the operation, the workspace path and a
//! remedy. A host path, a secret or file content from a denied path never enters an error: constructors take workspace
//! paths only.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Version, WsPath};

/// The result of every fallible operation in Garret.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, as far as it changes the next step of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Nothing is at the path.
    NotFound,
    /// Something is at the path already.
    AlreadyExists,
    /// The path is a directory and the operation wants a file.
    IsADirectory,
    /// The path, or one above it, is not a directory.
    NotADirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The path leads outside the workspace.
    PathEscape,
    /// A policy, an approval or the system's permissions refuse it.
    Denied,
    /// The request itself is wrong.
    Invalid,
    /// The file or the result is over a limit.
    TooLarge,
    /// The workspace is full.
    QuotaExceeded,
    /// Another writer changed it; the error carries the current version.
    Conflict,
    /// It took too long.
    Timeout,
    /// It may work if tried again.
    Unavailable,
    /// This storage or build cannot do it.
    Unsupported,
    /// Stored content is damaged or lost.
    Corrupt,
    /// A defect in Garret.
    Internal,
}

impl ErrorKind {
    /// Returns the name of the kind on every wire: `not_found`, `path_escape`, …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::IsADirectory => "is_a_directory",
            Self::NotADirectory => "not_a_directory",
            Self::NotEmpty => "not_empty",
            Self::PathEscape => "path_escape",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Conflict => "conflict",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Corrupt => "corrupt",
            Self::Internal => "internal",
        }
    }

    fn default_hint(self) -> &'static str {
        match self {
            Self::NotFound => "list the directory to see its entries",
            Self::AlreadyExists => "choose another name, or allow overwriting",
            Self::IsADirectory => "name a file inside the directory",
            Self::NotADirectory => "a part of the path is a file; choose another path",
            Self::NotEmpty => "remove its entries first, or remove it recursively",
            Self::PathEscape => "use a path inside the workspace",
            Self::Denied => "choose a path or an operation that the policy allows",
            Self::Invalid => "correct the request and try again",
            Self::TooLarge => "work on a part: a range, a window or a smaller file",
            Self::QuotaExceeded => "remove files that are no longer needed",
            Self::Conflict => "read it again, then repeat the change on the current version",
            Self::Timeout => "try again with more time or less work",
            Self::Unavailable => "try again in a moment",
            Self::Unsupported => "use another storage or operation",
            Self::Corrupt => "restore the file from another copy",
            Self::Internal => "this is a defect in Garret; please report it",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// An error with its kind, its operation, its workspace path and a hint.
#[derive(Clone)]
pub struct Error(Box<ErrorParts>);

// Boxed, so that a `Result` with an error stays small.
#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    operation: Option<&'static str>,
    path: Option<String>,
    rule: Option<String>,
    current_version: Option<Version>,
}

impl Error {
    /// Makes an error of `kind`. `message` is a plain sentence without host paths, secrets or content.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorParts {
            kind,
            message: message.into(),
            hint: None,
            operation: None,
            path: None,
            rule: None,
            current_version: None,
        }))
    }

    /// Names the workspace path.
    #[must_use]
    pub fn at_path(self, path: &WsPath) -> Self {
        self.at_path_text(path.to_string())
    }

    /// Names the path as the caller wrote it, for a path that is not a valid [`WsPath`].
    #[must_use]
    pub fn at_path_text(mut self, path: impl Into<String>) -> Self {
        // The first path stays: the code nearest to the cause knows the path best.
        self.0.path.get_or_insert(path.into());
        self
    }

    /// Names a remedy, in place of the default hint of the kind.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Names the operation, unless one nearer to the cause is already named.
    #[must_use]
    pub fn during_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Names the policy rule that refused the operation.
    #[must_use]
    pub fn with_rule(mut self, rule: impl Into<String>) -> Self {
        self.0.rule = Some(rule.into());
        self
    }

    /// Replaces the path, for a caller who knows the file by another name (a scope).
    #[must_use]
    pub fn with_path_replaced(mut self, path: Option<String>) -> Self {
        self.0.path = path;
        self
    }

    /// Rewrites message, hint and path, for a caller who knows the files by other names (a scope).
    #[must_use]
    pub fn map_text(mut self, rewrite: impl Fn(&str) -> String) -> Self {
        self.0.message = rewrite(&self.0.message);
        self.0.hint = self.0.hint.as_deref().map(&rewrite);
        self.0.path = self.0.path.as_deref().map(&rewrite);
        self
    }

    /// Nothing is at `path`.
    pub fn not_found(path: &WsPath) -> Self {
        Self::new(
            ErrorKind::NotFound,
            format!("no such file or directory: {}", path.to_quoted()),
        )
        .at_path(path)
    }

    /// Something is at `path` already.
    pub fn already_exists(path: &WsPath) -> Self {
        Self::new(ErrorKind::AlreadyExists, format!("{} exists already", path.to_quoted())).at_path(path)
    }

    /// `path` is a directory and the operation wants a file.
    pub fn is_a_directory(path: &WsPath) -> Self {
        Self::new(ErrorKind::IsADirectory, format!("{} is a directory", path.to_quoted())).at_path(path)
    }

    /// `path`, or one above it, is not a directory.
    pub fn not_a_directory(path: &WsPath) -> Self {
        Self::new(
            ErrorKind::NotADirectory,
            format!(
                "{} is not a directory, or a directory above it is a file",
                path.to_quoted()
            ),
        )
        .at_path(path)
    }

    /// The directory at `path` has entries.
    pub fn not_empty(path: &WsPath) -> Self {
        Self::new(
            ErrorKind::NotEmpty,
            format!("the directory {} is not empty", path.to_quoted()),
        )
        .at_path(path)
    }

    /// `path` leads outside the workspace.
    pub fn path_escape(path: &WsPath) -> Self {
        Self::escape_text(path.as_str())
    }

    /// The path that the caller wrote leads outside the workspace.
    pub fn escape_text(path: &str) -> Self {
        let shown = crate::path::quote(path);
        Self::new(ErrorKind::PathEscape, format!("{shown} leads outside the workspace")).at_path_text(path)
    }

    /// The request is wrong: `message` says in which way.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// The root of a workspace cannot be `removed`, `moved` or `changed`.
    pub fn root_denied(what: &str) -> Self {
        Self::new(ErrorKind::Denied, format!("the root of the workspace cannot be {what}"))
            .at_path(&WsPath::root())
            .hint("name an entry inside the workspace")
    }

    /// The precondition on `path` does not hold; `current` is the version there now, `None` if nothing is there.
    pub fn conflict(path: &WsPath, current: Option<Version>) -> Self {
        // A version is shown, so that the caller can repeat the write on it without another look.
        let now = match &current {
            Some(version) => format!("has another version: it is now {version}"),
            None => "does not exist now".to_owned(),
        };
        let mut error = Self::new(ErrorKind::Conflict, format!("{} {now}", path.to_quoted())).at_path(path);
        error.0.current_version = current;
        error
    }

    /// Something of version `current` is at `path`, although the caller demanded that nothing be there. This is a
    /// conflict, too.
    pub fn not_absent(path: &WsPath, current: Option<Version>) -> Self {
        let mut error = Self::new(ErrorKind::Conflict, format!("{} exists already", path.to_quoted()))
            .at_path(path)
            .hint("read it and change it on its version, or choose another name");
        error.0.current_version = current;
        error
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the sentence that describes the failure.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the remedy to try; never empty.
    pub fn hint_text(&self) -> &str {
        self.0.hint.as_deref().unwrap_or(self.0.kind.default_hint())
    }

    /// Returns the workspace path, if the error concerns one.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// The operation that failed.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// Returns the policy rule that refused the operation, if a rule did.
    pub fn refused_by(&self) -> Option<&str> {
        self.0.rule.as_deref()
    }

    /// Returns the version at the path now, for an [`ErrorKind::Conflict`].
    pub fn current_version(&self) -> Option<&Version> {
        self.0.current_version.as_ref()
    }

    /// Returns the error in the form that every front door shows: `kind`, `message`, `hint`, `path`, and the fields
    /// that only some kinds have.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "kind": self.kind(),
            "message": self.message(),
            "hint": self.hint_text(),
            "path": self.path(),
        });
        let extra = object.as_object_mut().expect("json! made an object");
        if let Some(operation) = self.operation() {
            extra.insert("operation".into(), operation.into());
        }
        if let Some(rule) = self.refused_by() {
            extra.insert("rule".into(), rule.into());
        }
        if let Some(version) = self.current_version() {
            extra.insert("current_version".into(), version.as_str().into());
        }
        object
    }
}

impl Error {
    /// Returns the message; for damaged content, preceded by the path of the file.
    pub fn message_with_path(&self) -> Cow<'_, str> {
        // The code that finds damaged content knows only its address; a caller adds the path of the file later.
        let quoted = self.path().map(crate::path::quote);
        match quoted {
            // Compared with its quotes: without them, a short name would be found in any message.
            Some(path) if self.kind() == ErrorKind::Corrupt && !self.message().contains(&path) => {
                format!("{path}: {}", self.message()).into()
            }
            _ => self.message().into(),
        }
    }
}

/// The error in the form that a model reads.
impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, message) = (self.kind(), self.message_with_path());
        let message = message.trim_end();
        let hint = end_with_full_stop(self.hint_text());
        // The last line of such a message may be a line of a file, and the hint must not seem to be part of it.
        if message.contains('\n') {
            return write!(formatter, "{kind}: {message}\nHint: {hint}");
        }
        write!(formatter, "{kind}: {} Hint: {hint}", end_with_full_stop(message))
    }
}

/// Returns the text with one full stop; an example of several lines keeps its end.
fn end_with_full_stop(text: &str) -> String {
    if text.contains('\n') {
        return text.trim_end().to_owned();
    }
    format!("{}.", text.trim_end_matches('.'))
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Error({self}")?;
        if let Some(operation) = self.operation() {
            write!(formatter, " During: {operation}")?;
        }
        formatter.write_str(")")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_kind_message_and_hint() {
        let path = WsPath::parse("a.txt").unwrap();
        assert_eq!(
            Error::not_found(&path).during_operation("read_file").to_string(),
            "not_found: no such file or directory: `a.txt`. Hint: list the directory to see its entries."
        );
    }

    #[test]
    fn a_conflict_carries_the_current_version() {
        let path = WsPath::parse("a.txt").unwrap();
        let json = Error::conflict(&path, Some(Version::new("v2"))).to_json();
        assert_eq!(json["kind"], "conflict");
        assert_eq!(json["current_version"], "v2");
        assert_eq!(json["path"], "a.txt");
    }

    #[test]
    fn what_is_damaged_is_named_in_text_as_in_json() {
        let error = Error::new(ErrorKind::Corrupt, "stored content is damaged: it is lost").at_path_text("docs/a.txt");
        assert!(
            error.to_string().starts_with("corrupt: `docs/a.txt`: stored content"),
            "{error}"
        );
        assert_eq!(error.to_json()["path"], "docs/a.txt");
        let short = Error::new(ErrorKind::Corrupt, "stored content is damaged").at_path_text("s");
        assert_eq!(short.message_with_path(), "`s`: stored content is damaged");
        let named = Error::new(ErrorKind::Corrupt, "the file `s` is damaged").at_path_text("s");
        assert_eq!(named.message_with_path(), "the file `s` is damaged");
    }

    #[test]
    fn a_sentence_has_one_full_stop_and_a_hint_its_own_line_after_several() {
        let one = Error::invalid("it is wrong.").hint("do it right.");
        assert_eq!(one.to_string(), "invalid: it is wrong. Hint: do it right.");
        let several = Error::invalid("it is wrong:\n  here").hint("do it right");
        assert_eq!(several.to_string(), "invalid: it is wrong:\n  here\nHint: do it right.");
    }
}
