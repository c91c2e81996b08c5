//! The layouts of toolchains on a disk, with a credential beside the programs of each.

#![allow(clippy::disallowed_methods, reason = "these tests make directories of a user")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

const CREDENTIAL: &str = "CANARY";

/// The home directory of a user, and `/opt`.
struct UserDirectories {
    directory: TempDir,
    environment: BTreeMap<String, String>,
    private: Vec<PathBuf>,
    shown: Vec<PathBuf>,
}

impl UserDirectories {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("home")).unwrap();
        Self {
            directory,
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            private: Vec::new(),
            shown: Vec::new(),
        }
    }

    fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    fn add(&self, path: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn find_as(&self, choice: &ToolchainChoice, is_root: bool) -> Result<FoundToolchains> {
        let (home, opt) = (self.home(), self.directory.path().join("opt"));
        let search = ToolchainSearch {
            home: Some(&home),
            environment: &self.environment,
            opt: &opt,
            private: &self.private,
            shown: &self.shown,
            is_root,
        };
        find_toolchains(&search, choice)
    }

    fn find(&self, names: &[ToolchainName]) -> FoundToolchains {
        self.find_as(&ToolchainChoice::Named(names.to_vec()), false).unwrap()
    }

    fn error(&self, name: ToolchainName, is_root: bool) -> Error {
        let named = ToolchainChoice::Named(vec![name]);
        self.find_as(&named, is_root).unwrap_err()
    }

    /// Returns the directories of the search path that lie in the directories of the user.
    fn own_search_path(&self, found: &FoundToolchains) -> Vec<String> {
        let below = |path: &PathBuf| Some(path.strip_prefix(self.directory.path()).ok()?.display().to_string());
        found.search_path.iter().filter_map(below).collect()
    }
}

/// Returns whether a command sees the path through the mounts.
fn is_shown(found: &FoundToolchains, path: &Path) -> bool {
    let real = path.canonicalize().unwrap();
    found.mounts.iter().any(|mount| real.starts_with(&mount.source))
}

/// Each family, with programs and libraries that commands see, and files with credentials that they do not.
const FAMILIES: [(ToolchainName, &[&str], &[&str]); 12] = [
    (
        ToolchainName::Rust,
        &[
            "home/.cargo/bin/cargo",
            "home/.rustup/toolchains/stable/bin/rustc",
            "home/.rustup/settings.toml",
        ],
        &[
            "home/.cargo/credentials.toml",
            "home/.cargo/credentials",
            "home/.cargo/config.toml",
            "home/.rustup/toolchains/stable/credentials.toml",
            "home/.cargo/registry/x",
        ],
    ),
    (
        ToolchainName::Pyenv,
        &[
            "home/.pyenv/shims/python",
            "home/.pyenv/versions/3.12.1/bin/python3",
            "home/.pyenv/versions/3.12.1/lib/x.py",
            "home/.pyenv/plugins/python-build/bin/python-build",
            "home/.pyenv/plugins/virtualenv/etc/pyenv.d/exec/x.bash",
        ],
        &[
            "home/.pyenv/plugins/virtualenv/.git/config",
            "home/.pyenv/plugins/virtualenv/.env",
            "home/.pyenv/versions/3.12.1/pip.conf",
            "home/.pyenv/.git/config",
            "home/.pyenv/versions/3.12.1/etc/x",
        ],
    ),
    (
        ToolchainName::Uv,
        &[
            "home/.local/bin/uv",
            "home/.local/share/uv/python/cpython-3.12/bin/python3",
            "home/.local/share/uv/tools/ruff/bin/ruff",
        ],
        &[
            "home/.local/share/uv/credentials/x",
            "home/.local/share/uv/tools/ruff/pip.conf",
            "home/.local/share/keyrings/x",
        ],
    ),
    (
        ToolchainName::Conda,
        &[
            "home/miniconda3/conda-meta/history",
            "home/miniconda3/bin/conda",
            "home/miniconda3/envs/a/lib/libx.so",
        ],
        &[
            "home/miniconda3/.condarc",
            "home/miniconda3/envs/a/.condarc",
            "home/miniconda3/envs/a/etc/conda/token",
            "home/.conda/tokens",
        ],
    ),
    (
        ToolchainName::Nvm,
        &[
            "home/.nvm/versions/node/v20.1.0/bin/node",
            "home/.nvm/versions/node/v20.1.0/lib/node_modules/npm/x.js",
        ],
        &[
            "home/.nvm/.npmrc",
            "home/.nvm/versions/node/v20.1.0/etc/npmrc",
            "home/.nvm/.cache/x",
        ],
    ),
    (
        ToolchainName::Fnm,
        &["home/.local/share/fnm/node-versions/v22.0.0/installation/bin/node"],
        &["home/.local/share/fnm/node-versions/v22.0.0/installation/etc/npmrc"],
    ),
    (
        ToolchainName::Volta,
        &[
            "home/.volta/tools/image/node/20.1.0/bin/node",
            "home/.volta/tools/image/yarn/4.0.0/bin/yarn",
        ],
        &[
            "home/.volta/tools/image/node/20.1.0/etc/npmrc",
            "home/.volta/hooks.json",
        ],
    ),
    (
        ToolchainName::Asdf,
        &["home/.asdf/installs/nodejs/20.1.0/bin/node"],
        &[
            "home/.asdf/installs/nodejs/20.1.0/etc/npmrc",
            "home/.asdf/.git/config",
            "home/.asdfrc",
        ],
    ),
    (
        ToolchainName::Mise,
        &[
            "home/.local/share/mise/installs/go/1.22/go/bin/go",
            "home/.local/share/mise/installs/go/1.22/bin/tool",
        ],
        &[
            "home/.local/share/mise/installs/go/1.22/etc/x",
            "home/.config/mise/config.toml",
        ],
    ),
    (
        ToolchainName::Go,
        &["home/sdk/go1.22/bin/go", "home/sdk/go1.22/pkg/x", "home/go/bin/gopls"],
        &["home/.config/go/env", "home/go/pkg/mod/cache/x", "home/.netrc"],
    ),
    (
        ToolchainName::Sdkman,
        &[
            "home/.sdkman/candidates/java/21/bin/java",
            "home/.sdkman/candidates/java/21/conf/x",
        ],
        &[
            "home/.sdkman/etc/config",
            "home/.m2/settings.xml",
            "home/.sdkman/candidates/maven/3.9/conf/settings.xml",
        ],
    ),
    (
        ToolchainName::Opt,
        &["opt/tool/bin/tool", "opt/plain/program"],
        &[
            "opt/plain/.npmrc",
            "opt/tool/.netrc",
            "opt/tool/etc/token",
            "opt/.ssh/id",
            "opt/tool/credentials.json",
        ],
    ),
];

