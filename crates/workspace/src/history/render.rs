//! Differences as text: a unified diff as git prints it, and the same differences as data.
//!
//! The text can be applied again, by `apply_patch` and by GNU `patch -p1`. Changes that a patch cannot express (the
//! bytes of a binary file, a directory) are named and summarised.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryKind, EntryPath, Follow, PathChange, PathImage, ReadOptions, Result, Storage};

use super::renames::exact_renames;
use crate::text::unified;
use crate::{DiffStatus, PathDiff};

/// How many bytes git searches for a NUL to decide that a file is binary.
const BINARY_HEAD: usize = 8_000;

/// The rendered difference of two states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RenderedDiff {
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
pub(crate) struct DiffSides<'a> {
    pub(crate) before: &'a dyn Storage,
    pub(crate) after: &'a dyn Storage,
    pub(crate) shown: &'a (dyn Fn(&EntryPath) -> EntryPath + Send + Sync),
}

/// The entry at one path, before or after.
#[derive(Clone, Copy)]
struct EntryAtPath<'a> {
    path: &'a EntryPath,
    image: &'a PathImage,
}

/// Renders `changes`, which are sorted by path.
pub(crate) async fn render_diff(
    changes: &[PathChange],
    sides: &DiffSides<'_>,
    options: RenderOptions,
) -> Result<RenderedDiff> {
    let renames = exact_renames(changes);
    let sources: BTreeSet<&EntryPath> = renames.iter().map(|(from, _)| from).collect();
    let targets: BTreeMap<&EntryPath, &EntryPath> = renames.iter().map(|(from, to)| (to, from)).collect();
    let by_path: BTreeMap<&EntryPath, &PathChange> = changes.iter().map(|change| (&change.path, change)).collect();
    let mut rendered = RenderedDiff {
        text: format_directories(changes, sides),
        ..RenderedDiff::default()
    };
    for change in changes.iter().filter(|change| !sources.contains(&change.path)) {
        let source = targets.get(&change.path).and_then(|from| by_path.get(from)).copied();
        let before = match source {
            Some(source) => entry_at(&source.path, source.before.as_ref()),
            None => entry_at(&change.path, change.before.as_ref()),
        };
        let is_full = rendered.text.len() >= options.max_text_bytes;
        let (path, text) = render_path(
            before,
            entry_at(&change.path, change.after.as_ref()),
            sides,
            options,
            is_full,
        )
        .await?;
        rendered.left_out += usize::from(is_full && path.kind != EntryKind::Directory);
        rendered.text.push_str(&text);
        rendered.paths.push(path);
    }
    Ok(rendered)
}

fn entry_at<'a>(path: &'a EntryPath, image: Option<&'a PathImage>) -> Option<EntryAtPath<'a>> {
    image.map(|image| EntryAtPath { path, image })
}

/// The lines of one side, or the reason why they are not compared.
enum DiffBody {
    Text(String),
    Binary,
    TooLarge,
}

/// Renders the change of one path; only its data and no text if the text `is_full`.
async fn render_path(
    before: Option<EntryAtPath<'_>>,
    after: Option<EntryAtPath<'_>>,
    sides: &DiffSides<'_>,
    options: RenderOptions,
    is_full: bool,
) -> Result<(PathDiff, String)> {
    let mut path = describe_path(before, after, sides);
    if is_full || path.kind == EntryKind::Directory && path.status != DiffStatus::TypeChanged {
        return Ok((path, String::new()));
    }
    if path.status == DiffStatus::TypeChanged {
        // As git does, since a patch cannot change a type: one entry is deleted, the other is added.
        let gone = Box::pin(render_path(before, None, sides, options, false)).await?;
        let come = Box::pin(render_path(None, after, sides, options, false)).await?;
        path.deletions = gone.0.deletions;
        path.insertions = come.0.insertions;
        path.binary = gone.0.binary || come.0.binary;
        path.too_large = gone.0.too_large || come.0.too_large;
        return Ok((path, gone.1 + &come.1));
    }
    let mut text = format_headers(before, after, sides);
    let is_same = matches!((before, after), (Some(before), Some(after)) if is_same_content(before.image, after.image));
    if !is_same {
        let bodies = (
            read_body(before, sides.before, options).await?,
            read_body(after, sides.after, options).await?,
        );
        text.push_str(&compare_bodies(bodies, &format_names(before, after, sides), &mut path));
    }
    Ok((path, text))
}

