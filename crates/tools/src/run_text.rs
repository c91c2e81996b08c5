//! The result of a command as text for a model: its output, and one last line about its end and the changed files.
//!
//! The last line is written first, so that the output gets the room that it leaves.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{CallOptions, Guard, NetworkRecord, ReachedLimit};
use garret_workspace::{CommandChanges, RunResult, TurnWaited};

use crate::output_room::{self, CommandStreams, OutputRoom};
use crate::text;

/// The bytes reserved for the note about omitted output.
const NOTE_ROOM: usize = 200;

/// Returns the whole answer.
pub(crate) fn format_answer(result: &RunResult, room: OutputRoom) -> String {
    let streams = CommandStreams {
        output: &result.output,
        stdout: result.stdout.captured(),
        stderr: result.stderr.captured(),
        truncated: result.truncated,
    };
    let first = diverted_line(&result.changed, "command").trim_end().to_owned();
    let taken = first.len() + output_room::format_footer(&footer_parts(result, None)).len() + NOTE_ROOM;
    // The footer is made twice: its length decides how much output fits, and its note says how much did not.
    let output = room.fit_output(&streams, taken);
    let footer = output_room::format_footer(&footer_parts(result, room.left_out_note(output.left_out)));
    let parts = [first, output.text, footer];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Returns a note that the time limit is lower than the requested one.
pub(crate) fn lowered_timeout(milliseconds: Option<u64>) -> Option<String> {
    let seconds = milliseconds? as f64 / 1_000.0;
    Some(format!(
        "its time limit was lowered to {seconds} s, the maximum of the workspace (`shell.limits.max_timeout_s`)"
    ))
}

/// Returns a note about the limit that was reached, and how to raise it. `is_certain` is false if only an error in the
/// output suggests it.
pub(crate) fn reached_limit(reached: Option<&ReachedLimit>, is_certain: bool) -> Option<String> {
    let reached = reached?;
    let advice = reached.describe_advice(CallOptions::TOOL, None);
    Some(if is_certain || reached.is_network() {
        advice
    } else {
        format!("by its error, it may have reached a limit; {advice}")
    })
}

/// Returns what became of the named shell, if that is not the one of the last call.
fn shell_notes(result: &RunResult) -> Vec<String> {
    let mut notes = Vec::new();
    if result.shell_is_new {
        notes.push("in a new shell".to_owned());
    }
    if let Some(ended) = &result.shell_ended {
        notes.push(format!(
            "the shell ended ({ended}), and what it kept is gone; the next call with its name makes a new one"
        ));
    }
    notes
}

fn footer_parts(result: &RunResult, left_out: Option<String>) -> Vec<String> {
    let mut parts = vec![end_phrase(result)];
    parts.extend(reached_limit(result.reached.as_ref(), result.limit.is_some()));
    parts.extend(lowered_timeout(result.lowered_timeout_ms));
    parts.extend(shell_notes(result));
    parts.extend(result.waited.as_ref().map(TurnWaited::describe));
    parts.extend(left_out);
    parts.extend(change_phrases(&result.changed));
    parts.extend(network_notes(result.network.as_ref()));
    parts.extend(isolation_notes(result.isolated, &result.not_enforced));
    if !result.leftovers.is_empty() {
        parts.push(format!(
            "the work of an earlier command could not be saved, and is kept as a leftover: {}",
            result.leftovers.join(", ")
        ));
    }
    parts.extend(corrupt_note(&result.corrupt));
    parts
}

/// Returns notes about the hosts that were refused, with the setting that would have to allow them, and about those that
/// were not reached.
pub(crate) fn network_notes(record: Option<&NetworkRecord>) -> Vec<String> {
    let Some(record) = record else {
        return Vec::new();
    };
    let refused: Vec<_> = record.refused.iter().take(5).map(|one| one.reason.as_str()).collect();
    [
        ("refused network requests", refused),
        ("not reached", record.failures()),
    ]
    .into_iter()
    .filter(|(_, reasons)| !reasons.is_empty())
    .map(|(what, reasons)| format!("{what}: {}", escape_unprintable(&reasons.join("; "))))
    .collect()
}

/// Returns notes about missing isolation, and about each guard that was not enforced.
pub(crate) fn isolation_notes(isolated: bool, not_enforced: &[Guard]) -> Vec<String> {
    let mut notes = Vec::new();
    if !isolated {
        notes.push("not isolated from the machine".to_owned());
    }
    if !not_enforced.is_empty() {
        let names: Vec<_> = not_enforced.iter().map(|guard| guard.as_str()).collect();
        notes.push(format!("not enforced: {}", names.join(", ")));
    }
    notes
}

/// Returns a note about files that were missing because they are damaged.
pub(crate) fn corrupt_note(paths: &[String]) -> Option<String> {
    if paths.is_empty() {
        return None;
    }
    let shown: Vec<_> = paths.iter().take(5).map(|path| quote(path)).collect();
    let more = match paths.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "missing, because the stored content is damaged: {}{more}",
        shown.join(", ")
    ))
}

