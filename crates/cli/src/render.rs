//! Results as text for a person. Pure functions; nothing here prints.

pub(crate) mod color;
pub(crate) mod history;
pub(crate) mod usage;

use std::ops::Range;

use garret::path::escape_unprintable;
use garret::{EntryKind, GrepMatch, ListedEntry, SearchCutoff, SkippedPath, TransferResult};

use crate::time;

/// The most skipped files that are named to a person.
const MAX_NAMED: usize = 10;

/// Formats a path or a name: control characters escaped, the root as `/`.
pub(crate) fn display_path(path: &str) -> String {
    if path.is_empty() {
        "/".into()
    } else {
        escape_unprintable(path).into_owned()
    }
}

/// Formats a number of bytes for a person.
pub(crate) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes.saturating_mul(10) / 1_024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Formats a number with its word, in the singular for one.
pub(crate) fn format_count(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}")
}

/// Formats the amount that was copied, without the kinds of which there is none.
pub(crate) fn format_amount(files: u64, directories: u64, links: u64, bytes: u64) -> String {
    let parts = [
        (files, "file", "files"),
        (directories, "directory", "directories"),
        (links, "link", "links"),
    ];
    let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
    let words = parts.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
    words.chain([format_size(bytes)]).collect::<Vec<_>>().join(", ")
}

/// The most characters to which a column is padded, so that one long name does not widen every line.
const WIDEST: usize = 200;

/// Formats rows in columns as wide as their widest cell; the end of a line is not padded.
pub(crate) fn format_table(rows: impl Iterator<Item = Vec<String>>) -> String {
    format_table_with(rows, |_, cell| cell.to_owned())
}

/// Formats rows in columns; `paint` makes each cell from the number of its column and its padded text.
pub(crate) fn format_table_with(
    rows: impl Iterator<Item = Vec<String>>,
    paint: impl Fn(usize, &str) -> String,
) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        widest.unwrap_or(0).min(WIDEST)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row
            .iter()
            .zip(&widths)
            .enumerate()
            .filter(|(_, (_, width))| **width > 0);
        let mut cells: Vec<_> = padded
            .map(|(column, (cell, width))| (column, format!("{cell:width$}")))
            .collect();
        // Empty cells at the end go, too, so that no line ends with blanks.
        while let Some((_, last)) = cells.last_mut() {
            last.truncate(last.trim_end().len());
            if !last.is_empty() {
                break;
            }
            cells.pop();
        }
        let painted: Vec<_> = cells.iter().map(|(column, cell)| paint(*column, cell)).collect();
        painted.join("  ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the word for a kind.
pub(crate) fn kind_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "other",
    }
}

/// Formats the name or the path of an entry, with a mark for its kind: `/` directory, `@` link, `?` special file.
pub(crate) fn entry_name(entry: &ListedEntry, as_path: bool) -> String {
    let mark = match entry.r#type {
        EntryKind::File => "",
        EntryKind::Directory => "/",
        EntryKind::Symlink => "@",
        EntryKind::Other => "?",
    };
    format!(
        "{}{mark}",
        display_path(if as_path { &entry.path } else { &entry.name })
    )
}

/// Formats kind, size and time of an entry in columns.
pub(crate) fn entry_details(entry: &ListedEntry) -> String {
    let modified = entry
        .modified_at
        .as_deref()
        .map_or_else(|| "-".to_owned(), time::format_time);
    format!("{:9} {:>10} {modified:27}", kind_word(entry.r#type), entry.size)
}

/// Formats the line that says how to get the next page.
pub(crate) fn next_page_line(cursor: &str) -> String {
    format!("(more: repeat with --cursor {})", quote_for_shell(cursor))
}

/// Formats the text as one word for a shell, in quotes if it needs them.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        quote_for_shell(text)
    }
}

fn quote_for_shell(text: &str) -> String {
    format!("'{}'", escape_unprintable(text).replace('\'', "'\\''"))
}

/// Describes a copy or a move.
pub(crate) fn describe_transfer(did: &str, transferred: &TransferResult) -> String {
    let files = if transferred.files == 1 {
        String::new()
    } else {
        format!(" ({} files)", transferred.files)
    };
    format!(
        "{did} {} -> {}{files}",
        display_path(&transferred.src),
        display_path(&transferred.dest)
    )
}

