//! Readers of arguments that several tools share.
//!
//! Models tend to fill every optional parameter, with nulls, empty strings and zeros that have no meaning. Such values
//! count as absent: nulls in the reader of arguments, empty strings and zeros here.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use garret_core::{Error, Result};
use garret_workspace::Encoding;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Decodes base64 with or without its padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads an optional argument; an empty string counts as none.
pub(crate) fn unless_empty<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        value => T::deserialize(value).map(Some).map_err(D::Error::custom),
    }
}

/// Reads a list of strings, or the one string that a model wrote in its place; empty strings are dropped.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let many = match Value::deserialize(deserializer)? {
        Value::Null => Vec::new(),
        Value::String(one) => vec![one],
        value => Vec::<String>::deserialize(value).map_err(D::Error::custom)?,
    };
    Ok(many.into_iter().filter(|one| !one.is_empty()).collect())
}

/// Returns the bytes that `content` stands for.
pub(crate) fn content_bytes(content: String, encoding: Option<Encoding>) -> Result<Bytes> {
    match encoding {
        None | Some(Encoding::Utf8) => Ok(content.into()),
        Some(Encoding::Base64) => {
            // Base64 may come broken into lines.
            let packed: String = content.split_ascii_whitespace().collect();
            let decoded = LENIENT.decode(packed).map_err(|error| {
                Error::invalid(format!("`content` is not base64: {error}"))
                    .hint("correct it, or leave out `encoding` and pass the text itself")
            })?;
            Ok(decoded.into())
        }
    }
}

/// Parses permission bits from their octal form.
pub(crate) fn mode_bits(mode: Option<&str>) -> Result<Option<u32>> {
    let Some(text) = mode else { return Ok(None) };
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= 0o7777);
    bits.map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "`mode` must be permission bits in octal, not {}",
            garret_core::path::quote(text)
        ))
        .hint("pass a string such as \"644\" or \"755\"")
    })
}
