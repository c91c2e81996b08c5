//! Selects the part of a command's output that an answer shows.
//!
//! A model reads the end of a log and its errors first. So if not everything fits, standard error comes before standard
//! output, and the head and the tail of each are shown.

use garret_core::CapturedStream;
use garret_workspace::Workspace;

use crate::AnswerLimits;
use crate::text;

/// The bytes of an answer whose call asks for no `max_output_bytes`.
const DEFAULT_BYTES: usize = 8_000;
/// The most bytes of the line that ends an answer.
const MAX_FOOTER: usize = 2_000;

/// The room for output in one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputRoom {
    /// The bytes of this answer.
    pub(crate) bytes: usize,
    /// The most bytes that a call can ask for.
    max: usize,
}

/// The streams of a command, and both together in the order of writing.
pub(crate) struct CommandStreams<'a> {
    pub(crate) output: &'a str,
    pub(crate) stdout: &'a CapturedStream,
    pub(crate) stderr: &'a CapturedStream,
    pub(crate) truncated: bool,
}

/// The part of the output that is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ShownOutput {
    pub(crate) text: String,
    pub(crate) left_out: u64,
}

impl OutputRoom {
    /// Returns the room that a `max_output_bytes` argument asks for, as far as the workspace keeps output; absent and 0
    /// ask for the default.
    pub(crate) fn for_call(asked: Option<u64>, workspace: &Workspace, limits: &AnswerLimits) -> Self {
        let kept = workspace.output_limit().unwrap_or(u64::MAX);
        Self::within_limit(asked, limits.max_bytes.min(usize::try_from(kept).unwrap_or(usize::MAX)))
    }

    pub(crate) fn within_limit(asked: Option<u64>, max: usize) -> Self {
        let asked = asked.filter(|asked| *asked > 0);
        let asked = asked.map_or(DEFAULT_BYTES, |asked| usize::try_from(asked).unwrap_or(usize::MAX));
        Self {
            bytes: asked.min(max),
            max,
        }
    }

    /// Returns the part of a footer that tells how much output is omitted and how to get it.
    pub(crate) fn left_out_note(&self, left_out: u64) -> Option<String> {
        let narrow = "narrow it in the command (`| grep`, `| tail`, `> file`)";
        let left = text::format_bytes(left_out);
        match left_out {
            0 => None,
            _ if self.bytes < self.max => Some(format!(
                "{left} of output left out: for more, pass `max_output_bytes` (at most {}), or {narrow}",
                self.max
            )),
            _ => Some(format!("{left} of output left out: to see it, {narrow}")),
        }
    }

    /// Returns the part of the output that fits beside other text of `taken` bytes; at least half of the room is for
    /// the output.
    pub(crate) fn fit_output(&self, streams: &CommandStreams<'_>, taken: usize) -> ShownOutput {
        show_streams(streams, self.bytes.saturating_sub(taken).max(self.bytes / 2))
    }
}

/// Returns the line that ends an answer, in brackets.
pub(crate) fn format_footer(parts: &[String]) -> String {
    let mut line = parts.join("; ");
    // The parts quote names and messages, whose length nothing bounds.
    if line.len() > MAX_FOOTER {
        line.truncate(line.floor_char_boundary(MAX_FOOTER));
        line.push('…');
    }
    format!("[{line}]")
}

/// Returns text in at most `room` bytes: its head and its tail.
pub(crate) fn head_and_tail(text: &str, room: usize) -> String {
    let all = CapturedStream {
        head: text.as_bytes().to_vec(),
        ..CapturedStream::default()
    };
    cut_stream(&all, room).text
}

fn show_streams(streams: &CommandStreams<'_>, room: usize) -> ShownOutput {
    if !streams.truncated && streams.output.len() <= room {
        return ShownOutput {
            text: streams.output.trim_end_matches('\n').to_owned(),
            left_out: 0,
        };
    }
    if streams.stderr.kept_len() == 0 {
        return cut_stream(streams.stdout, room);
    }
    let room = room.saturating_sub("stderr:\n\nstdout:\n".len());
    // Standard error has at least half of the room, and all that standard output does not need.
    let errors = cut_stream(
        streams.stderr,
        (room / 2).max(room.saturating_sub(streams.stdout.kept_len())),
    );
    if streams.stdout.kept_len() == 0 {
        return errors;
    }
    let rest = cut_stream(streams.stdout, room.saturating_sub(errors.text.len()));
    ShownOutput {
        text: format!("stderr:\n{}\nstdout:\n{}", errors.text, rest.text),
        left_out: errors.left_out + rest.left_out,
    }
}

