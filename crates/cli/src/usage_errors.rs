//! The parser's errors for a wrong command line, with a guess of the intended one.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::render::shell_word;

/// Commands of other programs, each with a tip that names the command of Garret.
const ELSEWHERE: [(&str, &str); 4] = [
    ("history", "did you mean `garret log`?"),
    ("status", "did you mean `garret log` or `garret diff`?"),
    ("init", "did you mean `garret create`?"),
    ("exec", "did you mean `garret run`?"),
];

/// Formats an error of the parser for a person.
pub(crate) fn error_text(error: &clap::Error, arguments: &[String]) -> String {
    // The parser lists the hidden command among its suggestions.
    let text = error.render().to_string().replace(", __complete", "");
    let text = name_missing_place(error, text);
    match find_tip(error, arguments) {
        Some(tip) => {
            // Our tip takes the place of the parser's own, which only knows similar names.
            let paragraphs = text.split("\n\n").filter(|part| !part.trim_start().starts_with("tip:"));
            let text = paragraphs.collect::<Vec<_>>().join("\n\n");
            text.replacen("\n\n", &format!("\n\n  tip: {tip}\n\n"), 1)
        }
        None => text,
    }
}

/// Returns a tip with the command line that was probably meant.
pub(crate) fn find_tip(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = named(ContextKind::InvalidSubcommand)?;
            let place = arguments.iter().position(|one| one == name)?;
            let before = place.checked_sub(1).map(|before| arguments[before].as_str());
            if let Some(command @ ("snapshot" | "branch")) = before {
                return Some(format!("did you mean `garret {command} create {}`?", shell_word(name)));
            }
            let known = ELSEWHERE.iter().find(|(other, _)| *other == name);
            known.map(|(_, tip)| (*tip).to_owned())
        }
        ErrorKind::UnknownArgument => {
            let name = named(ContextKind::InvalidArg)?;
            let place = arguments.iter().position(|one| is_text(one) && one.starts_with(name))?;
            let (before, after) = arguments.split_at(place);
            // After `--` a later option would be text, too, so then no whole command line can be shown.
            let is_last = !after[1..].iter().any(|one| one.starts_with('-'));
            let words = |part: &[String]| {
                part.iter()
                    .map(|one| format!(" {}", shell_word(one)))
                    .collect::<String>()
            };
            let advice = "text that begins with a dash comes after `--`";
            Some(if is_last {
                format!("{advice}: `garret{} --{}`", words(before), words(after))
            } else {
                advice.to_owned()
            })
        }
        _ => None,
    }
}

/// Whether an argument that begins with a dash is probably text and not an option.
fn is_text(argument: &str) -> bool {
    argument.starts_with('-') && argument.contains(char::is_whitespace)
}

/// Corrects the name of the argument that is missing from `get` or `put`.
fn name_missing_place(error: &clap::Error, text: String) -> String {
    let is_missing_one = error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::Strings(names)) if names.len() == 1);
    if !is_missing_one {
        return text;
    }
    // The last argument is the destination. The parser takes a single argument for that one and reports the first as
    // missing, but a user who gives one argument has left out the last.
    match () {
        () if text.contains("Usage: garret get ") => text.replacen("  <PATH>...", "  <LOCAL>", 1),
        () if text.contains("Usage: garret put ") => text.replacen("  <LOCAL>...", "  <PATH>", 1),
        () => text,
    }
}
