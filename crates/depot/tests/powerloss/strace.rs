//! The recorder: what a process asked of the kernel, in order, as `strace` saw it.
//!
//! A call has two moments, its beginning and its end, since calls of several threads overlap. Data is written out in full; a record in
//! which a call was cut short is refused, so that nothing is replayed that was not seen.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every call by which a process changes files or makes them durable. What is not in this list and could do so is in [`REFUSED`].
const FOLLOWED: &str = "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,ftruncate,truncate,\
rename,renameat,renameat2,unlink,unlinkat,link,linkat,symlink,symlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,mmap";
/// Calls that the replay does not know: a record with one of them that succeeded is refused.
const REFUSED: &str =
    "fallocate,copy_file_range,sendfile,splice,pwritev2,openat2,io_uring_setup,sync,syncfs,sync_file_range";
/// Longer than any single write of the workload.
const LONGEST: &str = "8388608";

/// One call to the kernel.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    /// What it gave back; `None` where the process ended meanwhile.
    pub(crate) result: Option<i64>,
}

/// A beginning or an end of the call with that index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Begin(usize),
    End(usize),
}

/// A whole record.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) calls: Vec<Call>,
    pub(crate) moments: Vec<Moment>,
}

/// Runs `command` to its end and records it; the raw log goes to `log`.
pub(crate) fn record(command: &[&str], log: &Path) -> Record {
    let trace = format!("trace={FOLLOWED},{REFUSED}");
    let status = Command::new("strace")
        .args([
            "-f",
            "--seccomp-bpf",
            "-xx",
            "-s",
            LONGEST,
            "-e",
            "signal=none",
            "-e",
            &trace,
            "-o",
        ])
        .arg(log)
        .args(command)
        .stdout(Stdio::null())
        .status()
        .expect("strace is installed: scripts/setup-tests brings it");
    assert!(status.success(), "the recorded process fails: {status}");
    parse(&std::fs::read_to_string(log).expect("strace wrote its log"))
}

fn parse(log: &str) -> Record {
    let mut record = Record::default();
    let mut under_way: HashMap<&str, (usize, String)> = HashMap::new();
    for line in log.lines() {
        let (process, text) = line.split_once(' ').expect("a line begins with the process");
        let text = text.trim_start();
        if text.starts_with("+++") || text.starts_with("---") {
            continue;
        }
        if let Some(rest) = text.strip_prefix("<... ") {
            let (index, begun) = under_way.remove(process).expect("what is resumed was begun");
            let (_, rest) = rest.split_once("resumed>").expect("a resumed call says so");
            record.calls[index] = call(&(begun + rest));
            record.moments.push(Moment::End(index));
        } else if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            let index = record.calls.len();
            record.calls.push(call(&format!("{begun}) = ?")));
            record.moments.push(Moment::Begin(index));
            under_way.insert(process, (index, begun.to_owned()));
        } else {
            let index = record.calls.len();
            record.calls.push(call(text));
            record.moments.extend([Moment::Begin(index), Moment::End(index)]);
        }
    }
    record
}

/// `name(argument, …) = result …`
fn call(text: &str) -> Call {
    let (name, rest) = text.split_once('(').unwrap_or_else(|| panic!("{text:.80} is no call"));
    let (arguments, result) = rest
        .rsplit_once(" = ")
        .unwrap_or_else(|| panic!("{text:.80} has no result"));
    let arguments = arguments.trim_end().trim_end_matches(')');
    let first = result.split_whitespace().next().unwrap_or("?");
    let call = Call {
        name: name.to_owned(),
        arguments: split(arguments),
        result: number(first),
    };
    let is_refused = REFUSED.split(',').any(|name| name == call.name);
    assert!(
        !is_refused || call.result.is_some_and(|result| result < 0),
        "the replay does not know {text:.80}"
    );
    call
}

/// A number as strace writes it; `None` for `?`.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|address| address as i64),
        None => text.parse().ok(),
    }
}

/// The arguments, cut at the commas that are in no text, list or structure.
fn split(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut is_quoted) = (vec![String::new()], 0, false);
    for character in text.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            ',' if !is_quoted && depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().expect("there is one").push(character);
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}

impl Call {
    pub(crate) fn is_done(&self) -> bool {
        self.result.is_some_and(|result| result >= 0)
    }

    pub(crate) fn number(&self, index: usize) -> i64 {
        let argument = &self.arguments[index];
        number(argument).unwrap_or_else(|| panic!("{argument:.80} is no number in {}", self.name))
    }

    pub(crate) fn has_flag(&self, index: usize, flag: &str) -> bool {
        self.arguments
            .get(index)
            .is_some_and(|flags| flags.split('|').any(|one| one == flag))
    }

    /// The path in argument `index`.
    pub(crate) fn path(&self, index: usize) -> String {
        String::from_utf8(quoted(&self.arguments[index])).expect("the paths of a test are UTF-8")
    }

    /// The bytes in argument `index`: a text, or the texts of a list of buffers.
    pub(crate) fn data(&self, index: usize) -> Vec<u8> {
        let argument = &self.arguments[index];
        assert!(
            !argument.contains("\"..."),
            "the record of a {} is cut short",
            self.name
        );
        match argument.starts_with('[') {
            true => argument.split("iov_base=").skip(1).flat_map(quoted).collect(),
            false => quoted(argument),
        }
    }
}

/// The bytes of the first quoted text, all of whose bytes are written as `\xHH`.
fn quoted(text: impl AsRef<str>) -> Vec<u8> {
    let text = text
        .as_ref()
        .split('"')
        .nth(1)
        .unwrap_or_else(|| panic!("{:.80} is no text", text.as_ref()));
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("strace writes hexadecimal digits");
    text.split("\\x").skip(1).map(byte).collect()
}
