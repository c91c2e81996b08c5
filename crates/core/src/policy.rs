//! The policy on the files of a workspace: data in, decision out.
//!
//! A rule is a glob on the path below the workspace's root; a rule that matches a directory covers everything below it.
//! A denying rule wins over an allowing one. A path that may not be read is invisible to `ls`, `glob` and `grep`. A
//! decision touches no storage, so every decision can be tested without one.

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path::{MOUNT_POINT, OnEscape, quote};
use crate::{Error, ErrorKind, Result, WsPath};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// The options of the `fs` capability.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FsPolicy {
    /// Refuse every mutation.
    #[schemars(example = true)]
    pub read_only: bool,
    /// Globs of the paths that may be read; empty for all paths.
    #[schemars(example = ["src/**", "docs/**"])]
    pub allow_read: Vec<String>,
    /// Globs of the paths that may be neither read nor written; they win over the allowed ones, and a path that they
    /// match is invisible to lists and searches.
    #[schemars(example = ["**/.env"])]
    pub deny_read: Vec<String>,
    /// Globs of the paths that may be written; empty for all paths.
    #[schemars(example = ["src/**"])]
    pub allow_write: Vec<String>,
    /// Globs of the paths that may not be written; they win over `allow_write`.
    #[schemars(example = ["Cargo.lock"])]
    pub deny_write: Vec<String>,
    /// The largest file that may be written, in MiB.
    #[schemars(example = 10)]
    pub max_file_size_mb: Option<f64>,
    /// The most that one read returns, in MiB.
    #[schemars(example = 5)]
    pub max_read_mb: Option<f64>,
    /// The most files in the workspace.
    #[schemars(example = 10_000)]
    pub max_files: Option<u64>,
    /// The most bytes in the workspace, in MiB.
    #[schemars(example = 500)]
    pub max_total_mb: Option<f64>,
    /// Tools (by canonical name) that ask the approver first.
    #[schemars(example = ["rm", "move"])]
    pub require_approval: Vec<String>,
    /// The treatment of a path that would leave the workspace by its text.
    #[schemars(example = &"clamp")]
    pub on_escape: OnEscape,
}

/// Rules that the program which opens a workspace adds to those of its configuration, whether or not that configuration
/// declares `fs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsRestriction {
    /// Refuse every mutation.
    pub read_only: bool,
    /// Globs that join `deny_read`.
    pub deny_read: Vec<String>,
    /// Globs that join `deny_write`.
    pub deny_write: Vec<String>,
}

impl FsRestriction {
    /// Returns `policy` with these rules added.
    pub fn restrict_policy(&self, mut policy: FsPolicy) -> FsPolicy {
        policy.read_only |= self.read_only;
        policy.deny_read.extend_from_slice(&self.deny_read);
        policy.deny_write.extend_from_slice(&self.deny_write);
        policy
    }
}

/// The access to a path that an operation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To see that it exists, or to read its content or entries.
    Read,
    /// To change it.
    Write,
}

/// An [`FsPolicy`] whose globs and numbers are checked and compiled.
#[derive(Debug, Clone)]
pub struct FsRules {
    policy: FsPolicy,
    allow_read: GlobRules,
    deny_read: GlobRules,
    allow_write: GlobRules,
    deny_write: GlobRules,
}

impl FsRules {
    /// Checks the policy; a wrong glob or number is an `invalid` error that names its key.
    pub fn new(policy: FsPolicy) -> Result<Self> {
        for (key, value) in [
            ("max_file_size_mb", policy.max_file_size_mb),
            ("max_read_mb", policy.max_read_mb),
            ("max_total_mb", policy.max_total_mb),
        ] {
            check_size(key, value)?;
        }
        Ok(Self {
            allow_read: GlobRules::new("allow_read", &policy.allow_read)?,
            deny_read: GlobRules::new("deny_read", &policy.deny_read)?,
            allow_write: GlobRules::new("allow_write", &policy.allow_write)?,
            deny_write: GlobRules::new("deny_write", &policy.deny_write)?,
            policy,
        })
    }

