//! The list of all tools, in the order in which they are offered.

use garret_core::Capabilities;
use garret_workspace::Workspace;

use crate::tool::{AnyTool, Tool};
use crate::{
    append_file, apply_patch, branch, copy, create_code_context, delete_code_context, diff, edit_file, exists, glob,
    grep, history, kill, list_snapshots, ls, merge, mkdir, r#move, output, port, processes, read_file, restore,
    restore_version, rm, run, run_code, run_in_code_context, snapshot, start, stat, undo, write_file,
};

/// The tools of the `fs` capability.
const FS: &[AnyTool] = &[
    AnyTool::from_tool::<read_file::ReadFileTool>(),
    AnyTool::from_tool::<write_file::WriteFileTool>(),
    AnyTool::from_tool::<append_file::AppendFileTool>(),
    AnyTool::from_tool::<edit_file::EditFileTool>(),
    AnyTool::from_tool::<apply_patch::ApplyPatchTool>(),
    AnyTool::from_tool::<ls::LsTool>(),
    AnyTool::from_tool::<glob::GlobTool>(),
    AnyTool::from_tool::<grep::GrepTool>(),
    AnyTool::from_tool::<stat::StatTool>(),
    AnyTool::from_tool::<exists::ExistsTool>(),
    AnyTool::from_tool::<mkdir::MkdirTool>(),
    AnyTool::from_tool::<rm::RmTool>(),
    AnyTool::from_tool::<copy::CopyTool>(),
    AnyTool::from_tool::<r#move::MoveTool>(),
];

/// The tools of the `fs` capability for earlier states.
const HISTORY: &[AnyTool] = &[
    AnyTool::from_tool::<history::HistoryTool>(),
    AnyTool::from_tool::<diff::DiffTool>(),
    AnyTool::from_tool::<undo::UndoTool>(),
    AnyTool::from_tool::<restore_version::RestoreVersionTool>(),
];

/// The tools of the `snapshot` capability.
const SNAPSHOT: &[AnyTool] = &[
    AnyTool::from_tool::<snapshot::SnapshotTool>(),
    AnyTool::from_tool::<list_snapshots::ListSnapshotsTool>(),
    AnyTool::from_tool::<restore::RestoreTool>(),
    AnyTool::from_tool::<branch::BranchTool>(),
    AnyTool::from_tool::<merge::MergeTool>(),
];

/// The tools of the `shell` capability.
const SHELL: &[AnyTool] = &[
    AnyTool::from_tool::<run::RunTool>(),
    AnyTool::from_tool::<start::StartTool>(),
    AnyTool::from_tool::<output::OutputTool>(),
    AnyTool::from_tool::<kill::KillTool>(),
    AnyTool::from_tool::<processes::ProcessesTool>(),
    AnyTool::from_tool::<port::PortTool>(),
];

/// The tools that commands need in addition, if the workspace has a history and does not declare `snapshot`: they bring
/// back effects that went to a branch.
const BRANCH_MERGE: &[AnyTool] = &[AnyTool::from_tool::<merge::CommandMergeTool>()];

/// The tools of the `code` capability.
const CODE: &[AnyTool] = &[AnyTool::from_tool::<run_code::RunCodeTool>()];

/// The tools of the `code` capability for contexts that stay between calls.
const CONTEXTS: &[AnyTool] = &[
    AnyTool::from_tool::<create_code_context::CreateCodeContextTool>(),
    AnyTool::from_tool::<run_in_code_context::RunInCodeContextTool>(),
    AnyTool::from_tool::<delete_code_context::DeleteCodeContextTool>(),
];

/// All tools with their capabilities, in the order in which they are offered. `BRANCH_MERGE` is not among them: its tool
/// is another `merge`, which belongs to `snapshot`.
const ALL: [(&str, &[AnyTool]); 6] = [
    ("fs", FS),
    ("fs", HISTORY),
    ("snapshot", SNAPSHOT),
    ("shell", SHELL),
    ("code", CODE),
    ("code", CONTEXTS),
];

/// The canonical names of all tools, in the order in which they are offered.
pub fn tool_names() -> impl Iterator<Item = &'static str> + Clone {
    ALL.into_iter().flat_map(|(_, tools)| tools).map(|tool| tool.name)
}

