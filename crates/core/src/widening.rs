//! Finds the settings of a configuration that give more than the defaults: data in, a list of settings out.
//!
//! A configuration file of an untrusted author may only narrow: fewer files, fewer commands, lower limits, all below its
//! own directory. Each setting that widens is listed here with its key and the
//! reason. Every type of a configuration is destructured field by field, so that a new field does not compile until
//! it is classified as narrowing or widening.

use std::path::{Component, Path};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::{is_secret_reference, redact_option};
use crate::{
    CallTimeLimits, Capabilities, CodePolicy, Config, DerivedFiles, FsPolicy, Guard, HistoryMode, Limits,
    NetworkChoice, ShellLimits, ShellPolicy, SnapshotPolicy, StorageConfig, ToolchainChoice, ToolsConfig,
    WorkspaceConfig, shape,
};

/// A setting that gives more than the defaults do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WideningSetting {
    /// Its key: `capabilities.shell.sandbox`.
    pub key: String,
    /// Its value as JSON; `"[redacted]"` for a server key that is written out.
    pub value: String,
    /// The right or resource that it gives.
    pub reason: &'static str,
}

impl Config {
    /// Returns the settings of all workspaces that give more than the defaults, for a file in `directory`. Their keys
    /// begin with `workspaces.NAME`.
    pub fn widening_settings(&self, directory: &Path) -> Vec<WideningSetting> {
        let Self { workspaces } = self;
        let of_workspace = |(name, config): (&String, &WorkspaceConfig)| {
            let settings = config.widening_settings(directory).into_iter();
            let prefix = format!("workspaces.{name}");
            settings.map(move |setting| WideningSetting {
                key: format!("{prefix}.{}", setting.key),
                ..setting
            })
        };
        workspaces.iter().flat_map(of_workspace).collect()
    }
}

impl WorkspaceConfig {
    /// Returns the settings that give more than the defaults, for a file in `directory`, an absolute path. Links are
    /// not resolved: opening must refuse a directory that a link leads out of.
    pub fn widening_settings(&self, directory: &Path) -> Vec<WideningSetting> {
        let Self {
            storage,
            capabilities,
            tools,
            // Whichever variables a command has, it has the rights of its sandbox and no more.
            env: _,
            history,
            exclude,
            derived,
            keep,
        } = self;
        let mut found = WideningFindings {
            written: serde_json::to_value(self).unwrap_or_default(),
            settings: Vec::new(),
        };
        judge_storage(storage, directory, &mut found);
        judge_capabilities(capabilities, &mut found);
        judge_tools(tools, &mut found);
        let keeps_less = history.is_some_and(|mode| mode != HistoryMode::Durable);
        found.add_if(keeps_less, "history", "changes cannot be undone later");
        let reason = "changes that commands make there cannot be undone";
        found.add_if(!exclude.is_empty(), "exclude", reason);
        let is_default = |pattern: &String| DerivedFiles::DEFAULT_PATTERNS.contains(&pattern.as_str());
        let reason = "plain undo steps over changes that commands make there";
        found.add_if(!derived.iter().all(is_default), "derived", reason);
        found.add_if(keep.is_some(), "keep", "older history is deleted");
        found.settings
    }
}

/// The settings found so far.
struct WideningFindings {
    /// The whole configuration as JSON.
    written: Value,
    settings: Vec<WideningSetting>,
}

impl WideningFindings {
    /// Adds the setting at `key` with its value in the configuration, if it is wider than the default.
    fn add_if(&mut self, is_wider: bool, key: &str, reason: &'static str) {
        if is_wider {
            let value = key.split('.').fold(&self.written, |value, name| &value[name]);
            self.add_option(key, &value.clone(), reason);
        }
    }

    /// Adds an option of a storage with the value that may be shown.
    fn add_option(&mut self, key: &str, value: &Value, reason: &'static str) {
        let (key, value) = (key.to_owned(), value.to_string());
        self.settings.push(WideningSetting { key, value, reason });
    }
}

