//! Admission: turns a path that a caller wrote into a path that may be passed to the storage.
//!
//! A symbolic link is another name for a file, and policies apply to files, not to names. So if a policy depends on
//! paths, or the view is a scope, the path is resolved first, the rules are checked on both names, and the storage is
//! told to follow no link after that: neither an alias nor a race between check and use passes.

use garret_core::{Access, Error, Follow, Result, WsPath};

use crate::file_access::FileAccess;

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

impl FileAccess {
    /// Parses a path of this view.
    pub(crate) fn parse_path(&self, path: &str) -> Result<WsPath> {
        self.parse_with(path, self.view.own_layer().rules.policy().on_escape)
    }

    /// Parses `path` and checks each access against the policies; returns the path to pass to the storage.
    pub(crate) async fn admit(&self, path: &str, names: PathSubject, accesses: &[Access]) -> Result<AdmittedPath> {
        self.admit_path(self.parse_path(path)?, names, accesses).await
    }

    /// Admits a path at which an entry may be created. Besides the checks of [`FileAccess::admit`], it refuses paths of
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
        self.view.check_rules(&asked, accesses)?;
        if !self.view.is_restricted() {
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
            self.view.check_rules(&real, accesses)?;
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

    /// Admits a directory for listing or searching: it may be read, or an entry below it may be read.
    pub(crate) async fn admit_directory(&self, path: &str) -> Result<AdmittedPath> {
        let shown = self.parse_path(path)?;
        let asked = shown.rebase_below(&self.view.base)?;
        if self.view.is_visible(&asked, true) {
            let target = self.admit_path(shown, PathSubject::Content, &[]).await?;
            // Links may have led to another directory, whose own visibility counts as well.
            if self.view.is_visible(&target.real, true) {
                return Ok(target);
            }
            return self.view.check_rules(&target.real, &[Access::Read]).map(|()| target);
        }
        self.view.check_rules(&asked, &[Access::Read])?;
        self.admit_path(shown, PathSubject::Content, &[Access::Read]).await
    }
}
