//! Data from outside into typed values: configuration files and tool arguments.
//!
//! The type's own JSON schema says which keys exist, so both spellings of a key (`max_files`, `maxFiles`) are accepted,
//! a null counts as absent (models fill every optional parameter), and an unknown key is refused with the nearest name
//! that exists. A caller may pass further names of keys ([`KeyAlias`]); the schema does not show them.

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::path::quote;
use crate::{Error, Result};

/// Converts the value of an alias into a value of its key; `None` if the value has no meaning for the key.
pub type AliasConversion = fn(Value) -> Result<Option<Value>>;

/// Another name of a key, which callers know from elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct KeyAlias {
    /// The other name.
    pub name: &'static str,
    /// The key that it stands for, in every object that has this key and has no key called `name`.
    pub key: &'static str,
    /// Converts the value into a value of `key`, or into none if it has no meaning for the key. Without it, the value
    /// stays as it is.
    pub convert: Option<AliasConversion>,
}

/// Reads `value` as a `T`; a wrong key, type or value is an `invalid` error that names its location and the right
/// shape.
pub fn from_value<T: DeserializeOwned + JsonSchema>(value: Value) -> Result<T> {
    from_value_with(value, &[])
}

/// Reads `value` as a `T` whose keys may also be called by `aliases`. If several aliases of one name fit an object, the
/// first one counts.
pub fn from_value_with<T: DeserializeOwned + JsonSchema>(mut value: Value, aliases: &[KeyAlias]) -> Result<T> {
    let schema = schemars::schema_for!(T);
    let names = KeyNames { root: &schema, aliases };
    normalise_value(&mut value, schema.as_value(), &names, "")?;
    serde_path_to_error::deserialize(value).map_err(|error| wrong_shape_error(&error, &schema))
}

/// The names that keys may have: those of the schema, and the aliases.
struct KeyNames<'a> {
    root: &'a Schema,
    aliases: &'a [KeyAlias],
}

impl KeyNames<'_> {
    /// Returns the alias that `key` stands for in an object with these properties.
    fn find_alias(&self, key: &str, snake: &str, properties: &Map<String, Value>) -> Option<&KeyAlias> {
        let mut fitting = self.fitting_aliases(properties);
        fitting.find(|alias| alias.name == key || alias.name == snake)
    }

    /// Returns the aliases that an object with these properties takes.
    fn fitting_aliases(&self, properties: &Map<String, Value>) -> impl Iterator<Item = &KeyAlias> {
        let fits = |alias: &&KeyAlias| properties.contains_key(alias.key) && !properties.contains_key(alias.name);
        self.aliases.iter().filter(fits)
    }
}

/// Returns the one of `names` that is nearest to `name`, if it is near enough to be meant.
pub fn nearest_name<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate));
    // In a short word, two wrong letters make another word.
    let tolerance = |length: usize| if length < 6 { 1 } else { length / 3 + 1 };
    scored
        .filter(|(distance, candidate)| *distance <= tolerance(candidate.len().max(name.len())))
        .min()
        .map(|(_, name)| name)
}

/// Returns the hint for a name that is none of `known`: the nearest of them, if one can be meant, and all of them.
pub fn known_names_hint<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let listed = list_names(known.clone());
    match nearest_name(name, known) {
        Some(near) => format!("did you mean `{near}`? Known: {listed}"),
        None => format!("known: {listed}"),
    }
}

/// Returns `camelCase` as `snake_case`; anything else unchanged.
pub fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Renames keys to the spelling of `schema`, drops nulls, and refuses unknown keys; `place` is the location for the
/// message.
fn normalise_value(value: &mut Value, schema: &Value, names: &KeyNames<'_>, place: &str) -> Result<()> {
    let schema = resolve_reference(schema, names.root);
    if let Some(variants) = schema_variants(schema) {
        return normalise_variant(value, variants, names, place);
    }
    match value {
        Value::Object(object) => normalise_object(object, schema, names, place),
        Value::Array(items) => {
            let Some(item) = schema.get("items") else { return Ok(()) };
            let mut numbered = items.iter_mut().enumerate();
            numbered.try_for_each(|(index, value)| normalise_value(value, item, names, &format!("{place}[{index}]")))
        }
        _ => Ok(()),
    }
}

