//! `read_file`: reads a text file by lines, any other by bytes, and an image as an image.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_core::path::{escape_unprintable, quote};
use garret_core::{Error, Result};
use garret_workspace::{
    Encoding, FailedRead, FileContent, ReadFilesResult, ReadRange, ReadRequest, ReadUnit, Workspace, image_type,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{one_or_many, unless_empty};
use crate::point::{self, text_or_number};
use crate::text::{
    AnswerPage, FOOTER_ROOM, bound_text, cut_line, format_bytes, format_count, group_digits, listed_names,
};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerImage, AnswerLimits};

/// The largest image that a model is shown.
const MAX_IMAGE_BYTES: u64 = 5 << 20;

/// The least room that an answer must have for one more of several files.
const LEAST_ROOM: usize = 1 << 10;

pub(crate) struct ReadFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Relative to the workspace root.
    path: Option<String>,
    /// Several files at once, in place of `path`.
    #[serde(default, deserialize_with = "one_or_many")]
    paths: Vec<String>,
    /// Lines to skip; bytes where the file is not text, or with `base64`.
    offset: Option<u64>,
    /// Most lines (or bytes, as for `offset`).
    limit: Option<u64>,
    /// Only this many lines from the end.
    tail: Option<u64>,
    /// `base64` shows bytes.
    #[serde(default, deserialize_with = "unless_empty")]
    encoding: Option<Encoding>,
    /// Past state: snapshot label, change or time.
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for ReadFileTool {
    type Arguments = Arguments;
    type Data = ReadFilesResult;

    const NAME: &'static str = "read_file";
    const SHORT: &'static str = "read";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str = "Reads a file as numbered lines (number and tab are not part of it), an image as an image. Long answers of all tools come in pages; the last line says how to go on.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, mut arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let limits = limits.for_limit(arguments.limit.or(arguments.tail));
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let mut paths = std::mem::take(&mut arguments.paths);
        let path = arguments.path.take();
        if paths.is_empty() {
            let path = path.ok_or_else(no_file)?;
            let file = one_file(&viewed, &path, &arguments, &limits, MAX_IMAGE_BYTES).await?;
            return Ok(ToolOutput {
                text: file.text,
                data: ReadFilesResult {
                    file: Some(file.data),
                    ..ReadFilesResult::default()
                },
                images: file.images,
            });
        }
        // A `path` beside `paths` is one more file; an empty one counts as absent.
        if let Some(path) = path.filter(|path| !path.is_empty() && !paths.contains(path)) {
            paths.insert(0, path);
        }
        Ok(several_files(&viewed, &paths, &arguments, &limits).await)
    }
}

fn no_file() -> Error {
    Error::invalid("no file is named").hint("pass `path`, or `paths` for several files")
}

/// Reads the files one after the other until the answer is full. The error of a file is shown in its place.
async fn several_files(
    workspace: &Workspace,
    paths: &[String],
    arguments: &Arguments,
    limits: &AnswerLimits,
) -> ToolOutput<ReadFilesResult> {
    let mut data = ReadFilesResult::default();
    let (mut text, mut files, mut images) = (String::new(), Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let header = format!("==> {} <==\n", escape_unprintable(path));
        let room = limits.bytes.saturating_sub(text.len() + header.len() + FOOTER_ROOM);
        let lines = limits.lines.saturating_sub(text.matches('\n').count() + 1);
        if index > 0 && (room < LEAST_ROOM || lines == 0) {
            data.left_out = paths[index..].to_vec();
            break;
        }
        let rest = AnswerLimits {
            // The first file is shown, however small the answer is.
            bytes: room.max(LEAST_ROOM.min(limits.bytes / 2)),
            lines: lines.max(1),
            ..*limits
        };
        // The bound on one image holds for all images of an answer together.
        let image_bytes: usize = images.iter().map(|image: &AnswerImage| image.bytes.len()).sum();
        let image_room = MAX_IMAGE_BYTES.saturating_sub(image_bytes as u64);
        text.push_str(&header);
        match one_file(workspace, path, arguments, &rest, image_room).await {
            Ok(file) => {
                text.push_str(&file.text);
                images.extend(file.images);
                files.push(file.data);
            }
            Err(error) => {
                text.push_str(&bound_text(&error.to_string(), &rest));
                data.failed.push(FailedRead {
                    path: path.clone(),
                    kind: error.kind().as_str().to_owned(),
                    message: error.message().to_owned(),
                });
            }
        }
        text.push('\n');
    }
    if data.left_out.is_empty() {
        text.pop();
    } else {
        text.push_str(&format!(
            "[no room for {}: read them in another call]",
            listed_names(&data.left_out)
        ));
    }
    data.files = Some(files);
    ToolOutput { text, data, images }
}

