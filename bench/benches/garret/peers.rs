//! The same work through agentfs-sdk, for Python and for Node, and through Garret's filestore.
//!
//! Each SDK runs in an interpreter of its own, which does a whole piece of work at a message (`bench/peers/work.py`, `work.mjs`); the
//! clock is here. Garret is measured as the library in this process, and as `garret mcp` called by the same interpreter, so that one
//! comparison has the border between processes and the other the language against it.

mod driver;
mod library;
mod settings;
mod task;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::task::block_in_place;

use self::driver::Driver;
use self::library::Library;
use self::settings::Settings;
use self::task::{Sizes, TASKS, Task};
use crate::measure::{Line, in_changing_turns};
use crate::report;

const ROUNDS: usize = 3;

/// An SDK to measure beside.
struct Peer {
    name: &'static str,
    language: &'static str,
    program: &'static str,
    script: &'static str,
    /// What is there when it is installed.
    sign: &'static str,
}

const PEERS: [Peer; 2] = [
    Peer {
        name: "agentfs-sdk, Python",
        language: "Python",
        program: ".venv/bin/python",
        script: "work.py",
        sign: ".venv/bin/python",
    },
    Peer {
        name: "agentfs-sdk, Node",
        language: "Node",
        program: "node",
        script: "work.mjs",
        sign: "node_modules/agentfs-sdk/package.json",
    },
];

/// What both sides promise of a write that returned.
#[derive(Clone, Copy, PartialEq)]
enum Durability {
    /// It survives a power loss: the SDK as it comes, Garret as it comes.
    Full,
    /// It may be lost with the power: the SDK without syncs, Garret with few.
    Relaxed,
}

impl Durability {
    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }

    /// The setting that makes the SDK so; it comes with full. (Its engine reads any word but `OFF` as `OFF`, so full is left alone.)
    fn synchronous(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Relaxed => Some("OFF"),
        }
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// The part of the page about others.
pub(crate) async fn section() -> String {
    let mut page = String::from("## Beside agentfs-sdk\n\n");
    let (here, missing): (Vec<_>, Vec<_>) = PEERS.iter().partition(|peer| scripts().join(peer.sign).exists());
    for peer in missing {
        page += &format!("{} could not be installed here and has no lines.\n\n", peer.name);
    }
    if here.is_empty() {
        return page;
    }
    let mut lines = Vec::new();
    let mut settings = Vec::new();
    for durability in [Durability::Full, Durability::Relaxed] {
        for peer in &here {
            let told = block_in_place(|| measure(peer, durability, &mut lines));
            settings.push((*peer, durability, told));
        }
    }
    page + &introduction() + &report::table(&lines) + "\n" + &settings::table(&settings)
}

fn introduction() -> String {
    let sizes = Sizes::wanted();
    format!(
        "{} files of {} KiB of text in ten directories, and a file of {} KiB in which {} lines are replaced one by one. A line without \
         `garret mcp` is Garret's library in a Rust program; one with it is the same interpreter as beside it, which calls Garret in \
         another process over standard input and output, in JSON. `full` is how both sides come: a write that returned survives a \
         power loss. For `relaxed`, the SDK is told to sync nothing; Garret still syncs at checkpoints. Garret keeps every version of \
         every file all the while.\n\n",
        sizes.files,
        sizes.file_lines * task::LINE / 1024,
        sizes.big_lines * task::LINE / 1024,
        sizes.edits
    )
}

/// All tasks with one SDK; tells its settings.
fn measure(peer: &Peer, durability: Durability, lines: &mut Vec<Line>) -> Settings {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut agentfs = Driver::agentfs(peer, directory.path(), durability);
    let mut library = Library::open(directory.path(), durability.name());
    let mut mcp = (durability == Durability::Full).then(|| Driver::garret(peer, directory.path()));
    for task in TASKS {
        lines.extend(compare(task, peer, durability, &mut agentfs, &library, mcp.as_mut()));
    }
    let edited = agentfs.ask("big", 0);
    assert_eq!(edited, Value::from(library.big()), "both did the same edits");
    if mcp.take().is_some() {
        library = Library::open(&driver::home_of_mcp(directory.path()), "full");
        assert_eq!(edited, Value::from(library.big()), "both did the same edits");
    }
    serde_json::from_value(agentfs.ask("settings", 0)).expect("the script tells all of them")
}

/// One task in turns: the SDK, the library and, where it is there, the server.
fn compare(
    task: Task,
    peer: &Peer,
    durability: Durability,
    agentfs: &mut Driver,
    library: &Library,
    mcp: Option<&mut Driver>,
) -> Vec<Line> {
    let round = std::cell::Cell::new(0);
    let turn = || task.turn(round.get());
    let mut beside = || drop(agentfs.ask(task.name(), turn()));
    let mut in_process = || library.run(task, turn());
    let mut in_server = mcp.map(|mcp| || drop(mcp.ask(task.name(), turn())));
    let mut ways: Vec<&mut dyn FnMut()> = vec![&mut beside, &mut in_process];
    if let Some(in_server) = &mut in_server {
        ways.push(in_server);
    }
    let times = in_changing_turns(ROUNDS, |number| round.set(number), &mut ways);
    let line = |garret, by: String| Line {
        what: format!("{}, {}{by}", task.what(), durability.name()),
        floor_name: peer.name,
        aim: "",
        floor: times[0],
        garret,
        operations: task.operations(),
    };
    let by_mcp = || format!(", `garret mcp` from {}", peer.language);
    let mut lines = vec![line(times[1], String::new())];
    lines.extend(times.get(2).map(|time| line(*time, by_mcp())));
    lines
}
