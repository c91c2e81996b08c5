//! The wire front doors of Garret. Only this crate knows wire types; what it serves is a [`garret::Toolbox`], and it decides nothing.

pub mod mcp;
