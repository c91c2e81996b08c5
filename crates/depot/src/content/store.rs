//! Stores content in the database and the blob store, and reads it back.
//!
//! A crash cannot leave a row without its blob: a blob is stored (and under full durability synced, with its directory)
//! before the transaction that refers to it begins. If that transaction never commits, garbage collection removes the
//! blob later.

mod transfer;

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use futures::executor::block_on;
use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{Clock, Content, Error, ErrorKind, Result};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::PieceAddress;
use super::blob_folder::BlobFolder;
use super::blocking::run_in_parallel;
use super::chunking::{LONGEST, SHORTEST};
use super::encoding::{ContentPart, DecodedPiece, decode_piece};
use super::piece_reader::ContentPieceReader;
use super::plan::{ContentPiece, ContentPlan, plan_pieces};
use crate::error::{blob_not_read, blob_not_written, damaged_content};
use crate::metadata::{ContentRow, MetadataDatabase, MetadataSession, StoredPiece};
use garret_core::Durability;
use garret_handles::run_blocking;

pub use transfer::PlainPiece;

/// A blob that a change referred to within this time is reused without being written again. A sweep spares blobs
/// younger than twice this time, so a blob that is reused cannot be swept before the change commits.
const RELIED_ON_MS: i64 = 30 * 60 * 1000;
/// The number of blobs of one file that are written or read concurrently.
const AT_ONCE: usize = 8;

/// The content of a depot.
#[derive(Debug)]
pub(crate) struct ContentStore {
    pub(super) synced: Arc<dyn ObjectStore>,
    relaxed: Arc<dyn ObjectStore>,
    /// The directory of the blobs, if they are files.
    pub(super) folder: Option<Arc<BlobFolder>>,
    /// The maximum length of an inline piece. At most the length of the shortest part: inline pieces wait in memory for
    /// their rows, and a large file has many parts.
    inline: usize,
    long_list: PartListCache,
    clock: Arc<dyn Clock>,
}

/// The verified list of parts that was last read from a blob. A very large file is read range by range, and its list of
/// parts should not be read again for each range.
#[derive(Debug, Default)]
struct PartListCache(Mutex<Option<(PieceAddress, Arc<[ContentPart]>)>>);

impl PartListCache {
    fn get(&self, address: PieceAddress) -> Option<Arc<[ContentPart]>> {
        let kept = self.0.lock().expect("no holder panics");
        kept.as_ref()
            .filter(|(kept, _)| *kept == address)
            .map(|(_, parts)| parts.clone())
    }

    fn remember(&self, address: PieceAddress, parts: &Arc<[ContentPart]>) {
        *self.0.lock().expect("no holder panics") = Some((address, parts.clone()));
    }
}

/// Content whose blobs are stored; the content store writes its rows later, in the transaction that uses it.
#[derive(Debug, Clone)]
pub struct PreparedContent {
    pub(crate) address: PieceAddress,
    pub(crate) size: u64,
    rows: Vec<PreparedPiece>,
}

impl PreparedContent {
    /// Returns the address of the content.
    pub fn address(&self) -> PieceAddress {
        self.address
    }

    /// Returns the bytes of the content.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns content that the depot has already, with its rows.
    pub(crate) fn already_stored(address: PieceAddress, size: u64) -> Self {
        let rows = Vec::new();
        Self { address, size, rows }
    }

