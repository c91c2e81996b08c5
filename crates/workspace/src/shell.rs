//! Commands in a workspace: the policy on them, the layers they run on, and the changes that their effects become.

pub(crate) mod background;
pub(crate) mod command_access;
pub(crate) mod effects;
mod foreground;
pub(crate) mod interpreter;
mod policy;
pub(crate) mod runtime;
#[cfg(test)]
mod testing;

pub use background::processes::{LONGEST_WAIT, OutputRequest, ProcessList, ProcessOutput, ProcessShown};
pub use effects::conflict_branch::is_branch_of_command;
pub use effects::excluded_notes::PathsLeftAlone;
pub use effects::leftovers::Leftover;
pub use foreground::command_turn::{TurnWaited, TurnWaiting};
pub use foreground::request::{OutputSink, RunRequest};
pub use foreground::result::{
    ChangeMade, CommandChanges, DroppedShown, EffectsRefusal, ExcludedEffects, RunDetails, RunResult, StreamShown,
};
pub use policy::parse::{CommandLine, CommandWord, SimpleCommand, WordKind};
pub use policy::rules::ShellRules;
pub use runtime::ShellParts;
