//! The user who opens workspaces himself, on his own machine.

#![allow(
    clippy::disallowed_methods,
    reason = "this file reads the author of commits from the settings of Git in the home directory of the user"
)]

use std::path::{Path, PathBuf};

use garret_core::GitAuthor;

/// The most bytes of a file with settings of Git.
const MOST_BYTES: u64 = 1024 * 1024;
/// The most files that include each other.
const MOST_INCLUDES: usize = 8;

/// The user who opens workspaces himself, on his own machine: commands see his toolchains, his own directory at its own
/// path, and his name as the author of commits. Configuration can turn off each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostUser {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The directory of additional software.
    pub opt: PathBuf,
}

impl HostUser {
    /// Returns the user with this home directory.
    pub fn with_home(home: Option<PathBuf>) -> Self {
        Self {
            home: home.filter(|home| home.is_absolute()),
            opt: "/opt".into(),
        }
    }

    /// Returns the author that the user's own settings of Git name. Nothing else of them is used.
    pub(crate) fn git_author(&self, settings_directory: Option<&Path>) -> Option<GitAuthor> {
        let home = self.home.as_deref()?;
        let settings = settings_directory.map_or_else(|| home.join(".config"), Path::to_owned);
        let mut found = AuthorSettings::default();
        // The later file wins, as for Git.
        for file in [settings.join("git/config"), home.join(".gitconfig")] {
            found.read_file(&file, home, MOST_INCLUDES);
        }
        Some(GitAuthor {
            name: found.name?,
            email: found.email?,
        })
    }
}

/// The settings of Git that were found so far.
#[derive(Debug, Default)]
struct AuthorSettings {
    name: Option<String>,
    email: Option<String>,
}

impl AuthorSettings {
    fn read_file(&mut self, file: &Path, home: &Path, includes: usize) {
        let is_small = std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
        let Some(text) = is_small.then(|| std::fs::read_to_string(file).ok()).flatten() else {
            return;
        };
        for (key, value) in parse_settings(&text) {
            match key.as_str() {
                "user.name" => self.name = Some(value),
                "user.email" => self.email = Some(value),
                "include.path" if includes > 0 => {
                    let path = match value.strip_prefix("~/") {
                        Some(below) => home.join(below),
                        None => file.parent().unwrap_or(home).join(value),
                    };
                    self.read_file(&path, home, includes - 1);
                }
                _ => {}
            }
        }
    }
}

/// Returns the settings in a file of Git, as `section.key` in small letters with their values. Sections with a name of
/// their own, such as `[includeIf "…"]`, are left out.
fn parse_settings(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    let text = text.replace("\r\n", "\n").replace("\\\n", "");
    for line in text.lines().map(str::trim) {
        let mut line = line;
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = rest.split_once(']') else {
                continue;
            };
            section = name.trim().to_lowercase();
            line = after.trim();
        }
        if line.starts_with(['#', ';']) || section.contains(['"', ' ', '.']) {
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().to_lowercase();
            found.push((format!("{section}.{key}"), parse_value(value.trim())));
        }
    }
    found
}

/// Returns a value without quotes and comment.
fn parse_value(written: &str) -> String {
    let (mut value, mut blank) = (String::new(), String::new());
    let mut is_quoted = false;
    let mut signs = written.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            ' ' | '\t' if !is_quoted => blank.push(sign),
            _ => {
                // Blanks at the end, before a comment, are no part of the value.
                value.push_str(&std::mem::take(&mut blank));
                value.push(match sign {
                    '\\' => match signs.next() {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some(other) => other,
                        None => break,
                    },
                    other => other,
                });
            }
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(files: &[(&str, &str)]) -> Option<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let user = HostUser::with_home(Some(home.path().to_owned()));
        user.git_author(None).map(|author| (author.name, author.email))
    }

    fn is(name: &str, email: &str) -> Option<(String, String)> {
        Some((name.to_owned(), email.to_owned()))
    }

    #[test]
    fn the_author_is_read_from_the_settings_of_git() {
        let plain =
            "[core]\n\teditor = vi\n[user]\n\tname = Ada  Lovelace ; mathematician\n\tEmail = ada@example.org\n";
        assert_eq!(author(&[(".gitconfig", plain)]), is("Ada  Lovelace", "ada@example.org"));
        let quoted = "[User] name = \" A \\\"B\\\" # C\"#D\n email=\"x@example.org\"\n[credential]\nhelper = store\n";
        assert_eq!(author(&[(".gitconfig", quoted)]), is(" A \"B\" # C", "x@example.org"));
        let other = "[user \"x\"]\nname = wrong\nemail = wrong\n[user.sub]\nname = wrong\nemail = wrong\n";
        assert_eq!(author(&[(".gitconfig", other)]), None);
        assert_eq!(author(&[(".gitconfig", "[user]\nname = only\n")]), None);
        assert_eq!(author(&[]), None);
    }

    #[test]
    fn the_nearer_file_wins_and_included_files_count_where_they_are_included() {
        let general = "[user]\nname = general\nemail = general@example.org\n";
        let near = "[include]\npath = ~/private/git\n[include]\npath = .gitconfig\n[user]\nname = near\n";
        let private = "[user]\nname = private\nemail = private@example.org\n";
        let files = [
            (".config/git/config", general),
            (".gitconfig", near),
            ("private/git", private),
        ];
        assert_eq!(author(&files), is("near", "private@example.org"));
        assert_eq!(author(&files[..1]), is("general", "general@example.org"));
    }
}
