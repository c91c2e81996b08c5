//! What came of code, as text for a model: its output, then its value or its error, and one last line that says how it went and what became
//! of the files.

use garret_workspace::CodeResult;

use crate::limits::Limits;
use crate::{run_text, text};

/// The whole answer. Output and outcome have half of the room each, so that much of the one never hides the other.
pub(crate) fn of(result: &CodeResult, limits: &Limits) -> String {
    let half = Limits {
        lines: (limits.lines / 2).max(1),
        bytes: (limits.bytes / 2).max(1),
        ..*limits
    };
    let output = text::bounded(result.output.trim_end_matches('\n'), &half);
    let told = text::bounded(&told(result), &half);
    let first = run_text::diverted(&result.changed, "code");
    let parts = [
        first.trim_end().to_owned(),
        output,
        told,
        format!("[{}]", footer(result)),
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
    let mut parts = vec![ended(result)];
    if result.truncated {
        parts.push(format!("{} of output omitted", text::bytes(result.left_out_bytes)));
    }
    parts.extend(run_text::changed(&result.changed));
    if !result.isolated {
        parts.push("not isolated from the machine".to_owned());
    }
    if !result.leftovers.is_empty() {
        parts.push(format!(
            "a crash left unsaved work of a command: {}",
            result.leftovers.join(", ")
        ));
    }
    if let Some(how) = &result.context_ended {
        parts.push(format!("the context has ended ({how}), and what it kept is gone"));
    }
    parts.join("; ")
}

fn ended(result: &CodeResult) -> String {
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
    use garret_core::{Language, ToolsConfig};
    use garret_workspace::{Changed, CodeError, CodeValue, StreamShown};

    use super::*;

    fn result() -> CodeResult {
        CodeResult {
            language: Language::Python,
            context: None,
            result: None,
            error: None,
            exit_code: None,
            output: String::new(),
            stdout: StreamShown::default(),
            stderr: StreamShown::default(),
            duration_ms: 1_234,
            timed_out: false,
            limit: None,
            context_ended: None,
            truncated: false,
            left_out_bytes: 0,
            usage: None,
            isolated: true,
            enforced: Vec::new(),
            changed: Changed::default(),
            leftovers: Vec::new(),
        }
    }

    fn shown(result: &CodeResult) -> String {
        of(result, &Limits::of(&ToolsConfig::default()))
    }

    #[test]
    fn effects_on_a_branch_are_told_in_the_first_line() {
        let mut result = CodeResult {
            output: "printed\n".into(),
            ..result()
        };
        result.changed.branch = Some("run_code-2bb56b1b6e94".into());
        let text = of(&result, &Limits::of(&ToolsConfig::default()));
        let first = "Not applied: the files changed while the code ran. Its effects are on branch `run_code-2bb56b1b6e94`; \
                     merge it with the tool `merge`.";
        assert_eq!(text.lines().next(), Some(first), "{text}");
        assert_eq!(run_text::diverted(&Changed::default(), "command"), "");
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
        insta::assert_snapshot!(shown(&ended), @"[exit code 3 after 1.2 s; no file changed; the context has ended (exit 3), and what it kept is gone]");
    }

    #[test]
    fn much_output_does_not_hide_the_error() {
        let result = CodeResult {
            output: "line\n".repeat(100_000),
            error: Some(CodeError {
                kind: "E".to_owned(),
                message: "m".to_owned(),
                traceback: "the traceback".to_owned(),
            }),
            ..result()
        };
        let text = shown(&result);
        assert!(text.contains("\nthe traceback\n["), "{}", &text[text.len() - 200..]);
    }
}
