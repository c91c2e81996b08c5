//! From what a caller wrote to a path that the storage may be asked for.
//!
//! A symbolic link is another name for a file, and policies speak of files, not of names. So where a policy depends on paths, or the
//! view is a scope, the path is resolved first, the rules are checked on both names, and the storage is told to follow no link after
//! that: neither an alias nor a race between check and use passes.

use garret_core::{Access, EntryPath, Error, Follow, OnEscape, Result, WsPath};

use crate::Workspace;

/// A path that passed the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// As the caller knows it, relative to the view.
    pub(crate) shown: WsPath,
    /// As the storage knows it.
    pub(crate) real: WsPath,
    /// How the storage treats links on the way.
    pub(crate) follow: Follow,
}

/// What an operation acts on where the last name of a path is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// The link itself.
    Entry,
    /// What the link leads to.
    Content,
}

impl Workspace {
    /// Parses a path of this view.
    pub(crate) fn parse(&self, path: &str) -> Result<WsPath> {
        self.parse_with(path, self.on_escape())
    }

    fn on_escape(&self) -> OnEscape {
        self.own_layer().rules.policy().on_escape
    }

    /// Parses `path` and checks each access; the result is what the storage is asked for.
    pub(crate) async fn admit(&self, path: &str, names: Names, accesses: &[Access]) -> Result<Target> {
        self.admit_path(self.parse(path)?, names, accesses).await
    }

    /// Like [`Workspace::admit`], for a path at which something may be created.
    pub(crate) async fn admit_creation(&self, path: &str, names: Names, accesses: &[Access]) -> Result<Target> {
        let target = self.admit(path, names, accesses).await?;
        self.refuse_host_tree(path, &target.shown).await?;
        Ok(target)
    }

    pub(crate) async fn admit_path(&self, shown: WsPath, names: Names, accesses: &[Access]) -> Result<Target> {
        let asked = shown.below(&self.view.base)?;
        self.check_rules(&asked, accesses)?;
        if !self.is_fenced() {
            return Ok(Target {
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
        Ok(Target {
            shown,
            real,
            follow: Follow::Never,
        })
    }

    /// The path with the links on it followed: up to the entry itself, or to its content.
    pub(crate) async fn real_path(&self, path: &WsPath, names: Names) -> Result<WsPath> {
        match (names, path.parent(), path.name()) {
            (Names::Entry, Some(parent), Some(name)) => self.storage().resolve(&parent).await?.child(name),
            _ => self.storage().resolve(path).await,
        }
    }

    /// Where an admitted path leads. One that was checked by its real path already is not resolved again: a link that took its
    /// place since would lead past the check.
    pub(crate) async fn followed(&self, target: &Target) -> Result<WsPath> {
        match target.follow {
            Follow::Never => Ok(target.real.clone()),
            Follow::Inside => self.storage().resolve(&target.real).await,
        }
    }

    /// Whether names matter: a rule depends on the path, or the view is narrower than the storage.
    pub(crate) fn is_fenced(&self) -> bool {
        !self.view.base.is_root() || self.view.layers.iter().any(|layer| layer.rules.depends_on_path())
    }

    /// Checks a path of the storage against every policy around it.
    pub(crate) fn check_rules(&self, path: &WsPath, accesses: &[Access]) -> Result<()> {
        for layer in &self.view.layers {
            let relative = path.relative_to(&layer.base).ok_or_else(|| Error::path_escape(path))?;
            // The root is where everything begins: it is listed whatever the rules, and shows what they leave.
            let reads_root = |access: &Access| *access == Access::Read && relative.is_root();
            accesses
                .iter()
                .filter(|access| !reads_root(access))
                .try_for_each(|access| layer.rules.check(*access, &relative))?;
        }
        Ok(())
    }

    /// Admits a directory for listing or searching: it may be read, or it leads to something that may be.
    pub(crate) async fn admit_directory(&self, path: &str) -> Result<Target> {
        let shown = self.parse(path)?;
        let asked = shown.below(&self.view.base)?;
        if self.is_visible(&asked, true) {
            let target = self.admit_path(shown, Names::Content, &[]).await?;
            if self.is_visible(&target.real, true) {
                return Ok(target);
            }
            return self.check_rules(&target.real, &[Access::Read]).map(|()| target);
        }
        self.check_rules(&asked, &[Access::Read])?;
        self.admit_path(shown, Names::Content, &[Access::Read]).await
    }

    /// Whether an entry of the storage shows in lists and searches of this view.
    pub(crate) fn is_visible(&self, path: &WsPath, is_directory: bool) -> bool {
        self.view.is_visible(path, is_directory)
    }

    /// Whether a listed entry shows; one whose name is no path shows where it is in the view's directory and no rule depends on paths.
    pub(crate) fn is_entry_visible(&self, path: &EntryPath, is_directory: bool) -> bool {
        match path.as_path() {
            Some(path) => self.is_visible(path, is_directory),
            None => {
                let is_ruled = self.view.layers.iter().any(|layer| layer.rules.depends_on_path());
                self.view.has_in_directory(path.as_bytes()) && !is_ruled
            }
        }
    }

    /// A path of the storage as this view shows it.
    pub(crate) fn shown(&self, path: &WsPath) -> WsPath {
        path.relative_to(&self.view.base).unwrap_or_else(|| path.clone())
    }

    /// A listed path as this view shows it.
    pub(crate) fn shown_entry(&self, path: &EntryPath) -> EntryPath {
        match path {
            EntryPath::Valid(path) => EntryPath::Valid(self.shown(path)),
            EntryPath::Raw(bytes) if self.view.base.is_root() => EntryPath::Raw(bytes.clone()),
            EntryPath::Raw(bytes) => EntryPath::from_bytes(bytes[self.view.base.as_str().len() + 1..].to_vec()),
        }
    }
}
