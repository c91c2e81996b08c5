//! How many requests each operation takes, counted by a proxy in front of the server.

use garret::text::edit::Edit;
use garret::{AppendOptions, EditOptions, GrepRequest, SnapshotOptions, UndoRequest};
use garret_testkit::s3::{Proxy, Server};

use super::{grep, open, run, wait, write};

/// What a first search of everything below `prefix` asks for and gets.
pub(super) fn of_first_grep(server: &Server, prefix: &str) -> String {
    let proxy = Proxy::before(server);
    let home = tempfile::tempdir().expect("a temporary directory");
    let toolbox = open(server, &proxy.endpoint(), prefix, home.path(), "durable");
    proxy.forget();
    grep(toolbox.workspace());
    let mut asked = proxy.operations();
    asked.sort_unstable();
    let received: usize = proxy.seen().iter().map(|seen| seen.received).sum();
    let kibibytes = received >> 10;
    format!(
        "{} requests ({}), {kibibytes} KiB of answers",
        asked.len(),
        counted(&asked)
    )
}

/// Operations and their requests as a Markdown table.
pub(super) fn table(server: &Server) -> String {
    let proxy = Proxy::before(server);
    let home = tempfile::tempdir().expect("a temporary directory");
    let toolbox = open(server, &proxy.endpoint(), &server.prefix(), home.path(), "durable");
    let workspace = toolbox.workspace();
    for number in 0..50 {
        write(
            workspace,
            &format!("d{}/f{number}.txt", number % 5),
            format!("content {number}\n"),
        );
    }
    let grep = || {
        let request = GrepRequest {
            pattern: "content".into(),
            ..GrepRequest::default()
        };
        wait(workspace.grep(request)).expect("it is searched");
    };
    let edit = Edit {
        old_text: "two".into(),
        new_text: "three".into(),
        ..Edit::default()
    };
    let operations: [(&str, &str, &dyn Fn()); 13] = [
        ("`stat` of a file", "1", &|| {
            drop(wait(workspace.stat("d0/f0.txt")).expect("it is there"))
        }),
        ("a new file", "1", &|| write(workspace, "d0/new.txt", "one\n")),
        ("a new file in a new directory", "", &|| {
            write(workspace, "e/new.txt", "one\n")
        }),
        ("an overwrite", "2", &|| write(workspace, "d0/new.txt", "two\n")),
        ("an edit", "2", &|| {
            wait(workspace.edit("d0/new.txt", std::slice::from_ref(&edit), EditOptions::default()))
                .expect("it is there");
        }),
        ("an append", "", &|| {
            wait(workspace.append("d0/new.txt", "more\n", AppendOptions::default())).expect("it is there");
        }),
        ("undo of it", "", &|| {
            drop(wait(workspace.undo(UndoRequest::Last(1))).expect("it is undone"))
        }),
        ("the first `grep`, 51 files", "", &grep),
        ("`grep` again", "", &grep),
        ("the first snapshot", "", &|| {
            drop(wait(workspace.snapshot("one", SnapshotOptions::default())).expect("it is taken"))
        }),
        ("a snapshot again", "", &|| {
            drop(wait(workspace.snapshot("two", SnapshotOptions::default())).expect("it is taken"))
        }),
        ("a command that reads", "", &|| {
            run(workspace, "cat d0/f0.txt > /dev/null")
        }),
        ("a command that writes three files", "", &|| {
            run(workspace, "for i in 1 2 3; do echo $i > d0/by-command-$i; done")
        }),
    ];
    let mut rows = String::from("| operation | requests | aim | which |\n|---|---|---|---|\n");
    for (what, aim, operate) in operations {
        proxy.forget();
        operate();
        let mut asked = proxy.operations();
        asked.sort_unstable();
        rows += &format!("| {what} | {} | {aim} | {} |\n", asked.len(), counted(&asked));
    }
    rows
}

/// `GET × 3, PUT`.
fn counted(sorted: &[&str]) -> String {
    let groups = sorted.chunk_by(|one, other| one == other);
    let shown = groups.map(|group| match group.len() {
        1 => group[0].to_owned(),
        count => format!("{} × {count}", group[0]),
    });
    shown.collect::<Vec<_>>().join(", ")
}
