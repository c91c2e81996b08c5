//! Absolute paths of the host, which coding models send.
//!
//! If the files of a workspace are in a directory of the host, an absolute host path below that directory names the
//! same file in the workspace. Every other absolute path begins at the root of the workspace. A path that begins with
//! the name of a directory that every machine has is most likely one of the host, so it does not create such a
//! directory.

use std::path::PathBuf;

use garret_core::path::{is_at_mount_point, quote};
use garret_core::{Error, ErrorKind, Follow, OnEscape, Result, StatOptions, WsPath};

use crate::file_access::FileAccess;

/// Top-level directories of machines. An absolute path creates none of them in a workspace.
const HOST_TREES: [&str; 9] = ["home", "Users", "root", "tmp", "var", "etc", "usr", "opt", "mnt"];

/// The absolute paths of the host directory that holds the files: as it was given, and with links resolved. No message
/// shows them.
#[derive(Clone, Default)]
pub(crate) struct HostRoots(Vec<Vec<String>>);

impl std::fmt::Debug for HostRoots {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HostRoots").finish_non_exhaustive()
    }
}

impl HostRoots {
    /// Keeps the absolute paths among `directories`.
    pub(crate) fn new(directories: &[PathBuf]) -> Self {
        // A path that is not UTF-8 is left out: no tool call can contain it.
        let roots = directories.iter().filter_map(|directory| directory.to_str());
        let roots = roots.filter(|root| root.starts_with('/'));
        let roots = roots.map(|root| split_components(root).map(str::to_owned).collect());
        // For a workspace on `/` itself, an absolute path already begins at the root of the workspace.
        Self(roots.filter(|root: &Vec<String>| !root.is_empty()).collect())
    }

    /// Returns the part of the absolute path `text` below the directory `base` of the workspace; `None` if it lies
    /// elsewhere. A path that begins below `base` and climbs out keeps its `..`, so that the parser of workspace paths
    /// sees an escape.
    fn strip_host_root(&self, text: &str, base: &WsPath) -> Option<String> {
        let written: Vec<&str> = split_components(text).collect();
        let resolved = resolve_dots(&written);
        self.0.iter().find_map(|root| {
            let root = || root.iter().map(String::as_str).chain(base.components());
            strip_components(&resolved, root()).or_else(|| strip_components(&written, root()))
        })
    }
}

fn split_components(text: &str) -> impl Iterator<Item = &str> {
    text.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn resolve_dots<'a>(written: &[&'a str]) -> Vec<&'a str> {
    let mut resolved = Vec::with_capacity(written.len());
    for part in written {
        match *part {
            ".." => drop(resolved.pop()),
            name => resolved.push(name),
        }
    }
    resolved
}

fn strip_components<'a>(path: &[&str], root: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut rest = path.iter();
    for name in root {
        rest.next().filter(|part| **part == name)?;
    }
    Some(rest.copied().collect::<Vec<_>>().join("/"))
}

impl FileAccess {
    /// Returns the path in this view that an absolute path of the host names; `None` for every other path.
    pub(crate) fn below_host_root(&self, path: &str) -> Option<String> {
        self.below_host_directory(path, &WsPath::root())
    }

    /// Returns the path below the directory `within` of this view that an absolute path of the host names; `None` for
    /// every other path.
    fn below_host_directory(&self, path: &str, within: &WsPath) -> Option<String> {
        if !path.starts_with('/') || is_at_mount_point(path) || self.source.host_roots.0.is_empty() {
            return None;
        }
        let directory = within.rebase_below(&self.view.base).ok()?;
        self.source.host_roots.strip_host_root(path, &directory)
    }

    /// Parses a path of this view, and refuses one that leaves the view, whatever `on_escape` says.
    pub(crate) fn parse_strictly(&self, path: &str) -> Result<WsPath> {
        self.parse_with(path, OnEscape::Reject)
    }

    /// Parses a path of this view; `on_escape` decides about one that leaves the view.
    pub(crate) fn parse_with(&self, path: &str, on_escape: OnEscape) -> Result<WsPath> {
        match self.below_host_root(path) {
            Some(inside) => WsPath::parse_with(&inside, on_escape),
            None => WsPath::parse_with(path, on_escape),
        }
    }

