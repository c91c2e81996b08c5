//! The rows of content, with the bytes of small content.

use std::ops::RangeInclusive;

use garret_core::Result;
use rusqlite::params;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use super::MetadataSession;
use crate::content::{ContentStore, PieceAddress};
use crate::error;

/// The row of a piece of content, with its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ContentRow {
    /// The number of content bytes.
    pub(crate) size: u64,
    /// The encoded bytes; `None` if the blob store has them.
    pub(crate) data: Option<Vec<u8>>,
}

/// A piece of content to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredPiece<'a> {
    /// Whether the piece is the list of a larger content's parts.
    pub(crate) is_list: bool,
    /// The number of content bytes.
    pub(crate) size: u64,
    /// The number of stored bytes; 0 if the blob store has them already.
    pub(crate) stored: u64,
    /// The encoded bytes; `None` if the blob store has them.
    pub(crate) data: Option<&'a [u8]>,
}

/// The row of a piece of content, without its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceRow {
    /// Whether the piece is the list of a larger content's parts.
    pub(crate) is_list: bool,
    /// The number of stored bytes.
    pub(crate) stored: u64,
    /// Whether the blob store holds it.
    pub(crate) is_blob: bool,
    /// The time when a change last referred to it, in milliseconds.
    pub(crate) touched: i64,
}

