//! Quota: how much a workspace may hold.
//!
//! The files are counted once, and the count is then adjusted by the batches of this workspace. Other programs may
//! write to the same storage, so a count is not trusted for long, and never for a refusal: before a refusal, everything
//! is counted again. While a quota is set, mutations take turns.

use std::collections::HashMap;
use std::time::Duration;

use futures::lock::{Mutex, MutexGuard};
use garret_core::{
    Batch, EntryKind, EntryPath, Error, ErrorKind, FsRules, ListOptions, Mutation, PathChange, PathImage, Result,
    StatOptions, Storage, WsPath,
};

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// How long a count is used before the files are counted again.
const TRUSTED_FOR: Duration = Duration::from_secs(30);

/// The limits of one policy, and the last count of files and bytes.
#[derive(Debug)]
pub(crate) struct Quota {
    limits: QuotaLimits,
    known: Mutex<Option<QuotaCount>>,
}

#[derive(Debug, Clone, Copy)]
struct QuotaLimits {
    max_files: Option<u64>,
    max_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct QuotaCount {
    usage: QuotaUsage,
    at: Duration,
}

/// A number of files and bytes: those below a directory, or those that a batch adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct QuotaUsage {
    files: i64,
    bytes: i64,
}

impl QuotaUsage {
    fn plus(self, other: Self) -> Self {
        Self {
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            files: self.files - other.files,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// The turn of one batch: a lock on the count, which is updated when the batch is done.
pub(crate) struct QuotaTurn<'a> {
    known: MutexGuard<'a, Option<QuotaCount>>,
    after: QuotaCount,
}

impl QuotaTurn<'_> {
    /// Updates the count with the batch, which was applied.
    pub(crate) fn mark_applied(mut self) {
        *self.known = Some(self.after);
    }
}

impl Quota {
    /// Returns the quota that the rules set; `None` if they limit neither files nor bytes.
    pub(crate) fn from_rules(rules: &FsRules) -> Option<Self> {
        let (max_files, max_bytes) = (rules.policy().max_files, rules.max_total_bytes());
        let is_set = max_files.is_some() || max_bytes.is_some();
        is_set.then(|| Self {
            limits: QuotaLimits { max_files, max_bytes },
            known: Mutex::new(None),
        })
    }

    /// Waits for a turn and checks that the batch fits below `base`. `now` is the time of a monotonic clock.
    pub(crate) async fn take_turn(
        &self,
        storage: &dyn Storage,
        base: &WsPath,
        batch: &Batch,
        now: Duration,
    ) -> Result<QuotaTurn<'_>> {
        // The count is taken out for the turn: if the batch fails, it is unknown how much of it was applied, and the
        // next one counts again.
        let mut known = self.known.lock().await;
        let added = usage_added_by(storage, base, batch).await?;
        if let Some(counted) = known
            .take()
            .filter(|counted| now.saturating_sub(counted.at) < TRUSTED_FOR)
        {
            let after = QuotaCount {
                usage: counted.usage.plus(added),
                ..counted
            };
            if self.limits.check_usage(added, after.usage).is_ok() {
                return Ok(QuotaTurn { known, after });
            }
        }
        // Another program may have removed files since the count, so a refusal needs a count of this moment.
        let usage = count_below(storage, base).await?.plus(added);
        self.limits.check_usage(added, usage)?;
        Ok(QuotaTurn {
            known,
            after: QuotaCount { usage, at: now },
        })
    }

    /// Waits for a turn, for a change whose size is known only when it is about to be made.
    pub(crate) async fn hold_turn(&self) -> QuotaHold<'_> {
        let mut known = self.known.lock().await;
        // The count is dropped, because the files that this change adds are not counted here.
        *known = None;
        QuotaHold { _known: known }
    }

    /// Counts the files below `base`, for a caller that has the turn.
    pub(crate) async fn measure_room(&self, storage: &dyn Storage, base: &WsPath) -> Result<QuotaRoom> {
        Ok(QuotaRoom {
            limits: self.limits,
            base: base.clone(),
            usage: count_below(storage, base).await?,
        })
    }

    /// Checks that the batch fits below `base`, for a caller that has the turn.
    pub(crate) async fn check_batch(&self, storage: &dyn Storage, base: &WsPath, batch: &Batch) -> Result<()> {
        let added = usage_added_by(storage, base, batch).await?;
        let usage = count_below(storage, base).await?.plus(added);
        self.limits.check_usage(added, usage)
    }
}

