//! The workspace: one tree of files, and the operations that its policy allows.
//!
//! A [`Workspace`] stands between its callers (a tool, a front door, an embedding program) and a storage. Each
//! operation goes the same way: it is opened in the operations log, an approver is asked if the policy requires it, its
//! paths are parsed and checked against the policy, and every mutation passes one function (`commit.rs`), which has it
//! planned and reviewed and passes it to the storage or the history. Everything that is not in the storage contract (windows, edits,
//! patches, trees, globs, searches) is written here, once for all storages.

mod admission;
mod approval;
mod batch_preview;
mod change_review;
mod code;
mod commit;
mod file_access;
mod fs;
mod hard_links;
mod history;
mod host_path;
mod neighbours;
mod operation;
mod path_images;
mod quota;
mod results;
mod scope;
mod search;
mod shell;
mod sorted_pages;
pub mod text;
mod view;
mod workspace;

pub use approval::{Approval, ApprovalRequest, Approver};
pub use code::*;
pub use fs::*;
pub use history::*;
pub use neighbours::NeighbourWorkspaces;
pub use results::*;
pub use scope::ScopeOptions;
pub use search::*;
pub use shell::*;
pub use workspace::{Workspace, WorkspaceBuilder};
