//! The pieces of work, with names and content as in `bench/peers/work.py` and `work.mjs`.

use serde::Serialize;

use crate::measure::at_most;

pub(super) const LINE: u32 = 64;
pub(super) const FOLDERS: u32 = 10;
pub(super) const BIG: &str = "big.txt";

/// How much there is to do.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Sizes {
    pub(super) files: u32,
    pub(super) edits: u32,
    pub(super) file_lines: u32,
    pub(super) big_lines: u32,
}

impl Sizes {
    pub(super) fn wanted() -> Self {
        Self {
            files: at_most(1_000),
            edits: at_most(200),
            file_lines: 4096 / LINE,
            big_lines: 1024 * 1024 / LINE,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Task {
    Write,
    Read,
    List,
    Edit,
    Remove,
}

/// In the order in which each finds what it needs.
pub(super) const TASKS: [Task; 5] = [Task::Write, Task::Read, Task::List, Task::Edit, Task::Remove];

impl Task {
    /// Its name in a message.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::List => "list",
            Self::Edit => "edit",
            Self::Remove => "remove",
        }
    }

    /// One operation of it, in words.
    pub(super) fn what(self) -> String {
        match self {
            Self::Write => "write a new file of 4 KiB".into(),
            Self::Read => "read a file of 4 KiB".into(),
            Self::List => format!("list a directory of {}", Sizes::wanted().files / FOLDERS),
            Self::Edit => "replace a line in a file of 1 MiB".into(),
            Self::Remove => "delete a file of 4 KiB".into(),
        }
    }

    pub(super) fn operations(self) -> u32 {
        match self {
            Self::Write | Self::Read | Self::Remove => Sizes::wanted().files,
            Self::List => FOLDERS,
            Self::Edit => Sizes::wanted().edits,
        }
    }

    /// Which files a round is about: those who change something take new ones each time.
    pub(super) fn turn(self, round: usize) -> u32 {
        match self {
            Self::Read | Self::List => 1,
            Self::Write | Self::Edit | Self::Remove => round as u32 + 1,
        }
    }
}

pub(super) fn line(text: &str) -> String {
    format!("{text:.<width$}\n", width = LINE as usize - 1)
}

pub(super) fn name(turn: u32, number: u32) -> String {
    format!("r{turn}/d{}/f{number}.txt", number % FOLDERS)
}

pub(super) fn big_line(place: u32, turn: u32) -> String {
    line(&format!("line {place:08} turn {turn:08} "))
}
