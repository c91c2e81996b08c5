//! The result of code as text for a model: its output, then its value or its error, and one last line about its end and
//! the changed files.

use garret_workspace::{CodeResult, TurnWaited};

use crate::output_room::{self, CommandStreams, OutputRoom};
use crate::run_text;

/// The bytes reserved for the note about omitted output.
const NOTE_ROOM: usize = 200;

/// Returns the whole answer.
pub(crate) fn format_answer(result: &CodeResult, room: OutputRoom) -> String {
    let streams = CommandStreams {
        output: &result.output,
        stdout: result.stdout.captured(),
        stderr: result.stderr.captured(),
        truncated: result.truncated,
    };
    let first = run_text::diverted_line(&result.changed, "code").trim_end().to_owned();
    // The value or the error has at most a third of the room, so that a long one never hides the output, or the
    // reverse.
    let told = output_room::head_and_tail(&value_or_error(result), room.bytes / 3);
    let taken = first.len() + output_room::format_footer(&footer_parts(result, None)).len() + told.len() + NOTE_ROOM;
    // The footer is made twice: its length decides how much output fits, and its note says how much did not.
    let output = room.fit_output(&streams, taken);
    let footer = output_room::format_footer(&footer_parts(result, room.left_out_note(output.left_out)));
    let parts = [first, output.text, told, footer];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn value_or_error(result: &CodeResult) -> String {
    match (&result.error, &result.result) {
        (Some(error), _) if error.traceback.is_empty() => format!("{}: {}", error.kind, error.message),
        (Some(error), _) => error.traceback.trim_end().to_owned(),
        (None, Some(value)) => format!("=> {}", value.repr),
        (None, None) => String::new(),
    }
}

fn footer_parts(result: &CodeResult, left_out: Option<String>) -> Vec<String> {
    let mut parts = vec![end_phrase(result)];
    parts.extend(run_text::reached_limit(result.reached.as_ref(), result.limit.is_some()));
    parts.extend(run_text::lowered_timeout(result.lowered_timeout_ms));
    parts.extend(result.waited.as_ref().map(TurnWaited::describe));
    parts.extend(left_out);
    parts.extend(run_text::change_phrases(&result.changed));
    parts.extend(run_text::network_notes(result.network.as_ref()));
    parts.extend(run_text::isolation_notes(result.isolated, &result.not_enforced));
    if !result.leftovers.is_empty() {
        parts.push(format!(
            "the work of an earlier command could not be saved, and is kept as a leftover: {}",
            result.leftovers.join(", ")
        ));
    }
    parts.extend(run_text::corrupt_note(&result.corrupt));
    if let Some(how) = &result.context_ended {
        parts.push(format!("the context has ended ({how}), and its variables are lost"));
    }
    parts
}

fn end_phrase(result: &CodeResult) -> String {
    let seconds = result.duration_ms as f64 / 1_000.0;
    match (result.timed_out, &result.error, result.exit_code) {
        (true, _, _) => format!("timed out after {seconds:.1} s, and was ended with everything that it started"),
        (_, Some(error), _) => format!("failed with {} after {seconds:.1} s", error.kind),
        (_, _, Some(code)) if code != 0 => format!("exit code {code} after {seconds:.1} s"),
        _ => format!("done after {seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use garret_core::Language;
    use garret_workspace::{CodeError, CodeValue, CommandChanges, StreamContent};

    use super::*;

    fn result() -> CodeResult {
        CodeResult {
            language: Language::Python,
            context: None,
            result: None,
            error: None,
            exit_code: None,
            output: String::new(),
            stdout: StreamContent::default(),
            stderr: StreamContent::default(),
            duration_ms: 1_234,
            timed_out: false,
            limit: None,
            reached: None,
            lowered_timeout_ms: None,
            waited: None,
            context_ended: None,
            truncated: false,
            left_out_bytes: 0,
            usage: None,
            network: None,
            isolated: true,
            not_enforced: Vec::new(),
            guards: Vec::new(),
            changed: CommandChanges::default(),
            leftovers: Vec::new(),
            corrupt: Vec::new(),
            details: None,
        }
    }

    fn shown(result: &CodeResult) -> String {
        format_answer(result, OutputRoom::within_limit(None, 100_000))
    }

    #[test]
    fn effects_on_a_branch_are_told_in_the_first_line() {
        let mut result = CodeResult {
            output: "printed\n".into(),
            ..result()
        };
        result.changed.branch = Some("run_code-2bb56b1b6e94".into());
        let text = shown(&result);
        let first = "Not applied: the files changed while the code ran. Its effects are on branch `run_code-2bb56b1b6e94`; \
                     merge it with the tool `merge`.";
        assert_eq!(text.lines().next(), Some(first), "{text}");
        assert_eq!(run_text::diverted_line(&CommandChanges::default(), "command"), "");
    }

    #[test]
    fn a_value_comes_after_the_output() {
        let result = CodeResult {
            output: "hello\n".to_owned(),
            result: Some(CodeValue {
                repr: "42".to_owned(),
                json: None,
            }),
            ..result()
        };
        assert_eq!(shown(&result), "hello\n=> 42\n[done after 1.2 s; no file changed]");
    }

    #[test]
    fn an_error_is_shown_as_the_language_shows_it() {
        let error = CodeError {
            kind: "KeyError".to_owned(),
            message: "'k'".to_owned(),
            traceback: "Traceback (most recent call last):\n  …\nKeyError: 'k'\n".to_owned(),
        };
        let failed = CodeResult {
            error: Some(error.clone()),
            exit_code: Some(1),
            ..result()
        };
        insta::assert_snapshot!(shown(&failed), @r"
        Traceback (most recent call last):
          …
        KeyError: 'k'
        [failed with KeyError after 1.2 s; no file changed]
        ");
        let bare = CodeError {
            traceback: String::new(),
            ..error
        };
        let failed = CodeResult {
            error: Some(bare),
            ..result()
        };
        assert!(shown(&failed).starts_with("KeyError: 'k'\n["));
    }

    #[test]
    fn a_context_that_ended_says_so_last() {
        let ended = CodeResult {
            exit_code: Some(3),
            context_ended: Some("exit 3".to_owned()),
            ..result()
        };
        insta::assert_snapshot!(shown(&ended), @"[exit code 3 after 1.2 s; no file changed; the context has ended (exit 3), and its variables are lost]");
    }

    #[test]
    fn a_long_error_keeps_its_end() {
        let failed = CodeResult {
            error: Some(CodeError {
                kind: "RecursionError".to_owned(),
                message: "too deep".to_owned(),
                traceback: format!("Traceback:\n{}RecursionError: too deep\n", "  in f\n".repeat(5_000)),
            }),
            ..result()
        };
        let text = shown(&failed);
        assert!(
            text.starts_with("Traceback:\n") && text.contains("\nRecursionError: too deep\n["),
            "{text}"
        );
        assert!(text.len() <= 8_000, "{}", text.len());
    }

    #[test]
    fn much_output_does_not_hide_the_error() {
        let result = CodeResult {
            output: "line\n".repeat(100_000),
            stdout: garret_core::CapturedStream {
                head: "line\n".repeat(100_000).into_bytes(),
                ..garret_core::CapturedStream::default()
            }
            .into(),
            error: Some(CodeError {
                kind: "E".to_owned(),
                message: "m".to_owned(),
                traceback: "the traceback".to_owned(),
            }),
            ..result()
        };
        let text = shown(&result);
        assert!(text.contains("\nthe traceback\n["), "{}", &text[text.len() - 200..]);
        assert!(text.len() <= 8_000, "{}", text.len());
    }
}
