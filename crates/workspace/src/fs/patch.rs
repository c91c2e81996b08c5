//! Applying a unified diff to several files as one change.

use std::collections::HashSet;

use bytes::Bytes;
use garret_core::{Access, ChangedPath, EntryPath, Error, ErrorKind, Mutation, Precondition, ReadResult, Result};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::fs::edit::{ATTEMPTS, is_overtaken};
use crate::fs::permissions::check_mode;
use crate::text::patch::{FilePatch, Patch, PatchAction, PatchError, apply_file, parse_patch};
use crate::{DiffStatus, PatchResult, PatchedFile, Workspace};

/// How to apply a patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// Whether the patch is only tried, and nothing is written.
    pub dry_run: bool,
}

/// One file of the patch, computed and not yet written.
struct PlannedFilePatch {
    action: PatchAction,
    from: Option<(AdmittedPath, ReadResult)>,
    to: Option<AdmittedPath>,
    content: Option<Bytes>,
    mode: Option<u32>,
    has_hunks: bool,
    summary: PatchedFile,
}

impl Workspace {
    /// Applies a unified diff: every file of it, or none. It is computed again if another writer changed a file in
    /// between.
    pub async fn apply_patch(&self, diff: &str, options: PatchOptions) -> Result<PatchResult> {
        let patch = parse_patch(diff.as_bytes()).map_err(|error| patch_error(&error));
        let patch = patch.map(|patch| self.files.with_view_paths(patch));
        let paths = patch.as_ref().map_or_else(|_| Vec::new(), paths_of);
        let files = self.files.remembering_hard_links();
        let work = async { files.patch_files(patch.as_ref().map_err(Error::clone)?, options).await };
        self.run_operation("apply_patch", &paths, |_| diff.len() as u64, work)
            .await
    }
}

impl FileAccess {
    /// Returns the patch with absolute host paths of this workspace replaced by paths of this view.
    fn with_view_paths(&self, mut patch: Patch) -> Patch {
        let files = patch.files.iter_mut();
        for name in files.flat_map(|file| file.old_path.iter_mut().chain(&mut file.new_path)) {
            if let Some(inside) = self.below_host_root(name) {
                *name = inside;
            }
        }
        patch
    }

