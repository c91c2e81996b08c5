//! Policies applied to the past: the part of a change that a view may see, and the paths that it may restore.

use std::borrow::Cow;
use garret_core::{
    Access, Change, EntryKind, EntryPath, Error, ErrorKind, Expected, Image, Making, PathChange, Placed, Put, Puts,
    Result, Review, WsPath,
};

use crate::Workspace;
use crate::quota::Hold;

impl Workspace {
    /// Returns a change as this view shows it; `None` if it touched no path that this view shows.
    pub(crate) async fn seen(&self, change: Change) -> Result<Option<Change>> {
        if !self.is_fenced() {
            return Ok(Some(change));
        }
        // A change carries only its first paths, and those may all be outside of this view.
        let paths = if change.path_count > change.paths.len() as u64 {
            let point = garret_core::Point::Change(change.id.clone());
            let (_, paths) = self.journal()?.change(&point).await?;
            paths.into_iter().map(|one| one.path).collect()
        } else {
            change.paths.clone()
        };
        let total = paths.len();
        let visible: Vec<EntryPath> = paths.iter().filter(|path| self.is_path_seen(path)).cloned().collect();
        if visible.is_empty() {
            return Ok(None);
        }
        let is_whole = visible.len() == total && self.view.base.is_root();
        let path_count = visible.len() as u64;
        Ok(Some(Change {
            // The summary in the journal may name paths that this view hides.
            summary: if is_whole {
                change.summary.clone()
            } else {
                self.summary_of(&change, &visible)
            },
            paths: visible
                .iter()
                .take(Change::SHOWN_PATHS)
                .map(|path| self.shown_entry(path))
                .collect(),
            path_count,
            actor: if is_whole {
                change.actor
            } else {
                // The command may name hidden paths, too.
                garret_core::ChangeActor {
                    command: None,
                    ..change.actor
                }
            },
            ..change
        }))
    }

    /// Returns a summary of a change that names only visible paths.
    fn summary_of(&self, change: &Change, visible: &[EntryPath]) -> String {
        let word = match change.operation.as_str() {
            "" => change.kind.as_str(),
            operation => operation,
        };
        let first = visible
            .first()
            .map(|path| self.shown_entry(path).shown())
            .unwrap_or_default();
        match visible.len() {
            1 => format!("{word} {}", garret_core::path::quote(&first)),
            more => format!("{word} {} and {} more", garret_core::path::quote(&first), more - 1),
        }
    }

    /// Whether this view shows a path of the journal.
    pub(crate) fn is_path_seen(&self, path: &EntryPath) -> bool {
        self.is_entry_within(path) && self.is_entry_visible(path, false)
    }

    fn is_entry_within(&self, path: &EntryPath) -> bool {
        let base = self.view.base.as_str().as_bytes();
        let rest = path.as_bytes().strip_prefix(base);
        base.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns the path changes that this view shows, with their paths relative to the view.
    pub(crate) fn seen_paths(&self, paths: Vec<PathChange>) -> Vec<PathChange> {
        let visible = paths.into_iter().filter(|one| self.is_path_seen(&one.path));
        visible
            .map(|one| PathChange {
                path: self.shown_entry(&one.path),
                ..one
            })
            .collect()
    }

    /// Returns the origin and the review of a change that the history makes for this view: the review refuses a change
    /// of a path that the view may not change.
    pub(crate) fn making(&self, operation: impl Into<Cow<'static, str>>) -> Making {
        let view = self.clone();
        let review: Review = std::sync::Arc::new(move |paths| view.review(paths));
        Making {
            origin: self.origin(operation, String::new()),
            review: Some(review),
        }
    }

    /// Returns the origin and the review of a change that quotas may refuse, and the turns of all quotas. The caller
    /// holds the turns until the change is made.
    pub(crate) async fn making_in_turn(&self, operation: impl Into<Cow<'static, str>>) -> Result<(Making, Vec<Hold<'_>>)> {
        let turns = self.quota_turns().await;
        Ok((self.making_with_turns(operation).await?, turns))
    }

    /// Waits for the turn of every quota of this view.
    pub(crate) async fn quota_turns(&self) -> Vec<Hold<'_>> {
        let mut turns = Vec::new();
        // The outermost first, as every operation does: in another order, two operations could wait for each other.
        for quota in self.view.layers.iter().filter_map(|layer| layer.quota.as_ref()) {
            turns.push(quota.hold().await);
        }
        turns
    }

