//! Puts given entries at paths, as one change. Merges, and other operations that are planned outside the depot, end in
//! such a put.

use std::collections::HashMap;

use garret_core::path::quote;
use garret_core::{
    Change, ChangeKind, ContentAddress, EntryKind, Error, ErrorKind, MergePoint, Origin, PathChange, PathExpectation,
    PathImage, PathPut, PlacedEntry, PutBatch, Result, WsPath,
};

use super::conversions::{image_of, node_of};
use super::point::newest_level;
use super::restore::{finish_change, with_description, with_modified_time};
use super::undo::{check_reversal, record_reversal};
use super::versions::version_history;
use crate::change::ChangeBuilder;
use crate::content::PreparedContent;
use crate::error::damaged_content;
use crate::metadata::{EntryNode, LineageLevel, MetadataSession};
use crate::outside_files::IngestedPut;
use crate::tree::DepotTree;
use crate::workspace::DepotWorkspace;

/// The maximum number of bytes of small content that wait in memory for the change. More is written to the database
/// before the change.
const WAITING_BYTES: u64 = 32 * 1024 * 1024;

/// The number of versions of a removed path among which an entry that comes back is looked for.
const COMPARED_VERSIONS: usize = 16;

/// A put whose new content is stored.
struct ReadyPut {
    put: PathPut,
    content: Option<PreparedContent>,
}

impl DepotWorkspace {
    /// Puts the given entries at their paths as one change; returns `None` if nothing differs. A path that is not in
    /// the state that its put expects is a `conflict`, and then nothing is changed.
    pub async fn put(&self, puts: PutBatch, origin: impl Into<Origin>) -> Result<Option<Change>> {
        self.put_in_transaction(puts, origin.into(), None).await
    }

    /// Puts the given entries, and records in the same transaction that their intent is in the journal.
    pub(crate) async fn put_ingested(
        &self,
        puts: PutBatch,
        origin: Origin,
        ingested: IngestedPut,
    ) -> Result<Option<Change>> {
        self.put_in_transaction(puts, origin, Some(ingested)).await
    }

    async fn put_in_transaction(
        &self,
        mut puts: PutBatch,
        origin: Origin,
        ingested: Option<IngestedPut>,
    ) -> Result<Option<Change>> {
        let ready = self.prepare_puts(std::mem::take(&mut puts.puts)).await?;
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            if let Some(ingested) = &ingested {
                changing = changing.with_time(ingested.at);
            }
            check_reversal(session, number, &puts)?;
            for one in &ready {
                changing.apply_put(one)?;
            }
            // After all puts: only together they must leave every entry in a directory.
            ready.iter().try_for_each(|one| changing.check_parents(&one.put))?;
            for (from, to) in &puts.moves {
                changing.note_move(from.as_bytes(), to.as_bytes())?;
            }
            if !puts.reverses.is_empty() {
                // A change of the journal even if no path differs: the undo itself must be visible, and the changes
                // that it reverses must count as undone.
                changing.mark_touched();
            }
            let head = changing.seq() - 1;
            let kind = if puts.merged.is_some() {
                ChangeKind::Merge
            } else {
                puts.kind
            };
            let word = if matches!(kind, ChangeKind::Change | ChangeKind::Derived) {
                "put"
            } else {
                kind.as_str()
            };
            let summary = if puts.summary.is_empty() {
                summary_of(word, &ready)
            } else {
                puts.summary
            };
            let change = finish_change(
                session,
                &shared,
                changing,
                kind,
                with_description(origin, word, summary),
            )?;
            record_reversal(session, number, head + 1, &puts.reverses)?;
            if let Some(point) = &puts.merged {
                // A merge that changes no file makes no change, but the next merge must begin at its point, too.
                let at = change.as_ref().map_or(head, |change| change.number.cast_signed());
                note_merge(session, LineageLevel { workspace: number, at }, point)?;
            }
            if let Some(ingested) = ingested {
                ingested.record(session, number)?;
            }
            let reverses = puts.reverses;
            Ok(change.map(|change| Change { reverses, ..change }))
        };
        self.shared().writer.write(durability, work).await
    }

    /// Returns the changes of paths that `puts` would make, and changes nothing.
    pub async fn plan_put(&self, puts: &PutBatch) -> Result<Vec<PathChange>> {
        let read = |session: MetadataSession<'_>| {
            check_reversal(session, self.number, puts)?;
            let level = newest_level(session, self.number)?;
            let planned = PlannedPuts::new(DepotTree::at_point(session, level)?, level, puts)?;
            planned.check_tree(puts)?;
            Ok(planned.befores)
        };
        let befores = self.shared().database.read(read)?;
        let mut paths = Vec::new();
        for (put, before) in puts.puts.iter().zip(befores) {
            let after = self.image_to_place(&put.placed, before.as_ref())?;
            if before.as_ref().map(image_of).as_ref().map(identity) != after.as_ref().map(identity) {
                let before = before.as_ref().map(image_of);
                let path = put.path.clone();
                paths.push(PathChange { path, before, after });
            }
        }
        paths.sort_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        Ok(paths)
    }

    /// Returns the image of the entry to place. New content is read only if the file may have it already.
    fn image_to_place(&self, placed: &PlacedEntry, before: Option<&EntryNode>) -> Result<Option<PathImage>> {
        let image = placed.image();
        let has_size =
            |node: &&EntryNode| node.kind == EntryKind::File && Some(node.size) == image.as_ref().map(|one| one.size);
        let (PlacedEntry::File { content, .. }, Some(before)) = (placed, before.filter(has_size)) else {
            return Ok(image);
        };
        let address = self.shared().content.address_of(content)?;
        let is_held = before.content == Some(address);
        Ok(image.map(|image| PathImage {
            content: Some(ContentAddress(address.0)),
            version: if is_held { image_of(before).version } else { None },
            ..image
        }))
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
        if !contents.is_empty() {
            self.record_contents(contents).await?;
        }
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
        self.record_contents(contents).await
    }

    /// Writes content to the database in a transaction of its own.
    pub(crate) async fn record_contents(&self, contents: Vec<PreparedContent>) -> Result<()> {
        let shared = self.shared().clone();
        let record = move |session: MetadataSession<'_>| {
            let mut all = contents.iter();
            all.try_for_each(|content| shared.content.record_content(session, content))
        };
        self.shared().writer.write(self.durability, record).await
    }
}

