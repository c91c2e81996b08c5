//! The integration tests of this crate in one program: a program of its own for each file would be linked for each file.

mod boundaries;
mod call;
mod code;
mod command_line;
mod common;
mod directories;
mod files;
mod history;
mod homes;
mod host_parts;
mod life;
mod mcp;
mod network;
mod port;
mod program;
mod project;
mod readme;
mod real_work;
mod results;
mod run;
mod s3;
mod search;
mod shell;
mod trust;
mod typist;
mod workspaces;
