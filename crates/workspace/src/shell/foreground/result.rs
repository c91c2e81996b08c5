//! The result of a command.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::{CapturedStream, Error, Guard, GuardStatus, ResourceLimit, ResourceUsage, Secrets};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::fs::Encoding;
use crate::shell::foreground::command_turn::TurnWaited;

/// The result of a command, however it ended. A command that ran is a success, whatever its exit code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunResult {
    /// The exit code as a shell gives it: 128 and the number of the signal where one ended it.
    pub exit_code: i32,
    /// The number of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Standard output and standard error as text, in the order in which they came; where the middle was left out, a
    /// line says so. Serialized in `details` only.
    #[serde(skip)]
    pub output: String,
    /// Standard output, byte for byte; where the middle was left out, a line says so.
    #[serde(flatten, serialize_with = "serialize_stdout")]
    #[schemars(with = "SerializedStdout<'static>")]
    pub stdout: StreamShown,
    /// Standard error, in the same way.
    #[serde(flatten, serialize_with = "serialize_stderr")]
    #[schemars(with = "SerializedStderr<'static>")]
    pub stderr: StreamShown,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// The limit that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ResourceLimit>,
    /// The time limit that held, in milliseconds, where a longer one was asked for than the policy allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lowered_timeout_ms: Option<u64>,
    /// The wait for its turn, where it lasted a second or more. It counts for no time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<TurnWaited>,
    /// Whether output was left out.
    pub truncated: bool,
    /// How many bytes of output were left out.
    pub left_out_bytes: u64,
    /// What it used.
    pub usage: ResourceUsage,
    /// Whether it was isolated: it could reach no other files and processes of the machine.
    pub isolated: bool,
    /// The guards that the sandbox did not enforce.
    pub not_enforced: Vec<Guard>,
    /// All guards of the sandbox: whether each was enforced, and by what means. Serialized in `details` only.
    #[serde(skip)]
    pub guards: Vec<GuardStatus>,
    /// What it did to the files.
    pub changed: CommandChanges,
    /// Ids of leftovers: effects of earlier commands that are in no change. `garret leftovers` shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// Files that the command did not see, because their stored content is damaged. They are in the workspace as before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrupt: Vec<String>,
    /// Output in the order in which it came and the full table of guards, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<RunDetails>,
}

impl RunResult {
    /// Adds the details to the serialized form.
    #[must_use]
    pub fn with_details(mut self) -> Self {
        self.details = Some(RunDetails {
            output: self.output.clone(),
            guards: self.guards.clone(),
        });
        self
    }
}

/// The stored bytes of one stream; if the middle was left out, a line stands in its place. Serialized as text if they
/// are UTF-8, otherwise in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamShown(pub Bytes, CapturedStream);

impl StreamShown {
    /// Returns the head and the tail by themselves, for a caller who shows less of them.
    pub fn captured(&self) -> &CapturedStream {
        &self.1
    }
}

impl From<CapturedStream> for StreamShown {
    fn from(captured: CapturedStream) -> Self {
        Self(captured.to_bytes().into_owned().into(), captured)
    }
}

/// Standard output in a serialized result.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SerializedStdout<'a> {
    /// Standard output; where the middle was left out, a line says so.
    stdout: Cow<'a, str>,
    /// `base64` if the bytes of `stdout` are not UTF-8; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_encoding: Option<Encoding>,
}

/// Standard error in a serialized result.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SerializedStderr<'a> {
    /// Standard error; where the middle was left out, a line says so.
    stderr: Cow<'a, str>,
    /// `base64` if the bytes of `stderr` are not UTF-8; else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_encoding: Option<Encoding>,
}

impl StreamShown {
    /// Returns the bytes as text, or in base64 if they are not UTF-8.
    fn to_encoded(&self) -> (Cow<'_, str>, Option<Encoding>) {
        match std::str::from_utf8(&self.0) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(_) => (Cow::Owned(STANDARD.encode(&self.0)), Some(Encoding::Base64)),
        }
    }
}

/// Serializes standard output as the fields `stdout` and `stdout_encoding` of a result.
pub(crate) fn serialize_stdout<S: Serializer>(stream: &StreamShown, serializer: S) -> Result<S::Ok, S::Error> {
    let (stdout, stdout_encoding) = stream.to_encoded();
    let serialized = SerializedStdout {
        stdout,
        stdout_encoding,
    };
    serialized.serialize(serializer)
}

/// Serializes standard error as the fields `stderr` and `stderr_encoding` of a result.
pub(crate) fn serialize_stderr<S: Serializer>(stream: &StreamShown, serializer: S) -> Result<S::Ok, S::Error> {
    let (stderr, stderr_encoding) = stream.to_encoded();
    let serialized = SerializedStderr {
        stderr,
        stderr_encoding,
    };
    serialized.serialize(serializer)
}

/// The parts of a result that are serialized on request only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunDetails {
    /// Standard output and standard error as text, in the order in which they came; where the middle was left out, a line says so.
    pub output: String,
    /// All guards of the sandbox: whether each was enforced, and by what means.
    pub guards: Vec<GuardStatus>,
}

/// Returns the guards that were not enforced.
pub(crate) fn unenforced_guards(statuses: &[GuardStatus]) -> Vec<Guard> {
    let missing = statuses.iter().filter(|one| !one.is_enforced);
    missing.map(|one| one.guard).collect()
}

