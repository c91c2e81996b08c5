//! A workspace whose files live outside the depot: its recorded entries, its content, and the ways to record a change.

use garret_core::{
    Change, ChangeKind, Content, ContentAddress, EntryKind, EntryPath, ErrorKind, PathChange, PathImage, Point,
    PutBatch, Result, Timestamp,
};

use super::ingest::{self, IngestedPut};
use super::record::{ChangeAuthorship, KnownEntry, ObservedEntry, RecordContent};
use super::{RecordedPoint, Site};
use crate::content::PieceAddress;
use crate::content_reader::StoredContent;
use crate::depot::Depot;
use crate::error::damaged_content;
use crate::history::image_of;
use crate::metadata::{ChangeRow, EntryNode, HEAD, LevelEntry, MetadataSession, SeenEntry, stored_time};
use crate::tree::{DepotTree, span_below};
use crate::workspace::DepotWorkspace;
use crate::workspace_places::{check_unclaimed, move_to_site};

/// Content up to this size is read in one piece.
const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

/// Recorded entries with their paths.
pub type RecordedEntries = Vec<(Vec<u8>, KnownEntry)>;

/// A workspace whose files live outside the depot. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutsideWorkspace {
    pub(super) workspace: DepotWorkspace,
}

impl From<DepotWorkspace> for OutsideWorkspace {
    fn from(workspace: DepotWorkspace) -> Self {
        Self { workspace }
    }
}

impl OutsideWorkspace {
    /// Returns the workspace whose files live at `site`; creates it with `id` if there is none.
    pub async fn ensure_at_site(depot: &Depot, site: Site, id: String) -> Result<DepotWorkspace> {
        depot.workspace_at_site(site, id).await
    }

    /// Returns the history of the workspace.
    pub fn history(&self) -> &DepotWorkspace {
        &self.workspace
    }

    /// Returns the largest number of bytes of content that a record holds itself.
    pub fn inline_bytes(&self) -> u64 {
        self.workspace.shared().options.inline_bytes as u64
    }

