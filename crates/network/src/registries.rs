//! Finds the package registries that the package managers of a machine are set to use.
//!
//! Texts in, hosts and settings out: the caller reads files and runs programs. There is no list of hosts here. A
//! registry that is only built into a manager is not reported by it, and is no one's choice; the caller may show it.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::RequestedHost;
use toml::{Table, Value};

/// What the package managers of a machine have written, and what they answered.
#[derive(Debug, Clone, Default)]
pub struct RegistrySources {
    /// The variables of the user.
    pub variables: BTreeMap<String, String>,
    /// The texts of `pip.conf`, in rising order of priority.
    pub pip: Vec<String>,
    /// The texts of `uv.toml`, in rising order of priority.
    pub uv: Vec<String>,
    /// The texts of `.npmrc`, in rising order of priority.
    pub npm: Vec<String>,
    /// The texts of cargo's `config.toml`, in rising order of priority.
    pub cargo: Vec<String>,
    /// The indexes that cargo has used: the name of each directory, and the text of its `config.json`.
    pub cargo_indexes: Vec<(String, String)>,
    /// The answer to `npm config get registry`.
    pub npm_registry: Option<String>,
    /// The answers to `go env GOPROXY` and `go env GOSUMDB`.
    pub go: Option<(String, String)>,
    /// The answer to `pip install --help`, which names the index that is built in.
    pub pip_help: Option<String>,
    /// The answer to `uv pip install --help`, which names the index that is built in.
    pub uv_help: Option<String>,
}

/// The registries that the package managers of a machine report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedRegistries {
    /// Their hosts.
    pub hosts: Vec<RequestedHost>,
    /// Variables by which the managers in a sandbox find them, without credentials.
    pub variables: BTreeMap<String, String>,
    /// A `config.toml` for cargo, without credentials.
    pub cargo_config: Option<String>,
}

/// A registry that is built into a package manager, which does not report it as its setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreportedRegistry {
    /// The manager.
    pub manager: &'static str,
    /// The hosts, as a rule writes them.
    pub hosts: Vec<String>,
}

/// Finds the registries that are reported.
pub fn find_registries(sources: &RegistrySources) -> ReportedRegistries {
    let mut found = ReportedRegistries::default();
    found.add_pip(sources);
    found.add_uv(sources);
    found.add_npm(sources);
    found.add_go(sources);
    found.add_cargo(sources);
    found.hosts.sort_by_key(ToString::to_string);
    found.hosts.dedup();
    found
}

/// Finds the registries that are built into managers and that the managers do not report.
pub fn find_unreported(sources: &RegistrySources) -> Vec<UnreportedRegistry> {
    let reported = find_registries(sources);
    let mut unreported = Vec::new();
    for (manager, help, settings) in [
        ("pip", &sources.pip_help, &["PIP_INDEX_URL"][..]),
        ("uv", &sources.uv_help, &["UV_DEFAULT_INDEX", "UV_INDEX_URL"]),
    ] {
        let is_set = settings.iter().any(|name| reported.variables.contains_key(*name));
        let urls = help.iter().filter(|_| !is_set).flat_map(|help| built_in_urls(help));
        unreported.push((manager, urls.filter_map(|url| url_host(&url)).collect::<Vec<_>>()));
    }
    let indexes = sources
        .cargo_indexes
        .iter()
        .flat_map(|(name, config)| index_hosts(name, config));
    unreported.push(("cargo", indexes.collect()));
    let is_new = |host: &RequestedHost| !reported.hosts.contains(host);
    let listed = unreported.into_iter().map(|(manager, hosts)| UnreportedRegistry {
        manager,
        hosts: hosts
            .into_iter()
            .filter(is_new)
            .map(|host| rule_text(&host))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
    });
    listed.filter(|one| !one.hosts.is_empty()).collect()
}

/// Writes a host as a rule does: without one of the ports that a rule allows by itself.
fn rule_text(host: &RequestedHost) -> String {
    match host.port {
        80 | 443 => host.name.to_string(),
        _ => host.to_string(),
    }
}

/// Returns the URLs after the word `default` in the help of a program.
fn built_in_urls(help: &str) -> Vec<String> {
    // pip writes `(default URL)`, uv `(by default: <URL>)`.
    let mut words = help.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '<' | '>'));
    let mut urls = Vec::new();
    while let Some(word) = words.next() {
        if word.trim_end_matches(':') == "default" {
            let next = words.find(|word| !word.is_empty()).unwrap_or_default();
            if next.contains("://") {
                urls.push(next.trim_end_matches('.').to_owned());
            }
        }
    }
    urls
}

