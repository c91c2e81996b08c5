//! Processes that run on while files are read and changed: their live layer and its index.

pub(super) mod file_effects;
pub(super) mod layer_index;
pub(crate) mod live_layer;
pub(super) mod opened_ports;
pub(super) mod processes;
pub(super) mod side_layer;