/// Returns the head and the tail of a stream in at most `room` bytes of text; in a very small room, the line between
/// them may exceed it.
fn cut_stream(stream: &CapturedStream, room: usize) -> ShownOutput {
    let mut take = room;
    loop {
        let kept = stream.cut_to(take).with_whole_lines();
        let text = kept.to_text();
        let text = text.trim_end_matches('\n');
        if text.len() <= room || take == 0 {
            return ShownOutput {
                text: text.to_owned(),
                left_out: kept.left_out,
            };
        }
        // Characters that are made visible take more room than before; so does the line in the middle.
        take = (take.saturating_mul(room) / text.len()).min(take - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> CapturedStream {
        CapturedStream {
            head: text.as_bytes().to_vec(),
            ..CapturedStream::default()
        }
    }

    fn shown(stdout: &str, stderr: &str, room: usize) -> ShownOutput {
        let output = format!("{stdout}{stderr}");
        let streams = CommandStreams {
            output: &output,
            stdout: &stream(stdout),
            stderr: &stream(stderr),
            truncated: false,
        };
        show_streams(&streams, room)
    }

    fn numbers(last: usize) -> String {
        (1..=last).map(|number| format!("{number}\n")).collect()
    }

    #[test]
    fn what_fits_is_shown_in_the_order_in_which_it_came() {
        let whole = shown("a\n", "b\n", 100);
        assert_eq!((whole.text.as_str(), whole.left_out), ("a\nb", 0));
    }

    #[test]
    fn where_not_all_fits_errors_come_first_and_then_head_and_tail() {
        let cut = shown(&numbers(3_000), "error: the reason\n", 8_000);
        assert!(
            cut.text.starts_with("stderr:\nerror: the reason\nstdout:\n1\n2\n"),
            "{}",
            cut.text
        );
        assert!(cut.text.ends_with("\n2999\n3000"), "{}", cut.text);
        assert!(cut.text.len() <= 8_000 && cut.text.len() > 7_000, "{}", cut.text.len());
        let (head, tail) = cut.text.split_once("\n… ").unwrap();
        let (count, tail) = tail.split_once(" bytes left out …\n").unwrap();
        assert_eq!(count.replace(',', "").parse::<u64>().unwrap(), cut.left_out);
        // No line is cut in two, and nothing is lost that is not counted.
        let lines: Vec<usize> = [head, tail]
            .iter()
            .flat_map(|part| part.lines().filter_map(|line| line.parse().ok()))
            .collect();
        assert!(
            lines.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() == 1,
            "{lines:?}"
        );
        let bytes: usize = lines.iter().map(|number| number.to_string().len() + 1).sum();
        assert_eq!(bytes as u64 + cut.left_out, numbers(3_000).len() as u64);
    }

    #[test]
    fn many_errors_leave_room_for_the_rest() {
        let cut = shown(&numbers(3_000), &numbers(3_000), 8_000);
        let (errors, rest) = cut.text.split_once("\nstdout:\n").unwrap();
        assert!(errors.ends_with("\n3000") && rest.starts_with("1\n2\n") && rest.ends_with("\n3000"));
        assert!(cut.text.len() <= 8_000 && errors.len() <= 4_100, "{}", errors.len());
        let alone = shown("", &numbers(3_000), 8_000);
        assert!(alone.text.starts_with("1\n") && alone.text.ends_with("\n3000") && alone.text.len() <= 8_000);
    }

    #[test]
    fn what_is_made_visible_still_fits() {
        let cut = shown(&"\u{1b}[31m\n".repeat(2_000), "", 1_000);
        assert!(cut.text.len() <= 1_000, "{}", cut.text.len());
        assert!(cut.text.contains("\\u{1b}[31m"));
    }

    #[test]
    fn a_call_asks_for_as_much_as_there_can_be() {
        assert_eq!(OutputRoom::within_limit(None, 100_000).bytes, 8_000);
        assert_eq!(OutputRoom::within_limit(Some(0), 100_000).bytes, 8_000);
        assert_eq!(OutputRoom::within_limit(Some(50_000), 100_000).bytes, 50_000);
        let most = OutputRoom::within_limit(Some(u64::MAX), 100_000);
        assert_eq!(most.bytes, 100_000);
        assert_eq!(OutputRoom::within_limit(None, 1_000).bytes, 1_000);
        assert!(!most.left_out_note(5).unwrap().contains("max_output_bytes"));
        let note = OutputRoom::within_limit(None, 100_000).left_out_note(5).unwrap();
        assert!(note.contains("`max_output_bytes` (at most 100000)"), "{note}");
    }
}
