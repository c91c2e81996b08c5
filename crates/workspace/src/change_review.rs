//! The one review of a planned change: by policy, hard links, excluded paths, size and quota.

use garret_core::{
    Access, Batch, EntryKind, EntryPath, Error, ErrorKind, Mutation, PathChange, PathImage, Result, Storage, WsPath,
};

use crate::file_access::FileAccess;
use crate::quota::QuotaTurns;
use crate::view::WorkspaceView;

impl FileAccess {
    /// Reviews a planned change of `paths` to the files in `storage`. Admission has checked the paths of the batch
    /// `admitted` against the policy already.
    pub(crate) async fn review_change(
        &self,
        paths: &[PathChange],
        admitted: Option<&Batch>,
        storage: &dyn Storage,
        turns: &mut QuotaTurns<'_>,
    ) -> Result<()> {
        let hard_links = self.hard_links();
        match admitted {
            None => {
                self.view.review_paths(paths)?;
                let changed = || paths.iter().map(|one| one.path.clone()).collect();
                hard_links.check_changed_files(changed).await?;
            }
            Some(batch) => {
                let changed = || batch.mutations.iter().flat_map(changed_files).collect();
                hard_links.check_changed_files(changed).await?;
            }
        }
        self.check_in_history(paths)?;
        self.view.review_sizes(paths, admitted.is_none())?;
        turns.check_changes(storage, paths, self.context.clock.elapsed()).await
    }

    /// Refuses to put an entry at a path that `exclude` keeps out of history. An entry that is already there can be
    /// removed.
    fn check_in_history(&self, paths: &[PathChange]) -> Result<()> {
        // Commands have their own files at excluded paths: a file written there from outside is not the one that
        // commands see.
        let is_excluded = |one: &&PathChange| {
            let is_directory = |after: &PathImage| after.kind == EntryKind::Directory;
            let exclusions = &self.source.exclusions;
            one.after
                .as_ref()
                .is_some_and(|after| exclusions.covers_bytes(one.path.as_bytes(), is_directory(after)))
        };
        let Some(one) = paths.iter().find(is_excluded) else {
            return Ok(());
        };
        let shown = self.view.relative_entry_path(&one.path);
        Err(Error::new(
            ErrorKind::Denied,
            "`exclude` keeps this path out of history: only commands can write there",
        )
        .at_path_text(shown.display_path())
        .hint("write it with a command, write to another path, or remove the pattern from `exclude`"))
    }
}

/// Returns the paths of the files that a mutation reads or changes.
fn changed_files(mutation: &Mutation) -> Vec<EntryPath> {
    match mutation {
        Mutation::MakeDir { .. } | Mutation::Symlink { .. } => Vec::new(),
        Mutation::Rename { from, to, .. } | Mutation::Copy { from, to, .. } => {
            vec![from.clone().into(), to.clone().into()]
        }
        _ => vec![mutation.path().clone().into()],
    }
}

impl WorkspaceView {
    /// Checks by policy that this view may make each of these changes to paths.
    pub(crate) fn review_paths(&self, paths: &[PathChange]) -> Result<()> {
        paths.iter().try_for_each(|one| self.review_path(one))
    }

    fn review_path(&self, one: &PathChange) -> Result<()> {
        let may_be_directory =
            |image: &Option<PathImage>| image.as_ref().is_none_or(|image| image.kind == EntryKind::Directory);
        let is_directory = may_be_directory(&one.before) && may_be_directory(&one.after);
        // The directory of a scope, and those above it, are made and removed together with the entries in it.
        if let Some(path) = one.path.as_path()
            && self.base.is_within(path)
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
            Some(path) if !self.is_visible(path, is_directory) => Err(hidden_change_error()),
            Some(path) if is_directory => self.check_directory(path),
            Some(path) => self.check_rules(path, &[Access::Read, Access::Write]),
            None if self.is_entry_visible(&one.path, false) => self.check_writable(),
            None => Err(Error::new(
                ErrorKind::Denied,
                "the change touched a name that is not UTF-8, which the policy cannot check",
            )),
        }
    }

    /// Checks the sizes of the files that are added or changed. A plan may make a file smaller that is larger than a
    /// limit, which was set later; `is_planned` says that this is one.
    pub(crate) fn review_sizes(&self, paths: &[PathChange], is_planned: bool) -> Result<()> {
        let size = |image: &Option<PathImage>| image.as_ref().map_or(0, |image| image.size);
        let is_moved = |after| {
            paths
                .iter()
                .any(|one| one.after.is_none() && size(&one.before) == after)
        };
        for one in paths.iter().filter(|one| one.after.is_some()) {
            let after = size(&one.after);
            if let Some(path) = one.path.as_path()
                && !(is_planned && after <= size(&one.before))
            {
                let mut layers = self.layers.iter();
                let checked = layers.try_for_each(|layer| layer.rules.check_file_size(path, after));
                checked.or_else(|error| if is_moved(after) { Ok(()) } else { Err(error) })?;
            }
        }
        Ok(())
    }

    /// Checks that a directory may be added or removed with its entries, as a write of a file adds it.
    pub(crate) fn check_directory(&self, path: &WsPath) -> Result<()> {
        self.layers.iter().try_for_each(|layer| {
            let relative = path.relative_to(&layer.base).ok_or_else(|| Error::path_escape(path))?;
            layer.rules.check_directory(&relative)
        })
    }

    /// Checks that this view may write at all.
    fn check_writable(&self) -> Result<()> {
        let read_only = self.layers.iter().find(|layer| layer.rules.policy().read_only);
        read_only.map_or(Ok(()), |layer| layer.rules.check_access(Access::Write, &WsPath::root()))
    }
}

pub(crate) fn hidden_change_error() -> Error {
    Error::new(ErrorKind::Denied, "it would also change files that the policy hides")
        .hint("choose a change or a path that does not touch them")
}
