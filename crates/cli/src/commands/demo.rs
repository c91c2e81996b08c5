//! `garret demo`: a short tour that a newcomer understands, made with the real operations.

use std::fmt::Write;
use std::sync::Arc;

use clap::Args;
use garret::{Declared, Event, FsPolicy, Garret, MemoryEvents, Toolbox};
use serde_json::{Value, json};

use crate::output::{Failure, Outcome, Report};
use crate::session::Session;

/// Everything happens in a temporary directory, which is removed at the end.
#[derive(Debug, Args)]
pub(crate) struct Demo {}

const POEM: &str = "# Attic\n\nA garret is a room of one's own,\nunder the roof.\n";
const PATCH: &str = "\
--- a/notes/attic.md
+++ b/notes/attic.md
@@ -1,2 +1,3 @@
 # Attic
+*a note on rooms*
 
--- /dev/null
+++ b/notes/todo.md
@@ -0,0 +1,2 @@
+- [ ] open the window
+- [ ] sweep the room
";

impl Demo {
    pub(crate) async fn run(&self, _session: &Session) -> Outcome {
        let directory =
            tempfile::tempdir().map_err(|_| Failure::unavailable("no temporary directory can be made here"))?;
        let mut tour = Tour::begin(directory.path()).await?;
        tour.writing().await;
        tour.editing().await;
        tour.patching().await;
        tour.searching().await;
        tour.conflict().await;
        tour.escape(directory.path()).await;
        tour.policy().await;
        tour.events();
        let (text, steps) = (tour.text, tour.steps);
        Ok(Report::done(text, json!({"steps": steps})))
    }
}

/// The tour so far.
struct Tour {
    toolbox: Toolbox,
    events: Arc<MemoryEvents>,
    text: String,
    steps: Vec<Value>,
}

impl Tour {
    async fn begin(directory: &std::path::Path) -> Result<Self, Failure> {
        let events = Arc::new(MemoryEvents::default());
        let garret = Garret::new().events(events.clone());
        let mut config = Garret::config_of_dir(directory)?;
        let policy = FsPolicy {
            deny_read: vec!["secrets".into()],
            deny_write: vec!["secrets".into()],
            ..FsPolicy::default()
        };
        config.capabilities.fs = Declared::Options(policy);
        let toolbox = garret.open_config("demo", &config).await?;
        let text = "\
Garret gives an agent a room of its own. This tour calls the tools that a model would call,
in a workspace on a temporary directory. Each call is shown with the answer the model reads.
";
        Ok(Self {
            toolbox,
            events,
            text: text.into(),
            steps: Vec::new(),
        })
    }

    fn say(&mut self, title: &str, words: &str) {
        let number = self.text.matches("\n== ").count() + 1;
        write!(self.text, "\n== {number}. {title}\n{words}\n").expect("a string takes everything");
    }

    /// Calls a tool and shows the call with its answer.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        write!(self.text, "\n  > {tool} {}\n", shortened(&arguments)).expect("a string takes everything");
        answer
            .text
            .lines()
            .for_each(|line| self.text.push_str(&format!("  | {line}\n")));
        self.steps.push(json!({"tool": tool, "ok": answer.ok}));
        answer.data.unwrap_or_default()
    }

    async fn writing(&mut self) {
        self.say(
            "Write and read",
            "A write is atomic: whoever reads sees the old file or the new one, never a part.",
        );
        self.call("write_file", json!({"path": "notes/attic.md", "content": POEM}))
            .await;
        self.call("read_file", json!({"path": "notes/attic.md"})).await;
    }

    async fn editing(&mut self) {
        self.say(
            "Edit, wrongly and rightly",
            "Models misquote. The answer shows the nearest lines and what differs, so the next try is right.",
        );
        self.call(
            "edit_file",
            json!({"path": "notes/attic.md", "old_text": "  under the roof.", "new_text": "with a window."}),
        )
        .await;
        self.call(
            "edit_file",
            json!({"path": "notes/attic.md", "old_text": "under the roof.", "new_text": "with a window."}),
        )
        .await;
    }

    async fn patching(&mut self) {
        self.say(
            "Patch several files",
            "A unified diff changes all of its files, or none.",
        );
        self.call("apply_patch", json!({"diff": PATCH})).await;
    }

    async fn searching(&mut self) {
        self.say(
            "Search",
            "A search sees every write that returned before it; there is no index that could lag.",
        );
        self.call("grep", json!({"pattern": "room"})).await;
    }

    async fn conflict(&mut self) {
        self.say("Nothing is overwritten unseen", "A read gives a version, a write can demand it. Somebody writes in between, so the second write is refused.");
        let read = self.toolbox.call("read_file", json!({"path": "notes/todo.md"})).await;
        let version = read.data.map_or(Value::Null, |data| data["version"].clone());
        self.call(
            "append_file",
            json!({"path": "notes/todo.md", "content": "- [ ] written by somebody else\n"}),
        )
        .await;
        self.call(
            "write_file",
            json!({"path": "notes/todo.md", "content": "- [x] all done\n", "if_version": version}),
        )
        .await;
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the tour plays another program, which puts a link into the directory"
    )]
    async fn escape(&mut self, directory: &std::path::Path) {
        self.say(
            "No way out",
            "Somebody put a link to /etc into the directory. The kernel refuses to follow it, and so it would a race.",
        );
        let _ = std::os::unix::fs::symlink("/etc", directory.join("link"));
        self.call("read_file", json!({"path": "link/passwd"})).await;
        self.call("read_file", json!({"path": "../../etc/passwd"})).await;
    }

    async fn policy(&mut self) {
        self.say(
            "Rules",
            "This workspace denies `secrets`. A refusal names the rule, so the model does not try again.",
        );
        self.call("write_file", json!({"path": "secrets/key.pem", "content": "..."}))
            .await;
    }

    fn events(&mut self) {
        self.say(
            "The operations log",
            "Every operation left one event, the refused ones too; no content is in them.",
        );
        let lines: Vec<String> = self.events.events().iter().map(event_line).collect();
        write!(self.text, "\n{}\n", lines.join("\n")).expect("a string takes everything");
        self.text.push_str(
            "\nNext: `garret mcp DIR` serves a directory to any MCP client; `garret --help` lists the commands.\n",
        );
    }
}

fn event_line(event: &Event) -> String {
    format!(
        "  {:12} {:18} {}",
        event.operation,
        event.path.as_deref().unwrap_or("-"),
        event.outcome
    )
}

/// Arguments on one line, long ones cut.
fn shortened(arguments: &Value) -> String {
    let text = arguments.to_string();
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