/// The stored pieces of content, and the blobs that are not synced yet.
#[derive(Clone, Copy)]
pub(crate) struct ContentTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl ContentTable<'_> {
    /// Returns the row of the piece at `address`, without its bytes.
    pub(crate) fn content_piece(self, address: PieceAddress) -> Result<Option<PieceRow>> {
        let sql = "SELECT list, stored, data IS NULL, touched FROM content WHERE hash = ?1";
        self.session.query_first(sql, [address], |row| {
            Ok(PieceRow {
                is_list: row.get(0)?,
                stored: row.get::<_, i64>(1)?.unsigned_abs(),
                is_blob: row.get(2)?,
                touched: row.get(3)?,
            })
        })
    }

    /// Returns the row of the piece at `address`, with its bytes.
    pub(crate) fn content(self, address: PieceAddress) -> Result<Option<ContentRow>> {
        self.session
            .query_first("SELECT size, data FROM content WHERE hash = ?1", [address], |row| {
                Ok(ContentRow {
                    size: row.get::<_, i64>(0)?.unsigned_abs(),
                    data: row.get(1)?,
                })
            })
    }

    /// Returns the first piece whose address lies in `range`, with its bytes.
    pub(crate) fn content_within(
        self,
        range: &RangeInclusive<PieceAddress>,
    ) -> Result<Option<(PieceAddress, ContentRow)>> {
        let sql = "SELECT hash, size, data FROM content WHERE hash BETWEEN ?1 AND ?2 LIMIT 1";
        self.session.query_first(sql, [range.start(), range.end()], |row| {
            let content = ContentRow {
                size: row.get::<_, i64>(1)?.unsigned_abs(),
                data: row.get(2)?,
            };
            Ok((row.get(0)?, content))
        })
    }

    /// Returns the time when a change last referred to `address`; `None` if the depot has no row of it.
    pub(crate) fn content_touched(self, address: PieceAddress) -> Result<Option<i64>> {
        self.session
            .query_first("SELECT touched FROM content WHERE hash = ?1", [address], |row| {
                row.get(0)
            })
    }

    /// Returns the number of bytes of the content at `address`; `None` if the depot has no row of it.
    pub(crate) fn content_size(self, address: PieceAddress) -> Result<Option<u64>> {
        self.session
            .query_first("SELECT size FROM content WHERE hash = ?1", [address], |row| {
                row.get::<_, i64>(0).map(i64::unsigned_abs)
            })
    }

    /// Returns the first `limit` addresses after `after`, in order.
    pub(crate) fn addresses_after(self, after: Option<PieceAddress>, limit: usize) -> Result<Vec<PieceAddress>> {
        let after = after.map(|address| address.0.to_vec()).unwrap_or_default();
        let sql = "SELECT hash FROM content WHERE hash > ?1 ORDER BY hash LIMIT ?2";
        self.session
            .query_all(sql, params![after, limit as i64], |row| row.get(0))
    }

    /// Adds the row of a piece, or re-dates an existing one; returns its number. The existing row may be damaged, so
    /// the fields of `piece` replace its fields, and bytes in `piece` replace its bytes.
    pub(crate) fn put_content(self, address: PieceAddress, piece: &StoredPiece<'_>, touched: i64) -> Result<i64> {
        let row = params![
            address,
            piece.is_list,
            piece.size as i64,
            piece.stored as i64,
            touched,
            piece.data
        ];
        let added = self.session.execute(
            "INSERT OR IGNORE INTO content (hash, list, size, stored, touched, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            row,
        )?;
        if added > 0 {
            return Ok(self.session.connection.last_insert_rowid());
        }
        let sql =
            "UPDATE content SET list = ?2, size = ?3, stored = iif(?4 > 0, ?4, stored), touched = max(touched, ?5),
                   data = coalesce(?6, data) WHERE hash = ?1 RETURNING number, data IS NOT NULL";
        let found = self
            .session
            .query_first(sql, row, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (number, is_inline): (i64, bool) =
            found.ok_or_else(|| error::damaged_content("the content cannot be recorded"))?;
        if is_inline && piece.data.is_none() {
            self.drop_damaged_data(address)?;
        }
        Ok(number)
    }

    /// Removes the bytes that the database has of a piece whose blob is stored, unless they are sound.
    fn drop_damaged_data(self, address: PieceAddress) -> Result<()> {
        let data = self.content(address)?.and_then(|row| row.data);
        if data.is_some_and(|data| ContentStore::inspect_inline(data, address).is_none()) {
            self.session
                .execute("UPDATE content SET data = NULL WHERE hash = ?1", [address])?;
        }
        Ok(())
    }

    /// Re-dates content; returns whether the depot has it.
    pub(crate) fn touch_content(self, address: PieceAddress, touched: i64) -> Result<bool> {
        let sql = "UPDATE content SET touched = max(touched, ?2) WHERE hash = ?1";
        self.session
            .execute(sql, params![address, touched])
            .map(|count| count > 0)
    }

    /// Returns the addresses of all lists of parts.
    pub(crate) fn part_lists(self) -> Result<Vec<PieceAddress>> {
        self.session.query_all(
            "SELECT hash FROM content INDEXED BY content_list WHERE list = 1",
            [],
            |row| row.get(0),
        )
    }

    /// Returns every address that an entry refers to, at any point, in any workspace except those of `without`.
    pub(crate) fn referenced_addresses(self, without: &[i64]) -> Result<Vec<PieceAddress>> {
        let without = format!("{without:?}");
        self.session.query_all(
            "SELECT DISTINCT hash FROM entry
             WHERE hash IS NOT NULL AND workspace NOT IN (SELECT value FROM json_each(?1))",
            [without],
            |row| row.get(0),
        )
    }

    /// Removes the content at `address`, unless a change referred to it since `before`. Returns whether it was removed.
    pub(crate) fn remove_content(self, address: PieceAddress, before: i64) -> Result<bool> {
        let sql = "DELETE FROM content WHERE hash = ?1 AND touched < ?2";
        let removed = self.session.execute(sql, params![address, before])? > 0;
        if removed {
            self.remove_unsynced(address)?;
        }
        Ok(removed)
    }

    /// Sets whether removed data is overwritten with zeros, which costs a write of each page that it was on.
    pub(crate) fn set_overwrite_removed(self, is_wanted: bool) -> Result<()> {
        let word = if is_wanted { "ON" } else { "OFF" };
        self.session
            .connection
            .pragma_update_and_check(None, "secure_delete", word, |_| Ok(()))
            .map_err(error::from_database)
    }

    /// Lists a blob as not yet synced.
    pub(crate) fn add_unsynced(self, address: PieceAddress) -> Result<()> {
        self.session
            .execute("INSERT OR IGNORE INTO unsynced (hash) VALUES (?1)", [address])
            .map(|_| ())
    }

    /// Returns whether a blob may not have reached the disk.
    pub(crate) fn is_unsynced(self, address: PieceAddress) -> Result<bool> {
        let found = self
            .session
            .query_first("SELECT 1 FROM unsynced WHERE hash = ?1", [address], |_| Ok(()))?;
        Ok(found.is_some())
    }

    /// Returns the blobs not yet synced.
    pub(crate) fn unsynced_blobs(self) -> Result<Vec<PieceAddress>> {
        self.session
            .query_all("SELECT hash FROM unsynced ORDER BY hash", [], |row| row.get(0))
    }

    /// Removes a blob from the list of unsynced blobs.
    pub(crate) fn remove_unsynced(self, address: PieceAddress) -> Result<()> {
        self.session
            .execute("DELETE FROM unsynced WHERE hash = ?1", [address])
            .map(|_| ())
    }
}

impl ToSql for PieceAddress {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for PieceAddress {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        bytes.try_into().map(Self).map_err(|_| FromSqlError::InvalidType)
    }
}
