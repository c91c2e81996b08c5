//! The protocol between Garret and the supervisor: frames over any stream of bytes.
//!
//! A frame is its length (four bytes, little-endian), a tag and a body. Messages are JSON; the input and output of
//! commands is sent as raw bytes. Nothing but bytes is passed, no descriptor and no shared memory, so that a pipe, a
//! socket or the serial line of a virtual machine will do. The socket that [`SupervisorRequest::MakeSocket`] asks for
//! travels on a channel of its own. Both directions work on credit: neither side sends more data
//! than the other has announced room for.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use garret_core::{CommandExit, CommandTerminal, Limits, ResourceLimit, TerminalSize};
use serde::{Deserialize, Serialize};

use crate::namespace::plan::SandboxPlan;

/// The number of bytes that a command may be ahead of the reader of its output, and a writer of input ahead of the
/// command.
pub(crate) const CREDIT: u64 = 256 * 1024;
/// The most bytes in one frame of data.
pub(crate) const DATA: usize = 64 * 1024;
/// The most bytes in any frame; a longer one is no frame of this protocol.
const LONGEST: usize = 16 * 1024 * 1024;

/// The step that fails if a script exists and its interpreter does not.
pub(crate) const FINDING_INTERPRETER: &str = "finding the interpreter";

/// The beginning of the step that shows a mount; its target follows.
pub(crate) const SHOWING: &str = "showing ";

const MESSAGE: u8 = 0;
const BYTES: u8 = 1;

/// A message of Garret to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorRequest {
    /// Make the sandbox of this plan; the first message.
    Open(Box<SandboxPlan>),
    /// Mount the layer whose directory has this name. A failure is reported with the next request on the layer.
    Lay { layer: String, lower: LayerLower },
    /// Start a process on a layer.
    Start {
        request: u64,
        process: u64,
        layer: String,
        spawn: Box<SpawnRequest>,
        /// The request to unmount the layer once the process has ended.
        lift: Option<LiftRequest>,
    },
    /// No more input comes for the process.
    CloseInput { process: u64 },
    /// There is room for this many more bytes of output.
    Credit { process: u64, bytes: u64 },
    /// Signal a process; 9 ends its tree.
    Signal { process: u64, number: i32 },
    /// Change the size of the terminal of a process.
    Resize { process: u64, size: TerminalSize },
    /// Answer a mark of a process.
    AnswerMark { process: u64 },
    /// Place an item on a layer; the bytes of a file follow as data under the number of the request.
    Place {
        request: u64,
        layer: String,
        path: Vec<u8>,
        item: LayerItem,
    },
    /// Make a layer show changes that others made below it.
    Refresh { request: u64, layer: String },
    /// Stop the processes of a layer.
    Pause { request: u64, layer: String },
    /// Let the processes of a layer continue.
    Resume { request: u64, layer: String },
    /// End the processes of a layer and unmount it.
    Lift { request: u64, layer: String },
    /// Make a TCP socket in the network of the sandbox, and pass it over the channel for sockets before the answer.
    MakeSocket { request: u64, family: SocketFamily },
}

/// The family of addresses of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SocketFamily {
    Version4,
    Version6,
}

/// The lower directory of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LayerLower {
    /// The bench.
    Bench,
    /// The bench without the paths that the file `hidden` in the layer's directory lists.
    BenchWithoutHidden,
    /// The directory `lower` in the layer's directory: a copy of the visible part of the bench, which nobody changes.
    OwnLower,
    /// None: the layer is a copy of the bench.
    Copy,
}

/// A request to unmount a layer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct LiftRequest {
    pub(crate) request: u64,
    /// Whether the layer stays mounted if nothing was written to it.
    pub(crate) may_stay: bool,
}

/// An item that is placed on a layer; `Nothing` removes the entry at the path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum LayerItem {
    Nothing,
    File {
        mode: u32,
        size: u64,
        modified: Option<(i64, i64)>,
    },
    Directory {
        mode: u32,
    },
    Symlink {
        target: String,
    },
}

/// A process to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SpawnRequest {
    pub(crate) program: ExecTarget,
    /// The path of its directory below the workspace; empty for the root.
    pub(crate) cwd: String,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) has_input: bool,
    /// Whether the command gets an empty home instead of the kept one.
    pub(crate) has_empty_home: bool,
    pub(crate) terminal: Option<CommandTerminal>,
    pub(crate) limits: SpawnLimits,
}

/// A program to execute.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ExecTarget {
    /// A program on the `PATH`, and its arguments.
    Arguments(Vec<String>),
    /// A program on the `PATH` and its arguments, executed as a shell would; if it cannot be executed, the shell.
    Plain { words: Vec<String>, shell: Vec<String> },
    /// The probe: tries which guards hold, and writes the result.
    Probe,
}