/// A turn that is held until a change is made.
pub(crate) struct QuotaHold<'a> {
    _known: MutexGuard<'a, Option<QuotaCount>>,
}

/// The limits of a quota below a directory, and the usage there.
#[derive(Debug, Clone)]
pub(crate) struct QuotaRoom {
    limits: QuotaLimits,
    base: WsPath,
    usage: QuotaUsage,
}

impl QuotaRoom {
    /// Checks that the files which `paths` add fit.
    pub(crate) fn check_changes(&self, paths: &[PathChange]) -> Result<()> {
        let within = paths.iter().filter(|one| is_below(&one.path, &self.base));
        let added = within.fold(QuotaUsage::default(), |added, one| {
            added
                .plus(usage_of(one.after.as_ref()))
                .minus(usage_of(one.before.as_ref()))
        });
        self.limits.check_usage(added, self.usage.plus(added))
    }
}

fn is_below(path: &EntryPath, base: &WsPath) -> bool {
    let rest = path.as_bytes().strip_prefix(base.as_str().as_bytes());
    base.is_root() || rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn usage_of(image: Option<&PathImage>) -> QuotaUsage {
    let file = image.filter(|image| image.kind == EntryKind::File);
    file.map_or_else(QuotaUsage::default, |file| QuotaUsage {
        files: 1,
        bytes: i64::try_from(file.size).unwrap_or(i64::MAX),
    })
}

impl QuotaLimits {
    /// Checks the usage after a batch. A batch that adds nothing always fits.
    fn check_usage(&self, added: QuotaUsage, after: QuotaUsage) -> Result<()> {
        // Only growth is refused, so that files can be removed from a workspace that is over its limit.
        let over = |limit: Option<u64>, added: i64, after: i64| {
            limit.filter(|limit| added > 0 && after > i64::try_from(*limit).unwrap_or(i64::MAX))
        };
        if let Some(limit) = over(self.max_files, added.files, after.files) {
            let message = format!("the workspace may hold {limit} files; this would make {}", after.files);
            return Err(quota_error(message).with_rule(format!("max_files = {limit}")));
        }
        if let Some(limit) = over(self.max_bytes, added.bytes, after.bytes) {
            let message = format!("the workspace may hold {limit} bytes; this would make {}", after.bytes);
            return Err(quota_error(message).with_rule(format!("max_total_mb = {}", limit as f64 / MEBIBYTE)));
        }
        Ok(())
    }
}

fn quota_error(message: String) -> Error {
    Error::new(ErrorKind::QuotaExceeded, message)
}

/// Returns the files and bytes that the batch adds below `base`.
async fn usage_added_by(storage: &dyn Storage, base: &WsPath, batch: &Batch) -> Result<QuotaUsage> {
    let mut draft = QuotaDraft {
        storage,
        changed: HashMap::new(),
    };
    let mut added = QuotaUsage::default();
    for mutation in &batch.mutations {
        for (path, before, after) in draft.usage_changes(mutation).await? {
            if path.is_within(base) {
                added = added.plus(after).minus(before);
            }
            draft.changed.insert(path, after);
        }
    }
    Ok(added)
}

/// The tree as the earlier mutations of a batch leave it.
struct QuotaDraft<'a> {
    storage: &'a dyn Storage,
    /// The usage at paths that an earlier mutation changed: a file that one removes must not be subtracted again by the
    /// next.
    changed: HashMap<WsPath, QuotaUsage>,
}

/// A path with its usage before and after a mutation.
type UsageChange = (WsPath, QuotaUsage, QuotaUsage);

