//! The commands: one file each, the arguments and what is done with them.

pub(crate) mod append;
pub(crate) mod call;
pub(crate) mod cat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod glob;
pub(crate) mod grep;
pub(crate) mod ls;
pub(crate) mod mcp;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod patch;
pub(crate) mod rm;
pub(crate) mod stat;
pub(crate) mod tools;
pub(crate) mod tree;
pub(crate) mod write;
