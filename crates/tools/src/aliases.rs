//! Names of arguments that models know from other systems.
//!
//! A tool takes another name if it has the argument that the name stands for. The schemas show only the names of this
//! project. A value with another meaning elsewhere (milliseconds, the opposite) is converted; for a value without a
//! meaning here, the error names the argument to use.

use garret_core::shape::KeyAlias;
use garret_core::{Error, Result};
use serde_json::{Value, json};

/// From this number on, a bare `timeout` is in milliseconds. Nobody waits three hours for a tool call, and a limit of
/// less than ten seconds is seldom given in milliseconds; a number that is read as too long is lowered to the maximum,
/// and the answer says so.
const MILLISECONDS_FROM: f64 = 10_000.0;

/// The names, in the order in which they are tried: a name that stands for several arguments means the first one that
/// the tool has.
pub(crate) const ALIASES: &[KeyAlias] = &[
    plain_alias("file_path", "path"),
    plain_alias("filepath", "path"),
    plain_alias("filename", "path"),
    plain_alias("file", "path"),
    plain_alias("absolute_path", "path"),
    plain_alias("target_file", "path"),
    plain_alias("file_paths", "paths"),
    plain_alias("files", "paths"),
    plain_alias("directory", "cwd"),
    plain_alias("directory", "path"),
    plain_alias("dir", "cwd"),
    plain_alias("dir", "path"),
    plain_alias("dir_path", "path"),
    plain_alias("target_directory", "path"),
    plain_alias("working_directory", "cwd"),
    plain_alias("working_dir", "cwd"),
    plain_alias("workdir", "cwd"),
    plain_alias("contents", "content"),
    plain_alias("file_text", "content"),
    plain_alias("text", "content"),
    plain_alias("old_string", "old_text"),
    plain_alias("old_str", "old_text"),
    plain_alias("new_string", "new_text"),
    plain_alias("new_str", "new_text"),
    plain_alias("allow_multiple", "replace_all"),
    plain_alias("expected_occurrences", "expected_replacements"),
    plain_alias("patch", "diff"),
    plain_alias("unified_diff", "diff"),
    plain_alias("source", "src"),
    plain_alias("source_path", "src"),
    plain_alias("old_path", "src"),
    plain_alias("from", "src"),
    plain_alias("destination", "dest"),
    plain_alias("destination_path", "dest"),
    plain_alias("new_path", "dest"),
    plain_alias("target", "dest"),
    plain_alias("to", "dest"),
    plain_alias("recursive", "parents"),
    plain_alias("max_depth", "depth"),
    plain_alias("head", "limit"),
    plain_alias("head_limit", "limit"),
    plain_alias("max_results", "limit"),
    plain_alias("max_entries", "limit"),
    plain_alias("max_lines", "limit"),
    plain_alias("num_lines", "limit"),
    plain_alias("max_matches", "limit"),
    plain_alias("skip", "offset"),
    plain_alias("sort_by", "sort"),
    plain_alias("query", "pattern"),
    plain_alias("regex", "pattern"),
    plain_alias("glob", "include"),
    plain_alias("glob", "pattern"),
    plain_alias("glob_pattern", "include"),
    plain_alias("glob_pattern", "pattern"),
    plain_alias("include_glob", "include"),
    plain_alias("include_pattern", "include"),
    plain_alias("file_pattern", "include"),
    plain_alias("exclude_glob", "exclude"),
    plain_alias("exclude_pattern", "exclude"),
    plain_alias("exclude_patterns", "exclude"),
    plain_alias("-i", "ignore_case"),
    plain_alias("case_insensitive", "ignore_case"),
    converted_alias("case_sensitive", "ignore_case", negate_bool),
    plain_alias("-w", "whole_word"),
    plain_alias("-F", "literal"),
    plain_alias("fixed_strings", "literal"),
    converted_alias("is_regex", "literal", negate_bool),
    plain_alias("-A", "after"),
    plain_alias("-B", "before"),
    plain_alias("-C", "context"),
    plain_alias("after_context", "after"),
    plain_alias("before_context", "before"),
    plain_alias("context_lines", "context"),
    plain_alias("output_mode", "output"),
    plain_alias("no_ignore", "include_ignored"),
    converted_alias("respect_gitignore", "include_ignored", negate_bool),
    converted_alias("respect_git_ignore", "include_ignored", negate_bool),
    plain_alias("name", "label"),
    plain_alias("cmd", "command"),
    plain_alias("script", "command"),
    plain_alias("input", "stdin"),
    plain_alias("environment", "env"),
    plain_alias("envs", "env"),
    converted_alias("timeout", "timeout_s", convert_timeout),
    converted_alias("timeout_ms", "timeout_s", convert_milliseconds),
    plain_alias("timeout_seconds", "timeout_s"),
    plain_alias("timeout_sec", "timeout_s"),
    plain_alias("wait_seconds", "wait_s"),
    converted_alias("wait_ms", "wait_s", convert_milliseconds),
    plain_alias("max_output", "max_output_bytes"),
    plain_alias("max_output_length", "max_output_bytes"),
    plain_alias("lang", "language"),
    plain_alias("context_id", "context"),
    plain_alias("process_id", "id"),
    plain_alias("bash_id", "id"),
    // The names below stand for no argument; the argument beside each one selects the tools that are asked for it.
    converted_alias("-n", "whole_word", check_line_numbers),
    converted_alias("type", "include", refuse_file_type),
    converted_alias("view_range", "tail", refuse_line_range),
    converted_alias("start_line", "tail", refuse_line_range),
    converted_alias("end_line", "tail", refuse_line_range),
    converted_alias("description", "command", ignore_value),
    converted_alias("run_in_background", "command", refuse_background),
];

const fn plain_alias(name: &'static str, key: &'static str) -> KeyAlias {
    KeyAlias {
        name,
        key,
        convert: None,
    }
}

const fn converted_alias(
    name: &'static str,
    key: &'static str,
    convert: fn(Value) -> Result<Option<Value>>,
) -> KeyAlias {
    KeyAlias {
        name,
        key,
        convert: Some(convert),
    }
}

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
