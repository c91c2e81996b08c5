//! Results of commands and of background processes.

use std::borrow::Cow;
use std::ops::Not;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::{
    CapturedStream, ChangeMade, Error, Guard, GuardStatus, HomeUsage, NetworkRecord, ReachedLimit, ResourceLimit,
    ResourceUsage, Secrets, Timestamp,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::is_zero;
use crate::Encoding;
use crate::shell::printable_label;

/// The home directory of the commands of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandHomeReport {
    /// Its use; absent if commands have no home directory that outlives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<HomeUsage>,
}

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
    pub stdout: StreamContent,
    /// Standard error, in the same way.
    #[serde(flatten, serialize_with = "serialize_stderr")]
    #[schemars(with = "SerializedStderr<'static>")]
    pub stderr: StreamContent,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// The limit that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<ResourceLimit>,
    /// The limit that ended it, or that it probably reached according to the end of its output, and how to raise it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<ReachedLimit>,
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
    /// What it used, where it ran by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResourceUsage>,
    /// Whether it was isolated: it could reach no other files and processes of the machine.
    pub isolated: bool,
    /// The guards that the sandbox did not enforce.
    pub not_enforced: Vec<Guard>,
    /// All guards of the sandbox: whether each was enforced, and by what means. Serialized in `details` only.
    #[serde(skip)]
    pub guards: Vec<GuardStatus>,
    /// Its requests to the network, if commands reach hosts by name. Those of background processes at the same time are
    /// among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRecord>,
    /// What it did to the files.
    #[serde(flatten)]
    pub changed: CommandChanges,
    /// Ids of leftovers: effects of earlier commands that are in no change. `garret leftovers` shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<String>,
    /// Files that the command did not see, because their stored content is damaged. They are in the workspace as before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub corrupt: Vec<String>,
    /// Whether the named shell was made for this command: nothing of an earlier shell of this name is left.
    #[serde(skip_serializing_if = "Not::not")]
    pub shell_is_new: bool,
    /// How the named shell ended, where this command was its last: what it kept is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell_ended: Option<String>,
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

    /// Returns the output of a command that failed; empty if it succeeded.
    pub(crate) fn failure_output(&self) -> &str {
        if self.exit_code == 0 { "" } else { &self.output }
    }
}

/// The stored bytes of one stream; if the middle was left out, a line stands in its place. Serialized as text if they
/// are UTF-8, otherwise in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamContent(pub Bytes, CapturedStream);

impl StreamContent {
    /// Returns the head and the tail by themselves, for a caller who shows less of them.
    pub fn captured(&self) -> &CapturedStream {
        &self.1
    }
}

impl From<CapturedStream> for StreamContent {
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

impl StreamContent {
    /// Returns the bytes as text, or in base64 if they are not UTF-8.
    fn to_encoded(&self) -> (Cow<'_, str>, Option<Encoding>) {
        match std::str::from_utf8(&self.0) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(_) => (Cow::Owned(STANDARD.encode(&self.0)), Some(Encoding::Base64)),
        }
    }
}

/// Serializes standard output as the fields `stdout` and `stdout_encoding` of a result.
pub(crate) fn serialize_stdout<S: Serializer>(stream: &StreamContent, serializer: S) -> Result<S::Ok, S::Error> {
    let (stdout, stdout_encoding) = stream.to_encoded();
    let serialized = SerializedStdout {
        stdout,
        stdout_encoding,
    };
    serialized.serialize(serializer)
}

/// Serializes standard error as the fields `stderr` and `stderr_encoding` of a result.
pub(crate) fn serialize_stderr<S: Serializer>(stream: &StreamContent, serializer: S) -> Result<S::Ok, S::Error> {
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
    /// The change that was recorded; absent if nothing changed or nothing was kept.
    #[serde(flatten)]
    pub change: Option<ChangeMade>,
    /// The first of the paths that it changed, each after `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<String>,
    /// The number of paths that it changed.
    pub path_count: u64,
    /// The number of created paths.
    pub created_count: u64,
    /// The number of changed paths.
    pub changed_count: u64,
    /// The number of deleted paths.
    pub deleted_count: u64,
    /// The branch with the effects, if the files changed while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The id of the leftover with the effects, if they could not be saved; `refused` says why. `garret leftovers` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leftover: Option<String>,
    /// Whether the effects were discarded, as requested.
    #[serde(skip_serializing_if = "Not::not")]
    pub discarded: bool,
    /// Why nothing was kept: a policy, a quota or the approver refused, or it could not be saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<EffectsRefusal>,
    /// The first entries that a workspace cannot store: devices, fifos, sockets, set-user-id bits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedPath>,
    /// The number of further such entries.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_dropped: u64,
    /// Effects on paths that are excluded from history; undo cannot restore them.
    #[serde(skip_serializing_if = "ExcludedEffects::is_empty")]
    pub excluded: ExcludedEffects,
}

impl CommandChanges {
    /// The most paths that are shown.
    pub const SHOWN_PATHS: usize = 20;
    /// The most entries in `dropped`.
    pub const SHOWN_DROPPED: usize = 100;