impl ReportedRegistries {
    /// Adds the host of a URL, and returns the URL without credentials; `None` if it is no URL of a registry.
    fn add_url(&mut self, url: &str) -> Option<String> {
        self.hosts.push(url_host(url)?);
        Some(without_credentials(url))
    }

    /// Adds several URLs between spaces or commas, and returns them.
    fn add_urls(&mut self, urls: &str) -> String {
        let urls = urls
            .split(|sign: char| sign == ',' || sign.is_whitespace())
            .filter_map(|url| self.add_url(url.trim()));
        urls.collect::<Vec<_>>().join(" ")
    }

    fn set_variable(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.variables.insert(name.to_owned(), value);
        }
    }

    fn add_pip(&mut self, sources: &RegistrySources) {
        let mut settings = BTreeMap::new();
        for text in &sources.pip {
            settings.extend(read_pip_settings(text));
        }
        for key in ["index-url", "extra-index-url", "trusted-host"] {
            let variable = format!("PIP_{}", key.replace('-', "_").to_uppercase());
            let value = sources.variables.get(&variable).or_else(|| settings.get(key));
            let Some(value) = value.cloned() else { continue };
            let shown = if key == "trusted-host" {
                value.trim().to_owned()
            } else {
                self.add_urls(&value)
            };
            self.set_variable(&variable, Some(shown));
        }
    }

    fn add_uv(&mut self, sources: &RegistrySources) {
        let mut indexes: Vec<String> = Vec::new();
        for table in sources.uv.iter().filter_map(|text| text.parse::<Table>().ok()) {
            // `[pip]` has settings of its own.
            for scope in [Some(&table), table.get("pip").and_then(Value::as_table)]
                .into_iter()
                .flatten()
            {
                if let Some(url) = scope.get("index-url").and_then(Value::as_str) {
                    let shown = self.add_url(url);
                    self.set_variable("UV_DEFAULT_INDEX", shown);
                }
                let extra = scope.get("extra-index-url").and_then(Value::as_array);
                let extra = extra
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(|url| (url, false));
                let named = scope.get("index").and_then(Value::as_array);
                let named = named.into_iter().flatten().filter_map(|index| {
                    let is_default = index.get("default").and_then(Value::as_bool).unwrap_or(false);
                    Some((index.get("url")?.as_str()?, is_default))
                });
                for (url, is_default) in extra.chain(named) {
                    let shown = self.add_url(url);
                    if is_default {
                        self.set_variable("UV_DEFAULT_INDEX", shown);
                    } else {
                        indexes.extend(shown);
                    }
                }
            }
        }
        self.set_variable("UV_INDEX", Some(indexes.join(" ")));
        for name in ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"] {
            if let Some(value) = sources.variables.get(name).cloned() {
                let shown = self.add_urls(&value);
                self.set_variable(name, Some(shown));
            }
        }
    }

    fn add_npm(&mut self, sources: &RegistrySources) {
        let mut settings = BTreeMap::new();
        let answered = sources.npm_registry.as_deref().map(str::trim);
        settings.extend(answered.map(|url| ("registry".to_owned(), url.to_owned())));
        for text in &sources.npm {
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
            settings.extend(lines.filter_map(|line| {
                let (key, value) = line.split_once('=')?;
                let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
                let is_registry = key == "registry" || (key.starts_with('@') && key.ends_with(":registry"));
                is_registry.then(|| (key.to_owned(), value.to_owned()))
            }));
        }
        for (name, value) in &sources.variables {
            if name.eq_ignore_ascii_case("npm_config_registry") {
                settings.insert("registry".to_owned(), value.clone());
            }
        }
        for (key, url) in settings {
            let shown = self.add_url(&url);
            self.set_variable(&format!("npm_config_{key}"), shown);
        }
    }

    fn add_go(&mut self, sources: &RegistrySources) {
        let Some((proxies, sums)) = &sources.go else { return };
        for url in proxies.trim().split([',', '|']) {
            self.add_url(url);
        }
        // Each separator stays: Go goes on after `,` only where a proxy does not have the module.
        let shown = proxies.trim().split_inclusive([',', '|']).map(without_credentials);
        self.set_variable("GOPROXY", Some(shown.collect()));
        // A name that is a host, or a name and its URL.
        let (name, url) = sums.trim().split_once(' ').unwrap_or((sums.trim(), ""));
        if !url.is_empty() {
            self.add_url(url);
        } else if name.contains('.') {
            self.hosts
                .extend(RequestedHost::parse(name.split('+').next().unwrap_or(name), Some(443)));
        }
        let words = sums.split_whitespace().map(without_credentials);
        self.set_variable("GOSUMDB", Some(words.collect::<Vec<_>>().join(" ")));
    }

    fn add_cargo(&mut self, sources: &RegistrySources) {
        let mut config = Table::new();
        for table in sources.cargo.iter().filter_map(|text| text.parse::<Table>().ok()) {
            self.add_cargo_config(&table, &mut config);
        }
        for (name, value) in &sources.variables {
            let is_index = name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX");
            if is_index {
                let shown = self.add_url(value);
                self.set_variable(name, shown);
            }
        }
        if !config.is_empty() {
            self.cargo_config = Some(config.to_string());
        }
        // The index of a registry says where its packages are.
        for (name, index) in &sources.cargo_indexes {
            let hosts = index_hosts(name, index);
            if hosts
                .first()
                .is_some_and(|host| self.hosts.iter().any(|known| known.name == host.name))
            {
                self.hosts.extend(hosts);
            }
        }
    }

    /// Takes the settings of sources and registries, and nothing else, over into `kept`.
    fn add_cargo_config(&mut self, config: &Table, kept: &mut Table) {
        for (section, url_key, keys) in [
            ("source", "registry", ["registry", "replace-with"]),
            ("registries", "index", ["index", "protocol"]),
        ] {
            let entries = config.get(section).and_then(Value::as_table);
            for (name, entry) in entries.into_iter().flatten() {
                for key in keys {
                    let Some(value) = entry.get(key).and_then(Value::as_str) else {
                        continue;
                    };
                    let shown = if key == url_key {
                        self.add_url(value)
                    } else {
                        Some(value.to_owned())
                    };
                    let Some(shown) = shown else { continue };
                    let section = kept.entry(section).or_insert_with(|| Table::new().into());
                    let entry = section
                        .as_table_mut()
                        .expect("it was made as a table")
                        .entry(name.clone());
                    let entry = entry.or_insert_with(|| Table::new().into());
                    entry
                        .as_table_mut()
                        .expect("it was made as a table")
                        .insert(key.to_owned(), shown.into());
                }
            }
        }
        if let Some(default) = config.get("registry").and_then(|registry| registry.get("default")) {
            kept.insert(
                "registry".to_owned(),
                Table::from_iter([("default".to_owned(), default.clone())]).into(),
            );
        }
    }
}