/// The changes that a command, or the background processes, made to the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandChanges {
    /// The number of created paths.
    pub created: u64,
    /// The number of changed paths.
    pub changed: u64,
    /// The number of deleted paths.
    pub deleted: u64,
    /// The first of them, each after `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<String>,
    /// The id of the change that was recorded; absent if nothing changed or nothing was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub change: Option<ChangeMade>,
    /// The branch with the effects, if the files changed while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The id of the leftover with the effects, if they could not be saved; `refused` says why. `garret leftovers` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// Whether the effects were discarded, as requested.
    #[serde(skip_serializing_if = "is_false")]
    pub discarded: bool,
    /// Why nothing was kept: a policy, a quota or the approver refused, or it could not be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<EffectsRefusal>,
    /// The first entries that a workspace cannot store: devices, fifos, sockets, set-user-id bits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedShown>,
    /// The number of further such entries.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dropped: u64,
    /// Effects on paths that are excluded from history; undo cannot restore them.
    #[serde(skip_serializing_if = "ExcludedEffects::is_empty")]
    pub excluded: ExcludedEffects,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl CommandChanges {
    /// The most paths that are shown.
    pub const SHOWN_PATHS: usize = 20;
    /// The most entries in `dropped`.
    pub const SHOWN_DROPPED: usize = 100;

    /// Masks the values of secrets, which a command may have used as names of files.
    pub(in crate::shell) fn mask_secrets(mut self, secrets: &Secrets) -> Self {
        if secrets.is_empty() {
            return self;
        }
        let mask = |text: &mut String| *text = secrets.mask_text(text);
        self.paths.iter_mut().for_each(mask);
        self.dropped.iter_mut().for_each(|one| mask(&mut one.path));
        self.excluded.deleted_paths.iter_mut().for_each(mask);
        self.excluded.places.iter_mut().for_each(mask);
        if let Some(refused) = &mut self.refused {
            mask(&mut refused.message);
            refused.path.iter_mut().for_each(mask);
        }
        self
    }

    /// Returns the result if nothing was kept, because of `refusal`.
    pub(in crate::shell) fn from_refusal(refusal: &Error) -> Self {
        Self {
            refused: Some(EffectsRefusal::from(refusal)),
            ..Self::default()
        }
    }

    /// Returns the result if nothing could be saved, because of `error`; the leftover `layer` has the effects.
    pub(in crate::shell) fn from_leftover(error: &Error, layer: &str) -> Self {
        Self {
            leftover: Some(layer.to_owned()),
            ..Self::from_refusal(error)
        }
    }

    /// Whether no path was touched.
    pub fn is_nothing(&self) -> bool {
        self.created + self.changed + self.deleted == 0
    }

    /// Returns the counts in words: `2 created, 1 deleted`; empty if all are zero.
    pub fn describe_counts(&self) -> String {
        let counts = [
            (self.created, "created"),
            (self.changed, "changed"),
            (self.deleted, "deleted"),
        ];
        let words = counts.iter().filter(|(count, _)| *count > 0);
        words
            .map(|(count, word)| format!("{count} {word}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// The change that was recorded. Serialized as its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeMade {
    /// Its id.
    pub id: String,
    /// Its number in the journal.
    pub number: u64,
}

impl Serialize for ChangeMade {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.id)
    }
}

/// The reason why the effects of a command were not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EffectsRefusal {
    /// The kind of the error: `denied`, `quota_exceeded`, `too_large`.
    pub kind: String,
    /// What was refused, and why.
    pub message: String,
    /// The rule, as the configuration writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl From<&Error> for EffectsRefusal {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind().as_str().to_owned(),
            message: error.message().to_owned(),
            rule: error.refused_by().map(str::to_owned),
            path: error.path().map(str::to_owned),
        }
    }
}

/// An entry that no workspace can store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DroppedShown {
    /// Its path.
    pub path: String,
    /// What was left out.
    pub what: String,
}

/// Effects on paths that are excluded from history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExcludedEffects {
    /// The number of written paths.
    pub written: u64,
    /// The number of deleted paths.
    pub deleted: u64,
    /// The first deleted paths; undo cannot restore them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted_paths: Vec<String>,
    /// The places where they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

impl ExcludedEffects {
    /// Whether no excluded path was touched.
    pub fn is_empty(&self) -> bool {
        self.written + self.deleted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_written_as_text_or_in_base64() {
        #[derive(Serialize)]
        struct OneStream {
            #[serde(flatten, serialize_with = "serialize_stdout")]
            stdout: StreamShown,
        }
        let written = |bytes: &[u8]| {
            let captured = CapturedStream {
                head: bytes.to_vec(),
                ..CapturedStream::default()
            };
            let stdout = StreamShown::from(captured);
            serde_json::to_value(OneStream { stdout }).unwrap()
        };
        assert_eq!(written(b"a\n"), serde_json::json!({"stdout": "a\n"}));
        assert_eq!(
            written(b"\xff\x00"),
            serde_json::json!({"stdout": "/wA=", "stdout_encoding": "base64"})
        );
    }

    #[test]
    fn counts_are_told_in_words() {
        let changed = CommandChanges {
            created: 2,
            deleted: 1,
            ..CommandChanges::default()
        };
        assert_eq!(changed.describe_counts(), "2 created, 1 deleted");
        assert_eq!(CommandChanges::default().describe_counts(), "");
    }
}