/// The limits of one command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SpawnLimits {
    pub(crate) wall_ms: Option<u64>,
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) file_size: Option<u64>,
    pub(crate) written: Option<u64>,
    pub(crate) open_files: Option<u64>,
}

impl SpawnLimits {
    /// Returns the limits of a command, none of them above that of the sandbox.
    pub(crate) fn of_command(own: &Limits, most: &Limits) -> Self {
        let millis = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Self {
            wall_ms: lower_of(millis(own.wall), millis(most.wall)),
            cpu_ms: lower_of(millis(own.cpu), millis(most.cpu)),
            memory: lower_of(own.memory, most.memory),
            processes: lower_of(own.processes, most.processes),
            file_size: lower_of(own.file_size, most.file_size),
            written: lower_of(own.written, most.written),
            open_files: lower_of(own.open_files, most.open_files),
        }
    }

    /// Returns the most bytes that one file may have, and the limit that sets this number.
    pub(crate) fn largest_file(&self) -> Option<(u64, ResourceLimit)> {
        // The total of written bytes is checked only from time to time. With twice that limit as the limit of a file, a
        // single file cannot exceed the total by far between two checks.
        let by_size = self.file_size.map(|bytes| (bytes, ResourceLimit::FileSize));
        let by_written = self
            .written
            .map(|bytes| (bytes.saturating_mul(2), ResourceLimit::Written));
        by_size.into_iter().chain(by_written).min_by_key(|(bytes, _)| *bytes)
    }
}

fn lower_of(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// A message of the supervisor to Garret.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorAnswer {
    /// The sandbox is ready, or could not be made.
    Opened(Result<OpenedReport, StepFailure>),
    /// A request was carried out, or failed.
    Answered {
        request: u64,
        outcome: Result<RequestOutcome, StepFailure>,
    },
    /// There is room for this many more bytes of input.
    Room { process: u64, bytes: u64 },
    /// All output of a process was sent.
    OutputEnded { process: u64 },
    /// A process and its whole tree ended.
    Ended { process: u64, exit: CommandExit },
}

/// The result of a request that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RequestOutcome {
    /// The request was carried out as it was made.
    Complete,
    /// A layer that was to be unmounted stays, because nothing was written to it.
    Kept,
    /// The processes of the layer are stopped; this many commands were ended because they were not stopped in time.
    Paused { ended: u64 },
}

/// The properties of a sandbox that was made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OpenedReport {
    /// Whether `/proc` could be mounted.
    pub(crate) has_proc: bool,
    /// The reason, if no overlay can be mounted.
    pub(crate) overlay_failure: Option<String>,
    /// Whether the planned control groups were made and entered.
    pub(crate) has_groups: bool,
    /// The means by which processes in the background are paused.
    pub(crate) pausing: PauseMethod,
}

/// The means by which processes are paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PauseMethod {
    /// None: processes are ended instead.
    #[default]
    Nothing,
    /// The init of the command traces them.
    Trace,
    /// The freezer of control groups, version 1.
    FreezerOne,
    /// The freezer of control groups, version 2.
    FreezerTwo,
}

/// A step of the supervisor that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepFailure {
    /// The step, in words without paths of the host.
    pub(crate) step: String,
    /// The error number of the system.
    pub(crate) errno: i32,
}

impl StepFailure {
    pub(crate) fn new(step: impl Into<String>, error: impl Into<io::Error>) -> Self {
        Self {
            step: step.into(),
            errno: error.into().raw_os_error().unwrap_or(0),
        }
    }

    /// Returns the reason in the words of the system, without the number.
    pub(crate) fn reason(&self) -> String {
        let text = io::Error::from_raw_os_error(self.errno).to_string();
        text.split(" (os error").next().unwrap_or(&text).to_lowercase()
    }
}

/// Names the step of the supervisor that failed.
pub(crate) trait FailedStep<T> {
    fn in_step(self, step: &str) -> Result<T, StepFailure>;
}

impl<T, E: Into<io::Error>> FailedStep<T> for Result<T, E> {
    fn in_step(self, step: &str) -> Result<T, StepFailure> {
        self.map_err(|error| StepFailure::new(step, error))
    }
}

/// A frame that was received.
#[derive(Debug)]
pub(crate) enum ProtocolFrame<T> {
    Message(T),
    /// Bytes of a process or request; `stream` tells standard output (1) from standard error (2).
    Bytes {
        id: u64,
        stream: u8,
        bytes: Vec<u8>,
    },
}

/// Writes a message as a frame.
pub(crate) fn encode_message<T: Serialize>(message: &T, out: &mut Vec<u8>) {
    let start = begin_frame(out, MESSAGE);
    serde_json::to_writer(&mut *out, message).expect("every message has a JSON form");
    finish_frame(out, start);
}

/// Writes bytes as a frame.
pub(crate) fn encode_bytes(id: u64, stream: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let start = begin_frame(out, BYTES);
    out.extend_from_slice(&id.to_le_bytes());
    out.push(stream);
    out.extend_from_slice(bytes);
    finish_frame(out, start);
}

