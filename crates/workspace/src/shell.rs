//! Commands in a workspace: the policy on them, the layers they run on, and the changes that their effects become.

pub(crate) mod background;
pub(crate) mod command_access;
pub(crate) mod effects;
mod foreground;
pub(crate) mod interpreter;
pub(crate) mod network_watch;
mod policy;
pub(crate) mod runtime;
#[cfg(test)]
mod testing;

pub use background::opened_ports::PortRequest;
pub use background::processes::{LONGEST_WAIT, OutputRequest};
pub use effects::conflict_branch::is_branch_of_command;
pub(crate) use foreground::command_label::printable_label;
pub use foreground::command_turn::TurnWaiting;
pub use foreground::request::{OutputSink, RunRequest};
pub use foreground::run_terminal::{RunTerminal, TerminalEvent, TerminalSource};
pub use foreground::shell_session::{ShellCommits, ShellRequest};
pub use policy::parse::{CommandLine, CommandWord, SimpleCommand, WordKind};
pub use policy::rules::ShellRules;
pub use runtime::ShellParts;
