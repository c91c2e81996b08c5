//! The Model Context Protocol: a workspace's tools for any MCP client.
//!
//! The protocol itself (framing, versions, lifecycle, ping) is the SDK's. Here a [`Toolbox`](garret::Toolbox) becomes a handler: its
//! definitions are listed, a call runs one of them, and what went wrong in a tool is a result that the model reads, never a protocol
//! error. A cancelled call is dropped where it stands; the workspace records it as such.

mod convert;
mod handler;
mod progress;
mod serve;

pub use handler::Handler;
pub use serve::{ServeError, serve, serve_stdio};