async fn one_file(
    workspace: &Workspace,
    path: &str,
    arguments: &Arguments,
    limits: &AnswerLimits,
    max_image_bytes: u64,
) -> Result<ToolOutput<FileContent>> {
    let wants_bytes = arguments.encoding == Some(Encoding::Base64);
    let request = ReadRequest {
        unit: if wants_bytes { ReadUnit::Bytes } else { ReadUnit::Lines },
        offset: arguments.offset.unwrap_or(0),
        limit: arguments.limit.filter(|limit| *limit > 0),
        tail: arguments.tail.filter(|tail| *tail > 0),
        encoding: arguments.encoding.filter(|_| wants_bytes),
        max_bytes: Some(limits.bytes as u64),
        bytes_if_binary: !wants_bytes,
        max_image_bytes: Some(max_image_bytes),
    };
    let (offset, tail) = (request.offset, request.tail);
    let content = workspace.read(path, request).await?;
    Ok(match (content.encoding, tail) {
        (Encoding::Utf8, Some(_)) => show_tail(content, limits),
        (Encoding::Utf8, None) => show_text(content, offset, limits),
        (Encoding::Base64, _) if wants_bytes => show_base64(content, offset, limits),
        (Encoding::Base64, _) => show_binary(content, offset, limits),
    })
}

/// Returns the last lines. If the numbers make the page too large, the page and the data begin later.
fn show_tail(mut content: FileContent, limits: &AnswerLimits) -> ToolOutput<FileContent> {
    let first = match &content.range {
        None => Some(0),
        Some(range) if range.unit == ReadUnit::Lines => Some(range.start),
        Some(_) => None,
    };
    let lines: Vec<&str> = content.content.split_inclusive('\n').collect();
    let numbered = lines.iter().enumerate().map(|(index, line)| {
        let number = first.map_or_else(String::new, |first| (first + index as u64 + 1).to_string());
        format!("{number:>6}\t{}", shown_line(line, limits))
    });
    let numbered: Vec<String> = numbered.collect();
    // A page can only be filled from its start; this one counts how many of the last lines fit.
    let mut probe = AnswerPage::new(limits);
    let fitting = numbered.iter().rev().take_while(|line| probe.push_block(line)).count();
    let (count, left) = (lines.len() as u64, lines.len() - fitting);
    let cut = lines[..left].iter().map(|line| line.len()).sum();
    let mut page = AnswerPage::new(limits);
    for line in &numbered[left..] {
        page.push_block(line);
    }
    if left > 0 {
        content.content = content.content.split_off(cut);
        let range = content.range.get_or_insert(ReadRange {
            unit: ReadUnit::Lines,
            start: 0,
            end: count,
        });
        range.start += if range.unit == ReadUnit::Lines {
            left as u64
        } else {
            cut as u64
        };
    }
    let footer = tail_footer(&content, fitting as u64, left > 0);
    ToolOutput::new(page.finish(footer), content)
}

fn tail_footer(content: &FileContent, shown: u64, is_full: bool) -> Option<String> {
    let size = format_bytes(content.size);
    if shown == 0 {
        return Some("[empty file]".into());
    }
    let range = content.range.as_ref()?;
    let lines = match range.unit {
        ReadUnit::Lines => named_lines(range.start, shown),
        ReadUnit::Bytes => format!("the last {}", format_count(shown, "line", "lines")),
    };
    let fit = match (content.line_cut, is_full) {
        (true, _) => ", which is longer than a page and cut at its start",
        (false, true) => "; more lines do not fit into one answer",
        (false, false) => "",
    };
    Some(format!("[{lines} of {size}{fit}; end of file]"))
}

/// Returns a line for display: without its ending, and cut if it is too long.
fn shown_line<'a>(line: &'a str, limits: &AnswerLimits) -> Cow<'a, str> {
    let bare = line.trim_end_matches('\n');
    cut_line(bare.strip_suffix('\r').unwrap_or(bare), limits)
}

/// Returns the numbers of the lines: `line 7`, `lines 7–9`.
fn named_lines(offset: u64, shown: u64) -> String {
    match shown {
        1 => format!("line {}", group_digits(offset + 1)),
        _ => format!("lines {}–{}", group_digits(offset + 1), group_digits(offset + shown)),
    }
}

