//! The policies of commands and code, as a configuration writes them: data in, limits and decisions out.
//!
//! The content of a command line is judged above, by the parser. That judgement is advice; only the sandbox enforces.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallTimeLimits, Error, GitAuthor, Guard, Limits, NetworkChoice, PortPolicy, Result, SandboxMount, ToolchainChoice,
};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The options of the `shell` capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShellPolicy {
    /// The sandbox of commands: `namespace`, `host` (no isolation), or a kind that the embedding program supplies.
    #[schemars(example = &"host")]
    pub sandbox: String,
    /// Run on the host even if Garret is root; `sandbox = "host"` alone is refused then.
    #[schemars(example = true)]
    pub host_as_root: bool,
    /// The part of the network that a command reaches.
    #[schemars(example = &"full", example = serde_json::json!({"allow": ["example.org"], "registries": true}))]
    pub network: NetworkChoice,
    /// How much a command may use.
    #[schemars(example = serde_json::json!({"timeout_s": 600}))]
    pub limits: ShellLimits,
    /// The treatment of the effects of a command on the files.
    #[schemars(example = &"ask")]
    pub effects: EffectsMode,
    /// The only programs that a command line may name, each perhaps with its first arguments (`git status`); empty for
    /// all.
    #[schemars(example = ["git status", "make"])]
    pub allowed_commands: Vec<String>,
    /// Programs that a command line may not name, each perhaps with arguments (`git push`); they win over the allowed
    /// ones.
    #[schemars(example = ["git push"])]
    pub denied_commands: Vec<String>,
    /// Refuse a few classic mistakes, such as `rm -rf /`.
    #[schemars(example = false)]
    pub prevent_dangerous: bool,
    /// Commands, written as in `denied_commands`, that ask the approver first; `*` for every command.
    #[schemars(example = ["npm publish"])]
    pub require_approval: Vec<String>,
    /// Names of variables that a command may have from the environment of Garret.
    #[schemars(example = ["LANG", "API_TOKEN"])]
    pub env_allow: Vec<String>,
    /// Names of variables whose values are secret: masked in output, absent from the journal.
    #[schemars(example = ["API_TOKEN"])]
    pub secrets: Vec<String>,
    /// The guards that the sandbox must enforce, or it does not open. The default is files, processes and network; for
    /// `host` it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = ["files", "processes"])]
    pub require: Option<Vec<Guard>>,
    /// The toolchains of the user that commands see, read-only: `auto` for those that are installed, `none`, or a list of
    /// names. The default is `auto` where the user opens a workspace himself, and `none` in a program that names no user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = ["rust", "pyenv"])]
    pub toolchains: Option<ToolchainChoice>,
    /// More parts of the machine that commands see.
    #[schemars(example = [serde_json::json!({"source": "~/data", "target": "/data", "access": "read"})])]
    pub mounts: Vec<SandboxMount>,
    /// Show the workspace to commands at its own path on the machine as well as at `/workspace`. Only for `local`. The
    /// default is on where the user opens a workspace himself, and off in a program that names no user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = true)]
    pub same_path: Option<bool>,
    /// The author of commits of Git. The default is the user's own where he opens a workspace himself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = serde_json::json!({"name": "Agent", "email": "agent@example.org"}))]
    pub git_author: Option<GitAuthor>,
    /// The most processes in the background at once.
    #[schemars(example = 4)]
    pub max_processes: usize,
    /// The ports of background processes that programs outside may reach.
    #[schemars(example = serde_json::json!({"allow": true}))]
    pub ports: PortPolicy,
}

impl Default for ShellPolicy {
    fn default() -> Self {
        Self {
            sandbox: "namespace".to_owned(),
            host_as_root: false,
            network: NetworkChoice::default(),
            limits: ShellLimits::default(),
            effects: EffectsMode::default(),
            allowed_commands: Vec::new(),
            denied_commands: Vec::new(),
            prevent_dangerous: true,
            require_approval: Vec::new(),
            env_allow: Vec::new(),
            secrets: Vec::new(),
            require: None,
            toolchains: None,
            mounts: Vec::new(),
            same_path: None,
            git_author: None,
            max_processes: 8,
            ports: PortPolicy::default(),
        }
    }
}

