//! The work through Garret's library, with the whole workspace stack.

use std::path::Path;

use garret::{Edit, EditOptions, Garret, Home, ListRequest, RemoveOptions, Workspace, WorkspaceConfig, WriteOptions};
use serde_json::json;

use super::task::{BIG, FOLDERS, LINE, Sizes, Task, big_line, line, name};

/// The name of the workspace in its home.
pub(super) const WORKSPACE: &str = "box";

pub(super) struct Library {
    workspace: Workspace,
    sizes: Sizes,
    rest: String,
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

impl Library {
    /// Opens the workspace of the home below `directory`; a new one gets the large file.
    pub(super) fn open(directory: &Path, durability: &str) -> Self {
        let storage = json!({"kind": "filestore", "workspace": WORKSPACE, "durability": durability});
        let config = json!({"storage": storage}).to_string();
        let config = WorkspaceConfig::from_json(&config).expect("the configuration is right");
        let garret = Garret::new().home(Home::new(directory.join("home")));
        let opened = wait(garret.open_config("bench", &config)).expect("the home opens");
        let sizes = Sizes::wanted();
        let library = Self {
            workspace: opened.workspace().clone(),
            sizes,
            rest: line("the same in every file ").repeat(sizes.file_lines as usize - 1),
        };
        wait(library.prepare());
        library
    }

    async fn prepare(&self) {
        let is_there = self.workspace.exists(BIG).await.expect("it can be looked at").exists;
        if !is_there {
            let lines = (0..self.sizes.big_lines).map(|place| big_line(place, 0));
            self.write(BIG, lines.collect()).await;
        }
    }

    /// Does a piece of work.
    pub(super) fn run(&self, task: Task, turn: u32) {
        wait(async {
            match task {
                Task::Write => self.write_all(turn).await,
                Task::Read => self.read_all(turn).await,
                Task::List => self.list_all(turn).await,
                Task::Edit => self.edit_all(turn).await,
                Task::Remove => self.remove_all(turn).await,
            }
        });
    }

    /// The large file.
    pub(super) fn big(&self) -> String {
        wait(self.read(BIG))
    }

    async fn write(&self, path: &str, content: String) {
        let written = self.workspace.write(path, content, WriteOptions::default());
        written.await.expect("it is written");
    }

    async fn read(&self, path: &str) -> String {
        let read = self.workspace.read_bytes(path).await.expect("it is read");
        String::from_utf8(read.bytes.into()).expect("it is text")
    }

    async fn write_all(&self, turn: u32) {
        for number in 0..self.sizes.files {
            let head = line(&format!("turn {turn:08} file {number:08} "));
            self.write(&name(turn, number), head + &self.rest).await;
        }
    }

    async fn read_all(&self, turn: u32) {
        for number in 0..self.sizes.files {
            let content = self.read(&name(turn, number)).await;
            assert_eq!(content.len() as u32, self.sizes.file_lines * LINE);
        }
    }

    async fn list_all(&self, turn: u32) {
        for folder in 0..FOLDERS {
            let path = format!("r{turn}/d{folder}");
            let listed = self.workspace.list(&path, ListRequest::default()).await;
            let entries = listed.expect("it is listed").entries;
            assert_eq!(entries.len() as u32, self.sizes.files / FOLDERS);
        }
    }

    async fn edit_all(&self, turn: u32) {
        for edit in 0..self.sizes.edits {
            let place = edit * self.sizes.big_lines / self.sizes.edits;
            let edit = Edit {
                old_text: big_line(place, turn - 1),
                new_text: big_line(place, turn),
                ..Edit::default()
            };
            let edited = self.workspace.edit(BIG, &[edit], EditOptions::default()).await;
            edited.expect("the line is there once");
        }
    }

    async fn remove_all(&self, turn: u32) {
        for number in 0..self.sizes.files {
            let path = name(turn, number);
            let removed = self.workspace.remove(&path, RemoveOptions::default()).await;
            removed.expect("it is there");
        }
    }
}