/// Returns the fields in which a change of an entry shows.
fn identity(image: &PathImage) -> (EntryKind, u32, Option<ContentAddress>, Option<&str>) {
    (image.kind, image.mode, image.content, image.target.as_deref())
}

/// Puts that are planned on a tree, with the present entry of each path.
struct PlannedPuts<'c> {
    tree: DepotTree<'c>,
    /// In the order of the puts.
    befores: Vec<Option<EntryNode>>,
    /// The kind of entry that each path will have; `None` for nothing.
    kinds: HashMap<Vec<u8>, Option<EntryKind>>,
}

impl<'c> PlannedPuts<'c> {
    /// Reads the present entries, and checks that each is the one that its put expects.
    fn new(tree: DepotTree<'c>, level: LineageLevel, puts: &PutBatch) -> Result<Self> {
        let mut befores = Vec::with_capacity(puts.puts.len());
        let mut kinds = HashMap::with_capacity(puts.puts.len());
        for put in &puts.puts {
            let path = put.path.as_bytes();
            let before = tree.node(path)?;
            if !is_expected(tree.session(), level, put, before.as_ref())? {
                return Err(changed_by_others(put));
            }
            befores.push(before);
            kinds.insert(path.to_vec(), put.placed.image().map(|image| image.kind));
        }
        Ok(Self { tree, befores, kinds })
    }

    fn kind_at(&self, path: &[u8]) -> Result<Option<EntryKind>> {
        match self.kinds.get(path) {
            Some(kind) => Ok(*kind),
            None => Ok(self.tree.node(path)?.map(|node| node.kind)),
        }
    }

