//! Code in a workspace: a piece by itself, or one after the other in a context that keeps what they define.
//!
//! Each language has a driver, a small program in that language that reads pieces of code, runs them, and tells how each went. What they
//! do to the files becomes a change as with any command: a piece by itself on a layer of its own, a context on the live one.

mod attend;
mod contexts;
mod driver;
mod interpreters;
mod mark;
mod outcome;
mod request;
mod result;
mod rules;
mod run;
mod stateful;

pub(crate) use contexts::Contexts;
pub use interpreters::Interpreter;
pub use outcome::{CodeError, CodeValue};
pub use request::{CodeRequest, ContextRequest, PieceRequest};
pub use result::{CodeResult, ContextShown};
pub(crate) use rules::CodeRules;