    /// Returns whether the depot has the content already, with its rows.
    pub(crate) fn is_stored(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of bytes of the content that wait in memory for their rows.
    pub(crate) fn inline_bytes(&self) -> u64 {
        let inline = self
            .rows
            .iter()
            .filter(|row| matches!(row.place, PiecePlacement::Inline(_)));
        inline.map(|row| row.stored).sum()
    }

    /// Returns whether all of the content goes into the database, so that recording it touches no blob.
    pub(crate) fn is_inline(&self) -> bool {
        self.rows
            .iter()
            .all(|row| matches!(row.place, PiecePlacement::Inline(_)))
    }
}

#[derive(Debug, Clone)]
struct PreparedPiece {
    address: PieceAddress,
    is_list: bool,
    size: u64,
    stored: u64,
    place: PiecePlacement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PiecePlacement {
    /// The bytes go into the database.
    Inline(Vec<u8>),
    /// The blob was just written.
    Written { is_synced: bool },
    /// The database has a row of the blob, and the blob was verified: it is not written again.
    Reused,
}

impl ContentStore {
    /// Opens a store with its blobs in the directory `blobs`, which must exist.
    pub(crate) fn in_directory(blobs: &Path, inline: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let store = LocalFileSystem::new_with_prefix(blobs).map_err(blob_not_read)?;
        Ok(Self {
            synced: Arc::new(store.clone().with_fsync(true)),
            relaxed: Arc::new(store),
            folder: Some(Arc::new(BlobFolder::new(blobs))),
            inline: inline.min(SHORTEST),
            long_list: PartListCache::default(),
            clock,
        })
    }

    /// Creates a store in memory.
    pub(crate) fn in_memory(inline: usize, clock: Arc<dyn Clock>) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        Self {
            synced: store.clone(),
            relaxed: store,
            folder: None,
            inline: inline.min(SHORTEST),
            long_list: PartListCache::default(),
            clock,
        }
    }

    /// Stores the blobs of `content`, before the transaction that will refer to it. Content from a source is cut and
    /// stored while it is read.
    pub(crate) async fn prepare_content(
        &self,
        database: &MetadataDatabase,
        content: &Content,
        durability: Durability,
    ) -> Result<PreparedContent> {
        let is_relied_on = |address| database.read(|session| self.is_reusable(session, address));
        // Content that is in memory already gains nothing from being stored while it is read.
        if content.as_bytes().is_none() && content.len() > LONGEST as u64 {
            return self.store_source(content, &is_relied_on, durability).await;
        }
        let planned = plan_pieces(&[], &content.to_bytes()?, self.inline);
        self.store_plan(planned, &is_relied_on, durability).await
    }

    /// Returns the address of `content`, whether it is stored or not.
    pub(crate) fn address_of(&self, content: &Content) -> Result<PieceAddress> {
        if content.as_bytes().is_none() && content.len() > LONGEST as u64 {
            let parts = ContentPieceReader::from_content(content)?.map(|piece| piece.map(|piece| piece.as_part()));
            return Ok(ContentPiece::from_parts(&parts.collect::<Result<Vec<_>>>()?).address);
        }
        Ok(plan_pieces(&[], &content.to_bytes()?, self.inline).address)
    }

    /// Stores the blobs of small `content` inside the writer's transaction.
    pub(crate) fn prepare_in_transaction(
        &self,
        session: MetadataSession<'_>,
        content: &Bytes,
        durability: Durability,
    ) -> Result<PreparedContent> {
        let is_relied_on = |address| self.is_reusable(session, address);
        block_on(self.store_plan(plan_pieces(&[], content, self.inline), &is_relied_on, durability))
    }

    /// Stores the content at `address` followed by `added`; of the existing content, only the last part is stored
    /// again. Called inside the writer's transaction, since only there the content at the end of the file cannot
    /// change.
    pub(crate) fn append_content(
        &self,
        session: MetadataSession<'_>,
        address: PieceAddress,
        added: &Bytes,
        durability: Durability,
    ) -> Result<PreparedContent> {
        let row = |address| session.contents().content(address);
        let (before, last) = match block_on(self.read_piece(&row, address))? {
            DecodedPiece::Whole(bytes) => (Vec::new(), bytes),
            DecodedPiece::List(mut parts) => {
                let last = parts
                    .pop()
                    .ok_or_else(|| damaged_content("its list of parts is empty"))?;
                (parts, block_on(self.read_parts(&row, &[last], 0..last.size))?)
            }
        };
        let joined = join_bytes([last, added.clone()]);
        let is_relied_on = |address| self.is_reusable(session, address);
        block_on(self.store_plan(plan_pieces(&before, &joined, self.inline), &is_relied_on, durability))
    }

