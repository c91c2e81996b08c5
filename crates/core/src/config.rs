//! The configuration of workspaces, in TOML or JSON.
//!
//! Keys are read in both spellings (`max_files`, `maxFiles`). An unknown key is refused, and the error names the
//! nearest known one, so that no option is ever accepted and ignored.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{Capabilities, DerivedFiles, Error, HistoryMode, Result, RetentionLimits, shape};

/// A `garret.toml` (or its JSON form): workspaces by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The workspaces.
    #[schemars(example = serde_json::json!({"notes": {"storage": "local:notes"}}))]
    pub workspaces: BTreeMap<String, WorkspaceConfig>,
}

/// One workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceConfig {
    /// The storage of its files: a URL such as `local:notes`, or a table with `kind` and options.
    #[schemars(example = &"local:notes")]
    pub storage: StorageConfig,
    /// The capabilities of the workspace, each with its policy.
    #[serde(default)]
    #[schemars(example = serde_json::json!({"fs": true, "shell": {"network": "none"}}))]
    pub capabilities: Capabilities,
    /// How its tools are named and how much they answer.
    #[serde(default)]
    #[schemars(example = serde_json::json!({"naming": "short"}))]
    pub tools: ToolsConfig,
    /// Variables that commands in the workspace have in their environment.
    #[serde(default)]
    #[schemars(example = serde_json::json!({"CI": "1"}))]
    pub env: BTreeMap<String, String>,
    /// How long its history is kept. The default is `durable` if there is a home for the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"session")]
    pub history: Option<HistoryMode>,
    /// Paths that commands make and history leaves out, as in a `.gitignore`: `target/`, `node_modules/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("default" = []), example = ["target/", "node_modules/"])]
    pub exclude: Vec<String>,
    /// Derived files, which commands make from others, as patterns like those of `exclude`. Their changes are recorded,
    /// but plain undo steps over a change that a command or code made to such files alone, and the log folds it. `[]`
    /// turns this off.
    #[serde(
        default = "DerivedFiles::default_patterns",
        skip_serializing_if = "DerivedFiles::are_default_patterns"
    )]
    #[schemars(extend("default" = DerivedFiles::default_patterns()), example = ["__pycache__/", "dist/"])]
    pub derived: Vec<String>,
    /// How much of a durable history is kept when the garbage is collected: an age (`30d`), a number of changes
    /// (`1000`), a size (`500MB`), or a list of them. A value here is applied each time the workspace is opened;
    /// without one, the setting of the command `keep` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "everything"), example = &"30d")]
    pub keep: Option<RetentionLimits>,
}

impl WorkspaceConfig {
    /// Returns the configuration of a workspace on `storage` with everything else at its default.
    pub fn with_storage(storage: StorageConfig) -> Self {
        Self {
            storage,
            capabilities: Capabilities::default(),
            tools: ToolsConfig::default(),
            env: BTreeMap::new(),
            history: None,
            exclude: Vec::new(),
            derived: DerivedFiles::default_patterns(),
            keep: None,
        }
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self> {
        shape::from_value(parse_json(text)?)
    }

    /// Reads the TOML form.
    pub fn from_toml(text: &str) -> Result<Self> {
        shape::from_value(parse_toml(text)?)
    }
}

impl Config {
    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self> {
        shape::from_value(parse_json(text)?)
    }

    /// Reads the TOML form.
    pub fn from_toml(text: &str) -> Result<Self> {
        shape::from_value(parse_toml(text)?)
    }
}

fn parse_json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Error::invalid(format!("this is not JSON: {error}")).hint("check quotes, commas and brackets at that place")
    })
}

fn parse_toml(text: &str) -> Result<Value> {
    let wrong = |error: toml::de::Error| {
        let place = error.span().map_or_else(String::new, |span| {
            format!(" in line {}", line_number_at(text, span.start))
        });
        Error::invalid(format!("this is not TOML: {}{place}", error.message()))
            .hint("check quotes and brackets at that place")
    };
    let value = toml::from_str(text).map_err(wrong)?;
    // Otherwise a limit of `inf` or `nan` would be read as null, and so as no limit at all.
    if contains_null(&value) {
        return Err(Error::invalid("`inf` and `nan` are not allowed in a configuration")
            .hint("use a finite number, or leave the setting out"));
    }
    Ok(value)
}

