//! Puts given entries at paths, as one change. Merges, and other operations that are planned outside the depot, end in
//! such a put.

use garret_core::path::quote;
use garret_core::{
    Change, ChangeKind, EntryKind, Error, ErrorKind, Expected, Image, Making, MergePoint, Placed, Put, Puts, Result,
    WsPath,
};

use super::restore::{described, finish, redated};
use super::types::{image_of, node_of};
use crate::change::Changing;
use crate::content::Prepared;
use crate::error::damaged;
use crate::metadata::{Level, Node, Session};
use crate::workspace::DepotWorkspace;

/// The maximum number of bytes of small content that wait in memory for the change. More is written to the database
/// before the change.
const WAITING_BYTES: u64 = 32 * 1024 * 1024;

/// A put whose new content is stored.
struct Ready {
    put: Put,
    content: Option<Prepared>,
}

impl DepotWorkspace {
    /// Puts the given entries at their paths as one change; returns `None` if nothing differs. A path that is not in
    /// the state that its put expects is a `conflict`, and then nothing is changed.
    pub async fn put(&self, puts: Puts, making: impl Into<Making>) -> Result<Option<Change>> {
        let making = making.into();
        let ready = self.ready(puts.puts).await?;
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let (moves, merged) = (puts.moves, puts.merged);
        let work = move |session: Session<'_>| {
            let mut changing = Changing::begin(session, &shared, number, durability)?;
            for one in &ready {
                changing.put(one)?;
            }
            // After all puts: only together they must leave every entry in a directory.
            ready.iter().try_for_each(|one| changing.check_place(&one.put))?;
            for (from, to) in &moves {
                changing.note_move(from.as_bytes(), to.as_bytes())?;
            }
            let head = changing.seq() - 1;
            let (kind, word) = match &merged {
                Some(_) => (ChangeKind::Merge, "merge"),
                None => (ChangeKind::Change, "put"),
            };
            let making = described(making, word, summary_of(word, &ready));
            let change = finish(session, &shared, changing, kind, making)?;
            if let Some(point) = &merged {
                // A merge that changes no file makes no change, but the next merge must begin at its point, too.
                let at = change.as_ref().map_or(head, |change| change.number.cast_signed());
                note_merge(session, Level { workspace: number, at }, point)?;
            }
            Ok(change)
        };
        self.write(work).await
    }

    /// Stores the new content of `puts` in the depot, before the change that will refer to it, and returns the puts
    /// with references to that content. If the change never comes, garbage collection removes the content.
    pub(crate) async fn held(&self, puts: Puts) -> Result<Puts> {
        let (mut held, mut contents) = (Vec::with_capacity(puts.puts.len()), Vec::new());
        for Ready { mut put, content } in self.ready(puts.puts).await? {
            if let (Placed::File { mode, .. }, Some(content)) = (&put.placed, content) {
                // The time 0 does not matter, since an image has no times.
                put.placed = Placed::Image(image_of(&file_of(&content, *mode, 0)));
                contents.push(content);
            }
            held.push(put);
        }
        let shared = self.shared().clone();
        let record = move |session: Session<'_>| {
            let mut all = contents.iter();
            all.try_for_each(|content| shared.content.record(session, content))
        };
        self.shared().writer.write(self.durability, record).await?;
        Ok(Puts { puts: held, ..puts })
    }

    async fn ready(&self, puts: Vec<Put>) -> Result<Vec<Ready>> {
        let shared = self.shared();
        let mut ready = Vec::with_capacity(puts.len());
        let (mut waiting, mut waiting_bytes) = (0, 0);
        for put in puts {
            let content = match &put.placed {
                Placed::File { content, .. } => Some(
                    shared
                        .content
                        .prepare(&shared.database, content, self.durability)
                        .await?,
                ),
                _ => None,
            };
            waiting_bytes += content.as_ref().map_or(0, Prepared::inline_bytes);
            ready.push(Ready { put, content });
            if waiting_bytes > WAITING_BYTES {
                self.record_ahead(&mut ready[waiting..]).await?;
                (waiting, waiting_bytes) = (ready.len(), 0);
            }
        }
        Ok(ready)
    }

    /// Writes content to the database before the change that will refer to it, so that it does not stay in memory until
    /// then.
    async fn record_ahead(&self, ready: &mut [Ready]) -> Result<()> {
        let contents = ready.iter_mut().filter_map(|one| one.content.as_mut());
        let contents: Vec<_> = contents
            .map(|content| {
                let stored = Prepared::stored(content.address, content.size);
                std::mem::replace(content, stored)
            })
            .collect();
        let shared = self.shared().clone();
        let record = move |session: Session<'_>| {
            let mut all = contents.iter();
            all.try_for_each(|content| shared.content.record(session, content))
        };
        self.shared().writer.write(self.durability, record).await
    }
}

/// Returns the default summary of puts whose caller gave none.
fn summary_of(word: &str, puts: &[Ready]) -> String {
    match puts {
        [one] => format!("{word} {}", quote(&one.put.path.shown())),
        more => format!("{word} {} paths", more.len()),
    }
}

