//! How much a command may use.

use std::time::Duration;

use serde::Serialize;

/// How much a command may use; `None` for as much as there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time on the clock; at its end every process of the command ends.
    pub wall: Option<Duration>,
    /// Time on processors.
    pub cpu: Option<Duration>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Bytes in one file.
    pub file_size: Option<u64>,
    /// Bytes written to the layer and `/tmp` in all.
    pub written: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Bytes of output that are kept: half from its head, half from its tail.
    pub output: u64,
}

impl Default for Limits {
    /// Enough for builds and tests, too little to harm the machine.
    fn default() -> Self {
        const MEBIBYTE: u64 = 1024 * 1024;
        Self {
            wall: Some(Duration::from_secs(120)),
            cpu: None,
            memory: Some(4096 * MEBIBYTE),
            processes: Some(512),
            file_size: Some(4096 * MEBIBYTE),
            written: Some(8192 * MEBIBYTE),
            open_files: Some(4096),
            output: MEBIBYTE,
        }
    }
}

/// A limit that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Time on the clock.
    Wall,
    /// Time on processors.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes in one file.
    FileSize,
    /// Bytes written in all.
    Written,
    /// The second in which processes must stand still when they are paused.
    Pause,
}

impl Limit {
    /// The limit in words, after "its limit of".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Wall => "time",
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::FileSize => "bytes in one file",
            Self::Written => "bytes written",
            Self::Pause => "one second to stand still when paused",
        }
    }
}
