//! The bodies of the fuzz targets: each takes any bytes and panics where something that must hold does not.

mod path;
mod random;

pub use path::path;
pub use random::Random;