/// Normalises the value by the one of several possible shapes that has its JSON type; a bool or string needs nothing.
fn normalise_variant(value: &mut Value, variants: &[Value], names: &KeyNames<'_>, place: &str) -> Result<()> {
    let wanted = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        _ => return Ok(()),
    };
    let fitting = variants
        .iter()
        .map(|variant| resolve_reference(variant, names.root))
        .find(|variant| variant["type"] == wanted);
    fitting.map_or(Ok(()), |variant| normalise_value(value, variant, names, place))
}

fn normalise_object(object: &mut Map<String, Value>, schema: &Value, names: &KeyNames<'_>, place: &str) -> Result<()> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return normalise_map(object, schema, names, place);
    };
    // The spelling under which each key was given.
    let mut spellings: Map<String, Value> = Map::new();
    for (key, mut value) in std::mem::take(object) {
        let snake = snake_case(&key);
        let (name, convert) = if properties.contains_key(&key) {
            (key.clone(), None)
        } else if properties.contains_key(&snake) {
            (snake, None)
        } else if let Some(alias) = names.find_alias(&key, &snake, properties) {
            (alias.key.to_owned(), alias.convert)
        } else if let Some(other) = open_values(schema) {
            normalise_value(&mut value, other, names, &join_key(place, &key))?;
            object.insert(key, value);
            continue;
        } else {
            return Err(unknown_key_error(&key, properties, names, place));
        };
        // Models fill every optional parameter; a null counts as absent.
        if value.is_null() {
            continue;
        }
        if let Some(convert) = convert {
            match convert(value)? {
                Some(converted) => value = converted,
                None => continue,
            }
        }
        normalise_value(&mut value, &properties[&name], names, &join_key(place, &name))?;
        let other = spellings.insert(name.clone(), key.clone().into());
        // Two spellings of one key are harmless as long as their values agree.
        if let Some(earlier) = object.insert(name, value.clone())
            && !is_same_value(&earlier, &value)
        {
            let other = other.as_ref().and_then(Value::as_str).unwrap_or_default();
            return Err(conflicting_values_error(
                &join_key(place, other),
                &join_key(place, &key),
            ));
        }
    }
    Ok(())
}

/// Returns whether two values mean the same: `5` and `5.0` do.
fn is_same_value(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && one.as_f64() == other.as_f64())
}

fn conflicting_values_error(one: &str, other: &str) -> Error {
    let message = format!(
        "{} and {} are two names of the same argument, and their values differ",
        quote(one),
        quote(other)
    );
    Error::invalid(message).hint("give one of them")
}

/// Normalises the values of a map with free keys; the keys stay as they are.
fn normalise_map(object: &mut Map<String, Value>, schema: &Value, names: &KeyNames<'_>, place: &str) -> Result<()> {
    let Some(values) = open_values(schema) else {
        return Ok(());
    };
    object
        .iter_mut()
        .try_for_each(|(key, value)| normalise_value(value, values, names, &join_key(place, key)))
}

fn open_values(schema: &Value) -> Option<&Value> {
    schema
        .get("additionalProperties")
        .filter(|values| values.is_object() || **values == Value::Bool(true))
}

pub(crate) fn schema_variants(schema: &Value) -> Option<&[Value]> {
    let found = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    found.as_array().map(Vec::as_slice)
}

pub(crate) fn resolve_reference<'a>(schema: &'a Value, root: &'a Schema) -> &'a Value {
    let pointer = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.strip_prefix('#'));
    pointer
        .and_then(|pointer| root.as_value().pointer(pointer))
        .unwrap_or(schema)
}

fn join_key(place: &str, key: &str) -> String {
    if place.is_empty() {
        key.to_owned()
    } else {
        format!("{place}.{key}")
    }
}