    fn read<T>(&self, work: impl FnOnce(MetadataSession<'_>) -> Result<T>) -> Result<T> {
        self.workspace.shared().database.read(work)
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(MetadataSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let writer = &self.workspace.shared().writer;
        writer.write(self.workspace.durability, work).await
    }
}

/// Records of the log.
impl OutsideWorkspace {
    /// Records that the intent `id` needs no more work.
    pub async fn discard_intent(&self, id: u64) -> Result<()> {
        let number = self.workspace.number;
        self.write(move |session| session.outside_files().set_ingested(number, id.cast_signed()))
            .await
    }

    /// Puts the entries as one change by the author and at the time of the intent `id`, and records in the same
    /// transaction that this intent is in the journal and which entries it left in the storage.
    pub async fn put_intent(
        &self,
        id: u64,
        by: ChangeAuthorship,
        puts: PutBatch,
        seen: Vec<ObservedEntry>,
    ) -> Result<Option<Change>> {
        let ingested = IngestedPut { id, at: by.at, seen };
        self.workspace.put_ingested(puts, by.into_origin(), ingested).await
    }
}

/// Recorded entries and changes.
impl OutsideWorkspace {
    /// Returns the recorded entry at `path`.
    pub fn recorded_entry(&self, path: &[u8]) -> Result<Option<KnownEntry>> {
        let number = self.workspace.number;
        self.read(|session| {
            let held = session.entries().entry(number, path, HEAD)?;
            let Some(node) = held.and_then(LevelEntry::into_node) else {
                return Ok(None);
            };
            let token = session.outside_files().seen_version(number, path)?;
            Ok(Some(entry_of_node(node, token)))
        })
    }

    /// Returns all recorded entries below `directory`, sorted by path.
    pub fn recorded_entries_below(&self, directory: &[u8]) -> Result<RecordedEntries> {
        let found = self.seen_entries_below(directory, usize::MAX >> 1)?;
        Ok(found.into_iter().filter_map(known_entry).collect())
    }

    /// Returns all recorded entries below `directory`, sorted by path; `None` if the depot has more than `most` rows
    /// for them.
    pub fn few_recorded_entries_below(&self, directory: &[u8], most: usize) -> Result<Option<RecordedEntries>> {
        let found = self.seen_entries_below(directory, most + 1)?;
        // Hidden rows count as well: the limit of the query counts them.
        let are_all = found.len() <= most;
        Ok(are_all.then(|| found.into_iter().filter_map(known_entry).collect()))
    }

    fn seen_entries_below(&self, directory: &[u8], limit: usize) -> Result<Vec<SeenEntry>> {
        let (start, end) = span_below(directory);
        let number = self.workspace.number;
        self.read(|session| {
            let outside = session.outside_files();
            outside.seen_entries(number, &start, end.as_deref(), limit)
        })
    }

    /// Returns whether every file was recorded.
    pub fn has_recorded_all(&self) -> Result<bool> {
        let row = self.read(|session| session.outside_files().journal(self.workspace.number))?;
        Ok(row.is_some_and(|row| row.whole.is_some()))
    }

    /// Returns for each of `paths` whether it was recorded at any time.
    pub fn were_ever_recorded<'p>(&self, paths: impl Iterator<Item = &'p [u8]>) -> Result<Vec<bool>> {
        let number = self.workspace.number;
        self.read(|session| {
            paths
                .map(|path| session.outside_files().had_entry(number, path))
                .collect()
        })
    }

    /// Returns whether the present entry at `path` comes from a change that Garret made at the time `at` or later.
    pub fn was_changed_by_garret(&self, path: &[u8], at: Timestamp) -> Result<bool> {
        let newest = self.newest_change(path)?;
        Ok(newest.is_some_and(|row| !is_by_others(&row) && row.at >= stored_time(at)))
    }

    /// Returns whether the newest change of `path` came after the change `since` and was made by other programs.
    pub fn was_changed_by_others(&self, path: &[u8], since: u64) -> Result<bool> {
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let newest = self.newest_change(path)?;
        Ok(newest.is_some_and(|row| is_by_others(&row) && row.seq > since))
    }

    /// Returns whether the recorded entry at `path` is the one that was recorded at the change `change`.
    pub fn is_as_recorded(&self, path: &[u8], change: u64) -> Result<bool> {
        let (number, change) = (self.workspace.number, i64::try_from(change).unwrap_or(i64::MAX));
        self.read(|session| {
            let entries = session.entries();
            let then = entries.entry(number, path, change)?.and_then(LevelEntry::into_node);
            let now = entries.entry(number, path, HEAD)?.and_then(LevelEntry::into_node);
            Ok(then.zip(now).is_some_and(|(then, now)| then.is_same(&now)))
        })
    }

    /// Returns the change that gave `path` its present state.
    fn newest_change(&self, path: &[u8]) -> Result<Option<ChangeRow>> {
        let number = self.workspace.number;
        self.read(|session| {
            let history = session.entries().entry_history(number, path, HEAD)?;
            let ends = history.iter().flat_map(|(since, until, _)| [*since, *until]);
            match ends.filter(|end| *end < HEAD).max() {
                Some(newest) => session.changes().change(number, newest),
                None => Ok(None),
            }
        })
    }

    /// Records new versions of files whose content has not changed.
    pub async fn record_versions(&self, versions: Vec<(Vec<u8>, String)>) -> Result<()> {
        let number = self.workspace.number;
        self.write(move |session| {
            let mut versions = versions.iter();
            versions.try_for_each(|(path, token)| session.outside_files().set_seen_version(number, path, Some(token)))
        })
        .await
    }

    /// Returns the recorded files at a point.
    pub fn point(&self, point: &Point) -> Result<RecordedPoint> {
        RecordedPoint::new(self.workspace.clone(), point)
    }
}

/// Content.
impl OutsideWorkspace {
    /// Stores contents in the depot, and returns them in the form of a record.
    pub async fn store_contents(&self, contents: Vec<Content>) -> Result<Vec<RecordContent>> {
        let shared = self.workspace.shared();
        let mut prepared = Vec::with_capacity(contents.len());
        for content in &contents {
            let durability = self.workspace.durability;
            let one = shared.content.prepare_content(&shared.database, content, durability);
            prepared.push(one.await?);
        }
        let stored = prepared.iter().map(|one| RecordContent::Stored {
            address: one.address,
            size: one.size,
        });
        let stored = stored.collect();
        if !prepared.is_empty() {
            self.workspace.record_contents(prepared).await?;
        }
        Ok(stored)
    }

