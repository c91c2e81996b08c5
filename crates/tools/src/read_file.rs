//! `read_file`: a text file by lines, any other by bytes, an image to look at.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use garret_core::Result;
use garret_core::path::quote;
use garret_workspace::{Encoding, FileContent, ReadRange, ReadRequest, Unit, Workspace, image_type};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::point::{self, text_or_number};
use crate::text::{Page, bytes, cut_line, grouped};
use crate::tool::{Output, Tool};
use crate::{Annotations, Image};

/// The largest image that a model is shown.
const MAX_IMAGE_BYTES: u64 = 5 << 20;

pub(crate) struct ReadFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, relative to the workspace root.
    path: String,
    /// How many lines to skip from the start of the file (0 for none). In a file that is not text, and with `encoding: "base64"`, it
    /// counts bytes.
    #[serde(default)]
    offset: Option<u64>,
    /// The most lines (or bytes, as for `offset`) to return. Left out or 0, as many as fit into one answer.
    #[serde(default)]
    limit: Option<u64>,
    /// `utf-8` (default): text as text, anything else as base64. `base64`: the bytes as base64, whatever the file is.
    #[serde(default, deserialize_with = "unless_empty")]
    encoding: Option<Encoding>,
    /// Look at the past: the label of a snapshot, the id or number of a change (the state just after it), or a time in RFC 3339. Left
    /// out, empty or `now`: now.
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for ReadFile {
    type Arguments = Arguments;
    type Data = FileContent;

    const NAME: &'static str = "read_file";
    const SHORT: &'static str = "read";
    const TITLE: &'static str = "Read a file";
    const DESCRIPTION: &'static str = "Reads a file of the workspace. Text comes as numbered lines (the number and the tab are not part of \
        the file); a long file comes in pages, and the last line of the answer says which `offset` continues. Images (PNG, JPEG, GIF, WebP) \
        come as images. Also gives the file's version, a token for `if_version` in a later write.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<FileContent>> {
        let wants_bytes = arguments.encoding == Some(Encoding::Base64);
        let request = ReadRequest {
            unit: if wants_bytes { Unit::Bytes } else { Unit::Lines },
            offset: arguments.offset.unwrap_or(0),
            limit: arguments.limit.filter(|limit| *limit > 0),
            encoding: arguments.encoding.filter(|_| wants_bytes),
            max_bytes: Some(limits.bytes as u64),
            bytes_if_binary: !wants_bytes,
            max_image_bytes: Some(MAX_IMAGE_BYTES),
        };
        let offset = request.offset;
        let viewed = point::at(workspace, arguments.at.as_deref()).await?;
        let content = viewed.read(&arguments.path, request).await?;
        Ok(match content.encoding {
            Encoding::Utf8 => show_text(content, offset, limits),
            Encoding::Base64 if wants_bytes => show_base64(content, offset, limits),
            Encoding::Base64 => show_binary(content, offset, limits),
        })
    }
}

/// Numbered lines. Where the numbers make the page too large, it ends earlier, and so does the data.
fn show_text(mut content: FileContent, offset: u64, limits: &Limits) -> Output<FileContent> {
    let mut page = Page::new(limits);
    let (mut shown, mut end) = (0, 0);
    for line in content.content.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        let bare = cut_line(bare.strip_suffix('\r').unwrap_or(bare), limits);
        if !page.push(&format!("{:>6}\t{bare}", offset + shown + 1)) {
            break;
        }
        shown += 1;
        end += line.len();
    }
    if end < content.content.len() {
        content.content.truncate(end);
        continue_at(&mut content, Unit::Lines, offset, offset + shown);
    }
    let footer = text_footer(&content, offset, shown);
    Output::new(page.finish(footer), content)
}

/// Ends the page at `end`, before where it ended.
fn continue_at(content: &mut FileContent, unit: Unit, start: u64, end: u64) {
    content.range = Some(ReadRange { unit, start, end });
    content.next_offset = Some(end);
    content.eof = false;
    content.line_cut = false;
}

fn text_footer(content: &FileContent, offset: u64, shown: u64) -> Option<String> {
    let size = bytes(content.size);
    let lines = match shown {
        0 if content.size == 0 => return Some("[empty file]".into()),
        0 => {
            return Some(format!(
                "[no line after line {}: the file ends before (it has {size})]",
                grouped(offset)
            ));
        }
        1 => format!("line {}", grouped(offset + 1)),
        _ => format!("lines {}–{}", grouped(offset + 1), grouped(offset + shown)),
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

/// The base64 that was asked for.
fn show_base64(mut content: FileContent, offset: u64, limits: &Limits) -> Output<FileContent> {
    trim_base64(&mut content, offset, limits);
    let footer = byte_footer(&content, offset).unwrap_or_else(|| format!("[base64 of {}]", bytes(content.size)));
    let text = if content.content.is_empty() {
        footer
    } else {
        format!("{}\n{footer}", content.content)
    };
    Output::new(text, content)
}

/// Cuts base64 that has grown over the limit between two groups of four characters.
fn trim_base64(content: &mut FileContent, offset: u64, limits: &Limits) {
    let groups = limits.bytes.saturating_sub(300) / 4;
    if content.content.len() > groups * 4 {
        content.content.truncate(groups * 4);
        continue_at(content, Unit::Bytes, offset, offset + groups as u64 * 3);
    }
}

/// A file that is not text: what it is, and the image where it is one.
fn show_binary(mut content: FileContent, offset: u64, limits: &Limits) -> Output<FileContent> {
    let path = quote(&content.path);
    let size = bytes(content.size);
    let decoded = STANDARD.decode(&content.content).unwrap_or_default();
    let image = image_type(&decoded).filter(|_| offset == 0);
    if let (Some(mime_type), true) = (image, content.range.is_none()) {
        let mut output = Output::new(format!("{path} is an image ({mime_type}, {size})"), content);
        output.images.push(Image {
            mime_type,
            bytes: decoded.into(),
        });
        return output;
    }
    if content.range.as_ref().is_none_or(|range| range.unit == Unit::Bytes) {
        trim_base64(&mut content, offset, limits);
    }
    let what = match image {
        Some(mime_type) => format!(
            "an image ({mime_type}, {size}) too large to show: at most {} are shown",
            bytes(MAX_IMAGE_BYTES)
        ),
        None => format!("not text ({size})"),
    };
    let how = "`encoding: \"base64\"` shows its bytes";
    let footer = byte_footer(&content, offset).map_or_else(String::new, |footer| format!("\n{footer}"));
    Output::new(format!("{path} is {what}; {how}{footer}"), content)
}

fn byte_footer(content: &FileContent, offset: u64) -> Option<String> {
    let range = content.range.as_ref()?;
    let (unit, first) = match range.unit {
        Unit::Bytes => ("bytes", range.start),
        Unit::Lines => ("lines", range.start + 1),
    };
    let all = bytes(content.size);
    if range.end <= range.start {
        return Some(format!("[nothing at offset {}: the file has {all}]", grouped(offset)));
    }
    let part = format!("{unit} {}–{} of {all}", grouped(first), grouped(range.end));
    Some(match content.next_offset {
        Some(next) => format!("[{part}; more: offset={next}]"),
        None => format!("[{part}; end of file]"),
    })
}
