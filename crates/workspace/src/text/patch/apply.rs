//! Applies the part of a patch for one file to the content of that file.

use super::locate::{self, HunkPlace, LineFit};
use super::{FilePatch, Hunk, HunkLine, HunkMismatch, LineKind, PatchAction, PatchError, PatchProblem, PlaceProblem};
use crate::text::lines::{self, LineEnding, TextLine};
use crate::text::nearest::{NearMatches, find_nearest};

/// The result of a patch for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatchOutcome {
    /// The new content; `None` when the file is deleted.
    pub content: Option<Vec<u8>>,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
}

/// Applies `file` to `original`, the content that the file has now; `None` if there is no such file.
///
/// For a rename or copy, `original` is the content of `old_path`; whether `new_path` is free is the caller's to check.
/// Fails as [`PatchError`] without a partial result.
pub fn apply_file(original: Option<&[u8]>, file: &FilePatch) -> Result<FilePatchOutcome, PatchError> {
    match (file.action, original) {
        (PatchAction::Create, Some(_)) => Err(PatchProblem::AlreadyExists.in_file(file.path())),
        (PatchAction::Create, None) => apply_creation(file),
        (PatchAction::Delete, Some(original)) => apply_deletion(original, file),
        (_, Some(original)) => apply_modification(original, file),
        // A patch that only adds, from line 0 of an empty file, makes the file.
        (PatchAction::Modify, None) if only_adds_from_nothing(file) => apply_creation(file),
        (_, None) => Err(PatchProblem::Missing.in_file(missing_path(file))),
    }
}

fn missing_path(file: &FilePatch) -> &str {
    let source = file.old_path.as_deref().filter(|_| file.action != PatchAction::Modify);
    source.unwrap_or(file.path())
}

fn only_adds_from_nothing(file: &FilePatch) -> bool {
    let adds = |hunk: &Hunk| hunk.old_start == Some(0) && hunk.old_lines().next().is_none();
    !file.hunks.is_empty() && file.hunks.iter().all(adds)
}

fn apply_creation(file: &FilePatch) -> Result<FilePatchOutcome, PatchError> {
    let lines = || file.hunks.iter().flat_map(|hunk| &hunk.lines);
    if let Some(line) = lines().find(|line| line.kind != LineKind::Add) {
        return Err(not_whole_error(file, line));
    }
    let mut output = PatchedContent::default();
    lines().for_each(|line| output.push_line(&line.text, line.ending));
    check_inner_endings(lines())?;
    let added = lines().count();
    Ok(FilePatchOutcome {
        content: Some(output.bytes),
        added,
        removed: 0,
    })
}

/// The error for a line that a patch which makes or deletes a whole file cannot have.
fn not_whole_error(file: &FilePatch, line: &HunkLine) -> PatchError {
    let problem = PatchProblem::NotWhole {
        patch_line: line.patch_line,
        action: file.action,
    };
    problem.in_file(file.path())
}

fn apply_deletion(original: &[u8], file: &FilePatch) -> Result<FilePatchOutcome, PatchError> {
    let lines: Vec<&HunkLine> = file.hunks.iter().flat_map(|hunk| &hunk.lines).collect();
    if let Some(line) = lines.iter().find(|line| line.kind != LineKind::Remove) {
        return Err(not_whole_error(file, line));
    }
    let found: Vec<TextLine<'_>> = lines::split_lines(original).collect();
    if lines.len() != found.len() || locate::fit_lines(&lines, &found, 0).is_none() {
        return Err(delete_mismatch(original, &found, &lines, file));
    }
    Ok(FilePatchOutcome {
        content: None,
        added: 0,
        removed: lines.len(),
    })
}

