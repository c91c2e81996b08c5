//! Puts given entries at paths, as one change. Merges, and other operations that are planned outside the depot, end in
//! such a put.

use garret_core::path::quote;
use garret_core::{
    Change, ChangeKind, ChangeRequest, EntryKind, Error, ErrorKind, MergePoint, PathExpectation, PathImage, PathPut,
    PlacedEntry, PutBatch, Result, WsPath,
};

use super::conversions::{image_of, node_of};
use super::restore::{finish_change, with_description, with_modified_time};
use crate::change::ChangeBuilder;
use crate::content::PreparedContent;
use crate::error::damaged_content;
use crate::metadata::{EntryNode, LineageLevel, MetadataSession};
use crate::workspace::DepotWorkspace;

/// The maximum number of bytes of small content that wait in memory for the change. More is written to the database
/// before the change.
const WAITING_BYTES: u64 = 32 * 1024 * 1024;

/// A put whose new content is stored.
struct ReadyPut {
    put: PathPut,
    content: Option<PreparedContent>,
}

impl DepotWorkspace {
    /// Puts the given entries at their paths as one change; returns `None` if nothing differs. A path that is not in
    /// the state that its put expects is a `conflict`, and then nothing is changed.
    pub async fn put(&self, puts: PutBatch, making: impl Into<ChangeRequest>) -> Result<Option<Change>> {
        let making = making.into();
        let ready = self.prepare_puts(puts.puts).await?;
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let (moves, merged) = (puts.moves, puts.merged);
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            for one in &ready {
                changing.apply_put(one)?;
            }
            // After all puts: only together they must leave every entry in a directory.
            ready.iter().try_for_each(|one| changing.check_parents(&one.put))?;
            for (from, to) in &moves {
                changing.note_move(from.as_bytes(), to.as_bytes())?;
            }
            let head = changing.seq() - 1;
            let (kind, word) = match &merged {
                Some(_) => (ChangeKind::Merge, "merge"),
                None => (ChangeKind::Change, "put"),
            };
            let making = with_description(making, word, summary_of(word, &ready));
            let change = finish_change(session, &shared, changing, kind, making)?;
            if let Some(point) = &merged {
                // A merge that changes no file makes no change, but the next merge must begin at its point, too.
                let at = change.as_ref().map_or(head, |change| change.number.cast_signed());
                note_merge(session, LineageLevel { workspace: number, at }, point)?;
            }
            Ok(change)
        };
        self.write_with_epilogue(work).await
    }

    /// Stores the new content of `puts` in the depot, before the change that will refer to it, and returns the puts
    /// with references to that content. If the change never comes, garbage collection removes the content.
    pub(crate) async fn store_contents(&self, puts: PutBatch) -> Result<PutBatch> {
        let (mut held, mut contents) = (Vec::with_capacity(puts.puts.len()), Vec::new());
        for ReadyPut { mut put, content } in self.prepare_puts(puts.puts).await? {
            if let (PlacedEntry::File { mode, .. }, Some(content)) = (&put.placed, content) {
                // The time 0 does not matter, since an image has no times.
                put.placed = PlacedEntry::Image(image_of(&file_node(&content, *mode, 0)));
                contents.push(content);
            }
            held.push(put);
        }
        let shared = self.shared().clone();
        let record = move |session: MetadataSession<'_>| {
            let mut all = contents.iter();
            all.try_for_each(|content| shared.content.record_content(session, content))
        };
        self.shared().writer.write(self.durability, record).await?;
        Ok(PutBatch { puts: held, ..puts })
    }

    async fn prepare_puts(&self, puts: Vec<PathPut>) -> Result<Vec<ReadyPut>> {
        let shared = self.shared();
        let mut ready = Vec::with_capacity(puts.len());
        let (mut waiting, mut waiting_bytes) = (0, 0);
        for put in puts {
            let content = match &put.placed {
                PlacedEntry::File { content, .. } => Some(
                    shared
                        .content
                        .prepare_content(&shared.database, content, self.durability)
                        .await?,
                ),
                _ => None,
            };
            waiting_bytes += content.as_ref().map_or(0, PreparedContent::inline_bytes);
            ready.push(ReadyPut { put, content });
            if waiting_bytes > WAITING_BYTES {
                self.record_ahead(&mut ready[waiting..]).await?;
                (waiting, waiting_bytes) = (ready.len(), 0);
            }
        }
        Ok(ready)
    }

    /// Writes content to the database before the change that will refer to it, so that it does not stay in memory until
    /// then.
    async fn record_ahead(&self, ready: &mut [ReadyPut]) -> Result<()> {
        let contents = ready.iter_mut().filter_map(|one| one.content.as_mut());
        let contents: Vec<_> = contents
            .map(|content| {
                let stored = PreparedContent::already_stored(content.address, content.size);
                std::mem::replace(content, stored)
            })
            .collect();
        let shared = self.shared().clone();
        let record = move |session: MetadataSession<'_>| {
            let mut all = contents.iter();
            all.try_for_each(|content| shared.content.record_content(session, content))
        };
        self.shared().writer.write(self.durability, record).await
    }
}

