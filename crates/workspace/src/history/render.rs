//! Differences as text: a unified diff as git prints it, and the same differences as data.
//!
//! The text can be applied again, by `apply_patch` and by GNU `patch -p1`. Changes that a patch cannot express (the
//! bytes of a binary file, a directory) are named and summarised.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryKind, EntryPath, Follow, Image, PathChange, ReadOptions, Result, Storage};
use schemars::JsonSchema;
use serde::Serialize;

use super::renames::exact_renames;
use crate::text::unified;

/// How many bytes git searches for a NUL to decide that a file is binary.
const BINARY_HEAD: usize = 8_000;

/// How a path changed between two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffStatus {
    /// It was added.
    Added,
    /// Its content, or where a link points, changed; perhaps its mode too.
    Modified,
    /// It was deleted.
    Deleted,
    /// It was moved from another path with the same content.
    Renamed,
    /// Its type changed, such as from a file to a link.
    TypeChanged,
    /// Only its permission bits changed.
    Mode,
}

/// The change of one path between two points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathDiff {
    /// The path; of a rename, the new one.
    pub path: String,
    /// The kind of change.
    pub status: DiffStatus,
    /// The path before, of a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// What it is, or was.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The number of added lines.
    pub insertions: usize,
    /// The number of deleted lines.
    pub deletions: usize,
    /// Set where its lines cannot be shown: a side is not text.
    pub binary: bool,
    /// Set where its lines were not compared because a side is too large.
    pub too_large: bool,
    /// Bytes before; absent where there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_before: Option<u64>,
    /// Bytes afterwards; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_after: Option<u64>,
}

/// The rendered difference of two states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    /// Every path that differs, in order.
    pub(crate) paths: Vec<PathDiff>,
    /// The unified diff, up to and including the file with which it passed `max_text_bytes`.
    pub(crate) text: String,
    /// How many of the paths the text leaves out.
    pub(crate) left_out: usize,
}

/// How to render a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RenderOptions {
    /// The most bytes of a side whose lines are compared.
    pub(crate) max_file_bytes: u64,
    /// The text ends after the file with which it passes this number of bytes; lines of later files are not compared.
    pub(crate) max_text_bytes: usize,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            max_file_bytes: 4 << 20,
            max_text_bytes: usize::MAX,
        }
    }
}

/// The two states that are compared, and the function that makes their paths relative to a view.
pub(crate) struct Sides<'a> {
    pub(crate) before: &'a dyn Storage,
    pub(crate) after: &'a dyn Storage,
    pub(crate) shown: &'a (dyn Fn(&EntryPath) -> EntryPath + Send + Sync),
}

/// The entry at one path, before or after.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a EntryPath,
    image: &'a Image,
}

/// Renders `changes`, which are sorted by path.
pub(crate) async fn render(changes: &[PathChange], sides: &Sides<'_>, options: RenderOptions) -> Result<Rendered> {
    let renames = exact_renames(changes);
    let sources: BTreeSet<&EntryPath> = renames.iter().map(|(from, _)| from).collect();
    let targets: BTreeMap<&EntryPath, &EntryPath> = renames.iter().map(|(from, to)| (to, from)).collect();
    let by_path: BTreeMap<&EntryPath, &PathChange> = changes.iter().map(|change| (&change.path, change)).collect();
    let mut rendered = Rendered {
        text: directories(changes, sides),
        ..Rendered::default()
    };
    for change in changes.iter().filter(|change| !sources.contains(&change.path)) {
        let source = targets.get(&change.path).and_then(|from| by_path.get(from)).copied();
        let before = match source {
            Some(source) => at(&source.path, source.before.as_ref()),
            None => at(&change.path, change.before.as_ref()),
        };
        let is_full = rendered.text.len() >= options.max_text_bytes;
        let (path, text) = one(before, at(&change.path, change.after.as_ref()), sides, options, is_full).await?;
        rendered.left_out += usize::from(is_full && path.kind != EntryKind::Directory);
        rendered.text.push_str(&text);
        rendered.paths.push(path);
    }
    Ok(rendered)
}

fn at<'a>(path: &'a EntryPath, image: Option<&'a Image>) -> Option<At<'a>> {
    image.map(|image| At { path, image })
}

/// The lines of one side, or the reason why they are not compared.
enum Body {
    Text(String),
    Binary,
    TooLarge,
}