    /// Returns the origin and the review of a change that quotas may refuse, for a caller that holds the turns.
    pub(crate) async fn making_with_turns(&self, operation: impl Into<Cow<'static, str>>) -> Result<Making> {
        let mut rooms = Vec::new();
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                rooms.push(quota.room(self.storage(), &layer.base).await?);
            }
        }
        let view = self.clone();
        // The review is called inside a transaction and cannot wait, so counts and denied names are collected before.
        let denied = self.denied_names().await?;
        let review: Review = std::sync::Arc::new(move |paths| {
            view.review(paths)?;
            if paths.iter().any(|one| denied.contains(&one.path)) {
                return Err(changes_hidden());
            }
            rooms.iter().try_for_each(|room| room.check(paths))
        });
        Ok(Making {
            review: Some(review),
            ..self.making(operation)
        })
    }

    /// Checks that this view may make each of these changes to paths.
    pub(crate) fn review(&self, paths: &[PathChange]) -> Result<()> {
        paths.iter().try_for_each(|one| self.review_path(one))
    }

    /// Checks that this view may put these entries at their paths.
    pub(crate) fn review_puts(&self, puts: &Puts) -> Result<()> {
        let change = |put: &Put| PathChange {
            path: put.path.clone(),
            before: match &put.expected {
                Expected::Is(image) => image.clone(),
                Expected::UnchangedSince { .. } => None,
            },
            after: match &put.placed {
                Placed::Image(image) => Some(image.clone()),
                _ => None,
            },
        };
        puts.puts.iter().map(change).try_for_each(|one| self.review_path(&one))
    }

    fn review_path(&self, one: &PathChange) -> Result<()> {
        let may_be_directory =
            |image: &Option<Image>| image.as_ref().is_none_or(|image| image.kind == EntryKind::Directory);
        let is_directory = may_be_directory(&one.before) && may_be_directory(&one.after);
        // The directory of a scope, and those above it, are made and removed together with the entries in it.
        if let Some(path) = one.path.as_path()
            && self.view.base.is_within(path)
            && is_directory
        {
            return self.check_writable();
        }
        if !self.is_entry_within(&one.path) {
            return Err(
                Error::new(ErrorKind::Denied, "the change also touched files outside this view")
                    .hint("choose a change that stays within this view"),
            );
        }
        match one.path.as_path() {
            // The error must not name a path that may not be seen.
            Some(path) if !self.is_visible(path, is_directory) => Err(changes_hidden()),
            Some(path) if is_directory => self.check_directory(path),
            Some(path) => {
                self.check_rules(path, &[Access::Read, Access::Write])?;
                self.review_size(path, one)
            }
            None if self.is_entry_visible(&one.path, false) => self.check_writable(),
            None => Err(Error::new(
                ErrorKind::Denied,
                "the change touched a name that is not UTF-8, which the policy cannot check",
            )),
        }
    }

    /// Checks the size of a file that is added or grows.
    fn review_size(&self, path: &WsPath, one: &PathChange) -> Result<()> {
        let size = |image: &Option<Image>| image.as_ref().map_or(0, |image| image.size);
        let (before, after) = (size(&one.before), size(&one.after));
        // A file may be larger than a limit that was set later; making it smaller must stay possible.
        if after <= before {
            return Ok(());
        }
        let layers = self.view.layers.iter();
        let mut rules = layers.map(|layer| &layer.rules);
        rules.try_for_each(|rules| rules.check_file_size(path, after))
    }

    /// Checks that a directory may be added or removed with its entries, as a write of a file adds it.
    pub(crate) fn check_directory(&self, path: &WsPath) -> Result<()> {
        self.view.layers.iter().try_for_each(|layer| {
            let relative = path.relative_to(&layer.base).ok_or_else(|| Error::path_escape(path))?;
            layer.rules.check_directory(&relative)
        })
    }

    /// Checks that this view may write at all.
    fn check_writable(&self) -> Result<()> {
        let read_only = self.view.layers.iter().find(|layer| layer.rules.policy().read_only);
        read_only.map_or(Ok(()), |layer| layer.rules.check(Access::Write, &WsPath::root()))
    }
}

fn changes_hidden() -> Error {
    Error::new(ErrorKind::Denied, "it would also change files that the policy hides")
        .hint("choose a change or a path that does not touch them")
}
