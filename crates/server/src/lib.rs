//! The wire front doors of Garret. Only this crate knows wire types; it serves a [`garret::Toolbox`] and makes no
//! decisions of its own.

pub mod mcp;
