//! The options of a workspace by dotted keys (`shell.limits.timeout_s`): which ones exist, their values, and edits.
//!
//! Names, types and defaults come from the JSON schema of the configuration's types, so that an option of a type is an
//! option here. The options of a capability begin with its name, and the storage has no options here: it cannot be
//! changed.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::{contains_null, redact_option};
use crate::path::quote;
use crate::shape::{self, resolve_reference, schema_variants};
use crate::{Capabilities, Error, Result, StorageConfig, WorkspaceConfig};

/// The value that stands for a secret.
const REDACTED: &str = "[redacted]";

/// A change of one option, written as `KEY=VALUE`; `KEY=` returns to the default.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionEdit {
    /// The key as it was written.
    key: String,
    /// The parts of the key.
    parts: Vec<String>,
    /// The text of the value; `None` for the default.
    value: Option<String>,
}

/// An option of a workspace and its value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OptionValue {
    /// Its dotted key: `shell.limits.timeout_s`.
    pub key: String,
    /// Its value, or the default if it has none; null if there is neither. Values of secrets are redacted.
    #[schemars(schema_with = "any_json")]
    pub value: Value,
    /// Whether the value is the default.
    pub is_default: bool,
}

/// Returns a schema for any JSON value. The types are written out, because clients want one.
fn any_json(_generator: &mut schemars::SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": ["null", "boolean", "number", "string", "array", "object"] })
}

impl OptionEdit {
    /// Reads `KEY=VALUE`. The key is written as in TOML, and so is the value, but a bare word is a string.
    pub fn parse(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Error::invalid(format!("{} is not of the form KEY=VALUE", quote(text)))
                .hint("write `shell.network=full`; `shell.network=` returns to the default")
        })?;
        let value = value.trim();
        Ok(Self {
            value: (!value.is_empty()).then(|| value.to_owned()),
            ..Self::reset(key)?
        })
    }

    /// Returns whether the edit is of the option `key`, of a part of its value, or of a table that it is in.
    pub fn touches(&self, key: &str) -> bool {
        let own = self.parts.iter().map(|part| shape::snake_case(part));
        let own = own
            .skip_while(|part| part == "capabilities")
            .collect::<Vec<_>>()
            .join(".");
        // The switch of a capability is no table of its options.
        let is_below = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some() && !Capabilities::NAMES.contains(&outer)
        };
        own == key || is_below(key, &own) || is_below(&own, key)
    }

    /// Makes the edit that returns the option `key` to its default.
    pub fn reset(key: &str) -> Result<Self> {
        let key = key.trim();
        let wrong = || {
            Error::invalid(format!("{} is not the key of an option", quote(key)))
                .hint("write it with dots, as in `shell.limits.timeout_s`")
        };
        // Read as TOML, which knows dots and quotes.
        let mut value = match toml::from_str::<Value>(&format!("{key}=0")) {
            Ok(Value::Object(object)) if !key.contains('\n') => Value::Object(object),
            _ => return Err(wrong()),
        };
        let mut parts = Vec::new();
        while let Value::Object(object) = value {
            let (name, inner) = object.into_iter().next().ok_or_else(wrong)?;
            parts.push(name);
            value = inner;
        }
        Ok(Self {
            key: key.to_owned(),
            parts,
            value: None,
        })
    }
}

impl OptionValue {
    /// Returns the value as TOML; empty if there is none.
    pub fn value_as_toml(&self) -> String {
        match &self.value {
            Value::Null => String::new(),
            value => inline_toml(value),
        }
    }
}

