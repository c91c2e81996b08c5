//! Reads a unified diff, as `diff -u`, `git diff` or a model writes it.

use std::collections::HashMap;

use super::header::{self, PatchFileName};
use super::section::PatchSection;
use super::{FilePatch, Hunk, Patch, PatchAction, PatchError, PatchProblem, hunk};
use crate::text::lines::{self, LineEnding, TextLine};

/// The beginnings of lines that only other formats have, and the names of those formats.
const OTHER_FORMATS: [(&str, &str); 6] = [
    ("*** Begin Patch", "the \"*** Begin Patch\" format"),
    ("*** Update File:", "the \"*** Begin Patch\" format"),
    ("***************", "a context diff"),
    ("@@@ ", "a combined diff of a merge"),
    ("diff --cc ", "a combined diff of a merge"),
    ("diff --combined ", "a combined diff of a merge"),
];

/// Reads a patch.
///
/// Lines that belong to no file (prose, code fences, mail headers) are passed over. Fails as [`PatchError`] if no file
/// is named, if a line inside a hunk cannot be one, and for patches that Garret does not apply: binary patches,
/// combined diffs, links, other formats.
pub fn parse_patch(diff: &[u8]) -> Result<Patch, PatchError> {
    let mut parser = PatchParser {
        lines: split_patch(diff),
        at: 0,
        current: None,
        files: Vec::new(),
    };
    while parser.at < parser.lines.len() {
        parser.parse_next()?;
    }
    parser.close_section()?;
    if parser.files.is_empty() {
        return Err(PatchProblem::NoFiles.into());
    }
    Ok(Patch {
        files: merge_file_patches(parser.files)?,
    })
}

/// Splits the patch into lines.
fn split_patch(diff: &[u8]) -> Vec<TextLine<'_>> {
    let mut all: Vec<TextLine<'_>> = lines::split_lines(diff).collect();
    // If every line ends in `\r\n`, headers too, the endings come from the transport of the patch and not from the
    // file.
    if all.iter().all(|line| line.ending != LineEnding::Lf) {
        all.iter_mut()
            .filter(|line| line.ending == LineEnding::CrLf)
            .for_each(|line| line.ending = LineEnding::Lf);
    }
    all
}

struct PatchParser<'a> {
    lines: Vec<TextLine<'a>>,
    at: usize,
    current: Option<PatchSection>,
    files: Vec<FilePatch>,
}

impl<'a> PatchParser<'a> {
    /// Takes one header line, one hunk, or one line that belongs to no file.
    fn parse_next(&mut self) -> Result<(), PatchError> {
        let text = self.lines[self.at].text;
        self.refuse_other_formats(text)?;
        if let Some(names) = text.strip_prefix(b"diff --git ") {
            return self.open_git_section(names);
        }
        if hunk::is_file_header(&self.lines, self.at) {
            return self.take_names();
        }
        if text == b"@@" || text.starts_with(b"@@ ") {
            return self.take_hunk();
        }
        self.take_git_header(text)?;
        self.at += 1;
        Ok(())
    }

    fn refuse_other_formats(&self, text: &[u8]) -> Result<(), PatchError> {
        let patch_line = self.at + 1;
        if let Some((_, name)) = OTHER_FORMATS.iter().find(|(mark, _)| text.starts_with(mark.as_bytes())) {
            return Err(PatchProblem::OtherFormat { patch_line, name }.into());
        }
        if text.starts_with(b"--- ")
            && self
                .lines
                .get(self.at + 1)
                .is_some_and(|next| next.text.starts_with(b"@@"))
        {
            return Err(PatchError::malformed(
                patch_line + 1,
                "a \"+++ \" line must follow the \"--- \" line",
            ));
        }
        Ok(())
    }

    fn open_section(&mut self) -> Result<&mut PatchSection, PatchError> {
        self.close_section()?;
        Ok(self.current.insert(PatchSection {
            patch_line: self.at + 1,
            ..PatchSection::default()
        }))
    }

    fn close_section(&mut self) -> Result<(), PatchError> {
        if let Some(section) = self.current.take() {
            self.files.push(section.into_file_patch()?);
        }
        Ok(())
    }

    fn open_git_section(&mut self, names: &[u8]) -> Result<(), PatchError> {
        let section = self.open_section()?;
        section.is_git = true;
        section.git_names = header::parse_git_names(names);
        self.at += 1;
        Ok(())
    }