    /// Stores the new content of `puts` in the depot, and returns the puts with references to that content.
    pub async fn store_put_contents(&self, puts: PutBatch) -> Result<PutBatch> {
        self.workspace.store_contents(puts).await
    }

    /// Returns the address that `content` has in the depot.
    pub fn address_of_content(&self, content: &Content) -> Result<ContentAddress> {
        let address = self.workspace.shared().content.address_of(content)?;
        Ok(ContentAddress(address.0))
    }

    /// Returns the content of an image. Large content is read only while it is written.
    pub async fn load_image_content(&self, image: &PathImage) -> Result<Content> {
        let stored = self.stored_content_of_image(image)?;
        if image.size <= WHOLE_BYTES {
            stored.read_range(0..image.size).await.map(Content::from)
        } else {
            Ok(Content::from_source(stored))
        }
    }

    /// Returns whether the depot has the content of the image.
    pub async fn has_image_content(&self, image: Option<&PathImage>) -> Result<bool> {
        let Some(image) = image.filter(|image| image.kind == EntryKind::File) else {
            return Ok(true);
        };
        // Reading the last byte fetches the list of parts and one part, not the whole of a large file.
        let end = image.size.saturating_sub(1)..image.size;
        let read = async { self.stored_content_of_image(image)?.read_range(end).await };
        match read.await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn stored_content_of_image(&self, image: &PathImage) -> Result<StoredContent> {
        let address = image.content.ok_or_else(|| damaged_content("a file has no content"))?;
        Ok(StoredContent {
            shared: self.workspace.shared().clone(),
            address: PieceAddress(address.0),
            size: image.size,
        })
    }
}

/// Moving a workspace out of the depot.
impl OutsideWorkspace {
    /// Checks that no workspace has its files at `site`.
    pub fn check_unclaimed(&self, site: &Site) -> Result<()> {
        self.read(|session| check_unclaimed(session, site))
    }

    /// Returns the newest state of every path, as changes that create it.
    pub fn all_images(&self) -> Result<Vec<PathChange>> {
        let all = self.read(|session| {
            let tree = DepotTree::at_point(session, self.workspace.head_level())?;
            tree.scan_below(b"").collect()
        })?;
        let created = |(path, node): (Vec<u8>, EntryNode)| PathChange {
            path: EntryPath::from_bytes(path),
            before: None,
            after: Some(image_of(&node)),
        };
        Ok(all.into_iter().map(created).collect())
    }

    /// Records that the files of the workspace, which were in the depot, live at `site` from now on, and that `config`
    /// opens them. `seen` are all their entries.
    pub async fn move_to_site(&self, site: Site, config: String, seen: Vec<ObservedEntry>) -> Result<()> {
        let number = self.workspace.number;
        self.write(move |session| {
            move_to_site(session, number, &site, &config)?;
            ingest::record_observed_versions(session, number, &seen)?;
            // All files were just written from the journal, so no file is unknown to it.
            session.outside_files().set_complete_since(number, 0)
        })
        .await
    }
}

fn known_entry((path, held, token): SeenEntry) -> Option<(Vec<u8>, KnownEntry)> {
    Some((path, entry_of_node(held.into_node()?, token)))
}

fn entry_of_node(node: EntryNode, token: Option<String>) -> KnownEntry {
    KnownEntry {
        kind: node.kind,
        mode: node.mode,
        size: node.size,
        target: node.target,
        token: token.filter(|_| node.kind == EntryKind::File),
    }
}

fn is_by_others(row: &ChangeRow) -> bool {
    matches!(
        ChangeKind::parse(&row.kind),
        Some(ChangeKind::Outside | ChangeKind::Capture)
    )
}
