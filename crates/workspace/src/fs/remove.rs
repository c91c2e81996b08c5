//! Removing files, links and directories.

use garret_core::{Access, EntryKind, Error, ErrorKind, Mutation, Precondition, Result, WsPath};

use crate::admission::PathSubject;
use crate::file_access::FileAccess;
use crate::{RemoveResult, Workspace};

/// How to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoveOptions {
    /// Whether a directory that has entries is removed.
    pub recursive: bool,
    /// The condition on the present entry.
    pub precondition: Precondition,
}

impl Workspace {
    /// Removes an entry; of a link, the link itself and never its target. The root is `denied`.
    pub async fn remove(&self, path: &str, options: RemoveOptions) -> Result<RemoveResult> {
        let files = self.files.remembering_hard_links();
        self.run_operation("rm", &[path], |_| 0, files.remove_entry(path, options))
            .await
    }
}

impl FileAccess {
    async fn remove_entry(&self, path: &str, options: RemoveOptions) -> Result<RemoveResult> {
        let accesses = [Access::Read, Access::Write];
        let target = self.admit(path, PathSubject::Entry, &accesses).await?;
        if target.shown.is_root() {
            return Err(root_error());
        }
        if options.recursive && self.view.is_restricted() && self.kind_of(&target).await? == EntryKind::Directory {
            let entries = self.entries_below(&target.real, target.follow).await?;
            self.check_subtree(&target.shown, &entries, &accesses).await?;
        }
        let RemoveOptions {
            recursive,
            precondition,
        } = options;
        let mutation = Mutation::Remove {
            path: target.real,
            recursive,
            precondition,
        };
        let applied = self.commit_mutation("rm", mutation, target.follow).await?;
        Ok(RemoveResult {
            path: target.shown.to_string(),
            change: applied.change,
        })
    }
}

/// The error for removing or moving the root of a view.
pub(crate) fn root_error() -> Error {
    // The storage cannot refuse this itself: the root of a scope is an ordinary directory to it.
    Error::new(
        ErrorKind::Denied,
        "the root of the workspace cannot be removed or moved",
    )
    .at_path(&WsPath::root())
    .hint("name an entry inside the workspace")
}
