//! Commands that the caller waits for: the request, the turn, the run and the result.

pub(super) mod command_label;
pub(super) mod command_turn;
pub(super) mod request;
pub(super) mod run;
pub(super) mod run_terminal;
pub(super) mod shell_session;