    /// Removes the host's path of the directory `within` from a glob on the paths below it.
    pub(crate) fn glob_within(&self, glob: String, within: &str) -> Result<String> {
        let inside = self.below_host_directory(&glob, &self.parse_path(within)?);
        // The `./` keeps a glob of one name a glob on paths: without it, the glob would match that name at any depth.
        Ok(inside.map_or(glob, |inside| format!("./{inside}")))
    }

    /// Refuses to create a top-level directory of a machine by an absolute path: the caller means a file of the host.
    pub(crate) async fn refuse_host_tree(&self, path: &str, shown: &WsPath) -> Result<()> {
        let Some(top) = shown.components().next().filter(|_| path.starts_with('/')) else {
            return Ok(());
        };
        let is_own = || is_at_mount_point(path) || self.below_host_root(path).is_some();
        if !HOST_TREES.contains(&top) || is_own() || self.has_top_level(top).await? {
            return Ok(());
        }
        Err(host_tree_error(top).at_path(shown))
    }

    /// Whether this view shows an entry called `name` at its root.
    async fn has_top_level(&self, name: &str) -> Result<bool> {
        let path = WsPath::root().child(name)?.rebase_below(&self.view.base)?;
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        match self.storage().stat(&path, options).await {
            Ok(_) => Ok(self.view.is_visible(&path, true)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn host_tree_error(top: &str) -> Error {
    let message = format!(
        "an absolute path of the machine is not in this workspace, and would create the directory {} in it",
        quote(top)
    );
    Error::new(ErrorKind::PathEscape, message).hint(format!(
        "give the path from the root of the workspace, such as `src/main.rs`; to create a directory that is really called {}, leave out the \
         leading slash",
        quote(top)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(text: &str, base: &str) -> Option<String> {
        let roots = HostRoots::new(&[
            "/private/tmp/proj".into(),
            "/tmp/./proj/".into(),
            "/".into(),
            "x".into(),
        ]);
        roots.strip_host_root(text, &WsPath::parse(base).unwrap())
    }

    #[test]
    fn both_paths_of_the_directory_are_known_in_every_spelling() {
        for text in [
            "/tmp/proj/src/a.rs",
            "/private/tmp/proj/src/a.rs",
            "//tmp//proj/./src/a.rs",
            "/tmp/proj/x/../src/a.rs",
            "/tmp/other/../proj/src/a.rs",
            "/tmp/proj/../proj/src/a.rs",
        ] {
            assert_eq!(below(text, "").as_deref(), Some("src/a.rs"), "{text}");
        }
        assert_eq!(below("/tmp/proj", "").as_deref(), Some(""));
        assert_eq!(below("/tmp/proj/", "").as_deref(), Some(""));
    }

    #[test]
    fn a_path_elsewhere_is_none() {
        for text in ["/tmp", "/tmp/project/a", "/proj/a", "/", "/tmp/x/proj/a"] {
            assert_eq!(below(text, ""), None, "{text}");
        }
    }

    #[test]
    fn a_path_that_climbs_out_keeps_its_dots() {
        assert_eq!(below("/tmp/proj/../secret", "").as_deref(), Some("../secret"));
        assert_eq!(
            below("/tmp/proj/../../etc/passwd", "").as_deref(),
            Some("../../etc/passwd")
        );
    }

    #[test]
    fn a_scope_knows_its_own_directory_alone() {
        assert_eq!(below("/tmp/proj/alice/a", "alice").as_deref(), Some("a"));
        assert_eq!(below("/tmp/proj/bob/a", "alice"), None);
        assert_eq!(below("/tmp/proj", "alice"), None);
        assert_eq!(below("/tmp/proj/alice/../bob/a", "alice").as_deref(), Some("../bob/a"));
    }

    #[test]
    fn no_message_shows_the_directory() {
        let roots = HostRoots::new(&["/srv/secret-project".into()]);
        assert!(!format!("{roots:?}").contains("secret"));
    }
}