/// Returns whether a null is anywhere in `value`. TOML has no null: only a number that JSON cannot express becomes one.
pub(crate) fn contains_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(contains_null),
        Value::Object(object) => object.values().any(contains_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn line_number_at(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The storage of a workspace. Its `Debug` output redacts the values of options whose names say that they are secrets.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StorageConfig {
    /// A URL: the kind, a colon, and a rest that the kind interprets.
    Url(String),
    /// A table: the kind and its options.
    Table {
        /// The kind.
        kind: String,
        /// The options of the kind.
        #[serde(flatten)]
        options: Map<String, Value>,
    },
}

impl StorageConfig {
    /// Returns the storage `kind` with its options as a table.
    pub fn table(kind: &str, options: Map<String, Value>) -> Self {
        Self::Table {
            kind: kind.to_owned(),
            options,
        }
    }

    /// The kind of the storage.
    pub fn kind(&self) -> &str {
        match self {
            Self::Url(url) => url.split_once(':').map_or(url, |(kind, _)| kind),
            Self::Table { kind, .. } => kind,
        }
    }

    /// Returns the options, if they are written as a table.
    pub fn options(&self) -> Option<&Map<String, Value>> {
        match self {
            Self::Url(_) => None,
            Self::Table { options, .. } => Some(options),
        }
    }
}

impl fmt::Debug for StorageConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => formatter.debug_tuple("Url").field(url).finish(),
            Self::Table { kind, options } => {
                let shown: BTreeMap<_, _> = options
                    .iter()
                    .map(|(key, value)| (key, redact_option(key, value)))
                    .collect();
                let mut table = formatter.debug_struct("Table");
                table.field("kind", kind).field("options", &shown).finish()
            }
        }
    }
}

/// Returns the value of an option, or `[redacted]` if its name says that it is a secret and its value is not a
/// reference to one.
pub(crate) fn redact_option(key: &str, value: &Value) -> Value {
    let key = shape::snake_case(key);
    let is_secret = ["secret", "token", "password", "key_id"]
        .iter()
        .any(|word| key.contains(word));
    // A reference such as `env:NAME` is shown even for a secret key: it says where to look and reveals nothing.
    if value.as_str().is_some_and(is_secret_reference) || !is_secret {
        value.clone()
    } else {
        "[redacted]".into()
    }
}

/// Returns whether the text of an option refers to a secret (`env:`, `file:`, `secret:`), instead of being the secret.
pub(crate) fn is_secret_reference(text: &str) -> bool {
    ["env:", "file:", "secret:"]
        .iter()
        .any(|prefix| text.starts_with(prefix))
}

/// Written by hand, because the derived reader of an untagged enum does not say which part of the data is wrong.
impl<'de> Deserialize<'de> for StorageConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(url) => Ok(Self::Url(url)),
            // `shift_remove` keeps the order of the other options.
            Value::Object(mut options) => match options.shift_remove("kind") {
                Some(Value::String(kind)) => Ok(Self::Table { kind, options }),
                _ => Err(D::Error::custom(
                    "a storage table needs a `kind`, a string such as \"local\"",
                )),
            },
            _ => Err(D::Error::custom(
                "a storage must be a URL such as \"local:notes\", or a table with its `kind`",
            )),
        }
    }
}

/// How tools are named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolNaming {
    /// `workspace__box__read_file`.
    Prefixed,
    /// `workspace_read_file`.
    Flat,
    /// `read_file`.
    #[default]
    Bare,
    /// `read`.
    Short,
}