fn judge_storage(storage: &StorageConfig, directory: &Path, found: &mut WideningFindings) {
    let elsewhere = "its files are not in the directory of this file";
    match (storage.kind(), storage) {
        // Files in memory end with the process, and nothing outside is touched.
        ("memory", _) => {}
        ("local", StorageConfig::Url(url)) => {
            let is_outside = !stays_within(url.strip_prefix("local:").unwrap_or(url), directory);
            found.add_if(is_outside, "storage", elsewhere);
        }
        ("local", StorageConfig::Table { options, .. }) => judge_local(options, directory, found),
        (_, StorageConfig::Url(_)) => found.add_if(true, "storage", elsewhere),
        (_, StorageConfig::Table { options, .. }) => {
            found.add_if(true, "storage.kind", elsewhere);
            judge_remote(options, found);
        }
    }
}

fn judge_local(options: &Map<String, Value>, directory: &Path, found: &mut WideningFindings) {
    for (key, value) in options {
        let reason = match (shape::snake_case(key).as_str(), value.as_str()) {
            ("dir", Some(text)) if stays_within(text, directory) => continue,
            ("dir", _) => "its files are not in the directory of this file",
            ("durability", Some("full")) => continue,
            ("durability", _) => "a power failure may lose the newest changes",
            // An option added later must be judged here before it can count as narrow.
            _ => "Garret does not know this option to be safe",
        };
        found.add_option(&format!("storage.{key}"), value, reason);
    }
}

/// Lists the options of a remote storage that carry something away, in addition to the storage itself.
fn judge_remote(options: &Map<String, Value>, found: &mut WideningFindings) {
    for (key, value) in options {
        let is_secret = value.as_str().is_some_and(is_secret_reference);
        let reason = match shape::snake_case(key).as_str() {
            _ if is_secret => "it takes a secret from the environment, a file or the machine",
            "endpoint" => "requests and their keys go to this server",
            "profile" => "it uses keys of the user",
            // The storage itself is already listed, and the other options carry nothing away.
            _ => continue,
        };
        found.add_option(&format!("storage.{key}"), &redact_option(key, value), reason);
    }
}

/// Returns whether the path `text`, relative to `directory`, stays below it by its text.
fn stays_within(text: &str, directory: &Path) -> bool {
    let path = directory.join(text);
    // `a/../..` begins with the directory by its text and still leaves it.
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    !goes_up && path.starts_with(directory)
}

fn judge_capabilities(capabilities: &Capabilities, found: &mut WideningFindings) {
    let Capabilities {
        fs,
        snapshot,
        shell,
        code,
    } = capabilities;
    // Everything is allowed by default, so each of these can only take away.
    if let Some(FsPolicy {
        read_only: _,
        allow_read: _,
        deny_read: _,
        allow_write: _,
        deny_write: _,
        max_file_size_mb: _,
        max_read_mb: _,
        max_files: _,
        max_total_mb: _,
        require_approval: _,
        // A path is refused or stops at the root; it never leaves the workspace.
        on_escape: _,
    }) = fs.policy()
    {}
    if let Some(SnapshotPolicy {}) = snapshot.policy() {}
    if let Some(policy) = shell.policy() {
        judge_shell(&policy, found);
    }
    if let Some(policy) = code.policy() {
        judge_code(&policy, found);
    }
}

