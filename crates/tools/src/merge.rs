//! `merge`: brings in the changes of a branch.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{Error, ErrorKind, Result};
use garret_workspace::{
    ChangeShown, Conflict, ConflictSide, MergeOptions, MergeReport, OnConflict, Workspace, is_branch_of_command,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer_limits::AnswerLimits;
use crate::arguments::unless_empty;
use crate::text::{AnswerPage, cut_line, format_count};
use crate::tool::{Tool, ToolOutput};
use crate::{Annotations, change_text};

pub(crate) struct MergeTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Branch, or other workspace of the same origin.
    from: String,
    /// On conflict: `report` (default) writes nothing, `markers` writes both, `ours` and `theirs` choose a side.
    #[serde(default, deserialize_with = "unless_empty")]
    on_conflict: Option<OnConflict>,
    #[serde(default)]
    dry_run: Option<bool>,
}

/// The result of a merge, or of its dry run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MergeData {
    /// The change that it made, which can be undone; absent where nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeShown>,
    /// The paths that it changed here, or would change, each after `+`, `~` or `-`; only the first ones if there are many.
    paths: Vec<String>,
    /// How many paths those are.
    path_count: u64,
    /// The conflicts; only the first ones if there are many. Long texts are left out.
    conflicts: Vec<Conflict>,
    /// How many conflicts there are.
    conflict_count: u64,
    /// Whether this was a dry run.
    dry_run: bool,
}

impl Tool for MergeTool {
    type Arguments = Arguments;
    type Data = MergeData;

    const NAME: &'static str = "merge";
    const SHORT: &'static str = "merge";
    const TITLE: &'static str = "Merge a branch";
    const DESCRIPTION: &'static str =
        "Merges the changes of a branch into this workspace, as one change that undo takes back.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> Result<ToolOutput<MergeData>> {
        let options = MergeOptions {
            on_conflict: arguments.on_conflict.unwrap_or_default(),
            dry_run: arguments.dry_run.unwrap_or(false),
        };
        let merged = workspace.merge(&arguments.from, options).await?;
        let text = format_outcome(&merged, &arguments.from, options, limits);
        Ok(ToolOutput::new(text, bound_data(merged, limits)))
    }
}

/// Merges the effects of a command, in a workspace that has commands but does not declare `snapshot`.
pub(crate) struct CommandMergeTool;

impl Tool for CommandMergeTool {
    type Arguments = Arguments;
    type Data = MergeData;

    const NAME: &'static str = MergeTool::NAME;
    const SHORT: &'static str = MergeTool::SHORT;
    const TITLE: &'static str = "Merge the effects of a command";
    const DESCRIPTION: &'static str =
        "Merges the effects of a command that went to a branch because the files changed while it ran.";
    const ANNOTATIONS: Annotations = MergeTool::ANNOTATIONS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> Result<ToolOutput<MergeData>> {
        // Effects of a command that went to a branch must be reachable; other branches belong to the capability
        // `snapshot`.
        if !is_branch_of_command(&arguments.from) {
            let message = format!(
                "{} is not a branch with the effects of a command",
                quote(&arguments.from)
            );
            return Err(Error::new(ErrorKind::Denied, message)
                .hint("other branches need the capability `snapshot`, which this workspace does not declare"));
        }
        MergeTool::run(workspace, arguments, limits).await
    }
}

fn format_outcome(merged: &MergeReport, from: &str, options: MergeOptions, limits: &AnswerLimits) -> String {
    let mut page = AnswerPage::new(limits);
    page.push_block(&headline(merged, from, options));
    let conflicts = merged.conflicts.iter().map(conflict_line);
    let paths = merged.paths.iter().map(|path| escape_unprintable(path).into_owned());
    let lines: Vec<_> = conflicts.chain(paths).collect();
    let shown = lines
        .iter()
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count();
    let is_blocked = !merged.conflicts.is_empty() && options.on_conflict == OnConflict::Report;
    let left = (lines.len() - shown) as u64;
    page.finish(match (left, is_blocked) {
        (0, false) => None,
        (0, true) => Some("[to go on, merge with `on_conflict` set to `markers`, `ours` or `theirs`]".to_owned()),
        (left, _) => Some(format!("[{} not shown]", format_count(left, "more line", "more lines"))),
    })
}

fn headline(merged: &MergeReport, from: &str, options: MergeOptions) -> String {
    let from = quote(from);
    let paths = format_count(merged.paths.len() as u64, "path", "paths");
    let conflicts = format_count(merged.conflicts.len() as u64, "conflict", "conflicts");
    match &merged.change {
        _ if !merged.conflicts.is_empty() && options.on_conflict == OnConflict::Report => {
            format!("{conflicts} with {from}; nothing is written")
        }
        Some(change) if merged.conflicts.is_empty() => {
            format!("merged {from}: {paths} (change #{}, id {})", change.number, change.id)
        }
        Some(change) => format!(
            "merged {from}: {paths}, {conflicts} resolved (change #{}, id {})",
            change.number, change.id
        ),
        None if merged.dry_run => format!("merging {from} would change {paths}, with {conflicts}; nothing is written"),
        None if !merged.conflicts.is_empty() => {
            format!("{conflicts} with {from} resolved; all files of this workspace stay unchanged")
        }
        None => format!("nothing to merge from {from}: this workspace has all of its changes"),
    }
}

fn conflict_line(conflict: &Conflict) -> String {
    let regions = match conflict.hunks {
        0 => String::new(),
        hunks => format!(" ({})", format_count(hunks as u64, "place", "places")),
    };
    format!(
        "conflict: {}: {}{regions}",
        escape_unprintable(&conflict.path),
        conflict.kind.description()
    )
}

/// Returns the outcome as far as it fits into an answer.
fn bound_data(merged: MergeReport, limits: &AnswerLimits) -> MergeData {
    let (path_count, conflict_count) = (merged.paths.len() as u64, merged.conflicts.len() as u64);
    let mut room = ByteBudget(limits.bytes);
    // The path is in the conflict and in each of its three sides.
    let fits = |conflict: &Conflict| room.try_take(conflict.path.len() * 4 + 400);
    // Paths and kinds first, then the texts with a room of their own: a long text must not hide that there is a
    // conflict.
    let mut conflicts: Vec<_> = merged.conflicts.into_iter().take_while(fits).collect();
    let mut room = ByteBudget(limits.bytes);
    for conflict in &mut conflicts {
        let sides = [&mut conflict.base, &mut conflict.ours, &mut conflict.theirs];
        sides.into_iter().flatten().for_each(|side| room.trim_text(side));
    }
    let mut room = ByteBudget(limits.bytes);
    let paths = merged.paths.into_iter().take(limits.lines);
    MergeData {
        change: merged.change.map(change_text::bound_paths),
        paths: paths.take_while(|path| room.try_take(path.len())).collect(),
        path_count,
        conflicts,
        conflict_count,
        dry_run: merged.dry_run,
    }
}

/// The number of bytes that are left.
struct ByteBudget(usize);

impl ByteBudget {
    fn try_take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.0;
        self.0 = self.0.saturating_sub(bytes);
        fits
    }

    /// Drops a text that does not fit.
    fn trim_text(&mut self, side: &mut ConflictSide) {
        let length = side.text.as_ref().map_or(0, String::len);
        if !self.try_take(length) {
            side.text = None;
        }
    }
}