/// Returns the hosts of an index of cargo: its own, and those of its packages.
fn index_hosts(directory: &str, config: &str) -> Vec<RequestedHost> {
    let own = directory.rsplit_once('-').map_or(directory, |(host, _)| host);
    let mut hosts: Vec<_> = RequestedHost::parse(own, Some(443)).into_iter().collect();
    for key in ["\"dl\"", "\"api\""] {
        let value = config.split_once(key).and_then(|(_, rest)| rest.split('"').nth(1));
        hosts.extend(value.and_then(url_host));
    }
    hosts
}

/// Reads the settings of pip that are about indexes, from every section.
fn read_pip_settings(text: &str) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    let mut last = None;
    for line in text.lines() {
        let is_continued = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';', '[']) {
            continue;
        }
        if let (true, Some(key)) = (is_continued, &last) {
            let value: &mut String = settings.entry(String::clone(key)).or_default();
            value.push(' ');
            value.push_str(line);
        } else if let Some((key, value)) = line.split_once(['=', ':']) {
            let key = key.trim().to_lowercase().replace('_', "-");
            settings.insert(key.clone(), value.trim().to_owned());
            last = Some(key);
        }
    }
    settings
}

/// Returns the host of an URL of a registry. Only HTTP and HTTPS have one that the proxy serves.
fn url_host(url: &str) -> Option<RequestedHost> {
    let url = url.strip_prefix("sparse+").unwrap_or(url);
    let (default_port, rest) = match url.split_once("://")? {
        ("https", rest) => (443, rest),
        ("http", rest) => (80, rest),
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    RequestedHost::parse(host, Some(default_port)).ok()
}

fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(found: &ReportedRegistries) -> Vec<String> {
        found.hosts.iter().map(ToString::to_string).collect()
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_settings_of_each_manager_are_read_without_credentials() {
        let found = find_registries(&RegistrySources {
            variables: map(&[("PIP_EXTRA_INDEX_URL", "http://extra.example:8080/simple"), ("UV_INDEX_URL", "https://uv.example/simple")]),
            pip: vec!["[global]\nindex-url = https://user:hunter2@pip.example/simple\n[install]\ntrusted-host =\n  pip.example\n  other.example\n".into()],
            npm: vec!["registry=https://npm.example/\n//npm.example/:_authToken=hunter2\n@own:registry = http://scope.example:4873/\n".into()],
            cargo: vec!["[source.crates-io]\nreplace-with = 'mirror'\n[source.mirror]\nregistry = 'sparse+https://cargo.example/index/'\n[registries.own]\nindex = 'https://tok:hunter2@own.example/git'\ntoken = 'hunter2'\n[net]\noffline = true\n".into()],
            cargo_indexes: vec![("cargo.example-0123abcd".into(), r#"{"dl": "https://files.example/crates"}"#.into())],
            go: Some(("https://u:hunter2@go.example|https://v:hunter2@second.example,direct\n".into(), "sum.example https://w:hunter2@sums.example\n".into())),
            ..RegistrySources::default()
        });
        assert_eq!(
            hosts(&found),
            [
                "cargo.example:443",
                "extra.example:8080",
                "files.example:443",
                "go.example:443",
                "npm.example:443",
                "own.example:443",
                "pip.example:443",
                "scope.example:4873",
                "second.example:443",
                "sums.example:443",
                "uv.example:443",
            ]
        );
        let expected = map(&[
            ("GOPROXY", "https://go.example|https://second.example,direct"),
            ("GOSUMDB", "sum.example https://sums.example"),
            ("PIP_EXTRA_INDEX_URL", "http://extra.example:8080/simple"),
            ("PIP_INDEX_URL", "https://pip.example/simple"),
            ("PIP_TRUSTED_HOST", "pip.example other.example"),
            ("UV_INDEX_URL", "https://uv.example/simple"),
            ("npm_config_@own:registry", "http://scope.example:4873/"),
            ("npm_config_registry", "https://npm.example/"),
        ]);
        assert_eq!(found.variables, expected);
        let cargo = found.cargo_config.clone().unwrap();
        assert!(cargo.contains("replace-with = \"mirror\"") && cargo.contains("sparse+https://cargo.example/index/"));
        assert!(
            !format!("{found:?}").contains("hunter2") && !cargo.contains("offline"),
            "{found:?}"
        );
    }

    #[test]
    fn a_variable_wins_over_a_file_and_a_file_over_an_answer() {
        let found = find_registries(&RegistrySources {
            variables: map(&[("PIP_INDEX_URL", "https://variable.example/")]),
            pip: vec!["[global]\nindex_url: https://file.example/".into()],
            npm: vec!["registry = \"https://file.example/\"".into()],
            npm_registry: Some("https://answer.example/\n".into()),
            ..RegistrySources::default()
        });
        assert_eq!(hosts(&found), ["file.example:443", "variable.example:443"]);
    }

    #[test]
    fn what_is_built_in_is_not_reported_but_named() {
        let sources = RegistrySources {
            pip_help: Some("  -i, --index-url <url>  Base URL of the Index (default\n     https://built-in.example/simple). This should".into()),
            uv_help: Some("  --default-index <DEFAULT_INDEX>\n  The default package index (by default: <https://built-in-uv.example/simple>) [env: UV_DEFAULT_INDEX=]".into()),
            cargo_indexes: vec![("index.example-1949cf8c6b5b557f".into(), r#"{"dl":"https://files.example:8443/x"}"#.into())],
            ..RegistrySources::default()
        };
        assert_eq!(find_registries(&sources), ReportedRegistries::default());
        let unreported = find_unreported(&sources);
        let shown: Vec<_> = unreported
            .iter()
            .map(|one| (one.manager, one.hosts.join(" ")))
            .collect();
        assert_eq!(
            shown,
            [
                ("pip", "built-in.example".to_owned()),
                ("uv", "built-in-uv.example".to_owned()),
                ("cargo", "files.example:8443 index.example".to_owned())
            ]
        );
    }

    #[test]
    fn a_manager_that_has_an_index_of_its_own_does_not_use_the_built_in_one() {
        let help = Some("(default https://built-in.example/simple)".to_owned());
        let unreported = find_unreported(&RegistrySources {
            variables: map(&[
                ("PIP_INDEX_URL", "https://own.example/"),
                ("UV_INDEX_URL", "https://own.example/"),
            ]),
            pip_help: help.clone(),
            uv_help: help,
            ..RegistrySources::default()
        });
        assert_eq!(unreported, Vec::new());
    }

    #[test]
    fn other_texts_report_nothing() {
        let found = find_registries(&RegistrySources {
            variables: map(&[
                ("PIP_INDEX_URL", "file:///srv/index"),
                ("PIP_FIND_LINKS", "/opt/wheels"),
            ]),
            cargo: vec!["not toml [".into(), "[source.x]\ndirectory = '/vendor'".into()],
            npm: vec!["; registry=https://comment.example/\nfund=false".into()],
            go: Some(("off".into(), "off".into())),
            ..RegistrySources::default()
        });
        assert_eq!(hosts(&found), Vec::<String>::new());
    }
}
