//! The Model Context Protocol: a workspace's tools for any MCP client.
//!
//! The SDK implements the protocol itself (versions, lifecycle, ping); lines are read and written here, so that each
//! one is answered. A [`Toolbox`](garret::Toolbox) becomes a handler: its definitions are listed, a call runs one of
//! them, and the failure of a tool is a result that the model reads, never a protocol error. The future of a cancelled
//! call is dropped; the workspace records the call as cancelled.

mod convert;
mod handler;
mod progress;
mod request_id;
mod serve;
mod transport;

pub use handler::{ServeOptions, ToolboxHandler};
pub use serve::{ServeError, serve, serve_stdio};
pub use transport::MAX_MESSAGE_BYTES;