fn begin_frame(out: &mut Vec<u8>, tag: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(tag);
    start
}

fn finish_frame(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start - 4).expect("a frame is shorter than its longest");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// The number of bytes of the first read: a message is short, and memory that was never used before costs a fault for
/// each page of it.
const FIRST_READ: usize = 2 * 1024;

/// Assembles frames from the bytes of a stream, in whatever pieces they arrive.
#[derive(Debug)]
pub(crate) struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    /// The number of bytes that are read at once; it grows while every read fills it.
    at_once: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            at_once: FIRST_READ,
        }
    }
}

impl FrameDecoder {
    /// Reads once from `source`; returns the number of bytes, 0 at its end.
    pub(crate) fn read_more(&mut self, source: &mut impl Read) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + self.at_once, 0);
        let read = source.read(&mut self.buffer[before..]);
        let length = *read.as_ref().unwrap_or(&0);
        self.buffer.truncate(before + length);
        if length == self.at_once {
            self.at_once = DATA;
        } else if length <= FIRST_READ {
            self.at_once = FIRST_READ;
        }
        read
    }

    /// Returns the next frame, if all of it has arrived.
    pub(crate) fn next_frame<T: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<ProtocolFrame<T>>> {
        let rest = &self.buffer[self.start..];
        let Some(length) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        // Checked before the body arrives, so that a damaged length never makes the buffer grow without bound.
        if length == 0 || length > LONGEST {
            return Err(damaged_frame_error());
        }
        let Some(body) = rest.get(4..4 + length) else {
            return Ok(None);
        };
        let frame = parse_frame(body)?;
        self.start += 4 + length;
        Ok(Some(frame))
    }
}

fn parse_frame<T: for<'de> Deserialize<'de>>(body: &[u8]) -> io::Result<ProtocolFrame<T>> {
    match (body[0], &body[1..]) {
        (MESSAGE, json) => Ok(ProtocolFrame::Message(serde_json::from_slice(json)?)),
        (BYTES, rest) => {
            let (id, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged_frame_error)?;
            let (stream, bytes) = rest.split_first().ok_or_else(damaged_frame_error)?;
            Ok(ProtocolFrame::Bytes {
                id: u64::from_le_bytes(*id),
                stream: *stream,
                bytes: bytes.to_vec(),
            })
        }
        _ => Err(damaged_frame_error()),
    }
}

fn damaged_frame_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame is damaged")
}

/// Reads until a frame is complete; returns `None` at the end of the stream.
pub(crate) fn read_frame<T: for<'de> Deserialize<'de>>(
    decoder: &mut FrameDecoder,
    source: &mut impl Read,
) -> io::Result<Option<ProtocolFrame<T>>> {
    loop {
        if let Some(frame) = decoder.next_frame()? {
            return Ok(Some(frame));
        }
        if decoder.read_more(source)? == 0 {
            return Ok(None);
        }
    }
}

/// Writes one message at once.
pub(crate) fn write_message<T: Serialize>(message: &T, sink: &mut impl Write) -> io::Result<()> {
    let mut out = Vec::new();
    encode_message(message, &mut out);
    sink.write_all(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(bytes: &[u8], step: usize) -> Vec<ProtocolFrame<SupervisorAnswer>> {
        let mut decoder = FrameDecoder::default();
        let mut found = Vec::new();
        for chunk in bytes.chunks(step) {
            decoder.read_more(&mut &*chunk).unwrap();
            while let Some(frame) = decoder.next_frame().unwrap() {
                found.push(frame);
            }
        }
        found
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_the_stream_is_cut() {
        let mut out = Vec::new();
        encode_message(&SupervisorAnswer::OutputEnded { process: 7 }, &mut out);
        encode_bytes(9, 2, b"\x00\xff\n", &mut out);
        encode_message(&SupervisorAnswer::OutputEnded { process: 8 }, &mut out);
        for step in [1, 3, out.len()] {
            let found = frames(&out, step);
            assert_eq!(found.len(), 3);
            assert!(matches!(
                found[0],
                ProtocolFrame::Message(SupervisorAnswer::OutputEnded { process: 7 })
            ));
            let ProtocolFrame::Bytes {
                id: 9,
                stream: 2,
                bytes,
            } = &found[1]
            else {
                panic!("the second frame is data");
            };
            assert_eq!(bytes, b"\x00\xff\n");
        }
    }

    #[test]
    fn a_frame_of_no_or_of_absurd_length_is_refused() {
        for length in [0, u32::MAX] {
            let mut decoder = FrameDecoder::default();
            decoder.read_more(&mut &length.to_le_bytes()[..]).unwrap();
            assert!(decoder.next_frame::<SupervisorAnswer>().is_err());
        }
    }
}
