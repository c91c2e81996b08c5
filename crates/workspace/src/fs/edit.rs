//! Editing: exact replacements in one file, all or none.

use bytes::Bytes;
use garret_core::{Access, Error, ErrorKind, Mutation, Precondition, ReadResult, Result};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::text::EditError;
use crate::text::edit::{Edit, MAX_RESULT_BYTES, apply_edits_within};
use crate::{EditResult, Workspace, text};

/// How many times a change is computed, if other writers change the file in between.
pub(crate) const ATTEMPTS: usize = 20;

/// How to edit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditOptions {
    /// The condition on the present file.
    pub precondition: Precondition,
    /// Whether the edit is only tried, and nothing is written.
    pub dry_run: bool,
}

impl Workspace {
    /// Applies the edits in order, each on the result of the one before, as one change. Without a precondition, an edit
    /// is computed again on the new content if another writer changed the file in between.
    pub async fn edit(&self, path: &str, edits: &[Edit], options: EditOptions) -> Result<EditResult> {
        let moved = |edited: &EditResult| edited.size;
        let files = self.files.remembering_hard_links();
        self.run_operation("edit_file", &[path], moved, files.edit_file(path, edits, &options))
            .await
    }
}

impl FileAccess {
    async fn edit_file(&self, path: &str, edits: &[Edit], options: &EditOptions) -> Result<EditResult> {
        let target = self
            .admit(path, PathSubject::Content, &[Access::Read, Access::Write])
            .await?;
        let mut attempt = 1;
        loop {
            match self.try_edit(&target, edits, options).await {
                Err(error) if is_overtaken(&error, &options.precondition) && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    async fn try_edit(&self, target: &AdmittedPath, edits: &[Edit], options: &EditOptions) -> Result<EditResult> {
        let before = self.read_to_change(target, options.precondition.clone()).await?;
        // The limit is passed down: replacements can multiply the content, and memory would be used before the size is
        // checked.
        let limits = self.view.layers.iter().filter_map(|layer| layer.rules.max_file_bytes());
        let limit = limits
            .min()
            .map_or(MAX_RESULT_BYTES, |limit| limit.min(MAX_RESULT_BYTES as u64) as usize);
        let edited = apply_edits_within(&before.bytes, edits, limit).map_err(|error| edit_error(&error, target))?;
        let content = Bytes::from(edited.content);
        let outcome = EditResult {
            path: target.shown.to_string(),
            version: Some(before.version.clone()),
            size: content.len() as u64,
            replacements: edited.replacements as u64,
            occurrences_left: edited.occurrences_left as u64,
            diff: text::diff::unified_diff(target.shown.as_str(), &before.bytes, &content),
            change: None,
            dry_run: options.dry_run,
        };
        if options.dry_run {
            return Ok(outcome);
        }
        let rewrite = rewrite_mutation(target, content, before);
        let applied = self.commit_mutation("edit_file", rewrite, target.follow).await?;
        Ok(EditResult {
            version: applied.version,
            change: applied.change,
            ..outcome
        })
    }
}

/// Returns the write of content that was computed from `before`. It fails if another writer changed the file since.
fn rewrite_mutation(target: &AdmittedPath, content: Bytes, before: ReadResult) -> Mutation {
    Mutation::Write {
        path: target.real.clone(),
        content: content.into(),
        precondition: Precondition::Version(before.version),
        mode: None,
        parents: false,
    }
}

/// Whether the change lost a race against another writer, and may be tried again.
pub(crate) fn is_overtaken(error: &Error, precondition: &Precondition) -> bool {
    // A caller that named a version wants to hear of the conflict.
    error.kind() == ErrorKind::Conflict && *precondition == Precondition::Any
}

fn edit_error(error: &EditError, target: &AdmittedPath) -> Error {
    Error::new(error.kind(), error.to_string())
        .at_path(&target.shown)
        .hint(error.hint())
}
