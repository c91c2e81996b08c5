//! The tools as a model meets them: through a toolbox, with JSON in and text and JSON out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod aliases;
mod arguments;
mod conform;
mod exports;
mod faults;
mod files;
mod fuzz;
mod history;
mod labels;
mod paging;
mod search;
mod secrets;
mod support;