fn full_disk() -> UserDirectories {
    let user = UserDirectories::new();
    for (_, shown, hidden) in FAMILIES {
        shown.iter().for_each(|path| drop(user.add(path, "")));
        hidden.iter().for_each(|path| drop(user.add(path, CREDENTIAL)));
    }
    for path in [
        ".ssh/id_ed25519",
        ".npmrc",
        ".netrc",
        ".pypirc",
        ".config/pip/pip.conf",
        ".aws/credentials",
    ] {
        user.add(&format!("home/{path}"), CREDENTIAL);
    }
    user
}

#[test]
fn each_family_is_shown_without_the_credentials_beside_it() {
    let user = full_disk();
    let path = |path: &&str| user.directory.path().join(path);
    for (name, shown, hidden) in FAMILIES {
        let found = user.find(&[name]);
        for path in shown.iter().map(path) {
            let is_setting = path.ends_with("history");
            assert_eq!(is_shown(&found, &path), !is_setting, "{name:?} {}", path.display());
        }
        for path in hidden.iter().map(path) {
            assert!(!is_shown(&found, &path), "{name:?} shows {}", path.display());
        }
    }
}

#[test]
fn no_file_with_a_credential_lies_in_any_mount() {
    let user = full_disk();
    let found = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    assert_eq!(found.left_out, []);
    let mut ahead: Vec<_> = found.mounts.iter().map(|mount| mount.source.clone()).collect();
    let mut files = 0;
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files += 1;
            assert_ne!(fs::read_to_string(&path).unwrap(), CREDENTIAL, "{}", path.display());
        }
    }
    assert!(files >= FAMILIES.len(), "{files} files are shown");
}

#[test]
fn every_mount_can_be_read_only_and_lies_at_a_free_place() {
    let found = full_disk().find_as(&ToolchainChoice::Auto, false).unwrap();
    for mount in &found.mounts {
        assert_eq!(mount.access, garret_core::MountAccess::Read);
        assert!(check_mount_target(mount.target_path()).is_ok(), "{mount:?}");
    }
}

