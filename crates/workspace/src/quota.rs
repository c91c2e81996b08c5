//! Quota: how much a workspace may hold.
//!
//! The files are counted once, and the count is then adjusted by the changes of this workspace. Other programs may
//! write to the same storage, so a count is not trusted for long, and never for a refusal: before a refusal, everything
//! is counted again. While a quota is set, changes take turns.

use std::time::Duration;

use garret_core::{
    EntryKind, EntryPath, Error, ErrorKind, FsRules, ListOptions, PathChange, PathImage, Result, Storage, WsPath,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::view::WorkspaceView;

const MEBIBYTE: f64 = 1024.0 * 1024.0;
/// How long a count is used before the files are counted again.
const TRUSTED_FOR: Duration = Duration::from_secs(30);

/// The limits of one policy, and the last count of files and bytes.
#[derive(Debug)]
pub(crate) struct Quota {
    limits: QuotaLimits,
    // A fair lock: with another one, writers without a pause could keep an undo waiting for ever.
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

/// A number of files and bytes: those below a directory, or those that a change adds.
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

/// The turn of one change with a quota: a lock on its count, which is updated when the change is made.
struct QuotaTurn<'a> {
    quota: &'a Quota,
    base: &'a WsPath,
    /// `None` if the caller of a change within another change holds the lock.
    known: Option<MutexGuard<'a, Option<QuotaCount>>>,
    /// The count before the change, taken out for the turn: if the change fails, it is unknown how much of it was made,
    /// and the next one counts again.
    before: Option<QuotaCount>,
    after: Option<QuotaCount>,
}

/// The turns of one change with all quotas of a view.
pub(crate) struct QuotaTurns<'a>(Vec<QuotaTurn<'a>>);

impl WorkspaceView {
    /// Waits for the turn of every quota of this view.
    pub(crate) async fn take_quota_turns(&self) -> QuotaTurns<'_> {
        let mut turns = self.held_quota_turns();
        // The outermost first, as every operation does: in another order, two operations could wait for each other.
        for turn in &mut turns.0 {
            let mut known = turn.quota.known.lock().await;
            turn.before = known.take();
            turn.known = Some(known);
        }
        turns
    }

    /// Returns the turns of the quotas of this view, for a caller that holds their locks.
    pub(crate) fn held_quota_turns(&self) -> QuotaTurns<'_> {
        let turns = self.layers.iter().filter_map(|layer| {
            Some(QuotaTurn {
                quota: layer.quota.as_ref()?,
                base: &layer.base,
                known: None,
                before: None,
                after: None,
            })
        });
        QuotaTurns(turns.collect())
    }
}

impl QuotaTurns<'_> {
    /// Forgets the counts, after other changes were made during these turns.
    pub(crate) fn forget_counts(&mut self) {
        self.0.iter_mut().for_each(|turn| turn.before = None);
    }

    /// Checks that the files which a change of `paths` adds fit into `storage`. `now` is the time of a monotonic clock.
    pub(crate) async fn check_changes(
        &mut self,
        storage: &dyn Storage,
        paths: &[PathChange],
        now: Duration,
    ) -> Result<()> {
        for turn in &mut self.0 {
            turn.check_changes(storage, paths, now).await?;
        }
        Ok(())
    }

    /// Updates the counts with the change, which was made.
    pub(crate) fn mark_applied(self) {
        for turn in self.0 {
            if let Some(mut known) = turn.known {
                *known = turn.after;
            }
        }
    }
}

impl QuotaTurn<'_> {
    async fn check_changes(&mut self, storage: &dyn Storage, paths: &[PathChange], now: Duration) -> Result<()> {
        let within = paths.iter().filter(|one| is_below(&one.path, self.base));
        let added = within.fold(QuotaUsage::default(), |added, one| {
            added
                .plus(usage_of(one.after.as_ref()))
                .minus(usage_of(one.before.as_ref()))
        });
        let limits = self.quota.limits;
        let is_trusted = |counted: &QuotaCount| now.saturating_sub(counted.at) < TRUSTED_FOR;
        if let Some(counted) = self.before.filter(is_trusted) {
            let usage = counted.usage.plus(added);
            if limits.check_usage(added, usage).is_ok() {
                self.after = Some(QuotaCount { usage, ..counted });
                return Ok(());
            }
        }
        // Another program may have removed files since the count, so a refusal needs a count of this moment.
        let counted = count_below(storage, self.base).await?;
        self.before = Some(QuotaCount {
            usage: counted,
            at: now,
        });
        let usage = counted.plus(added);
        self.after = Some(QuotaCount { usage, at: now });
        limits.check_usage(added, usage)
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
    /// Checks the usage after a change. A change that adds nothing always fits.
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
