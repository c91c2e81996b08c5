//! Branches of the workspace.

use garret_core::{Branch, Error, ErrorKind, Point, Result};

use crate::Workspace;

impl Workspace {
    /// Makes a workspace that begins at `point` of this one and shares its content. Neither ever disturbs the other. It has the
    /// configuration that the depot keeps for this one; who opens it may set another.
    pub async fn branch(&self, name: &str, point: &Point) -> Result<Branch> {
        let work = async {
            self.check_whole()?;
            self.journal()?.branch(name, point).await
        };
        self.operate("branch", &[], |_| 0, work).await
    }

    /// The workspaces that were branched off this one.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        let work = async {
            if !self.view.base.is_root() {
                return Err(Error::new(ErrorKind::Denied, "a narrowed view has no branches")
                    .hint("use the workspace around it"));
            }
            self.journal()?.branches().await
        };
        self.operate("branch", &[], |_: &Vec<_>| 0, work).await
    }
}