fn describe_path(before: Option<EntryAtPath<'_>>, after: Option<EntryAtPath<'_>>, sides: &DiffSides<'_>) -> PathDiff {
    let shown = |at: EntryAtPath<'_>| (sides.shown)(at.path).display_path();
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

fn is_same_content(one: &PathImage, other: &PathImage) -> bool {
    let of = |image: &PathImage| (image.kind, image.content, image.version.clone(), image.target.clone());
    of(one) == of(other)
}

/// Returns the lines before the first hunk: the names of the file, its mode and a rename.
fn format_headers(before: Option<EntryAtPath<'_>>, after: Option<EntryAtPath<'_>>, sides: &DiffSides<'_>) -> String {
    let name = |at: Option<EntryAtPath<'_>>| (sides.shown)(at.or(before).or(after).expect("a change has a side").path);
    let (old, new) = (name(before), name(after));
    let mut text = format!("diff --git {} {}\n", quote_name("a/", &old), quote_name("b/", &new));
    match (before, after) {
        (None, Some(after)) => text.push_str(&format!("new file mode {}\n", git_mode(after.image))),
        (Some(before), None) => text.push_str(&format!("deleted file mode {}\n", git_mode(before.image))),
        (Some(before), Some(after)) => {
            if git_mode(before.image) != git_mode(after.image) {
                let (old, new) = (git_mode(before.image), git_mode(after.image));
                text.push_str(&format!("old mode {old}\nnew mode {new}\n"));
            }
            if before.path != after.path {
                let (from, to) = (quote_name("", &old), quote_name("", &new));
                text.push_str(&format!("similarity index 100%\nrename from {from}\nrename to {to}\n"));
            }
        }
        (None, None) => {}
    }
    text.push_str(&format_index_line(before, after));
    text
}

/// Returns the `index` line, which identifies the contents.
fn format_index_line(before: Option<EntryAtPath<'_>>, after: Option<EntryAtPath<'_>>) -> String {
    // Without this line, GNU `patch` deletes no empty file and changes no link.
    let token = |at: Option<EntryAtPath<'_>>| at.map_or_else(|| "0".repeat(12), |at| content_token(at.image));
    let unchanged = match (before, after) {
        (Some(before), Some(after)) if is_same_content(before.image, after.image) => return String::new(),
        (Some(before), Some(after)) if git_mode(before.image) == git_mode(after.image) => {
            format!(" {}", git_mode(after.image))
        }
        _ => String::new(),
    };
    format!("index {}..{}{unchanged}\n", token(before), token(after))
}

fn content_token(image: &PathImage) -> String {
    match (image.content, &image.target) {
        // Git's hash of empty content, by which GNU `patch` recognises an empty file.
        (Some(_), _) if image.size == 0 => "e69de29bb2d1".to_owned(),
        (Some(content), _) => content.0[..6].iter().map(|byte| format!("{byte:02x}")).collect(),
        (None, target) => format!(
            "{:012x}",
            fnv_hash(target.as_deref().unwrap_or_default().as_bytes()) >> 16
        ),
    }
}

/// Returns the FNV-1a hash of the target of a link, which has no content address.
pub(super) fn fnv_hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Returns the mode as git writes it: the type of file, then the permission bits.
fn git_mode(image: &PathImage) -> String {
    match image.kind {
        EntryKind::Symlink => "120000".to_owned(),
        _ => format!("100{:03o}", image.mode & 0o7777),
    }
}

/// Returns the names after `---` and `+++`.
fn format_names(
    before: Option<EntryAtPath<'_>>,
    after: Option<EntryAtPath<'_>>,
    sides: &DiffSides<'_>,
) -> (String, String) {
    let name = |at: Option<EntryAtPath<'_>>, prefix: &str| match at {
        Some(at) => quote_name(prefix, &(sides.shown)(at.path)),
        None => "/dev/null".to_owned(),
    };
    (name(before, "a/"), name(after, "b/"))
}