/// How the tools of a workspace are named and how much they answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolsConfig {
    /// How tools are named.
    #[schemars(example = &"prefixed")]
    pub naming: ToolNaming,
    /// The most lines in one answer.
    #[schemars(example = 500)]
    pub max_lines: usize,
    /// The most KiB in one answer.
    #[schemars(example = 50)]
    pub max_kib: usize,
    /// The KiB of an answer whose call asks for no `limit`; never more than `max_kib`.
    #[schemars(example = 50)]
    pub page_kib: usize,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            naming: ToolNaming::default(),
            max_lines: 2_000,
            max_kib: 100,
            page_kib: 24,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FsPolicy;

    #[test]
    fn both_forms_and_both_spellings_read_alike() {
        let toml = Config::from_toml(
            "[workspaces.notes]\nstorage = 'local:notes'\n[workspaces.notes.capabilities]\nfs = { maxFiles = 3, read_only = true }\n",
        )
        .unwrap();
        let json = Config::from_json(
            r#"{"workspaces": {"notes": {"storage": "local:notes", "capabilities": {"fs": {"max_files": 3, "readOnly": true}}}}}"#,
        )
        .unwrap();
        assert_eq!(toml, json);
        let policy = toml.workspaces["notes"].capabilities.fs.policy().unwrap();
        assert_eq!(
            policy,
            FsPolicy {
                max_files: Some(3),
                read_only: true,
                ..FsPolicy::default()
            }
        );
    }

    #[test]
    fn a_capability_is_a_switch_or_options_or_absent() {
        let declared = |text: &str| WorkspaceConfig::from_json(text).unwrap().capabilities.fs.policy();
        assert!(declared(r#"{"storage": "memory:", "capabilities": {"fs": true}}"#).is_some());
        assert!(declared(r#"{"storage": "memory:", "capabilities": {"fs": false}}"#).is_none());
        assert!(declared(r#"{"storage": "memory:", "capabilities": {}}"#).is_none());
        assert!(
            declared(r#"{"storage": "memory:"}"#).is_some(),
            "no capabilities at all means the defaults"
        );
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest() {
        let error = WorkspaceConfig::from_toml("storage = 'memory:'\n[capabilities.fs]\nmaxFile = 3\n").unwrap_err();
        assert_eq!(error.message(), "unknown key `capabilities.fs.maxFile`");
        assert!(error.hint_text().starts_with("did you mean `max_files`?"), "{error}");
    }

    #[test]
    fn a_value_of_a_wrong_type_is_refused_by_its_key() {
        let error =
            WorkspaceConfig::from_toml("storage = 'memory:'\n[capabilities.fs]\nmax_files = 'a'\n").unwrap_err();
        assert!(
            error.message().contains("capabilities.fs") && error.message().contains("max_files"),
            "{error}"
        );
    }

    #[test]
    fn what_is_kept_of_the_history_is_an_age_a_number_a_size_or_a_list() {
        let kept = |keep: &str| WorkspaceConfig::from_toml(&format!("storage = 'memory:'\nkeep = {keep}"));
        for (written, meant) in [
            ("'30d'", "30d"),
            ("100", "100"),
            ("['30d', '500MB', 100]", "30d,100,500MB"),
        ] {
            assert_eq!(kept(written).unwrap().keep, Some(meant.parse().unwrap()), "{written}");
        }
        let error = kept("'a while'").unwrap_err();
        assert!(
            error.message().contains("does not say how much history to keep"),
            "{error}"
        );
    }

    #[test]
    fn a_storage_table_keeps_its_options() {
        let config =
            WorkspaceConfig::from_toml("storage = { kind = 'local', dir = 'x', durability = 'relaxed' }").unwrap();
        let StorageConfig::Table { kind, options } = config.storage else {
            panic!("a table")
        };
        assert_eq!(kind, "local");
        assert_eq!(options["durability"], "relaxed");
    }

    #[test]
    fn a_configuration_shows_no_secret() {
        let text = "storage = { kind = 's3', bucket = 'b', accessKeyId = 'AKIA', secret_access_key = 'hunter2', session_token = 'env:T' }";
        let shown = format!("{:?}", WorkspaceConfig::from_toml(text).unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("AKIA"), "{shown}");
        assert!(shown.contains("env:T") && shown.contains("\"b\""), "{shown}");
    }

    #[test]
    fn a_storage_of_the_wrong_shape_says_what_is_right() {
        let error = WorkspaceConfig::from_toml("storage = { dir = 'x' }").unwrap_err();
        assert_eq!(
            error.message(),
            "`storage`: a storage table needs a `kind`, a string such as \"local\""
        );
        let error = WorkspaceConfig::from_toml("storage = 'memory:'\ncapabilities = { fs = 3 }").unwrap_err();
        assert_eq!(
            error.message(),
            "`capabilities.fs`: a capability is `true`, `false` or an object with options"
        );
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused_not_dropped() {
        for number in ["nan", "inf", "-inf"] {
            let text = format!("storage = 'memory:'\n[capabilities.fs]\nmax_total_mb = {number}\n");
            let error = WorkspaceConfig::from_toml(&text).unwrap_err();
            assert!(error.message().contains("`nan`"), "{error}");
        }
    }

    #[test]
    fn wrong_toml_names_the_line() {
        let error = Config::from_toml("[workspaces]\nx = = 1\n").unwrap_err();
        assert!(error.message().contains("in line 2"), "{error}");
    }
}
