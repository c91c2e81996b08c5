//! The rules of `.gitignore`, `.ignore` and `.git/info/exclude`, which leave files out of a search.
//!
//! The rules of a directory are added to those of the directory above. The innermost file that mentions a path decides;
//! `.ignore` wins over `.gitignore`, which wins over `.git/info/exclude`. A directory with its own `.git` is a
//! repository of its own: the git rules above it do not apply inside. A line that is not a glob is passed over, as git
//! does.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use garret_core::{DirectoryEntry, DirectoryHandle, OpenFile};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The most bytes that are read of one file of rules.
const MAX_RULES_BYTES: u64 = 4 << 20;

/// The verdict of the rules on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoreVerdict {
    /// No rule mentions the path.
    Unmentioned,
    /// The path is left out.
    Ignored,
    /// A `!` line keeps the path, even if hidden files are left out.
    Kept,
}

/// The rules of one directory and, through `above`, of all directories above it.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    above: Option<Arc<IgnoreRules>>,
    /// The length of the path of this directory, its slash included.
    prefix: usize,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
}

/// The files of rules that a directory has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RuleFiles {
    ignore: bool,
    gitignore: bool,
    git: bool,
}

impl RuleFiles {
    /// Returns all of them, to be tried one by one in a directory whose entries are not known.
    pub(super) fn assume_all() -> Self {
        Self {
            ignore: true,
            gitignore: true,
            git: true,
        }
    }

    /// Returns the files of rules among `entries`.
    pub(super) fn among_entries(entries: &[DirectoryEntry]) -> Self {
        let mut files = Self::default();
        for entry in entries.iter().filter(|entry| entry.name.first() == Some(&b'.')) {
            match entry.name.as_slice() {
                b".ignore" => files.ignore = true,
                b".gitignore" => files.gitignore = true,
                b".git" => files.git = true,
                _ => {}
            }
        }
        files
    }
}

/// Returns the rules that hold in `directory`, at `path`: its own in addition to those `above`.
pub(super) fn load_rules(
    directory: &dyn DirectoryHandle,
    path: &[u8],
    files: RuleFiles,
    above: Option<&Arc<IgnoreRules>>,
) -> Option<Arc<IgnoreRules>> {
    if files == RuleFiles::default() {
        return above.cloned();
    }
    let own = |wanted: bool, name: &[u8]| {
        if wanted {
            directory
                .open_file(name)
                .map_or_else(|_| Gitignore::empty(), parse_rules_file)
        } else {
            Gitignore::empty()
        }
    };
    let (is_repository, exclude) = if files.git {
        read_repository(directory)
    } else {
        (false, Gitignore::empty())
    };
    let rules = IgnoreRules {
        above: above.cloned(),
        prefix: if path.is_empty() { 0 } else { path.len() + 1 },
        ignore: own(files.ignore, b".ignore"),
        gitignore: own(files.gitignore, b".gitignore"),
        exclude,
        is_repository,
    };
    // A level without rules would only be one more to ask for every path below.
    if rules.is_empty() {
        above.cloned()
    } else {
        Some(Arc::new(rules))
    }
}

/// Returns whether the directory is the root of a repository, and the rules of its `.git/info/exclude`.
fn read_repository(directory: &dyn DirectoryHandle) -> (bool, Gitignore) {
    match directory.open_directory(b".git") {
        Ok(git) => {
            let exclude = git.open_directory(b"info").and_then(|info| info.open_file(b"exclude"));
            (true, exclude.map_or_else(|_| Gitignore::empty(), parse_rules_file))
        }
        // A linked work tree has a file here; the directory that it names may lie outside the workspace, and is not
        // read.
        Err(_) => (directory.open_file(b".git").is_ok(), Gitignore::empty()),
    }
}

fn parse_rules_file(file: OpenFile) -> Gitignore {
    let mut bytes = Vec::new();
    match file.content.take(MAX_RULES_BYTES).read_to_end(&mut bytes) {
        Ok(_) => parse_rules(&bytes),
        Err(_) => Gitignore::empty(),
    }
}