    async fn patch_files(&self, patch: &Patch, options: PatchOptions) -> Result<PatchResult> {
        let mut attempt = 1;
        loop {
            match self.try_patch(patch, options).await {
                Err(error) if is_overtaken(&error, &Precondition::Any) && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn try_patch(&self, patch: &Patch, options: PatchOptions) -> Result<PatchResult> {
        let mut planned = Vec::with_capacity(patch.files.len());
        for file in &patch.files {
            planned.push(self.plan_file(file).await?);
        }
        check_names(&planned)?;
        let mut change = None;
        let files: Vec<PatchedFile> = planned.iter().map(|file| file.summary.clone()).collect();
        if !options.dry_run {
            let targets = planned
                .iter()
                .flat_map(|file| file.from.iter().map(|(from, _)| from).chain(&file.to));
            let follow = targets.map(|target| target.follow).next().unwrap_or_default();
            let applied = self.commit_mutations("apply_patch", plan_mutations(planned), follow);
            change = applied.await?.into_iter().find_map(|one| one.change);
        }
        let paths: Vec<_> = files.iter().flat_map(changed_paths).collect();
        Ok(PatchResult {
            path_count: paths.len() as u64,
            paths,
            files,
            change,
            dry_run: options.dry_run,
        })
    }

    /// Reads the file and computes its new content.
    async fn plan_file(&self, file: &FilePatch) -> Result<PlannedFilePatch> {
        let from = self.patch_source(file).await?;
        let applied = apply_file(from.as_ref().map(|(_, before)| before.bytes.as_ref()), file)
            .map_err(|error| patch_error(&error))?;
        let to = match (file.action, &from) {
            (PatchAction::Delete, _) => None,
            (PatchAction::Modify, Some((target, _))) => Some(target.clone()),
            _ => Some(
                self.admit_creation(file.path(), PathSubject::Content, &[Access::Read, Access::Write])
                    .await?,
            ),
        };
        let old_path = from.as_ref().map(|(target, _)| target.shown.to_string());
        let path = to.as_ref().map(|target| target.shown.to_string()).or(old_path.clone());
        let status = status_of(file.action);
        let is_moved = matches!(status, DiffStatus::Renamed | DiffStatus::Copied);
        let summary = PatchedFile {
            path: path.unwrap_or_default(),
            status,
            old_path: old_path.filter(|_| is_moved),
            insertions: applied.added,
            deletions: applied.removed,
        };
        let content = applied.content.map(Bytes::from);
        Ok(PlannedFilePatch {
            action: file.action,
            from,
            to,
            content,
            mode: check_mode(file.new_mode)?,
            has_hunks: !file.hunks.is_empty(),
            summary,
        })
    }

    /// Returns the file that the patch changes, if it exists; of two names, the one that exists.
    async fn patch_source(&self, file: &FilePatch) -> Result<Option<(AdmittedPath, ReadResult)>> {
        match file.action {
            PatchAction::Rename | PatchAction::Copy => self.read_if_present(file.old_path.as_deref()).await,
            PatchAction::Create | PatchAction::Modify | PatchAction::Delete => {
                let new = self.read_if_present(Some(file.path())).await?;
                let old = self.read_if_present(file.alternate_path()).await?;
                match (new, old) {
                    (Some((target, _)), Some((other, _))) if target.real != other.real => {
                        Err(two_names_error(&target, &other))
                    }
                    (new, old) => Ok(new.or(old)),
                }
            }
        }
    }

    /// Reads the file of this name; `None` if it does not exist.
    async fn read_if_present(&self, name: Option<&str>) -> Result<Option<(AdmittedPath, ReadResult)>> {
        let Some(name) = name else { return Ok(None) };
        let target = self
            .admit(name, PathSubject::Content, &[Access::Read, Access::Write])
            .await?;
        match self.read_to_change(&target, Precondition::Any).await {
            Ok(before) => Ok(Some((target, before))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn two_names_error(new: &AdmittedPath, old: &AdmittedPath) -> Error {
    let message = format!(
        "the patch names {} and {}, and both exist",
        old.shown.to_quoted(),
        new.shown.to_quoted()
    );
    Error::invalid(message)
        .at_path(&new.shown)
        .hint("name the file to change on both lines, `---` and `+++`")
}

/// Refuses a patch that names one file twice, under two spellings.
fn check_names(planned: &[PlannedFilePatch]) -> Result<()> {
    // The parser compares names as they are written; only resolved paths show that two names are one file.
    let mut seen = HashSet::new();
    for to in planned.iter().filter_map(|file| file.to.as_ref()) {
        if !seen.insert(&to.real) {
            let message = format!("the patch names {} twice", to.shown.to_quoted());
            return Err(Error::invalid(message)
                .at_path(&to.shown)
                .hint("name each file once, with one action"));
        }
    }
    Ok(())
}

/// Returns the names of all files that a patch touches.
fn paths_of(patch: &Patch) -> Vec<&str> {
    let mut paths: Vec<_> = patch
        .files
        .iter()
        .flat_map(|file| file.old_path.iter().chain(&file.new_path))
        .map(String::as_str)
        .collect();
    paths.dedup();
    paths
}

fn status_of(action: PatchAction) -> DiffStatus {
    match action {
        PatchAction::Create => DiffStatus::Added,
        PatchAction::Modify => DiffStatus::Modified,
        PatchAction::Delete => DiffStatus::Deleted,
        PatchAction::Rename => DiffStatus::Renamed,
        PatchAction::Copy => DiffStatus::Copied,
    }
}

/// Returns the paths that the patch of one file changes.
fn changed_paths(file: &PatchedFile) -> Vec<ChangedPath> {
    let changed = |mark, path: &str| ChangedPath {
        mark,
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
    };
    match (file.status, &file.old_path) {
        (DiffStatus::Renamed, Some(old)) => vec![changed('-', old), changed('+', &file.path)],
        (DiffStatus::Added | DiffStatus::Copied | DiffStatus::Renamed, _) => vec![changed('+', &file.path)],
        (DiffStatus::Deleted, _) => vec![changed('-', &file.path)],
        _ => vec![changed('~', &file.path)],
    }
}

/// Returns the mutations of a planned patch. A rename stays a rename, unless another file of the patch gives up its new
/// name.
fn plan_mutations(planned: Vec<PlannedFilePatch>) -> Vec<Mutation> {
    let given_up: HashSet<_> = planned
        .iter()
        .filter(|file| matches!(file.action, PatchAction::Delete | PatchAction::Rename))
        .filter_map(|file| file.from.as_ref().map(|(target, _)| target.real.clone()))
        .collect();
    // Removals come first, so that another file of the patch can take the name.
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for file in planned {
        let swaps = file.to.as_ref().is_some_and(|to| given_up.contains(&to.real));
        let (precondition, mode) = match (file.action, &file.from) {
            (PatchAction::Modify, Some((_, before))) => (Precondition::Version(before.version.clone()), file.mode),
            (PatchAction::Copy | PatchAction::Rename, Some((_, before))) => {
                (Precondition::Absent, file.mode.or(before.mode))
            }
            _ => (Precondition::Absent, file.mode),
        };
        match (file.action, file.from, file.to) {
            (PatchAction::Delete, Some((from, before)), _) => first.push(remove_mutation(&from, &before)),
            // Two renames that exchange names have no order in which both work, so each becomes a removal and a write.
            (PatchAction::Rename, Some((from, before)), Some(to)) if swaps => {
                first.push(remove_mutation(&from, &before));
                then.push(write_mutation(to, file.content, precondition, mode));
            }
            (PatchAction::Rename, Some((from, before)), Some(to)) => {
                if file.has_hunks || file.mode.is_some() {
                    let precondition = Precondition::Version(before.version);
                    first.push(write_mutation(from.clone(), file.content, precondition, file.mode));
                }
                then.push(Mutation::Rename {
                    from: from.real,
                    to: to.real,
                    overwrite: false,
                    parents: true,
                });
            }
            (_, _, Some(to)) => then.push(write_mutation(to, file.content, precondition, mode)),
            (_, _, None) => {}
        }
    }
    first.into_iter().chain(then).collect()
}

fn write_mutation(
    target: AdmittedPath,
    content: Option<Bytes>,
    precondition: Precondition,
    mode: Option<u32>,
) -> Mutation {
    let content = content.expect("only a deleted file has no content");
    Mutation::Write {
        path: target.real,
        content: content.into(),
        precondition,
        mode,
        parents: true,
    }
}

fn remove_mutation(target: &AdmittedPath, before: &ReadResult) -> Mutation {
    let precondition = Precondition::Version(before.version.clone());
    Mutation::Remove {
        path: target.real.clone(),
        recursive: false,
        precondition,
    }
}

fn patch_error(error: &PatchError) -> Error {
    let wrong = Error::new(error.kind(), error.to_string()).hint(error.hint());
    match &error.path {
        Some(path) => wrong.at_path_text(path),
        None => wrong,
    }
}