impl ShellPolicy {
    /// The kind of the sandbox that isolates nothing.
    pub const HOST: &str = "host";

    /// Returns the guards that the sandbox must enforce.
    pub fn required_guards(&self) -> Vec<Guard> {
        match &self.require {
            Some(guards) => guards.clone(),
            // A configuration that names the sandbox without isolation, and no guard, requires none.
            None if self.sandbox == Self::HOST => Vec::new(),
            None => Guard::DEFAULT
                .into_iter()
                .filter(|guard| self.can_enforce(*guard))
                .collect(),
        }
    }

    /// Returns whether a sandbox can be expected to enforce the guard: no sandbox can close a network that is open on
    /// purpose.
    fn can_enforce(&self, guard: Guard) -> bool {
        guard != Guard::Network || self.network != NetworkChoice::Full
    }
}

/// The limits of a command. A limit that is left out has its default; 0 means no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ShellLimits {
    /// Seconds on the clock, for a call that asks for no time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 120), example = 600)]
    pub timeout_s: Option<f64>,
    /// The most seconds on the clock that a call may ask for; never less than `timeout_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3600), example = 7_200)]
    pub max_timeout_s: Option<f64>,
    /// Seconds on processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0), example = 60)]
    pub cpu_s: Option<f64>,
    /// MiB of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 4096), example = 8_192)]
    pub memory_mb: Option<f64>,
    /// Processes and threads at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 512), example = 1_000)]
    pub processes: Option<u64>,
    /// MiB in one file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 4096), example = 1_024)]
    pub file_size_mb: Option<f64>,
    /// MiB written in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 8192), example = 20_000)]
    pub written_mb: Option<f64>,
    /// MiB in the home directory, which is kept from one command to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 5120), example = 10_240)]
    pub home_mb: Option<f64>,
    /// Open files of one process.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 4096), example = 20_000)]
    pub open_files: Option<u64>,
    /// Paths that one command may create, change and delete, all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 200_000), example = 500_000)]
    pub changed_files: Option<u64>,
    /// KiB of output that are kept, half from its head and half from its tail; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1024), example = 4_096)]
    pub output_kib: Option<u64>,
}

impl ShellLimits {
    /// Returns the limits for a sandbox; a negative or infinite number is an `invalid` error that names its key.
    pub fn to_limits(&self) -> Result<Limits> {
        let default = Limits::default();
        let wall = self.to_call_times()?.default;
        Ok(Limits {
            wall,
            cpu: parse_seconds("cpu_s", self.cpu_s, default.cpu)?,
            memory: parse_mebibytes("memory_mb", self.memory_mb, default.memory)?,
            processes: parse_count(self.processes, default.processes),
            file_size: parse_mebibytes("file_size_mb", self.file_size_mb, default.file_size)?,
            written: parse_mebibytes("written_mb", self.written_mb, default.written)?,
            home: parse_mebibytes("home_mb", self.home_mb, default.home)?,
            open_files: parse_count(self.open_files, default.open_files),
            changed_files: parse_count(self.changed_files, default.changed_files),
            reading: wall.map(|wall| wall.saturating_add(Limits::READING_ALLOWANCE)),
            output: parse_output_limit(self.output_kib, default.output)?,
        })
    }

