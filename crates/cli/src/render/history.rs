//! Changes as text for a person.

use garret::path::escape_unprintable;
use garret::{ActorShown, ChangeDetails, ChangeShown, EntryKind, PathShown, PlannedChange};

use crate::time;

use super::{display_path, format_count, format_size, format_table};

/// The most paths of a change that are named to a person.
const MAX_NAMED: usize = 20;

/// Returns the columns for a change.
pub(crate) fn change_cells(change: &ChangeShown) -> Vec<String> {
    let undone = change.undone_by.map(|by| format!(" (undone by {by})"));
    vec![
        change.number.to_string(),
        time::format_time(&change.at),
        actor_name(&change.actor),
        format!("{}{}", escape_unprintable(&change.summary), undone.unwrap_or_default()),
    ]
}

/// Names the actor of a change in a word or two.
pub(crate) fn actor_name(actor: &ActorShown) -> String {
    let parts = [&actor.agent, &actor.session].into_iter().flatten();
    let named: Vec<_> = parts.map(|part| escape_unprintable(part).into_owned()).collect();
    if named.is_empty() {
        escape_unprintable(&actor.door).into_owned()
    } else {
        format!("{} ({})", named.join("/"), escape_unprintable(&actor.door))
    }
}

/// Describes the change that a command made.
pub(crate) fn describe_change(change: &ChangeShown) -> String {
    let mut lines = vec![format!(
        "change {}: {}",
        change.number,
        escape_unprintable(&change.summary)
    )];
    lines.extend(path_lines(&change.paths, change.path_count));
    if let Some(left) = &change.left_alone {
        lines.extend(list_excluded("left unchanged", &left.paths, left.more));
        lines.extend(list_excluded("deleted permanently", &left.deleted, left.more_deleted));
    }
    lines.join("\n")
}

/// Describes the effect that an undo, a redo or a restore would have.
pub(crate) fn describe_plan(planned: &PlannedChange) -> String {
    if planned.path_count == 0 {
        return "nothing would change".to_owned();
    }
    let head = format!(
        "would change {}; nothing is written",
        format_count(planned.path_count, "path")
    );
    let lines = [head].into_iter().chain(path_lines(&planned.paths, planned.path_count));
    lines.collect::<Vec<_>>().join("\n")
}

/// Lists the first of `count` paths, with their marks, one on each line.
fn path_lines(paths: &[String], count: u64) -> impl Iterator<Item = String> {
    let named = paths.len().min(MAX_NAMED);
    let more = count - named as u64;
    let lines = paths[..named].iter().map(|path| format!("  {}", display_path(path)));
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

/// Describes the change of a restore; `None` if there was nothing to restore.
pub(crate) fn describe_restore(change: Option<&ChangeShown>) -> String {
    change.map_or_else(|| "no differences".to_owned(), describe_change)
}

/// Describes a change with its effect on each path.
pub(crate) fn describe_details(shown: &ChangeDetails) -> String {
    let change = &shown.change;
    let actor = &change.actor;
    let fields = [
        ("change", Some(format!("{} ({})", change.number, change.id))),
        ("at", Some(time::format_time(&change.at))),
        ("kind", Some(change.kind.clone())),
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
        format_table(shown.paths.iter().map(path_cells))
    )
}

fn join_numbers(numbers: &[u64]) -> Option<String> {
    let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn path_cells(path: &PathShown) -> Vec<String> {
    let (what, detail) = match (&path.before, &path.after) {
        (None, Some(after)) => ("added", describe_entry(after.kind, after.size)),
        (Some(before), None) => ("removed", describe_entry(before.kind, before.size)),
        (Some(before), Some(after)) if before.kind != after.kind => (
            "replaced",
            format!("{} -> {}", super::kind_word(before.kind), super::kind_word(after.kind)),
        ),
        (Some(before), Some(after)) if before.mode != after.mode && before.version == after.version => {
            ("mode", format!("{} -> {}", before.mode, after.mode))
        }
        (Some(before), Some(after)) => (
            "changed",
            format!("{} -> {}", format_size(before.size), format_size(after.size)),
        ),
        (None, None) => ("", String::new()),
    };
    vec![format!("  {what}"), display_path(&path.path), detail]
}

fn describe_entry(kind: EntryKind, bytes: u64) -> String {
    match kind {
        EntryKind::File => format_size(bytes),
        other => super::kind_word(other).to_owned(),
    }
}
