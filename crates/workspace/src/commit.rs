//! The one function through which every mutation of a workspace goes.

use garret_core::{
    Batch, EntryKind, Error, ErrorKind, Follow, Mutation, MutationOutcome, Origin, Result, StatOptions, WsPath,
};
use std::borrow::Cow;

use crate::admission::PathSubject;
use crate::file_access::FileAccess;

/// An entry that a mutation puts at a path.
struct ArrivingEntry {
    path: Vec<u8>,
    is_directory: bool,
}

/// Checks the mutations of one batch by the state of the files.
struct MutationCheck<'a> {
    files: &'a FileAccess,
    /// How the batch treats links in its paths.
    follow: Follow,
}

impl FileAccess {
    /// Applies the mutations as one atomic change. Their paths are admitted already; here sizes and quota are checked,
    /// and the storage is asked once.
    pub(crate) async fn commit_mutations(
        &self,
        operation: impl Into<Cow<'static, str>>,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<MutationOutcome>> {
        let operation = operation.into();
        let summary = summary_of(&operation, &mutations);
        let origin = self.change_origin(operation, summary);
        self.commit_with_origin(origin, mutations, follow).await
    }

    /// Applies the mutations as one atomic change with the given origin, for a caller whose summary says more than the
    /// mutations do.
    pub(crate) async fn commit_with_origin(
        &self,
        origin: Origin,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<MutationOutcome>> {
        let batch = self.build_batch(origin, mutations, follow).await?;
        let now = self.context.clock.elapsed();
        let mut turns = Vec::new();
        // From the outermost layer inwards, as every other operation does: two that wait for each other's quota would
        // never end.
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                turns.push(quota.take_turn(self.storage(), &layer.base, &batch, now).await?);
            }
        }
        let applied = self.storage().apply(batch).await?;
        turns.into_iter().for_each(crate::quota::QuotaTurn::mark_applied);
        Ok(applied)
    }

    /// Applies the mutations as one atomic change, for a caller that already holds the turns of all quotas.
    pub(crate) async fn commit_with_turns(
        &self,
        operation: impl Into<Cow<'static, str>>,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<MutationOutcome>> {
        let operation = operation.into();
        let summary = summary_of(&operation, &mutations);
        let origin = self.change_origin(operation, summary);
        let batch = self.build_batch(origin, mutations, follow).await?;
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                // Not `take_turn`: the caller holds the lock of this quota, so waiting for it would never end.
                quota.check_batch(self.storage(), &layer.base, &batch).await?;
            }
        }
        self.storage().apply(batch).await
    }

    /// Builds the batch of these mutations. Refuses a file that has a denied name, one that would be too large, and one
    /// at a path that `exclude` keeps out of history.
    async fn build_batch(&self, origin: Origin, mutations: Vec<Mutation>, follow: Follow) -> Result<Batch> {
        self.hard_links().check_changed_files(&mutations).await?;
        let check = MutationCheck { files: self, follow };
        for mutation in &mutations {
            check.check_in_history(mutation).await?;
            check.check_size(mutation).await?;
        }
        Ok(Batch {
            mutations,
            follow,
            origin,
        })
    }

    /// Returns the origin of a change of this workspace: the operation, its summary and the actor.
    pub(crate) fn change_origin(&self, operation: impl Into<Cow<'static, str>>, summary: String) -> Origin {
        Origin {
            operation: operation.into(),
            summary,
            actor: (*self.actor).clone(),
            command: None,
        }
    }
}

