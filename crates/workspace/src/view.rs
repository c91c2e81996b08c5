//! A view: a directory of the workspace with all policies that apply there. Its methods decide by these alone, without
//! a look at the files.

use std::collections::BTreeMap;
use std::sync::Arc;

use garret_core::{Access, EntryKind, EntryPath, Error, FsPolicy, FsRules, Result, Visibility, WsPath};

use crate::quota::Quota;

/// A subdirectory with the policies that apply there: its own and those of every view around it.
#[derive(Debug)]
pub(crate) struct WorkspaceView {
    pub(crate) base: WsPath,
    pub(crate) layers: Vec<Arc<PolicyLayer>>,
    pub(crate) env: BTreeMap<String, String>,
}

/// One policy and the directory it applies to; its globs are relative to that directory.
#[derive(Debug)]
pub(crate) struct PolicyLayer {
    pub(crate) base: WsPath,
    pub(crate) rules: FsRules,
    pub(crate) quota: Option<Quota>,
}

impl WorkspaceView {
    pub(crate) fn own_layer(&self) -> &PolicyLayer {
        self.layers.last().expect("a view has its own policy")
    }

    /// Whether access depends on names: a rule depends on the path, or the view is narrower than the storage.
    pub(crate) fn is_restricted(&self) -> bool {
        !self.base.is_root() || self.layers.iter().any(|layer| layer.rules.depends_on_path())
    }

    /// Checks a path of the storage against every policy that applies to it.
    pub(crate) fn check_rules(&self, path: &WsPath, accesses: &[Access]) -> Result<()> {
        for layer in &self.layers {
            let relative = path.relative_to(&layer.base).ok_or_else(|| Error::path_escape(path))?;
            // The root can always be listed, whatever the rules; its list shows only entries that the rules allow.
            let reads_root = |access: &Access| *access == Access::Read && relative.is_root();
            accesses
                .iter()
                .filter(|access| !reads_root(access))
                .try_for_each(|access| layer.rules.check_access(*access, &relative))?;
        }
        Ok(())
    }

    /// Whether this view shows a listed entry. An entry whose name is not UTF-8 is shown if it is in the view's
    /// directory and no rule depends on paths.
    pub(crate) fn is_entry_visible(&self, path: &EntryPath, is_directory: bool) -> bool {
        match path.as_path() {
            Some(path) => self.is_visible(path, is_directory),
            None => {
                // A glob cannot be matched against a name that is not UTF-8, so any rule on paths hides the entry.
                let is_ruled = self.layers.iter().any(|layer| layer.rules.depends_on_path());
                self.has_in_directory(path.as_bytes()) && !is_ruled
            }
        }
    }

    /// Returns a path of the storage as this view shows it: relative to the view.
    pub(crate) fn relative_path(&self, path: &WsPath) -> WsPath {
        path.relative_to(&self.base).unwrap_or_else(|| path.clone())
    }

    /// Returns a listed path of the storage as this view shows it: relative to the view.
    pub(crate) fn relative_entry_path(&self, path: &EntryPath) -> EntryPath {
        match path {
            EntryPath::Valid(path) => EntryPath::Valid(self.relative_path(path)),
            EntryPath::Raw(bytes) if self.base.is_root() => EntryPath::Raw(bytes.clone()),
            EntryPath::Raw(bytes) => EntryPath::from_bytes(bytes[self.base.as_str().len() + 1..].to_vec()),
        }
    }

    /// Whether lists and searches show the entry of the storage at `path`.
    pub(crate) fn is_visible(&self, path: &WsPath, is_directory: bool) -> bool {
        self.layers.iter().all(|layer| {
            path.relative_to(&layer.base)
                .is_some_and(|relative| layer.rules.is_visible(&relative, is_directory))
        })
    }

    /// Whether a path of the storage, as bytes, is below the directory of this view.
    pub(crate) fn has_in_directory(&self, path: &[u8]) -> bool {
        let base = self.base.as_str().as_bytes();
        let below = path.strip_prefix(base);
        base.is_empty() || below.is_some_and(|below| below.first() == Some(&b'/'))
    }

    /// Whether some files are hidden from commands: the view is narrower than the storage, or a rule on reading depends
    /// on the path.
    pub(crate) fn hides_paths(&self) -> bool {
        let is_ruled = self.layers.iter().any(|layer| layer.rules.depends_on_path_to_read());
        is_ruled || !self.base.is_root()
    }

    /// Returns how much of an entry of the storage this view shows: entries that may be read, and the directories above
    /// them.
    pub(crate) fn visibility_of(&self, path: &EntryPath, kind: EntryKind) -> Visibility {
        // Visibility is asked for only if the view hides something, and no rule can judge a name that is not UTF-8.
        let Some(path) = path.as_path() else {
            return Visibility::Hidden;
        };
        let is_directory = kind == EntryKind::Directory;
        // A directory above the view is shown in part: it leads to the directory of the view.
        if self.base.is_within(path) && *path != self.base {
            return if is_directory {
                Visibility::Partial
            } else {
                Visibility::Hidden
            };
        }
        if !path.is_within(&self.base) || (*path != self.base && !self.is_visible(path, is_directory)) {
            return Visibility::Hidden;
        }
        if is_directory && !self.may_read_all_below(path) {
            Visibility::Partial
        } else {
            Visibility::Whole
        }
    }

    fn may_read_all_below(&self, directory: &WsPath) -> bool {
        self.layers.iter().all(|layer| {
            let relative = directory.relative_to(&layer.base);
            relative.is_some_and(|relative| layer.rules.may_read_all_below(&relative))
        })
    }

    /// Whether both views have the same directory and the same policies.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        let mut layers = self.layers.iter().zip(&other.layers);
        self.layers.len() == other.layers.len() && layers.all(|(one, two)| one.has_same_rules(two))
    }
}

impl PolicyLayer {
    pub(crate) fn new(base: WsPath, policy: FsPolicy) -> Result<Self> {
        let rules = FsRules::new(policy)?;
        let quota = Quota::from_rules(&rules);
        Ok(Self { base, rules, quota })
    }

    /// Whether both layers apply the same policy to the same directory.
    pub(crate) fn has_same_rules(&self, other: &Self) -> bool {
        self.base == other.base && self.rules.policy() == other.rules.policy()
    }
}
