//! What came of code, as a model reads it: the output, then the value or the error, then one line on how it went.

use garret_workspace::{Changed, CodeResult};

use crate::limits::Limits;
use crate::text::{self, count, grouped};

/// The most bytes of each stream in the data; the text has what a model needs.
const MOST_DATA: usize = 64 * 1024;

/// The text of a result. The output and what comes after it have half of the room each, so that much of one never hides the other.
pub(crate) fn show(result: &CodeResult, limits: &Limits) -> String {
    let half = Limits {
        lines: (limits.lines / 2).max(1),
        bytes: (limits.bytes / 2).max(1),
        ..*limits
    };
    let parts = [
        text::bounded(result.output.trim_end_matches('\n'), &half),
        text::bounded(&told(result), &half),
        footer(result),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn told(result: &CodeResult) -> String {
    match (&result.error, &result.result) {
        (Some(error), _) if error.traceback.is_empty() => format!("{}: {}", error.kind, error.message),
        (Some(error), _) => error.traceback.trim_end().to_owned(),
        (None, Some(value)) => format!("=> {}", value.repr),
        (None, None) => String::new(),
    }
}

fn footer(result: &CodeResult) -> String {
    let mut notes = vec![how(result)];
    if result.left_out_bytes > 0 {
        notes.push(format!("{} of output left out", text::bytes(result.left_out_bytes)));
    }
    notes.extend(changes(&result.changed));
    if !result.isolated {
        notes.push("not isolated".to_owned());
    }
    if !result.leftovers.is_empty() {
        notes.push(format!("work of a crash is left: {}", result.leftovers.join(", ")));
    }
    if let Some(how) = &result.context_ended {
        notes.push(format!("the context has ended ({how}), and what it kept is gone"));
    }
    format!("[{}]", notes.join("; "))
}

fn how(result: &CodeResult) -> String {
    let took = match result.duration_ms {
        millis @ 0..1_000 => format!("{millis} ms"),
        millis => format!("{:.1} s", millis as f64 / 1_000.0),
    };
    match (result.timed_out, &result.error, result.exit_code) {
        (true, ..) => format!("timed out after {took}"),
        (false, Some(error), _) => format!("{} after {took}", error.kind),
        (false, None, Some(code)) if code != 0 => format!("exit {code} after {took}"),
        (false, None, _) => format!("done in {took}"),
    }
}

/// What became of the files; nothing where nothing was touched.
fn changes(changed: &Changed) -> Vec<String> {
    let mut notes = Vec::new();
    let mut counts = changed.counts();
    if !counts.is_empty() {
        let shown = changed.paths.join(", ");
        let more = changed.created + changed.changed + changed.deleted - changed.paths.len() as u64;
        let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
        counts = format!("{counts}: {shown}{more}");
        notes.push(counts);
    }
    notes.extend(changed.change.as_ref().map(|change| format!("change {}", change.number)));
    notes.extend(changed.branch.as_ref().map(|branch| {
        format!("others changed the same files, so it is on the branch `{branch}`")
    }));
    notes.extend(changed.discarded.then(|| "discarded".to_owned()));
    notes.extend(changed.refused.as_ref().map(|refusal| format!("nothing kept: {}", refusal.message)));
    if !changed.dropped.is_empty() {
        let dropped = changed.dropped.iter().map(|one| format!("{} ({})", one.path, one.what));
        notes.push(format!("left out: {}", dropped.collect::<Vec<_>>().join(", ")));
    }
    if !changed.excluded.is_empty() {
        let paths = count(changed.excluded.written + changed.excluded.deleted, "path", "paths");
        notes.push(format!("{paths} outside history"));
    }
    notes
}

/// The data of a result: the streams cut to what a program may want to see in a message.
pub(crate) fn data(result: CodeResult) -> CodeResult {
    CodeResult {
        output: cut_text(result.output),
        stdout: cut(result.stdout),
        stderr: cut(result.stderr),
        ..result
    }
}
