//! Maintenance of a whole home: the collection of garbage, and the check for damage.

use garret_core::path::{escape_unprintable, quote};
use garret_core::{ErrorKind, Result};
use garret_depot::{CheckProblem, CollectOptions, CollectReport, WorkspaceInfo};

use crate::Garret;
use crate::results::{DroppedHistory, GarbageReport, HomeCheck};

impl Garret {
    /// Drops the history beyond the limits of each workspace of the home, then removes deleted workspaces and content
    /// that nothing refers to. Safe while other programs work, as long as the grace period is longer than their
    /// operations.
    pub async fn collect_garbage(&self, options: CollectOptions) -> Result<GarbageReport> {
        let depot = self.depot().await?;
        let now = self.clock.now();
        let mut collected = CollectReport::default();
        let retained = if options.is_dry_run {
            depot.preview_retention_all(now).await?
        } else {
            match depot.retain_all(now).await {
                // On a full disk, unreferenced content is deleted first: to record the removal of history takes space.
                Err(error) if error.kind() == ErrorKind::QuotaExceeded => {
                    collected += depot.collect(options).await?;
                    depot.retain_all(now).await?
                }
                retained => retained?,
            }
        };
        collected += depot.collect(options).await?;
        let histories = retained
            .into_iter()
            .map(|(workspace, retained)| DroppedHistory { workspace, retained });
        Ok(GarbageReport {
            dry_run: options.is_dry_run,
            grace_s: options.grace.as_secs(),
            collected,
            histories: histories.collect(),
        })
    }

    /// Reads every piece of content of the home and checks it against its name; checks every entry, every journal and
    /// where branches begin, and the keys in the buckets of workspaces.
    pub async fn check_home(&self) -> Result<HomeCheck> {
        self.check_home_after(Vec::new()).await
    }

    /// Restores what can be derived from the rest of the home, then checks the home as [`Garret::check_home`] does.
    pub async fn repair_home(&self) -> Result<HomeCheck> {
        let repaired = self.depot().await?.repair().await?.repaired;
        self.check_home_after(repaired).await
    }

    async fn check_home_after(&self, repaired: Vec<CheckProblem>) -> Result<HomeCheck> {
        let depot = self.depot().await?;
        let mut found = depot.inspect().await?;
        found.notes.extend(self.find_odd_keys(&depot.workspaces().await?).await);
        Ok(HomeCheck {
            sound: found.problems.is_empty(),
            repaired,
            found,
        })
    }

    /// Lists the keys in the buckets of workspaces that are not the key of any path, or that collide with each other.
    async fn find_odd_keys(&self, all: &[WorkspaceInfo]) -> Vec<String> {
        let mut notes = Vec::new();
        for one in all.iter().filter(|one| one.kind == "s3" && one.deleted.is_none()) {
            let name = escape_unprintable(one.name.as_deref().unwrap_or(&one.id));
            match self.odd_keys(&one.id).await {
                Ok(odd) => notes.extend(
                    odd.iter()
                        .map(|odd| format!("{name}: {}: {}", quote(&odd.key), odd.trouble.message())),
                ),
                // A bucket that cannot be reached says nothing about the home, so it is no problem of the home.
                Err(error) => notes.push(format!(
                    "{name}: its bucket could not be checked: {}",
                    escape_unprintable(error.message())
                )),
            }
        }
        notes
    }
}
