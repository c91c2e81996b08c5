//! Which tools there are, in the order in which they are offered.

use garret_core::Capabilities;
use garret_workspace::Workspace;

use crate::tool::AnyTool;
use crate::{
    append_file, apply_patch, branch, copy, diff, edit_file, exists, glob, grep, history, kill, list_snapshots, ls,
    merge, mkdir, r#move, output, processes, read_file, restore, restore_version, rm, run, snapshot, start, stat, undo,
    write_file,
};

/// The tools of the `fs` capability.
const FS: &[&dyn AnyTool] = &[
    &read_file::ReadFile,
    &write_file::WriteFile,
    &append_file::AppendFile,
    &edit_file::EditFile,
    &apply_patch::ApplyPatch,
    &ls::Ls,
    &glob::Glob,
    &grep::Grep,
    &stat::Stat,
    &exists::Exists,
    &mkdir::Mkdir,
    &rm::Rm,
    &copy::Copy,
    &r#move::Move,
];

/// The tools of the `fs` capability for what was.
const HISTORY: &[&dyn AnyTool] = &[
    &history::History,
    &diff::Diff,
    &undo::Undo,
    &restore_version::RestoreVersion,
];

/// The tools of the `snapshot` capability.
const SNAPSHOT: &[&dyn AnyTool] = &[
    &snapshot::Snapshot,
    &list_snapshots::ListSnapshots,
    &restore::Restore,
    &branch::Branch,
    &merge::Merge,
];

/// The tools of the `shell` capability.
const SHELL: &[&dyn AnyTool] = &[
    &run::Run,
    &start::Start,
    &output::Output,
    &kill::Kill,
    &processes::Processes,
];

/// The canonical names of all tools, in the order in which they are offered.
pub fn tool_names() -> impl Iterator<Item = &'static str> + Clone {
    [FS, HISTORY, SNAPSHOT, SHELL]
        .into_iter()
        .flatten()
        .map(|tool| tool.name())
}

/// The tools that `capabilities` declare and `workspace` can serve: without a history there is nothing to show or to go
/// back to, and without a sandbox nothing runs.
pub(crate) fn tools(capabilities: &Capabilities, workspace: &Workspace) -> impl Iterator<Item = &'static dyn AnyTool> {
    let has_history = workspace.has_history();
    let (fs, snapshot) = (capabilities.fs.is_declared(), capabilities.snapshot.is_declared());
    let groups = [
        (FS, fs),
        (HISTORY, fs && has_history),
        (SNAPSHOT, snapshot && has_history),
        (SHELL, capabilities.shell.is_declared() && workspace.has_shell()),
    ];
    let offered = groups.into_iter().filter(|(_, is_offered)| *is_offered);
    offered.flat_map(|(group, _)| group.iter().copied())
}
