//! Layers for tests: directories made by hand, and real overlays in a mount namespace that ends with its script.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(clippy::disallowed_methods, reason = "a layer is made by the file system itself")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use garret_core::{Effect, EffectLimits, Effects, EffectsMark, PlacedEntry};
use garret_sandbox::effects;

/// Sets an attribute (`-n NAME -v VALUE FILE`) or removes one (`-x NAME FILE`), as the tool of this name does where it is installed.
const SETFATTR: &str = r#"setfattr() { python3 -c 'import os, sys
a = sys.argv
os.removexattr(a[3], a[2]) if a[1] == "-x" else os.setxattr(a[5], a[2], a[4].encode())' "$@"; }"#;

/// A lower and an upper directory, and where they are mounted.
pub(crate) struct Layers {
    directory: tempfile::TempDir,
}

impl Layers {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    pub(crate) fn lower(&self) -> PathBuf {
        self.directory.path().join("lower")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.directory.path().join("upper")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Runs a script in the lower directory.
    pub(crate) fn below(&self, script: &str) {
        run_in(&self.lower(), script);
    }

    /// Runs a script in the upper directory, as one who forges a layer would.
    pub(crate) fn above(&self, script: &str) {
        run_in(&self.upper(), script);
    }

    /// Runs a script in an overlay of the two; `false` where this machine mounts none.
    pub(crate) fn merged(&self, script: &str) -> bool {
        let mount =
            "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr merged || exit 99";
        let whole = format!("{SETFATTR}\n{mount}\ncd merged\n{script}\ntrue");
        let flags = if is_root() { "-m" } else { "-Urm" };
        let mut command = Command::new("unshare");
        command
            .args([flags, "sh", "-c", &whole])
            .current_dir(self.directory.path());
        let output = command.output().unwrap();
        match output.status.code() {
            Some(0) => true,
            Some(99) | Some(1) => {
                println!("not shown here, because no overlay can be mounted: {output:?}");
                false
            }
            _ => panic!("{output:?}"),
        }
    }

    pub(crate) fn effects(&self, since: Option<&EffectsMark>) -> Effects {
        self.effects_within(since, EffectLimits::default()).unwrap()
    }

    pub(crate) fn effects_within(
        &self,
        since: Option<&EffectsMark>,
        limits: EffectLimits,
    ) -> garret_core::Result<Effects> {
        let (upper, lower) = (File::open(self.upper()).unwrap(), File::open(self.lower()).unwrap());
        effects::read_upper_effects(upper.as_fd(), lower.as_fd(), since, limits)
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn run_in(directory: &Path, script: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("{SETFATTR}\nset -e\n{script}")])
        .current_dir(directory)
        .status();
    assert!(status.unwrap().success(), "{script}");
}

/// The effects in words: `f path mode content`, `d path mode`, `l path target`, `- path`.
pub(crate) fn words(effects: &Effects) -> Vec<String> {
    effects.effects.iter().map(word).collect()
}

fn word(effect: &Effect) -> String {
    let path = effect.path.display_path();
    match &effect.placed {
        PlacedEntry::Nothing => format!("- {path}"),
        PlacedEntry::File { content, mode } => {
            let text = String::from_utf8_lossy(&content.to_bytes().unwrap())
                .trim_end()
                .to_owned();
            format!("f {path} {mode:o} {text}")
        }
        PlacedEntry::Directory { mode } => format!("d {path} {mode:o}"),
        PlacedEntry::Symlink { target } => format!("l {path} {target}"),
        PlacedEntry::Image(_) => panic!("a sandbox cannot read content from history"),
    }
}

/// What was left out, in words.
pub(crate) fn dropped(effects: &Effects) -> Vec<String> {
    let word = |one: &garret_core::DroppedEntry| format!("{} {}", one.path.display_path(), one.what);
    effects.dropped.iter().map(word).collect()
}

/// Does to a directory what the effects say.
pub(crate) fn apply(effects: &Effects, root: &Path) {
    for effect in &effects.effects {
        let path = root.join(OsStr::from_bytes(effect.path.as_bytes()));
        let there = fs::symlink_metadata(&path).ok();
        let is_directory = there.as_ref().is_some_and(fs::Metadata::is_dir);
        let wants_directory = matches!(effect.placed, PlacedEntry::Directory { .. });
        if there.is_some() && !(is_directory && wants_directory) {
            match is_directory {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
        }
        match &effect.placed {
            PlacedEntry::Nothing => {}
            PlacedEntry::File { content, mode } => {
                fs::write(&path, content.to_bytes().unwrap()).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            PlacedEntry::Directory { mode } => {
                if !is_directory {
                    fs::create_dir(&path).unwrap();
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            PlacedEntry::Symlink { target } => symlink(target, &path).unwrap(),
            PlacedEntry::Image(_) => panic!("a sandbox cannot read content from history"),
        }
    }
}

/// Everything in a directory, by path.
pub(crate) fn tree(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    gather(root, root, &mut found);
    found
}

fn gather(root: &Path, directory: &Path, found: &mut BTreeMap<Vec<u8>, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let mode = meta.mode() & 0o7777;
        let node = if meta.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else if meta.is_dir() {
            format!("directory {mode:o}")
        } else if meta.is_file() {
            let mut content = Vec::new();
            File::open(&path).unwrap().read_to_end(&mut content).unwrap();
            format!("file {mode:o} {:?}", String::from_utf8_lossy(&content))
        } else {
            "other".to_owned()
        };
        found.insert(path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec(), node);
        if meta.is_dir() {
            gather(root, &path, found);
        }
    }
}

/// A copy of a directory with modes and times.
pub(crate) fn twin(of: &Path) -> tempfile::TempDir {
    let twin = tempfile::tempdir().unwrap();
    run_in(twin.path(), &format!("cp -a '{}/.' .", of.display()));
    twin
}

/// Random numbers that are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// Runs the named test again as somebody who is not root, where this is root; `true` where the caller should run it itself.
pub(crate) fn is_somebody(test: &str) -> bool {
    if !is_root() {
        return true;
    }
    let mut again = Command::new("setpriv");
    again.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    again
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"]);
    let output = again.env("TMPDIR", "/tmp").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
    false
}
