//! Changes as lines of text, for the tools that show them.

use std::fmt::Write as _;

use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{Actor, Change, ChangeKind, ChangedPath, HistoryOperationResult};

use crate::AnswerLimits;
use crate::text::{self, group_digits};
use crate::tool::ToolOutput;

/// Returns a change on one line: `#3  2026-01-02T03:04:05Z  edit `a.txt`  (edit_file by writer, session s1, mcp)`.
pub(crate) fn change_line(change: &Change) -> String {
    let mut line = format!(
        "#{}  {}  {}",
        change.number,
        change.at,
        escape_unprintable(&change.summary)
    );
    line.push_str(&format!("  ({})", made_by(&change.operation, &change.actor)));
    if change.kind == ChangeKind::Derived {
        line.push_str("  [derived files]");
    }
    if !change.reverses.is_empty() {
        let reversed = list_numbers(&change.reverses);
        write!(line, "  [reverses {reversed}]").expect("a string takes everything");
    }
    if let Some(by) = change.undone_by {
        write!(line, "  [undone by #{by}]").expect("a string takes everything");
    }
    line
}

/// Returns one change, or consecutive changes of derived files, newest first, on one line.
pub(crate) fn folded_line(changes: &[Change]) -> String {
    match changes {
        [newest, .., oldest] => format!(
            "#{} to #{}  {}  {} changes of derived files  [with a `path`: each]",
            newest.number,
            oldest.number,
            newest.at,
            changes.len()
        ),
        _ => changes.first().map(change_line).unwrap_or_default(),
    }
}

/// Returns the operation and its actor: `edit_file by writer, session s1, call c3, mcp`.
pub(crate) fn made_by(operation: &str, actor: &Actor) -> String {
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
    let door = Some(actor.door.to_string()).filter(|door| !door.is_empty());
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
    text::join_with_more(&shown, (all.len() - shown.len()) as u64)
}

/// Returns the result of an undo, a redo or a restore; `idle` tells that nothing differed.
pub(crate) fn format_result(
    result: HistoryOperationResult,
    idle: &str,
    shortfall: Option<String>,
    limits: &AnswerLimits,
) -> ToolOutput<HistoryOperationResult> {
    let head = match &result.change {
        Some(change) => {
            let summary = escape_unprintable(&change.summary);
            format!("{summary} (change #{}, id {})", change.number, change.id)
        }
        None if !result.is_dry_run() => idle.to_owned(),
        None if result.path_count() == 0 => "nothing would change".to_owned(),
        None => {
            let count = text::format_count(result.path_count(), "path", "paths");
            format!("would change {count}; nothing is written")
        }
    };
    let shortfall = shortfall.map_or_else(String::new, |shortfall| format!("\n{shortfall}"));
    let lines = marked_lines(result.paths(), result.path_count());
    let stepped_over = result.stepped_over.as_ref();
    let stepped_over = stepped_over.map_or_else(String::new, |changes| format!("\n{changes}"));
    let text = head + &lines + &unchanged_lines(&result) + &stepped_over + &shortfall;
    ToolOutput::new(text::bound_text(&text, limits), result)
}

/// Returns the first paths, one on each line, and the number of the others.
fn marked_lines(paths: &[ChangedPath], count: u64) -> String {
    let lines = paths
        .iter()
        .map(|path| format!("\n{}", escape_unprintable(&path.to_string())));
    let mut lines: String = lines.collect();
    let more = count.saturating_sub(paths.len() as u64);
    if more > 0 {
        write!(lines, "\nand {} more", group_digits(more)).expect("a string takes everything");
    }
    lines
}

/// Returns the paths that an undo left unchanged, one line for each reason; empty if there are none.
fn unchanged_lines(result: &HistoryOperationResult) -> String {
    let Some(left) = &result.left_alone else {
        return String::new();
    };
    let mut lines = String::new();
    for (words, paths, more) in [
        ("left unchanged (excluded from history)", &left.paths, left.more),
        (
            "deleted, and undo cannot restore it (excluded from history)",
            &left.deleted,
            left.more_deleted,
        ),
    ] {
        if !paths.is_empty() {
            let named: Vec<String> = paths.iter().map(|path| quote(path)).collect();
            let named = text::join_with_more(&named, more);
            write!(lines, "\n{words}: {named}").expect("a string takes everything");
        }
    }
    lines
}