    /// Masks the values of secrets, which a command may have used as names of files.
    pub(crate) fn mask_secrets(mut self, secrets: &Secrets) -> Self {
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
    pub(crate) fn from_refusal(refusal: &Error) -> Self {
        Self {
            refused: Some(EffectsRefusal::from(refusal)),
            ..Self::default()
        }
    }

    /// Returns the result if nothing could be saved, because of `error`; the leftover `layer` has the effects.
    pub(crate) fn from_leftover(error: &Error, layer: &str) -> Self {
        Self {
            leftover: Some(layer.to_owned()),
            ..Self::from_refusal(error)
        }
    }

    /// Whether no path was touched.
    pub fn is_nothing(&self) -> bool {
        self.path_count == 0
    }

    /// Returns the counts in words: `2 created, 1 deleted`; empty if all are zero.
    pub fn describe_counts(&self) -> String {
        let counts = [
            (self.created_count, "created"),
            (self.changed_count, "changed"),
            (self.deleted_count, "deleted"),
        ];
        let words = counts.iter().filter(|(count, _)| *count > 0);
        words
            .map(|(count, word)| format!("{count} {word}"))
            .collect::<Vec<_>>()
            .join(", ")
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
pub struct DroppedPath {
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

/// The wait of a command for its turn, once it is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TurnWaited {
    /// How long it lasted, in milliseconds.
    pub duration_ms: u64,
    /// The command that had the turn when the wait began, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl TurnWaited {
    /// Says in words how long the wait was, and for which command: ``waited 12 s for `cargo build` ``.
    pub fn describe(&self) -> String {
        let seconds = self.duration_ms / 1_000;
        match &self.command {
            Some(command) => format!("waited {seconds} s for `{}`", printable_label(command)),
            None => format!("waited {seconds} s for another command"),
        }
    }
}

/// A layer with effects that are in no change: Garret ended in the middle of the command, or the effects could not be
/// saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leftover {
    /// Its id.
    pub id: String,
    /// Who worked on it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What keeping it would do.
    #[serde(flatten)]
    pub changed: CommandChanges,
}

/// The state of a background process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessStatus {
    /// Its id in this workspace.
    pub id: String,
    /// The command.
    pub command: String,
    /// When it was started, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether it runs.
    pub running: bool,
    /// The exit code as a shell gives it, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it ended, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// How long it ran, in milliseconds, once it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whether it is isolated: it can reach no other files and processes of the machine.
    pub isolated: bool,
    /// The guards that the sandbox does not enforce.
    pub not_enforced: Vec<Guard>,
    /// Its ports that programs outside can reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<OpenedPort>,
}

/// A port of a background process that programs outside can reach. It closes when the process ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OpenedPort {
    /// The id of the process.
    pub process: String,
    /// The port on which the process listens.
    pub port: u16,
    /// The address and port of this machine at which programs reach it: `127.0.0.1:3000`.
    pub address: String,
    /// The URL of this address, for a server that speaks HTTP.
    pub url: String,
}

/// The answer to a request for a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PortAnswer {
    /// The open port.
    #[serde(flatten)]
    pub opened: OpenedPort,
    /// Whether the process listened on the port by the time of the answer.
    pub ready: bool,
}

/// The background processes of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessList {
    /// Those that run, and the last of those that ended.
    pub processes: Vec<ProcessStatus>,
    /// Effects that could not be saved, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// The new output of a background process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessOutput {
    /// The process.
    pub process: ProcessStatus,
    /// Standard output and standard error since the cursor as text, in the order in which they came. Serialized in
    /// `details` only.
    #[serde(skip)]
    pub output: String,
    /// The newest output, if it was requested and `output` does not reach it.
    #[serde(skip)]
    pub tail: Option<String>,
    /// Standard output since the cursor, byte for byte.
    #[serde(flatten, serialize_with = "serialize_stdout")]
    #[schemars(with = "SerializedStdout<'static>")]
    pub stdout: StreamContent,
    /// Standard error since the cursor, byte for byte.
    #[serde(flatten, serialize_with = "serialize_stderr")]
    #[schemars(with = "SerializedStderr<'static>")]
    pub stderr: StreamContent,
    /// The cursor for the next call.
    pub cursor: u64,
    /// The number of bytes of output after the cursor that are no longer stored.
    pub lost_bytes: u64,
    /// Whether more is there already.
    pub has_more: bool,
    /// The number of bytes that it has written by now: the cursor behind the newest output.
    pub written: u64,
    /// The requests to the network since the last call for this process, if commands reach hosts by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRecord>,
    /// What the background processes did to the files since the last call that recorded it.
    #[serde(flatten)]
    pub changed: CommandChanges,
    /// Effects of the processes that could not be saved, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Output in the order in which it came and the full table of guards, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<RunDetails>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_written_as_text_or_in_base64() {
        #[derive(Serialize)]
        struct OneStream {
            #[serde(flatten, serialize_with = "serialize_stdout")]
            stdout: StreamContent,
        }
        let written = |bytes: &[u8]| {
            let captured = CapturedStream {
                head: bytes.to_vec(),
                ..CapturedStream::default()
            };
            let stdout = StreamContent::from(captured);
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
            created_count: 2,
            deleted_count: 1,
            ..CommandChanges::default()
        };
        assert_eq!(changed.describe_counts(), "2 created, 1 deleted");
        assert_eq!(CommandChanges::default().describe_counts(), "");
    }
}
