//! Encodes and decodes the fields of a log record: numbers are little-endian, everything else has its length before it.

use bytes::Bytes;
use garret_core::Result;

use crate::error::damaged_content;

/// Collects the bytes of a record.
#[derive(Debug, Default)]
pub(super) struct RecordSink(pub(super) Vec<u8>);

impl RecordSink {
    pub(super) fn put_byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn put_flag(&mut self, flag: bool) {
        self.put_byte(u8::from(flag));
    }

    pub(super) fn put_number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn put_text(&mut self, text: &str) {
        self.put_bytes(text.as_bytes());
    }

    /// Writes a flag for presence, then the value if there is one.
    pub(super) fn put_optional<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.put_flag(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    /// Writes the number of values, then each of them.
    pub(super) fn put_each<T>(&mut self, values: impl ExactSizeIterator<Item = T>, mut put: impl FnMut(&mut Self, T)) {
        self.put_number(values.len() as u64);
        values.for_each(|value| put(self, value));
    }
}

/// Reads the fields of a record. A field that does not fit is damage: the checksum matched, so no crash cut the record
/// off.
#[derive(Debug)]
pub(super) struct RecordSource {
    rest: Bytes,
}

impl RecordSource {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    fn split_bytes(&mut self, count: usize) -> Result<Bytes> {
        if count > self.rest.len() {
            return Err(damaged_content("a record of the journal is truncated"));
        }
        Ok(self.rest.split_to(count))
    }

    pub(super) fn take_byte(&mut self) -> Result<u8> {
        Ok(self.split_bytes(1)?[0])
    }

    pub(super) fn take_flag(&mut self) -> Result<bool> {
        Ok(self.take_byte()? != 0)
    }

    pub(super) fn take_number(&mut self) -> Result<u64> {
        let taken = self.split_bytes(8)?;
        let bytes: [u8; 8] = taken.as_ref().try_into().expect("eight were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn take_bytes(&mut self) -> Result<Bytes> {
        let count = usize::try_from(self.take_number()?).map_err(|_| invalid_record())?;
        self.split_bytes(count)
    }

    pub(super) fn take_text(&mut self) -> Result<String> {
        String::from_utf8(self.take_bytes()?.to_vec()).map_err(|_| invalid_record())
    }

    pub(super) fn take_optional<T>(&mut self, take: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.take_flag()? {
            take(self).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn take_each<T>(&mut self, mut take: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.take_number()?;
        (0..count).map(|_| take(self)).collect()
    }
}

/// Returns the error for a record with a value that this program does not know.
pub(super) fn invalid_record() -> garret_core::Error {
    damaged_content("a record of the journal is not valid")
}