    /// Returns the policy as written.
    pub fn policy(&self) -> &FsPolicy {
        &self.policy
    }

    /// Returns whether any rule depends on the path, so that aliases of a path matter.
    pub fn depends_on_path(&self) -> bool {
        self.depends_on_path_to_read() || self.depends_on_path_to_write()
    }

    /// Returns whether a rule on reading depends on the path.
    pub fn depends_on_path_to_read(&self) -> bool {
        !self.allow_read.is_empty() || !self.deny_read.is_empty()
    }

    /// Returns whether a rule on writing depends on the path.
    pub fn depends_on_path_to_write(&self) -> bool {
        !self.allow_write.is_empty() || !self.deny_write.is_empty()
    }

    /// Decides on `path`; a refusal is a `denied` error that names the rule and the paths that would be allowed.
    pub fn check_access(&self, access: Access, path: &WsPath) -> Result<()> {
        // A path that may not be read may not be written: the answer to a write tells whether an entry is there, and
        // its size.
        let (allow, denies, what): (_, &[&GlobRules], _) = match access {
            Access::Read => (&self.allow_read, &[&self.deny_read], "read"),
            Access::Write => (&self.allow_write, &[&self.deny_write, &self.deny_read], "written"),
        };
        if access == Access::Write && self.policy.read_only {
            return Err(denied_error(
                path,
                what,
                "read_only = true".into(),
                "nothing in this workspace may be changed; reading is allowed",
            ));
        }
        let denied = denies
            .iter()
            .find_map(|deny| deny.find_match(path).map(|rule| deny.describe_rule(rule)));
        if let Some(rule) = denied {
            return Err(denied_error(
                path,
                what,
                rule,
                "choose a path that this rule does not match",
            ));
        }
        if allow.is_empty() || allow.find_match(path).is_some() {
            return Ok(());
        }
        Err(denied_error(
            path,
            what,
            allow.key.to_owned(),
            &format!("only paths that match {} may be {what}", allow.list_patterns()),
        ))
    }

