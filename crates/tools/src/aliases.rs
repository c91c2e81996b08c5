//! Names of arguments that models know from other systems.
//!
//! A tool takes another name if it has the argument that the name stands for. The schemas show only the names of this
//! project. A value with another meaning elsewhere (milliseconds, the opposite) is converted; for a value without a
//! meaning here, the error names the argument to use.

use std::sync::LazyLock;

use garret_core::shape::{AliasConversion, KeyAlias};
use garret_core::{Error, Result};
use serde_json::{Value, json};

/// From this number on, a bare `timeout` is in milliseconds. Nobody waits three hours for a tool call, and a limit of
/// less than ten seconds is seldom given in milliseconds; a number that is read as too long is lowered to the maximum,
/// and the answer says so.
const MILLISECONDS_FROM: f64 = 10_000.0;

/// The plain other names of each argument, in the order in which they are tried: a name that stands for several
/// arguments means the first one that the tool has.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    (
        "cwd",
        &["directory", "dir", "working_directory", "working_dir", "workdir"],
    ),
    (
        "path",
        &[
            "file_path",
            "filepath",
            "filename",
            "file",
            "absolute_path",
            "target_file",
            "directory",
            "dir",
            "dir_path",
            "target_directory",
        ],
    ),
    ("paths", &["file_paths", "files"]),
    ("content", &["contents", "file_text", "text"]),
    ("old_text", &["old_string", "old_str"]),
    ("new_text", &["new_string", "new_str"]),
    ("replace_all", &["allow_multiple"]),
    ("expected_replacements", &["expected_occurrences"]),
    ("diff", &["patch", "unified_diff"]),
    ("src", &["source", "source_path", "old_path", "from"]),
    ("dest", &["destination", "destination_path", "new_path", "target", "to"]),
    ("parents", &["recursive"]),
    ("depth", &["max_depth"]),
    (
        "limit",
        &[
            "head",
            "head_limit",
            "max_results",
            "max_entries",
            "max_lines",
            "num_lines",
            "max_matches",
        ],
    ),
    ("offset", &["skip"]),
    ("sort", &["sort_by"]),
    (
        "include",
        &[
            "glob",
            "glob_pattern",
            "include_glob",
            "include_pattern",
            "file_pattern",
        ],
    ),
    ("pattern", &["query", "regex", "glob", "glob_pattern"]),
    ("exclude", &["exclude_glob", "exclude_pattern", "exclude_patterns"]),
    ("ignore_case", &["-i", "case_insensitive"]),
    ("whole_word", &["-w"]),
    ("literal", &["-F", "fixed_strings"]),
    ("after", &["-A", "after_context"]),
    ("before", &["-B", "before_context"]),
    ("context", &["-C", "context_lines", "context_id"]),
    ("output", &["output_mode"]),
    ("include_ignored", &["no_ignore"]),
    ("label", &["name"]),
    ("command", &["cmd", "script"]),
    ("stdin", &["input"]),
    ("env", &["environment", "envs"]),
    ("timeout_s", &["timeout_seconds", "timeout_sec"]),
    ("wait_s", &["wait_seconds"]),
    ("max_output_bytes", &["max_output", "max_output_length"]),
    ("language", &["lang"]),
    ("id", &["process_id", "bash_id"]),
];

/// Names whose values are converted, or refused.
const CONVERTED_NAMES: &[(&str, &str, AliasConversion)] = &[
    ("case_sensitive", "ignore_case", negate_bool),
    ("is_regex", "literal", negate_bool),
    ("respect_gitignore", "include_ignored", negate_bool),
    ("respect_git_ignore", "include_ignored", negate_bool),
    ("timeout", "timeout_s", convert_timeout),
    ("timeout_ms", "timeout_s", convert_milliseconds),
    ("wait_ms", "wait_s", convert_milliseconds),
    // The names below stand for no argument; the argument beside each one selects the tools that are asked for it.
    ("-n", "whole_word", check_line_numbers),
    ("type", "include", refuse_file_type),
    ("view_range", "tail", refuse_line_range),
    ("start_line", "tail", refuse_line_range),
    ("end_line", "tail", refuse_line_range),
    ("description", "command", ignore_value),
    ("run_in_background", "command", refuse_background),
];

