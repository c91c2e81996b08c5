//! Restores files to their state at a point, as one change that can be undone.

use garret_core::{
    Change, ChangeKind, ChangePlan, EntryKind, EntryPath, Error, ErrorKind, History, Origin, PathExpectation, PathPut,
    PlacedEntry, Point, PutBatch, RestoreTarget, Result, WsPath,
};

use super::conversions::{change_of, image_of, path_change};
use super::diff::{PathDifference, find_differences};
use super::point::{newest_level, resolve_point};
use crate::change::{ChangeBuilder, directory_node};
use crate::depot::DepotShared;
use crate::metadata::{EntryNode, MetadataSession};
use crate::tree::{DepotTree, path_key};
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Restores `path`, and everything below it, to its state at `point`; the root stands for the whole workspace.
    /// Returns `None` if nothing differs.
    pub async fn restore(&self, point: Point, path: &WsPath, origin: Origin) -> Result<Option<Change>> {
        let path = path.clone();
        History::restore(self, RestoreTarget::Point { point, path }, origin).await
    }

    /// Restores the file at `path` to `version`, one of [`DepotWorkspace::versions`] by its token or by the id of its
    /// change, whatever name the file had then.
    pub async fn restore_version(&self, path: &WsPath, version: &str, origin: Origin) -> Result<Option<Change>> {
        let (path, version) = (path.clone(), version.to_owned());
        History::restore(self, RestoreTarget::Version { path, version }, origin).await
    }
}

/// Plans the restore of a path, and of everything below it, to an earlier state.
pub(super) fn plan_restore(session: MetadataSession<'_>, workspace: i64, target: &RestoreTarget) -> Result<ChangePlan> {
    let from = newest_level(session, workspace)?;
    let tree = DepotTree::at_point(session, from)?;
    let (path, differing, summary) = match target {
        RestoreTarget::Point { point, path } => {
            let to = resolve_point(session, workspace, point)?;
            let differing = find_differences(session, from, to, path)?;
            (path, differing, format!("restore {}", path.to_quoted()))
        }
        RestoreTarget::Version { path, version } => {
            let differing = find_version_difference(&tree, workspace, path, version)?;
            let summary = format!("restore {} to an older version", path.to_quoted());
            (path, differing.into_iter().collect(), summary)
        }
    };
    let mut entries = Vec::new();
    // The directories above the path may have been removed since.
    if differing.iter().any(|one| one.after.is_some()) && !path.is_root() {
        entries = missing_parents(&tree, path)?;
    }
    entries.extend(differing);
    let batch = PutBatch {
        kind: ChangeKind::Restore,
        summary,
        ..PutBatch::default()
    };
    Ok(plan_of_entries(entries, batch))
}

/// Returns the difference between the file at `path` and one of its versions, by its token or by the id of its change,
/// whatever name the file had then.
fn find_version_difference(
    tree: &DepotTree<'_>,
    workspace: i64,
    path: &WsPath,
    wanted: &str,
) -> Result<Option<PathDifference>> {
    let history = super::versions::version_history(tree.session(), workspace, path_key(path), usize::MAX)?;
    let found = history.into_iter().find(|version| version.matches_name(wanted));
    let version = found.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("{} has no such version", path.to_quoted()))
            .at_path(path)
            .hint("list the versions of the file")
    })?;
    let before = tree.node(path_key(path))?;
    if before.as_ref().is_some_and(|before| before.kind != version.node.kind) {
        return Err(Error::already_exists(path).hint("remove the existing entry, or restore the directory"));
    }
    let after = Some(version.node);
    Ok(PathDifference::if_different(path_key(path).to_vec(), before, after))
}

/// Returns the directories above `path` that are missing, topmost first.
fn missing_parents(tree: &DepotTree<'_>, path: &WsPath) -> Result<Vec<PathDifference>> {
    let mut missing = Vec::new();
    let mut nearest = path.parent();
    while let Some(above) = nearest.filter(|above| !above.is_root()) {
        match tree.node(path_key(&above))? {
            Some(node) if node.kind == EntryKind::Directory => break,
            Some(_) => return Err(Error::not_a_directory(path)),
            None => nearest = above.parent(),
        }
        let after = Some(directory_node(0));
        missing.extend(PathDifference::if_different(path_key(&above).to_vec(), None, after));
    }
    missing.reverse();
    Ok(missing)
}

/// Returns `batch` with a put for each entry, which expects the entry that is there now, and the changes of the paths.
pub(super) fn plan_of_entries(entries: Vec<PathDifference>, mut batch: PutBatch) -> ChangePlan {
    let mut paths = Vec::with_capacity(entries.len());
    for one in entries {
        batch.puts.push(PathPut {
            path: EntryPath::from_bytes(one.path.clone()),
            expected: PathExpectation::Is(one.before.as_ref().map(image_of)),
            placed: one
                .after
                .as_ref()
                .map_or(PlacedEntry::Nothing, |node| PlacedEntry::Image(image_of(node))),
        });
        paths.push(path_change(one.path, one.before.as_ref(), one.after.as_ref()));
    }
    ChangePlan {
        puts: batch,
        paths,
        ..ChangePlan::default()
    }
}

/// Closes the change and returns it; `None` if it touched no path.
pub(crate) fn finish_change(
    session: MetadataSession<'_>,
    shared: &DepotShared,
    changing: ChangeBuilder<'_>,
    kind: ChangeKind,
    origin: Origin,
) -> Result<Option<Change>> {
    let workspace = changing.workspace();
    let Some(seq) = changing.finish(shared, kind, origin)? else {
        return Ok(None);
    };
    let row = session.changes().change(workspace, seq)?;
    row.map(|row| change_of(session, row)).transpose()
}

/// Returns `origin` with the given operation and summary, unless it has its own.
pub(crate) fn with_description(mut origin: Origin, operation: &'static str, summary: String) -> Origin {
    if origin.summary.is_empty() {
        origin.summary = summary;
    }
    if origin.operation.is_empty() {
        origin.operation = operation.into();
    }
    origin
}

/// Returns `node` with the time of modification `now` if its content differs from `before`.
pub(super) fn with_modified_time(node: EntryNode, before: Option<&EntryNode>, now: i64) -> EntryNode {
    let is_other = before.is_none_or(|before| before.content != node.content);
    EntryNode {
        modified: if is_other { now } else { node.modified },
        ..node
    }
}