fn judge_shell(policy: &ShellPolicy, found: &mut WideningFindings) {
    let default = ShellPolicy::default();
    let ShellPolicy {
        sandbox,
        host_as_root,
        network,
        limits,
        // Each mode keeps no more than `commit`, the default.
        effects: _,
        allowed_commands: _,
        denied_commands: _,
        prevent_dangerous,
        require_approval: _,
        env_allow,
        secrets: _,
        require,
        toolchains,
        mounts,
        same_path,
        git_author,
        max_processes,
        ports,
    } = policy;
    let mut add_if = |is_wider, key: &str, reason| {
        found.add_if(is_wider, &format!("capabilities.shell.{key}"), reason);
    };
    let is_other = *sandbox != default.sandbox;
    add_if(is_other, "sandbox", "commands run without the isolation of `namespace`");
    add_if(*host_as_root, "host_as_root", "commands run as root of this machine");
    add_if(*network != NetworkChoice::None, "network", "commands reach the network");
    let is_lax = !*prevent_dangerous;
    add_if(is_lax, "prevent_dangerous", "dangerous commands are not refused");
    let has_variables = !env_allow.is_empty();
    add_if(has_variables, "env_allow", "commands read these variables of the user");
    let lacks_guard = require
        .as_ref()
        .is_some_and(|guards| Guard::DEFAULT.iter().any(|guard| !guards.contains(guard)));
    add_if(
        lacks_guard,
        "require",
        "commands also run on machines that enforce less",
    );
    add_if(
        !mounts.is_empty(),
        "mounts",
        "commands reach these parts of the machine",
    );
    let shows_toolchains = toolchains
        .as_ref()
        .is_some_and(|choice| *choice != ToolchainChoice::None);
    add_if(shows_toolchains, "toolchains", "commands read directories of the user");
    add_if(
        *same_path == Some(true),
        "same_path",
        "commands see the path of the workspace on this machine",
    );
    add_if(
        git_author.is_some(),
        "git_author",
        "commits of commands carry the name of somebody else",
    );
    let has_more = *max_processes > default.max_processes;
    add_if(has_more, "max_processes", "more processes stay in the background");
    add_if(
        ports.allow == Some(true),
        "ports.allow",
        "scopes open ports on this machine",
    );
    let is_far = !ports.bind.is_loopback();
    add_if(is_far, "ports.bind", "other machines reach the ports that are opened");
    judge_limits(limits, found);
}

/// Lists each limit that is above its default.
fn judge_limits(limits: &ShellLimits, found: &mut WideningFindings) {
    let ShellLimits {
        timeout_s: _,
        max_timeout_s,
        cpu_s: _,
        memory_mb: _,
        processes: _,
        file_size_mb: _,
        written_mb: _,
        home_mb: _,
        changed_files: _,
        open_files: _,
        output_kib: _,
    } = limits;
    // A number that is not a limit at all is refused when the workspace is opened.
    let (Ok(set), Ok(times)) = (limits.to_limits(), limits.to_call_times()) else {
        return;
    };
    let default = Limits::default();
    let mut add_if = |is_wider: bool, key: &str| {
        let key = format!("capabilities.shell.limits.{key}");
        found.add_if(is_wider, &key, "it is above the default");
    };
    add_if(is_above(set.wall, default.wall), "timeout_s");
    let is_longer = max_timeout_s.is_some() && is_above(times.longest, CallTimeLimits::default().longest);
    add_if(is_longer, "max_timeout_s");
    add_if(is_above(set.cpu, default.cpu), "cpu_s");
    add_if(is_above(set.memory, default.memory), "memory_mb");
    add_if(is_above(set.changed_files, default.changed_files), "changed_files");
    add_if(is_above(set.processes, default.processes), "processes");
    add_if(is_above(set.file_size, default.file_size), "file_size_mb");
    add_if(is_above(set.written, default.written), "written_mb");
    add_if(is_above(set.home, default.home), "home_mb");
    add_if(is_above(set.open_files, default.open_files), "open_files");
    add_if(set.output > default.output, "output_kib");
}

/// Returns whether a limit is above its default; no limit is above every limit.
fn is_above<T: PartialOrd>(set: Option<T>, default: Option<T>) -> bool {
    default.is_some_and(|default| set.is_none_or(|set| set > default))
}

fn judge_code(policy: &CodePolicy, found: &mut WideningFindings) {
    let default = CodePolicy::default();
    let CodePolicy {
        // All languages are offered by default.
        languages: _,
        is_stateful,
        idle_timeout_s,
    } = policy;
    let key = "capabilities.code.is_stateful";
    found.add_if(*is_stateful, key, "code stays running between calls");
    let is_longer = *idle_timeout_s > default.idle_timeout_s;
    let key = "capabilities.code.idle_timeout_s";
    found.add_if(is_longer, key, "it is above the default");
}

