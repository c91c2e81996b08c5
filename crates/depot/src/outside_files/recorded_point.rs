//! A point of the history of files that live outside the depot, which may not have recorded all of them by then.

use garret_core::{Point, Result, WsPath};

use crate::history::{find_later_capture, has_captured_all};
use crate::metadata::LineageLevel;
use crate::storage::DepotView;
use crate::tree::path_key;
use crate::workspace::DepotWorkspace;

/// A point of the history, with the files that were recorded by then or later.
#[derive(Debug)]
pub struct RecordedPoint {
    workspace: DepotWorkspace,
    level: LineageLevel,
}

impl RecordedPoint {
    pub(super) fn new(workspace: DepotWorkspace, point: &Point) -> Result<Self> {
        let database = &workspace.shared().database;
        let level = database.read(|session| workspace.resolve_point(session, point))?;
        Ok(Self { workspace, level })
    }

    /// Returns the files that were recorded at the point.
    pub fn view(&self) -> DepotView {
        self.workspace.view_at(self.level)
    }

    /// Returns the view in which `path` was recorded for the first time, if that was after the point.
    pub fn view_when_recorded(&self, path: &WsPath) -> Result<Option<DepotView>> {
        let database = &self.workspace.shared().database;
        let met = database.read(|session| find_later_capture(session, self.level, path_key(path)))?;
        Ok(met.map(|(at, _)| self.workspace.view_at(LineageLevel { at, ..self.level })))
    }

    /// Returns whether every file was recorded by then.
    pub fn has_recorded_all(&self) -> Result<bool> {
        let database = &self.workspace.shared().database;
        database.read(|session| has_captured_all(session, self.level))
    }

    /// Returns whether `path` was recorded at any time.
    pub fn was_ever_recorded(&self, path: &WsPath) -> Result<bool> {
        let database = &self.workspace.shared().database;
        database.read(|session| session.outside_files().had_entry(self.level.workspace, path_key(path)))
    }
}