/// Returns a value as TOML on one line.
fn inline_toml(value: &Value) -> String {
    let is_bare = |key: &str| {
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    match value {
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(inline_toml).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(object) if object.is_empty() => "{}".to_owned(),
        Value::Object(object) => {
            let pair = |(key, value): (&String, &Value)| {
                let key = if is_bare(key) {
                    key.clone()
                } else {
                    inline_toml(&key.as_str().into())
                };
                format!("{key} = {}", inline_toml(value))
            };
            let pairs: Vec<_> = object.iter().map(pair).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        // A text of JSON is one of TOML, but for this sign.
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
}

impl WorkspaceConfig {
    /// Returns the configuration with the edits made, one after the other. An unknown key, a value of a wrong type and an
    /// option of a capability that is not declared are `invalid`.
    pub fn edit_options(&self, edits: &[OptionEdit]) -> Result<Self> {
        let schema = schemars::schema_for!(Self);
        let mut config = to_json(self);
        let mut edited = Ok(self.clone());
        for edit in edits {
            let found = FoundOption::find(edit, &schema)?;
            match &edit.value {
                None => reset_option(&mut config, &found.path),
                Some(text) => set_option(&mut config, &found.path, found.parse_value(text, &edit.key, &schema)?)?,
            }
            // Read after each edit, so that an error can be about it. A later edit may complete a table.
            let read = shape::from_value(config.clone()).map_err(|error| found.explain_wrong_value(error, &schema));
            edited = read.map_err(|error| edited.err().unwrap_or(error));
        }
        edited
    }

    /// Returns every option with its value, in the order of the configuration reference.
    pub fn list_options(&self) -> Vec<OptionValue> {
        let schema = schemars::schema_for!(Self);
        let (config, default) = (to_json(self), default_config());
        let secrets: BTreeSet<String> = self
            .capabilities
            .shell
            .policy()
            .map(|policy| policy.secrets.into_iter().collect())
            .unwrap_or_default();
        let leaves = list_leaves(&schema).into_iter();
        // An option of a capability that is not declared has no effect, and cannot be set.
        let settable = leaves.filter(|leaf| is_declared(&config, &leaf.path));
        settable
            .map(|leaf| {
                let usual = value_at(&default, &leaf.path)
                    .or(leaf.default.as_ref())
                    .cloned()
                    .unwrap_or_default();
                let value = value_at(&config, &leaf.path).filter(|value| !value.is_null()).cloned();
                let value = match (value, leaf.is_capability()) {
                    (Some(value), true) => Value::Bool(value != Value::Bool(false)),
                    (value, _) => value.map_or_else(|| usual.clone(), whole_number),
                };
                OptionValue {
                    is_default: is_same(&value, &usual),
                    value: redact_value(&leaf.key, value, &secrets),
                    key: leaf.key,
                }
            })
            .collect()
    }
}

/// An option that exists.
struct FoundOption<'a> {
    /// Its place in the configuration, in the spelling of the schema.
    path: Vec<String>,
    schema: &'a Value,
}

/// An option that holds a value, and no further options.
struct LeafOption {
    key: String,
    path: Vec<String>,
    default: Option<Value>,
}

impl LeafOption {
    /// Returns whether it switches a capability on and off.
    fn is_capability(&self) -> bool {
        self.path.len() == 2 && self.path[0] == "capabilities"
    }
}

impl<'a> FoundOption<'a> {
    fn find(edit: &OptionEdit, root: &'a Schema) -> Result<Self> {
        let mut given: Vec<&str> = edit.parts.iter().map(String::as_str).collect();
        if given.first() == Some(&"storage") {
            return Err(fixed_storage_error());
        }
        if given.first().is_some_and(|first| Capabilities::NAMES.contains(first)) {
            given.insert(0, "capabilities");
        }
        let mut found = FoundOption {
            path: Vec::new(),
            schema: root.as_value(),
        };
        for name in given {
            found = found
                .enter(name, root)
                .ok_or_else(|| unknown_option_error(&edit.key, root))?;
        }
        if found.path == ["capabilities"] {
            return Err(Error::invalid("`capabilities` is not one option")
                .hint("set a capability by its name, as in `shell=true`, or use `garret capabilities`"));
        }
        Ok(found)
    }

    /// Returns the option called `name` in this one.
    fn enter(&self, name: &str, root: &'a Schema) -> Option<Self> {
        let with = |name: String, schema| {
            let path = self.path.iter().cloned().chain([name]).collect();
            Some(FoundOption { path, schema })
        };
        let object = find_object(self.schema, root)?;
        match object.get("properties").and_then(Value::as_object) {
            Some(properties) => {
                let names = [name.to_owned(), shape::snake_case(name)];
                let name = names.into_iter().find(|name| properties.contains_key(name))?;
                let schema = &properties[&name];
                with(name, schema)
            }
            // A map with free keys.
            None => {
                let values = object.get("additionalProperties").filter(|values| values.is_object())?;
                with(name.to_owned(), values)
            }
        }
    }

    /// Reads a value as TOML or JSON. A bare word is a string, or the parts of a list with commas between them.
    fn parse_value(&self, text: &str, key: &str, root: &Schema) -> Result<Value> {
        let is_literal = text.starts_with(['[', '{', '"', '\'']);
        let read = toml::from_str::<toml::Table>(&format!("value = {text}"));
        let value = match read {
            Ok(mut table) if table.len() == 1 => table.remove("value").filter(|value| self.takes_as_read(value, root)),
            Err(error) if is_literal => {
                let json: toml::Value = serde_json::from_str(text).map_err(|_| {
                    Error::invalid(format!("the value of {} is not TOML: {}", quote(key), error.message()))
                        .hint("check quotes and brackets, and quote the whole argument for the shell")
                })?;
                Some(json)
            }
            _ => None,
        };
        let bare = |text: &str| {
            if self.is_list(root) || (self.may_be_list(root) && text.contains(',')) {
                text.split(',').map(|part| Value::from(part.trim())).collect()
            } else {
                Value::from(text)
            }
        };
        let value = match value {
            Some(value) => serde_json::to_value(value).unwrap_or_default(),
            None => bare(text),
        };
        if contains_null(&value) {
            return Err(
                Error::invalid(format!("the value of {} is not a finite number", quote(key)))
                    .hint("use a finite number, or leave the value out for the default"),
            );
        }
        Ok(value)
    }

    /// Gives the error of a value of a wrong type the shape of this option in place of that of the whole configuration.
    fn explain_wrong_value(&self, error: Error, root: &Schema) -> Error {
        if error.hint_text().starts_with("expected: ") {
            error.hint(format!("expected: {}", shape::outline_value(self.schema, root, 0)))
        } else {
            error
        }
    }

    /// Returns whether the option is a list and nothing else.
    fn is_list(&self, root: &Schema) -> bool {
        let kind = &resolve_reference(self.schema, root)["type"];
        *kind == "array" || *kind == serde_json::json!(["array", "null"])
    }

    /// Returns whether one of the shapes of the option is a list.
    fn may_be_list(&self, root: &Schema) -> bool {
        has_list(self.schema, root)
    }

    /// Returns whether a value that was read as TOML is used. A date, and a number for an option that is a text
    /// (`env.CI=1`), count as words.
    fn takes_as_read(&self, value: &toml::Value, root: &Schema) -> bool {
        let is_text = resolve_reference(self.schema, root)["type"] == "string";
        match value {
            toml::Value::Datetime(_) => false,
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => !is_text,
            _ => true,
        }
    }
}

/// Returns the shape of the schema that has named values: itself, or one of its variants.
fn find_object<'a>(schema: &'a Value, root: &'a Schema) -> Option<&'a Value> {
    let schema = resolve_reference(schema, root);
    match schema_variants(schema) {
        Some(variants) => variants.iter().find_map(|variant| find_object(variant, root)),
        None => (schema["type"] == "object").then_some(schema),
    }
}

fn has_list(schema: &Value, root: &Schema) -> bool {
    let schema = resolve_reference(schema, root);
    match schema_variants(schema) {
        Some(variants) => variants.iter().any(|variant| has_list(variant, root)),
        None => schema["type"] == "array",
    }
}

fn list_leaves(root: &Schema) -> Vec<LeafOption> {
    let mut leaves = Vec::new();
    add_leaves(root.as_value(), root, &[], &mut leaves);
    leaves
}

fn add_leaves(schema: &Value, root: &Schema, path: &[String], leaves: &mut Vec<LeafOption>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        let path: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
        let resolved = resolve_reference(property, root);
        if path == ["storage"] {
            continue;
        }
        let leaf = LeafOption {
            key: path
                .iter()
                .skip(usize::from(path[0] == "capabilities"))
                .cloned()
                .collect::<Vec<_>>()
                .join("."),
            default: property.get("default").or_else(|| resolved.get("default")).cloned(),
            path: path.clone(),
        };
        // The options of a capability stand beside its switch; any other choice of shapes is one option.
        if leaf.is_capability() {
            leaves.push(leaf);
            if let Some(object) = find_object(property, root) {
                add_leaves(object, root, &path, leaves);
            }
        } else if resolved.get("properties").is_some() {
            add_leaves(resolved, root, &path, leaves);
        } else {
            leaves.push(leaf);
        }
    }
}

fn to_json(config: &WorkspaceConfig) -> Value {
    serde_json::to_value(config).expect("a configuration has only string keys and finite numbers")
}

/// Returns the configuration of a workspace that sets nothing.
fn default_config() -> Value {
    let storage = StorageConfig::table("memory", Map::new());
    to_json(&WorkspaceConfig::with_storage(storage))
}

fn value_at<'a>(config: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(config, |value, name| value.get(name))
}

