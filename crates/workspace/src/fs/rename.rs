//! Moving files, links and directories.

use garret_core::{Access, EntryKind, Error, ErrorKind, Mutation, Result};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::fs::remove::root_error;
use crate::{TransferResult, Workspace};

/// How to copy or move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferOptions {
    /// Whether a file at the destination is replaced.
    pub overwrite: bool,
}

impl Workspace {
    /// Moves an entry, or a whole directory, in one step. A move onto itself changes nothing; a move into itself is
    /// `invalid`.
    pub async fn rename(&self, src: &str, dest: &str, options: TransferOptions) -> Result<TransferResult> {
        let files = self.files.remembering_hard_links();
        self.run_operation("move", &[src, dest], |_| 0, files.rename_entry(src, dest, options))
            .await
    }
}

impl FileAccess {
    async fn rename_entry(&self, src: &str, dest: &str, options: TransferOptions) -> Result<TransferResult> {
        let from = self
            .admit(src, PathSubject::Entry, &[Access::Read, Access::Write])
            .await?;
        let to = self.admit_creation(dest, PathSubject::Entry, &[Access::Write]).await?;
        if from.shown.is_root() {
            return Err(root_error());
        }
        self.check_slash(&from, dest, &to).await?;
        let files = self.check_move(&from, &to).await?;
        let mutation = Mutation::Rename {
            from: from.real,
            to: to.real,
            overwrite: options.overwrite,
            parents: true,
        };
        let applied = self.commit_mutation("move", mutation, from.follow).await?;
        Ok(TransferResult {
            src: from.shown.to_string(),
            dest: to.shown.to_string(),
            files,
            version: applied.version,
            change: applied.change,
        })
    }

    /// Refuses a new path that ends with a slash for a file: the caller means a directory, and that directory does not
    /// exist.
    pub(crate) async fn check_slash(&self, from: &AdmittedPath, dest: &str, to: &AdmittedPath) -> Result<()> {
        if !dest.ends_with('/') || self.kind_of(from).await? == EntryKind::Directory {
            return Ok(());
        }
        match self.kind_of(to).await {
            Ok(EntryKind::Directory) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::NotADirectory,
                format!("there is no directory {}", to.shown.to_quoted()),
            )
            .at_path(&to.shown)
            .hint("make the directory first, or leave out the slash to give the new name")),
        }
    }

    /// Checks the rules on all entries of a directory that is moved, and counts its files.
    async fn check_move(&self, from: &AdmittedPath, to: &AdmittedPath) -> Result<u64> {
        if self.kind_of(from).await? != EntryKind::Directory {
            return Ok(1);
        }
        let mut entries = self.entries_below(&from.real, from.follow).await?;
        let files = entries.iter().filter(|entry| entry.kind == EntryKind::File).count() as u64;
        self.check_subtree(&from.shown, &entries, &[Access::Read, Access::Write])
            .await?;
        // The entries get new names by the move, and a rule may deny writing to one of those.
        for entry in entries.iter_mut().filter(|_| self.view.is_restricted()) {
            if let Some(path) = entry.path.as_path().and_then(|path| path.relative_to(&from.real)) {
                entry.path = path.rebase_below(&to.real)?.into();
            }
        }
        self.check_subtree(&to.shown, &entries, &[Access::Write]).await?;
        Ok(files)
    }
}
