//! Branches of the workspace.

use garret_core::{Branch, Error, ErrorKind, NewBranch, OpenedBranch, Point, Result};

use crate::Workspace;
use crate::shell::effects::conflict_branch::check_branch_name;

impl Workspace {
    /// Makes a workspace that begins at `point` of this one and shares its content. Neither ever changes the files of
    /// the other. Opened by its name, the branch has the capabilities and policies of this workspace. A name that is
    /// reserved for the branches on which conflicting effects of commands are put is `invalid`.
    pub async fn branch(&self, name: &str, point: &Point) -> Result<Branch> {
        let work = async {
            self.files.view.check_whole()?;
            check_branch_name(name)?;
            let new = NewBranch {
                name: name.to_owned(),
                config: self.files.source.branch_config.clone(),
            };
            self.files.journal()?.branch(new, point).await
        };
        self.run_operation("branch", &[], |_| 0, work).await
    }

    /// Returns the workspaces that were branched from this one.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        let work = async {
            if !self.files.view.base.is_root() {
                return Err(narrowed_view_error());
            }
            self.files.journal()?.branches().await
        };
        // Not `branch`: a list of the branches must not need the approval that a new branch needs.
        self.run_operation("list_branches", &[], |_: &Vec<_>| 0, work).await
    }

    /// Opens a branch of this workspace, by name or id, for a program that assembles workspaces. The storage of the
    /// branch has no policy yet: the caller must apply the configuration that was kept for the branch. A narrowed view
    /// is `denied`.
    pub async fn hand_out_branch(&self, name: &str) -> Result<OpenedBranch> {
        let work = async {
            // A branch has all files of the workspace, so it could be wider than a narrowed view.
            if !self.files.view.base.is_root() || self.files.view.layers.len() != 1 {
                return Err(narrowed_view_error());
            }
            self.files.journal()?.open_branch(name).await
        };
        self.run_operation("open_branch", &[], |_| 0, work).await
    }
}

fn narrowed_view_error() -> Error {
    Error::new(ErrorKind::Denied, "a scope has no branches").hint("use the whole workspace")
}
