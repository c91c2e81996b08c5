//! Admission: turns a path that a caller wrote into a path that may be passed to the storage.
//!
//! A symbolic link is another name for a file, and policies apply to files, not to names. So if a policy depends on
//! paths, or the view is a scope, the path is resolved first, the rules are checked on both names, and the storage is
//! told to follow no link after that: neither an alias nor a race between check and use passes.

use garret_core::{Access, EntryPath, Error, Follow, OnEscape, Result, WsPath};

use crate::Workspace;

/// A path that passed the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdmittedPath {
    /// The path as the caller knows it, relative to the view.
    pub(crate) shown: WsPath,
    /// The path as the storage knows it.
    pub(crate) real: WsPath,
    /// How the storage treats links in the path.
    pub(crate) follow: Follow,
}

/// The entry that an operation acts on if the last name of a path is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathSubject {
    /// The link itself.
    Entry,
    /// The entry that the link leads to.
    Content,
}

impl Workspace {
    /// Parses a path of this view.
    pub(crate) fn parse_path(&self, path: &str) -> Result<WsPath> {
        self.parse_with(path, self.on_escape())
    }

    fn on_escape(&self) -> OnEscape {
        self.own_layer().rules.policy().on_escape
    }

    /// Parses `path` and checks each access against the policies; returns the path to pass to the storage.
    pub(crate) async fn admit(&self, path: &str, names: PathSubject, accesses: &[Access]) -> Result<AdmittedPath> {
        self.admit_path(self.parse_path(path)?, names, accesses).await
    }

    /// Admits a path at which an entry may be created. Besides the checks of [`Workspace::admit`], it refuses paths of
    /// the host.
    pub(crate) async fn admit_creation(
        &self,
        path: &str,
        names: PathSubject,
        accesses: &[Access],
    ) -> Result<AdmittedPath> {
        let target = self.admit(path, names, accesses).await?;
        self.refuse_host_tree(path, &target.shown).await?;
        Ok(target)
    }

    /// Checks each access to a parsed path of this view, and resolves its links if a rule or the view depends on names.
    pub(crate) async fn admit_path(
        &self,
        shown: WsPath,
        names: PathSubject,
        accesses: &[Access],
    ) -> Result<AdmittedPath> {
        let asked = shown.rebase_below(&self.view.base)?;
        // The written name is checked before it is resolved, so that a denied path is `denied` whether it exists or
        // not.
        self.check_rules(&asked, accesses)?;
        if !self.is_restricted() {
            return Ok(AdmittedPath {
                shown,
                real: asked,
                follow: Follow::Inside,
            });
        }
        let real = self.real_path(&asked, names).await?;
        if !real.is_within(&self.view.base) {
            return Err(Error::path_escape(&shown));
        }
        if real != asked {
            self.check_rules(&real, accesses)?;
        }
        Ok(AdmittedPath {
            shown,
            real,
            // The rules were checked on the resolved path; a link put into it since must not lead elsewhere.
            follow: Follow::Never,
        })
    }

    /// Returns `path` with its links followed: those of its directory for the entry itself, all of them for the
    /// content.
    pub(crate) async fn real_path(&self, path: &WsPath, names: PathSubject) -> Result<WsPath> {
        match (names, path.parent(), path.name()) {
            (PathSubject::Entry, Some(parent), Some(name)) => self.storage().resolve(&parent).await?.child(name),
            _ => self.storage().resolve(path).await,
        }
    }

    /// Returns the path of the content of an admitted entry, with every link followed.
    pub(crate) async fn follow_links(&self, target: &AdmittedPath) -> Result<WsPath> {
        match target.follow {
            // Its real path was checked already. Resolved again, a link that took its place since would lead past the
            // check.
            Follow::Never => Ok(target.real.clone()),
            Follow::Inside => self.storage().resolve(&target.real).await,
        }
    }

    /// Whether access depends on names: a rule depends on the path, or the view is narrower than the storage.
    pub(crate) fn is_restricted(&self) -> bool {
        !self.view.base.is_root() || self.view.layers.iter().any(|layer| layer.rules.depends_on_path())
    }

    /// Checks a path of the storage against every policy that applies to it.
    pub(crate) fn check_rules(&self, path: &WsPath, accesses: &[Access]) -> Result<()> {
        for layer in &self.view.layers {
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

    /// Admits a directory for listing or searching: it may be read, or an entry below it may be read.
    pub(crate) async fn admit_directory(&self, path: &str) -> Result<AdmittedPath> {
        let shown = self.parse_path(path)?;
        let asked = shown.rebase_below(&self.view.base)?;
        if self.is_visible(&asked, true) {
            let target = self.admit_path(shown, PathSubject::Content, &[]).await?;
            // Links may have led to another directory, whose own visibility counts as well.
            if self.is_visible(&target.real, true) {
                return Ok(target);
            }
            return self.check_rules(&target.real, &[Access::Read]).map(|()| target);
        }
        self.check_rules(&asked, &[Access::Read])?;
        self.admit_path(shown, PathSubject::Content, &[Access::Read]).await
    }

    /// Whether lists and searches of this view show the entry of the storage at `path`.
    pub(crate) fn is_visible(&self, path: &WsPath, is_directory: bool) -> bool {
        self.view.is_visible(path, is_directory)
    }

    /// Whether this view shows a listed entry. An entry whose name is not UTF-8 is shown if it is in the view's
    /// directory and no rule depends on paths.
    pub(crate) fn is_entry_visible(&self, path: &EntryPath, is_directory: bool) -> bool {
        match path.as_path() {
            Some(path) => self.is_visible(path, is_directory),
            None => {
                // A glob cannot be matched against a name that is not UTF-8, so any rule on paths hides the entry.
                let is_ruled = self.view.layers.iter().any(|layer| layer.rules.depends_on_path());
                self.view.has_in_directory(path.as_bytes()) && !is_ruled
            }
        }
    }

    /// Returns a path of the storage as this view shows it: relative to the view.
    pub(crate) fn relative_to_view(&self, path: &WsPath) -> WsPath {
        path.relative_to(&self.view.base).unwrap_or_else(|| path.clone())
    }

    /// Returns a listed path of the storage as this view shows it: relative to the view.
    pub(crate) fn entry_relative_to_view(&self, path: &EntryPath) -> EntryPath {
        match path {
            EntryPath::Valid(path) => EntryPath::Valid(self.relative_to_view(path)),
            EntryPath::Raw(bytes) if self.view.base.is_root() => EntryPath::Raw(bytes.clone()),
            EntryPath::Raw(bytes) => EntryPath::from_bytes(bytes[self.view.base.as_str().len() + 1..].to_vec()),
        }
    }
}
