//! Changes as lines of text, for the tools that show them.

use std::fmt::Write as _;

use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{ActorShown, ChangeShown, PlannedChange};

use crate::answer_limits::AnswerLimits;
use crate::text::{self, group_digits};

/// The most paths of one change that the data of an answer lists; `path_count` holds their total.
const SHOWN_PATHS: usize = 20;

/// Returns a change on one line: `#3  2026-01-02T03:04:05Z  edit `a.txt`  (edit_file by writer, session s1, mcp)`.
pub(crate) fn change_line(change: &ChangeShown) -> String {
    let mut line = format!(
        "#{}  {}  {}",
        change.number,
        change.at,
        escape_unprintable(&change.summary)
    );
    line.push_str(&format!("  ({})", made_by(&change.operation, &change.actor)));
    if !change.reverses.is_empty() {
        let reversed = list_numbers(&change.reverses);
        write!(line, "  [reverses {reversed}]").expect("a string takes everything");
    }
    if let Some(by) = change.undone_by {
        write!(line, "  [undone by #{by}]").expect("a string takes everything");
    }
    line
}

/// Returns the operation and its actor: `edit_file by writer, session s1, call c3, mcp`.
pub(crate) fn made_by(operation: &str, actor: &ActorShown) -> String {
    let named = [
        ("", &actor.agent),
        ("session ", &actor.session),
        ("call ", &actor.tool_call),
        ("command ", &actor.command),
    ];
    let parts = named.into_iter().filter_map(|(what, name)| {
        name.as_deref()
            .map(|name| format!("{what}{}", escape_unprintable(name)))
    });
    let door = Some(&actor.door).filter(|door| !door.is_empty()).cloned();
    let who = parts.chain(door).collect::<Vec<_>>().join(", ");
    match (operation, who.as_str()) {
        ("", who) => who.to_owned(),
        (operation, "") => operation.to_owned(),
        (operation, who) => format!("{operation} by {who}"),
    }
}

/// Returns numbers of changes: `#5, #4 and 12 more`.
fn list_numbers(all: &[u64]) -> String {
    let shown: Vec<String> = all.iter().take(5).map(|number| format!("#{number}")).collect();
    match all.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), group_digits(more as u64)),
    }
}

/// Returns the effect of a change as the one line of an answer: `undo: edit `a.txt` (change #4, id …)`.
pub(crate) fn outcome_line(change: &ChangeShown) -> String {
    format!(
        "{} (change #{}, id {})",
        escape_unprintable(&change.summary),
        change.number,
        change.id
    )
}

/// Returns the effect of a change as an answer: its line, and the paths with their marks.
pub(crate) fn outcome_text(change: &ChangeShown) -> String {
    outcome_line(change) + &marked_lines(&change.paths, change.path_count)
}

/// Returns the effect that an operation would have as an answer.
pub(crate) fn planned_text(planned: &PlannedChange, limits: &AnswerLimits) -> String {
    if planned.path_count == 0 {
        return "nothing would change".to_owned();
    }
    let count = text::format_count(planned.path_count, "path", "paths");
    let lines = marked_lines(&planned.paths, planned.path_count);
    text::bound_text(&format!("would change {count}; nothing is written{lines}"), limits)
}

/// Returns the first paths, one on each line, and the number of the others.
fn marked_lines(paths: &[String], count: u64) -> String {
    let shown = paths.iter().take(SHOWN_PATHS);
    let mut lines: String = shown.map(|path| format!("\n{}", escape_unprintable(path))).collect();
    let more = count.saturating_sub(paths.len().min(SHOWN_PATHS) as u64);
    if more > 0 {
        write!(lines, "\nand {} more", group_digits(more)).expect("a string takes everything");
    }
    lines
}

/// Returns the paths that an undo left unchanged, one line for each reason; empty if there are none.
pub(crate) fn unchanged_lines(change: &ChangeShown) -> String {
    let Some(left) = &change.left_alone else {
        return String::new();
    };
    let mut text = String::new();
    for (words, paths, more) in [
        ("left unchanged (excluded from history)", &left.paths, left.more),
        (
            "deleted, and undo cannot restore it (excluded from history)",
            &left.deleted,
            left.more_deleted,
        ),
    ] {
        if !paths.is_empty() {
            let named = paths.iter().map(|path| quote(path)).collect::<Vec<_>>().join(", ");
            let more = match more {
                0 => String::new(),
                more => format!(" and {} more", group_digits(more)),
            };
            write!(text, "\n{words}: {named}{more}").expect("a string takes everything");
        }
    }
    text
}

/// Returns a planned change in the form that the data of an answer holds.
pub(crate) fn bound_planned_paths(mut planned: PlannedChange) -> PlannedChange {
    planned.paths.truncate(SHOWN_PATHS);
    planned
}

/// Returns a change in the form that the data of an answer holds.
pub(crate) fn bound_paths(mut change: ChangeShown) -> ChangeShown {
    change.paths.truncate(SHOWN_PATHS);
    change
}
