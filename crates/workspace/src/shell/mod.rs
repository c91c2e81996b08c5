//! Commands in a workspace.

mod parse;
mod policy;

pub use parse::{CommandLine, SimpleCommand, Word, WordKind};
pub use policy::ShellRules;
