//! Which files `.gitignore`, `.ignore` and `.git/info/exclude` leave out of a search.
//!
//! The rules of a directory stand on those of the directory above. The innermost file that says anything about a path decides; `.ignore`
//! wins over `.gitignore`, which wins over `.git/info/exclude`. A directory with its own `.git` is a repository of its own: the git rules
//! above it say nothing about what is inside. A line that is no glob is passed over, as git does.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use garret_core::{Directory, DirectoryEntry, OpenFile};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// More than this is not read of one file of rules.
const MAX_RULES_BYTES: u64 = 4 << 20;

/// What the rules say about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Unmentioned,
    /// It is left out.
    Ignored,
    /// A `!` line keeps it, even where hidden files are left out.
    Kept,
}

/// The rules of one directory and, by `above`, of all around it.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    above: Option<Arc<IgnoreRules>>,
    /// How many bytes of a path lead to this directory, its slash included.
    prefix: usize,
    ignore: Gitignore,
    gitignore: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
}

/// Which files of rules a directory has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RuleFiles {
    ignore: bool,
    gitignore: bool,
    git: bool,
}

impl RuleFiles {
    /// To be tried one by one, in a directory whose entries are not known.
    pub(super) fn unknown() -> Self {
        Self {
            ignore: true,
            gitignore: true,
            git: true,
        }
    }

