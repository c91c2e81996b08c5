//! Workspaces for AI agents: files, tools and a way back.
//!
//! This is the crate that a program embeds. A URL, a directory or a configuration goes in; a [`Toolbox`] comes out: the
//! tools that a model may call, over the [`Workspace`] they work on. All public items of the layers below are
//! re-exported here, so one dependency is enough.
//!
//! ```
//! use garret::Garret;
//! use serde_json::json;
//!
//! # async fn example() -> garret::Result<()> {
//! let toolbox = Garret::new().open_url("memory:").await?;
//!
//! // A model calls a tool by name and reads the answer.
//! let answer = toolbox.call("write_file", json!({"path": "notes/a.md", "content": "hello\n"})).await;
//! assert!(answer.ok);
//!
//! // A program uses the workspace itself.
//! let workspace = toolbox.workspace();
//! let read = workspace.read_bytes("notes/a.md").await?;
//! assert_eq!(&read.bytes[..], b"hello\n");
//!
//! // A failure is an answer that the model can act on.
//! let answer = toolbox.call("read_file", json!({"path": "../etc/passwd"})).await;
//! assert!(!answer.ok);
//! assert_eq!(answer.error.expect("it failed").kind().as_str(), "path_escape");
//! # Ok(())
//! # }
//! # futures::executor::block_on(example()).expect("the example works");
//! ```
//!
//! The storage `local` does its work on the threads of a Tokio runtime, so a program that uses it runs on one; `memory`
//! needs none. A storage of one's own is a [`StorageFactory`] handed to [`Garret::register`]; `examples/custom-storage`
//! shows one.

/// The attribute for implementations of the asynchronous traits here.
pub use async_trait::async_trait;

mod anchored_local;
mod cached_s3;
mod commands;
mod config_schema;
mod filestore;
mod garret;
mod home;
mod home_maintenance;
mod host_user;
mod host_view;
mod journal;
mod memory_with_history;
mod mount_rules;
mod named_workspaces;
mod neighbours;
mod network_settings;
mod results;
mod workspace_lists;

pub use garret_core::*;
pub use garret_depot as depot;
pub use garret_depot::{Depot, DepotWorkspace, WorkspaceInfo};
pub use garret_network::UnreportedRegistry;
pub use garret_sandbox as sandboxes;
pub use garret_storage::local::probe;
pub use garret_storage::s3::{S3Factory, S3Options, S3Storage};
pub use garret_storage::{LocalFactory, LocalOptions, LocalStorage};
pub use garret_tools::{Annotations, AnswerImage, Definition, ExportFormat, ToolAnswer, Toolbox};
pub use garret_transfer as transfer;
pub use garret_workspace::*;

pub use crate::config_schema::config_schema;
pub use crate::filestore::FilestoreOptions;
pub use crate::garret::{Garret, UNNAMED};
pub use crate::home::Home;
pub use crate::host_user::HostUser;
pub use crate::named_workspaces::split_point;
pub use crate::results::*;
pub use crate::workspace_lists::{BranchListRequest, WorkspaceListRequest};
