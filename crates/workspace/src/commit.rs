//! The one function through which every mutation of a workspace goes.

use garret_core::{Applied, Batch, EntryKind, Error, ErrorKind, Follow, Mutation, Origin, Result, StatOptions, WsPath};

use crate::Workspace;

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

    /// The batch of these mutations, if no file would be too large, and none where history leaves out what commands make.
    async fn batch(&self, origin: Origin, mutations: Vec<Mutation>, follow: Follow) -> Result<Batch> {
        for mutation in &mutations {
            self.check_in_history(mutation).await?;
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
    async fn check_in_history(&self, mutation: &Mutation) -> Result<()> {
        let Some(shop) = self.workshop().ok().filter(|shop| !shop.exclusions.is_empty()) else {
            return Ok(());
        };
        let is_directory = match mutation {
            Mutation::Remove { .. } | Mutation::SetMode { .. } => return Ok(()),
            Mutation::MakeDir { .. } => true,
            Mutation::Rename { from, .. } | Mutation::Copy { from, .. } => self.is_directory(from).await,
            _ => false,
        };
        match shop
            .exclusions
            .covers_bytes(mutation.path().as_str().as_bytes(), is_directory)
        {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::Denied,
                "`exclude` leaves this path out of history: only commands keep files there",
            )
            .at(&self.shown(mutation.path()))
            .hint("write it by a command, write it elsewhere, or take the pattern off `exclude`")),
        }
    }

    async fn is_directory(&self, path: &WsPath) -> bool {
        let stat = self.storage().stat(path, StatOptions::default()).await;
        stat.is_ok_and(|stat| stat.kind == EntryKind::Directory)
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