fn unknown_key_error(key: &str, properties: &Map<String, Value>, names: &KeyNames<'_>, place: &str) -> Error {
    let known = properties.keys().map(String::as_str);
    let aliases: Vec<_> = names.fitting_aliases(properties).collect();
    let spellings = known.clone().chain(aliases.iter().map(|alias| alias.name));
    let near = nearest_name(&snake_case(key), spellings);
    // A near alias is not shown itself, because the schema does not have it; its key is.
    let meant = near.map(|near| match aliases.iter().find(|alias| alias.name == near) {
        Some(alias) => alias.key,
        None => near,
    });
    let hint = match meant {
        Some(meant) => format!("did you mean `{meant}`? Known keys: {}", list_names(known)),
        None => format!("known keys: {}", list_names(known)),
    };
    Error::invalid(format!("unknown key {}", quote(&join_key(place, key)))).hint(hint)
}

fn wrong_shape_error(error: &serde_path_to_error::Error<serde_json::Error>, schema: &Schema) -> Error {
    let place = error.path().to_string();
    let message = word_expectation(&error.inner().to_string());
    let problem = match place.as_str() {
        "." => message,
        place => format!("{}: {message}", quote(place)),
    };
    Error::invalid(problem).hint(format!("expected: {}", outline_schema(schema)))
}

