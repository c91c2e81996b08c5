//! Names of arguments that models know from other systems.
//!
//! A tool takes another name if it has the argument that the name stands for. The schemas show only the names of this
//! project. A value with another meaning elsewhere (milliseconds, the opposite) is converted; for a value without a
//! meaning here, the error names the argument to use.

use garret_core::shape::Alias;
use garret_core::{Error, Result};
use serde_json::{Value, json};

/// From this number on, a bare `timeout` is in milliseconds. Nobody waits three hours for a tool call, and a limit of
/// less than ten seconds is seldom given in milliseconds; a number that is read as too long is lowered to the maximum,
/// and the answer says so.
const MILLISECONDS_FROM: f64 = 10_000.0;

/// The names, in the order in which they are tried: a name that stands for several arguments means the first one that
/// the tool has.
pub(crate) const ALIASES: &[Alias] = &[
    same("file_path", "path"),
    same("filepath", "path"),
    same("filename", "path"),
    same("file", "path"),
    same("absolute_path", "path"),
    same("target_file", "path"),
    same("file_paths", "paths"),
    same("files", "paths"),
    same("directory", "cwd"),
    same("directory", "path"),
    same("dir", "cwd"),
    same("dir", "path"),
    same("dir_path", "path"),
    same("target_directory", "path"),
    same("working_directory", "cwd"),
    same("working_dir", "cwd"),
    same("workdir", "cwd"),
    same("contents", "content"),
    same("file_text", "content"),
    same("text", "content"),
    same("old_string", "old_text"),
    same("old_str", "old_text"),
    same("new_string", "new_text"),
    same("new_str", "new_text"),
    same("allow_multiple", "replace_all"),
    same("expected_occurrences", "expected_replacements"),
    same("patch", "diff"),
    same("unified_diff", "diff"),
    same("source", "src"),
    same("source_path", "src"),
    same("old_path", "src"),
    same("from", "src"),
    same("destination", "dest"),
    same("destination_path", "dest"),
    same("new_path", "dest"),
    same("target", "dest"),
    same("to", "dest"),
    same("recursive", "parents"),
    same("max_depth", "depth"),
    same("head", "limit"),
    same("head_limit", "limit"),
    same("max_results", "limit"),
    same("max_entries", "limit"),
    same("max_lines", "limit"),
    same("num_lines", "limit"),
    same("max_matches", "limit"),
    same("skip", "offset"),
    same("sort_by", "sort"),
    same("query", "pattern"),
    same("regex", "pattern"),
    same("glob", "include"),
    same("glob", "pattern"),
    same("glob_pattern", "include"),
    same("glob_pattern", "pattern"),
    same("include_glob", "include"),
    same("include_pattern", "include"),
    same("file_pattern", "include"),
    same("exclude_glob", "exclude"),
    same("exclude_pattern", "exclude"),
    same("exclude_patterns", "exclude"),
    same("-i", "ignore_case"),
    same("case_insensitive", "ignore_case"),
    converted("case_sensitive", "ignore_case", opposite),
    same("-w", "whole_word"),
    same("-F", "literal"),
    same("fixed_strings", "literal"),
    converted("is_regex", "literal", opposite),
    same("-A", "after"),
    same("-B", "before"),
    same("-C", "context"),
    same("after_context", "after"),
    same("before_context", "before"),
    same("context_lines", "context"),
    same("output_mode", "output"),
    same("no_ignore", "include_ignored"),
    converted("respect_gitignore", "include_ignored", opposite),
    converted("respect_git_ignore", "include_ignored", opposite),
    same("name", "label"),
    same("cmd", "command"),
    same("script", "command"),
    same("input", "stdin"),
    same("environment", "env"),
    same("envs", "env"),
    converted("timeout", "timeout_s", timeout),
    converted("timeout_ms", "timeout_s", milliseconds),
    same("timeout_seconds", "timeout_s"),
    same("timeout_sec", "timeout_s"),
    same("wait_seconds", "wait_s"),
    converted("wait_ms", "wait_s", milliseconds),
    same("max_output", "max_output_bytes"),
    same("max_output_length", "max_output_bytes"),
    same("lang", "language"),
    same("context_id", "context"),
    same("process_id", "id"),
    same("bash_id", "id"),
    // The names below stand for no argument; the argument beside each one selects the tools that are asked for it.
    converted("-n", "whole_word", line_numbers),
    converted("type", "include", file_type),
    converted("view_range", "tail", line_range),
    converted("start_line", "tail", line_range),
    converted("end_line", "tail", line_range),
    converted("description", "command", nothing),
    converted("run_in_background", "command", in_background),
];

const fn same(name: &'static str, key: &'static str) -> Alias {
    Alias {
        name,
        key,
        convert: None,
    }
}

const fn converted(name: &'static str, key: &'static str, convert: fn(Value) -> Result<Option<Value>>) -> Alias {
    Alias {
        name,
        key,
        convert: Some(convert),
    }
}

/// Converts a bool to its opposite.
fn opposite(value: Value) -> Result<Option<Value>> {
    Ok(Some(match value {
        Value::Bool(value) => Value::Bool(!value),
        // A value of another type stays as it is, so that the error about it names the right type.
        other => other,
    }))
}

fn milliseconds(value: Value) -> Result<Option<Value>> {
    Ok(Some(match value.as_f64() {
        Some(milliseconds) => json!(milliseconds / 1_000.0),
        None => value,
    }))
}

fn timeout(value: Value) -> Result<Option<Value>> {
    match value.as_f64() {
        Some(number) if number >= MILLISECONDS_FROM => milliseconds(value),
        _ => Ok(Some(value)),
    }
}

/// Drops the note to people that a caller adds to a command.
fn nothing(_value: Value) -> Result<Option<Value>> {
    Ok(None)
}

fn in_background(value: Value) -> Result<Option<Value>> {
    match value {
        Value::Bool(false) => Ok(None),
        _ => Err(Error::invalid("`run_in_background` is not an argument here").hint("call `start` with the `command`")),
    }
}

fn line_numbers(value: Value) -> Result<Option<Value>> {
    match value {
        Value::Bool(true) => Ok(None),
        _ => Err(Error::invalid("line numbers are always shown").hint("leave out `-n`")),
    }
}

fn file_type(_value: Value) -> Result<Option<Value>> {
    Err(Error::invalid("there is no argument `type`").hint("select the files with `include`, such as [\"*.rs\"]"))
}

fn line_range(_value: Value) -> Result<Option<Value>> {
    Err(Error::invalid("use `offset` and `limit` to read a part of a file")
        .hint("lines 11 to 30 are `offset: 10, limit: 20`; `tail` reads the last lines"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_timeout_is_in_seconds_unless_that_would_be_hours() {
        let read = |value: Value| timeout(value).unwrap().unwrap();
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
        assert_eq!(opposite(json!(true)).unwrap(), Some(json!(false)));
        assert_eq!(opposite(json!("yes")).unwrap(), Some(json!("yes")));
        assert_eq!(milliseconds(json!(1_500)).unwrap(), Some(json!(1.5)));
    }

    #[test]
    fn what_is_done_otherwise_here_is_named() {
        assert_eq!(in_background(json!(false)).unwrap(), None);
        assert!(in_background(json!(true)).unwrap_err().hint_text().contains("`start`"));
        assert_eq!(line_numbers(json!(true)).unwrap(), None);
        assert!(line_range(json!([1, 2])).unwrap_err().hint_text().contains("`offset"));
    }
}
