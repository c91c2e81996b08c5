//! What the processes of a command used so far, all together, as the kernel counts it for each.
//!
//! The view is the `/proc` of the command's own process namespace: whatever the command started is in it, daemons too, and nothing else is.
//! What ended is counted by whoever waited for it, in the end by the init.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use super::init::numbers;

/// What a command used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) cpu_ms: u64,
    /// Bytes that were written to files that reach a disk.
    pub(super) written: u64,
    /// Bytes of memory that are in use, what is shared counted in part.
    pub(super) memory: u64,
}

/// Takes a sample; `with_memory` where nothing else limits it.
pub(super) fn take(processes: &OwnedFd, with_memory: bool) -> Sample {
    let mut sample = Sample::default();
    for pid in numbers(processes).unwrap_or_default() {
        sample.cpu_ms += read(processes, pid, "stat").map_or(0, |text| cpu_ms(&text));
        sample.written += read(processes, pid, "io").map_or(0, |text| field(&text, "write_bytes:"));
        if with_memory {
            sample.memory += read(processes, pid, "smaps_rollup").map_or(0, |text| field(&text, "Pss:") * 1024);
        }
    }
    sample
}

fn read(processes: &OwnedFd, pid: u32, name: &str) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(processes, format!("{pid}/{name}"), flags, Mode::empty()).ok()?;
    let mut bytes = vec![0; 4096];
    let length = rustix::io::read(&file, &mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

/// The time of a process and of the children it waited for: the fields 14 to 17, in hundredths of a second.
fn cpu_ms(stat: &str) -> u64 {
    let after_name = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    let ticks = after_name.split_whitespace().skip(11).take(4);
    ticks.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10
}

fn field(text: &str, name: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_behind_any_name() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 100 0 0 0 3 4 5 6 20 0 1 0 1 1 1";
        assert_eq!(cpu_ms(stat), 180);
        assert_eq!(cpu_ms(""), 0);
    }

    #[test]
    fn what_was_written_is_not_what_was_cancelled() {
        let text = "rchar: 1\nwchar: 2\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n";
        assert_eq!(field(text, "write_bytes:"), 4096);
    }
}
