//! The operations log: one [`Event`] for every operation, including the refused ones.
//!
//! An event names the actor, the operation, the path, the duration and the outcome. It never holds content, arguments
//! or messages (a message may quote a file), so no secret can reach a log through it.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::path::escape_unprintable;
use crate::time::Timestamp;
use crate::{Error, ErrorKind};

/// The agent, session and front door behind an operation or a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Actor {
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The model's call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The front door: `api`, `cli`, `mcp`, …; `outside` if another program made the change.
    pub door: Cow<'static, str>,
    /// The command that made the change, if one did. The actor of an operation has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Actor {
    /// Returns the actor behind the front door `door`, of whom nothing else is known.
    pub fn from_door(door: impl Into<Cow<'static, str>>) -> Self {
        Self {
            door: door.into(),
            ..Self::default()
        }
    }
}

/// One finished operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// A unique id; ids sort by time.
    pub id: String,
    /// When the operation ended.
    pub at: Timestamp,
    /// The workspace's name.
    pub workspace: String,
    /// Who did it.
    pub actor: Actor,
    /// The operation, by the canonical name of its tool.
    pub operation: Cow<'static, str>,
    /// The path as the caller knows it, if the operation concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Bytes of content read or written.
    pub bytes: u64,
    /// How long it took.
    #[serde(rename = "duration_us", serialize_with = "as_micros")]
    pub duration: Duration,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: EventOutcome,
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EventOutcome {
    /// It was done.
    Done,
    /// A policy or an approval refused it.
    Refused {
        /// The rule, as the configuration writes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// The caller gave up before it ended.
    Cancelled,
    /// It failed.
    Failed {
        /// The kind of the error.
        kind: ErrorKind,
    },
}

impl EventOutcome {
    /// Returns the outcome of an operation that ended with `error`, or without an error.
    pub fn from_error(error: Option<&Error>) -> Self {
        match error {
            None => Self::Done,
            Some(error) if is_refusal(error) => Self::Refused {
                rule: error.refused_by().map(str::to_owned),
            },
            Some(error) => Self::Failed { kind: error.kind() },
        }
    }
}

impl fmt::Display for EventOutcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => formatter.write_str("done"),
            Self::Refused { rule: Some(rule) } => write!(formatter, "refused by {}", escape_unprintable(rule)),
            Self::Refused { rule: None } => formatter.write_str("refused"),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Failed { kind } => write!(formatter, "failed: {kind}"),
        }
    }
}

fn is_refusal(error: &Error) -> bool {
    // An escape is refused like a denied path, although no rule of a policy names it.
    error.refused_by().is_some() || matches!(error.kind(), ErrorKind::Denied | ErrorKind::PathEscape)
}

fn as_micros<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_micros() as u64)
}

/// A receiver of the events of a workspace. It is called on the operation's own path, so it must be quick and must not
/// fail.
pub trait EventSink: Send + Sync + fmt::Debug {
    /// Receives one event.
    fn record_event(&self, event: &Event);
    /// Returns whether events are wanted; if not, none are made.
    fn is_enabled(&self) -> bool;
}

/// Discards every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoEvents;

impl EventSink for NoEvents {
    fn record_event(&self, _event: &Event) {}

    fn is_enabled(&self) -> bool {
        false
    }
}

/// Keeps every event in memory.
#[derive(Debug, Default)]
pub struct MemoryEvents(Mutex<Vec<Event>>);

impl MemoryEvents {
    /// Returns the events so far.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().expect("no holder panics").clone()
    }
}

impl EventSink for MemoryEvents {
    fn record_event(&self, event: &Event) {
        self.0.lock().expect("no holder panics").push(event.clone());
    }

    fn is_enabled(&self) -> bool {
        true
    }
}

/// The format in which a [`EventWriter`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFormat {
    /// A line for a person.
    Console,
    /// A JSON object a line.
    JsonLines,
}

/// Writes every event to a writer that the front door supplies: a terminal, a file.
pub struct EventWriter<W> {
    writer: Mutex<W>,
    format: EventFormat,
}

impl<W: Write + Send> EventWriter<W> {
    /// Makes a sink that writes to `writer` in `format`.
    pub fn new(writer: W, format: EventFormat) -> Self {
        Self {
            writer: Mutex::new(writer),
            format,
        }
    }

    fn format_line(&self, event: &Event) -> String {
        match self.format {
            EventFormat::JsonLines => serde_json::to_string(event).expect("an event is plain data"),
            EventFormat::Console => format_console_line(event),
        }
    }
}

fn format_console_line(event: &Event) -> String {
    // Names may hold control characters, which must not forge a line of the log.
    let path = event.path.as_deref().unwrap_or("-");
    let (at, bytes, micros) = (event.at, event.bytes, event.duration.as_micros());
    format!(
        "{at:.3} {} {} {} {bytes} B {micros} µs {}",
        escape_unprintable(&event.workspace),
        event.operation,
        escape_unprintable(path),
        event.outcome
    )
}

impl<W> fmt::Debug for EventWriter<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WrittenEvents")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> EventSink for EventWriter<W> {
    fn record_event(&self, event: &Event) {
        let mut writer = self.writer.lock().expect("no holder panics");
        // A log that cannot be written must not fail the operation that it reports.
        let _ = writeln!(writer, "{}", self.format_line(event));
    }

    fn is_enabled(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WsPath;

    fn event(outcome: EventOutcome) -> Event {
        Event {
            id: "id-1".into(),
            at: Timestamp::UNIX_EPOCH,
            workspace: "box".into(),
            actor: Actor {
                door: "cli".into(),
                ..Actor::default()
            },
            operation: "write_file".into(),
            path: Some("a\nb".into()),
            bytes: 3,
            duration: Duration::from_micros(7),
            outcome,
        }
    }

    #[test]
    fn an_event_is_one_json_line() {
        let sink = EventWriter::new(Vec::new(), EventFormat::JsonLines);
        sink.record_event(&event(EventOutcome::Refused {
            rule: Some("deny_read = `**/.env`".into()),
        }));
        let written = String::from_utf8(sink.writer.into_inner().unwrap()).unwrap();
        assert_eq!(
            written,
            r#"{"id":"id-1","at":"1970-01-01T00:00:00Z","workspace":"box","actor":{"door":"cli"},"operation":"write_file","path":"a\nb","bytes":3,"duration_us":7,"outcome":"refused","rule":"deny_read = `**/.env`"}"#.to_owned() + "\n"
        );
    }

    #[test]
    fn a_name_with_a_newline_stays_on_its_console_line() {
        assert_eq!(
            format_console_line(&event(EventOutcome::Done)),
            "1970-01-01T00:00:00.000Z box write_file a\\nb 3 B 7 µs done"
        );
    }

    #[test]
    fn an_escape_counts_as_a_refusal() {
        let error = Error::path_escape(&WsPath::parse("link").unwrap());
        assert_eq!(
            EventOutcome::from_error(Some(&error)),
            EventOutcome::Refused { rule: None }
        );
    }
}
