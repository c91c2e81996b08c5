//! Which tools there are, in the order in which they are offered.

use garret_core::Capabilities;
use garret_workspace::Workspace;

use crate::tool::AnyTool;
use crate::{
    append_file, apply_patch, branch, copy, create_code_context, delete_code_context, diff, edit_file, exists, glob,
    grep, history, kill, list_snapshots, ls, merge, mkdir, r#move, output, processes, read_file, restore,
    restore_version, rm, run, run_code, run_in_code_context, snapshot, start, stat, undo, write_file,
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

/// The tools of the `code` capability.
const CODE: &[&dyn AnyTool] = &[&run_code::RunCode];

/// The tools of the `code` capability for what stays between calls.
const CONTEXTS: &[&dyn AnyTool] = &[
    &create_code_context::CreateCodeContext,
    &run_in_code_context::RunInCodeContext,
    &delete_code_context::DeleteCodeContext,
];

/// The canonical names of all tools, in the order in which they are offered.
pub fn tool_names() -> impl Iterator<Item = &'static str> + Clone {
    [FS, HISTORY, SNAPSHOT, SHELL, CODE, CONTEXTS]
        .into_iter()
        .flatten()
        .map(|tool| tool.name())
}

/// The tools that `capabilities` declare and `workspace` can serve: without a history there is nothing to show or to go
/// back to, and without a sandbox nothing runs.
pub(crate) fn tools(capabilities: &Capabilities, workspace: &Workspace) -> impl Iterator<Item = &'static dyn AnyTool> {
    let has_history = workspace.has_history();
    let (fs, snapshot) = (capabilities.fs.is_declared(), capabilities.snapshot.is_declared());
    let can_run = workspace.has_shell();
    let code = workspace
        .code_policy()
        .filter(|_| can_run && capabilities.code.is_declared());
    let groups = [
        (FS, fs),
        (HISTORY, fs && has_history),
        (SNAPSHOT, snapshot && has_history),
        (SHELL, capabilities.shell.is_declared() && can_run),
        (CODE, code.is_some()),
        (CONTEXTS, code.is_some_and(|policy| policy.is_stateful)),
    ];
    let offered = groups.into_iter().filter(|(_, is_offered)| *is_offered);
    offered.flat_map(|(group, _)| group.iter().copied())
}