#[test]
fn programs_are_searched_as_by_the_user_and_then_in_the_default_version_of_each_family() {
    let mut user = full_disk();
    user.add("home/.nvm/versions/node/v9.9.9/bin/node", "");
    user.add("home/.volta/tools/image/node/18.0.0/bin/node", "");
    user.add(
        "home/.volta/tools/user/platform.json",
        r#"{"node": {"runtime": "18.0.0"}}"#,
    );
    let search = |user: &UserDirectories, names: &[ToolchainName]| user.own_search_path(&user.find(names));
    // The newest version by its number, not by its letters.
    assert_eq!(
        search(&user, &[ToolchainName::Nvm]),
        ["home/.nvm/versions/node/v20.1.0/bin"]
    );
    user.add("home/.nvm/alias/default", "lts\n");
    user.add("home/.nvm/alias/lts", "9\n");
    assert_eq!(
        search(&user, &[ToolchainName::Nvm]),
        ["home/.nvm/versions/node/v9.9.9/bin"]
    );
    assert_eq!(
        search(&user, &[ToolchainName::Volta]),
        [
            "home/.volta/tools/image/node/18.0.0/bin",
            "home/.volta/tools/image/yarn/4.0.0/bin"
        ]
    );
    let home = user.home().display().to_string();
    let hidden = format!("{home}/.nvm:{home}/bin");
    user.environment.insert(
        "PATH".into(),
        format!("{hidden}:{home}/.pyenv/shims:/usr/bin:relative:{home}/.cargo/bin"),
    );
    let found = user.find(&[ToolchainName::Rust, ToolchainName::Pyenv]);
    assert_eq!(found.search_path[1], Path::new("/usr/bin"));
    assert_eq!(
        user.own_search_path(&found),
        [
            "home/.pyenv/shims",
            "home/.cargo/bin",
            "home/.rustup/toolchains/stable/bin"
        ]
    );
}

#[test]
fn programs_get_the_directories_of_their_family_and_those_that_the_user_names() {
    let mut user = full_disk();
    let home = user.home().display().to_string();
    let elsewhere = user.directory.path().join("elsewhere");
    user.add("elsewhere/cargo/bin/cargo", "");
    user.add("elsewhere/cargo/credentials.toml", CREDENTIAL);
    for (name, value) in [
        ("CARGO_HOME", format!("{}/cargo", elsewhere.display())),
        ("JAVA_HOME", format!("{home}/.sdkman/candidates/java/21")),
        ("GOROOT", format!("{home}/secret")),
        ("TOKEN", CREDENTIAL.into()),
    ] {
        user.environment.insert(name.into(), value);
    }
    let found = user.find(&[ToolchainName::Rust, ToolchainName::Sdkman]);
    assert!(is_shown(&found, &elsewhere.join("cargo/bin/cargo")));
    assert!(!is_shown(&found, &elsewhere.join("cargo/credentials.toml")));
    assert!(!is_shown(&found, &user.home().join(".cargo/bin")));
    let names: Vec<_> = found
        .variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    assert_eq!(
        names,
        [
            ("JAVA_HOME", format!("{home}/.sdkman/candidates/java/21")),
            ("RUSTUP_HOME", format!("{home}/.rustup")),
        ]
    );
}

#[test]
fn a_directory_behind_a_link_is_shown_at_both_paths() {
    let user = UserDirectories::new();
    user.add("elsewhere/cargo/bin/cargo", "");
    user.add("elsewhere/cargo/credentials.toml", CREDENTIAL);
    user.add("elsewhere/linked/bin/rustc", "");
    user.add("elsewhere/linked/credentials.toml", CREDENTIAL);
    user.add("home/.rustup/settings.toml", "");
    fs::create_dir(user.home().join(".rustup/toolchains")).unwrap();
    symlink("../elsewhere/cargo", user.home().join(".cargo")).unwrap();
    symlink("../../../elsewhere/linked", user.home().join(".rustup/toolchains/mine")).unwrap();
    let found = user.find(&[ToolchainName::Rust]);
    let targets: Vec<_> = found.mounts.iter().map(SandboxMount::target_path).collect();
    let real = user.directory.path().join("elsewhere");
    for target in [
        &user.home().join(".cargo/bin"),
        &real.join("cargo/bin"),
        &real.join("linked/bin"),
    ] {
        assert!(targets.contains(&target.as_path()), "{targets:?}");
    }
    assert!(!is_shown(&found, &real.join("cargo/credentials.toml")));
    assert!(!is_shown(&found, &real.join("linked/credentials.toml")));
}

#[test]
fn a_private_home_hides_no_toolchain_but_a_private_toolchain_is_left_out() {
    let user = full_disk();
    fs::set_permissions(user.home(), Permissions::from_mode(0o700)).unwrap();
    let all = user.find_as(&ToolchainChoice::Auto, true).unwrap();
    assert_eq!(all.left_out, []);
    let bin = user.home().join(".cargo/bin");
    assert!(is_shown(&all, &bin));
    fs::set_permissions(&bin, Permissions::from_mode(0o700)).unwrap();
    let found = user.find_as(&ToolchainChoice::Auto, true).unwrap();
    let left_out = LeftOutDirectory {
        toolchain: ToolchainName::Rust,
        path: bin,
        reason: LeftOutReason::Unreadable,
    };
    assert_eq!(found.left_out, [left_out]);
    // Commands of the user himself run as he does.
    assert_eq!(user.find_as(&ToolchainChoice::Auto, false).unwrap().left_out, []);
    let error = user.error(ToolchainName::Rust, true);
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(
        error.message().contains("`rust`") && error.message().contains("`~/.cargo/bin`"),
        "{error}"
    );
    assert!(error.hint_text().contains("chmod -R o+rX"), "{error}");
}