    /// Checks that every entry will have its directory.
    fn check_tree(&self, puts: &PutBatch) -> Result<()> {
        let is_gone = |path: &[u8]| {
            self.kinds
                .get(path)
                .is_some_and(|kind| *kind != Some(EntryKind::Directory))
        };
        for put in &puts.puts {
            let path = put.path.as_bytes();
            let above = path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash]);
            if let Some(above) = above
                && self.kind_at(path)?.is_some()
                && self.kind_at(above)? != Some(EntryKind::Directory)
            {
                return Err(changed_by_others(put).hint("the directory above it no longer exists"));
            }
            // The entries below a removed directory are checked once, from the topmost removed directory.
            if !is_gone(path) || above.is_some_and(is_gone) {
                continue;
            }
            let mut below = self.tree.scan_below(path);
            while let Some((below, _)) = below.next()? {
                if self.kinds.get(&below) != Some(&None) {
                    return Err(changed_by_others(put).hint("another program created files below it"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a path has the state that its put expects, at the newest state `level`.
fn is_expected(
    session: MetadataSession<'_>,
    level: LineageLevel,
    put: &PathPut,
    before: Option<&EntryNode>,
) -> Result<bool> {
    match &put.expected {
        PathExpectation::Is(image) => Ok(before.map(image_of).as_ref() == image.as_ref()),
        PathExpectation::UnchangedSince { change, .. } => {
            Ok(!was_changed_since(session, level, put.path.as_bytes(), *change)?)
        }
    }
}

/// Returns whether a change of Garret touched the path after the change `since`. Changes by other programs do not
/// count: the caller, which reads their files, knows the time of those.
fn was_changed_since(session: MetadataSession<'_>, level: LineageLevel, path: &[u8], since: u64) -> Result<bool> {
    let since = i64::try_from(since).unwrap_or(i64::MAX);
    let history = session.entries().entry_history(level.workspace, path, level.at + 1)?;
    let ends = history.iter().flat_map(|(since, until, _)| [*since, *until]);
    for seq in ends.filter(|seq| *seq > since && *seq <= level.at) {
        let change = session.changes().change(level.workspace, seq)?;
        let kind = change.and_then(|row| ChangeKind::parse(&row.kind));
        if !matches!(kind, Some(ChangeKind::Outside | ChangeKind::Capture)) {
            return Ok(true);
        }
    }
    Ok(false)
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
    let source = session.workspaces().workspace_by_uid(&point.workspace)?;
    let source = source.ok_or_else(|| Error::new(ErrorKind::NotFound, "the workspace to merge no longer exists"))?;
    let at = i64::try_from(point.change).unwrap_or(i64::MAX).min(source.head);
    let workspace = source.id;
    session.merges().add_merge(into, LineageLevel { workspace, at })
}

impl ChangeBuilder<'_> {
    fn apply_put(&mut self, ready: &ReadyPut) -> Result<()> {
        let path = ready.put.path.as_bytes();
        let before = self.tree.node(path)?;
        let level = LineageLevel {
            workspace: self.workspace(),
            at: self.seq() - 1,
        };
        if !is_expected(self.tree.session(), level, &ready.put, before.as_ref())? {
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
        let created = match (&ready.put.placed, before) {
            (_, Some(before)) => before.created,
            (PlacedEntry::Image(_), None) => self.earlier_creation(ready.put.path.as_bytes(), &node)?,
            _ => node.created,
        };
        let modified = match (&ready.put.placed, before) {
            // An image carries no time; only new content is a modification.
            (PlacedEntry::Image(_), Some(before)) => before.modified,
            _ => node.modified,
        };
        let node = EntryNode {
            created,
            modified,
            ..node
        };
        Ok(Some(with_modified_time(node, before, self.now())))
    }

    /// Returns the time at which an entry that comes back was created; now if the path never had it. An image carries no
    /// times.
    fn earlier_creation(&self, path: &[u8], node: &EntryNode) -> Result<i64> {
        let (session, workspace) = (self.tree.session(), self.workspace());
        // One query finds most entries. The search along renames and forks takes several queries for each version.
        let own = session.entries().entry_history(workspace, path, self.seq() - 1)?;
        let mut own = own.into_iter().filter_map(|(_, _, held)| held.into_node());
        if let Some(earlier) = own.find(|earlier| earlier.is_same(node)) {
            return Ok(earlier.created);
        }
        let versions = version_history(session, workspace, path, COMPARED_VERSIONS)?;
        let found = versions.iter().find(|version| version.node.is_same(node));
        Ok(found.map_or(node.created, |version| version.node.created))
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
pub fn changed_by_others(put: &PathPut) -> Error {
    let error = Error::new(
        ErrorKind::Conflict,
        format!("{} was changed by others", quote(&put.path.display_path())),
    );
    let root = WsPath::root();
    error
        .at_path(put.path.as_path().unwrap_or(&root))
        .hint("read it again, then repeat the operation")
}