fn judge_tools(tools: &ToolsConfig, found: &mut WideningFindings) {
    let default = ToolsConfig::default();
    let ToolsConfig {
        naming: _,
        max_lines,
        max_kib,
        page_kib,
    } = tools;
    let reason = "it is above the default";
    found.add_if(*max_lines > default.max_lines, "tools.max_lines", reason);
    found.add_if(*max_kib > default.max_kib, "tools.max_kib", reason);
    found.add_if(*page_kib > default.page_kib, "tools.page_kib", reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<String> {
        let config = WorkspaceConfig::from_toml(text).unwrap();
        let found = config.widening_settings(Path::new("/home/me/project"));
        found.into_iter().map(|setting| setting.key).collect()
    }

    #[test]
    fn what_narrows_is_not_listed() {
        let text = "
            storage = { kind = 'local', dir = './site', durability = 'full' }
            env = { CI = '1' }
            history = 'durable'
            derived = ['target/']
            tools = { naming = 'short', max_lines = 10, max_kib = 1, page_kib = 1 }
            [capabilities]
            snapshot = true
            code = { languages = ['python'], idle_timeout_s = 5 }
            [capabilities.fs]
            read_only = true
            allow_read = ['src']
            deny_read = ['.env']
            allow_write = ['src']
            deny_write = ['lock']
            max_file_size_mb = 1
            max_read_mb = 1
            max_files = 1
            max_total_mb = 1
            require_approval = ['rm']
            on_escape = 'clamp'
            [capabilities.shell]
            effects = 'ask'
            allowed_commands = ['ls']
            denied_commands = ['rm']
            require_approval = ['*']
            secrets = ['TOKEN']
            require = ['files', 'processes', 'network', 'memory']
            max_processes = 1
            toolchains = 'none'
            same_path = false
            limits = { timeout_s = 1, max_timeout_s = 3600, cpu_s = 1, memory_mb = 64, changed_files = 1, processes = 9, file_size_mb = 1, written_mb = 1, open_files = 9, output_kib = 1 }
        ";
        assert_eq!(keys(text), Vec::<String>::new());
        assert_eq!(keys("storage = 'memory:'"), Vec::<String>::new());
        assert_eq!(keys("storage = 'local:.'"), Vec::<String>::new());
    }

    #[test]
    fn each_setting_of_a_workspace_that_widens_is_listed_by_its_key() {
        for (setting, key) in [
            ("history = 'off'", "history"),
            ("history = 'session'", "history"),
            ("exclude = ['**']", "exclude"),
            ("derived = ['src/']", "derived"),
            ("keep = 1", "keep"),
            ("tools = { max_lines = 2001 }", "tools.max_lines"),
            ("tools = { max_kib = 101 }", "tools.max_kib"),
            ("tools = { page_kib = 25 }", "tools.page_kib"),
            (
                "capabilities = { code = { is_stateful = true } }",
                "capabilities.code.is_stateful",
            ),
            (
                "capabilities = { code = { idle_timeout_s = 601 } }",
                "capabilities.code.idle_timeout_s",
            ),
        ] {
            assert_eq!(keys(&format!("storage = 'memory:'\n{setting}")), [key], "{setting}");
        }
    }

    #[test]
    fn each_setting_of_commands_that_widens_is_listed_by_its_key() {
        for (setting, key) in [
            ("sandbox = 'host'", "sandbox"),
            ("sandbox = 'mine'", "sandbox"),
            ("host_as_root = true", "host_as_root"),
            ("hostAsRoot = true", "host_as_root"),
            ("network = 'full'", "network"),
            ("network = { allow = ['example.org'] }", "network"),
            ("prevent_dangerous = false", "prevent_dangerous"),
            ("env_allow = ['TOKEN']", "env_allow"),
            ("require = []", "require"),
            ("require = ['files', 'memory', 'processes']", "require"),
            ("mounts = [{ source = '/root' }]", "mounts"),
            ("toolchains = 'auto'", "toolchains"),
            ("toolchains = ['rust']", "toolchains"),
            ("same_path = true", "same_path"),
            ("git_author = { name = 'a', email = 'a@example.org' }", "git_author"),
            ("limits = { home_mb = 0 }", "limits.home_mb"),
            ("limits = { home_mb = 5121 }", "limits.home_mb"),
            ("max_processes = 9", "max_processes"),
            ("limits = { timeout_s = 0 }", "limits.timeout_s"),
            ("limits = { timeout_s = 120.5 }", "limits.timeout_s"),
            ("limits = { max_timeout_s = 3601 }", "limits.max_timeout_s"),
            ("limits = { max_timeout_s = 0 }", "limits.max_timeout_s"),
            ("limits = { memory_mb = 0 }", "limits.memory_mb"),
            ("limits = { changed_files = 0 }", "limits.changed_files"),
            ("limits = { changed_files = 200001 }", "limits.changed_files"),
            ("limits = { processes = 513 }", "limits.processes"),
            ("limits = { file_size_mb = 4097 }", "limits.file_size_mb"),
            ("limits = { written_mb = 0 }", "limits.written_mb"),
            ("limits = { open_files = 4097 }", "limits.open_files"),
            ("limits = { output_kib = 1025 }", "limits.output_kib"),
        ] {
            let text = format!("storage = 'memory:'\n[capabilities.shell]\n{setting}");
            assert_eq!(keys(&text), [format!("capabilities.shell.{key}")], "{setting}");
        }
    }

    #[test]
    fn a_directory_outside_that_of_the_file_is_listed_however_it_is_written() {
        for outside in [
            "/",
            "/etc",
            "..",
            "../x",
            "a/../..",
            "a/../b",
            "/home/me/project/../x",
            "/home/me/projects",
        ] {
            assert_eq!(keys(&format!("storage = 'local:{outside}'")), ["storage"], "{outside}");
            let table = format!("storage = {{ kind = 'local', dir = '{outside}' }}");
            assert_eq!(keys(&table), ["storage.dir"], "{outside}");
        }
        for inside in [".", "a/b", "./a", "/home/me/project", "/home/me/project/a"] {
            assert_eq!(
                keys(&format!("storage = 'local:{inside}'")),
                Vec::<String>::new(),
                "{inside}"
            );
        }
        assert_eq!(
            keys("storage = { kind = 'local', dir = 'a', Dir = '/etc' }"),
            ["storage.Dir"]
        );
        let relaxed = "storage = { kind = 'local', dir = 'a', durability = 'relaxed' }";
        assert_eq!(keys(relaxed), ["storage.durability"]);
    }

    #[test]
    fn a_storage_elsewhere_is_listed_with_what_it_would_send_away() {
        assert_eq!(keys("storage = 's3://b/p?endpoint=http://x'"), ["storage"]);
        assert_eq!(keys("storage = 'filestore:notes'"), ["storage"]);
        assert_eq!(keys("storage = 'mine:'"), ["storage"]);
        let table = "storage = { kind = 's3', bucket = 'b', prefix = '', endpoint = 'http://x', profile = 'work', \
                     accessKeyId = 'file:/etc/shadow', secret_access_key = 'secret:x', session_token = 'env:TOKEN' }";
        let mut found = keys(table);
        found.sort();
        assert_eq!(
            found,
            [
                "storage.accessKeyId",
                "storage.endpoint",
                "storage.kind",
                "storage.profile",
                "storage.secret_access_key",
                "storage.session_token"
            ]
        );
    }

    #[test]
    fn the_settings_of_a_file_name_their_workspace_and_value() {
        let config = Config::from_toml(
            "[workspaces.a]\nstorage = 'memory:'\n[workspaces.b]\nstorage = 'memory:'\ncapabilities = { shell = { network = 'full' } }",
        );
        let found = config.unwrap().widening_settings(Path::new("/x"));
        assert_eq!(
            found,
            [WideningSetting {
                key: "workspaces.b.capabilities.shell.network".into(),
                value: "\"full\"".into(),
                reason: "commands reach the network",
            }]
        );
    }
}
