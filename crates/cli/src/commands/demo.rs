//! `garret demo`: a short tour that a newcomer understands, made with the real operations.

use std::fmt::Write;
use std::sync::Arc;

use clap::Args;
use garret::{
    Actor, DeclaredCapability, DiffRequest, Event, FsPolicy, Garret, Home, LogRequest, MemoryEvents, MergeOptions,
    Point, Result, RunRequest, SnapshotOptions, StorageConfig, Toolbox, UndoRequest, WorkspaceConfig,
};
use serde_json::{Value, json};

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::render::{self, history};
use crate::session::Session;

/// Everything happens in a temporary home, which is removed at the end.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {}

const POEM: &str = "# Attic\n\nA garret is a room of one's own,\nunder the roof.\n";
const PATCH: &str = "\
--- a/notes/attic.md
+++ b/notes/attic.md
@@ -1,2 +1,3 @@
 # Attic
+*a note on rooms*
 
--- /dev/null
+++ b/notes/todo.md
@@ -0,0 +1,4 @@
+- [ ] open the window
+- [ ] water the plant
+- [ ] read a book
+- [ ] sweep the room
";

const CODE: &str = "\
tasks = open('notes/todo.md').read().count('[ ]')
open('notes/count.txt', 'w').write(str(tasks))
tasks
";

impl DemoArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let directory =
            tempfile::tempdir().map_err(|_| CliFailure::unavailable("no temporary directory can be made here"))?;
        let mut tour = DemoTour::begin(session.garret(), directory.path()).await?;
        tour.show_writing().await;
        tour.show_editing().await;
        tour.show_patching().await;
        tour.show_searching().await;
        tour.show_conflict().await;
        tour.show_escape().await;
        tour.show_policy().await;
        tour.show_history().await?;
        tour.show_undo().await?;
        tour.show_code().await;
        tour.show_recovery().await?;
        tour.show_branching().await?;
        tour.show_events();
        tour.toolbox.workspace().close().await?;
        let (text, steps) = (tour.text, tour.steps);
        Ok(CliReport::success(text, json!({"steps": steps})))
    }
}

/// The tour so far.
struct DemoTour {
    garret: Garret,
    toolbox: Toolbox,
    events: Arc<MemoryEvents>,
    text: String,
    steps: Vec<Value>,
}

impl DemoTour {
    async fn begin(garret: &Garret, directory: &std::path::Path) -> Result<Self> {
        let events = Arc::new(MemoryEvents::default());
        let garret = garret
            .clone()
            .home(Home::new(directory))
            .events(events.clone())
            .actor(Actor::from_door("cli"));
        let mut config = WorkspaceConfig::with_storage(StorageConfig::Url("filestore".into()));
        let policy = FsPolicy {
            deny_read: vec!["secrets".into()],
            deny_write: vec!["secrets".into()],
            ..FsPolicy::default()
        };
        config.capabilities.fs = DeclaredCapability::Options(policy);
        config.capabilities.shell = DeclaredCapability::Switch(true);
        config.capabilities.code = DeclaredCapability::Switch(true);
        garret.create("demo", &config).await?;
        let toolbox = garret.open_named("demo").await?;
        let text = "\
Garret gives an agent its own workspace, in which every change can be undone. This tour works in a
workspace in a temporary home. A line that begins with `>` is a tool call, as a model makes it. A line
that begins with `$` is a command, as you would type it. The lines with `|` are the answer.
";
        Ok(Self {
            garret,
            toolbox,
            events,
            text: text.into(),
            steps: Vec::new(),
        })
    }

    fn add_section(&mut self, title: &str, words: &str) {
        let number = self.text.matches("\n== ").count() + 1;
        write!(self.text, "\n== {number}. {title}\n{words}\n").expect("a string takes everything");
    }

    /// Calls a tool and shows the call with its answer.
    async fn call_tool(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        write!(self.text, "\n  > {tool} {}\n", shorten_arguments(&arguments)).expect("a string takes everything");
        answer
            .text
            .lines()
            .for_each(|line| self.text.push_str(&format!("  | {line}\n")));
        self.steps.push(json!({"tool": tool, "ok": answer.ok}));
        answer.data.unwrap_or_default()
    }