    /// Returns the time limits of calls. The one that is left out follows the other: a longest time below the default
    /// lowers the default, and a default above the longest time raises that.
    pub fn to_call_times(&self) -> Result<CallTimeLimits> {
        let usual = CallTimeLimits::default();
        let default = parse_seconds("timeout_s", self.timeout_s, usual.default)?;
        let longest = parse_seconds("max_timeout_s", self.max_timeout_s, usual.longest)?;
        let is_above = longest.is_some_and(|longest| default.is_none_or(|default| default > longest));
        Ok(match (is_above, self.timeout_s, self.max_timeout_s) {
            (false, _, _) => CallTimeLimits { default, longest },
            (true, Some(default), Some(longest)) => return Err(crossed_times_error(default, longest)),
            (true, _, None) => CallTimeLimits {
                default,
                longest: default,
            },
            (true, None, Some(_)) => CallTimeLimits {
                default: longest,
                longest,
            },
        })
    }
}

fn parse_seconds(key: &str, seconds: Option<f64>, default: Option<Duration>) -> Result<Option<Duration>> {
    match check_not_negative(key, seconds)? {
        None => Ok(default),
        Some(0.0) => Ok(None),
        // A finite number of seconds can still be too large for a `Duration`.
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map(Some)
            .map_err(|_| wrong_number_error(key, seconds)),
    }
}

fn parse_mebibytes(key: &str, mebibytes: Option<f64>, default: Option<u64>) -> Result<Option<u64>> {
    Ok(match check_not_negative(key, mebibytes)? {
        None => default,
        Some(0.0) => None,
        Some(mebibytes) => Some((mebibytes * MEBIBYTE) as u64),
    })
}

fn parse_count(count: Option<u64>, default: Option<u64>) -> Option<u64> {
    match count {
        None => default,
        Some(0) => None,
        some => some,
    }
}

fn parse_output_limit(kibibytes: Option<u64>, default: u64) -> Result<u64> {
    match kibibytes {
        None => Ok(default),
        Some(0) => Err(Error::invalid("`limits.output_kib` must be at least 1")
            .hint("output cannot be unlimited; set how many KiB to keep")),
        Some(kibibytes) => Ok(kibibytes.saturating_mul(1024)),
    }
}

fn check_not_negative(key: &str, value: Option<f64>) -> Result<Option<f64>> {
    match value {
        Some(number) if !number.is_finite() || number < 0.0 => Err(wrong_number_error(key, number)),
        other => Ok(other),
    }
}

fn crossed_times_error(default: f64, longest: f64) -> Error {
    let default = if default == 0.0 {
        "0 (no limit)".to_owned()
    } else {
        default.to_string()
    };
    Error::invalid(format!(
        "`limits.timeout_s` is {default}, above `limits.max_timeout_s`, which is {longest}"
    ))
    .hint("raise `limits.max_timeout_s`, or lower `limits.timeout_s`")
}

fn wrong_number_error(key: &str, number: f64) -> Error {
    Error::invalid(format!("`limits.{key}` must be a number of at least 0, not {number}"))
        .hint("use a number such as 10 or 0.5; 0 means no limit")
}

/// The treatment of the effects of a command on the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectsMode {
    /// They become a change.
    #[default]
    Commit,
    /// They are shown and then discarded.
    Discard,
    /// The approver sees them and decides.
    Ask,
}

/// The options of the `code` capability. Code runs in the sandbox of `shell`, or in one with its defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodePolicy {
    /// The languages that are offered.
    #[schemars(example = ["python"])]
    pub languages: Vec<Language>,
    /// Offer contexts, which keep variables, imports and the directory between calls.
    #[schemars(example = true)]
    pub is_stateful: bool,
    /// Seconds after which a context that nobody used ends.
    #[schemars(example = 3_600)]
    pub idle_timeout_s: f64,
}

impl Default for CodePolicy {
    fn default() -> Self {
        Self {
            languages: Language::ALL.to_vec(),
            is_stateful: false,
            idle_timeout_s: 600.0,
        }
    }
}

impl CodePolicy {
    /// Returns the time after which an unused context ends; `invalid` if the number is not positive.
    pub fn idle_timeout(&self) -> Result<Duration> {
        let seconds = self.idle_timeout_s;
        let wrong = || {
            Error::invalid(format!("`idle_timeout_s` must be a number above 0, not {seconds}"))
                .hint("use a number of seconds such as 600")
        };
        match Duration::try_from_secs_f64(seconds) {
            Ok(timeout) if !timeout.is_zero() => Ok(timeout),
            _ => Err(wrong()),
        }
    }
}

