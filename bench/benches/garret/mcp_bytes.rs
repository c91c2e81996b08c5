//! What a model reads: the bytes of the tool list and of thirty typical answers, beside `@modelcontextprotocol/server-filesystem`.
//!
//! Both servers work on a copy of the same small project and answer over the same protocol. Counted are the bytes of the whole answer, as
//! a line of JSON. Where the other server has no such operation, only Garret's answer is counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::mcp::Client;
use crate::search::program;

/// How the bytes of both are compared where both have the operation.
const HEAD: &str = "| answer | Garret | server-filesystem |\n|---|---|---|\n";

/// One operation, and how each server is asked for it.
struct Case {
    what: &'static str,
    garret: (&'static str, Value),
    peer: Option<(&'static str, Value)>,
}

/// The part of the page about bytes.
pub(crate) fn section() -> String {
    let heading = "## Bytes that a model reads over MCP\n\n";
    let (own, theirs) = (project(), project());
    let mut garret = Client::start(garret_command(&["--shell"]), own.path());
    let mut peer = peer_command(theirs.path()).map(|command| Client::start(command, theirs.path()));
    let mut rows = tool_lists(own.path(), peer.as_mut());
    let (mut own_total, mut their_total) = (0, 0);
    for case in cases() {
        let own_bytes = answer_bytes(&mut garret, &case.garret, case.what);
        let asked = peer.as_mut().zip(case.peer.as_ref());
        let their_bytes = asked.map(|(peer, call)| answer_bytes(peer, call, case.what));
        if let Some(bytes) = their_bytes {
            own_total += own_bytes;
            their_total += bytes;
        }
        rows += &row(case.what, own_bytes, their_bytes);
    }
    let their_total = peer.is_some().then_some(their_total);
    rows += &row("**all answers that both have**", own_total, their_total);
    let note = match peer {
        Some(_) => "",
        None => "`@modelcontextprotocol/server-filesystem` could not be installed here and has no numbers.\n\n",
    };
    format!("{heading}{note}{HEAD}{rows}\n")
}

fn row(what: &str, own: usize, theirs: Option<usize>) -> String {
    let theirs = theirs.map_or_else(|| "—".to_owned(), |bytes| bytes.to_string());
    format!("| {what} | {own} | {theirs} |\n")
}

/// The tool lists: as the server comes, with everything it can offer, and with output schemas.
fn tool_lists(directory: &Path, mut peer: Option<&mut Client>) -> String {
    let list = |client: &mut Client| {
        let line = client.answer_line("tools/list", json!({}));
        let answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
        let tools = answer["result"]["tools"].as_array().expect("it lists its tools").len();
        (line.len(), tools)
    };
    let mut rows = String::new();
    for (what, arguments) in [
        ("as it comes", &[][..]),
        ("with `--shell --code`", &["--shell", "--code"]),
        (
            "with `--shell --code --structured`",
            &["--shell", "--code", "--structured"],
        ),
    ] {
        let (bytes, tools) = list(&mut Client::start(garret_command(arguments), directory));
        let theirs = peer.take().map(&list);
        let beside = theirs.map_or_else(String::new, |(_, tools)| format!(", beside {tools}"));
        let what = format!("tool list {what}: {tools} tools{beside}");
        rows += &row(&what, bytes, theirs.map(|(bytes, _)| bytes));
    }
    rows
}

fn answer_bytes(client: &mut Client, (tool, arguments): &(&str, Value), what: &str) -> usize {
    let line = client.answer_line("tools/call", json!({"name": tool, "arguments": arguments}));
    let answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
    let is_error = answer["result"]["isError"] == true;
    assert_eq!(is_error, what.starts_with("error: "), "{what} by {tool}: {line:.300}");
    line.len()
}

fn garret_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(["mcp", "."]).args(arguments);
    command
}

fn peer_command(directory: &Path) -> Option<Command> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/node_modules");
    let script: PathBuf = folder.join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let mut command = Command::new("node");
    command.arg(&script).arg(directory).stderr(Stdio::null());
    script.exists().then_some(command)
}

/// A small project: forty source files, a long log, notes, and configuration.
fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let put = |path: String, content: String| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is made");
        std::fs::write(path, content).expect("it is written");
    };
    for number in 0..40 {
        let line = |line: usize| format!("    let value_{line} = compute_{number}(input, {line})?; // step {line}\n");
        let body: String = (0..120).map(line).collect();
        put(
            format!("src/part_{}/module_{number}.rs", number % 4),
            format!("pub fn run_{number}() {{\n{body}}}\n"),
        );
    }
    let entry = |number| format!("2026-01-02T03:04:05Z INFO request {number} took {} ms\n", number % 97);
    put("logs/server.log".to_owned(), (0..5_000).map(entry).collect());
    put("README.md".to_owned(), "# Sample\n\nA small project.\n".repeat(10));
    put(
        "config.json".to_owned(),
        "{\n  \"name\": \"sample\",\n  \"retries\": 3\n}\n".to_owned(),
    );
    directory
}