impl QuotaDraft<'_> {
    async fn usage_changes(&self, mutation: &Mutation) -> Result<Vec<UsageChange>> {
        let bytes = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
        match mutation {
            Mutation::Write { path, content, .. } => {
                let (path, before) = self.resolve_content(path).await?;
                let bytes = bytes(content.len());
                Ok(vec![(path, before, QuotaUsage { files: 1, bytes })])
            }
            Mutation::Append { path, content, .. } => {
                let (path, before) = self.resolve_content(path).await?;
                let bytes = before.bytes.saturating_add(bytes(content.len() as u64));
                Ok(vec![(path, before, QuotaUsage { files: 1, bytes })])
            }
            Mutation::Remove { path, .. } => {
                let (path, before) = self.resolve_entry(path).await?;
                Ok(vec![(path, before, QuotaUsage::default())])
            }
            Mutation::Rename { from, to, .. } => {
                let (from, moved) = self.resolve_entry(from).await?;
                let (to, before) = self.resolve_entry(to).await?;
                let is_moved = from != to;
                let changes = vec![(from, moved, QuotaUsage::default()), (to, before, moved)];
                Ok(changes.into_iter().filter(|_| is_moved).collect())
            }
            Mutation::Copy { from, to, .. } => {
                let (from, copied) = self.resolve_content(from).await?;
                let (to, before) = self.resolve_entry(to).await?;
                let is_copied = from != to;
                Ok(Some((to, before, copied)).filter(|_| is_copied).into_iter().collect())
            }
            Mutation::MakeDir { .. } | Mutation::Symlink { .. } | Mutation::SetMode { .. } => Ok(Vec::new()),
        }
    }

    /// Returns the resolved path of the entry at `path` itself, and its usage; a link counts as nothing.
    async fn resolve_entry(&self, path: &WsPath) -> Result<(WsPath, QuotaUsage)> {
        let real = match (path.parent(), path.name()) {
            (Some(parent), Some(name)) => self.storage.resolve(&parent).await?.child(name)?,
            _ => path.clone(),
        };
        let usage = self.usage_at(&real).await?;
        Ok((real, usage))
    }

    /// Returns the path of the content that `path` leads to, and its usage.
    async fn resolve_content(&self, path: &WsPath) -> Result<(WsPath, QuotaUsage)> {
        let (entry, usage) = self.resolve_entry(path).await?;
        // The storage still has the entry from before the batch: a link there may be a file by now, and must not be
        // followed.
        if self.changed.contains_key(&entry) {
            return Ok((entry, usage));
        }
        let real = self.storage.resolve(path).await?;
        let usage = self.usage_at(&real).await?;
        Ok((real, usage))
    }

    /// Returns the usage of the files at or below the resolved path `path`; zero if the path does not exist.
    async fn usage_at(&self, path: &WsPath) -> Result<QuotaUsage> {
        if let Some(usage) = self.changed.get(path) {
            return Ok(*usage);
        }
        match self.storage.stat(path, StatOptions::default()).await {
            Ok(stat) if stat.kind == EntryKind::Directory => count_below(self.storage, path).await,
            Ok(stat) if stat.kind == EntryKind::File => Ok(QuotaUsage {
                files: 1,
                bytes: stat.size as i64,
            }),
            Ok(_) => Ok(QuotaUsage::default()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(QuotaUsage::default())
            }
            Err(error) => Err(error),
        }
    }
}

async fn count_below(storage: &dyn Storage, base: &WsPath) -> Result<QuotaUsage> {
    let mut usage = QuotaUsage::default();
    let mut options = ListOptions {
        is_deep: true,
        limit: 10_000,
        ..ListOptions::default()
    };
    loop {
        let page = match storage.list(base, options.clone()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(usage),
            page => page?,
        };
        for entry in page.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            usage = usage.plus(QuotaUsage {
                files: 1,
                bytes: entry.size as i64,
            });
        }
        match page.entries.last().filter(|_| page.has_more) {
            Some(last) => options.after = Some(last.path.clone()),
            None => return Ok(usage),
        }
    }
}
