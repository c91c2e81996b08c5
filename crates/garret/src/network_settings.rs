//! Looks up what a named network needs of this machine: its proxy, the secrets for hosts, and the package registries
//! that its package managers report.

#![allow(
    clippy::disallowed_methods,
    reason = "this file reads the settings of package managers, asks npm and go for theirs, and reads the files of secrets"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, HostSecret, NamedNetwork, Result};
use garret_network::{
    HostHeader, NetworkSettings, RegistrySources, ReportedRegistries, UnreportedRegistry, UpstreamProxies,
    find_registries, find_unreported,
};

use crate::Garret;

type UserVariables = BTreeMap<String, String>;

/// Returns the settings for a named network, by the environment of the program. Nothing in `private`, where commands
/// write, is started.
pub(crate) fn find_settings(
    named: &NamedNetwork,
    environment: &UserVariables,
    private: &[PathBuf],
) -> Result<NetworkSettings> {
    Ok(NetworkSettings {
        headers: named
            .secrets
            .iter()
            .map(|secret| resolve_header(secret, environment))
            .collect::<Result<_>>()?,
        upstream: UpstreamProxies::from_environment(environment)?,
        registries: if named.registries {
            find_registries(&read_sources(environment, private))
        } else {
            ReportedRegistries::default()
        },
    })
}

impl Garret {
    /// Returns the package registries that the package managers of this machine report.
    pub fn reported_registries(&self) -> Vec<String> {
        let reported = find_registries(&read_sources(&self.environment, &[]));
        reported.hosts.iter().map(ToString::to_string).collect()
    }

    /// Returns the package registries that are built into package managers, and that the managers do not report.
    pub fn unreported_registries(&self) -> Vec<UnreportedRegistry> {
        let ask = |program: &str, arguments: &[&str]| ask(program, arguments, &self.environment, &[]);
        // Some systems have pip under its second name only.
        let pip_help = ["pip", "pip3"].iter().find_map(|pip| ask(pip, &["install", "--help"]));
        find_unreported(&RegistrySources {
            pip_help,
            uv_help: ask("uv", &["pip", "install", "--help"]),
            ..read_sources(&self.environment, &[])
        })
    }
}

fn resolve_header(secret: &HostSecret, environment: &UserVariables) -> Result<HostHeader> {
    let unusable = |why: String| {
        let host = &secret.host;
        Error::new(
            ErrorKind::Denied,
            format!("the secret of `network.secrets` for {host} cannot be used: {why}"),
        )
    };
    let value = if let Some(name) = secret.value.strip_prefix("env:") {
        environment
            .get(name)
            .cloned()
            .ok_or_else(|| unusable(format!("the variable {} is not set", quote(name))).hint("set the variable"))?
    } else if let Some(path) = secret.value.strip_prefix("file:") {
        std::fs::read_to_string(path)
            .map_err(|_| unusable("its file cannot be read".to_owned()).hint("check the path and its permissions"))?
    } else {
        let what = "its value is not a reference".to_owned();
        return Err(unusable(what).hint("write `env:NAME` or `file:PATH`, so that no configuration holds the secret"));
    };
    HostHeader::new(secret.host.clone(), &secret.header, &secret.prefix, value.trim_end())
}

fn read_sources(environment: &UserVariables, private: &[PathBuf]) -> RegistrySources {
    let home = environment.get("HOME").map(PathBuf::from);
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let variable = |name: &str| environment.get(name).map(PathBuf::from);
    let settings = |name: &str| match variable("XDG_CONFIG_HOME") {
        Some(directory) => Some(directory.join(name)),
        None => below_home(".config").map(|directory| directory.join(name)),
    };
    let cargo_home = variable("CARGO_HOME").or_else(|| below_home(".cargo"));
    let in_cargo_home = |name: &str| cargo_home.as_ref().map(|home| home.join(name));
    let npm = read_texts([
        Some("/etc/npmrc".into()),
        Some("/usr/etc/npmrc".into()),
        variable("NPM_CONFIG_GLOBALCONFIG"),
        variable("NPM_CONFIG_USERCONFIG").or_else(|| below_home(".npmrc")),
    ]);
    let has_npm_registry = npm
        .iter()
        .any(|text| text.lines().any(|line| line.trim().starts_with("registry")))
        || environment
            .keys()
            .any(|name| name.eq_ignore_ascii_case("npm_config_registry"));
    RegistrySources {
        variables: environment.clone(),
        pip: read_texts([
            Some("/etc/pip.conf".into()),
            settings("pip/pip.conf"),
            below_home(".pip/pip.conf"),
            variable("PIP_CONFIG_FILE"),
        ]),
        uv: read_texts([
            Some("/etc/uv/uv.toml".into()),
            settings("uv/uv.toml"),
            variable("UV_CONFIG_FILE"),
        ]),
        cargo: read_texts([in_cargo_home("config"), in_cargo_home("config.toml")]),
        cargo_indexes: in_cargo_home("registry/index")
            .map(|indexes| read_indexes(&indexes))
            .unwrap_or_default(),
        // npm takes a third of a second to answer; a registry in a file or a variable makes that needless.
        npm_registry: if has_npm_registry {
            None
        } else {
            ask("npm", &["config", "get", "registry"], environment, private)
        },
        npm,
        go: ask("go", &["env", "GOPROXY", "GOSUMDB"], environment, private).and_then(|answer| {
            answer
                .split_once('\n')
                .map(|(proxy, sums)| (proxy.to_owned(), sums.to_owned()))
        }),
        pip_help: None,
        uv_help: None,
    }
}

