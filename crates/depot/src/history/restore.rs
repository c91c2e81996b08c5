//! Restores files to their state at a point, as one change that can be undone.

use garret_core::{Change, ChangeKind, Error, ErrorKind, Making, Point, Result, WsPath};

use super::diff::differing;
use super::point::{level_of, now};
use super::types::change_of;
use crate::change::Changing;
use crate::depot::Shared;
use crate::metadata::{Node, Session};
use crate::tree::bytes;
use crate::workspace::DepotWorkspace;

impl DepotWorkspace {
    /// Restores `path`, and everything below it, to its state at `point`; the root stands for the whole workspace.
    /// Returns `None` if nothing differs.
    pub async fn restore(&self, point: Point, path: &WsPath, making: impl Into<Making>) -> Result<Option<Change>> {
        let path = path.clone();
        self.restoring(making.into(), move |session, changing| {
            let to = level_of(session, changing.workspace(), &point)?;
            let from = now(session, changing.workspace())?;
            let differing = differing(session, from, to, &path)?;
            // The directories above the path may have been removed since.
            if differing.iter().any(|one| one.after.is_some()) && !path.is_root() {
                changing.make_parents(&path, true)?;
            }
            for one in differing {
                let node = one.after.map(|node| redated(node, one.before.as_ref(), changing.now()));
                changing.set(&one.path, node)?;
            }
            Ok(format!("restore {}", path.quoted()))
        })
        .await
    }

    /// Restores the file at `path` to `version`, one of [`DepotWorkspace::versions`] by its token or by the id of its
    /// change, whatever name the file had then.
    pub async fn restore_version(
        &self,
        path: &WsPath,
        version: &str,
        making: impl Into<Making>,
    ) -> Result<Option<Change>> {
        let (path, wanted) = (path.clone(), version.to_owned());
        self.restoring(making.into(), move |session, changing| {
            let history = super::versions::history(session, changing.workspace(), bytes(&path), usize::MAX)?;
            let found = history.into_iter().find(|version| version.is(&wanted));
            let version = found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("{} has no such version", path.quoted()))
                    .at(&path)
                    .hint("list the versions of the file")
            })?;
            let before = changing.tree.node(bytes(&path))?;
            if before.as_ref().is_some_and(|before| before.kind != version.node.kind) {
                return Err(Error::already_exists(&path).hint("remove the existing entry, or restore the directory"));
            }
            changing.make_parents(&path, true)?;
            if !before.as_ref().is_some_and(|before| before.is_same(&version.node)) {
                let node = redated(version.node, before.as_ref(), changing.now());
                changing.set(bytes(&path), Some(node))?;
            }
            Ok(format!("restore {} to an older version", path.quoted()))
        })
        .await
    }

    async fn restoring(
        &self,
        making: Making,
        work: impl FnOnce(Session<'_>, &mut Changing<'_>) -> Result<String> + Send + 'static,
    ) -> Result<Option<Change>> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: Session<'_>| {
            let mut changing = Changing::begin(session, &shared, number, durability)?;
            let summary = work(session, &mut changing)?;
            finish(
                session,
                &shared,
                changing,
                ChangeKind::Restore,
                described(making, "restore", summary),
            )
        };
        self.write(work).await
    }
}

/// Closes the change and returns it; `None` if it touched no path.
pub(crate) fn finish(
    session: Session<'_>,
    shared: &Shared,
    changing: Changing<'_>,
    kind: ChangeKind,
    making: Making,
) -> Result<Option<Change>> {
    let workspace = changing.workspace();
    let Some(seq) = changing.finish(shared, kind, making)? else {
        return Ok(None);
    };
    let row = session.change(workspace, seq)?;
    row.map(|row| change_of(session, row)).transpose()
}

/// Returns `making` with the given operation and summary, unless it has its own.
pub(crate) fn described(mut making: Making, operation: &'static str, summary: String) -> Making {
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
pub(super) fn redated(node: Node, before: Option<&Node>, now: i64) -> Node {
    let is_other = before.is_none_or(|before| before.content != node.content);
    Node {
        modified: if is_other { now } else { node.modified },
        ..node
    }
}