fn end_phrase(result: &RunResult) -> String {
    let seconds = result.duration_ms as f64 / 1_000.0;
    // A limit also ends a command by a signal; the limit is the more useful reason.
    match (result.timed_out, result.limit, result.signal) {
        (true, _, _) => format!("timed out after {seconds:.1} s, and was ended with everything that it started"),
        (_, Some(limit), _) => format!(
            "ended by its limit `{}` after {seconds:.1} s",
            serde_json::to_value(limit)
                .ok()
                .and_then(|word| word.as_str().map(str::to_owned))
                .unwrap_or_default()
        ),
        (_, _, Some(signal)) => format!("ended by signal {signal} after {seconds:.1} s"),
        _ => format!("exit code {} after {seconds:.1} s", result.exit_code),
    }
}

/// Returns the first line of an answer if the effects of the `what` are on a branch or in a leftover; empty if they are
/// in the files.
pub(crate) fn diverted_line(changed: &CommandChanges, what: &str) -> String {
    if let (Some(leftover), Some(refused)) = (&changed.leftover, &changed.refused) {
        return format!(
            "Not applied: {}. The effects of the {what} are kept as leftover {}; the user sees them with `garret leftovers`.\n",
            escape_unprintable(&refused.message),
            quote(leftover)
        );
    }
    changed.branch.as_ref().map_or_else(String::new, |branch| {
        format!(
            "Not applied: the files changed while the {what} ran. Its effects are on branch {}; merge it with the tool `merge`.\n",
            quote(branch)
        )
    })
}

/// Returns the changes of the files, in a few phrases.
pub(crate) fn change_phrases(changed: &CommandChanges) -> Vec<String> {
    let mut parts = Vec::new();
    if changed.leftover.is_some() {
        parts.push("not applied".to_owned());
        return parts;
    }
    if changed.is_nothing() {
        parts.push("no file changed".to_owned());
    } else {
        parts.push(format!("{}: {}", changed.describe_counts(), shown_paths(changed)));
    }
    if let Some(change) = &changed.change {
        parts.push(format!("change {change}"));
    }
    if let Some(branch) = &changed.branch {
        parts.push(format!("not applied; on branch {}", quote(branch)));
    }
    if changed.discarded {
        parts.push("discarded as asked".to_owned());
    }
    if let Some(refused) = &changed.refused {
        parts.push(format!(
            "these changes were not kept: {}",
            escape_unprintable(&refused.message)
        ));
    }
    if !changed.dropped.is_empty() {
        let shown = changed.dropped.iter().take(5);
        let names: Vec<_> = shown
            .map(|one| format!("{} ({})", quote(&one.path), one.what))
            .collect();
        let more = match changed.dropped.len() as u64 + changed.more_dropped - names.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        parts.push(format!("left out: {}{more}", names.join(", ")));
    }
    let excluded = &changed.excluded;
    if !excluded.is_empty() {
        let places: Vec<_> = excluded.places.iter().take(5).map(|place| quote(place)).collect();
        parts.push(format!("excluded from history: {}", places.join(", ")));
    }
    if excluded.deleted > 0 {
        let paths: Vec<_> = excluded.deleted_paths.iter().take(5).map(|path| quote(path)).collect();
        parts.push(format!(
            "{} excluded from history were deleted, and undo cannot restore them: {}",
            text::format_count(excluded.deleted, "path", "paths"),
            text::join_with_more(&paths, excluded.deleted - paths.len() as u64)
        ));
    }
    parts
}

fn shown_paths(changed: &CommandChanges) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = changed
        .paths
        .iter()
        .take(SHOWN)
        .map(|path| escape_unprintable(path))
        .collect();
    match changed.path_count - shown.len() as u64 {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use garret_workspace::StreamContent;

    use super::*;

    #[test]
    fn effects_on_a_branch_are_told_in_the_first_line() {
        let changed = CommandChanges {
            branch: Some("run-2bb56b1b6e94".into()),
            ..CommandChanges::default()
        };
        let result = RunResult {
            exit_code: 0,
            signal: None,
            output: "printed\n".into(),
            stdout: StreamContent::default(),
            stderr: StreamContent::default(),
            duration_ms: 1_234,
            timed_out: false,
            limit: None,
            reached: None,
            lowered_timeout_ms: None,
            waited: None,
            truncated: false,
            left_out_bytes: 0,
            usage: Default::default(),
            network: None,
            isolated: true,
            not_enforced: Vec::new(),
            guards: Vec::new(),
            changed,
            leftovers: Vec::new(),
            corrupt: Vec::new(),
            shell_is_new: false,
            shell_ended: None,
            details: None,
        };
        let text = format_answer(&result, OutputRoom::within_limit(None, 100_000));
        let first = "Not applied: the files changed while the command ran. Its effects are on branch `run-2bb56b1b6e94`; \
                     merge it with the tool `merge`.";
        assert_eq!(text.lines().next(), Some(first), "{text}");
    }
}
