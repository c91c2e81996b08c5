//! The tools that a model may call: typed arguments, schemas, and answers made for a model.
//!
//! One tool per file, each a type with its arguments, its description and its function. A [`Toolbox`] is a workspace
//! with the tools that its capabilities give it, under the names that its configuration gives them. A call never fails:
//! an error becomes an [`ToolAnswer`] that the model can read and act on. This crate decides nothing about files; policy,
//! approval and events belong to the workspace.

mod aliases;
mod answer;
mod answer_limits;
mod append_file;
mod apply_patch;
mod arguments;
mod branch;
mod change_text;
mod code_text;
mod command_request;
mod copy;
mod create_code_context;
mod definition;
mod delete_code_context;
mod diff;
mod edit_file;
mod exists;
mod export;
mod glob;
mod grep;
mod history;
mod kill;
mod list_snapshots;
mod ls;
mod merge;
mod mkdir;
mod r#move;
mod naming;
mod output;
mod output_room;
mod point;
mod port;
mod processes;
mod read_file;
mod registry;
mod restore;
mod restore_version;
mod rm;
mod run;
mod run_code;
mod run_in_code_context;
mod run_text;
mod schema;
mod snapshot;
mod start;
mod stat;
mod text;
mod tool;
mod toolbox;
mod transfer;
mod undo;
mod write_file;

pub use answer::{AnswerImage, ToolAnswer};
use answer_limits::AnswerLimits;
pub use definition::{Annotations, Definition};
pub use export::ExportFormat;
pub use registry::tool_names;
pub use schema::data_schema;
pub use toolbox::Toolbox;
