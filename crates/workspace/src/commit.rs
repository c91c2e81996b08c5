//! The one function through which every mutation of a workspace goes.

use garret_core::{Applied, Batch, EntryKind, Error, ErrorKind, Follow, Mutation, Origin, Result, StatOptions, WsPath};

use crate::Workspace;
use crate::admit::Names;

/// Something that a mutation puts somewhere.
struct Arrival {
    path: Vec<u8>,
    is_directory: bool,
}

impl Workspace {
    /// Applies the mutations as one atomic change. Their paths are admitted already; here sizes and quota are checked, and the storage
    /// is asked once.
    pub(crate) async fn commit(
        &self,
        operation: &'static str,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<Applied>> {
        let origin = self.origin(operation, summary_of(operation, &mutations));
        self.commit_from(origin, mutations, follow).await
    }

    /// The same with the words of whoever knows better than the mutations what they come to.
    pub(crate) async fn commit_from(
        &self,
        origin: Origin,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<Applied>> {
        let batch = self.batch(origin, mutations, follow).await?;
        let now = self.shared.clock.elapsed();
        let mut turns = Vec::new();
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                turns.push(quota.take_turn(self.storage(), &layer.base, &batch, now).await?);
            }
        }
        let applied = self.storage().apply(batch).await?;
        turns.into_iter().for_each(crate::quota::Turn::done);
        Ok(applied)
    }

    /// The same by whoever has the turns with the quotas already.
    pub(crate) async fn commit_with_turns(
        &self,
        operation: &'static str,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<Applied>> {
        let origin = self.origin(operation, summary_of(operation, &mutations));
        let batch = self.batch(origin, mutations, follow).await?;
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                quota.check(self.storage(), &layer.base, &batch).await?;
            }
        }
        self.storage().apply(batch).await
    }

    /// The batch of these mutations, if no file has a denied name or would be too large, and none is where history leaves out what commands
    /// make.
    async fn batch(&self, origin: Origin, mutations: Vec<Mutation>, follow: Follow) -> Result<Batch> {
        self.check_changed_files(&mutations).await?;
        for mutation in &mutations {
            self.check_in_history(mutation, follow).await?;
            self.check_size(mutation).await?;
        }
        Ok(Batch {
            mutations,
            follow,
            origin,
        })
    }

    /// Where a change of this workspace comes from.
    pub(crate) fn origin(&self, operation: &'static str, summary: String) -> Origin {
        Origin {
            operation,
            summary,
            actor: self.actor().clone(),
            command: None,
        }
    }

    /// Checks that nothing is put where history leaves out what commands make: whoever writes there by hand would have another file than
    /// the commands see. What is there already can be removed.
    async fn check_in_history(&self, mutation: &Mutation, follow: Follow) -> Result<()> {
        let Some(shop) = self.workshop().ok().filter(|shop| !shop.exclusions.is_empty()) else {
            return Ok(());
        };
        let arrivals = self.arrivals(mutation, follow).await?;
        let is_left_out = |one: &Arrival| shop.exclusions.covers_bytes(&one.path, one.is_directory);
        match arrivals.iter().any(is_left_out) {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Denied,
                "`exclude` keeps this path out of history: only commands can write there",
            )
            .at(&self.shown(mutation.path()))
            .hint("write it with a command, write to another path, or remove the pattern from `exclude`")),
        }
    }

    /// What a mutation puts where, with all that a directory takes along, by the paths that the links on the way lead to.
    async fn arrivals(&self, mutation: &Mutation, follow: Follow) -> Result<Vec<Arrival>> {
        let (to, names, is_directory) = match mutation {
            Mutation::Remove { .. } | Mutation::SetMode { .. } => return Ok(Vec::new()),
            Mutation::Write { path, .. } | Mutation::Append { path, .. } => (path, Names::Content, false),
            Mutation::Symlink { path, .. } | Mutation::Copy { to: path, .. } => (path, Names::Entry, false),
            Mutation::MakeDir { path, .. } => (path, Names::Entry, true),
            Mutation::Rename { from, to, .. } => {
                let from = self.real(from, Names::Entry, follow).await;
                return self.moved(&from, &self.real(to, Names::Entry, follow).await).await;
            }
        };
        let path = self.real(to, names, follow).await.as_str().into();
        Ok(vec![Arrival { path, is_directory }])
    }

    /// What a move of `from` to `to` puts where.
    async fn moved(&self, from: &WsPath, to: &WsPath) -> Result<Vec<Arrival>> {
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        let stat = self.storage().stat(from, options).await;
        let is_directory = stat.is_ok_and(|stat| stat.kind == EntryKind::Directory);
        let mut arrivals = vec![Arrival {
            path: to.as_str().into(),
            is_directory,
        }];
        if is_directory {
            let below = self.entries_below(from, Follow::Never).await?;
            arrivals.extend(below.iter().map(|entry| Arrival {
                path: [to.as_str().as_bytes(), &entry.path.as_bytes()[from.as_str().len()..]].concat(),
                is_directory: entry.kind == EntryKind::Directory,
            }));
        }
        Ok(arrivals)
    }

    /// Where a path leads. One that leads nowhere as things are is left to the storage, which knows what the whole batch does.
    async fn real(&self, path: &WsPath, names: Names, follow: Follow) -> WsPath {
        match follow {
            Follow::Inside => self.real_path(path, names).await.unwrap_or_else(|_| path.clone()),
            Follow::Never => path.clone(),
        }
    }

    /// Checks the size that a file would have.
    async fn check_size(&self, mutation: &Mutation) -> Result<()> {
        if self
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
        let path = self.shown(mutation.path());
        self.view
            .layers
            .iter()
            .try_for_each(|layer| layer.rules.check_file_size(&path, size))
    }

    async fn size_of(&self, path: &garret_core::WsPath) -> u64 {
        // Where nothing is there, the storage says so better than this check could.
        let Ok(real) = self.storage().resolve(path).await else {
            return 0;
        };
        self.storage()
            .stat(&real, StatOptions::default())
            .await
            .map_or(0, |stat| stat.size)
    }
}

/// Words for what the mutations alone would tell wrongly; empty where they tell it.
fn summary_of(operation: &str, mutations: &[Mutation]) -> String {
    let verb = match operation {
        "edit_file" => "edit",
        "apply_patch" => "patch",
        _ => return String::new(),
    };
    match mutations {
        [] => String::new(),
        [one] => format!("{verb} {}", one.path().quoted()),
        [first, rest @ ..] => format!("{verb} {} and {} more", first.path().quoted(), rest.len()),
    }
}