    /// Writes the rows of `prepared` in the transaction that refers to it, and re-dates the rows that exist already.
    pub(crate) fn record_content(&self, session: MetadataSession<'_>, prepared: &PreparedContent) -> Result<()> {
        self.record_numbered(session, prepared).map(|_| ())
    }

    /// Writes the rows of `prepared` in the transaction that refers to it, and re-dates the rows that exist already.
    /// Returns the row number of the piece at the content's own address, if its row was written.
    pub(crate) fn record_numbered(
        &self,
        session: MetadataSession<'_>,
        prepared: &PreparedContent,
    ) -> Result<Option<i64>> {
        let now = self.now();
        let mut number = None;
        for row in &prepared.rows {
            let data = match &row.place {
                PiecePlacement::Inline(data) => Some(data.as_slice()),
                _ => None,
            };
            // A sweep may have removed the row since, and the bytes are no longer in memory to write the blob again.
            if row.place == PiecePlacement::Reused && session.contents().content_touched(row.address)?.is_none() {
                return Err(swept_error());
            }
            let piece = StoredPiece {
                is_list: row.is_list,
                size: row.size,
                stored: row.stored,
                data,
            };
            number = Some(session.contents().put_content(row.address, &piece, now)?)
                .filter(|_| row.address == prepared.address);
            if let PiecePlacement::Written { is_synced } = row.place {
                // A sweep removes blobs inside a transaction of its own, so a blob that exists now stays.
                if !block_on(self.has_blob(row.address)) {
                    return Err(swept_error());
                }
                if is_synced {
                    session.contents().remove_unsynced(row.address)?;
                } else {
                    session.contents().add_unsynced(row.address)?;
                }
            }
        }
        Ok(number)
    }

    /// Re-dates content that a change refers to again. Returns whether the depot has it.
    pub(crate) fn refer_to_content(&self, session: MetadataSession<'_>, address: PieceAddress) -> Result<bool> {
        session.contents().touch_content(address, self.now())
    }

