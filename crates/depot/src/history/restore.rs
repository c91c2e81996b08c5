//! Putting files back to what they were at a point, as one change that can be undone.

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
    /// Makes `path`, and everything below it, what it was at `point`; the root for the whole workspace. `None` where nothing differs.
    pub async fn restore(&self, point: Point, path: &WsPath, making: impl Into<Making>) -> Result<Option<Change>> {
        let path = path.clone();
        self.restoring(making.into(), move |session, changing| {
            let to = level_of(session, changing.workspace(), &point)?;
            let from = now(session, changing.workspace())?;
            let differing = differing(session, from, to, &path)?;
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

    /// Makes the file at `path` what it was in `version`, one of [`DepotWorkspace::versions`] by its token or by the id of its change,
    /// whatever the file was called then.
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

/// Closes the change and gives it, where it touched anything.
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

/// `making` with words for what it leaves unsaid.
pub(crate) fn described(mut making: Making, operation: &'static str, summary: String) -> Making {
    let origin = &mut making.origin;
    if origin.summary.is_empty() {
        origin.summary = summary;
    }
    if origin.operation.is_empty() {
        origin.operation = operation;
    }
    making
}

/// `node` as it comes back: where the content changes by it, that happens now.
pub(super) fn redated(node: Node, before: Option<&Node>, now: i64) -> Node {
    let is_other = before.is_none_or(|before| before.content != node.content);
    Node {
        modified: if is_other { now } else { node.modified },
        ..node
    }
}