fn delete_mismatch(original: &[u8], found: &[TextLine<'_>], lines: &[&HunkLine], file: &FilePatch) -> PatchError {
    let agrees = |at: &usize| {
        lines
            .get(*at)
            .zip(found.get(*at))
            .is_some_and(|(wanted, found)| locate::fit_line(wanted, found).is_some())
    };
    let at = (0..)
        .find(|at| !agrees(at))
        .expect("lines of different content differ somewhere");
    match lines.get(at) {
        Some(wanted) => {
            let nearest = find_nearest(original, &String::from_utf8_lossy(&wanted.text));
            let mismatch = describe_mismatch(found, &file.hunks[0], wanted, at, nearest);
            PatchProblem::Mismatch(Box::new(mismatch)).in_file(mismatch_path(file))
        }
        None => {
            let (shown, lines) = (lines.len(), found.len());
            PatchProblem::DeletesMore { shown, lines }.in_file(file.path())
        }
    }
}

fn apply_modification(original: &[u8], file: &FilePatch) -> Result<FilePatchOutcome, PatchError> {
    let found: Vec<TextLine<'_>> = lines::split_lines(original).collect();
    let mut run = FilePatcher {
        original,
        file,
        found,
        output: PatchedContent::default(),
        floor: 0,
        offset: 0,
        stated: 0,
        drops_final_newline: false,
    };
    for hunk in &file.hunks {
        run.apply_hunk(hunk)?;
    }
    let content = run.finish_content();
    if content == original && !file.hunks.is_empty() && file.action == PatchAction::Modify && file.new_mode.is_none() {
        return Err(PatchProblem::ChangesNothing.in_file(file.path()));
    }
    let count = |kind| {
        file.hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .filter(|line| line.kind == kind)
            .count()
    };
    Ok(FilePatchOutcome {
        content: Some(content),
        added: count(LineKind::Add),
        removed: count(LineKind::Remove),
    })
}

/// A file while hunks are applied to it: the lines `found[..floor]` are in `output`, changed by the hunks so far.
struct FilePatcher<'a> {
    original: &'a [u8],
    file: &'a FilePatch,
    found: Vec<TextLine<'a>>,
    output: PatchedContent,
    floor: usize,
    /// The distance of the last hunk from the line that it names.
    offset: isize,
    /// The line that the last hunk names.
    stated: usize,
    /// Whether the file had no final newline, and the patch does not mark that.
    drops_final_newline: bool,
}