/// Renders the change of one path; only its data and no text if the text `is_full`.
async fn one(
    before: Option<At<'_>>,
    after: Option<At<'_>>,
    sides: &Sides<'_>,
    options: RenderOptions,
    is_full: bool,
) -> Result<(PathDiff, String)> {
    let mut path = described(before, after, sides);
    if is_full || path.kind == EntryKind::Directory && path.status != DiffStatus::TypeChanged {
        return Ok((path, String::new()));
    }
    if path.status == DiffStatus::TypeChanged {
        // As git does, since a patch cannot change a type: one entry is deleted, the other is added.
        let gone = Box::pin(one(before, None, sides, options, false)).await?;
        let come = Box::pin(one(None, after, sides, options, false)).await?;
        path.deletions = gone.0.deletions;
        path.insertions = come.0.insertions;
        path.binary = gone.0.binary || come.0.binary;
        path.too_large = gone.0.too_large || come.0.too_large;
        return Ok((path, gone.1 + &come.1));
    }
    let mut text = headers(before, after, sides);
    let is_same = matches!((before, after), (Some(before), Some(after)) if is_same_content(before.image, after.image));
    if !is_same {
        let bodies = (
            body(before, sides.before, options).await?,
            body(after, sides.after, options).await?,
        );
        text.push_str(&compared(bodies, &names(before, after, sides), &mut path));
    }
    Ok((path, text))
}

fn described(before: Option<At<'_>>, after: Option<At<'_>>, sides: &Sides<'_>) -> PathDiff {
    let shown = |at: At<'_>| (sides.shown)(at.path).shown();
    let moved = matches!((before, after), (Some(before), Some(after)) if before.path != after.path);
    let status = match (before, after) {
        (None, _) => DiffStatus::Added,
        (_, None) => DiffStatus::Deleted,
        (Some(before), Some(after)) if before.image.kind != after.image.kind => DiffStatus::TypeChanged,
        _ if moved => DiffStatus::Renamed,
        (Some(before), Some(after)) if is_same_content(before.image, after.image) => DiffStatus::Mode,
        _ => DiffStatus::Modified,
    };
    let newest = after.or(before).expect("a change has a side");
    PathDiff {
        path: shown(newest),
        status,
        old_path: before.filter(|_| moved).map(shown),
        kind: newest.image.kind,
        insertions: 0,
        deletions: 0,
        binary: false,
        too_large: false,
        size_before: before.map(|at| at.image.size),
        size_after: after.map(|at| at.image.size),
    }
}

fn is_same_content(one: &Image, other: &Image) -> bool {
    let of = |image: &Image| (image.kind, image.content, image.version.clone(), image.target.clone());
    of(one) == of(other)
}

/// Returns the lines before the first hunk: the names of the file, its mode and a rename.
fn headers(before: Option<At<'_>>, after: Option<At<'_>>, sides: &Sides<'_>) -> String {
    let name = |at: Option<At<'_>>| (sides.shown)(at.or(before).or(after).expect("a change has a side").path);
    let (old, new) = (name(before), name(after));
    let mut text = format!("diff --git {} {}\n", quoted("a/", &old), quoted("b/", &new));
    match (before, after) {
        (None, Some(after)) => text.push_str(&format!("new file mode {}\n", mode(after.image))),
        (Some(before), None) => text.push_str(&format!("deleted file mode {}\n", mode(before.image))),
        (Some(before), Some(after)) => {
            if mode(before.image) != mode(after.image) {
                let (old, new) = (mode(before.image), mode(after.image));
                text.push_str(&format!("old mode {old}\nnew mode {new}\n"));
            }
            if before.path != after.path {
                let (from, to) = (quoted("", &old), quoted("", &new));
                text.push_str(&format!("similarity index 100%\nrename from {from}\nrename to {to}\n"));
            }
        }
        (None, None) => {}
    }
    text.push_str(&index(before, after));
    text
}

/// Returns the `index` line, which identifies the contents.
fn index(before: Option<At<'_>>, after: Option<At<'_>>) -> String {
    // Without this line, GNU `patch` deletes no empty file and changes no link.
    let token = |at: Option<At<'_>>| at.map_or_else(|| "0".repeat(12), |at| content_token(at.image));
    let unchanged = match (before, after) {
        (Some(before), Some(after)) if is_same_content(before.image, after.image) => return String::new(),
        (Some(before), Some(after)) if mode(before.image) == mode(after.image) => format!(" {}", mode(after.image)),
        _ => String::new(),
    };
    format!("index {}..{}{unchanged}\n", token(before), token(after))
}

fn content_token(image: &Image) -> String {
    match (image.content, &image.target) {
        // Git's hash of empty content, by which GNU `patch` recognises an empty file.
        (Some(_), _) if image.size == 0 => "e69de29bb2d1".to_owned(),
        (Some(content), _) => content.0[..6].iter().map(|byte| format!("{byte:02x}")).collect(),
        (None, target) => format!("{:012x}", fnv(target.as_deref().unwrap_or_default().as_bytes()) >> 16),
    }
}