fn parse_rules(bytes: &[u8]) -> Gitignore {
    let text = String::from_utf8_lossy(bytes);
    // With this root the matcher takes paths as they are: relative to the directory of the rules.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A line that is not a glob is passed over, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

impl IgnoreRules {
    fn is_empty(&self) -> bool {
        !self.is_repository && self.ignore.is_empty() && self.gitignore.is_empty() && self.exclude.is_empty()
    }

    /// Returns the verdict of these rules and those above them on `path`, from the same root as the paths given to
    /// [`load_rules`].
    pub(super) fn judge_path(&self, path: &[u8], is_directory: bool) -> IgnoreVerdict {
        let mut verdicts = [IgnoreVerdict::Unmentioned; 3];
        let mut in_repository = true;
        let mut level = Some(self);
        while let Some(rules) = level {
            let relative = Path::new(OsStr::from_bytes(&path[rules.prefix..]));
            let [ignore, gitignore, exclude] = &mut verdicts;
            // From the innermost level outwards: the first verdict of each kind of file stands.
            update_verdict(ignore, &rules.ignore, relative, is_directory);
            if in_repository {
                update_verdict(gitignore, &rules.gitignore, relative, is_directory);
                update_verdict(exclude, &rules.exclude, relative, is_directory);
            }
            // Git rules end at the root of a repository; `.ignore` files above it still count.
            in_repository &= !rules.is_repository;
            level = rules.above.as_deref();
        }
        let said = |verdict: &IgnoreVerdict| *verdict != IgnoreVerdict::Unmentioned;
        verdicts.into_iter().find(said).unwrap_or(IgnoreVerdict::Unmentioned)
    }
}

fn update_verdict(verdict: &mut IgnoreVerdict, rules: &Gitignore, path: &Path, is_directory: bool) {
    if *verdict == IgnoreVerdict::Unmentioned && !rules.is_empty() {
        *verdict = match rules.matched(path, is_directory) {
            Match::None => IgnoreVerdict::Unmentioned,
            Match::Ignore(_) => IgnoreVerdict::Ignored,
            Match::Whitelist(_) => IgnoreVerdict::Kept,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(above: Option<Arc<IgnoreRules>>, path: &str, ignore: &str, gitignore: &str) -> IgnoreRules {
        IgnoreRules {
            above,
            prefix: if path.is_empty() { 0 } else { path.len() + 1 },
            ignore: parse_rules(ignore.as_bytes()),
            gitignore: parse_rules(gitignore.as_bytes()),
            exclude: Gitignore::empty(),
            is_repository: false,
        }
    }

    fn file(rules: &IgnoreRules, path: &str) -> IgnoreVerdict {
        rules.judge_path(path.as_bytes(), false)
    }

    #[test]
    fn the_last_line_that_matches_decides() {
        let rules = level(None, "", "", "*.log\n!keep.log\n/keep.log/x\n");
        assert_eq!(file(&rules, "a/b.log"), IgnoreVerdict::Ignored);
        assert_eq!(file(&rules, "a/keep.log"), IgnoreVerdict::Kept);
        assert_eq!(file(&rules, "a/b.txt"), IgnoreVerdict::Unmentioned);
    }

    #[test]
    fn a_trailing_slash_means_directories_only() {
        let rules = level(None, "", "", "build/\n");
        assert_eq!(rules.judge_path(b"src/build", true), IgnoreVerdict::Ignored);
        assert_eq!(file(&rules, "src/build"), IgnoreVerdict::Unmentioned);
    }

    #[test]
    fn a_leading_slash_means_this_directory() {
        let outer = Arc::new(level(None, "", "", ""));
        let rules = level(Some(outer), "sub", "", "/x\n");
        assert_eq!(file(&rules, "sub/x"), IgnoreVerdict::Ignored);
        assert_eq!(file(&rules, "sub/deep/x"), IgnoreVerdict::Unmentioned);
    }

    #[test]
    fn the_inner_file_wins_over_the_outer() {
        let outer = Arc::new(level(None, "", "", "*.txt\n"));
        let rules = level(Some(outer), "sub", "", "!good.txt\n");
        assert_eq!(file(&rules, "sub/good.txt"), IgnoreVerdict::Kept);
        assert_eq!(file(&rules, "sub/bad.txt"), IgnoreVerdict::Ignored);
    }

    #[test]
    fn an_outer_ignore_file_wins_over_an_inner_gitignore() {
        let outer = Arc::new(level(None, "", "!a.txt\n", ""));
        let rules = level(Some(outer), "sub", "", "*.txt\n");
        assert_eq!(file(&rules, "sub/a.txt"), IgnoreVerdict::Kept);
        assert_eq!(file(&rules, "sub/b.txt"), IgnoreVerdict::Ignored);
    }

    #[test]
    fn git_rules_end_at_an_inner_repository_and_ignore_files_do_not() {
        let outer = Arc::new(level(None, "", "*.tmp\n", "*.txt\n"));
        let mut rules = level(Some(outer), "sub", "", "*.md\n");
        rules.is_repository = true;
        assert_eq!(file(&rules, "sub/a.txt"), IgnoreVerdict::Unmentioned);
        assert_eq!(file(&rules, "sub/a.md"), IgnoreVerdict::Ignored);
        assert_eq!(file(&rules, "sub/a.tmp"), IgnoreVerdict::Ignored);
    }

    #[test]
    fn comments_blank_lines_a_mark_of_encoding_and_wrong_globs_are_passed_over() {
        let rules = level(None, "", "", "\u{feff}*.a\r\n\n# *.b\n[\n\\#c\n");
        assert_eq!(file(&rules, "x.a"), IgnoreVerdict::Ignored);
        assert_eq!(file(&rules, "x.b"), IgnoreVerdict::Unmentioned);
        assert_eq!(file(&rules, "#c"), IgnoreVerdict::Ignored);
    }
}
