//! The bodies of the fuzz targets: each takes any bytes and panics where something that must hold does not.

mod patch;
mod path;
mod random;
mod tool_args;

pub use patch::patch;
pub use path::path;
pub use random::Random;
pub use tool_args::{ToolRoom, tool_args, tool_args_in};