impl FilePatcher<'_> {
    fn apply_hunk(&mut self, hunk: &Hunk) -> Result<(), PatchError> {
        // Without this check, a hunk out of order might fit a later place by chance.
        if let Some(start) = hunk.old_start.filter(|start| *start < self.stated) {
            return Err(self.place_error(hunk, PlaceProblem::OutOfOrder { line: start }));
        }
        self.stated = hunk.old_start.unwrap_or(self.stated);
        let (at, fit, hunk_lines) = self.place_hunk(hunk)?;
        // The next hunk is expected to have moved as far as this one.
        if let Some(guess) = expected_index(hunk) {
            self.offset = at as isize - guess as isize;
        }
        self.write_hunk(hunk_lines, at, fit)
    }

    /// Finds the place of a hunk, and the lines of the hunk that apply there.
    fn place_hunk<'h>(&self, hunk: &'h Hunk) -> Result<(usize, LineFit, &'h [HunkLine]), PatchError> {
        // Blank lines without a prefix at the end may be context or prose. They are tried as context first.
        let whole = self.place_lines(hunk, &hunk.lines);
        let rest = &hunk.lines[..hunk.lines.len() - hunk.bare_tail];
        let is_mismatch = |error: &PatchError| matches!(error.problem, PatchProblem::Mismatch(_));
        if whole.as_ref().is_err_and(is_mismatch) && hunk.bare_tail > 0 && !rest.is_empty() {
            return self.place_lines(hunk, rest).or(whole);
        }
        whole
    }

    fn place_lines<'h>(
        &self,
        hunk: &'h Hunk,
        lines: &'h [HunkLine],
    ) -> Result<(usize, LineFit, &'h [HunkLine]), PatchError> {
        let old: Vec<&HunkLine> = lines.iter().filter(|line| line.kind != LineKind::Add).collect();
        let guess = expected_index(hunk).map(|at| at.saturating_add_signed(self.offset));
        if old.is_empty() {
            return Ok((self.place_insertion(hunk, guess)?, LineFit::Exact, lines));
        }
        match locate::locate_lines(&old, &self.found, self.floor, guess) {
            HunkPlace::At(at, fit) => Ok((at, fit, lines)),
            HunkPlace::Ambiguous(places, count) => {
                let problem = PlaceProblem::Ambiguous {
                    lines: places.into_iter().map(|at| at + 1).collect(),
                    count,
                    has_numbers: hunk.old_start.is_some(),
                };
                Err(self.place_error(hunk, problem))
            }
            HunkPlace::BeforeFloor(at) => Err(self.place_error(hunk, PlaceProblem::OutOfOrder { line: at + 1 })),
            HunkPlace::Nowhere => Err(self.mismatch_error(hunk, &old, guess)),
        }
    }

    /// Returns the place of lines without context: the line that the patch names, since there is nothing to look for.
    fn place_insertion(&self, hunk: &Hunk, guess: Option<usize>) -> Result<usize, PatchError> {
        match guess {
            // An empty file has one place only.
            None if self.found.is_empty() => Ok(0),
            None => Err(self.place_error(hunk, PlaceProblem::NoPlace)),
            Some(line) if line < self.floor => Err(self.place_error(hunk, PlaceProblem::OutOfOrder { line })),
            Some(line) if line > self.found.len() => {
                let lines = self.found.len();
                Err(self.place_error(hunk, PlaceProblem::PastEnd { line, lines }))
            }
            Some(at) => Ok(at),
        }
    }

    /// Writes the lines before the hunk as they are, then the hunk.
    fn write_hunk(&mut self, lines: &[HunkLine], at: usize, fit: LineFit) -> Result<(), PatchError> {
        let old_count = lines.iter().filter(|line| line.kind != LineKind::Add).count();
        let end = at + old_count;
        self.found[self.floor..at]
            .iter()
            .for_each(|line| self.output.push_line(line.text, line.ending));
        // Only a patch with other line endings than the file is adapted; otherwise it is taken to the byte.
        let adapt = fit == LineFit::Loose || self.needs_crlf(at, end);
        let mut next = at;
        for line in lines {
            if line.kind == LineKind::Add {
                let ending = if adapt && line.ending != LineEnding::None {
                    self.ending_near(at, next, end)
                } else {
                    line.ending
                };
                self.output.push_line(&line.text, ending);
                continue;
            }
            let found = self.found[next];
            // The line of the file, not of the patch: their endings may differ.
            if line.kind == LineKind::Context {
                self.output.push_line(found.text, found.ending);
            }
            next += 1;
        }
        self.check_end_of_file(lines, end)?;
        self.floor = end;
        self.note_final_newline(lines, end);
        Ok(())
    }

    /// Checks that a line which the patch marks as having no newline is the last one of the new file.
    fn check_end_of_file(&self, lines: &[HunkLine], end: usize) -> Result<(), PatchError> {
        let new = || lines.iter().filter(|line| line.kind != LineKind::Remove);
        if end == self.found.len() {
            return check_inner_endings(new());
        }
        match new().find(|line| line.ending == LineEnding::None) {
            Some(line) => Err(PatchError::malformed(
                line.patch_line + 1,
                "\"\\ No newline at end of file\" must not come before other lines of the file",
            )),
            None => Ok(()),
        }
    }

    /// Notes whether the new file must end without a newline: the old file does, and the patch does not mark that.
    fn note_final_newline(&mut self, lines: &[HunkLine], end: usize) {
        let lacks = end == self.found.len() && self.found.last().is_some_and(|line| line.ending == LineEnding::None);
        let marked = lines.iter().any(|line| line.ending == LineEnding::None);
        self.drops_final_newline = lacks && !marked;
    }

    /// Returns whether the hunk covers no line of the file that has an ending, while the lines of the file end in
    /// `\r\n`.
    fn needs_crlf(&self, at: usize, end: usize) -> bool {
        let ended = |line: &&TextLine<'_>| line.ending != LineEnding::None;
        let shows_none = !self.found[at..end].iter().any(|line| ended(&line));
        let mut endings = self.found.iter().filter(ended).peekable();
        shows_none && endings.peek().is_some() && endings.all(|line| line.ending == LineEnding::CrLf)
    }

    /// Returns the ending of the nearest line of the hunk that has one: before `next`, else after it, else in the file.
    fn ending_near(&self, at: usize, next: usize, end: usize) -> LineEnding {
        let ended = |line: &&TextLine<'_>| line.ending != LineEnding::None;
        let before = self.found[at..next].iter().rev().find(ended);
        let after = || self.found[next..end].iter().find(ended);
        let any = || self.found.iter().find(ended);
        before
            .or_else(after)
            .or_else(any)
            .map_or(LineEnding::Lf, |line| line.ending)
    }

    fn finish_content(mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.found);
        rest[self.floor..]
            .iter()
            .for_each(|line| self.output.push_line(line.text, line.ending));
        if self.drops_final_newline {
            self.output.drop_final_newline();
        }
        self.output.bytes
    }

    fn place_error(&self, hunk: &Hunk, problem: PlaceProblem) -> PatchError {
        problem.of_hunk(hunk).in_file(self.file.path())
    }

    /// Explains a hunk that has no place by the place that agrees best with it.
    fn mismatch_error(&self, hunk: &Hunk, old: &[&HunkLine], guess: Option<usize>) -> PatchError {
        let text: Vec<u8> = old
            .iter()
            .flat_map(|line| [line.text.as_slice(), b"\n"].concat())
            .collect();
        let near = find_nearest(self.original, &String::from_utf8_lossy(&text));
        let starts = near.candidates.iter().map(|candidate| candidate.first_line - 1);
        let agreeing = |at: &usize| {
            (0..old.len())
                .filter(|index| self.line_agrees(old[*index], at + index))
                .count()
        };
        let best = starts.chain(guess).max_by_key(agreeing).unwrap_or(0);
        let index = (0..old.len())
            .find(|index| !self.line_agrees(old[*index], best + index))
            .unwrap_or(0);
        let mismatch = HunkMismatch {
            applied_at_line: self.find_applied_line(hunk),
            ..describe_mismatch(&self.found, hunk, old[index], best + index, near)
        };
        PatchProblem::Mismatch(Box::new(mismatch)).in_file(mismatch_path(self.file))
    }

    fn line_agrees(&self, wanted: &HunkLine, at: usize) -> bool {
        self.found
            .get(at)
            .is_some_and(|found| locate::fit_line(wanted, found).is_some())
    }

    /// Returns the line at which the file already has the result of the hunk: then it was applied before.
    fn find_applied_line(&self, hunk: &Hunk) -> Option<usize> {
        let new: Vec<&HunkLine> = hunk.new_lines().collect();
        // A hunk that only removes lines leaves nothing but context, which proves nothing.
        match locate::locate_lines(&new, &self.found, 0, expected_index(hunk)) {
            HunkPlace::At(at, _) if hunk.lines.iter().any(|line| line.kind == LineKind::Add) => Some(at + 1),
            _ => None,
        }
    }
}