/// Returns the default summary of puts whose caller gave none.
fn summary_of(word: &str, puts: &[ReadyPut]) -> String {
    match puts {
        [one] => format!("{word} {}", quote(&one.put.path.display_path())),
        more => format!("{word} {} paths", more.len()),
    }
}

/// Records that `into` has merged `point`, so that the next merge begins there.
fn note_merge(session: MetadataSession<'_>, into: LineageLevel, point: &MergePoint) -> Result<()> {
    let source = session.workspace_by_uid(&point.workspace)?;
    let source = source.ok_or_else(|| Error::new(ErrorKind::NotFound, "the workspace to merge no longer exists"))?;
    let at = i64::try_from(point.change).unwrap_or(i64::MAX).min(source.head);
    let workspace = source.id;
    session.add_merge(into, LineageLevel { workspace, at })
}

impl ChangeBuilder<'_> {
    fn apply_put(&mut self, ready: &ReadyPut) -> Result<()> {
        let path = ready.put.path.as_bytes();
        let before = self.tree.node(path)?;
        let is_expected = match &ready.put.expected {
            PathExpectation::Is(image) => before.as_ref().map(image_of).as_ref() == image.as_ref(),
            PathExpectation::UnchangedSince { change, .. } => !self.was_changed_since(path, *change)?,
        };
        if !is_expected {
            return Err(changed_by_others(&ready.put));
        }
        let after = self.node_to_place(ready, before.as_ref())?;
        match (&before, &after) {
            (None, None) => Ok(()),
            (Some(before), Some(after)) if before.is_same(after) => Ok(()),
            _ => self.set_entry(path, after),
        }
    }

    fn node_to_place(&mut self, ready: &ReadyPut, before: Option<&EntryNode>) -> Result<Option<EntryNode>> {
        let node = match (&ready.put.placed, &ready.content) {
            (PlacedEntry::Nothing, _) => return Ok(None),
            (PlacedEntry::Image(image), _) => self.node_of_image(image)?,
            (PlacedEntry::File { .. }, Some(content))
                if content.is_stored() && !self.refer_to_content(content.address)? =>
            {
                return Err(damaged_content("the content is missing from the home"));
            }
            (PlacedEntry::File { mode, .. }, Some(content)) => {
                self.record_content(content)?;
                file_node(content, *mode, self.now())
            }
            (PlacedEntry::Directory { mode }, _) => self.bare_node(EntryKind::Directory, *mode, None),
            (PlacedEntry::Symlink { target }, _) => self.bare_node(EntryKind::Symlink, 0o777, Some(target.clone())),
            (PlacedEntry::File { .. }, None) => return Err(damaged_content("new content is not in place")),
        };
        let created = before.map_or(node.created, |before| before.created);
        Ok(Some(with_modified_time(
            EntryNode { created, ..node },
            before,
            self.now(),
        )))
    }

    fn bare_node(&self, kind: EntryKind, mode: u32, target: Option<String>) -> EntryNode {
        EntryNode {
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
    fn was_changed_since(&self, path: &[u8], since: u64) -> Result<bool> {
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
    fn node_of_image(&self, image: &PathImage) -> Result<EntryNode> {
        let node = node_of(image, self.now());
        match node.content {
            Some(address) if !self.refer_to_content(address)? => {
                Err(damaged_content("the content is missing from the home"))
            }
            None if node.kind == EntryKind::File => Err(damaged_content("a file has no content")),
            _ => Ok(node),
        }
    }

    /// Checks that the entry of a put has a directory above it, and that no entry below it has lost its directory.
    fn check_parents(&self, put: &PathPut) -> Result<()> {
        let path = put.path.as_bytes();
        let node = self.tree.node(path)?;
        if node.is_some()
            && let Some(slash) = path.iter().rposition(|byte| *byte == b'/')
        {
            let above = self.tree.node(&path[..slash])?;
            if above.is_none_or(|above| above.kind != EntryKind::Directory) {
                return Err(changed_by_others(put).hint("the directory above it no longer exists"));
            }
        }
        let is_directory = node.is_some_and(|node| node.kind == EntryKind::Directory);
        if is_directory || self.tree.scan_below(path).next()?.is_none() {
            Ok(())
        } else {
            Err(changed_by_others(put).hint("another program created files below it"))
        }
    }
}

fn file_node(content: &PreparedContent, mode: u32, now: i64) -> EntryNode {
    EntryNode {
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
pub(crate) fn changed_by_others(put: &PathPut) -> Error {
    let error = Error::new(
        ErrorKind::Conflict,
        format!("{} was changed by others", quote(&put.path.display_path())),
    );
    let root = WsPath::root();
    error
        .at_path(put.path.as_path().unwrap_or(&root))
        .hint("read it again, then repeat the operation")
}
