//! Removing files, links and directories.

use garret_core::{Access, EntryKind, Error, ErrorKind, Mutation, Precondition, Result, WsPath};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Workspace;
use crate::admit::Names;

/// How to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoveOptions {
    /// Whether a directory may have entries.
    pub recursive: bool,
    /// What must hold.
    pub precondition: Precondition,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Removed {
    /// The entry.
    pub path: String,
}

impl Workspace {
    /// Removes an entry; a link itself, never what it leads to. The root is `denied`.
    pub async fn remove(&self, path: &str, options: RemoveOptions) -> Result<Removed> {
        let once = self.remembering_hard_links();
        self.operate("rm", &[path], |_| 0, once.remove_entry(path, options))
            .await
    }

    async fn remove_entry(&self, path: &str, options: RemoveOptions) -> Result<Removed> {
        let accesses = [Access::Read, Access::Write];
        let target = self.admit(path, Names::Entry, &accesses).await?;
        if target.shown.is_root() {
            return Err(root_is_kept());
        }
        if options.recursive && self.is_fenced() && self.kind_of(&target).await? == EntryKind::Directory {
            let entries = self.entries_below(&target.real, target.follow).await?;
            self.check_subtree(&target.shown, &entries, &accesses).await?;
        }
        let RemoveOptions {
            recursive,
            precondition,
        } = options;
        self.commit(
            "rm",
            vec![Mutation::Remove {
                path: target.real,
                recursive,
                precondition,
            }],
            target.follow,
        )
        .await?;
        Ok(Removed {
            path: target.shown.to_string(),
        })
    }
}

/// The root of a scope is an ordinary directory to the storage; to its own view it is the root.
pub(crate) fn root_is_kept() -> Error {
    Error::new(
        ErrorKind::Denied,
        "the root of the workspace cannot be removed or moved",
    )
    .at(&WsPath::root())
    .hint("name an entry inside the workspace")
}
