//! Commands in a workspace: the policy on them, the layers they run on, and the changes that their effects become.

mod approve;
pub(crate) mod aside;
mod batch;
pub(crate) mod benched;
mod beside;
pub(crate) mod driven;
mod environment;
mod fence;
mod filed;
mod images;
mod keep;
mod kept_out;
mod label;
mod leftovers;
mod live;
mod note;
mod parse;
mod policy;
mod processes;
mod request;
mod result;
mod run;
mod shadow;
#[cfg(test)]
mod testing;
mod turn;
pub(crate) mod workshop;

pub use aside::is_branch_of_command;
pub use kept_out::LeftAlone;
pub use leftovers::Leftover;
pub use parse::{CommandLine, SimpleCommand, Word, WordKind};
pub use policy::ShellRules;
pub use processes::{LONGEST_WAIT, OutputRequest, ProcessList, ProcessOutput, ProcessShown};
pub use request::{OutputSink, RunRequest};
pub use result::{ChangeMade, Changed, DroppedShown, Excluded, Refusal, RunResult, StreamShown};
pub use turn::{TurnWaited, TurnWaiting};
pub use workshop::ShellParts;