async fn read_body(at: Option<EntryAtPath<'_>>, storage: &dyn Storage, options: RenderOptions) -> Result<DiffBody> {
    let Some(at) = at else {
        return Ok(DiffBody::Text(String::new()));
    };
    if let Some(target) = &at.image.target {
        return Ok(DiffBody::Text(target.clone()));
    }
    if at.image.size > options.max_file_bytes {
        return Ok(DiffBody::TooLarge);
    }
    // A storage cannot read a file whose name is not UTF-8.
    let Some(path) = at.path.as_path() else {
        return Ok(DiffBody::Binary);
    };
    let read = ReadOptions {
        follow: Follow::Never,
        max_bytes: Some(options.max_file_bytes),
        ..ReadOptions::default()
    };
    let bytes = storage.read(path, read).await?.bytes;
    if is_binary(&bytes) {
        return Ok(DiffBody::Binary);
    }
    Ok(String::from_utf8(bytes.to_vec()).map_or(DiffBody::Binary, DiffBody::Text))
}

/// Whether a file with these first bytes is binary, by the rule of git.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_HEAD)].contains(&0)
}

fn compare_bodies(bodies: (DiffBody, DiffBody), names: &(String, String), path: &mut PathDiff) -> String {
    let sizes = format!(
        "({} → {} bytes)",
        path.size_before.unwrap_or_default(),
        path.size_after.unwrap_or_default()
    );
    match bodies {
        (DiffBody::Text(before), DiffBody::Text(after)) => {
            let hunks = unified::diff_hunks(&before, &after);
            (path.insertions, path.deletions) = (hunks.insertions, hunks.deletions);
            if hunks.text.is_empty() {
                return String::new();
            }
            format!("--- {}\n+++ {}\n{}", names.0, names.1, hunks.text)
        }
        (DiffBody::TooLarge, _) | (_, DiffBody::TooLarge) => {
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
fn quote_name(prefix: &str, path: &EntryPath) -> String {
    // A blank is quoted, too: GNU `patch` does not find the end of a name that contains one.
    let is_odd = |c: char| {
        matches!(c, ' ' | '"' | '\\')
            || garret_core::path::escape_unprintable(c.encode_utf8(&mut [0; 4])).len() != c.len_utf8()
    };
    match path.as_path() {
        Some(path) if !path.as_str().contains(is_odd) => format!("{prefix}{path}"),
        _ => {
            let escaped: String = path.as_bytes().iter().map(|byte| escape_byte(*byte)).collect();
            format!("\"{prefix}{escaped}\"")
        }
    }
}

fn escape_byte(byte: u8) -> String {
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
fn format_directories(changes: &[PathChange], sides: &DiffSides<'_>) -> String {
    // Patch programs ignore text before the first file, so these lines do not disturb them.
    let is_directory =
        |image: &Option<PathImage>| image.as_ref().is_some_and(|image| image.kind == EntryKind::Directory);
    let by_path: BTreeMap<&[u8], &PathChange> = changes.iter().map(|change| (change.path.as_bytes(), change)).collect();
    let mut text = String::new();
    for change in changes {
        let start = [change.path.as_bytes(), b"/"].concat();
        let mut below = by_path
            .range(start.as_slice()..)
            .map(|(_, below)| below)
            .take_while(|below| below.path.as_bytes().starts_with(&start));
        let name = quote_name("", &(sides.shown)(&change.path));
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
