//! Which tools there are, in the order in which they are offered.

use garret_core::Capabilities;

use crate::tool::AnyTool;
use crate::{
    append_file, apply_patch, copy, edit_file, exists, glob, grep, ls, mkdir, r#move, read_file, rm, stat, write_file,
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

/// The canonical names of all tools, in the order in which they are offered.
pub fn tool_names() -> impl Iterator<Item = &'static str> + Clone {
    FS.iter().map(|tool| tool.name())
}

/// The tools that `capabilities` declare.
pub(crate) fn tools(capabilities: &Capabilities) -> impl Iterator<Item = &'static dyn AnyTool> {
    let fs = if capabilities.fs.policy().is_some() { FS } else { &[] };
    fs.iter().copied()
}