/// Returns the capability that a tool belongs to, by its canonical name.
pub(crate) fn capability_of(name: &str) -> Option<&'static str> {
    let mut all = ALL.into_iter();
    let found = all.find(|(_, tools)| tools.iter().any(|tool| tool.name == name));
    found.map(|(capability, _)| capability)
}

/// Returns whether a tool always refuses if the files are read-only.
pub(crate) fn needs_writing(tool: &AnyTool) -> bool {
    // Commands and code run on read-only files all the same.
    let mut runs = [SHELL, CODE, CONTEXTS].into_iter().flatten();
    !tool.annotations.read_only && !runs.any(|one| one.name == tool.name)
}

/// Returns the tools that `capabilities` declare and `workspace` can serve: history tools need a history, commands and
/// code need a sandbox, and search tools need a storage that may be searched.
pub(crate) fn offered_tools(
    capabilities: &Capabilities,
    workspace: &Workspace,
) -> impl Iterator<Item = &'static AnyTool> {
    let has_history = workspace.has_history();
    let (fs, snapshot) = (capabilities.fs.is_declared(), capabilities.snapshot.is_declared());
    let can_run = workspace.has_shell();
    let code = workspace
        .code_policy()
        .filter(|_| can_run && capabilities.code.is_declared());
    let shell = capabilities.shell.is_declared() && can_run;
    let runs = shell || code.is_some();
    let groups = [
        (FS, fs),
        (HISTORY, fs && has_history),
        (SNAPSHOT, snapshot && has_history),
        (SHELL, shell),
        (CODE, code.is_some()),
        (CONTEXTS, code.is_some_and(|policy| policy.is_stateful)),
        (BRANCH_MERGE, runs && has_history && !snapshot),
    ];
    let offered = groups.into_iter().filter(|(_, is_offered)| *is_offered);
    let has_search = workspace.has_search();
    let is_search = |tool: &AnyTool| [glob::GlobTool::NAME, grep::GrepTool::NAME].contains(&tool.name);
    let is_served = move |tool: &&AnyTool| has_search || !is_search(tool);
    offered.flat_map(|(group, _)| group).filter(is_served)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use garret_core::{CodePolicy, Language, MemoryStorage, SystemClock};
    use serde_json::{Value, json};

    use super::*;
    use crate::{ExportFormat, export};

    fn workspace(languages: Vec<Language>) -> Workspace {
        let policy = CodePolicy {
            languages,
            ..CodePolicy::default()
        };
        Workspace::builder(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
            .code(Some(policy))
            .open()
            .expect("the policy is right")
    }

    /// The list goes into the context of every conversation, so its size is a cost that each user pays.
    #[test]
    fn the_list_of_all_tools_has_at_most_21_kib() {
        let workspace = workspace(Language::ALL.to_vec());
        let all = ALL.into_iter().flat_map(|(_, tools)| tools);
        let definitions: Vec<_> = all
            .map(|tool| tool.definition(tool.name.to_owned(), &workspace))
            .collect();
        let mut list = export::export_definitions(&definitions, ExportFormat::Mcp);
        let tools = list.as_array_mut().expect("a list");
        let mut sizes = Vec::new();
        for tool in tools.iter_mut() {
            // Sent on request alone.
            tool.as_object_mut().expect("a tool").shift_remove("outputSchema");
            sizes.push(format!("{} {}", tool["name"], tool.to_string().len()));
        }
        let (count, bytes) = (tools.len(), json!({"tools": list}).to_string().len());
        assert_eq!(count, 33);
        assert!(
            bytes <= 21_504,
            "{count} tools take {bytes} bytes: {}",
            sizes.join(", ")
        );
    }

    #[test]
    fn the_data_of_every_tool_has_a_schema_with_descriptions() {
        let all = ALL.into_iter().flat_map(|(_, tools)| tools);
        let schemas = all.map(|tool| (tool.name.to_owned(), (tool.data_schema)()));
        insta::assert_json_snapshot!("data", schemas.collect::<Value>());
    }

    #[test]
    fn what_models_are_told_of_the_tools_for_code() {
        let workspace = workspace(vec![Language::Bash, Language::Python]);
        let told = CODE.iter().chain(CONTEXTS).map(|tool| {
            json!({
                "name": tool.name,
                "short": tool.short_name,
                "description": tool.description,
                "input": tool.input_schema(&workspace),
            })
        });
        insta::assert_json_snapshot!("code", told.collect::<Value>());
    }
}