#[test]
fn a_toolchain_that_is_asked_for_and_not_there_is_an_error_with_the_places() {
    let user = UserDirectories::new();
    let error = user.error(ToolchainName::Rust, false);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("`~/.cargo` or `~/.rustup`"), "{error}");
    assert!(error.hint_text().contains("install it"), "{error}");
    assert!(!error.to_string().contains(user.home().to_str().unwrap()), "{error}");
    let auto = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    assert_eq!(auto.mounts, []);
    assert_eq!(
        user.find_as(&ToolchainChoice::None, false).unwrap(),
        FoundToolchains::default()
    );
}

#[test]
fn the_workspace_and_the_files_of_garret_are_no_part_of_a_toolchain() {
    let mut user = full_disk();
    user.private = vec![
        user.directory.path().join("opt/plain"),
        user.home().join(".local/share/uv/python/garret"),
    ];
    user.add("home/.local/share/uv/python/garret/bin/x", "");
    let found = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    assert!(!is_shown(&found, &user.directory.path().join("opt/plain/program")));
    assert!(!is_shown(
        &found,
        &user.home().join(".local/share/uv/python/garret/bin/x")
    ));
    assert!(found.left_out.iter().all(|one| one.reason == LeftOutReason::Private));
    assert_eq!(found.left_out.len(), 2, "{:?}", found.left_out);
    assert_eq!(user.error(ToolchainName::Opt, false).kind(), ErrorKind::Denied);
}

#[test]
fn programs_of_an_activated_environment_in_the_workspace_are_found_if_it_is_shown_at_its_own_path() {
    let mut user = UserDirectories::new();
    let project = user.home().join("project");
    user.add("home/project/venv/bin/python", "");
    let (project, venv) = (project.clone(), project.join("venv"));
    user.environment
        .insert("PATH".into(), format!("{}/bin:/usr/bin", venv.display()));
    user.environment
        .insert("VIRTUAL_ENV".into(), venv.display().to_string());
    user.private = vec![project.clone()];
    let hidden = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    assert_eq!(user.own_search_path(&hidden), [] as [&str; 0]);
    assert!(hidden.variables.is_empty());
    user.shown = vec![project];
    let found = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    assert_eq!(user.own_search_path(&found), ["home/project/venv/bin"]);
    assert_eq!(found.variables["VIRTUAL_ENV"], venv.display().to_string());
    assert_eq!(found.mounts, []);
}

#[test]
fn programs_on_the_search_path_that_commands_do_not_find_are_listed() {
    let user = full_disk();
    user.add("home/bin/mine", "");
    user.add("home/bin/cargo", "");
    user.add("home/bin/notes", "");
    fs::set_permissions(user.home().join("bin/notes"), Permissions::from_mode(0o644)).unwrap();
    let path = format!("{0}/bin:{0}/.cargo/bin:/usr/bin:relative", user.home().display());
    let found = user.find(&[ToolchainName::Rust]);
    let listed = list_programs(&found, &path, Some(&user.home()));
    let directory = |directory: &str, program: &str| ProgramDirectory {
        directory: directory.to_owned(),
        programs: vec![program.to_owned()],
    };
    let rustc = directory("~/.rustup/toolchains/stable/bin", "rustc");
    assert_eq!(listed.found, [directory("~/.cargo/bin", "cargo"), rustc]);
    assert_eq!(listed.not_found, [directory("~/bin", "mine")]);
}

#[test]
fn a_link_that_a_command_can_replace_shows_nothing_of_its_target() {
    let mut user = UserDirectories::new();
    user.add("secret/key", CREDENTIAL);
    user.add("work/build/lib/x", "");
    let work = fs::canonicalize(user.directory.path().join("work")).unwrap();
    symlink("../../secret", work.join("build/bin")).unwrap();
    fs::create_dir_all(user.home().join(".rustup/toolchains")).unwrap();
    symlink(work.join("build"), user.home().join(".rustup/toolchains/dev")).unwrap();
    user.private = vec![work];
    let found = user.find_as(&ToolchainChoice::Auto, false).unwrap();
    let secret = fs::canonicalize(user.directory.path().join("secret")).unwrap();
    let is_of_secret = |mount: &SandboxMount| mount.source.starts_with(&secret);
    assert!(!found.mounts.iter().any(is_of_secret), "{:?}", found.mounts);
    let reasons: Vec<_> = found.left_out.iter().map(|one| one.reason).collect();
    assert!(reasons.contains(&LeftOutReason::Private), "{reasons:?}");
}