/// Draws entries as a tree; each directory must come before its own entries.
pub(crate) fn draw_tree(root: &str, entries: &[ListedEntry]) -> String {
    let top = root.trim_matches('/');
    let base = if top.is_empty() {
        0
    } else {
        path_depth(&entries.first().map_or(String::new(), |first| first.path.clone()))
    };
    let mut text = format!(
        "{}\n",
        if top.is_empty() {
            ".".into()
        } else {
            escape_unprintable(top)
        }
    );
    for (index, entry) in entries.iter().enumerate() {
        let level = path_depth(&entry.path) - base;
        let bars: String = (0..level)
            .map(|above| {
                if has_next_at_level(&entries[index..], base + above) {
                    "│   "
                } else {
                    "    "
                }
            })
            .collect();
        let branch = if has_next_at_level(&entries[index..], base + level) {
            "├── "
        } else {
            "└── "
        };
        text.push_str(&format!("{bars}{branch}{}\n", entry_name(entry, false)));
    }
    text
}

fn path_depth(path: &str) -> usize {
    path.matches('/').count()
}

/// Whether another entry at `level` follows the first of `entries`, before any entry above that level.
fn has_next_at_level(entries: &[ListedEntry], level: usize) -> bool {
    entries
        .iter()
        .skip(1)
        .map(|entry| path_depth(&entry.path))
        .find(|found| *found <= level)
        == Some(level)
}

/// Formats matching lines as `rg` prints them into a pipe: `path:line:text`, lines around them `path-line-text`, `--`
/// between lines that are not adjacent.
pub(crate) fn format_matches(matches: &[GrepMatch]) -> String {
    format_matches_with(matches, display_path, |line| {
        let ShownLine {
            name,
            mark,
            number,
            text,
            ..
        } = line;
        format!("{name}{mark}{number}{mark}{text}\n")
    })
}

/// A line of a match or around one.
pub(crate) struct ShownLine<'a> {
    pub(crate) name: &'a str,
    /// `:` for a line of the match, `-` for one around it.
    pub(crate) mark: char,
    pub(crate) number: u64,
    pub(crate) text: &'a str,
    /// The ranges of the matches in `text`.
    pub(crate) spans: Vec<Range<usize>>,
}

/// Formats matching lines in order: `show` formats each line, `name_of` the path of its file.
pub(crate) fn format_matches_with(
    matches: &[GrepMatch],
    name_of: impl Fn(&str) -> String,
    show: impl Fn(ShownLine<'_>) -> String,
) -> String {
    let has_context = matches
        .iter()
        .any(|found| !found.before.is_empty() || !found.after.is_empty());
    let mut text = String::new();
    let mut last: Option<(&str, u64)> = None;
    let mut name = String::new();
    for (index, found) in matches.iter().enumerate() {
        if last.is_none_or(|(path, _)| path != found.path) {
            name = name_of(&found.path);
        }
        // The line of the next match is shown as a match, and not as the context of this one.
        let next = matches
            .get(index + 1)
            .filter(|next| next.path == found.path)
            .map_or(u64::MAX, |next| next.line_number);
        for (number, mark, line, start) in numbered_lines(found).filter(|(number, ..)| *number < next) {
            match last {
                // The contexts of neighbouring matches overlap; each line is shown once.
                Some((path, shown)) if path == found.path && number <= shown => continue,
                Some((path, shown)) if has_context && (path != found.path || number > shown + 1) => {
                    text.push_str("--\n")
                }
                _ => {}
            }
            text.push_str(&show(ShownLine {
                name: &name,
                mark,
                number,
                text: line,
                spans: start.map_or_else(Vec::new, |start| spans_within(&found.spans, start, line.len())),
            }));
            last = Some((&found.path, number));
        }
    }
    text
}

/// Returns the lines of a match and those around it, with their numbers and marks; a line of the match itself also has
/// its offset in the match.
fn numbered_lines(found: &GrepMatch) -> impl Iterator<Item = (u64, char, &str, Option<usize>)> {
    let first = found.line_number - found.before.len() as u64;
    let before = found.before.iter().map(|line| ('-', line.as_str(), None));
    let own = found.line.split('\n').scan(0, |start, line| {
        let at = *start;
        *start += line.len() + 1;
        Some((':', line, Some(at)))
    });
    let after = found.after.iter().map(|line| ('-', line.as_str(), None));
    (first..)
        .zip(before.chain(own).chain(after))
        .map(|(number, (mark, line, start))| (number, mark, line, start))
}

/// Returns the parts of `spans` within the `length` bytes from `start` on, counted from `start`.
fn spans_within(spans: &[Range<usize>], start: usize, length: usize) -> Vec<Range<usize>> {
    let part = |span: &Range<usize>| {
        let from = span.start.max(start) - start;
        let to = span.end.min(start + length).saturating_sub(start);
        (from < to).then_some(from..to)
    };
    spans.iter().filter_map(part).collect()
}

/// Lists the files that a search skipped, for standard error; empty if there are none.
pub(crate) fn list_skipped(skipped: &[SkippedPath], count: u64) -> String {
    let named = skipped
        .iter()
        .take(MAX_NAMED)
        .map(|file| format!("skipped: {} ({})\n", display_path(&file.path), file.reason));
    let mut text: String = named.collect();
    if count > MAX_NAMED as u64 {
        text.push_str(&format!(
            "skipped: {} more (--json names them)\n",
            count - MAX_NAMED as u64
        ));
    }
    text
}

/// Describes the files that a search did not reach because of a limit of the storage.
pub(crate) fn describe_left_out(left_out: Option<&SearchCutoff>) -> String {
    left_out.map_or_else(String::new, |left_out| {
        let after = display_path(&left_out.after);
        format!(
            "not searched because of {}: everything after {after}\n",
            left_out.reason
        )
    })
}

/// Returns the note for a list or a search of an earlier point that may lack files.
pub(crate) fn incomplete_note(incomplete: bool) -> &'static str {
    if incomplete {
        "incomplete: files that the history had not captured by then are missing\n"
    } else {
        ""
    }
}

