//! Policies applied to the past: the part of a change that a view may see, and the paths that it may restore.

use std::sync::Arc;

use garret_core::{
    Access, Change, ChangePlan, EntryKind, EntryPath, Error, ErrorKind, HistoryOperation, PathChange, PathImage,
    Result, WsPath,
};

use crate::file_access::FileAccess;
use crate::hard_links::DeniedNames;
use crate::history::HistoryAccess;
use crate::quota::{QuotaHold, QuotaRoom};
use crate::view::WorkspaceView;

/// The rules of a view, the present room in its quotas and the names that it denies: the limits that the plan of a
/// change must keep.
pub(crate) struct PlanLimits {
    view: Arc<WorkspaceView>,
    rooms: Vec<QuotaRoom>,
    denied: DeniedNames,
}

impl PlanLimits {
    /// Reviews the changes of paths that a plan would make, by policy, size and quota.
    pub(crate) fn check_changes(&self, paths: &[PathChange]) -> Result<()> {
        self.view.review_changes(paths)?;
        if paths.iter().any(|one| self.denied.contains(&one.path)) {
            return Err(hidden_change_error());
        }
        self.rooms.iter().try_for_each(|room| room.check_changes(paths))
    }
}

impl HistoryAccess<'_> {
    /// Returns a change as this view shows it; `None` if it touched no path that this view shows.
    pub(crate) async fn visible_change(&self, change: Change) -> Result<Option<Change>> {
        if !self.files.view.is_restricted() {
            return Ok(Some(change));
        }
        // A change carries only its first paths, and those may all be outside of this view.
        let paths = if change.path_count > change.paths.len() as u64 {
            let point = garret_core::Point::Change(change.id.clone());
            let (_, paths) = self.journal.change(&point).await?;
            paths.into_iter().map(|one| one.path).collect()
        } else {
            change.paths.clone()
        };
        let total = paths.len();
        let visible: Vec<EntryPath> = paths
            .iter()
            .filter(|path| self.files.view.is_recorded_path_visible(path))
            .cloned()
            .collect();
        if visible.is_empty() {
            return Ok(None);
        }
        let is_whole = visible.len() == total && self.files.view.base.is_root();
        let path_count = visible.len() as u64;
        Ok(Some(Change {
            // The summary in the journal may name paths that this view hides.
            summary: if is_whole {
                change.summary.clone()
            } else {
                self.files.view.summarize_visible(&change, &visible)
            },
            paths: visible
                .iter()
                .take(Change::SHOWN_PATHS)
                .map(|path| self.files.view.relative_entry_path(path))
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

    /// Plans `operation`, reviews the plan, and commits it unless it is only tried; plans again if the files changed
    /// between the plan and the commit. Returns the plan without its puts, and the change; no change if nothing differs.
    pub(crate) async fn commit_operation(
        &self,
        operation: &HistoryOperation,
        name: &'static str,
        dry_run: bool,
    ) -> Result<(ChangePlan, Option<Change>)> {
        // Held until the change is made, so that no other operation takes the room that the review found.
        let _turns = self.files.view.take_quota_turns().await;
        let journal = self.journal;
        let mut attempt = 1;
        loop {
            let mut plan = journal.plan(operation).await?;
            if !plan.clashes.is_empty() {
                return Err(self.files.view.clash_error(&plan.clashes));
            }
            self.files.measure_plan_limits().await?.check_changes(&plan.paths)?;
            if dry_run {
                return Ok((plan, None));
            }
            let origin = self.files.change_origin(name, String::new());
            match journal.put(std::mem::take(&mut plan.puts), origin).await {
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ChangePlan::MAX_ATTEMPTS => attempt += 1,
                done => return Ok((plan, done?)),
            }
        }
    }
}

impl WorkspaceView {
    /// Returns a summary of a change that names only visible paths.
    fn summarize_visible(&self, change: &Change, visible: &[EntryPath]) -> String {
        let word = match change.operation.as_str() {
            "" => change.kind.as_str(),
            operation => operation,
        };
        let first = visible
            .first()
            .map(|path| self.relative_entry_path(path).display_path())
            .unwrap_or_default();
        match visible.len() {
            1 => format!("{word} {}", garret_core::path::quote(&first)),
            more => format!("{word} {} and {} more", garret_core::path::quote(&first), more - 1),
        }
    }

    /// Whether this view shows a path of the journal.
    pub(crate) fn is_recorded_path_visible(&self, path: &EntryPath) -> bool {
        self.is_entry_within(path) && self.is_entry_visible(path, false)
    }

    fn is_entry_within(&self, path: &EntryPath) -> bool {
        let base = self.base.as_str().as_bytes();
        let rest = path.as_bytes().strip_prefix(base);
        base.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns the path changes that this view shows, with their paths relative to the view.
    pub(crate) fn visible_path_changes(&self, paths: Vec<PathChange>) -> Vec<PathChange> {
        let visible = paths.into_iter().filter(|one| self.is_recorded_path_visible(&one.path));
        visible
            .map(|one| PathChange {
                path: self.relative_entry_path(&one.path),
                ..one
            })
            .collect()
    }

    /// Waits for the turn of every quota of this view.
    pub(crate) async fn take_quota_turns(&self) -> Vec<QuotaHold<'_>> {
        let mut turns = Vec::new();
        // The outermost first, as every operation does: in another order, two operations could wait for each other.
        for quota in self.layers.iter().filter_map(|layer| layer.quota.as_ref()) {
            turns.push(quota.hold_turn().await);
        }
        turns
    }

    /// Checks that this view may make each of these changes to paths.
    pub(crate) fn review_changes(&self, paths: &[PathChange]) -> Result<()> {
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
        let size = |image: &Option<PathImage>| image.as_ref().map_or(0, |image| image.size);
        let (before, after) = (size(&one.before), size(&one.after));
        // A file may be larger than a limit that was set later; making it smaller must stay possible.
        if after <= before {
            return Ok(());
        }
        let layers = self.layers.iter();
        let mut rules = layers.map(|layer| &layer.rules);
        rules.try_for_each(|rules| rules.check_file_size(path, after))
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

impl FileAccess {
    /// Measures the limits by which the plan of a change is reviewed, for a caller that holds the turns of the quotas.
    pub(crate) async fn measure_plan_limits(&self) -> Result<PlanLimits> {
        let mut rooms = Vec::new();
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                rooms.push(quota.measure_room(self.storage(), &layer.base).await?);
            }
        }
        let denied = self.hard_links().denied_names().await?;
        Ok(PlanLimits {
            view: self.view.clone(),
            rooms,
            denied,
        })
    }
}

fn hidden_change_error() -> Error {
    Error::new(ErrorKind::Denied, "it would also change files that the policy hides")
        .hint("choose a change or a path that does not touch them")
}
