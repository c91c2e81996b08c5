//! The policy on commands: reading a command line, the rules for it, its environment and the files it may see.

pub(super) mod command_approval;
pub(super) mod environment;
pub(super) mod parse;
pub(super) mod rules;
pub(super) mod view_restrictions;