    fn take_names(&mut self) -> Result<(), PatchError> {
        let old = self.name_at(self.at, b"--- ")?;
        let new = self.name_at(self.at + 1, b"+++ ")?;
        // A `diff --git` line has opened a section already, unless the names belong to another file.
        let continues = |section: &PatchSection| {
            section.is_git && section.old.is_none() && section.hunks.is_empty() && section.accepts_old_name(&old)
        };
        if !self.current.as_ref().is_some_and(continues) {
            self.open_section()?;
        }
        let section = self.current.as_mut().expect("a section was just opened or goes on");
        (section.old, section.new) = (Some(old), Some(new));
        self.at += 2;
        Ok(())
    }

    fn name_at(&self, at: usize, mark: &[u8]) -> Result<PatchFileName, PatchError> {
        let name = self.lines[at].text.strip_prefix(mark).and_then(PatchFileName::parse);
        name.ok_or_else(|| PatchError::malformed(at + 1, "the file name is missing or not UTF-8"))
    }

    fn take_hunk(&mut self) -> Result<(), PatchError> {
        let section = self.current.as_mut().ok_or(PatchProblem::NoFileBeforeHunk {
            patch_line: self.at + 1,
        })?;
        let (hunk, end) = hunk::read_hunk(&self.lines, self.at, section.hunks.len() + 1)?;
        section.hunks.push(hunk);
        self.at = end;
        Ok(())
    }

    /// Reads a header line of git between `diff --git` and the first hunk, and passes over any other line.
    fn take_git_header(&mut self, text: &[u8]) -> Result<(), PatchError> {
        let patch_line = self.at + 1;
        // `diff -r` announces a binary file by this line alone, without a header that names the file.
        if text.starts_with(b"Binary files ") && text.ends_with(b" differ") && self.current.is_none() {
            return Err(PatchProblem::Binary.in_file(&lines::show_line(text, 200)));
        }
        // After a hunk, a line that looks like a header is prose.
        let Some(section) = self.current.as_mut().filter(|section| section.hunks.is_empty()) else {
            return Ok(());
        };
        if text == b"GIT binary patch" || text.starts_with(b"Binary files ") {
            section.is_binary = true;
        }
        if !section.is_git {
            return Ok(());
        }
        let path = |mark: &str| text.strip_prefix(mark.as_bytes()).and_then(header::parse_path);
        let mode = |mark: &str| {
            text.strip_prefix(mark.as_bytes())
                .map(|mode| parse_mode(mode, patch_line))
                .transpose()
        };
        section.rename.0 = section.rename.0.take().or_else(|| path("rename from "));
        section.rename.1 = section.rename.1.take().or_else(|| path("rename to "));
        section.copy.0 = section.copy.0.take().or_else(|| path("copy from "));
        section.copy.1 = section.copy.1.take().or_else(|| path("copy to "));
        section.mode = mode("new mode ")?.or(section.mode);
        if let Some(created) = mode("new file mode ")? {
            (section.is_new, section.mode) = (true, Some(created));
        }
        section.is_deleted |= text.starts_with(b"deleted file mode ");
        Ok(())
    }
}

fn parse_mode(text: &[u8], patch_line: usize) -> Result<u32, PatchError> {
    let digits = std::str::from_utf8(text).ok().map(str::trim);
    let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    mode.ok_or_else(|| PatchError::malformed(patch_line, "the mode is not an octal number"))
}

/// Joins parts that change the same file in place; any other two parts that share a name contradict each other.
fn merge_file_patches(files: Vec<FilePatch>) -> Result<Vec<FilePatch>, PatchError> {
    let mut merged: Vec<FilePatch> = Vec::with_capacity(files.len());
    // Old and new names are looked up apart: a renamed file leaves its old name free for another part.
    let mut sources: HashMap<String, usize> = HashMap::new();
    let mut targets: HashMap<String, usize> = HashMap::new();
    for file in files {
        // A copy leaves its source alone, so another part may change it.
        let source = file.old_path.clone().filter(|_| file.action != PatchAction::Copy);
        let taken = |names: &HashMap<String, usize>, name: &Option<String>| names.get(name.as_ref()?).copied();
        if let Some(twin) = taken(&sources, &source).or(taken(&targets, &file.new_path)) {
            join_file_patches(&mut merged[twin], file)?;
            continue;
        }
        sources.extend(source.map(|name| (name, merged.len())));
        targets.extend(file.new_path.clone().map(|name| (name, merged.len())));
        merged.push(file);
    }
    Ok(merged)
}

fn join_file_patches(twin: &mut FilePatch, file: FilePatch) -> Result<(), PatchError> {
    if twin.action != PatchAction::Modify || file.action != PatchAction::Modify {
        return Err(PatchProblem::NamedTwice.in_file(file.path()));
    }
    let count = twin.hunks.len();
    twin.new_mode = file.new_mode.or(twin.new_mode);
    twin.hunks.extend(file.hunks.into_iter().map(|hunk| Hunk {
        number: hunk.number + count,
        ..hunk
    }));
    Ok(())
}
