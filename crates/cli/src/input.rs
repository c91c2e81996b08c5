//! Content and JSON from an argument, from standard input or from a file, byte for byte.
//!
//! A write may be larger than memory. Standard input that is a regular file is read in place. Other input of more than
//! a few MiB goes to a temporary file without a name, which disappears with the process.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads what its user names: standard input and files beside the workspace"
)]

use std::fs::File;
use std::io::{IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use garret::{Content, ContentSource, Error, ErrorKind, InputSource, Result};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use crate::output::print_note;

/// Returns the bytes of an argument; `-` or no argument stands for standard input.
pub(crate) fn read_content(argument: Option<&str>) -> Result<Vec<u8>> {
    match argument {
        None | Some("-") => read_standard_input(),
        Some(text) => Ok(text.as_bytes().to_vec()),
    }
}

/// Returns the content for a write of any size from an argument; `-` or no argument stands for standard input.
pub(crate) fn stream_content(argument: Option<&str>) -> Result<Content> {
    match argument {
        None | Some("-") => standard_input_as_content(),
        Some(text) => Ok(text.to_owned().into()),
    }
}

/// Reads a file outside of the workspace; `-` or no name stands for standard input.
pub(crate) fn read_file(name: Option<&str>) -> Result<Vec<u8>> {
    match name {
        None | Some("-") => read_standard_input(),
        Some(name) => std::fs::read(name).map_err(|error| unreadable_error(name, &error)),
    }
}

/// Reads JSON from the argument itself, from standard input (`-`) or from a file (`@FILE`).
pub(crate) fn read_json(argument: &str) -> Result<Value> {
    let bytes = match argument.strip_prefix('@') {
        Some(name) => read_file(Some(name))?,
        None => read_content(Some(argument))?,
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::invalid(format!("this is not JSON: {error}"))
            .hint("pass an object, e.g. '{\"path\": \"a.txt\"}', in single quotes")
    })
}

/// Prints a note if the program waits for a person to type.
fn note_terminal_input() {
    // Without a note, a program that waits for input looks as if it hung.
    if std::io::stdin().is_terminal() {
        print_note("reading from the terminal; Ctrl-D on a new line ends it");
    }
}

fn read_standard_input() -> Result<Vec<u8>> {
    note_terminal_input();
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|_| unread_input_error())?;
    Ok(bytes)
}

/// Standard input, piece by piece, for a command that reads it. Nothing is read before the command asks for the first
/// piece, and then no more than a piece ahead.
#[derive(Clone, Default)]
pub(crate) struct StandardInput {
    shared: Arc<SharedInput>,
}

#[derive(Default)]
struct SharedInput {
    pieces: Mutex<Option<mpsc::Receiver<Bytes>>>,
    failure: std::sync::Mutex<Option<Error>>,
}

/// Bytes of one piece of standard input.
const PIECE: usize = 64 * 1024;

impl StandardInput {
    /// Returns the error that ended the reading, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.shared.failure.lock().expect("no holder panics").clone()
    }
}

#[async_trait]
impl InputSource for StandardInput {
    async fn next_piece(&self) -> Option<Bytes> {
        let mut pieces = self.shared.pieces.lock().await;
        let pieces = pieces.get_or_insert_with(|| spawn_reader(self.shared.clone()));
        pieces.recv().await
    }
}

/// Reads standard input on a thread of its own.
fn spawn_reader(shared: Arc<SharedInput>) -> mpsc::Receiver<Bytes> {
    // Room for one piece: input that the command does not read must not collect in memory.
    let (sender, pieces) = mpsc::channel(1);
    // Not a task of the runtime: a read of a terminal or a pipe may never return, and nothing waits for this thread.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut piece = vec![0; PIECE];
        loop {
            match stdin.read(&mut piece) {
                Ok(0) => return,
                Ok(count) if sender.blocking_send(Bytes::copy_from_slice(&piece[..count])).is_err() => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    *shared.failure.lock().expect("no holder panics") = Some(unread_input_error());
                    return;
                }
            }
        }
    });
    pieces
}

/// The most bytes of standard input that are kept in memory.
const MOST_IN_MEMORY: u64 = 8 << 20;

fn standard_input_as_content() -> Result<Content> {
    note_terminal_input();
    let stdin = std::io::stdin();
    if let Some(content) = redirected_file(&stdin) {
        return Ok(content);
    }
    let mut stdin = stdin.lock();
    let mut first = Vec::new();
    let read = (&mut stdin).take(MOST_IN_MEMORY).read_to_end(&mut first);
    if read.map_err(|_| unread_input_error())? < MOST_IN_MEMORY as usize {
        return Ok(first.into());
    }
    spool_to_file(&first, &mut stdin)
}

/// Returns the rest of a regular file that is redirected to standard input; `None` for a pipe or a terminal.
fn redirected_file(stdin: impl AsFd) -> Option<Content> {
    let mut file = File::from(stdin.as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    // Another program may have read a part of the file before: both share the offset of the handle.
    let start = file.stream_position().ok()?;
    let size = metadata.len().saturating_sub(start);
    Some(Content::from_source(FilePart {
        file: Arc::new(file),
        start,
        size,
    }))
}

fn spool_to_file(first: &[u8], rest: &mut impl Read) -> Result<Content> {
    // The file has no name, so it disappears with the process, however that ends.
    let mut file = tempfile::tempfile().map_err(|_| spool_error())?;
    file.write_all(first).map_err(|_| spool_error())?;
    let mut piece = vec![0; 256 * 1024];
    let mut size = first.len() as u64;
    loop {
        match rest.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                file.write_all(&piece[..count]).map_err(|_| spool_error())?;
                size += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(unread_input_error()),
        }
    }
    Ok(Content::from_source(FilePart {
        file: Arc::new(file),
        start: 0,
        size,
    }))
}

/// The bytes of a file from `start` on.
#[derive(Debug)]
struct FilePart {
    file: Arc<File>,
    start: u64,
    size: u64,
}

impl ContentSource for FilePart {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(FileReader {
            file: self.file.clone(),
            at: self.start,
        }))
    }
}

struct FileReader {
    file: Arc<File>,
    at: u64,
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // Read by position: several readers share the handle, and with it the offset of the file.
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

fn unread_input_error() -> Error {
    Error::invalid("standard input cannot be read")
}

fn spool_error() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "standard input does not fit into a temporary file",
    )
    .hint("free some space, set TMPDIR to a larger disk, or redirect a file with `<`")
}

fn unreadable_error(name: &str, error: &std::io::Error) -> Error {
    let shown = garret::path::quote(name);
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("no such file: {shown}")),
        _ => Error::new(ErrorKind::Denied, format!("the file {shown} cannot be read")),
    }
    .hint("name a file that you may read, or `-` for standard input")
}
