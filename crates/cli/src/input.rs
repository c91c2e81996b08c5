//! Content and JSON from an argument, from standard input or from a file, byte for byte.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line reads what its user names: standard input and files beside the workspace"
)]

use std::io::Read;

use garret::{Error, ErrorKind, Result};
use serde_json::Value;

/// The bytes of an argument; `-` or none at all is standard input.
pub(crate) fn content(argument: Option<&str>) -> Result<Vec<u8>> {
    match argument {
        None | Some("-") => standard_input(),
        Some(text) => Ok(text.as_bytes().to_vec()),
    }
}

/// The bytes of a file beside the workspace; `-` or none at all is standard input.
pub(crate) fn file(name: Option<&str>) -> Result<Vec<u8>> {
    match name {
        None | Some("-") => standard_input(),
        Some(name) => std::fs::read(name).map_err(|error| unreadable(name, &error)),
    }
}

/// JSON from the argument itself, from standard input (`-`) or from a file (`@FILE`).
pub(crate) fn json(argument: &str) -> Result<Value> {
    let bytes = match argument.strip_prefix('@') {
        Some(name) => file(Some(name))?,
        None => content(Some(argument))?,
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::invalid(format!("this is not JSON: {error}"))
            .hint("pass an object, e.g. '{\"path\": \"a.txt\"}', in single quotes")
    })
}

fn standard_input() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|_| Error::invalid("standard input cannot be read"))?;
    Ok(bytes)
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    let shown = garret::path::quote(name);
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("there is no file {shown} beside the workspace"),
        ),
        _ => Error::new(ErrorKind::Denied, format!("the file {shown} cannot be read")),
    }
    .hint("name a file that you may read, or `-` for standard input")
}
