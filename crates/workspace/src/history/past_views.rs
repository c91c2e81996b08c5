//! The workspace as it was at an earlier point.

use std::sync::Arc;

use garret_core::{
    Access, AccessLimits, Change, ChangesOptions, DerivedFiles, ErrorKind, Exclusions, Follow, Point, Result,
    Timestamp, WsPath,
};

use crate::Workspace;
use crate::admission::PathSubject;
use crate::file_access::{FileAccess, FileSource};
use crate::history::HistoryAccess;
use crate::workspace::WorkspaceState;

impl Workspace {
    /// Returns the workspace as it was at `point`, for reading, through the same policies. An operation that would
    /// change it is `denied`.
    pub async fn at_point(&self, point: &Point) -> Result<Self> {
        let journal = self.files.journal()?;
        let present = &self.files.source;
        let past = FileSource {
            storage: journal.open_view(point).await?,
            is_partial: !journal.is_complete(point).await?,
            present: Some(present.storage.clone()),
            history: None,
            branch_config: None,
            // Past files are read from the depot, so the limits for remote files do not apply.
            access_limits: AccessLimits {
                is_searchable: present.access_limits.is_searchable,
                ..AccessLimits::default()
            },
            // The versions of past files are those of the depot; a remote storage has others.
            local_content: present
                .local_content
                .clone()
                .filter(|_| !present.access_limits.is_remote),
            host_roots: present.host_roots.clone(),
            exclusions: Exclusions::default(),
            derived: DerivedFiles::default(),
            shell: None,
        };
        let files = FileAccess {
            source: Arc::new(past),
            ..self.files.clone()
        };
        let shared = WorkspaceState {
            code: self.shared.code.clone(),
            ..WorkspaceState::default()
        };
        Ok(Self {
            files,
            shared: Arc::new(shared),
            ..self.clone()
        })
    }

    /// Returns the state just before the change that led to `point`. Before `now`, that is the state before the newest
    /// change that this view shows. Without any change, it is the beginning.
    pub async fn before(&self, point: &Point) -> Result<Point> {
        let history = self.files.history()?;
        let change = match point {
            Point::Now => history.newest_visible_change().await?,
            point => Some(history.journal.change(point).await?.0),
        };
        match change {
            None => Ok(Point::Number(0)),
            Some(change) if history.is_own_change(&change).await? => Ok(Point::Number(change.number - 1)),
            Some(change) => history.point_before_inherited(&change).await,
        }
    }
}

impl HistoryAccess<'_> {
    /// Returns the newest change that this view shows.
    async fn newest_visible_change(&self) -> Result<Option<Change>> {
        let mut before = None;
        loop {
            let options = ChangesOptions {
                before,
                ..ChangesOptions::default()
            };
            let found = self.journal.changes(options).await?;
            let Some(oldest) = found.last() else { return Ok(None) };
            before = Some(oldest.number);
            for change in found {
                if self.visible_change(change.clone()).await?.is_some() {
                    return Ok(Some(change));
                }
            }
        }
    }

    /// Whether a change was made in this workspace, and not in one that it was branched from.
    async fn is_own_change(&self, change: &Change) -> Result<bool> {
        // Numbers start again in each workspace, so the id of the change with this number must be compared.
        let options = ChangesOptions {
            before: Some(change.number + 1),
            limit: 1,
            ..ChangesOptions::default()
        };
        let found = self.journal.changes(options).await?;
        Ok(found.first().is_some_and(|found| found.id == change.id))
    }

    /// Returns the state just before a change of a workspace that this one was branched from.
    async fn point_before_inherited(&self, change: &Change) -> Result<Point> {
        let mut limit = 100;
        loop {
            let options = ChangesOptions {
                before: Some(1),
                limit,
                inherited: true,
                ..ChangesOptions::default()
            };
            let found = self.journal.changes(options).await?;
            let position = found.iter().position(|one| one.id == change.id);
            match position.and_then(|position| found.get(position + 1)) {
                Some(older) => return Ok(Point::Change(older.id.clone())),
                // It is the first of all changes: before it, the workspace was empty.
                None if found.len() < limit => return Ok(Point::Time(Timestamp::MIN)),
                None => limit *= 2,
            }
        }
    }
}

impl FileAccess {
    /// Returns a path as the journal knows it: with the links of its directory followed. The entry itself may no longer
    /// exist.
    pub(crate) async fn recorded_path(&self, path: &str, accesses: &[Access]) -> Result<WsPath> {
        let target = self.admit(path, PathSubject::Entry, accesses).await?;
        if target.follow == Follow::Never {
            if accesses.contains(&Access::Read) {
                self.hard_links().check_file_at(&target.real).await?;
            }
            return Ok(target.real);
        }
        let (Some(parent), Some(name)) = (target.real.parent(), target.real.name()) else {
            return Ok(target.real);
        };
        match self.storage().resolve(&parent).await {
            Ok(parent) => parent.child(name),
            // A file took the place of the directory since; the journal still has the path as it was written.
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(target.real),
            Err(error) => Err(error),
        }
    }

    /// Returns a path, as the journal knows it, whose changes and those below it are requested. The entry may no longer
    /// exist.
    pub(crate) async fn recorded_directory(&self, path: &str) -> Result<WsPath> {
        let path = self.recorded_path(path, &[]).await?;
        if !self.view.is_visible(&path, true) {
            self.view.check_rules(&path, &[Access::Read])?;
        }
        Ok(path)
    }
}
