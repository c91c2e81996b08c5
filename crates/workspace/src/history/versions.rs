//! The versions of one file.

use garret_core::{Access, Error, ErrorKind, HistoryOperation, PathVersion, RestoreTarget, Result, WsPath};

use super::changes::{check_limit, unknown_cursor_error};
use crate::history::HistoryAccess;
use crate::{FileVersion, HistoryOperationResult, VersionsPage, Workspace};

/// Which versions of a file to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionsRequest {
    /// The most versions.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Workspace {
    /// Returns at most `limit` versions of the file at `path`, newest first, across renames. A file that was deleted
    /// still has versions.
    pub async fn versions(&self, path: &str, limit: usize) -> Result<Vec<FileVersion>> {
        let request = VersionsRequest { limit, cursor: None };
        Ok(self.versions_page(path, request).await?.versions)
    }

    /// Returns a page of the versions of the file at `path`, newest first, across renames.
    pub async fn versions_page(&self, path: &str, request: VersionsRequest) -> Result<VersionsPage> {
        let work = async { self.files.history()?.read_versions_page(path, request).await };
        self.run_operation("history", &[path], |_| 0, work).await
    }

    /// Restores the file at `path` to `version`, one of [`Workspace::versions`] by its token or the id of its change,
    /// as one change that can be undone; no change if the file is so already.
    pub async fn restore_version(&self, path: &str, version: &str) -> Result<HistoryOperationResult> {
        self.restore_to_version(path, version, false).await
    }

    /// Returns the effect that [`Workspace::restore_version`] would have; it fails as the restore would.
    pub async fn plan_restore_version(&self, path: &str, version: &str) -> Result<HistoryOperationResult> {
        self.restore_to_version(path, version, true).await
    }

    async fn restore_to_version(&self, path: &str, version: &str, dry_run: bool) -> Result<HistoryOperationResult> {
        let work = async {
            let history = self.files.history()?;
            let restore = HistoryOperation::Restore(history.version_target(path, version).await?);
            history
                .run_history_operation(&restore, "restore_version", dry_run)
                .await
        };
        self.run_operation("restore_version", &[path], |_| 0, work).await
    }
}

impl HistoryAccess<'_> {
    async fn version_target(&self, path: &str, version: &str) -> Result<RestoreTarget> {
        self.files.refuse_host_tree(path, &self.files.parse_path(path)?).await?;
        let path = self.files.recorded_path(path, &[Access::Read, Access::Write]).await?;
        if self.files.view.is_restricted() {
            self.check_version(&path, version).await?;
        }
        let version = version.to_owned();
        Ok(RestoreTarget::Version { path, version })
    }

    async fn read_versions_page(&self, path: &str, request: VersionsRequest) -> Result<VersionsPage> {
        check_limit(request.limit)?;
        let path = self.files.recorded_path(path, &[Access::Read]).await?;
        // One more than requested shows whether another page follows.
        let wanted = request.limit.saturating_add(1);
        let mut reach = wanted;
        // The history has no cursor for versions: they are listed from the newest, twice as many each time, until the
        // page is found.
        let mut found = loop {
            let found = self.journal.versions(&path, reach).await?;
            let is_all = found.len() < reach;
            match count_before_cursor(&found, request.cursor.as_deref()) {
                Some(skipped) if is_all || found.len() - skipped >= wanted => break found.into_iter().skip(skipped),
                None if is_all => return Err(unknown_cursor_error()),
                _ => reach = reach.saturating_mul(2),
            }
        };
        let mut versions = Vec::new();
        while versions.len() < wanted
            && let Some(version) = found.next()
            // Versions end at the rename of a file that came from a path which this view hides.
            && self.files.view.is_recorded_path_visible(&version.path)
        {
            versions.push(self.show_version(version).await?);
        }
        let has_more = versions.len() > request.limit;
        versions.truncate(request.limit);
        let next_cursor = versions.last().filter(|_| has_more).map(|last| last.change.clone());
        Ok(VersionsPage { versions, next_cursor })
    }

    /// Refuses a version that this view does not show.
    async fn check_version(&self, path: &WsPath, version: &str) -> Result<()> {
        // Otherwise content that was under a hidden name could be restored to a name that may be read.
        let is_wanted = |one: &PathVersion| {
            let token = one.image.version.as_ref();
            one.change.id == version || token.is_some_and(|token| token.as_str() == version)
        };
        let found = self.journal.versions(path, usize::MAX).await?;
        let mut seen = found
            .iter()
            .take_while(|one| self.files.view.is_recorded_path_visible(&one.path));
        if seen.any(is_wanted) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotFound, "the file has no such version here")
            .at_path(path)
            .hint("list the versions of the file"))
    }

    async fn show_version(&self, version: PathVersion) -> Result<FileVersion> {
        let token = version.image.version.as_ref().map(|token| token.as_str().to_owned());
        let change = version.change;
        // The command of the change may name paths that this view hides.
        let actor = self.visible_change(change.clone()).await?.map(|seen| seen.actor);
        Ok(FileVersion {
            version: token.unwrap_or_else(|| change.id.clone()),
            path: self.files.view.relative_entry_path(&version.path).display_path(),
            at: change.at,
            operation: change.operation,
            actor: actor.unwrap_or_default(),
            size: version.image.size,
            change: change.id,
            number: change.number,
        })
    }
}

/// Returns how many versions come before the page that begins after `cursor`; `None` if the cursor is not among them.
fn count_before_cursor(versions: &[PathVersion], cursor: Option<&str>) -> Option<usize> {
    let Some(cursor) = cursor else { return Some(0) };
    let at = versions.iter().position(|version| version.change.id == cursor)?;
    Some(at + 1)
}
