//! `merge`: brings in the changes of a branch.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{Error, ErrorKind};
use garret_workspace::{
    Conflict, ConflictSide, MergeOptions, MergeResult, OnConflict, Workspace, is_branch_of_command,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::text::{AnswerPage, cut_line, format_count};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct MergeTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Branch, or other workspace of the same origin.
    from: String,
    /// On conflict: `report` (default) writes nothing, `markers` writes both, `ours` and `theirs` choose a side.
    #[serde(default, deserialize_with = "unless_empty")]
    on_conflict: Option<OnConflict>,
    dry_run: Option<bool>,
}

impl Tool for MergeTool {
    type Arguments = Arguments;
    type Data = MergeResult;

    const NAME: &'static str = "merge";
    const SHORT: &'static str = "merge";
    const TITLE: &'static str = "Merge a branch";
    const DESCRIPTION: &'static str = "Merges the changes of a branch into this workspace, as one change.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
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
    type Data = MergeResult;

    const NAME: &'static str = MergeTool::NAME;
    const SHORT: &'static str = MergeTool::SHORT;
    const TITLE: &'static str = "Merge the effects of a command";
    const DESCRIPTION: &'static str =
        "Merges the effects of a command that went to a branch because the files changed while it ran.";
    const ANNOTATIONS: Annotations = MergeTool::ANNOTATIONS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
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

fn format_outcome(merged: &MergeResult, from: &str, options: MergeOptions, limits: &AnswerLimits) -> String {
    let mut page = AnswerPage::new(limits);
    page.push_block(&headline(merged, from, options));
    let conflicts = merged.conflicts.iter().map(conflict_line);
    let paths = merged
        .outcome
        .paths()
        .iter()
        .map(|path| escape_unprintable(&path.to_string()).into_owned());
    let lines: Vec<_> = conflicts.chain(paths).collect();
    let count = merged.conflict_count + merged.outcome.path_count();
    let shown = lines
        .iter()
        .take_while(|line| page.push_block(&cut_line(line, limits)))
        .count();
    let is_blocked = !merged.conflicts.is_empty() && options.on_conflict == OnConflict::Report;
    let left = count - shown as u64;
    page.finish(match (left, is_blocked) {
        (0, false) => None,
        (0, true) => Some("[to go on, merge with `on_conflict` set to `markers`, `ours` or `theirs`]".to_owned()),
        (left, _) => Some(format!("[{} not shown]", format_count(left, "more line", "more lines"))),
    })
}

fn headline(merged: &MergeResult, from: &str, options: MergeOptions) -> String {
    let from = quote(from);
    let paths = format_count(merged.outcome.path_count(), "path", "paths");
    let conflicts = format_count(merged.conflict_count, "conflict", "conflicts");
    match &merged.outcome.change {
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
        None if merged.outcome.is_dry_run() => {
            format!("merging {from} would change {paths}, with {conflicts}; nothing is written")
        }
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

/// Returns the result with as many conflicts, and as much of their texts, as fit into an answer.
fn bound_data(mut merged: MergeResult, limits: &AnswerLimits) -> MergeResult {
    let mut room = ByteBudget(limits.bytes);
    // The path is in the conflict and in each of its three sides.
    let fits = |conflict: &&Conflict| room.try_take(conflict.path.len() * 4 + 400);
    // Paths and kinds first, then the texts with a room of their own: a long text must not hide that there is a
    // conflict.
    let fitting = merged.conflicts.iter().take_while(fits).count();
    merged.conflicts.truncate(fitting);
    let mut room = ByteBudget(limits.bytes);
    for conflict in &mut merged.conflicts {
        let sides = [&mut conflict.base, &mut conflict.ours, &mut conflict.theirs];
        sides.into_iter().flatten().for_each(|side| room.trim_text(side));
    }
    merged
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
