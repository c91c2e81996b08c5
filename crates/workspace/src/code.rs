//! Code in a workspace: a single piece, or several pieces in a context that keeps their definitions.
//!
//! Each language has a driver, a small program in that language that reads pieces of code, runs them, and reports on
//! each. Their effects on the files become a change as those of any command do: a single piece runs on a layer of its
//! own, a context on the live layer.

mod context_operations;
mod context_worker;
mod contexts;
mod driver;
mod interpreters;
mod named_shells;
mod outcome;
mod output_mark;
mod request;
mod result;
mod rules;
mod run;

pub(crate) use contexts::CodeContexts;
pub(crate) use named_shells::shell_of_process;
pub use request::{CodeRequest, ContextRequest, PieceRequest};
pub(crate) use rules::CodeRules;