    /// Shows a command with its output.
    fn show_command(&mut self, command: &str, printed: &str) {
        write!(self.text, "\n  $ garret {command}\n").expect("a string takes everything");
        for line in printed.lines() {
            writeln!(self.text, "  | {line}").expect("a string takes everything");
        }
        self.steps.push(json!({"command": command}));
    }

    async fn show_writing(&mut self) {
        self.add_section(
            "Write and read",
            "A write is atomic: a reader sees the old file or the new one, never a part of it.",
        );
        self.call_tool("write_file", json!({"path": "notes/attic.md", "content": POEM}))
            .await;
        self.call_tool("read_file", json!({"path": "notes/attic.md"})).await;
    }

    async fn show_editing(&mut self) {
        self.add_section(
            "Edit with a wrong quote, then with the right one",
            "Models often misquote a file. The error shows the nearest lines and the difference, so that the next try works.",
        );
        self.call_tool(
            "edit_file",
            json!({"path": "notes/attic.md", "old_text": "  under the roof.", "new_text": "with a window."}),
        )
        .await;
        self.call_tool(
            "edit_file",
            json!({"path": "notes/attic.md", "old_text": "under the roof.", "new_text": "with a window."}),
        )
        .await;
    }

    async fn show_patching(&mut self) {
        self.add_section(
            "Patch several files",
            "A unified diff changes all of its files or none of them.",
        );
        self.call_tool("apply_patch", json!({"diff": PATCH})).await;
    }

    async fn show_searching(&mut self) {
        self.add_section(
            "Search",
            "A search sees every completed write; there is no index that could be out of date.",
        );
        self.call_tool("grep", json!({"pattern": "room"})).await;
    }

    async fn show_conflict(&mut self) {
        self.add_section("No lost updates", "A read returns a version, and a write can require it. Here another write comes in between, so the last write is refused.");
        let read = self.toolbox.call("read_file", json!({"path": "notes/todo.md"})).await;
        let version = read.data.map_or(Value::Null, |data| data["version"].clone());
        self.call_tool(
            "append_file",
            json!({"path": "notes/todo.md", "content": "- [ ] written by somebody else\n"}),
        )
        .await;
        self.call_tool(
            "write_file",
            json!({"path": "notes/todo.md", "content": "- [x] all done\n", "if_version": version}),
        )
        .await;
    }

    async fn show_escape(&mut self) {
        self.add_section("Paths cannot escape", "No path leads outside the workspace.");
        self.call_tool("read_file", json!({"path": "../../etc/passwd"})).await;
    }

    async fn show_policy(&mut self) {
        self.add_section(
            "Rules",
            "A policy of this workspace denies `secrets`. The refusal names the rule, so that the model does not try again.",
        );
        self.call_tool("write_file", json!({"path": "secrets/key.pem", "content": "..."}))
            .await;
    }

    async fn show_history(&mut self) -> Result<()> {
        self.add_section(
            "Show the history",
            "The history has every change: who made it, and the content of each file before it.",
        );
        let workspace = self.toolbox.workspace().clone();
        let log = workspace.log(LogRequest::default()).await?;
        let lines = log.changes.iter().map(|change| {
            let mut cells = history::change_cells(change);
            // Without the time, which would make every tour print something else.
            cells.remove(1);
            cells
        });
        self.show_command("-w demo log", &render::format_table(lines));
        let diff = DiffRequest {
            from: Point::Number(2),
            ..DiffRequest::default()
        };
        self.show_command("-w demo diff 2", &workspace.diff(diff).await?.diff);
        Ok(())
    }

    async fn show_undo(&mut self) -> Result<()> {
        self.add_section(
            "Undo",
            "An undo is a change itself and can be reversed. A second undo goes one change further back.",
        );
        let workspace = self.toolbox.workspace().clone();
        self.call_tool("rm", json!({"path": "notes", "recursive": true})).await;
        let undone = workspace.undo(UndoRequest::Last(1)).await?;
        self.show_command("-w demo undo", &history::describe_result(&undone, ""));
        self.call_tool("read_file", json!({"path": "notes/todo.md"})).await;
        Ok(())
    }