/// Returns the name of the file that was compared with a hunk.
fn mismatch_path(file: &FilePatch) -> &str {
    file.old_path.as_deref().unwrap_or(file.path())
}

fn describe_mismatch(
    found: &[TextLine<'_>],
    hunk: &Hunk,
    wanted: &HunkLine,
    at: usize,
    nearest: NearMatches,
) -> HunkMismatch {
    let quote = |text: &[u8]| lines::quote_line(&String::from_utf8_lossy(text), 160);
    HunkMismatch {
        hunk: hunk.number,
        patch_line: wanted.patch_line,
        line: at + 1,
        wanted: quote(&wanted.text),
        found: found.get(at).map(|line| quote(line.text)),
        wants_no_newline: wanted.ending == LineEnding::None,
        around: lines_around(found, at),
        nearest,
        applied_at_line: None,
    }
}

fn lines_around(found: &[TextLine<'_>], at: usize) -> Vec<(usize, String)> {
    let first = at.min(found.len()).saturating_sub(3);
    let shown = found.iter().enumerate().skip(first).take(7);
    shown
        .map(|(index, line)| (index + 1, lines::show_line(line.text, 160)))
        .collect()
}

/// Returns the 0-based line that a hunk names as its first; a hunk without old lines names the line before it.
fn expected_index(hunk: &Hunk) -> Option<usize> {
    let start = hunk.old_start?;
    let is_insertion = hunk.old_lines().next().is_none();
    Some(if is_insertion { start } else { start.saturating_sub(1) })
}

/// The new content while it is being written.
#[derive(Debug, Default)]
struct PatchedContent {
    bytes: Vec<u8>,
    last: Option<LineEnding>,
    /// The ending of the last line that had one. A line without an ending gets it when another line follows.
    usual: Option<LineEnding>,
}

impl PatchedContent {
    fn push_line(&mut self, text: &[u8], ending: LineEnding) {
        // The line before is no longer the last one, and needs an ending now.
        if self.last == Some(LineEnding::None) {
            let style = self.usual.unwrap_or(if ending == LineEnding::None {
                LineEnding::Lf
            } else {
                ending
            });
            self.bytes.extend_from_slice(style.bytes());
        }
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(ending.bytes());
        self.last = Some(ending);
        if ending != LineEnding::None {
            self.usual = Some(ending);
        }
    }

    fn drop_final_newline(&mut self) {
        let length = self.last.map_or(0, |ending| ending.bytes().len());
        self.bytes.truncate(self.bytes.len() - length);
    }
}

/// Refuses "no newline" on a line that is not the last.
fn check_inner_endings<'h>(lines: impl Iterator<Item = &'h HunkLine>) -> Result<(), PatchError> {
    let all: Vec<&HunkLine> = lines.collect();
    let inner = all.split_last().map_or(&[][..], |(_, inner)| inner);
    match inner.iter().find(|line| line.ending == LineEnding::None) {
        Some(line) => Err(PatchError::malformed(
            line.patch_line + 1,
            "\"\\ No newline at end of file\" must not come before other lines",
        )),
        None => Ok(()),
    }
}
