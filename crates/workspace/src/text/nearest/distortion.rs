//! Undoes the ways in which models distort text on its way into a call, so that the intended text can be looked for:
//! pasted line numbers, and escape sequences too many or too few.

use super::TextDifference;

/// Returns the texts that `wanted` may stand for, each with the distortion that it undoes.
pub(super) fn undo_distortions(wanted: &str) -> Vec<(String, TextDifference)> {
    let forms = [
        (strip_line_numbers(wanted), TextDifference::LineNumbers),
        (unescape_text(wanted), TextDifference::Escapes),
        (escape_text(wanted), TextDifference::EscapesInFile),
    ];
    forms
        .into_iter()
        .filter_map(|(form, name)| Some((form?, name)))
        .collect()
}

fn strip_line_numbers(wanted: &str) -> Option<String> {
    let mut stripped = Vec::new();
    let mut numbered = 0;
    for line in wanted.split('\n') {
        match strip_line_number(line) {
            Some(rest) => {
                numbered += 1;
                stripped.push(rest);
            }
            None if line.trim().is_empty() => stripped.push(line),
            // Numbered output numbers every line with text, so this is not such output.
            None => return None,
        }
    }
    (numbered > 0).then(|| stripped.join("\n"))
}

/// Takes `  12<tab>`, `12| `, `12: ` or `12→` off the front of a line.
fn strip_line_number(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    let rest = trimmed.trim_start_matches(|character: char| character.is_ascii_digit());
    if rest.len() == trimmed.len() {
        return None;
    }
    if let Some(text) = rest.strip_prefix(['\t', '→']) {
        return Some(text);
    }
    let text = rest.trim_start().strip_prefix(['|', ':'])?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

fn unescape_text(wanted: &str) -> Option<String> {
    let mut out = String::with_capacity(wanted.len());
    let mut rest = wanted;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (plain, length) = unescape_one(&rest[at + 1..]);
        found |= length > 0;
        out.push(plain);
        rest = &rest[at + 1 + length..];
    }
    out.push_str(rest);
    found.then_some(out)
}

fn unescape_one(after: &str) -> (char, usize) {
    match after.chars().next() {
        Some('n') => ('\n', 1),
        Some('t') => ('\t', 1),
        Some('r') => ('\r', 1),
        Some(same @ ('"' | '\'' | '\\' | '`')) => (same, 1),
        // Any other backslash is content, such as that of a regular expression.
        _ => ('\\', 0),
    }
}

fn escape_text(wanted: &str) -> Option<String> {
    let body = wanted.strip_suffix('\n').unwrap_or(wanted);
    if !body.contains(['\n', '\t', '"']) {
        return None;
    }
    // Backslashes first: the other replacements add new ones.
    Some(
        body.replace('\\', "\\\\")
            .replace('\n', "\\n")
            .replace('\t', "\\t")
            .replace('"', "\\\""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_of_the_usual_shapes_come_off() {
        for numbered in [
            "  12\tlet a;\n  13\tlet b;",
            "12| let a;\n13| let b;",
            "12: let a;\n13: let b;",
            "12→let a;\n13→let b;",
        ] {
            assert_eq!(strip_line_numbers(numbered).as_deref(), Some("let a;\nlet b;"));
        }
        assert_eq!(strip_line_numbers("12 apples"), None);
        assert_eq!(strip_line_numbers("1\ta\nb"), None);
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        assert_eq!(unescape_text(r#"a\n\t\"b\"\d"#).as_deref(), Some("a\n\t\"b\"\\d"));
        assert_eq!(unescape_text("a\\d"), None);
        assert_eq!(escape_text("a\n\"b\"\n").as_deref(), Some(r#"a\n\"b\""#));
    }
}