/// Returns numbered lines. If the numbers make the page too large, the page and the data end earlier.
fn show_text(mut content: FileContent, offset: u64, limits: &AnswerLimits) -> ToolOutput<FileContent> {
    let mut page = AnswerPage::new(limits);
    let (mut shown, mut end) = (0, 0);
    for line in content.content.split_inclusive('\n') {
        if !page.push_block(&format!("{:>6}\t{}", offset + shown + 1, shown_line(line, limits))) {
            break;
        }
        shown += 1;
        end += line.len();
    }
    if end < content.content.len() {
        content.content.truncate(end);
        continue_at(&mut content, ReadUnit::Lines, offset, offset + shown);
    }
    let footer = text_footer(&content, offset, shown);
    ToolOutput::new(page.finish(footer), content)
}

/// Ends the page at `end`, earlier than before.
fn continue_at(content: &mut FileContent, unit: ReadUnit, start: u64, end: u64) {
    content.range = Some(ReadRange { unit, start, end });
    content.next_offset = Some(end);
    content.eof = false;
    content.line_cut = false;
}

fn text_footer(content: &FileContent, offset: u64, shown: u64) -> Option<String> {
    let size = format_bytes(content.size);
    let lines = match shown {
        0 if content.size == 0 => return Some("[empty file]".into()),
        0 => {
            return Some(format!(
                "[nothing after line {}: the file is shorter (it has {size})]",
                group_digits(offset)
            ));
        }
        _ => named_lines(offset, shown),
    };
    match content.next_offset {
        Some(next) if content.line_cut => Some(format!(
            "[{lines} of {size}, longer than a page and cut; next line: offset={next}, its bytes: encoding=\"base64\"]"
        )),
        Some(next) => Some(format!("[{lines} of {size}; more: offset={next}]")),
        None if offset > 0 => Some(format!("[{lines} of {size}; end of file]")),
        None => None,
    }
}

/// Returns the base64 that was asked for.
fn show_base64(mut content: FileContent, offset: u64, limits: &AnswerLimits) -> ToolOutput<FileContent> {
    trim_base64(&mut content, offset, limits);
    let footer = byte_footer(&content, offset).unwrap_or_else(|| format!("[base64 of {}]", format_bytes(content.size)));
    let text = if content.content.is_empty() {
        footer
    } else {
        format!("{}\n{footer}", content.content)
    };
    ToolOutput::new(text, content)
}

/// Cuts base64 that is over the limit between two groups of four characters.
fn trim_base64(content: &mut FileContent, offset: u64, limits: &AnswerLimits) {
    // Each group decodes by itself into three bytes, so that the next page can begin at a byte.
    let groups = limits.bytes.saturating_sub(300) / 4;
    if content.content.len() > groups * 4 {
        content.content.truncate(groups * 4);
        continue_at(content, ReadUnit::Bytes, offset, offset + groups as u64 * 3);
    }
}

/// Returns a note about a file that is not text, and the image if it is one.
fn show_binary(mut content: FileContent, offset: u64, limits: &AnswerLimits) -> ToolOutput<FileContent> {
    let path = quote(&content.path);
    let size = format_bytes(content.size);
    let decoded = STANDARD.decode(&content.content).unwrap_or_default();
    let image = image_type(&decoded).filter(|_| offset == 0);
    // Only a whole file can be shown as an image, not a range of its bytes.
    if let (Some(mime_type), true) = (image, content.range.is_none()) {
        let mut output = ToolOutput::new(format!("{path} is an image ({mime_type}, {size})"), content);
        output.images.push(AnswerImage {
            mime_type,
            bytes: decoded.into(),
        });
        return output;
    }
    if content.range.as_ref().is_none_or(|range| range.unit == ReadUnit::Bytes) {
        trim_base64(&mut content, offset, limits);
    }
    let what = match image {
        Some(mime_type) => format!(
            "an image ({mime_type}, {size}) too large to show: at most {} are shown",
            format_bytes(MAX_IMAGE_BYTES)
        ),
        None => format!("not text ({size})"),
    };
    let how = "`encoding: \"base64\"` shows its bytes";
    let footer = byte_footer(&content, offset).map_or_else(String::new, |footer| format!("\n{footer}"));
    ToolOutput::new(format!("{path} is {what}; {how}{footer}"), content)
}

fn byte_footer(content: &FileContent, offset: u64) -> Option<String> {
    let range = content.range.as_ref()?;
    let (unit, first) = match range.unit {
        ReadUnit::Bytes => ("bytes", range.start),
        ReadUnit::Lines => ("lines", range.start + 1),
    };
    let all = format_bytes(content.size);
    if range.end <= range.start {
        return Some(format!(
            "[nothing at offset {}: the file has {all}]",
            group_digits(offset)
        ));
    }
    let part = format!("{unit} {}–{} of {all}", group_digits(first), group_digits(range.end));
    Some(match content.next_offset {
        Some(next) => format!("[{part}; more: offset={next}]"),
        None => format!("[{part}; end of file]"),
    })
}