    async fn show_code(&mut self) {
        self.add_section(
            "Run code",
            "Code runs in a sandbox. The answer has the value of the last line, and all files that the code writes are one change.",
        );
        self.call_tool("run_code", json!({"language": "python", "code": CODE}))
            .await;
    }

    async fn show_recovery(&mut self) -> Result<()> {
        self.add_section(
            "Delete everything, and restore it",
            "A command runs in a sandbox, on a layer over the files. All its effects are one change, and undo restores the files.",
        );
        let command = RunRequest {
            timeout: Some(std::time::Duration::from_secs(30)),
            ..RunRequest::shell("rm -rf * && ls -A")
        };
        let workspace = self.toolbox.workspace().clone();
        let ran = match workspace.run(command).await {
            Ok(ran) => ran,
            Err(error) => {
                // The tour goes on without this step on a machine that has no sandbox.
                let told = format!("{error}\n`garret doctor` shows what this machine lacks");
                self.show_command("-w demo run -c 'rm -rf * && ls -A'", &told);
                return Ok(());
            }
        };
        let told = format!("{}{}", ran.output, ran.changed.describe_counts());
        self.show_command("-w demo run -c 'rm -rf * && ls -A'", &told);
        self.call_tool("ls", json!({"path": "."})).await;
        let undone = workspace.undo(UndoRequest::Last(1)).await?.change;
        let number = undone.map_or(0, |change| change.number);
        self.show_command("-w demo undo", &format!("change {number}: all files are restored"));
        self.call_tool("ls", json!({"path": "notes"})).await;
        Ok(())
    }

    async fn show_branching(&mut self) -> Result<()> {
        self.add_section(
            "Branch and merge",
            "A branch is a workspace that begins at a point of another one. Creating it copies no files. A merge brings its changes back.",
        );
        let workspace = self.toolbox.workspace().clone();
        let taken = workspace.snapshot("before", SnapshotOptions::default()).await?;
        self.show_command(
            "-w demo snapshot create before",
            &format!("snapshot before of change {}", taken.number),
        );
        let made = workspace.branch("try", &Point::Snapshot("before".into())).await?;
        self.show_command(
            "-w demo branch create try --from before",
            &format!("branch try begins at change {}", made.fork),
        );
        let demo = std::mem::replace(&mut self.toolbox, self.garret.open_named("try").await?);
        self.text.push_str("\n  in `try`:\n");
        self.call_tool("edit_file", tick_task("open the window")).await;
        self.toolbox = demo;
        self.text.push_str("\n  meanwhile in `demo`:\n");
        self.call_tool("edit_file", tick_task("sweep the room")).await;
        let merged = workspace.merge("try", MergeOptions::default()).await?;
        self.show_command(
            "-w demo merge try",
            &super::merge::merge_text("try", &merged, garret::OnConflict::Report),
        );
        self.call_tool("read_file", json!({"path": "notes/todo.md"})).await;
        Ok(())
    }

    fn show_events(&mut self) {
        self.add_section(
            "The operations log",
            "Every operation writes one event, also if it is refused. Events contain no file content.",
        );
        let lines: Vec<String> = self.events.events().iter().map(event_line).collect();
        write!(self.text, "\n{}\n", lines.join("\n")).expect("a string takes everything");
        self.text.push_str(
            "\nNext: `garret create NAME` creates a permanent workspace; `garret mcp DIR` serves a directory to any MCP client;\n`garret --help` lists the commands.\n",
        );
    }
}

/// Returns the arguments that mark a task of the list as done.
fn tick_task(task: &str) -> Value {
    let (old, new) = (format!("- [ ] {task}"), format!("- [x] {task}"));
    json!({"path": "notes/todo.md", "old_text": old, "new_text": new})
}

fn event_line(event: &Event) -> String {
    format!(
        "  {:12} {:18} {}",
        event.operation,
        event.path.as_deref().unwrap_or("-"),
        event.outcome
    )
}

/// Formats arguments on one line, and cuts long ones.
fn shorten_arguments(arguments: &Value) -> String {
    let text = arguments.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