/// Reads permission bits.
pub(crate) fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
        Ok(bits) if bits <= 0o7777 => Ok(bits),
        _ => Err("use octal digits such as 644 or 755".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_for_the_shell_where_it_must_be() {
        assert_eq!(shell_word("s3://a/b"), "s3://a/b");
        assert_eq!(shell_word("my box"), "'my box'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    fn entry(path: &str, r#type: EntryKind) -> ListedEntry {
        let name = path.rsplit('/').next().unwrap().to_owned();
        ListedEntry {
            name,
            path: path.into(),
            r#type,
            size: 0,
            modified_at: None,
            escaped: false,
        }
    }

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let entries = [
            entry("a", EntryKind::Directory),
            entry("a/b", EntryKind::Directory),
            entry("a/b/x", EntryKind::File),
            entry("a/c", EntryKind::File),
            entry("z", EntryKind::Symlink),
        ];
        let drawing = ".\n├── a/\n│   ├── b/\n│   │   └── x\n│   └── c\n└── z@\n";
        assert_eq!(draw_tree("", &entries), drawing);
        assert_eq!(draw_tree("a", &entries[1..4]), "a\n├── b/\n│   └── x\n└── c\n");
    }

    #[test]
    fn a_cell_without_end_pads_no_other_without_end() {
        let rows = [
            vec!["a".to_owned(), "b".to_owned()],
            vec!["x".repeat(70_000), "y".to_owned()],
        ];
        let drawn = format_table(rows.into_iter());
        let lines: Vec<_> = drawn.lines().map(str::len).collect();
        assert_eq!(lines, [WIDEST + 3, 70_003]);
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        assert_eq!(entry_name(&entry("a\nb", EntryKind::File), false), "a\\nb");
    }

    fn found(path: &str, line_number: u64, line: &str, before: &[&str], after: &[&str]) -> GrepMatch {
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let (before, after) = (owned(before), owned(after));
        GrepMatch {
            path: path.into(),
            line_number,
            line: line.into(),
            before,
            after,
            lossy: false,
            spans: Vec::new(),
        }
    }

    #[test]
    fn matches_print_as_rg_prints_them() {
        assert_eq!(
            format_matches(&[found("a", 1, "x", &[], &[]), found("b", 7, "x", &[], &[])]),
            "a:1:x\nb:7:x\n"
        );
    }

    #[test]
    fn context_is_not_repeated_and_gaps_are_marked() {
        let all = [
            found("a", 2, "x", &["1"], &["3"]),
            found("a", 3, "3", &["x"], &["4"]),
            found("a", 9, "x", &["8"], &[]),
        ];
        assert_eq!(format_matches(&all), "a-1-1\na:2:x\na:3:3\na-4-4\n--\na-8-8\na:9:x\n");
    }

    #[test]
    fn a_match_over_several_lines_numbers_each() {
        assert_eq!(format_matches(&[found("a", 2, "x\ny", &[], &[])]), "a:2:x\na:3:y\n");
    }

    #[test]
    fn a_size_is_short_and_never_rounded_up() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_535, "1.4 KiB"),
            (1_048_575, "1023.9 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "1638.3 PiB"),
        ] {
            assert_eq!(format_size(bytes), shown);
        }
    }

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [vec!["a", "", "bb", ""], vec!["ccc", "", "d", "e"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect());
        assert_eq!(format_table(rows.into_iter()), "a    bb\nccc  d   e");
    }

    #[test]
    fn mode_bits_are_octal() {
        assert_eq!(octal("755"), Ok(0o755));
        assert!(octal("999").is_err());
        assert!(octal("77777").is_err());
    }
}