/// Records that `into` has merged `point`, so that the next merge begins there.
fn note_merge(session: Session<'_>, into: Level, point: &MergePoint) -> Result<()> {
    let source = session.workspace_by_uid(&point.workspace)?;
    let source = source.ok_or_else(|| Error::new(ErrorKind::NotFound, "the workspace to merge no longer exists"))?;
    let at = i64::try_from(point.change).unwrap_or(i64::MAX).min(source.head);
    let workspace = source.id;
    session.add_merge(into, Level { workspace, at })
}

impl Changing<'_> {
    fn put(&mut self, ready: &Ready) -> Result<()> {
        let path = ready.put.path.as_bytes();
        let before = self.tree.node(path)?;
        let is_expected = match &ready.put.expected {
            Expected::Is(image) => before.as_ref().map(image_of).as_ref() == image.as_ref(),
            Expected::UnchangedSince { change, .. } => !self.was_worked_on(path, *change)?,
        };
        if !is_expected {
            return Err(changed(&ready.put));
        }
        let after = self.placed(ready, before.as_ref())?;
        match (&before, &after) {
            (None, None) => Ok(()),
            (Some(before), Some(after)) if before.is_same(after) => Ok(()),
            _ => self.set(path, after),
        }
    }

    fn placed(&mut self, ready: &Ready, before: Option<&Node>) -> Result<Option<Node>> {
        let node = match (&ready.put.placed, &ready.content) {
            (Placed::Nothing, _) => return Ok(None),
            (Placed::Image(image), _) => self.held(image)?,
            (Placed::File { .. }, Some(content)) if content.is_stored() && !self.refer(content.address)? => {
                return Err(damaged("the content is missing from the home"));
            }
            (Placed::File { mode, .. }, Some(content)) => {
                self.record(content)?;
                file_of(content, *mode, self.now())
            }
            (Placed::Directory { mode }, _) => self.bare(EntryKind::Directory, *mode, None),
            (Placed::Symlink { target }, _) => self.bare(EntryKind::Symlink, 0o777, Some(target.clone())),
            (Placed::File { .. }, None) => return Err(damaged("new content is not in place")),
        };
        let created = before.map_or(node.created, |before| before.created);
        Ok(Some(redated(Node { created, ..node }, before, self.now())))
    }

    fn bare(&self, kind: EntryKind, mode: u32, target: Option<String>) -> Node {
        Node {
            kind,
            mode,
            size: target.as_ref().map_or(0, |target| target.len() as u64),
            content: None,
            target,
            created: self.now(),
            modified: self.now(),
        }
    }

    /// Returns whether a change of Garret touched the path after the change `since`. Changes by other programs do not
    /// count: the caller, which reads their files, knows the time of those.
    fn was_worked_on(&self, path: &[u8], since: u64) -> Result<bool> {
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let session = self.tree.session();
        let history = session.entry_history(self.workspace(), path, self.seq())?;
        let ends = history.iter().flat_map(|(since, until, _)| [*since, *until]);
        for seq in ends.filter(|seq| *seq > since && *seq < self.seq()) {
            let change = session.change(self.workspace(), seq)?;
            let kind = change.and_then(|row| ChangeKind::parse(&row.kind));
            if !matches!(kind, Some(ChangeKind::Outside | ChangeKind::Capture)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the entry for an earlier image, whose content the depot must still have.
    fn held(&self, image: &Image) -> Result<Node> {
        let node = node_of(image, self.now());
        match node.content {
            Some(address) if !self.refer(address)? => Err(damaged("the content is missing from the home")),
            None if node.kind == EntryKind::File => Err(damaged("a file has no content")),
            _ => Ok(node),
        }
    }

    /// Checks that the entry of a put has a directory above it, and that no entry below it has lost its directory.
    fn check_place(&self, put: &Put) -> Result<()> {
        let path = put.path.as_bytes();
        let node = self.tree.node(path)?;
        if node.is_some()
            && let Some(slash) = path.iter().rposition(|byte| *byte == b'/')
        {
            let above = self.tree.node(&path[..slash])?;
            if above.is_none_or(|above| above.kind != EntryKind::Directory) {
                return Err(changed(put).hint("the directory above it no longer exists"));
            }
        }
        let is_directory = node.is_some_and(|node| node.kind == EntryKind::Directory);
        if is_directory || self.tree.below(path).next()?.is_none() {
            Ok(())
        } else {
            Err(changed(put).hint("another program created files below it"))
        }
    }
}

fn file_of(content: &Prepared, mode: u32, now: i64) -> Node {
    Node {
        kind: EntryKind::File,
        mode,
        size: content.size,
        content: Some(content.address),
        target: None,
        created: now,
        modified: now,
    }
}

/// Returns the error for a path that is not in the state that its put expects.
pub(crate) fn changed(put: &Put) -> Error {
    let error = Error::new(
        ErrorKind::Conflict,
        format!("{} was changed by others", quote(&put.path.shown())),
    );
    let root = WsPath::root();
    error
        .at(put.path.as_path().unwrap_or(&root))
        .hint("read it again, then repeat the operation")
}
