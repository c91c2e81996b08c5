//! The pages tell the truth: what they show is run as it stands there.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads the pages and runs programs as a user would"
)]

use std::path::Path;
use std::process::Command;

use crate::common::{GARRET, Room, repository};

/// The code blocks of `language` in a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let start = format!("```{language}\n");
    let found = text.split(&start).skip(1);
    found
        .map(|block| block.split("```").next().unwrap().to_owned())
        .collect()
}

/// Runs one line in a shell that finds `garret` as a user's does; it must succeed.
fn shell(room: &Room, line: &str) -> String {
    let programs = Path::new(GARRET).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(room.path())
        .env("PATH", path)
        .env("GARRET_HOME", room.home());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let blocks = blocks("README.md", "console");
    assert!(!blocks.is_empty());
    for block in blocks {
        let room = Room::new();
        for command in block.split("$ ").skip(1) {
            let (line, shown) = command.split_once('\n').unwrap();
            let printed = shell(&room, line);
            if !shown.is_empty() {
                assert_eq!(printed, shown, "{line}");
            }
        }
    }
}

#[test]
fn the_configurations_of_the_pages_are_valid() {
    for page in ["README.md", "docs/guides/policies.md"] {
        let blocks = blocks(page, "toml");
        assert!(!blocks.is_empty(), "{page}");
        for block in blocks {
            let room = Room::new();
            room.put("garret.toml", &block).put("site/a", "");
            shell(&room, "garret config check");
            shell(&room, "garret -w site ls");
        }
    }
}

#[test]
fn the_refusal_in_the_guide_is_the_one_that_is_given() {
    let shown = blocks("docs/guides/policies.md", "text").pop().unwrap();
    let room = Room::new();
    room.put("garret.toml", &blocks("docs/guides/policies.md", "toml")[0]);
    room.put("site/src/.env", "x");
    let answer = room.run(&["-w", "site", "call", "read_file", r#"{"path": "src/.env"}"#, "--json"]);
    assert_eq!(answer.json()["text"].as_str().unwrap().trim(), shown.trim());
}

#[test]
fn the_commands_of_the_guide_to_history_work_one_after_the_other() {
    let room = Room::new();
    shell(
        &room,
        "mkdir project && echo hi > project/a && tar -czf project.tar.gz -C project .",
    );
    let lines: Vec<_> = blocks("docs/guides/history.md", "sh")
        .concat()
        .lines()
        .map(str::to_owned)
        .collect();
    assert!(
        lines.iter().filter(|line| line.starts_with("garret ")).count() > 20,
        "{lines:?}"
    );
    for line in lines.iter().filter(|line| !line.is_empty()) {
        shell(&room, line);
    }
    assert_eq!(shell(&room, "garret -w notes cat todo.md"), "an experiment");
    assert_eq!(shell(&room, "cat some/directory/a"), "hi\n");
}