/// Returns whether the capability that the option belongs to is declared; also for an option of no capability.
fn is_declared(config: &Value, path: &[String]) -> bool {
    if path.len() < 3 || path[0] != "capabilities" {
        return true;
    }
    value_at(config, &path[..2]).is_some_and(|capability| *capability != Value::Bool(false))
}

fn set_option(config: &mut Value, path: &[String], value: Value) -> Result<()> {
    if !is_declared(config, path) {
        let name = &path[1];
        return Err(
            Error::invalid(format!("the workspace does not declare the capability `{name}`"))
                .hint(format!("declare it first, or in the same call: `{name}=true`")),
        );
    }
    let (last, outer) = path.split_last().expect("a key has a part");
    let holder = outer
        .iter()
        .fold(config, |value, name| &mut enter_object(value)[name.as_str()]);
    let place = &mut enter_object(holder)[last.as_str()];
    // A capability that has options keeps them when it is declared once more.
    if value == Value::Bool(true) && path.len() == 2 && path[0] == "capabilities" && place.is_object() {
        return Ok(());
    }
    *place = value;
    Ok(())
}

/// Makes an object of a value that is none.
fn enter_object(value: &mut Value) -> &mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
}

fn reset_option(config: &mut Value, path: &[String]) {
    let default = value_at(&default_config(), path).cloned();
    let (last, outer) = path.split_last().expect("a key has a part");
    let holder = outer.iter().try_fold(config, |value, name| value.get_mut(name));
    let Some(Value::Object(holder)) = holder else { return };
    match default {
        Some(default) => holder.insert(last.clone(), default),
        None => holder.shift_remove(last),
    };
}