/// Returns the FNV-1a hash of the target of a link, which has no content address.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns the mode as git writes it: the type of file, then the permission bits.
fn mode(image: &Image) -> String {
    match image.kind {
        EntryKind::Symlink => "120000".to_owned(),
        _ => format!("100{:03o}", image.mode & 0o7777),
    }
}

/// Returns the names after `---` and `+++`.
fn names(before: Option<At<'_>>, after: Option<At<'_>>, sides: &Sides<'_>) -> (String, String) {
    let name = |at: Option<At<'_>>, prefix: &str| match at {
        Some(at) => quoted(prefix, &(sides.shown)(at.path)),
        None => "/dev/null".to_owned(),
    };
    (name(before, "a/"), name(after, "b/"))
}

async fn body(at: Option<At<'_>>, storage: &dyn Storage, options: RenderOptions) -> Result<Body> {
    let Some(at) = at else {
        return Ok(Body::Text(String::new()));
    };
    if let Some(target) = &at.image.target {
        return Ok(Body::Text(target.clone()));
    }
    if at.image.size > options.max_file_bytes {
        return Ok(Body::TooLarge);
    }
    // A storage cannot read a file whose name is not UTF-8.
    let Some(path) = at.path.as_path() else {
        return Ok(Body::Binary);
    };
    let read = ReadOptions {
        follow: Follow::Never,
        max_bytes: Some(options.max_file_bytes),
        ..ReadOptions::default()
    };
    let bytes = storage.read(path, read).await?.bytes;
    if is_binary(&bytes) {
        return Ok(Body::Binary);
    }
    Ok(String::from_utf8(bytes.to_vec()).map_or(Body::Binary, Body::Text))
}

/// Whether a file with these first bytes is binary, by the rule of git.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_HEAD)].contains(&0)
}

fn compared(bodies: (Body, Body), names: &(String, String), path: &mut PathDiff) -> String {
    let sizes = format!(
        "({} → {} bytes)",
        path.size_before.unwrap_or_default(),
        path.size_after.unwrap_or_default()
    );
    match bodies {
        (Body::Text(before), Body::Text(after)) => {
            let hunks = unified::hunks(&before, &after);
            (path.insertions, path.deletions) = (hunks.insertions, hunks.deletions);
            if hunks.text.is_empty() {
                return String::new();
            }
            format!("--- {}\n+++ {}\n{}", names.0, names.1, hunks.text)
        }
        (Body::TooLarge, _) | (_, Body::TooLarge) => {
            path.too_large = true;
            // It begins like the line for binary files, so that no patch program takes the section for an empty file.
            format!(
                "Binary files {} and {} differ {sizes}: too large to compare\n",
                names.0, names.1
            )
        }
        _ => {
            path.binary = true;
            format!("Binary files {} and {} differ {sizes}\n", names.0, names.1)
        }
    }
}

/// Returns a name as git writes it: in quotes, with escapes, if it contains a character that could be misread.
fn quoted(prefix: &str, path: &EntryPath) -> String {
    // A blank is quoted, too: GNU `patch` does not find the end of a name that contains one.
    let is_odd = |c: char| {
        matches!(c, ' ' | '"' | '\\') || garret_core::path::printable(c.encode_utf8(&mut [0; 4])).len() != c.len_utf8()
    };
    match path.as_path() {
        Some(path) if !path.as_str().contains(is_odd) => format!("{prefix}{path}"),
        _ => {
            let escaped: String = path.as_bytes().iter().map(|byte| escape(*byte)).collect();
            format!("\"{prefix}{escaped}\"")
        }
    }
}

fn escape(byte: u8) -> String {
    match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

/// Returns a line for each directory that was added, removed or got other permissions, unless a file in it implies
/// that. The lines come before the first file.
fn directories(changes: &[PathChange], sides: &Sides<'_>) -> String {
    // Patch programs ignore text before the first file, so these lines do not disturb them.
    let is_directory = |image: &Option<Image>| image.as_ref().is_some_and(|image| image.kind == EntryKind::Directory);
    let by_path: BTreeMap<&[u8], &PathChange> = changes.iter().map(|change| (change.path.as_bytes(), change)).collect();
    let mut text = String::new();
    for change in changes {
        let start = [change.path.as_bytes(), b"/"].concat();
        let mut below = by_path
            .range(start.as_slice()..)
            .map(|(_, below)| below)
            .take_while(|below| below.path.as_bytes().starts_with(&start));
        let name = quoted("", &(sides.shown)(&change.path));
        let line = match (is_directory(&change.before), is_directory(&change.after)) {
            (true, true) => format!("mode of directory {name} changed\n"),
            (false, true) if below.all(|below| below.after.is_none()) => format!("new directory {name}\n"),
            (true, false) if below.all(|below| below.before.is_none()) => format!("deleted directory {name}\n"),
            _ => continue,
        };
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests;
