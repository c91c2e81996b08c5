//! Branches of the workspace.

use garret_core::{Branch, Error, ErrorKind, NewBranch, OpenedBranch, Point, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Workspace;
use crate::shell::aside::check_branch_name;

/// A branch as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BranchShown {
    /// The id of the workspace that it is.
    pub id: String,
    /// Its name, by which it is opened.
    pub name: Option<String>,
    /// The number of the change after which it begins.
    pub fork: u64,
    /// How many changes were made in it.
    pub changes: u64,
    /// When it was made, in RFC 3339.
    pub created: String,
    /// Set if not every file was captured at the point where it begins: the other files are missing from it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

impl From<Branch> for BranchShown {
    fn from(branch: Branch) -> Self {
        Self {
            id: branch.id,
            name: branch.name,
            fork: branch.fork,
            changes: branch.changes,
            created: branch.created.to_string(),
            incomplete: branch.incomplete,
        }
    }
}

impl Workspace {
    /// Makes a workspace that begins at `point` of this one and shares its content. Neither ever disturbs the other. Opened by its name,
    /// it allows what this one allows. The names of branches on which the work of commands is put are `invalid`.
    pub async fn branch(&self, name: &str, point: &Point) -> Result<Branch> {
        let work = async {
            self.check_whole()?;
            check_branch_name(name)?;
            let new = NewBranch {
                name: name.to_owned(),
                config: self.shared.branch_config.clone(),
            };
            self.journal()?.branch(new, point).await
        };
        self.operate("branch", &[], |_| 0, work).await
    }

    /// The workspaces that were branched off this one.
    pub async fn branches(&self) -> Result<Vec<Branch>> {
        let work = async {
            match self.view.base.is_root() {
                true => self.journal()?.branches().await,
                false => Err(narrowed()),
            }
        };
        // Not `branch`: who must agree to a new branch need not be asked for a look at those that are there.
        self.operate("list_branches", &[], |_: &Vec<_>| 0, work).await
    }

    /// Hands out a branch of this workspace, by name or id, to whoever puts workspaces together. Its files come bare: the rules that were
    /// kept for it are to be put around them. A narrowed view, which a branch could be wider than, is `denied`.
    pub async fn hand_out_branch(&self, name: &str) -> Result<OpenedBranch> {
        let work = async {
            match self.view.base.is_root() && self.view.layers.len() == 1 {
                true => self.journal()?.open_branch(name).await,
                false => Err(narrowed()),
            }
        };
        self.operate("open_branch", &[], |_| 0, work).await
    }
}

fn narrowed() -> Error {
    Error::new(ErrorKind::Denied, "a scope has no branches").hint("use the whole workspace")
}