/// Reads the files that exist. One that cannot be read reports nothing.
fn read_texts(files: impl IntoIterator<Item = Option<PathBuf>>) -> Vec<String> {
    let files = files.into_iter().flatten();
    files.filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}

/// Reads the indexes that cargo has used.
fn read_indexes(directory: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let index = |entry: std::fs::DirEntry| {
        let config = std::fs::read_to_string(entry.path().join("config.json")).unwrap_or_default();
        Some((entry.file_name().into_string().ok()?, config))
    };
    entries.filter_map(index).collect()
}

/// The directories of the programs of the system.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/opt", "/nix"];
/// The longest time that a package manager has for its answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Returns the directories of the user's search path in which no command can have put a program: those of the system,
/// and those of tools below the home directory (`~/.nvm`), but none in `private`.
///
/// An activated virtual environment puts a directory of the workspace first on the search path.
fn trusted_directories(environment: &UserVariables, private: &[PathBuf]) -> Vec<PathBuf> {
    let search = environment.get("PATH").map_or("", String::as_str);
    let directories = search.split(':').filter(|directory| directory.starts_with('/'));
    let resolved = directories.filter_map(|directory| std::fs::canonicalize(directory).ok());
    resolved
        .filter(|directory| is_trusted(directory, environment, private))
        .collect()
}

fn is_trusted(path: &Path, environment: &UserVariables, private: &[PathBuf]) -> bool {
    let home = environment
        .get("HOME")
        .and_then(|home| std::fs::canonicalize(home).ok());
    let below_home = home.as_ref().and_then(|home| path.strip_prefix(home).ok());
    let is_of_tools = below_home.is_some_and(|below| below.to_string_lossy().starts_with('.'));
    let is_of_system = SYSTEM.iter().any(|system| path.starts_with(system));
    (is_of_system || is_of_tools) && !private.iter().any(|private| path.starts_with(private))
}

/// Returns what a program of the user answers, if it is installed and succeeds in time.
fn ask(program: &str, arguments: &[&str], environment: &UserVariables, private: &[PathBuf]) -> Option<String> {
    let directories = trusted_directories(environment, private);
    let is_usable = |path: &PathBuf| {
        let resolved = std::fs::canonicalize(path);
        resolved.is_ok_and(|resolved| resolved.is_file() && is_trusted(&resolved, environment, private))
    };
    let found = directories.iter().map(|directory| directory.join(program));
    let mut asked = Command::new(found.into_iter().find(is_usable)?)
        .args(arguments)
        .env_clear()
        .envs(environment)
        // A script finds its interpreter there.
        .env("PATH", std::env::join_paths(&directories).ok()?)
        // A configuration of the present directory is not that of the user.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    // The answers are shorter than what a pipe holds.
    while asked.try_wait().ok()?.is_none() {
        if began.elapsed() > ANSWER_WAIT {
            let _ = asked.kill();
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let answer = asked.wait_with_output().ok()?;
    let text = String::from_utf8(answer.stdout).ok()?;
    answer.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put_program(directory: &Path, name: &str, text: &str) {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join(name), text).unwrap();
        std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_program_that_a_command_can_have_written_is_not_asked() {
        let room = tempfile::tempdir().unwrap();
        let room = std::fs::canonicalize(room.path()).unwrap();
        let (home, work) = (room.join("home"), room.join("home/.work"));
        let planted = "#!/bin/sh\necho planted\n";
        put_program(&work.join("bin"), "tool", planted);
        put_program(&work.join("bin"), "interpreter", "#!/bin/sh\necho interpreted by it\n");
        put_program(&room.join("elsewhere"), "tool", planted);
        put_program(&home.join(".linked"), "other", planted);
        symlink(work.join("bin/tool"), home.join(".linked/tool")).unwrap();
        put_program(&home.join(".tools/bin"), "tool", "#!/usr/bin/env interpreter\n");
        put_program(&home.join(".tools/bin"), "interpreter", "#!/bin/sh\necho trusted\n");
        let path = ["home/.work/bin", "elsewhere", "home/.linked", "home/.tools/bin"]
            .map(|directory| room.join(directory).to_string_lossy().into_owned())
            .join(":");
        let environment = UserVariables::from([
            ("HOME".to_owned(), home.to_string_lossy().into_owned()),
            ("PATH".to_owned(), format!("{path}:/usr/bin:/bin")),
        ]);
        let answer = ask("tool", &[], &environment, &[work]);
        assert_eq!(answer.as_deref(), Some("trusted\n"));
        assert_eq!(ask("no-such-program", &[], &environment, &[]), None);
    }
}
