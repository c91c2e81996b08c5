//! Translates the errors of the layers below into the words of the command line.
//!
//! Errors are made once for all doors, and name the arguments of tools. The user of a command knows its options
//! instead. Only whole phrases of hints are replaced: a message may quote a file, and a quote must stay unchanged.

use garret::Error;

/// Phrases of hints, each with its replacement for a person.
const HINTS: [(&str, &str); 35] = [
    ("set `overwrite` to replace it", "give -f to replace it"),
    ("set `parents` to make", "give -p to make"),
    ("set `recursive` to remove", "give -r to remove"),
    (
        "set `create` to make the file",
        "leave out --no-create to make the file",
    ),
    ("set `literal` to true", "give -F"),
    (
        "set `multiline` to true to search across lines",
        "give -U to search across lines",
    ),
    (
        "narrow the search by `path`, `include` or the pattern",
        "narrow the search by PATH, --glob or the pattern",
    ),
    ("below `path`; choose another `path`", "below PATH; choose another PATH"),
    (
        "name the directory to search as `path`",
        "name the directory to search as PATH",
    ),
    (
        "pass `next_cursor` of the page before, unchanged",
        "give --cursor as the page before ended, unchanged",
    ),
    (
        "read a part of it with `offset` and `limit`",
        "read a part of it with --offset and --limit",
    ),
    ("without `lazy`", "without --lazy"),
    (
        "Use write_file to set the whole content, append_file to add at the end",
        "Use `garret write` to set the whole content, `garret append` to add at the end",
    ),
    (
        "Add lines around it to old_text until it is unique, or set replace_all to true, or expected_replacements to the count",
        "Add lines around it until it is unique, or give --replace-all, or --expect with the count",
    ),
    (
        "correct expected_replacements, or narrow old_text",
        "correct --expect, or narrow the text",
    ),
    (
        "Give at least one edit with old_text and new_text",
        "Give at least one edit",
    ),
    ("or give a new_text that differs", "or give a new text that differs"),
    ("new_text is already in the file", "the new text is already in the file"),
    ("copy old_text from", "copy the text from"),
    ("Copy old_text exactly", "Copy the text exactly"),
    ("out of old_text and new_text", "out of both texts"),
    ("quotes in old_text and new_text", "quotes in both texts"),
    ("end of old_text, and of new_text", "end of both texts"),
    (
        "Read it as base64 and write it whole",
        "Write it whole with `garret write`",
    ),
    (
        "Write the file with write_file and encoding base64",
        "Write the file with `garret write`",
    ),
    (
        "list the snapshots and the changes to see the available points",
        "`garret snapshot list` and `garret log` show the available points; a time is written as 2026-11-15T20:00:00Z",
    ),
    (
        "choose a home of your own, or work as",
        "choose a home of your own with --home or GARRET_HOME, or work as",
    ),
    (
        "or choose a home that you may use",
        "or choose another with --home or GARRET_HOME",
    ),
    (
        "name the session of the call too, or undo single changes",
        "give --session with one of them, or undo single changes by their numbers",
    ),
    (
        "list the history to see the ids of its changes",
        "`garret log` shows the changes",
    ),
    ("list the history to see the changes", "`garret log` shows the changes"),
    (
        "list the workspaces to see their names",
        "`garret list` shows the workspaces of the home",
    ),
    (
        "list its branches to see their names",
        "`garret branch list` shows them",
    ),
    (
        "attach an approver, or remove the operation from `require_approval`",
        "run it on a terminal to be asked, or remove the rule from `require_approval`",
    ),
    ("use another way, or ask for approval", "answer yes to allow it"),
];

/// Whole messages, each with its replacement for a person.
const MESSAGES: [(&str, &str); 4] = [
    ("`limit` must be at least 1", "--limit must be at least 1"),
    (
        "`depth` and `limit` must be at least 1",
        "--depth and --limit must be at least 1",
    ),
    (
        "`limit` and `max_matches_per_file` must be at least 1",
        "--limit and --max-count must be at least 1",
    ),
    (
        "old_text is empty, so it names no place in the file",
        "the text to replace is empty, so it names no place in the file",
    ),
];

/// Returns the error with its text in the words of the command line.
pub(crate) fn translate_error(error: Error) -> Error {
    let hint = HINTS.iter().fold(error.hint_text().to_owned(), |hint, (tool, person)| {
        hint.replace(tool, person)
    });
    // Never a part of a message, which may be a quote.
    let whole = |text: &str| {
        let found = MESSAGES.iter().find(|(tool, _)| *tool == text);
        found.map_or(text, |(_, person)| person).to_owned()
    };
    error.map_text(whole).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_speaks_of_options_and_what_is_quoted_stays() {
        let error = Error::invalid("the line is: set `overwrite` to replace it").hint("set `overwrite` to replace it");
        let error = translate_error(error);
        assert_eq!(error.message(), "the line is: set `overwrite` to replace it");
        assert_eq!(error.hint_text(), "give -f to replace it");
        let error = translate_error(Error::invalid("`limit` must be at least 1"));
        assert_eq!(error.message(), "--limit must be at least 1");
    }

    #[test]
    fn nothing_that_is_told_instead_is_translated_again() {
        for (_, person) in HINTS {
            assert_eq!(translate_error(Error::invalid("x").hint(person)).hint_text(), person);
        }
    }
}
