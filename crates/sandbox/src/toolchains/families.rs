//! The layout of each family of toolchains on the disk.

use std::path::{Path, PathBuf};

use garret_core::ToolchainName;

use super::opt;
use super::user_disk::{
    UserDisk, child_directories, is_present, newest_directory, newest_version, own_directories, read_text,
    resolve_links,
};

/// The entries of an installed version that hold programs and libraries. Settings lie elsewhere in it, such as `etc` or
/// `pip.conf`.
const PREFIX_PARTS: [&str; 11] = [
    "bin",
    // The class loader of Maven.
    "boot",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "include",
    "share",
    "ssl",
    "pyvenv.cfg",
];

/// The other entries of a Java development kit that its programs need.
const JAVA_PARTS: [&str; 5] = ["conf", "jmods", "jre", "legal", "release"];

/// The entries of a Go distribution.
const GO_PARTS: [&str; 9] = [
    "bin", "pkg", "src", "lib", "include", "misc", "api", "VERSION", "go.env",
];

/// The installed toolchains of one family.
#[derive(Debug, Default)]
pub(super) struct ToolchainParts {
    /// The directories in which the family was looked for.
    pub(super) roots: Vec<PathBuf>,
    /// The directories and files that commands see.
    pub(super) parts: Vec<PathBuf>,
    /// Directories with programs that a command finds even if the user's search path lacks them.
    pub(super) programs: Vec<PathBuf>,
    /// Variables with a directory that the programs need.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
}

