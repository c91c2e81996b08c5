//! Commands in a workspace: the policy on them, the layers they run on, and the changes that their effects become.

mod command_approval;
mod command_label;
mod command_turn;
mod commit_effects;
mod commit_without_history;
pub(crate) mod conflict_branch;
mod environment;
mod excluded_notes;
mod file_effects;
pub(crate) mod interpreter;
mod layer_index;
mod layer_note;
mod leftovers;
mod live_layer;
pub(crate) mod live_wrappers;
mod parse;
mod path_images;
mod policy;
mod processes;
mod request;
mod result;
mod run;
pub(crate) mod runtime;
mod side_layer;
#[cfg(test)]
mod testing;
mod view_restrictions;

pub use command_turn::{TurnWaited, TurnWaiting};
pub use conflict_branch::is_branch_of_command;
pub use excluded_notes::PathsLeftAlone;
pub use leftovers::Leftover;
pub use parse::{CommandLine, SimpleCommand, Word, WordKind};
pub use policy::ShellRules;
pub use processes::{LONGEST_WAIT, OutputRequest, ProcessList, ProcessOutput, ProcessShown};
pub use request::{OutputSink, RunRequest};
pub use result::{ChangeMade, CommandChanges, DroppedShown, EffectsRefusal, ExcludedEffects, RunResult, StreamShown};
pub use runtime::ShellParts;
