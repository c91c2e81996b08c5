//! `list_snapshots`: lists the named states and the branches.

use garret_core::path::{printable, quote};
use garret_core::{Error, ErrorKind, Result};
use garret_workspace::{BranchShown, SnapshotShown, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::text::{Page, count, cut_line, token};
use crate::tool::{Output, Tool};

pub(crate) struct ListSnapshots;

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
pub(crate) struct Data {
    /// The snapshots, oldest first.
    snapshots: Vec<SnapshotShown>,
    /// The branches made from this workspace, oldest first, after all snapshots. A view of a part of a workspace shows none.
    branches: Vec<BranchShown>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A snapshot or a branch.
enum Named {
    Snapshot(SnapshotShown),
    Branch(BranchShown),
}

impl Tool for ListSnapshots {
    type Arguments = Arguments;
    type Data = Data;

    const NAME: &'static str = "list_snapshots";
    const SHORT: &'static str = "list_snapshots";
    const TITLE: &'static str = "List snapshots and branches";
    const DESCRIPTION: &'static str = "Lists snapshots, oldest first, then branches.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<Data>> {
        let mut snapshots: Vec<SnapshotShown> = workspace.snapshots().await?.into_iter().map(Into::into).collect();
        if arguments.sizes.unwrap_or(false) && !snapshots.is_empty() {
            add_sizes(workspace, &mut snapshots).await?;
        }
        let mut named: Vec<_> = snapshots.into_iter().map(Named::Snapshot).collect();
        let branches = branches(workspace).await?.into_iter();
        named.extend(branches.map(Named::Branch));
        let start = match &arguments.cursor {
            // A cursor names the last item of the page before.
            Some(cursor) => 1 + position(&named, cursor)?,
            None => 0,
        };
        named.drain(..start);
        let limits = limits.asked(arguments.limit);
        Ok(show(named, limits.page(arguments.limit), start > 0, &limits))
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
async fn branches(workspace: &Workspace) -> Result<Vec<BranchShown>> {
    match workspace.branches().await {
        Ok(branches) => Ok(branches.into_iter().map(Into::into).collect()),
        Err(error) if error.kind() == ErrorKind::Denied => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn position(named: &[Named], cursor: &str) -> Result<usize> {
    let found = named.iter().position(|one| one.cursor() == cursor);
    found.ok_or_else(|| {
        Error::invalid("this cursor is not in the list, or no longer").hint("leave out `cursor` to begin again")
    })
}

fn show(mut named: Vec<Named>, limit: usize, is_continued: bool, limits: &Limits) -> Output<Data> {
    let mut page = Page::new(limits);
    let lines = named.iter().take(limit).map(Named::line);
    let fitting = lines.take_while(|line| page.push(&cut_line(line, limits))).count();
    let next_cursor = if fitting < named.len() {
        named[..fitting].last().map(Named::cursor)
    } else {
        None
    };
    named.truncate(fitting);
    let footer = match &next_cursor {
        Some(cursor) => Some(format!(
            "[{} shown; more: cursor={}]",
            count(named.len() as u64, "name", "names"),
            token(cursor)
        )),
        None if named.is_empty() && is_continued => Some("[no more snapshots or branches]".to_owned()),
        None if named.is_empty() => Some("[no snapshots, no branches]".to_owned()),
        None => None,
    };
    let mut data = Data {
        next_cursor,
        ..Data::default()
    };
    for one in named {
        match one {
            Named::Snapshot(snapshot) => data.snapshots.push(snapshot),
            Named::Branch(branch) => data.branches.push(branch),
        }
    }
    Output::new(page.finish(footer), data)
}

impl Named {
    /// Returns the cursor. Snapshots and branches may have the same names, so the cursor tells them apart.
    fn cursor(&self) -> String {
        match self {
            Self::Snapshot(snapshot) => format!("snapshot:{}", snapshot.label),
            Self::Branch(branch) => format!("branch:{}", branch.id),
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Snapshot(snapshot) => {
                let lazy = if snapshot.lazy { "  (lazy)" } else { "" };
                let label = printable(&snapshot.label);
                let size = snapshot.size.as_ref().map(|size| {
                    let files = count(size.files, "file", "files");
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
                count(branch.changes, "change", "changes")
            ),
        }
    }
}