    /// Returns the verified bytes of `range` of the content at `address`. `first` is the row of that address. `size` is
    /// the size that the caller expects, and the range must be within it; content of another size is `corrupt`.
    pub(crate) async fn read_range(
        &self,
        database: &MetadataDatabase,
        address: PieceAddress,
        first: ContentRow,
        size: u64,
        range: Range<u64>,
    ) -> Result<Bytes> {
        let row = |address| database.read(|session| session.contents().content(address));
        let is_blob = first.data.is_none();
        // A list in the database came with its row, and needs no cache.
        if let Some(parts) = self.long_list.get(address).filter(|_| is_blob) {
            check_size(total_size(&parts), size)?;
            return self.read_parts(&row, &parts, range).await;
        }
        match decode_piece(self.read_encoded(address, first.data).await?, address, first.size)? {
            DecodedPiece::Whole(bytes) => {
                check_size(bytes.len() as u64, size)?;
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            DecodedPiece::List(parts) => {
                check_size(total_size(&parts), size)?;
                let parts: Arc<[ContentPart]> = parts.into();
                if is_blob {
                    self.long_list.remember(address, &parts);
                }
                self.read_parts(&row, &parts, range).await
            }
        }
    }

    async fn read_parts<R: FindContentRow>(&self, row: &R, parts: &[ContentPart], range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let found: Vec<_> =
            stream::iter(overlapping_parts(parts, range))
                .map(|(part, wanted)| async move {
                    Ok::<_, Error>((part, wanted, self.locate_piece(row, part.address).await?))
                })
                .buffered(AT_ONCE)
                .try_collect()
                .await?;
        let unpacked = |(part, wanted, found): (ContentPart, Range<usize>, LocatedPiece)| match found
            .read_decoded(part.address)?
        {
            DecodedPiece::Whole(bytes) if bytes.len() as u64 == part.size => Ok(bytes.slice(wanted)),
            _ => Err(damaged_content("one of its parts has the wrong size or kind")),
        };
        let bytes = join_bytes(run_in_parallel(found, unpacked).await?);
        if bytes.len() as u64 == length {
            Ok(bytes)
        } else {
            Err(damaged_content("its parts do not add up to its size"))
        }
    }

    async fn read_piece<R: FindContentRow>(&self, row: &R, address: PieceAddress) -> Result<DecodedPiece> {
        self.locate_piece(row, address).await?.read_decoded(address)
    }

    async fn locate_piece<R: FindContentRow>(&self, row: &R, address: PieceAddress) -> Result<LocatedPiece> {
        let row = row(address)?.ok_or_else(|| damaged_content("the content is missing from the home"))?;
        let place = match (row.data, &self.folder) {
            // The file is read later, by the thread that unpacks it.
            (None, Some(folder)) => PieceLocation::Folder(folder.clone()),
            (data, _) => PieceLocation::Memory(self.read_encoded(address, data).await?),
        };
        Ok(LocatedPiece { size: row.size, place })
    }

    pub(super) async fn read_encoded(&self, address: PieceAddress, inline: Option<Vec<u8>>) -> Result<Bytes> {
        match (inline, &self.folder) {
            (Some(data), _) => Ok(data.into()),
            (None, Some(folder)) => folder.read_blob(address),
            (None, None) => {
                let found = self.synced.get(&blob_path(address)).await.map_err(blob_not_read)?;
                found.bytes().await.map_err(blob_not_read)
            }
        }
    }

    /// Writes the blobs of a plan that the depot does not have yet.
    async fn store_plan<I: IsBlobReusable>(
        &self,
        planned: ContentPlan,
        is_relied_on: &I,
        durability: Durability,
    ) -> Result<PreparedContent> {
        // `buffered` keeps the order: the last row must be that of the content's own address (see `record_numbered`).
        let rows = stream::iter(planned.pieces)
            .map(|piece| self.store_piece(piece, is_relied_on, durability))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(PreparedContent {
            address: planned.address,
            size: planned.size,
            rows,
        })
    }

    /// Writes the blobs of a source while it is read. The source must be longer than one part.
    async fn store_source<I: IsBlobReusable>(
        &self,
        content: &Content,
        is_relied_on: &I,
        durability: Durability,
    ) -> Result<PreparedContent> {
        let mut parts = Vec::new();
        let mut met = HashSet::new();
        // A part that occurs twice in the file is stored once.
        let new = ContentPieceReader::from_content(content)?.filter_map(|piece| match piece {
            Ok(piece) => {
                parts.push(piece.as_part());
                met.insert(piece.address).then_some(Ok(piece))
            }
            Err(error) => Some(Err(error)),
        });
        let mut rows: Vec<_> = stream::iter(new)
            .map(|piece| async { self.store_piece(piece?, is_relied_on, durability).await })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let list = ContentPiece::from_parts(&parts);
        let (address, size) = (list.address, list.size);
        rows.push(self.store_piece(list, is_relied_on, durability).await?);
        Ok(PreparedContent { address, size, rows })
    }

    async fn store_piece<I: IsBlobReusable>(
        &self,
        piece: ContentPiece,
        is_relied_on: &I,
        durability: Durability,
    ) -> Result<PreparedPiece> {
        let (address, size, is_list) = (piece.address, piece.size, piece.is_list);
        let row = |stored: u64, place| PreparedPiece {
            address,
            is_list,
            size,
            stored,
            place,
        };
        if piece.is_inline(self.inline) {
            let encoded = piece.encoded_bytes();
            return Ok(row(encoded.len() as u64, PiecePlacement::Inline(encoded)));
        }
        if is_relied_on(address)? && self.has_sound_blob(address, size).await? {
            return Ok(row(0, PiecePlacement::Reused));
        }
        let encoded = run_blocking(move || Ok(piece.encoded_bytes())).await?;
        let stored = encoded.len() as u64;
        let is_synced = self.write_blob(address, encoded.into(), durability).await?;
        Ok(row(stored, PiecePlacement::Written { is_synced }))
    }

    /// Writes a blob; returns whether it is synced.
    async fn write_blob(&self, address: PieceAddress, encoded: PutPayload, durability: Durability) -> Result<bool> {
        let path = blob_path(address);
        if durability == Durability::Relaxed {
            match self
                .relaxed
                .put_opts(&path, encoded.clone(), PutMode::Create.into())
                .await
            {
                // A durable change may rely on the existing blob, so only a synced one may replace it.
                Err(object_store::Error::AlreadyExists { .. }) => {}
                written => return written.map(|_| false).map_err(blob_not_written),
            }
        }
        let written = self.synced.put(&path, encoded).await;
        written.map(|_| true).map_err(blob_not_written)
    }

    /// Returns whether a blob need not be written again: no sweep is about to remove it, and it is known to have
    /// reached the disk.
    fn is_reusable(&self, session: MetadataSession<'_>, address: PieceAddress) -> Result<bool> {
        let touched = session.contents().content_touched(address)?;
        let is_young = touched.is_some_and(|touched| self.now() - touched < RELIED_ON_MS);
        // A blob that a power failure may have damaged is written again.
        Ok(is_young && !session.contents().is_unsynced(address)?)
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    async fn has_blob(&self, address: PieceAddress) -> bool {
        match &self.folder {
            Some(folder) => folder.has_blob(address),
            None => self.synced.head(&blob_path(address)).await.is_ok(),
        }
    }

    /// Returns whether the blob of a piece of `size` bytes exists and is sound. A caller that has the bytes repairs a
    /// damaged blob by writing it again.
    async fn has_sound_blob(&self, address: PieceAddress, size: u64) -> Result<bool> {
        if self.folder.as_ref().is_some_and(|folder| folder.was_verified(address)) {
            return Ok(true);
        }
        let place = match &self.folder {
            Some(folder) => PieceLocation::Folder(folder.clone()),
            None => match self.read_encoded(address, None).await {
                Ok(encoded) => PieceLocation::Memory(encoded),
                Err(_) => return Ok(false),
            },
        };
        run_blocking(move || Ok(LocatedPiece { size, place }.read_decoded(address).is_ok())).await
    }

    /// Removes the blob at `address` and returns its size. Must be called inside a transaction in which the address has
    /// no row.
    pub(crate) fn remove_blob(&self, address: PieceAddress) -> Result<u64> {
        let path = blob_path(address);
        let Ok(found) = block_on(self.synced.head(&path)) else {
            return Ok(0);
        };
        block_on(self.synced.delete(&path)).map_err(blob_not_written)?;
        Ok(found.size)
    }

    /// Returns the blobs written before `before`, in milliseconds, each with its size.
    pub(crate) async fn old_blobs(&self, before: i64) -> Result<Vec<(PieceAddress, u64)>> {
        if let Some(folder) = self.folder.clone() {
            return run_blocking(move || folder.old_blobs(before)).await;
        }
        let mut blobs = self.synced.list(None);
        let mut old = Vec::new();
        while let Some(blob) = blobs.next().await {
            let blob = blob.map_err(blob_not_read)?;
            if blob.last_modified.timestamp_millis() < before {
                old.extend(blob_address(blob.location.as_ref()).map(|address| (address, blob.size)));
            }
        }
        Ok(old)
    }

    /// Returns the parts of the content at `address`; none if it is one piece.
    pub(crate) async fn list_parts(
        &self,
        database: &MetadataDatabase,
        address: PieceAddress,
    ) -> Result<Vec<PieceAddress>> {
        let row = |address| database.read(|session| session.contents().content(address));
        match self.read_piece(&row, address).await? {
            DecodedPiece::Whole(_) => Ok(Vec::new()),
            DecodedPiece::List(parts) => Ok(parts.into_iter().map(|part| part.address).collect()),
        }
    }

    /// Verifies a stored piece of content, and for a list, that its parts have rows of the right size. Returns the
    /// fault, if there is one.
    pub(crate) async fn verify_piece(
        &self,
        database: &MetadataDatabase,
        address: PieceAddress,
    ) -> Result<Option<Error>> {
        let row = |address| database.read(|session| session.contents().content(address));
        match self.read_piece(&row, address).await {
            Ok(DecodedPiece::Whole(_)) => Ok(None),
            Ok(DecodedPiece::List(parts)) => {
                let is_known =
                    |part: &ContentPart| row(part.address).map(|row| row.is_some_and(|row| row.size == part.size));
                let known = parts.iter().map(is_known).collect::<Result<Vec<_>>>()?;
                Ok(known
                    .contains(&false)
                    .then(|| damaged_content("one of its parts is missing or has another size")))
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }
}

/// A piece whose row was found; [`LocatedPiece::read_decoded`] unpacks and verifies it.
#[derive(Debug)]
struct LocatedPiece {
    size: u64,
    place: PieceLocation,
}

#[derive(Debug)]
enum PieceLocation {
    Memory(Bytes),
    /// A file of this directory, which is not read yet.
    Folder(Arc<BlobFolder>),
}

impl LocatedPiece {
    fn read_decoded(self, address: PieceAddress) -> Result<DecodedPiece> {
        match self.place {
            PieceLocation::Memory(encoded) => decode_piece(encoded, address, self.size),
            PieceLocation::Folder(folder) => {
                let decoded = decode_piece(folder.read_blob(address)?, address, self.size)?;
                folder.note_verified(address);
                Ok(decoded)
            }
        }
    }
}

/// A function that finds the row of an address, in a read transaction of its own or inside the writer's transaction.
trait FindContentRow: Fn(PieceAddress) -> Result<Option<ContentRow>> {}
impl<F: Fn(PieceAddress) -> Result<Option<ContentRow>>> FindContentRow for F {}

/// A function that returns whether a blob need not be written again.
trait IsBlobReusable: Fn(PieceAddress) -> Result<bool> {}
impl<F: Fn(PieceAddress) -> Result<bool>> IsBlobReusable for F {}

pub(super) fn blob_path(address: PieceAddress) -> object_store::path::Path {
    let hex = address.to_hex();
    object_store::path::Path::from(format!("{}/{}", &hex[..2], &hex[2..]))
}

/// Returns the address of the blob at `path`; `None` for a file that is no blob.
fn blob_address(path: &str) -> Option<PieceAddress> {
    let (folder, name) = path.split_once('/')?;
    PieceAddress::from_hex(&format!("{folder}{name}"))
}

fn swept_error() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "stored content was collected as garbage during the operation",
    )
    .hint("nothing was changed; try again")
}

fn join_bytes(slices: impl IntoIterator<Item = Bytes>) -> Bytes {
    let mut slices = slices.into_iter();
    let first = slices.next().unwrap_or_default();
    let mut rest = slices.peekable();
    if rest.peek().is_none() {
        return first;
    }
    let mut whole = BytesMut::from(first);
    rest.for_each(|slice| whole.extend_from_slice(&slice));
    whole.freeze()
}

fn total_size(parts: &[ContentPart]) -> u64 {
    // Saturating: the sizes come from a stored list, which may be damaged.
    parts.iter().map(|part| part.size).fold(0, u64::saturating_add)
}

/// Checks that the size of the content is the one recorded in the tree.
fn check_size(found: u64, said: u64) -> Result<()> {
    if found == said {
        Ok(())
    } else {
        Err(damaged_content(&format!(
            "it has {found} bytes, but {said} bytes are recorded"
        )))
    }
}

/// Returns the parts that `range` overlaps, each with the overlapping range within the part.
fn overlapping_parts(parts: &[ContentPart], range: Range<u64>) -> Vec<(ContentPart, Range<usize>)> {
    let mut start = 0;
    let mut wanted = Vec::new();
    for part in parts.iter().copied() {
        let end = start + part.size;
        let (from, to) = (range.start.max(start), range.end.min(end));
        if from < to {
            wanted.push((part, (from - start) as usize..(to - start) as usize));
        }
        start = end;
    }
    wanted
}

#[cfg(test)]
mod tests {
    use garret_core::SystemClock;

    use super::*;

    #[test]
    fn parts_that_are_fewer_than_what_is_asked_for_are_damage() {
        let store = ContentStore::in_memory(1024, Arc::new(SystemClock::default()));
        let row = |_| Ok(None);
        assert_eq!(block_on(store.read_parts(&row, &[], 0..0)).unwrap(), "");
        let failure = block_on(store.read_parts(&row, &[], 0..1)).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Corrupt);
    }
}
