//! One process: started, heard, and killed at its moment or left to its end.
//!
//! When it is killed depends on what it said, and not on how long it took for that: a loaded machine is slower, and kills no less work.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use garret_testkit::fixture::block_on;
use garret_testkit::fuzz::Random;

use crate::place::Place;
use crate::worker;

/// The longest that any process lives: one that waits for ever ends the run, and says so.
const LONGEST: Duration = Duration::from_secs(300);

/// What a process was started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    UntilKilled,
    ToTheEnd,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::UntilKilled => "work-until-killed",
            Self::ToTheEnd => "work-to-the-end",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::UntilKilled, Self::ToTheEnd]
            .into_iter()
            .find(|role| role.name() == name)
    }
}

/// The life of the process that was started.
pub(crate) fn live(home: &Path, place: Place, name: &str, role: Role) {
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        let _ = writeln!(std::io::stderr(), "it still works after {LONGEST:?}");
        std::process::abort();
    });
    let steps = match role {
        Role::ToTheEnd => place.steps(),
        Role::UntilKilled => usize::MAX,
    };
    block_on(worker::work(home, place, name, steps));
}

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// After it has said so many lines,
    lines: usize,
    /// and then this long.
    pause: Duration,
}

impl End {
    /// A part of them is killed while they open the home, before they say anything.
    pub(crate) fn drawn(random: &mut Random) -> Self {
        let lines = match random.below(4) {
            0 => 0,
            _ => random.below(40) as usize,
        };
        Self {
            lines,
            pause: Duration::from_micros(random.below(40_000)),
        }
    }
}

/// A process that runs.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it complained of. A file, so that nobody has to listen meanwhile.
    complaints: File,
}

impl Process {
    pub(crate) fn start(role: Role, home: &Path, place: Place, name: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a file");
        let complaints = tempfile::tempfile().expect("a temporary file can be made");
        let mut child = Command::new(program)
            .args([
                role.name().as_ref(),
                home.as_os_str(),
                place.name().as_ref(),
                name.as_ref(),
            ])
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone().expect("a file can be had twice"))
            .spawn()
            .expect("it can be started");
        let output = child.stdout.take().expect("it is piped");
        Self {
            name: name.to_owned(),
            child,
            output: BufReader::new(output),
            complaints,
        }
    }

    /// Waits for its end; gives its name and everything that it said.
    pub(crate) fn ends(mut self) -> (String, String) {
        let said = self.rest();
        let status = self.child.wait().expect("it was started");
        self.check_complaints();
        assert!(status.success(), "{} fails: {status}", self.name);
        (self.name, said)
    }

    /// Kills it at its moment; gives its name and everything that it said.
    pub(crate) fn dies(mut self, end: End) -> (String, String) {
        let mut said = String::new();
        for _ in 0..end.lines {
            // Nothing is read where it has ended, and that is found out below.
            self.output.read_line(&mut said).expect("it is text");
        }
        std::thread::sleep(end.pause);
        self.child.kill().expect("it was started");
        said.push_str(&self.rest());
        let status = self.child.wait().expect("it was started");
        self.check_complaints();
        assert!(status.code().is_none(), "{} ended by itself: {status}", self.name);
        (self.name, said)
    }

    fn rest(&mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("it is text");
        said
    }

    /// One that panics may be killed before that ends it, so its end alone does not tell.
    fn check_complaints(&mut self) {
        let mut complaints = String::new();
        self.complaints.rewind().expect("it is a file");
        self.complaints.read_to_string(&mut complaints).expect("it is text");
        assert!(complaints.is_empty(), "{} complains: {complaints}", self.name);
    }
}