/// A language of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript, run by Node.
    Javascript,
    /// Bash.
    Bash,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 3] = [Self::Python, Self::Javascript, Self::Bash];

    /// Returns the word for the language.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
            Self::Bash => "bash",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EffectLimits, WorkspaceConfig};

    fn shell(options: &str) -> Result<ShellPolicy> {
        let text = format!("storage = 'memory:'\n[capabilities.shell]\n{options}\n");
        WorkspaceConfig::from_toml(&text).map(|config| config.capabilities.shell.policy().expect("declared"))
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let policy = shell("").unwrap();
        assert_eq!(policy, ShellPolicy::default());
        assert_eq!(policy.limits.to_limits().unwrap(), Limits::default());
        assert!(policy.prevent_dangerous);
        assert_eq!(policy.required_guards(), Guard::DEFAULT);
        assert!(shell("sandbox = 'host'").unwrap().required_guards().is_empty());
        assert_eq!(
            shell("sandbox = 'host'\nrequire = ['files']")
                .unwrap()
                .required_guards(),
            [Guard::Files]
        );
    }

    #[test]
    fn both_spellings_of_every_key_are_read() {
        let snake = shell(
            "host_as_root = true\nallowed_commands = ['ls']\nenv_allow = ['LANG']\nmax_processes = 2\nlimits = { timeout_s = 0.5, output_kib = 4 }",
        );
        let camel = shell(
            "hostAsRoot = true\nallowedCommands = ['ls']\nenvAllow = ['LANG']\nmaxProcesses = 2\nlimits = { timeoutS = 0.5, outputKib = 4 }",
        );
        assert_eq!(snake.unwrap(), camel.unwrap());
    }

    #[test]
    fn the_defaults_of_the_schema_are_those_of_the_sandbox() {
        let schema = serde_json::to_value(schemars::schema_for!(ShellLimits)).unwrap();
        let properties = schema["properties"].as_object().unwrap();
        let defaults: serde_json::Map<_, _> = properties
            .iter()
            .map(|(key, property)| (key.clone(), property["default"].clone()))
            .collect();
        let limits: ShellLimits = serde_json::from_value(defaults.into()).unwrap();
        assert_eq!(limits.to_limits().unwrap(), Limits::default());
        assert_eq!(limits.to_call_times().unwrap(), CallTimeLimits::default());
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = shell("limits = { timeout_s = 0, memory_mb = 0, processes = 0 }")
            .unwrap()
            .limits
            .to_limits()
            .unwrap();
        assert_eq!((limits.wall, limits.memory, limits.processes), (None, None, None));
        assert_eq!(limits.written, Limits::default().written);
    }

    #[test]
    fn the_longest_time_of_a_call_and_the_default_follow_each_other() {
        let times = |options: &str| {
            let times = shell(&format!("limits = {{ {options} }}"))
                .unwrap()
                .limits
                .to_call_times();
            times.map(|times| {
                (
                    times.default.map(|time| time.as_secs()),
                    times.longest.map(|time| time.as_secs()),
                )
            })
        };
        assert_eq!(times("").unwrap(), (Some(120), Some(3_600)));
        assert_eq!(times("timeout_s = 5000").unwrap(), (Some(5_000), Some(5_000)));
        assert_eq!(times("timeout_s = 0").unwrap(), (None, None));
        assert_eq!(times("max_timeout_s = 60").unwrap(), (Some(60), Some(60)));
        assert_eq!(times("max_timeout_s = 0").unwrap(), (Some(120), None));
        assert_eq!(
            times("timeout_s = 30, max_timeout_s = 60").unwrap(),
            (Some(30), Some(60))
        );
        for crossed in [
            "timeout_s = 90, max_timeout_s = 60",
            "timeout_s = 0, max_timeout_s = 60",
        ] {
            let error = times(crossed).unwrap_err();
            assert!(error.message().contains("`limits.max_timeout_s`"), "{error}");
        }
    }

    #[test]
    fn limits_are_read_in_their_units() {
        let policy = shell("limits = { timeout_s = 1.5, cpu_s = 2, memory_mb = 0.5, output_kib = 3, open_files = 9 }");
        let limits = policy.unwrap().limits.to_limits().unwrap();
        assert_eq!(limits.wall, Some(Duration::from_millis(1_500)));
        assert_eq!(limits.cpu, Some(Duration::from_secs(2)));
        assert_eq!(limits.memory, Some(512 * 1024));
        assert_eq!((limits.output, limits.open_files), (3 * 1024, Some(9)));
    }

    #[test]
    fn reading_what_a_command_left_has_the_time_of_the_command_and_a_minute() {
        let limits = |options: &str| shell(options).unwrap().limits.to_limits().unwrap();
        assert_eq!(limits("").reading, Limits::default().reading);
        assert_eq!(
            limits("limits = { timeout_s = 3 }").reading,
            Some(Duration::from_secs(63))
        );
        assert_eq!(limits("limits = { timeout_s = 0 }").reading, None);
        let limits = limits("limits = { changed_files = 10, written_mb = 1 }");
        let effects = limits.effect_limits();
        let content_bytes = 1024 * 1024 + Limits::READING_SLACK_BYTES;
        assert_eq!(
            (effects.entries, effects.content_bytes),
            (Some(10), Some(content_bytes))
        );
        assert_eq!(effects.text_bytes, Some(10 * EffectLimits::TEXT_BYTES_OF_ENTRY));
    }

    #[test]
    fn a_limit_that_is_none_names_its_key() {
        for (options, key) in [
            ("limits = { timeout_s = -1 }", "limits.timeout_s"),
            ("limits = { timeout_s = 1e300 }", "limits.timeout_s"),
            ("limits = { written_mb = -0.1 }", "limits.written_mb"),
            ("limits = { output_kib = 0 }", "limits.output_kib"),
        ] {
            let error = shell(options).unwrap().limits.to_limits().unwrap_err();
            assert!(error.message().contains(key), "{error}");
        }
    }

    #[test]
    fn a_wrong_word_is_refused_with_the_right_ones() {
        let error = shell("effects = 'keep'").unwrap_err();
        assert!(error.message().contains("`commit`, `discard`, `ask`"), "{error}");
        let error = shell("allowed_comands = []").unwrap_err();
        assert!(error.hint_text().contains("`allowed_commands`"), "{error}");
        let error = shell("require = ['everything']").unwrap_err();
        assert!(error.message().contains("`system_calls`"), "{error}");
    }

    #[test]
    fn code_has_all_languages_and_no_contexts_by_default() {
        let read = |text: &str| {
            WorkspaceConfig::from_json(text)
                .unwrap()
                .capabilities
                .code
                .policy()
                .unwrap()
        };
        let policy = read(r#"{"storage": "memory:", "capabilities": {"code": true}}"#);
        assert_eq!(policy.languages, Language::ALL);
        assert!(!policy.is_stateful);
        let policy = read(
            r#"{"storage": "memory:", "capabilities": {"code": {"languages": ["python"], "isStateful": true, "idleTimeoutS": 2}}}"#,
        );
        assert_eq!(policy.languages, [Language::Python]);
        assert_eq!(policy.idle_timeout().unwrap(), Duration::from_secs(2));
    }

    #[test]
    fn an_idle_time_that_is_none_is_refused() {
        for seconds in [0.0, -1.0, f64::INFINITY, 1e300] {
            let policy = CodePolicy {
                idle_timeout_s: seconds,
                ..CodePolicy::default()
            };
            assert!(policy.idle_timeout().is_err(), "{seconds}");
        }
    }
}
