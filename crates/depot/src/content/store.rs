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

use super::Address;
use super::apart::{apart, side_by_side};
use super::cut::{LONGEST, SHORTEST};
use super::encoding::{Decoded, Part, decode};
use super::folder::Folder;
use super::pieces::Pieces;
use super::plan::{Piece, Plan, plan};
use crate::error::{blob_not_read, blob_not_written, damaged};
use crate::metadata::{ContentRow, Database, Session, StoredPiece};
use garret_core::Durability;

pub(crate) use transfer::PlainPiece;

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
    pub(super) folder: Option<Arc<Folder>>,
    /// The maximum length of an inline piece. At most the length of the shortest part: inline pieces wait in memory for
    /// their rows, and a large file has many parts.
    inline: usize,
    long_list: LongList,
    clock: Arc<dyn Clock>,
}

/// The verified list of parts that was last read from a blob. A very large file is read range by range, and its list of
/// parts should not be read again for each range.
#[derive(Debug, Default)]
struct LongList(Mutex<Option<(Address, Arc<[Part]>)>>);

impl LongList {
    fn get(&self, address: Address) -> Option<Arc<[Part]>> {
        let kept = self.0.lock().expect("no holder panics");
        kept.as_ref()
            .filter(|(kept, _)| *kept == address)
            .map(|(_, parts)| parts.clone())
    }

    fn keep(&self, address: Address, parts: &Arc<[Part]>) {
        *self.0.lock().expect("no holder panics") = Some((address, parts.clone()));
    }
}

/// Content whose blobs are stored; [`ContentStore::record`] writes its rows.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) address: Address,
    pub(crate) size: u64,
    rows: Vec<PieceRow>,
}

impl Prepared {
    /// Returns content that the depot has already, with its rows.
    pub(crate) fn stored(address: Address, size: u64) -> Self {
        let rows = Vec::new();
        Self { address, size, rows }
    }

    /// Returns whether the depot has the content already, with its rows.
    pub(crate) fn is_stored(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of bytes of the content that wait in memory for their rows.
    pub(crate) fn inline_bytes(&self) -> u64 {
        let inline = self.rows.iter().filter(|row| matches!(row.place, Place::Inline(_)));
        inline.map(|row| row.stored).sum()
    }

    /// Returns whether all of the content goes into the database, so that recording it touches no blob.
    pub(crate) fn is_inline(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.place, Place::Inline(_)))
    }
}

#[derive(Debug, Clone)]
struct PieceRow {
    address: Address,
    is_list: bool,
    size: u64,
    stored: u64,
    place: Place,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// The bytes go into the database.
    Inline(Vec<u8>),
    /// The blob was just written.
    Written { is_synced: bool },
    /// The database has a row of the blob, and the blob was verified: it is not written again.
    ReliedOn,
}