impl MutationCheck<'_> {
    /// Refuses to put an entry at a path that `exclude` keeps out of history. An entry that is already there can be
    /// removed.
    async fn check_in_history(&self, mutation: &Mutation) -> Result<()> {
        // Commands have their own files at excluded paths: a file written there from outside is not the one that
        // commands see.
        let exclusions = &self.files.source.exclusions;
        if exclusions.is_empty() {
            return Ok(());
        }
        let arrivals = self.find_arrivals(mutation).await?;
        let is_left_out = |one: &ArrivingEntry| exclusions.covers_bytes(&one.path, one.is_directory);
        if !arrivals.iter().any(is_left_out) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            "`exclude` keeps this path out of history: only commands can write there",
        )
        .at_path(&self.files.view.relative_path(mutation.path()))
        .hint("write it with a command, write to another path, or remove the pattern from `exclude`"))
    }

    /// Returns the entries that a mutation puts at paths, those of a moved directory included, by their paths with
    /// links resolved.
    async fn find_arrivals(&self, mutation: &Mutation) -> Result<Vec<ArrivingEntry>> {
        let (to, names, is_directory) = match mutation {
            Mutation::Remove { .. } | Mutation::SetMode { .. } => return Ok(Vec::new()),
            Mutation::Write { path, .. } | Mutation::Append { path, .. } => (path, PathSubject::Content, false),
            Mutation::Symlink { path, .. } | Mutation::Copy { to: path, .. } => (path, PathSubject::Entry, false),
            Mutation::MakeDir { path, .. } => (path, PathSubject::Entry, true),
            Mutation::Rename { from, to, .. } => {
                let from = self.resolve_or_keep(from, PathSubject::Entry).await;
                return self
                    .find_moved_entries(&from, &self.resolve_or_keep(to, PathSubject::Entry).await)
                    .await;
            }
        };
        let path = self.resolve_or_keep(to, names).await.as_str().into();
        Ok(vec![ArrivingEntry { path, is_directory }])
    }

    /// Returns the entries that a move of `from` to `to` puts at paths.
    async fn find_moved_entries(&self, from: &WsPath, to: &WsPath) -> Result<Vec<ArrivingEntry>> {
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        let stat = self.files.storage().stat(from, options).await;
        // A missing source is no error here: the storage reports it when the batch is applied.
        let is_directory = stat.is_ok_and(|stat| stat.kind == EntryKind::Directory);
        let mut arrivals = vec![ArrivingEntry {
            path: to.as_str().into(),
            is_directory,
        }];
        if is_directory {
            let below = self.files.entries_below(from, Follow::Never).await?;
            arrivals.extend(below.iter().map(|entry| ArrivingEntry {
                path: [to.as_str().as_bytes(), &entry.path.as_bytes()[from.as_str().len()..]].concat(),
                is_directory: entry.kind == EntryKind::Directory,
            }));
        }
        Ok(arrivals)
    }

    /// Returns `path` with its links followed, or unchanged if it cannot be resolved.
    async fn resolve_or_keep(&self, path: &WsPath, names: PathSubject) -> WsPath {
        match self.follow {
            // An earlier mutation of the batch may make the directories of this path; the storage, which sees them all,
            // decides.
            Follow::Inside => self.files.real_path(path, names).await.unwrap_or_else(|_| path.clone()),
            Follow::Never => path.clone(),
        }
    }

    /// Checks the size that a file would have after the mutation.
    async fn check_size(&self, mutation: &Mutation) -> Result<()> {
        if self
            .files
            .view
            .layers
            .iter()
            .all(|layer| layer.rules.policy().max_file_size_mb.is_none())
        {
            return Ok(());
        }
        let size = match mutation {
            Mutation::Write { content, .. } => content.len(),
            Mutation::Append { path, content, .. } => self.size_of(path).await + content.len() as u64,
            Mutation::Copy { from, .. } => self.size_of(from).await,
            _ => return Ok(()),
        };
        let path = self.files.view.relative_path(mutation.path());
        self.files
            .view
            .layers
            .iter()
            .try_for_each(|layer| layer.rules.check_file_size(&path, size))
    }

    async fn size_of(&self, path: &WsPath) -> u64 {
        // If the file is missing, the storage reports that with a better error than this check could.
        let Ok(real) = self.files.storage().resolve(path).await else {
            return 0;
        };
        self.files
            .storage()
            .stat(&real, StatOptions::default())
            .await
            .map_or(0, |stat| stat.size)
    }
}

/// Returns a summary for operations whose mutations would describe them wrongly: an edit is stored as a write. Empty
/// for the others.
fn summary_of(operation: &str, mutations: &[Mutation]) -> String {
    let verb = match operation {
        "edit_file" => "edit",
        "apply_patch" => "patch",
        _ => return String::new(),
    };
    match mutations {
        [] => String::new(),
        [one] => format!("{verb} {}", one.path().to_quoted()),
        [first, rest @ ..] => format!("{verb} {} and {} more", first.path().to_quoted(), rest.len()),
    }
}