/// The operations in the order in which both servers do them.
fn cases() -> Vec<Case> {
    const MODULE: &str = "src/part_0/module_0.rs";
    let case = |what, garret, peer| Case { what, garret, peer };
    let edit = |path: &str, old: &str, new: &str| {
        (
            ("edit_file", json!({"path": path, "old_text": old, "new_text": new})),
            Some((
                "edit_file",
                json!({"path": path, "edits": [{"oldText": old, "newText": new}]}),
            )),
        )
    };
    let both = |what, (garret, peer)| Case { what, garret, peer };
    let diff = "--- a/config.json\n+++ b/config.json\n@@ -1,4 +1,4 @@\n {\n   \"name\": \"sample\",\n-  \"retries\": 4\n+  \"retries\": 5\n }\n";
    vec![
        case(
            "read a file of 30 lines",
            ("read_file", json!({"path": "README.md"})),
            Some(("read_text_file", json!({"path": "README.md"}))),
        ),
        case(
            "read a file of 120 lines",
            ("read_file", json!({"path": MODULE})),
            Some(("read_text_file", json!({"path": MODULE}))),
        ),
        case(
            "read a log of 5,000 lines",
            ("read_file", json!({"path": "logs/server.log"})),
            Some(("read_text_file", json!({"path": "logs/server.log"}))),
        ),
        case(
            "read the first 20 lines",
            ("read_file", json!({"path": MODULE, "limit": 20})),
            Some(("read_text_file", json!({"path": MODULE, "head": 20}))),
        ),
        case(
            "read 20 lines in the middle",
            ("read_file", json!({"path": MODULE, "offset": 50, "limit": 20})),
            None,
        ),
        case(
            "read a small JSON file",
            ("read_file", json!({"path": "config.json"})),
            Some(("read_text_file", json!({"path": "config.json"}))),
        ),
        case(
            "error: read a file that is not there",
            ("read_file", json!({"path": "src/none.rs"})),
            Some(("read_text_file", json!({"path": "src/none.rs"}))),
        ),
        case(
            "list a directory",
            ("ls", json!({"path": "src/part_0"})),
            Some(("list_directory", json!({"path": "src/part_0"}))),
        ),
        case(
            "list a directory with sizes",
            ("ls", json!({"path": "src/part_1"})),
            Some(("list_directory_with_sizes", json!({"path": "src/part_1"}))),
        ),
        case(
            "list the root",
            ("ls", json!({})),
            Some(("list_directory", json!({"path": "."}))),
        ),
        case(
            "list the whole tree",
            ("ls", json!({"recursive": true})),
            Some(("directory_tree", json!({"path": "."}))),
        ),
        case(
            "error: list a directory that is not there",
            ("ls", json!({"path": "none"})),
            Some(("list_directory", json!({"path": "none"}))),
        ),
        case(
            "find files by name, 40 found",
            ("glob", json!({"pattern": "**/*.rs"})),
            Some(("search_files", json!({"path": ".", "pattern": "**/*.rs"}))),
        ),
        case(
            "find files by name, 1 found",
            ("glob", json!({"pattern": "**/module_7.rs"})),
            Some(("search_files", json!({"path": ".", "pattern": "**/module_7.rs"}))),
        ),
        case(
            "find files by name, none found",
            ("glob", json!({"pattern": "**/*.py"})),
            Some(("search_files", json!({"path": ".", "pattern": "**/*.py"}))),
        ),
        case(
            "search contents, 40 lines found",
            ("grep", json!({"pattern": "value_7 ="})),
            None,
        ),
        case(
            "search contents, 1 line found",
            ("grep", json!({"pattern": "pub fn run_3\\(", "path": "src"})),
            None,
        ),
        case(
            "search contents, too many to show",
            ("grep", json!({"pattern": "INFO"})),
            None,
        ),
        case(
            "search contents, nothing found",
            ("grep", json!({"pattern": "no such words"})),
            None,
        ),
        case(
            "search contents, names alone",
            ("grep", json!({"pattern": "compute", "output": "files"})),
            None,
        ),
        case(
            "facts about a file",
            ("stat", json!({"path": MODULE})),
            Some(("get_file_info", json!({"path": MODULE}))),
        ),
        case(
            "write a new file",
            ("write_file", json!({"path": "src/new.rs", "content": "fn new() {}\n"})),
            Some(("write_file", json!({"path": "src/new.rs", "content": "fn new() {}\n"}))),
        ),
        case(
            "write over a file",
            (
                "write_file",
                json!({"path": "src/new.rs", "content": "fn newer() {}\n"}),
            ),
            Some((
                "write_file",
                json!({"path": "src/new.rs", "content": "fn newer() {}\n"}),
            )),
        ),
        both("edit a line", edit("config.json", "\"retries\": 3", "\"retries\": 4")),
        both(
            "error: edit text that is not there",
            edit("config.json", "\"retries\": 99", "\"retries\": 1"),
        ),
        case("apply a patch", ("apply_patch", json!({"diff": diff})), None),
        case(
            "make a directory",
            ("mkdir", json!({"path": "build"})),
            Some(("create_directory", json!({"path": "build"}))),
        ),
        case(
            "move a file",
            ("move", json!({"src": "src/new.rs", "dest": "build/new.rs"})),
            Some((
                "move_file",
                json!({"source": "src/new.rs", "destination": "build/new.rs"}),
            )),
        ),
        case(
            "run a command",
            ("run", json!({"command": "ls src && wc -l README.md"})),
            None,
        ),
        case("undo the last change", ("undo", json!({})), None),
    ]
}
