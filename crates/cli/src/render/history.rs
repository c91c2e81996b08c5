//! Changes as text for a person.

use std::collections::BTreeSet;

use garret::path::escape_unprintable;
use garret::{Actor, Change, ChangeDetails, ChangeKind, ChangedPath, EntryKind, HistoryOperationResult, PathChange};

use crate::time;

use super::{display_path, format_count, format_size, format_table};

/// Returns the columns for a change.
pub(crate) fn change_cells(change: &Change) -> Vec<String> {
    let derived = if change.kind == ChangeKind::Derived {
        " (derived files)"
    } else {
        ""
    };
    let undone = change.undone_by.map(|by| format!(" (undone by {by})"));
    vec![
        change.number.to_string(),
        time::format_time(&change.at.to_string()),
        actor_name(&change.actor),
        format!(
            "{}{derived}{}",
            escape_unprintable(&change.summary),
            undone.unwrap_or_default()
        ),
    ]
}

/// Returns the columns for consecutive changes of derived files, newest first.
pub(crate) fn folded_cells(changes: &[Change]) -> Vec<String> {
    let [newest, .., oldest] = changes else {
        return changes.first().map(change_cells).unwrap_or_default();
    };
    let authors: BTreeSet<_> = changes.iter().map(|change| actor_name(&change.actor)).collect();
    vec![
        format!("{}-{}", oldest.number, newest.number),
        time::format_time(&newest.at.to_string()),
        authors.into_iter().collect::<Vec<_>>().join(", "),
        format!("{} changes of derived files; --all lists them", changes.len()),
    ]
}

/// Names the actor of a change in a word or two.
pub(crate) fn actor_name(actor: &Actor) -> String {
    let parts = [&actor.agent, &actor.session].into_iter().flatten();
    let named: Vec<_> = parts.map(|part| escape_unprintable(part).into_owned()).collect();
    if named.is_empty() {
        escape_unprintable(&actor.door).into_owned()
    } else {
        format!("{} ({})", named.join("/"), escape_unprintable(&actor.door))
    }
}

/// Describes the result of an undo, a redo or a restore; `idle` tells that nothing differed.
pub(crate) fn describe_result(result: &HistoryOperationResult, idle: &str) -> String {
    let head = match &result.change {
        Some(change) => format!("change {}: {}", change.number, escape_unprintable(&change.summary)),
        None if !result.is_dry_run() => idle.to_owned(),
        None if result.path_count() == 0 => "nothing would change".to_owned(),
        None => format!(
            "would change {}; nothing is written",
            format_count(result.path_count(), "path")
        ),
    };
    let mut lines = vec![head];
    lines.extend(path_lines(result.paths(), result.path_count()));
    if let Some(left) = &result.left_alone {
        lines.extend(list_excluded("left unchanged", &left.paths, left.more));
        lines.extend(list_excluded("deleted permanently", &left.deleted, left.more_deleted));
    }
    lines.extend(result.stepped_over.as_ref().map(ToString::to_string));
    lines.join("\n")
}

/// Lists the first of `count` paths, with their marks, one on each line.
fn path_lines(paths: &[ChangedPath], count: u64) -> impl Iterator<Item = String> {
    let more = count - paths.len() as u64;
    let lines = paths
        .iter()
        .map(|path| format!("  {}", display_path(&path.to_string())));
    lines.chain((more > 0).then(|| format!("  and {more} more")))
}

/// Lists paths that are excluded from history, below a line that says how they were treated.
fn list_excluded(words: &str, paths: &[String], more: u64) -> Vec<String> {
    if paths.is_empty() {
        return Vec::new();
    }
    let head = format!("{words} (excluded from history):");
    let named = paths.iter().map(|path| format!("  {}", display_path(path)));
    let more = (more > 0).then(|| format!("  and {more} more"));
    [head].into_iter().chain(named).chain(more).collect()
}

/// Describes a change with its effect on each path.
pub(crate) fn describe_details(shown: &ChangeDetails) -> String {
    let change = &shown.change;
    let actor = &change.actor;
    let fields = [
        ("change", Some(format!("{} ({})", change.number, change.id))),
        ("at", Some(time::format_time(&change.at.to_string()))),
        ("kind", Some(change.kind.as_str().to_owned())),
        ("by", Some(actor_name(actor))),
        (
            "call",
            actor
                .tool_call
                .as_deref()
                .map(|call| escape_unprintable(call).into_owned()),
        ),
        (
            "command",
            actor
                .command
                .as_deref()
                .map(|command| escape_unprintable(command).into_owned()),
        ),
        ("tool", Some(change.operation.clone()).filter(|tool| !tool.is_empty())),
        ("did", Some(escape_unprintable(&change.summary).into_owned())),
        ("reverses", join_numbers(&change.reverses)),
        ("undone by", change.undone_by.map(|by| by.to_string())),
    ];
    let known = fields
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:10}{}", value?)));
    let head: Vec<_> = known.chain([format_count(change.path_count, "path")]).collect();
    format!(
        "{}\n{}",
        head.join("\n"),
        format_table(shown.entries.iter().map(path_cells))
    )
}

fn join_numbers(numbers: &[u64]) -> Option<String> {
    let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn path_cells(path: &PathChange) -> Vec<String> {
    let (what, detail) = match (&path.before, &path.after) {
        (None, Some(after)) => ("added", describe_entry(after.kind, after.size)),
        (Some(before), None) => ("removed", describe_entry(before.kind, before.size)),
        (Some(before), Some(after)) if before.kind != after.kind => (
            "replaced",
            format!("{} -> {}", super::kind_word(before.kind), super::kind_word(after.kind)),
        ),
        (Some(before), Some(after)) if before.mode != after.mode && before.version == after.version => {
            ("mode", format!("{:04o} -> {:04o}", before.mode, after.mode))
        }
        (Some(before), Some(after)) => (
            "changed",
            format!("{} -> {}", format_size(before.size), format_size(after.size)),
        ),
        (None, None) => ("", String::new()),
    };
    vec![format!("  {what}"), display_path(&path.path.display_path()), detail]
}

fn describe_entry(kind: EntryKind, bytes: u64) -> String {
    match kind {
        EntryKind::File => format_size(bytes),
        other => super::kind_word(other).to_owned(),
    }
}