    /// Decides on a directory that is made or removed with its entries: it may be written, or something below it may
    /// be.
    pub fn check_directory(&self, path: &WsPath) -> Result<()> {
        let refusal = match self.check_access(Access::Write, path) {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let is_denied = [&self.deny_write, &self.deny_read]
            .iter()
            .any(|deny| deny.find_match(path).is_some());
        // A directory above an allowed path must come and go with that path; a denial covers everything below.
        if self.policy.read_only || is_denied || !self.allow_write.may_match_below(path) {
            return Err(refusal);
        }
        Ok(())
    }

    /// Returns whether lists and searches show `path`: it may be read, or (a directory) something below it may be.
    pub fn is_visible(&self, path: &WsPath, is_directory: bool) -> bool {
        // Every list begins at the root, so no rule can hide it.
        if path.is_root() || self.check_access(Access::Read, path).is_ok() {
            return true;
        }
        is_directory && self.deny_read.find_match(path).is_none() && self.allow_read.may_match_below(path)
    }

    /// Returns whether `directory` and everything below it may be read, for any names that are there.
    pub fn may_read_all_below(&self, directory: &WsPath) -> bool {
        let is_allowed = self.allow_read.is_empty() || self.allow_read.find_match(directory).is_some();
        let is_denied = self.deny_read.find_match(directory).is_some() || self.deny_read.may_match_below(directory);
        is_allowed && !is_denied
    }

    /// Returns whether the rules decide the same on everything below `directory` as on `directory` itself, so that its
    /// entries need not be looked at.
    pub fn is_uniform_below(&self, directory: &WsPath) -> bool {
        let is_settled =
            |rules: &&GlobRules| rules.find_match(directory).is_some() || !rules.may_match_below(directory);
        let all = [&self.allow_read, &self.deny_read, &self.allow_write, &self.deny_write];
        all.iter().all(is_settled)
    }

    /// Returns the most bytes that one read returns.
    pub fn max_read_bytes(&self) -> Option<u64> {
        self.policy.max_read_mb.map(mebibytes_to_bytes)
    }

    /// Returns the most bytes in one file.
    pub fn max_file_bytes(&self) -> Option<u64> {
        self.policy.max_file_size_mb.map(mebibytes_to_bytes)
    }

    /// Returns the most bytes in the workspace.
    pub fn max_total_bytes(&self) -> Option<u64> {
        self.policy.max_total_mb.map(mebibytes_to_bytes)
    }

    /// Refuses a file of `size` bytes if it is too large.
    pub fn check_file_size(&self, path: &WsPath, size: u64) -> Result<()> {
        match self.policy.max_file_size_mb {
            Some(limit) if size > mebibytes_to_bytes(limit) => {
                let message = format!(
                    "{} would have {size} bytes; the policy allows {}",
                    path.to_quoted(),
                    mebibytes_to_bytes(limit)
                );
                Err(Error::new(ErrorKind::TooLarge, message)
                    .at_path(path)
                    .with_rule(format!("max_file_size_mb = {limit}"))
                    .hint("write less, or split it into several files"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether `operation`, a canonical tool name, asks the approver first.
    pub fn needs_approval(&self, operation: &str) -> bool {
        self.policy.require_approval.iter().any(|name| name == operation)
    }
}

fn mebibytes_to_bytes(mebibytes: f64) -> u64 {
    (mebibytes * MEBIBYTE) as u64
}

fn check_size(key: &str, value: Option<f64>) -> Result<()> {
    match value {
        Some(size) if !size.is_finite() || size < 0.0 => {
            Err(Error::invalid(format!("`{key}` must be a size in MiB, not {size}"))
                .hint("use a number such as 10 or 0.5"))
        }
        _ => Ok(()),
    }
}

fn denied_error(path: &WsPath, what: &str, rule: String, hint: &str) -> Error {
    Error::new(
        ErrorKind::Denied,
        format!(
            "{} may not be {what}: the policy says {}",
            path.to_quoted(),
            quote(&rule)
        ),
    )
    .at_path(path)
    .with_rule(rule)
    .hint(hint)
}

/// A list of globs under one key of the configuration.
#[derive(Debug, Clone)]
struct GlobRules {
    key: &'static str,
    patterns: Vec<RulePattern>,
}

#[derive(Debug, Clone)]
struct RulePattern {
    text: String,
    whole: GlobMatcher,
    /// One matcher for each component, `None` for `**`; they decide whether the pattern may match below a directory.
    components: Vec<Option<GlobMatcher>>,
}

impl GlobRules {
    fn new(key: &'static str, patterns: &[String]) -> Result<Self> {
        let patterns = patterns
            .iter()
            .map(|text| RulePattern::new(key, text))
            .collect::<Result<_>>()?;
        Ok(Self { key, patterns })
    }

    fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns the first pattern that matches the path or a directory above it.
    fn find_match(&self, path: &WsPath) -> Option<&RulePattern> {
        if self.is_empty() {
            return None;
        }
        // A rule that matches a directory covers everything below it.
        let all: Vec<_> = path.ancestry().collect();
        self.patterns
            .iter()
            .find(|pattern| all.iter().any(|path| pattern.whole.is_match(path.as_str())))
    }

    fn may_match_below(&self, directory: &WsPath) -> bool {
        self.patterns.iter().any(|pattern| pattern.may_match_below(directory))
    }

    fn describe_rule(&self, pattern: &RulePattern) -> String {
        format!("{} = {}", self.key, pattern.text)
    }

    fn list_patterns(&self) -> String {
        self.patterns
            .iter()
            .map(|pattern| quote(&pattern.text))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl RulePattern {
    fn new(key: &str, text: &str) -> Result<Self> {
        let wrong = |why: String| {
            Error::invalid(format!("`{key}` has an invalid glob {}: {why}", quote(text)))
                .hint("see the glob syntax in docs/reference/globs.md")
        };
        let glob = strip_glob_root(text);
        check_matchable(glob).map_err(wrong)?;
        let components = glob.split('/').map(|part| {
            if part == "**" {
                Ok(None)
            } else {
                compile_glob(part).map(Some)
            }
        });
        // A brace may hold a slash, and then the parts are not globs of their own; such a pattern may match below any
        // directory.
        let components = components.collect::<Result<_, _>>().unwrap_or_else(|_| vec![None]);
        Ok(Self {
            text: text.to_owned(),
            whole: compile_glob(glob).map_err(wrong)?,
            components,
        })
    }

    fn may_match_below(&self, directory: &WsPath) -> bool {
        let mut patterns = self.components.iter();
        for name in directory.components() {
            match patterns.next() {
                Some(Some(glob)) if glob.is_match(name) => {}
                // From `**` on, anything may lie below, however deep.
                Some(None) => return true,
                _ => return false,
            }
        }
        patterns.next().is_some()
    }
}

/// The longest glob: as long as the longest path.
const MAX_GLOB_BYTES: usize = crate::path::MAX_PATH_BYTES;
/// Deeper braces would exceed the nesting that a regular expression allows.
const MAX_GLOB_DEPTH: usize = 16;

/// Compiles a glob by the rules of all of Garret: `*` and `?` do not cross `/`, `**` does, a backslash escapes. The
/// error says why the text is not a glob.
pub fn compile_glob(glob: &str) -> Result<GlobMatcher, String> {
    check_glob_bounds(glob)?;
    let built = GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .build();
    built
        .map(|glob| glob.compile_matcher())
        .map_err(|error| error.kind().to_string())
}

/// Refuses a glob that could not be compiled.
fn check_glob_bounds(glob: &str) -> Result<(), String> {
    // A glob comes from a model as often as from a configuration, so its size is bounded before anything is compiled.
    if glob.len() > MAX_GLOB_BYTES {
        return Err(format!("it is longer than {MAX_GLOB_BYTES} bytes"));
    }
    let (mut depth, mut is_escaped) = (0_usize, false);
    for c in glob.chars() {
        match c {
            _ if is_escaped => {}
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        if depth > MAX_GLOB_DEPTH {
            return Err(format!("its braces are nested more than {MAX_GLOB_DEPTH} deep"));
        }
    }
    Ok(())
}

/// Returns a glob without its spelling of "from the root" and without a trailing slash.
pub fn strip_glob_root(text: &str) -> &str {
    let inside = text.strip_prefix(MOUNT_POINT);
    let mut glob = inside
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or(text);
    while let Some(rest) = glob.strip_prefix('/').or_else(|| glob.strip_prefix("./")) {
        glob = rest;
    }
    glob.trim_end_matches('/')
}

/// Refuses a rule that no path can match: it would seem to protect something and would not.
fn check_matchable(glob: &str) -> Result<(), String> {
    let odd = |part: &&str| part.is_empty() || *part == "." || *part == "..";
    match glob.split('/').find(odd) {
        None => Ok(()),
        Some(_) if glob.is_empty() || glob == "." => Err("it matches no path; `**` matches every path".into()),
        Some("") => Err("no path has two slashes in a row".into()),
        Some(part) => Err(format!("no path has a `{part}` in it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WsPath {
        WsPath::parse(text).unwrap()
    }

    fn rules(policy: FsPolicy) -> FsRules {
        FsRules::new(policy).unwrap()
    }

    fn globs(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    #[test]
    fn denied_beats_allowed() {
        let rules = rules(FsPolicy {
            allow_read: globs(&["src/**"]),
            deny_read: globs(&["**/.env"]),
            ..FsPolicy::default()
        });
        assert!(rules.check_access(Access::Read, &path("src/a.rs")).is_ok());
        let error = rules.check_access(Access::Read, &path("src/.env")).unwrap_err();
        assert_eq!(error.refused_by(), Some("deny_read = **/.env"));
        assert_eq!(
            error.message(),
            "`src/.env` may not be read: the policy says `deny_read = **/.env`"
        );
    }

    #[test]
    fn what_may_not_be_read_may_not_be_written() {
        let rules = rules(FsPolicy {
            deny_read: globs(&["secret"]),
            ..FsPolicy::default()
        });
        let error = rules.check_access(Access::Write, &path("secret/key")).unwrap_err();
        assert_eq!(
            error.message(),
            "`secret/key` may not be written: the policy says `deny_read = secret`"
        );
    }

    #[test]
    fn a_directory_may_be_read_whole_where_no_rule_could_deny_a_name_in_it() {
        let whole = |allow: &[&str], deny: &[&str], directory: &str| {
            let policy = FsPolicy {
                allow_read: globs(allow),
                deny_read: globs(deny),
                ..FsPolicy::default()
            };
            rules(policy).may_read_all_below(&path(directory))
        };
        assert!(whole(&[], &["secret"], "src"));
        assert!(whole(&["src"], &["secret/**"], "src/deep"));
        assert!(!whole(&["src/*.rs"], &[], "src"), "only some of it is allowed");
        assert!(!whole(&["src"], &[], ""), "only a part of it is allowed");
        assert!(!whole(&[], &["src/.env"], "src"));
        assert!(!whole(&[], &["**/.env"], "src/deep"));
        assert!(!whole(&[], &["src"], "src/deep"), "it is denied itself");
    }

    #[test]
    fn only_directories_below_which_rules_differ_need_be_looked_through() {
        let rules = FsRules::new(FsPolicy {
            deny_read: globs(&["secrets/**", "config/*.key"]),
            deny_write: globs(&["vendor"]),
            ..FsPolicy::default()
        })
        .unwrap();
        let is_uniform = |path: &str| rules.is_uniform_below(&WsPath::parse(path).unwrap());
        assert!(is_uniform("src") && is_uniform("src/deep") && is_uniform("vendor") && is_uniform("config/deep"));
        assert!(!is_uniform("") && !is_uniform("config") && !is_uniform("secrets"));
        let rules = FsRules::new(FsPolicy {
            allow_write: globs(&["out/**"]),
            deny_read: globs(&["**/.env"]),
            ..FsPolicy::default()
        })
        .unwrap();
        assert!(!rules.is_uniform_below(&WsPath::parse("src/deep").unwrap()));
    }

    #[test]
    fn a_refusal_tells_what_would_be_allowed() {
        let rules = rules(FsPolicy {
            allow_write: globs(&["out", "tmp/**"]),
            ..FsPolicy::default()
        });
        let error = rules.check_access(Access::Write, &path("src/a.rs")).unwrap_err();
        assert_eq!(
            error.hint_text(),
            "only paths that match `out`, `tmp/**` may be written"
        );
        assert!(rules.check_access(Access::Write, &path("out/deep/a.rs")).is_ok());
    }

    #[test]
    fn read_only_refuses_writes_and_allows_reads() {
        let rules = rules(FsPolicy {
            read_only: true,
            ..FsPolicy::default()
        });
        assert!(rules.check_access(Access::Read, &path("a")).is_ok());
        assert_eq!(
            rules.check_access(Access::Write, &path("a")).unwrap_err().kind(),
            ErrorKind::Denied
        );
    }

    #[test]
    fn a_directory_on_the_way_to_something_allowed_is_visible() {
        let rules = rules(FsPolicy {
            allow_read: globs(&["docs/*/public/**"]),
            ..FsPolicy::default()
        });
        assert!(rules.is_visible(&path("docs"), true));
        assert!(rules.is_visible(&path("docs/a"), true));
        assert!(rules.is_visible(&path("docs/a/public/x"), false));
        assert!(!rules.is_visible(&path("docs/a/private"), true));
        assert!(
            !rules.is_visible(&path("docs"), false),
            "a file of that name is not on the way"
        );
        assert!(!rules.is_visible(&path("src"), true));
    }

    #[test]
    fn a_rule_on_a_directory_covers_what_is_below() {
        let rules = rules(FsPolicy {
            deny_read: globs(&["secrets/"]),
            ..FsPolicy::default()
        });
        assert!(rules.check_access(Access::Read, &path("secrets/a/b")).is_err());
        assert!(rules.check_access(Access::Read, &path("secrets2")).is_ok());
    }

    #[test]
    fn a_star_does_not_cross_a_slash() {
        let rules = rules(FsPolicy {
            deny_write: globs(&["*.lock"]),
            ..FsPolicy::default()
        });
        assert!(rules.check_access(Access::Write, &path("a.lock")).is_err());
        assert!(rules.check_access(Access::Write, &path("sub/a.lock")).is_ok());
    }

    #[test]
    fn a_wrong_glob_names_its_key() {
        let error = FsRules::new(FsPolicy {
            deny_read: globs(&["a[b"]),
            ..FsPolicy::default()
        })
        .unwrap_err();
        assert!(
            error.message().starts_with("`deny_read` has an invalid glob `a[b`"),
            "{error}"
        );
    }

    #[test]
    fn a_size_over_the_limit_is_refused_by_its_rule() {
        let rules = rules(FsPolicy {
            max_file_size_mb: Some(0.5),
            ..FsPolicy::default()
        });
        assert!(rules.check_file_size(&path("a"), 524_288).is_ok());
        assert_eq!(
            rules.check_file_size(&path("a"), 524_289).unwrap_err().refused_by(),
            Some("max_file_size_mb = 0.5")
        );
    }

    #[test]
    fn a_rule_that_no_path_can_match_is_refused() {
        for glob in [
            "",
            "/",
            ".",
            "./",
            "/workspace",
            "a//b",
            "a/./b",
            "a/../b",
            "../a",
            "secrets/..",
        ] {
            let policy = FsPolicy {
                deny_read: globs(&[glob]),
                ..FsPolicy::default()
            };
            let error = FsRules::new(policy).unwrap_err();
            assert!(
                error.message().starts_with("`deny_read` has an invalid glob"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_way_to_say_the_root_changes_no_rule() {
        for glob in [
            "secrets",
            "/secrets",
            "./secrets",
            "/./secrets/",
            "/workspace/secrets",
            "/workspace//secrets",
        ] {
            let rules = rules(FsPolicy {
                deny_read: globs(&[glob]),
                ..FsPolicy::default()
            });
            assert!(
                rules.check_access(Access::Read, &path("secrets/key")).is_err(),
                "{glob}"
            );
        }
    }

    #[test]
    fn a_glob_that_could_not_be_compiled_is_refused() {
        let nested = "{".repeat(300) + "a" + &"}".repeat(300);
        let wrong = ["*".repeat(100_000), nested, "a".repeat(5_000)];
        for glob in &wrong {
            assert!(compile_glob(glob).is_err(), "{}", &glob[..10]);
        }
        for part in ["*", "?", "**/", "{a,b}", "[!a]", "[!a-z]", "é", "\\{", "{{a,b},c}"] {
            let longest = part.repeat(MAX_GLOB_BYTES / part.len());
            assert!(compile_glob(&longest).is_ok(), "{part}");
        }
        let deepest = "{a,*".repeat(MAX_GLOB_DEPTH) + &"}".repeat(MAX_GLOB_DEPTH);
        assert!(compile_glob(&deepest).is_ok());
    }
}