impl ToolchainParts {
    fn with_roots(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            roots: roots.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds those of the named entries of `directory` that exist.
    fn show(&mut self, directory: &Path, names: &[&str]) {
        let paths = names.iter().map(|name| directory.join(name));
        self.parts.extend(paths.filter(|path| is_present(path)));
    }

    /// Adds an installed version of a language.
    fn show_prefix(&mut self, prefix: &Path) {
        self.show(prefix, &PREFIX_PARTS);
        if is_present(&prefix.join("bin/java")) {
            self.show(prefix, &JAVA_PARTS);
        }
        // mise installs Go without a directory of its own.
        if is_present(&prefix.join("bin/go")) {
            self.show(prefix, &GO_PARTS);
        }
        if is_present(&prefix.join("go/bin/go")) {
            self.show(&prefix.join("go"), &GO_PARTS);
        }
    }

    fn show_prefixes(&mut self, prefixes: &[PathBuf]) {
        prefixes.iter().for_each(|prefix| self.show_prefix(prefix));
    }

    fn find_programs_in(&mut self, directory: Option<PathBuf>) {
        self.programs.extend(directory);
    }

    fn set_variable(&mut self, name: &'static str, directory: PathBuf) {
        if is_present(&directory) {
            self.variables.push((name, directory));
        }
    }
}

/// Looks for the toolchains of one family.
pub(super) fn find_family(name: ToolchainName, disk: &UserDisk<'_>) -> ToolchainParts {
    match name {
        ToolchainName::Rust => find_rust(disk),
        ToolchainName::Pyenv => find_pyenv(disk),
        ToolchainName::Uv => find_uv(disk),
        ToolchainName::Conda => find_conda(disk),
        ToolchainName::Nvm => find_nvm(disk),
        ToolchainName::Fnm => find_fnm(disk),
        ToolchainName::Volta => find_volta(disk),
        ToolchainName::Asdf => find_installs(disk.place("ASDF_DATA_DIR", ".asdf"), &asdf_defaults(disk)),
        ToolchainName::Mise => find_installs(disk.variable("MISE_DATA_DIR").or_else(|| disk.data("mise")), &[]),
        ToolchainName::Go => find_go(disk),
        ToolchainName::Sdkman => find_sdkman(disk),
        ToolchainName::Opt => ToolchainParts {
            parts: opt::shown_parts(disk.opt),
            ..ToolchainParts::with_roots([disk.opt.to_owned()])
        },
    }
}

fn find_rust(disk: &UserDisk<'_>) -> ToolchainParts {
    let cargo = disk.place("CARGO_HOME", ".cargo");
    let rustup = disk.place("RUSTUP_HOME", ".rustup");
    let mut found = ToolchainParts::with_roots(cargo.iter().chain(&rustup).cloned());
    if let Some(cargo) = cargo {
        found.show(&cargo, &["bin"]);
        found.find_programs_in(Some(cargo.join("bin")));
    }
    if let Some(rustup) = rustup {
        let toolchains = rustup.join("toolchains");
        // Every program of rustup makes sure that the directory of the hashes exists.
        found.show(&rustup, &["settings.toml", "update-hashes"]);
        // Some are links to directories elsewhere, which `rustup toolchain link` made.
        found.show_prefixes(&child_directories(&toolchains));
        found.find_programs_in(newest_version(&toolchains).map(|toolchain| toolchain.join("bin")));
        if is_present(&toolchains) {
            found.set_variable("RUSTUP_HOME", rustup);
        }
    }
    found
}

fn find_pyenv(disk: &UserDisk<'_>) -> ToolchainParts {
    let root = disk.place("PYENV_ROOT", ".pyenv");
    let mut found = ToolchainParts::with_roots(root.clone());
    if let Some(root) = root {
        // Not `pyenv.d`: after each `pip install`, its hook writes to `shims`, which is read-only here, and pip would fail.
        found.show(&root, &["shims", "bin", "libexec", "version"]);
        for plugin in child_directories(&root.join("plugins")) {
            // A plugin is a clone of Git, whose settings may hold a token.
            found.show_prefix(&plugin);
            found.show(&plugin, &["shims", "etc/pyenv.d"]);
        }
        found.show_prefixes(&child_directories(&root.join("versions")));
        found.programs = vec![root.join("shims"), root.join("bin")];
        found.set_variable("PYENV_ROOT", root);
    }
    found
}

fn find_uv(disk: &UserDisk<'_>) -> ToolchainParts {
    let bin = disk.place("XDG_BIN_HOME", ".local/bin");
    let python = disk
        .variable("UV_PYTHON_INSTALL_DIR")
        .or_else(|| disk.data("uv/python"));
    let tools = disk.variable("UV_TOOL_DIR").or_else(|| disk.data("uv/tools"));
    let mut found = ToolchainParts::with_roots([&bin, &python, &tools].into_iter().flatten().cloned());
    if let Some(python) = python {
        found.show_prefixes(&child_directories(&python));
        found.set_variable("UV_PYTHON_INSTALL_DIR", python);
    }
    if let Some(tools) = tools {
        found.show_prefixes(&own_directories(&tools));
    }
    if let Some(bin) = bin {
        // Without uv, the directory is not one of this family.
        if is_present(&bin.join("uv")) || !found.parts.is_empty() {
            found.parts.extend(is_present(&bin).then(|| bin.clone()));
        }
        found.find_programs_in(Some(bin));
    }
    found
}

fn find_conda(disk: &UserDisk<'_>) -> ToolchainParts {
    let of_program = disk.variable("CONDA_EXE").and_then(|program| {
        let root = program.parent()?.parent()?;
        Some(root.to_owned())
    });
    let usual = [
        "miniconda3",
        "anaconda3",
        "miniforge3",
        "mambaforge",
        "micromamba",
        ".conda",
    ];
    let mut roots: Vec<_> = of_program
        .into_iter()
        .chain(disk.variable("MAMBA_ROOT_PREFIX"))
        .collect();
    roots.extend(usual.iter().filter_map(|name| disk.below_home(name)));
    let mut found = ToolchainParts::with_roots(roots.clone());
    for root in roots {
        if is_present(&root.join("conda-meta")) {
            found.show_prefix(&root);
            found.show(&root, &["condabin"]);
            found.find_programs_in(Some(root.join("condabin")));
        }
        found.show_prefixes(&own_directories(&root.join("envs")));
    }
    found
}

fn find_nvm(disk: &UserDisk<'_>) -> ToolchainParts {
    let roots: Vec<_> = disk.place("NVM_DIR", ".nvm").into_iter().collect();
    let mut found = ToolchainParts::with_roots(roots.clone());
    for root in roots {
        let versions = root.join("versions/node");
        found.show_prefixes(&own_directories(&versions));
        if found.parts.is_empty() {
            continue;
        }
        found.show(&root, &["nvm.sh", "nvm-exec", "bash_completion", "alias"]);
        let default = nvm_default(&root).or_else(|| newest_version(&versions));
        found.find_programs_in(default.map(|version| version.join("bin")));
        found.set_variable("NVM_DIR", root);
    }
    found
}

/// Returns the installed version that the alias `default` names, perhaps through other aliases.
fn nvm_default(root: &Path) -> Option<PathBuf> {
    let mut wanted = "default".to_owned();
    // Aliases may name each other in a circle.
    for _ in 0..8 {
        match read_text(&root.join("alias").join(&wanted)) {
            Some(text) => wanted = text.trim().to_owned(),
            None => break,
        }
    }
    let number = wanted.trim_start_matches('v');
    let is_wanted = |version: &PathBuf| {
        let name = version.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.trim_start_matches('v').strip_prefix(number);
        !number.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let versions = own_directories(&root.join("versions/node"));
    newest_directory(versions.into_iter().filter(is_wanted))
}

fn find_fnm(disk: &UserDisk<'_>) -> ToolchainParts {
    let usual = [disk.data("fnm"), disk.below_home(".fnm")];
    let roots: Vec<_> = match disk.variable("FNM_DIR") {
        Some(root) => vec![root],
        None => usual.into_iter().flatten().collect(),
    };
    let mut found = ToolchainParts::with_roots(roots.clone());
    for root in roots {
        let versions = root.join("node-versions");
        for version in own_directories(&versions) {
            found.show_prefix(&version.join("installation"));
        }
        let default = resolve_links(&root.join("aliases/default"));
        let newest = || newest_version(&versions).map(|version| version.join("installation"));
        found.find_programs_in(default.or_else(newest).map(|version| version.join("bin")));
    }
    found
}

/// Volta's own programs choose a version and want to write locks, so commands find those of the default versions.
fn find_volta(disk: &UserDisk<'_>) -> ToolchainParts {
    let root = disk.place("VOLTA_HOME", ".volta");
    let mut found = ToolchainParts::with_roots(root.clone());
    if let Some(tools) = root.map(|root| root.join("tools")) {
        let platform = read_text(&tools.join("user/platform.json")).unwrap_or_default();
        let platform: serde_json::Value = serde_json::from_str(&platform).unwrap_or_default();
        for kind in ["node", "npm", "pnpm", "yarn"] {
            let images = tools.join("image").join(kind);
            found.show_prefixes(&own_directories(&images));
            let wanted = match kind {
                "node" => &platform["node"]["runtime"],
                "npm" => &platform["node"]["npm"],
                _ => &platform[kind],
            };
            let default = wanted.as_str().map(|version| images.join(version));
            let default = default.filter(|image| is_present(image));
            let chosen = default.or_else(|| newest_version(&images));
            found.find_programs_in(chosen.map(|image| image.join("bin")));
        }
        for package in own_directories(&tools.join("image/packages")) {
            found.show_prefix(&package);
            found.find_programs_in(Some(package.join("bin")));
        }
    }
    found
}

/// Looks for the versions of asdf and mise: `installs/PLUGIN/VERSION`. Their own programs choose a version by files in the
/// home directory, so commands find those of the default versions.
fn find_installs(root: Option<PathBuf>, defaults: &[(String, String)]) -> ToolchainParts {
    let mut found = ToolchainParts::with_roots(root.clone());
    let plugins = root
        .map(|root| own_directories(&root.join("installs")))
        .unwrap_or_default();
    for plugin in plugins {
        found.show_prefixes(&own_directories(&plugin));
        let is_of_plugin = |(name, _): &&(String, String)| plugin.ends_with(name);
        let default = defaults.iter().find(is_of_plugin);
        let default = default
            .map(|(_, version)| plugin.join(version))
            .filter(|one| is_present(one));
        if let Some(version) = default.or_else(|| newest_version(&plugin)) {
            found.find_programs_in(Some(version.join("bin")));
            found.find_programs_in(Some(version.join("go/bin")));
        }
    }
    found
}

/// Returns the versions that the user chose for asdf.
fn asdf_defaults(disk: &UserDisk<'_>) -> Vec<(String, String)> {
    let chosen = disk.below_home(".tool-versions").and_then(|path| read_text(&path));
    let lines = chosen.unwrap_or_default();
    let read_line = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    lines.lines().filter_map(read_line).collect()
}

fn find_go(disk: &UserDisk<'_>) -> ToolchainParts {
    let sdk = disk.below_home("sdk");
    let gopath = disk.place("GOPATH", "go");
    let root = disk.variable("GOROOT");
    let system = PathBuf::from("/usr/local/go");
    let mut found = ToolchainParts::with_roots(root.iter().chain(&sdk).chain([&system]).chain(&gopath).cloned());
    let is_go = |path: &PathBuf| is_present(&path.join("bin/go"));
    let of_sdk = sdk.map(|sdk| own_directories(&sdk)).unwrap_or_default();
    let distributions: Vec<_> = root.into_iter().chain(of_sdk).chain([system]).filter(is_go).collect();
    for distribution in &distributions {
        found.show(distribution, &GO_PARTS);
        found.find_programs_in(Some(distribution.join("bin")));
    }
    if let Some(gopath) = gopath.filter(|_| !distributions.is_empty()) {
        found.show(&gopath, &["bin"]);
        found.find_programs_in(Some(gopath.join("bin")));
    }
    found
}

fn find_sdkman(disk: &UserDisk<'_>) -> ToolchainParts {
    let root = disk.place("SDKMAN_DIR", ".sdkman");
    let mut found = ToolchainParts::with_roots(root.clone());
    let candidates = root
        .map(|root| own_directories(&root.join("candidates")))
        .unwrap_or_default();
    for candidate in candidates {
        found.show_prefixes(&own_directories(&candidate));
        let current = resolve_links(&candidate.join("current")).or_else(|| newest_version(&candidate));
        if let Some(current) = current {
            found.find_programs_in(Some(current.join("bin")));
            if candidate.ends_with("java") {
                found.set_variable("JAVA_HOME", current);
            }
        }
    }
    found
}