/// Names the expected type in words, where serde names a type of Rust.
fn word_expectation(message: &str) -> String {
    let Some((said, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let words = match expected {
        "f64" => "a number",
        "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i32" | "i64" => "a whole number",
        "a sequence" => "a list",
        "a map" => "names with values",
        other if other.starts_with("struct ") => "names with values",
        other => other,
    };
    format!("{said}, expected {words}")
}

fn list_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns the shape of an object on one line: `{path: string, limit?: integer}`.
pub fn outline_schema(schema: &Schema) -> String {
    outline_value(schema.as_value(), schema, 0)
}

pub(crate) fn outline_value(schema: &Value, root: &Schema, depth: usize) -> String {
    let schema = resolve_reference(schema, root);
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .filter(|value| !value.is_null())
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(" | ");
    }
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    if let Some(variants) = schema_variants(schema) {
        let shown = variants.iter().filter(|variant| variant["type"] != "null");
        return shown
            .map(|variant| outline_value(variant, root, depth))
            .collect::<Vec<_>>()
            .join(" | ");
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return type_name(schema, root, depth);
    };
    if depth > 2 {
        return "object".to_owned();
    }
    let required = |name: &String| {
        schema["required"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one == name))
    };
    let shown = properties.iter().map(|(name, property)| {
        format!(
            "{name}{}: {}",
            if required(name) { "" } else { "?" },
            outline_value(property, root, depth + 1)
        )
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
}

fn type_name(schema: &Value, root: &Schema, depth: usize) -> String {
    let kind = match &schema["type"] {
        Value::String(kind) => kind.as_str(),
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null")
            .unwrap_or("any"),
        _ => "any",
    };
    match schema.get("items") {
        Some(item) if kind == "array" => format!("[{}]", outline_value(item, root, depth + 1)),
        None if kind == "object" => match open_values(schema).filter(|values| values.is_object()) {
            Some(values) => format!("{{<name>: {}}}", outline_value(values, root, depth)),
            None => kind.to_owned(),
        },
        _ => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        file_path: String,
        #[serde(default)]
        max_files: Option<u32>,
        #[serde(default)]
        is_deep: bool,
        #[serde(default)]
        env: BTreeMap<String, String>,
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Item {
        old_text: String,
    }

    #[test]
    fn both_spellings_are_read_and_free_keys_stay() {
        let value = json!({"filePath": "a", "maxFiles": 3, "isDeep": null, "env": {"someKey": "v"}, "items": [{"oldText": "x"}]});
        let sample: Sample = from_value(value).unwrap();
        assert_eq!(sample.max_files, Some(3));
        assert!(!sample.is_deep);
        assert_eq!(sample.env["someKey"], "v");
        assert_eq!(sample.items[0].old_text, "x");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_name() {
        let error = from_value::<Sample>(json!({"file_path": "a", "items": [{"old_txt": "x"}]})).unwrap_err();
        assert_eq!(error.message(), "unknown key `items[0].old_txt`");
        assert_eq!(error.hint_text(), "did you mean `old_text`? Known keys: `old_text`");
    }

    #[test]
    fn a_wrong_type_shows_the_right_shape() {
        let error = from_value::<Sample>(json!({"file_path": 3})).unwrap_err();
        assert_eq!(
            error.message(),
            "`file_path`: invalid type: integer `3`, expected a string"
        );
        assert_eq!(
            error.hint_text(),
            "expected: {file_path: string, max_files?: integer, is_deep?: boolean, env?: {<name>: string}, items?: [{old_text: string}]}"
        );
    }

    #[test]
    fn the_nearest_name_is_one_that_can_be_meant() {
        let names = ["src", "copy", "read_file"];
        assert_eq!(nearest_name("source", names), Some("src"));
        assert_eq!(nearest_name("read", names), None);
        assert_eq!(nearest_name("readfile", names), Some("read_file"));
        assert_eq!(nearest_name("nope", names), None);
    }

    #[test]
    fn a_key_in_two_spellings_needs_one_value() {
        let error = from_value::<Sample>(json!({"file_path": "a", "filePath": "b"})).unwrap_err();
        assert_eq!(
            error.message(),
            "`file_path` and `filePath` are two names of the same argument, and their values differ"
        );
        let sample: Sample = from_value(json!({"file_path": "a", "filePath": "a"})).unwrap();
        assert_eq!(sample.file_path, "a");
    }

    const ALIASES: &[KeyAlias] = &[
        KeyAlias {
            name: "old_string",
            key: "old_text",
            convert: None,
        },
        KeyAlias {
            name: "path",
            key: "file_path",
            convert: None,
        },
        KeyAlias {
            name: "is_flat",
            key: "is_deep",
            convert: Some(|value| Ok(value.as_bool().map(|flat| Value::Bool(!flat)))),
        },
        KeyAlias {
            name: "kilofiles",
            key: "max_files",
            convert: Some(|value| Ok(value.as_f64().map(|thousands| json!((thousands * 1e3) as u64)))),
        },
    ];

    #[test]
    fn an_alias_is_read_at_every_depth_and_its_value_converted() {
        let value = json!({"path": "a", "isFlat": false, "kilofiles": 2, "items": [{"oldString": "x"}]});
        let sample: Sample = from_value_with(value, ALIASES).unwrap();
        assert_eq!((sample.file_path.as_str(), sample.max_files), ("a", Some(2_000)));
        assert!(sample.is_deep);
        assert_eq!(sample.items[0].old_text, "x");
        // An object without the key of an alias does not take the alias.
        let error = from_value_with::<Sample>(json!({"path": "a", "old_string": "x"}), ALIASES).unwrap_err();
        assert_eq!(error.message(), "unknown key `old_string`");
    }

    #[test]
    fn an_alias_beside_its_key_must_say_the_same() {
        let value = json!({"path": "a", "is_deep": true, "is_flat": false, "max_files": 2_000, "kilofiles": 2});
        from_value_with::<Sample>(value, ALIASES).unwrap();
        let error =
            from_value_with::<Sample>(json!({"path": "a", "is_deep": true, "is_flat": true}), ALIASES).unwrap_err();
        assert_eq!(
            error.message(),
            "`is_deep` and `is_flat` are two names of the same argument, and their values differ"
        );
    }

    #[test]
    fn a_key_that_is_near_an_alias_is_told_the_real_name() {
        let error = from_value_with::<Sample>(json!({"pathh": "a"}), ALIASES).unwrap_err();
        assert!(
            error.hint_text().starts_with("did you mean `file_path`?"),
            "{}",
            error.hint_text()
        );
    }
}