/// Returns whether two values mean the same: `5` and `5.0` do.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && one.as_f64() == other.as_f64())
}

/// Returns `600.0` as `600`, as a person writes it.
fn whole_number(value: Value) -> Value {
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => Value::from(number as i64),
        _ => value,
    }
}

/// Hides the values of secret variables, and of options that are named like secrets.
fn redact_value(key: &str, value: Value, secrets: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(variables) if key == "env" => variables
            .into_iter()
            .map(|(name, value)| {
                let is_secret = secrets.contains(&name);
                let shown = if is_secret {
                    REDACTED.into()
                } else {
                    redact_option(&name.to_lowercase(), &value)
                };
                (name, shown)
            })
            .collect(),
        value => value,
    }
}

fn fixed_storage_error() -> Error {
    Error::invalid("the storage of a workspace and its options cannot be changed").hint(
        "create another workspace with the storage that you want (`garret create NAME --storage STORAGE`), and copy the files into it",
    )
}

fn unknown_option_error(key: &str, root: &Schema) -> Error {
    let leaves = list_leaves(root);
    let keys = leaves.iter().map(|leaf| leaf.key.as_str());
    let last_part = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let last = shape::snake_case(&last_part(key));
    // Most mistakes are a wrong letter, or a key without the parts before it.
    let near = keys
        .clone()
        .find(|known| last_part(known) == last)
        .or_else(|| shape::nearest_name(&shape::snake_case(key), keys.clone()))
        .or_else(|| {
            let lasts: Vec<String> = keys.clone().map(last_part).collect();
            let near = shape::nearest_name(&last, lasts.iter().map(String::as_str))?.to_owned();
            keys.clone().find(|known| last_part(known) == near)
        });
    let error = Error::invalid(format!("there is no option {}", quote(key)));
    let list = "`garret configure NAME` lists the options of a workspace";
    match near {
        Some(near) => error.hint(format!("did you mean `{near}`? {list}")),
        None => error.hint(list),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{DeclaredCapability, Guard, NetworkChoice, ShellPolicy, ToolchainChoice, ToolchainName};

    fn config() -> WorkspaceConfig {
        let mut config = WorkspaceConfig::with_storage(StorageConfig::Url("memory:".to_owned()));
        config.capabilities = Capabilities::from_names(["fs", "shell"]).unwrap();
        config
    }

    fn edited(edits: &[&str]) -> Result<WorkspaceConfig> {
        let edits: Result<Vec<_>> = edits.iter().map(|edit| OptionEdit::parse(edit)).collect();
        config().edit_options(&edits?)
    }

    fn value(config: &WorkspaceConfig, key: &str) -> (Value, bool) {
        let all = config.list_options();
        let found = all.into_iter().find(|option| option.key == key);
        let found = found.unwrap_or_else(|| panic!("{key}"));
        (found.value, found.is_default)
    }

    #[test]
    fn a_value_is_toml_and_a_bare_word_is_a_string_or_a_list() {
        let config = edited(&[
            "shell.network=full",
            "shell.limits.timeout_s=600",
            "shell.denied_commands=[\"git push\", 'rm']",
            "shell.env_allow=LANG, TERM",
            "fs.read_only = true",
            "fs.maxFiles=9",
            "exclude=target/",
            "history=session",
            "env.PATH_OF_X=/x",
            "env.CI=1",
            "shell.require=files,network",
            "shell.toolchains=rust, nvm",
            "tools = { max_lines = 5 }",
        ])
        .unwrap();
        let shell = config.capabilities.shell.policy().unwrap();
        assert_eq!(shell.limits.timeout_s, Some(600.0));
        assert_eq!(shell.network, NetworkChoice::Full);
        assert_eq!(shell.denied_commands, ["git push", "rm"]);
        assert_eq!(shell.env_allow, ["LANG", "TERM"]);
        let fs = config.capabilities.fs.policy().unwrap();
        assert_eq!((fs.read_only, fs.max_files), (true, Some(9)));
        assert_eq!(config.exclude, ["target/"]);
        assert_eq!(config.env["PATH_OF_X"], "/x");
        assert_eq!(config.env["CI"], "1", "a variable is a text");
        assert_eq!(shell.require, Some(vec![Guard::Files, Guard::Network]));
        let named = vec![ToolchainName::Rust, ToolchainName::Nvm];
        assert_eq!(shell.toolchains, Some(ToolchainChoice::Named(named)));
        assert_eq!(config.tools.max_lines, 5);
        assert_eq!(value(&config, "shell.limits.timeout_s"), (json!(600), false));
    }

    #[test]
    fn an_option_without_a_value_returns_to_its_default() {
        let changed = edited(&[
            "shell.network=full",
            "shell.limits.timeout_s=600",
            "exclude=a",
            "env.A=b",
        ])
        .unwrap();
        let reset = [
            "shell.network=",
            "shell.limits.timeout_s=",
            "exclude=",
            "env.A=",
            "snapshot=",
        ];
        let edits: Vec<_> = reset.iter().map(|edit| OptionEdit::parse(edit).unwrap()).collect();
        let back = changed.edit_options(&edits).unwrap();
        assert_eq!(back.capabilities.shell.policy(), Some(ShellPolicy::default()));
        assert_eq!((back.exclude.len(), back.env.len()), (0, 0));
        assert!(back.capabilities.snapshot.is_declared(), "declared by default");
    }

    #[test]
    fn every_option_is_listed_with_its_value_and_whether_it_is_the_default() {
        let config = config();
        let all = config.list_options();
        let is_usual = |option: &&OptionValue| !["snapshot", "shell"].contains(&option.key.as_str());
        let other: Vec<_> = all
            .iter()
            .filter(is_usual)
            .filter(|option| !option.is_default)
            .collect();
        assert_eq!(
            other,
            Vec::<&OptionValue>::new(),
            "the defaults of the types and of the schema differ"
        );
        assert_eq!(value(&config, "shell"), (json!(true), false));
        assert_eq!(value(&config, "shell.max_processes"), (json!(8), true));
        assert_eq!(value(&config, "tools.naming"), (json!("bare"), true));
        let has = |key: &str| all.iter().any(|option| option.key == key);
        assert!(has("keep") && has("history") && has("code"));
        assert!(!has("code.is_stateful"), "`code` is not declared");
        assert!(all.iter().all(|option| !option.key.starts_with("storage")));
    }

    #[test]
    fn every_option_takes_its_own_value() {
        let mut config = config();
        config.capabilities.code = DeclaredCapability::Switch(true);
        for option in config.list_options() {
            if option.value.is_null() {
                continue;
            }
            let edit = OptionEdit::parse(&format!("{}={}", option.key, option.value_as_toml())).unwrap();
            let same = config
                .edit_options(&[edit])
                .unwrap_or_else(|error| panic!("{}: {error}", option.key));
            assert!(is_same(&value(&same, &option.key).0, &option.value), "{}", option.key);
        }
    }

    #[test]
    fn a_value_is_shown_as_one_line_of_toml_that_sets_it_again() {
        for text in ["a b\nc", "q\"uo'te", "\\", "\u{7f}\u{1}\t", ""] {
            let option = OptionValue {
                key: "env".to_owned(),
                value: json!({"A": text, "b c": [text, 1.5, true]}),
                is_default: false,
            };
            let shown = option.value_as_toml();
            assert!(!shown.contains('\n'), "{shown}");
            let read: toml::Table = toml::from_str(&format!("value = {shown}")).unwrap();
            assert_eq!(serde_json::to_value(&read["value"]).unwrap(), option.value, "{shown}");
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_one_that_is_meant() {
        for (key, meant) in [
            ("shell.netwrk", "shell.network"),
            ("network", "shell.network"),
            ("timeout_s", "shell.limits.timeout_s"),
            ("shell.timeout_s", "shell.limits.timeout_s"),
            ("timeoutS", "shell.limits.timeout_s"),
            ("exclud", "exclude"),
            ("capabilities.shell.sandbx", "shell.sandbox"),
        ] {
            let error = edited(&[&format!("{key}=x")]).unwrap_err();
            assert_eq!(error.message(), format!("there is no option `{key}`"));
            let hint = error.hint_text();
            assert!(hint.starts_with(&format!("did you mean `{meant}`?")), "{key}: {hint}");
        }
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_the_reason() {
        for (edit, reason) in [
            ("storage=local:x", "cannot be changed"),
            ("storage.durability=relaxed", "cannot be changed"),
            ("code.is_stateful=true", "does not declare the capability `code`"),
            ("capabilities={}", "not one option"),
            ("shell.limits.timeout_s=soon", "expected a number"),
            ("shell.limits.timeout_s=nan", "not a finite number"),
            (r#"shell.network={"allow": null}"#, "is not TOML"),
            ("shell.allowed_commands=['ls'", "is not TOML"),
            (
                "shell.limits={ timeout = 3 }",
                "unknown key `capabilities.shell.limits.timeout`",
            ),
            ("fs.read_only", "not of the form KEY=VALUE"),
            ("=x", "not the key"),
            ("a b=x", "not the key"),
            ("exclude.a=x", "no option"),
        ] {
            let error = edited(&[edit]).unwrap_err();
            assert!(error.message().contains(reason), "{edit}: {error}");
        }
        let error = edited(&["shell.network=sometimes"]).unwrap_err();
        let hint = error.hint_text();
        assert!(hint.len() < 300 && hint.contains("none"), "{error}");
        assert!(edited(&["code=true", "code.is_stateful=true"]).is_ok());
    }

    #[test]
    fn edits_that_are_only_right_together_are_taken_together() {
        let author = ["shell.git_author.name=Ada", "shell.git_author.email=ada@example.org"];
        let config = edited(&author).unwrap();
        let shell = config.capabilities.shell.policy().unwrap();
        assert_eq!(shell.git_author.unwrap().name, "Ada");
        let error = edited(&[author[0], "exclude=target/"]).unwrap_err();
        assert!(error.message().contains("email"), "{error}");
    }

    #[test]
    fn a_value_is_toml_or_json() {
        let toml = edited(&["shell.network={ allow = ['example.org'] }"]).unwrap();
        let json = edited(&[r#"shell.network={"allow": ["example.org"]}"#]).unwrap();
        assert_eq!(value(&toml, "shell.network"), value(&json, "shell.network"));
    }

    #[test]
    fn a_capability_that_is_declared_again_keeps_its_options() {
        let config = edited(&["shell.network=full", "shell=true"]).unwrap();
        assert_eq!(value(&config, "shell.network").0, "full");
        let config = edited(&["shell.network=full", "shell=false", "shell=true"]).unwrap();
        assert_eq!(value(&config, "shell.network").0, "none");
    }

    #[test]
    fn an_edit_touches_its_option_and_the_tables_around_and_in_it() {
        let touches = |edit: &str, key: &str| OptionEdit::parse(edit).unwrap().touches(key);
        assert!(touches("shell.network=full", "shell.network"));
        assert!(touches("capabilities.shell.maxProcesses=1", "shell.max_processes"));
        assert!(touches("shell.limits={}", "shell.limits.cpu_s"));
        assert!(touches("env.A=b", "env"));
        assert!(!touches("shell.network=full", "shell"));
        assert!(!touches("shell=true", "shell.network"));
        assert!(!touches("env.A=b", "environment"));
    }

    #[test]
    fn values_of_secret_variables_are_not_shown() {
        let config = edited(&[
            "env.KEY=hunter2",
            "env.API_TOKEN=hunter3",
            "env.MODE=fast",
            "shell.secrets=KEY",
        ])
        .unwrap();
        let shown = value(&config, "env").0;
        assert_eq!(shown, json!({"KEY": REDACTED, "API_TOKEN": REDACTED, "MODE": "fast"}));
    }
}
