//! `list_snapshots`: lists the named states and the branches.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{Error, ErrorKind, Result};
use garret_workspace::{BranchShown, SnapshotShown, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Annotations;
use crate::answer_limits::AnswerLimits;
use crate::arguments::unless_empty;
use crate::text::{AnswerPage, cut_line, format_count, quote_token};
use crate::tool::{Tool, ToolOutput};

pub(crate) struct ListSnapshotsTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    #[serde(default)]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "unless_empty")]
    cursor: Option<String>,
    /// Show files and bytes of each; slow.
    #[serde(default)]
    sizes: Option<bool>,
}

/// A page of the snapshots and branches.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct SnapshotListData {
    /// The snapshots, oldest first.
    snapshots: Vec<SnapshotShown>,
    /// The branches made from this workspace, oldest first, after all snapshots. A view of a part of a workspace shows none.
    branches: Vec<BranchShown>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A snapshot or a branch.
enum SnapshotOrBranch {
    Snapshot(SnapshotShown),
    Branch(BranchShown),
}

impl Tool for ListSnapshotsTool {
    type Arguments = Arguments;
    type Data = SnapshotListData;

    const NAME: &'static str = "list_snapshots";
    const SHORT: &'static str = "list_snapshots";
    const TITLE: &'static str = "List snapshots and branches";
    const DESCRIPTION: &'static str = "Lists snapshots, oldest first, then branches.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(
        workspace: &Workspace,
        arguments: Arguments,
        limits: &AnswerLimits,
    ) -> Result<ToolOutput<SnapshotListData>> {
        let mut snapshots: Vec<SnapshotShown> = workspace.snapshots().await?.into_iter().map(Into::into).collect();
        if arguments.sizes.unwrap_or(false) && !snapshots.is_empty() {
            add_sizes(workspace, &mut snapshots).await?;
        }
        let mut named: Vec<_> = snapshots.into_iter().map(SnapshotOrBranch::Snapshot).collect();
        let branches = list_branches(workspace).await?.into_iter();
        named.extend(branches.map(SnapshotOrBranch::Branch));
        let start = match &arguments.cursor {
            // A cursor names the last item of the page before.
            Some(cursor) => 1 + find_position(&named, cursor)?,
            None => 0,
        };
        named.drain(..start);
        let limits = limits.for_limit(arguments.limit);
        Ok(format_page(
            named,
            limits.page_size(arguments.limit),
            start > 0,
            &limits,
        ))
    }
}

/// Adds its size to each snapshot.
async fn add_sizes(workspace: &Workspace, snapshots: &mut [SnapshotShown]) -> Result<()> {
    let sizes = match workspace.snapshot_sizes().await {
        // A view of a part of the workspace may not see the sizes of the whole; the list is still useful without them.
        Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
        sizes => sizes?,
    };
    for snapshot in snapshots {
        snapshot.size = sizes.iter().find(|size| size.label == snapshot.label).cloned();
    }
    Ok(())
}

/// Returns the branches; a view of a part of a workspace has none.
async fn list_branches(workspace: &Workspace) -> Result<Vec<BranchShown>> {
    match workspace.branches().await {
        Ok(branches) => Ok(branches.into_iter().map(Into::into).collect()),
        Err(error) if error.kind() == ErrorKind::Denied => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn find_position(named: &[SnapshotOrBranch], cursor: &str) -> Result<usize> {
    let found = named.iter().position(|one| one.cursor() == cursor);
    found.ok_or_else(|| {
        Error::invalid("this cursor is not in the list, or no longer").hint("leave out `cursor` to begin again")
    })
}

fn format_page(
    mut named: Vec<SnapshotOrBranch>,
    limit: usize,
    is_continued: bool,
    limits: &AnswerLimits,
) -> ToolOutput<SnapshotListData> {
    let mut page = AnswerPage::new(limits);
    let lines = named.iter().take(limit).map(SnapshotOrBranch::to_line);
    let fitting = lines
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count();
    let next_cursor = if fitting < named.len() {
        named[..fitting].last().map(SnapshotOrBranch::cursor)
    } else {
        None
    };
    named.truncate(fitting);
    let footer = match &next_cursor {
        Some(cursor) => Some(format!(
            "[{} shown; more: cursor={}]",
            format_count(named.len() as u64, "name", "names"),
            quote_token(cursor)
        )),
        None if named.is_empty() && is_continued => Some("[no more snapshots or branches]".to_owned()),
        None if named.is_empty() => Some("[no snapshots, no branches]".to_owned()),
        None => None,
    };
    let mut data = SnapshotListData {
        next_cursor,
        ..SnapshotListData::default()
    };
    for one in named {
        match one {
            SnapshotOrBranch::Snapshot(snapshot) => data.snapshots.push(snapshot),
            SnapshotOrBranch::Branch(branch) => data.branches.push(branch),
        }
    }
    ToolOutput::new(page.finish(footer), data)
}

impl SnapshotOrBranch {
    /// Returns the cursor. Snapshots and branches may have the same names, so the cursor tells them apart.
    fn cursor(&self) -> String {
        match self {
            Self::Snapshot(snapshot) => format!("snapshot:{}", snapshot.label),
            Self::Branch(branch) => format!("branch:{}", branch.id),
        }
    }

    fn to_line(&self) -> String {
        match self {
            Self::Snapshot(snapshot) => {
                let lazy = if snapshot.lazy { "  (lazy)" } else { "" };
                let label = escape_unprintable(&snapshot.label);
                let size = snapshot.size.as_ref().map(|size| {
                    let files = format_count(size.files, "file", "files");
                    format!(
                        "  {files}, {} bytes, {} freed by deleting it",
                        size.bytes, size.alone_bytes
                    )
                });
                let size = size.unwrap_or_default();
                format!("{label}  change #{}  {}{lazy}{size}", snapshot.change, snapshot.at)
            }
            Self::Branch(branch) => format!(
                "branch {}  from change #{}  {}  ({} of its own)",
                quote(branch.name.as_deref().unwrap_or(&branch.id)),
                branch.fork,
                branch.created,
                format_count(branch.changes, "change", "changes")
            ),
        }
    }
}
