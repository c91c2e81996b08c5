//! Restores files to their state at a point, as one change that can be undone.

use garret_core::{Change, ChangeKind, ChangeRequest, Error, ErrorKind, Point, Result, WsPath};

use super::conversions::change_of;
use super::diff::find_differences;
use super::point::{newest_level, resolve_point};
use crate::change::ChangeBuilder;
use crate::depot::DepotShared;
use crate::metadata::{EntryNode, MetadataSession};
use crate::tree::path_key;
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Restores `path`, and everything below it, to its state at `point`; the root stands for the whole workspace.
    /// Returns `None` if nothing differs.
    pub async fn restore(
        &self,
        point: Point,
        path: &WsPath,
        making: impl Into<ChangeRequest>,
    ) -> Result<Option<Change>> {
        let path = path.clone();
        self.restore_with(making.into(), move |session, changing| {
            let to = resolve_point(session, changing.workspace(), &point)?;
            let from = newest_level(session, changing.workspace())?;
            let differing = find_differences(session, from, to, &path)?;
            // The directories above the path may have been removed since.
            if differing.iter().any(|one| one.after.is_some()) && !path.is_root() {
                changing.make_parents(&path, true)?;
            }
            for one in differing {
                let node = one
                    .after
                    .map(|node| with_modified_time(node, one.before.as_ref(), changing.now()));
                changing.set_entry(&one.path, node)?;
            }
            Ok(format!("restore {}", path.to_quoted()))
        })
        .await
    }

    /// Restores the file at `path` to `version`, one of [`DepotWorkspace::versions`] by its token or by the id of its
    /// change, whatever name the file had then.
    pub async fn restore_version(
        &self,
        path: &WsPath,
        version: &str,
        making: impl Into<ChangeRequest>,
    ) -> Result<Option<Change>> {
        let (path, wanted) = (path.clone(), version.to_owned());
        self.restore_with(making.into(), move |session, changing| {
            let history = super::versions::version_history(session, changing.workspace(), path_key(&path), usize::MAX)?;
            let found = history.into_iter().find(|version| version.matches_name(&wanted));
            let version = found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("{} has no such version", path.to_quoted()))
                    .at_path(&path)
                    .hint("list the versions of the file")
            })?;
            let before = changing.tree.node(path_key(&path))?;
            if before.as_ref().is_some_and(|before| before.kind != version.node.kind) {
                return Err(Error::already_exists(&path).hint("remove the existing entry, or restore the directory"));
            }
            changing.make_parents(&path, true)?;
            if !before.as_ref().is_some_and(|before| before.is_same(&version.node)) {
                let node = with_modified_time(version.node, before.as_ref(), changing.now());
                changing.set_entry(path_key(&path), Some(node))?;
            }
            Ok(format!("restore {} to an older version", path.to_quoted()))
        })
        .await
    }

    async fn restore_with(
        &self,
        making: ChangeRequest,
        work: impl FnOnce(MetadataSession<'_>, &mut ChangeBuilder<'_>) -> Result<String> + Send + 'static,
    ) -> Result<Option<Change>> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            let summary = work(session, &mut changing)?;
            finish_change(
                session,
                &shared,
                changing,
                ChangeKind::Restore,
                with_description(making, "restore", summary),
            )
        };
        self.write_with_epilogue(work).await
    }
}

/// Closes the change and returns it; `None` if it touched no path.
pub(crate) fn finish_change(
    session: MetadataSession<'_>,
    shared: &DepotShared,
    changing: ChangeBuilder<'_>,
    kind: ChangeKind,
    making: ChangeRequest,
) -> Result<Option<Change>> {
    let workspace = changing.workspace();
    let Some(seq) = changing.finish(shared, kind, making)? else {
        return Ok(None);
    };
    let row = session.change(workspace, seq)?;
    row.map(|row| change_of(session, row)).transpose()
}

/// Returns `making` with the given operation and summary, unless it has its own.
pub(crate) fn with_description(mut making: ChangeRequest, operation: &'static str, summary: String) -> ChangeRequest {
    let origin = &mut making.origin;
    if origin.summary.is_empty() {
        origin.summary = summary;
    }
    if origin.operation.is_empty() {
        origin.operation = operation.into();
    }
    making
}

/// Returns `node` with the time of modification `now` if its content differs from `before`.
pub(super) fn with_modified_time(node: EntryNode, before: Option<&EntryNode>, now: i64) -> EntryNode {
    let is_other = before.is_none_or(|before| before.content != node.content);
    EntryNode {
        modified: if is_other { now } else { node.modified },
        ..node
    }
}