/// All other names of arguments.
pub(crate) static ALIASES: LazyLock<Vec<KeyAlias>> = LazyLock::new(|| {
    let plain = OTHER_NAMES.iter().flat_map(|(key, names)| {
        names.iter().map(|name| KeyAlias {
            name,
            key,
            convert: None,
        })
    });
    let converted = CONVERTED_NAMES.iter().map(|(name, key, convert)| KeyAlias {
        name,
        key,
        convert: Some(*convert),
    });
    plain.chain(converted).collect()
});

/// Converts a bool to its opposite.
fn negate_bool(value: Value) -> Result<Option<Value>> {
    Ok(Some(match value {
        Value::Bool(value) => Value::Bool(!value),
        // A value of another type stays as it is, so that the error about it names the right type.
        other => other,
    }))
}

fn convert_milliseconds(value: Value) -> Result<Option<Value>> {
    Ok(Some(match value.as_f64() {
        Some(milliseconds) => json!(milliseconds / 1_000.0),
        None => value,
    }))
}

fn convert_timeout(value: Value) -> Result<Option<Value>> {
    match value.as_f64() {
        Some(number) if number >= MILLISECONDS_FROM => convert_milliseconds(value),
        _ => Ok(Some(value)),
    }
}

/// Drops the note to people that a caller adds to a command.
fn ignore_value(_value: Value) -> Result<Option<Value>> {
    Ok(None)
}

fn refuse_background(value: Value) -> Result<Option<Value>> {
    match value {
        Value::Bool(false) => Ok(None),
        _ => Err(Error::invalid("`run_in_background` is not an argument here").hint("call `start` with the `command`")),
    }
}

fn check_line_numbers(value: Value) -> Result<Option<Value>> {
    match value {
        Value::Bool(true) => Ok(None),
        _ => Err(Error::invalid("line numbers are always shown").hint("leave out `-n`")),
    }
}

fn refuse_file_type(_value: Value) -> Result<Option<Value>> {
    Err(Error::invalid("there is no argument `type`").hint("select the files with `include`, such as [\"*.rs\"]"))
}

fn refuse_line_range(_value: Value) -> Result<Option<Value>> {
    Err(Error::invalid("use `offset` and `limit` to read a part of a file")
        .hint("lines 11 to 30 are `offset: 10, limit: 20`; `tail` reads the last lines"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_timeout_is_in_seconds_unless_that_would_be_hours() {
        let read = |value: Value| convert_timeout(value).unwrap().unwrap();
        assert_eq!(read(json!(30)), json!(30));
        assert_eq!(read(json!(0.5)), json!(0.5));
        assert_eq!(read(json!(3600)), json!(3600));
        assert_eq!(read(json!(9_999)), json!(9_999));
        assert_eq!(read(json!(10_000)), json!(10.0));
        assert_eq!(read(json!(120_000)), json!(120.0));
        assert_eq!(read(json!("soon")), json!("soon"));
    }

    #[test]
    fn a_value_that_means_the_opposite_is_turned_around() {
        assert_eq!(negate_bool(json!(true)).unwrap(), Some(json!(false)));
        assert_eq!(negate_bool(json!("yes")).unwrap(), Some(json!("yes")));
        assert_eq!(convert_milliseconds(json!(1_500)).unwrap(), Some(json!(1.5)));
    }

    #[test]
    fn what_is_done_otherwise_here_is_named() {
        assert_eq!(refuse_background(json!(false)).unwrap(), None);
        assert!(
            refuse_background(json!(true))
                .unwrap_err()
                .hint_text()
                .contains("`start`")
        );
        assert_eq!(check_line_numbers(json!(true)).unwrap(), None);
        assert!(
            refuse_line_range(json!([1, 2]))
                .unwrap_err()
                .hint_text()
                .contains("`offset")
        );
    }
}