impl ContentStore {
    /// Opens a store with its blobs in the directory `blobs`, which must exist.
    pub(crate) fn in_directory(blobs: &Path, inline: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let store = LocalFileSystem::new_with_prefix(blobs).map_err(blob_not_read)?;
        Ok(Self {
            synced: Arc::new(store.clone().with_fsync(true)),
            relaxed: Arc::new(store),
            folder: Some(Arc::new(Folder::at(blobs))),
            inline: inline.min(SHORTEST),
            long_list: LongList::default(),
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
            long_list: LongList::default(),
            clock,
        }
    }

    /// Stores the blobs of `content`, before the transaction that will refer to it. Content from a source is cut and
    /// stored while it is read.
    pub(crate) async fn prepare(
        &self,
        database: &Database,
        content: &Content,
        durability: Durability,
    ) -> Result<Prepared> {
        let is_relied_on = |address| database.read(|session| self.is_relied_on(session, address));
        // Content that is in memory already gains nothing from being stored while it is read.
        if content.as_bytes().is_none() && content.len() > LONGEST as u64 {
            return self.place_source(content, &is_relied_on, durability).await;
        }
        let planned = plan(&[], &content.to_bytes()?, self.inline);
        self.place(planned, &is_relied_on, durability).await
    }

    /// Returns the address of `content`, whether it is stored or not.
    pub(crate) fn address_of(&self, content: &Content) -> Result<Address> {
        if content.as_bytes().is_none() && content.len() > LONGEST as u64 {
            let parts = Pieces::of(content)?.map(|piece| piece.map(|piece| piece.as_part()));
            return Ok(Piece::list(&parts.collect::<Result<Vec<_>>>()?).address);
        }
        Ok(plan(&[], &content.to_bytes()?, self.inline).address)
    }

    /// Stores the blobs of small `content` inside the writer's transaction.
    pub(crate) fn prepare_in(&self, session: Session<'_>, content: &Bytes, durability: Durability) -> Result<Prepared> {
        let is_relied_on = |address| self.is_relied_on(session, address);
        block_on(self.place(plan(&[], content, self.inline), &is_relied_on, durability))
    }

    /// Stores the content at `address` followed by `added`; of the existing content, only the last part is stored
    /// again. Called inside the writer's transaction, since only there the content at the end of the file cannot
    /// change.
    pub(crate) fn append(
        &self,
        session: Session<'_>,
        address: Address,
        added: &Bytes,
        durability: Durability,
    ) -> Result<Prepared> {
        let row = |address| session.content(address);
        let (before, last) = match block_on(self.decoded(&row, address))? {
            Decoded::Whole(bytes) => (Vec::new(), bytes),
            Decoded::List(mut parts) => {
                let last = parts.pop().ok_or_else(|| damaged("its list of parts is empty"))?;
                (parts, block_on(self.read_parts(&row, &[last], 0..last.size))?)
            }
        };
        let joined = joined([last, added.clone()]);
        let is_relied_on = |address| self.is_relied_on(session, address);
        block_on(self.place(plan(&before, &joined, self.inline), &is_relied_on, durability))
    }

    /// Writes the rows of `prepared` in the transaction that refers to it, and re-dates the rows that exist already.
    pub(crate) fn record(&self, session: Session<'_>, prepared: &Prepared) -> Result<()> {
        self.record_numbered(session, prepared).map(|_| ())
    }

    /// Writes the rows of `prepared` in the transaction that refers to it, and re-dates the rows that exist already.
    /// Returns the row number of the piece at the content's own address, if its row was written.
    pub(crate) fn record_numbered(&self, session: Session<'_>, prepared: &Prepared) -> Result<Option<i64>> {
        let now = self.now();
        let mut number = None;
        for row in &prepared.rows {
            let data = match &row.place {
                Place::Inline(data) => Some(data.as_slice()),
                _ => None,
            };
            // A sweep may have removed the row since, and the bytes are no longer in memory to write the blob again.
            if row.place == Place::ReliedOn && session.content_touched(row.address)?.is_none() {
                return Err(swept());
            }
            let piece = StoredPiece {
                is_list: row.is_list,
                size: row.size,
                stored: row.stored,
                data,
            };
            number = Some(session.put_content(row.address, &piece, now)?).filter(|_| row.address == prepared.address);
            if let Place::Written { is_synced } = row.place {
                // A sweep removes blobs inside a transaction of its own, so a blob that exists now stays.
                if !block_on(self.has_blob(row.address)) {
                    return Err(swept());
                }
                if is_synced {
                    session.remove_unsynced(row.address)?;
                } else {
                    session.add_unsynced(row.address)?;
                }
            }
        }
        Ok(number)
    }

    /// Re-dates content that a change refers to again. Returns whether the depot has it.
    pub(crate) fn refer(&self, session: Session<'_>, address: Address) -> Result<bool> {
        session.touch_content(address, self.now())
    }

    /// Returns the verified bytes of `range` of the content at `address`. `first` is the row of that address. `size` is
    /// the size that the caller expects, and the range must be within it; content of another size is `corrupt`.
    pub(crate) async fn read(
        &self,
        database: &Database,
        address: Address,
        first: ContentRow,
        size: u64,
        range: Range<u64>,
    ) -> Result<Bytes> {
        let row = |address| database.read(|session| session.content(address));
        let is_blob = first.data.is_none();
        // A list in the database came with its row, and needs no cache.
        if let Some(parts) = self.long_list.get(address).filter(|_| is_blob) {
            check_size(size_of(&parts), size)?;
            return self.read_parts(&row, &parts, range).await;
        }
        match decode(self.encoded(address, first.data).await?, address, first.size)? {
            Decoded::Whole(bytes) => {
                check_size(bytes.len() as u64, size)?;
                Ok(bytes.slice(range.start as usize..range.end as usize))
            }
            Decoded::List(parts) => {
                check_size(size_of(&parts), size)?;
                let parts: Arc<[Part]> = parts.into();
                if is_blob {
                    self.long_list.keep(address, &parts);
                }
                self.read_parts(&row, &parts, range).await
            }
        }
    }

    async fn read_parts<R: RowOf>(&self, row: &R, parts: &[Part], range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let found: Vec<_> = stream::iter(overlapping(parts, range))
            .map(|(part, wanted)| async move { Ok::<_, Error>((part, wanted, self.found(row, part.address).await?)) })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let unpacked = |(part, wanted, found): (Part, Range<usize>, Found)| match found.decoded(part.address)? {
            Decoded::Whole(bytes) if bytes.len() as u64 == part.size => Ok(bytes.slice(wanted)),
            _ => Err(damaged("one of its parts has the wrong size or kind")),
        };
        let bytes = joined(side_by_side(found, unpacked).await?);
        if bytes.len() as u64 == length {
            Ok(bytes)
        } else {
            Err(damaged("its parts do not add up to its size"))
        }
    }

    async fn decoded<R: RowOf>(&self, row: &R, address: Address) -> Result<Decoded> {
        self.found(row, address).await?.decoded(address)
    }

    async fn found<R: RowOf>(&self, row: &R, address: Address) -> Result<Found> {
        let row = row(address)?.ok_or_else(|| damaged("the content is missing from the home"))?;
        let place = match (row.data, &self.folder) {
            // The file is read later, by the thread that unpacks it.
            (None, Some(folder)) => FoundIn::Folder(folder.clone()),
            (data, _) => FoundIn::Memory(self.encoded(address, data).await?),
        };
        Ok(Found { size: row.size, place })
    }

    pub(super) async fn encoded(&self, address: Address, inline: Option<Vec<u8>>) -> Result<Bytes> {
        match (inline, &self.folder) {
            (Some(data), _) => Ok(data.into()),
            (None, Some(folder)) => folder.read(address),
            (None, None) => {
                let found = self.synced.get(&blob_path(address)).await.map_err(blob_not_read)?;
                found.bytes().await.map_err(blob_not_read)
            }
        }
    }

    /// Writes the blobs of a plan that the depot does not have yet.
    async fn place<I: IsReliedOn>(&self, planned: Plan, is_relied_on: &I, durability: Durability) -> Result<Prepared> {
        // `buffered` keeps the order: the last row must be that of the content's own address (see `record_numbered`).
        let rows = stream::iter(planned.pieces)
            .map(|piece| self.place_piece(piece, is_relied_on, durability))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(Prepared {
            address: planned.address,
            size: planned.size,
            rows,
        })
    }

    /// Writes the blobs of a source while it is read. The source must be longer than one part.
    async fn place_source<I: IsReliedOn>(
        &self,
        content: &Content,
        is_relied_on: &I,
        durability: Durability,
    ) -> Result<Prepared> {
        let mut parts = Vec::new();
        let mut met = HashSet::new();
        // A part that occurs twice in the file is stored once.
        let new = Pieces::of(content)?.filter_map(|piece| match piece {
            Ok(piece) => {
                parts.push(piece.as_part());
                met.insert(piece.address).then_some(Ok(piece))
            }
            Err(error) => Some(Err(error)),
        });
        let mut rows: Vec<_> = stream::iter(new)
            .map(|piece| async { self.place_piece(piece?, is_relied_on, durability).await })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let list = Piece::list(&parts);
        let (address, size) = (list.address, list.size);
        rows.push(self.place_piece(list, is_relied_on, durability).await?);
        Ok(Prepared { address, size, rows })
    }

    async fn place_piece<I: IsReliedOn>(
        &self,
        piece: Piece,
        is_relied_on: &I,
        durability: Durability,
    ) -> Result<PieceRow> {
        let (address, size, is_list) = (piece.address, piece.size, piece.is_list);
        let row = |stored: u64, place| PieceRow {
            address,
            is_list,
            size,
            stored,
            place,
        };
        if piece.is_inline(self.inline) {
            let encoded = piece.encoded();
            return Ok(row(encoded.len() as u64, Place::Inline(encoded)));
        }
        if is_relied_on(address)? && self.has_whole_blob(address, size).await? {
            return Ok(row(0, Place::ReliedOn));
        }
        let encoded = apart(move || piece.encoded()).await?;
        let stored = encoded.len() as u64;
        let is_synced = self.put(address, encoded.into(), durability).await?;
        Ok(row(stored, Place::Written { is_synced }))
    }

    /// Writes a blob; returns whether it is synced.
    async fn put(&self, address: Address, encoded: PutPayload, durability: Durability) -> Result<bool> {
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
    fn is_relied_on(&self, session: Session<'_>, address: Address) -> Result<bool> {
        let touched = session.content_touched(address)?;
        let is_young = touched.is_some_and(|touched| self.now() - touched < RELIED_ON_MS);
        // A blob that a power failure may have damaged is written again.
        Ok(is_young && !session.is_unsynced(address)?)
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    async fn has_blob(&self, address: Address) -> bool {
        match &self.folder {
            Some(folder) => folder.has(address),
            None => self.synced.head(&blob_path(address)).await.is_ok(),
        }
    }

    /// Returns whether the blob of a piece of `size` bytes exists and is sound. A caller that has the bytes repairs a
    /// damaged blob by writing it again.
    async fn has_whole_blob(&self, address: Address, size: u64) -> Result<bool> {
        if self.folder.as_ref().is_some_and(|folder| folder.was_whole(address)) {
            return Ok(true);
        }
        let place = match &self.folder {
            Some(folder) => FoundIn::Folder(folder.clone()),
            None => match self.encoded(address, None).await {
                Ok(encoded) => FoundIn::Memory(encoded),
                Err(_) => return Ok(false),
            },
        };
        apart(move || Found { size, place }.decoded(address).is_ok()).await
    }

    /// Removes the blob at `address` and returns its size. Must be called inside a transaction in which the address has
    /// no row.
    pub(crate) fn remove_blob(&self, address: Address) -> Result<u64> {
        let path = blob_path(address);
        let Ok(found) = block_on(self.synced.head(&path)) else {
            return Ok(0);
        };
        block_on(self.synced.delete(&path)).map_err(blob_not_written)?;
        Ok(found.size)
    }

    /// Returns the blobs written before `before`, in milliseconds, each with its size.
    pub(crate) async fn old_blobs(&self, before: i64) -> Result<Vec<(Address, u64)>> {
        if let Some(folder) = self.folder.clone() {
            return apart(move || folder.old_blobs(before)).await?;
        }
        let mut blobs = self.synced.list(None);
        let mut old = Vec::new();
        while let Some(blob) = blobs.next().await {
            let blob = blob.map_err(blob_not_read)?;
            if blob.last_modified.timestamp_millis() < before {
                old.extend(address_of(blob.location.as_ref()).map(|address| (address, blob.size)));
            }
        }
        Ok(old)
    }

    /// Returns the parts of the content at `address`; none if it is one piece.
    pub(crate) async fn parts(&self, database: &Database, address: Address) -> Result<Vec<Address>> {
        let row = |address| database.read(|session| session.content(address));
        match self.decoded(&row, address).await? {
            Decoded::Whole(_) => Ok(Vec::new()),
            Decoded::List(parts) => Ok(parts.into_iter().map(|part| part.address).collect()),
        }
    }

    /// Verifies a stored piece of content, and for a list, that its parts have rows of the right size. Returns the
    /// fault, if there is one.
    pub(crate) async fn verify(&self, database: &Database, address: Address) -> Result<Option<Error>> {
        let row = |address| database.read(|session| session.content(address));
        match self.decoded(&row, address).await {
            Ok(Decoded::Whole(_)) => Ok(None),
            Ok(Decoded::List(parts)) => {
                let is_known = |part: &Part| row(part.address).map(|row| row.is_some_and(|row| row.size == part.size));
                let known = parts.iter().map(is_known).collect::<Result<Vec<_>>>()?;
                Ok(known
                    .contains(&false)
                    .then(|| damaged("one of its parts is missing or has another size")))
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }
}

/// A piece whose row was found; [`Found::decoded`] unpacks and verifies it.
#[derive(Debug)]
struct Found {
    size: u64,
    place: FoundIn,
}

#[derive(Debug)]
enum FoundIn {
    Memory(Bytes),
    /// A file of this directory, which is not read yet.
    Folder(Arc<Folder>),
}

impl Found {
    fn decoded(self, address: Address) -> Result<Decoded> {
        match self.place {
            FoundIn::Memory(encoded) => decode(encoded, address, self.size),
            FoundIn::Folder(folder) => {
                let decoded = decode(folder.read(address)?, address, self.size)?;
                folder.note_whole(address);
                Ok(decoded)
            }
        }
    }
}

/// A function that finds the row of an address, in a read transaction of its own or inside the writer's transaction.
trait RowOf: Fn(Address) -> Result<Option<ContentRow>> {}
impl<F: Fn(Address) -> Result<Option<ContentRow>>> RowOf for F {}

/// A function that returns whether a blob need not be written again.
trait IsReliedOn: Fn(Address) -> Result<bool> {}
impl<F: Fn(Address) -> Result<bool>> IsReliedOn for F {}

pub(super) fn blob_path(address: Address) -> object_store::path::Path {
    let hex = address.to_hex();
    object_store::path::Path::from(format!("{}/{}", &hex[..2], &hex[2..]))
}

/// Returns the address of the blob at `path`; `None` for a file that is no blob.
fn address_of(path: &str) -> Option<Address> {
    let (folder, name) = path.split_once('/')?;
    Address::from_hex(&format!("{folder}{name}"))
}

fn swept() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "stored content was collected as garbage during the operation",
    )
    .hint("nothing was changed; try again")
}

fn joined(slices: impl IntoIterator<Item = Bytes>) -> Bytes {
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

fn size_of(parts: &[Part]) -> u64 {
    // Saturating: the sizes come from a stored list, which may be damaged.
    parts.iter().map(|part| part.size).fold(0, u64::saturating_add)
}

/// Checks that the size of the content is the one recorded in the tree.
fn check_size(found: u64, said: u64) -> Result<()> {
    if found == said {
        Ok(())
    } else {
        Err(damaged(&format!("it has {found} bytes, but {said} bytes are recorded")))
    }
}

/// Returns the parts that `range` overlaps, each with the overlapping range within the part.
fn overlapping(parts: &[Part], range: Range<u64>) -> Vec<(Part, Range<usize>)> {
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