    /// Those among `entries`.
    pub(super) fn among(entries: &[DirectoryEntry]) -> Self {
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

/// The rules that hold in `directory`, at `path`: its own on top of those `above`.
pub(super) fn rules_in(
    directory: &dyn Directory,
    path: &[u8],
    files: RuleFiles,
    above: Option<&Arc<IgnoreRules>>,
) -> Option<Arc<IgnoreRules>> {
    if files == RuleFiles::default() {
        return above.cloned();
    }
    let own = |wanted: bool, name: &[u8]| match wanted {
        true => directory
            .open_file(name)
            .map_or_else(|_| Gitignore::empty(), parse_file),
        false => Gitignore::empty(),
    };
    let (is_repository, exclude) = match files.git {
        true => repository(directory),
        false => (false, Gitignore::empty()),
    };
    let rules = IgnoreRules {
        above: above.cloned(),
        prefix: if path.is_empty() { 0 } else { path.len() + 1 },
        ignore: own(files.ignore, b".ignore"),
        gitignore: own(files.gitignore, b".gitignore"),
        exclude,
        is_repository,
    };
    match rules.says_nothing() {
        true => above.cloned(),
        false => Some(Arc::new(rules)),
    }
}

/// Whether the directory is the root of a repository, and what its `.git/info/exclude` says.
fn repository(directory: &dyn Directory) -> (bool, Gitignore) {
    match directory.open_directory(b".git") {
        Ok(git) => {
            let exclude = git.open_directory(b"info").and_then(|info| info.open_file(b"exclude"));
            (true, exclude.map_or_else(|_| Gitignore::empty(), parse_file))
        }
        // A work tree has a file here; where it points may lie outside the workspace.
        Err(_) => (directory.open_file(b".git").is_ok(), Gitignore::empty()),
    }
}

fn parse_file(file: OpenFile) -> Gitignore {
    let mut bytes = Vec::new();
    match file.content.take(MAX_RULES_BYTES).read_to_end(&mut bytes) {
        Ok(_) => parse(&bytes),
        Err(_) => Gitignore::empty(),
    }
}

fn parse(bytes: &[u8]) -> Gitignore {
    let text = String::from_utf8_lossy(bytes);
    // With this root the matcher takes paths as they are: relative to the directory of the rules.
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        // What is no glob is passed over.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

impl IgnoreRules {
    fn says_nothing(&self) -> bool {
        !self.is_repository && self.ignore.is_empty() && self.gitignore.is_empty() && self.exclude.is_empty()
    }

    /// What these rules and those around them say about `path`, a path from the same root as those given to [`rules_in`].
    pub(super) fn verdict(&self, path: &[u8], is_directory: bool) -> Verdict {
        let mut verdicts = [Verdict::Unmentioned; 3];
        let mut in_repository = true;
        let mut level = Some(self);
        while let Some(rules) = level {
            let relative = Path::new(OsStr::from_bytes(&path[rules.prefix..]));
            let [ignore, gitignore, exclude] = &mut verdicts;
            settle(ignore, &rules.ignore, relative, is_directory);
            if in_repository {
                settle(gitignore, &rules.gitignore, relative, is_directory);
                settle(exclude, &rules.exclude, relative, is_directory);
            }
            in_repository &= !rules.is_repository;
            level = rules.above.as_deref();
        }
        let said = |verdict: &Verdict| *verdict != Verdict::Unmentioned;
        verdicts.into_iter().find(said).unwrap_or(Verdict::Unmentioned)
    }
}

fn settle(verdict: &mut Verdict, rules: &Gitignore, path: &Path, is_directory: bool) {
    if *verdict == Verdict::Unmentioned && !rules.is_empty() {
        *verdict = match rules.matched(path, is_directory) {
            Match::None => Verdict::Unmentioned,
            Match::Ignore(_) => Verdict::Ignored,
            Match::Whitelist(_) => Verdict::Kept,
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
            ignore: parse(ignore.as_bytes()),
            gitignore: parse(gitignore.as_bytes()),
            exclude: Gitignore::empty(),
            is_repository: false,
        }
    }

    fn file(rules: &IgnoreRules, path: &str) -> Verdict {
        rules.verdict(path.as_bytes(), false)
    }

    #[test]
    fn the_last_line_that_matches_decides() {
        let rules = level(None, "", "", "*.log\n!keep.log\n/keep.log/x\n");
        assert_eq!(file(&rules, "a/b.log"), Verdict::Ignored);
        assert_eq!(file(&rules, "a/keep.log"), Verdict::Kept);
        assert_eq!(file(&rules, "a/b.txt"), Verdict::Unmentioned);
    }

    #[test]
    fn a_trailing_slash_means_directories_only() {
        let rules = level(None, "", "", "build/\n");
        assert_eq!(rules.verdict(b"src/build", true), Verdict::Ignored);
        assert_eq!(file(&rules, "src/build"), Verdict::Unmentioned);
    }

    #[test]
    fn a_leading_slash_means_this_directory() {
        let outer = Arc::new(level(None, "", "", ""));
        let rules = level(Some(outer), "sub", "", "/x\n");
        assert_eq!(file(&rules, "sub/x"), Verdict::Ignored);
        assert_eq!(file(&rules, "sub/deep/x"), Verdict::Unmentioned);
    }

    #[test]
    fn the_inner_file_wins_over_the_outer() {
        let outer = Arc::new(level(None, "", "", "*.txt\n"));
        let rules = level(Some(outer), "sub", "", "!good.txt\n");
        assert_eq!(file(&rules, "sub/good.txt"), Verdict::Kept);
        assert_eq!(file(&rules, "sub/bad.txt"), Verdict::Ignored);
    }

    #[test]
    fn an_outer_ignore_file_wins_over_an_inner_gitignore() {
        let outer = Arc::new(level(None, "", "!a.txt\n", ""));
        let rules = level(Some(outer), "sub", "", "*.txt\n");
        assert_eq!(file(&rules, "sub/a.txt"), Verdict::Kept);
        assert_eq!(file(&rules, "sub/b.txt"), Verdict::Ignored);
    }

    #[test]
    fn git_rules_end_at_an_inner_repository_and_ignore_files_do_not() {
        let outer = Arc::new(level(None, "", "*.tmp\n", "*.txt\n"));
        let mut rules = level(Some(outer), "sub", "", "*.md\n");
        rules.is_repository = true;
        assert_eq!(file(&rules, "sub/a.txt"), Verdict::Unmentioned);
        assert_eq!(file(&rules, "sub/a.md"), Verdict::Ignored);
        assert_eq!(file(&rules, "sub/a.tmp"), Verdict::Ignored);
    }

    #[test]
    fn comments_blank_lines_a_mark_of_encoding_and_wrong_globs_are_passed_over() {
        let rules = level(None, "", "", "\u{feff}*.a\r\n\n# *.b\n[\n\\#c\n");
        assert_eq!(file(&rules, "x.a"), Verdict::Ignored);
        assert_eq!(file(&rules, "x.b"), Verdict::Unmentioned);
        assert_eq!(file(&rules, "#c"), Verdict::Ignored);
    }
}
