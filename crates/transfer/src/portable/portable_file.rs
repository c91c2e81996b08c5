//! Reads and writes the entries of a portable file, and the checksums that show whether it is complete.

use std::io::{Read, Write};

use garret_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::error::export_not_written;

pub(super) const FORMAT: &str = "garret-workspace";
pub(super) const VERSION: u64 = 1;
/// The largest entry: a piece of content is at most one part of a file, and a list of this size describes a file of 100
/// GiB.
const LARGEST: u64 = 64 << 20;
const LEVEL: i32 = 3;
/// The most bytes that a writer of archives adds after the end.
const PADDING: u64 = 1 << 20;

/// The manifest of a portable file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub(super) format: String,
    pub(super) version: u64,
    /// The name that the workspace had.
    pub name: Option<String>,
    /// The number of its newest change.
    pub head: i64,
    /// The number of the oldest state that is kept.
    pub oldest: i64,
    /// The time of that state, in microseconds since 1970.
    pub oldest_at: i64,
    /// Whether it contains the journal, or only the files at one point.
    pub has_history: bool,
}

/// The totals at the end of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) records: u64,
    pub(super) pieces: u64,
    pub(super) bytes: u64,
    pub(super) blake3: String,
}

/// A portable file being written.
pub(super) struct PortableFileWriter<W: Write> {
    archive: tar::Builder<zstd::stream::write::Encoder<'static, W>>,
    hasher: blake3::Hasher,
}

impl<W: Write> PortableFileWriter<W> {
    pub(super) fn new(sink: W) -> Result<Self> {
        let encoder = zstd::stream::write::Encoder::new(sink, LEVEL).and_then(|mut encoder| {
            // Lets the decoder notice changed bytes by itself, even before the end record is read.
            encoder.include_checksum(true)?;
            Ok(encoder)
        });
        Ok(Self {
            archive: tar::Builder::new(encoder.map_err(|error| export_not_written(&error))?),
            hasher: blake3::Hasher::new(),
        })
    }

    /// Writes one entry.
    pub(super) fn add_entry(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        update_digest(&mut self.hasher, name, bytes);
        self.append_entry(name, bytes)
    }

    /// Writes the end record, and returns the sink.
    pub(super) fn finish(mut self, end: EndRecord) -> Result<W> {
        let end = EndRecord {
            blake3: self.hasher.finalize().to_hex().to_string(),
            ..end
        };
        // The end record holds the hash, so it cannot be part of it.
        self.append_entry("end.json", &serde_json::to_vec(&end).expect("it is plain data"))?;
        let sink = self.archive.into_inner().and_then(|encoder| encoder.finish());
        sink.map_err(|error| export_not_written(&error))
    }

    fn append_entry(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        self.archive
            .append_data(&mut header, name, bytes)
            .map_err(|error| export_not_written(&error))
    }
}

/// One entry of a portable file.
pub(super) struct PortableFileEntry {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads a portable file: `each` receives its entries in order, except the manifest and the end record. Anything that
/// differs from the written file is `corrupt`, a newer version `unsupported`.
pub(super) fn read_portable_file(
    source: impl Read,
    mut begin: impl FnMut(&Manifest) -> Result<()>,
    mut each: impl FnMut(PortableFileEntry) -> Result<()>,
) -> Result<(Manifest, EndRecord)> {
    let decoder = zstd::stream::read::Decoder::new(source).map_err(|_| not_portable())?;
    let mut archive = Archive::new(decoder);
    let mut hasher = blake3::Hasher::new();
    let (mut manifest, mut end) = (None, None);
    for entry in archive.entries().map_err(|_| not_portable())? {
        let is_first = manifest.is_none();
        let entry = entry.and_then(read_entry);
        let entry = entry.map_err(|_| if is_first { not_portable() } else { truncated_file() })?;
        if end.is_some() {
            return Err(damaged_file("there are bytes after its end"));
        }
        match (entry.name.as_str(), &manifest) {
            ("manifest.json", None) => {
                let read = parse_manifest(&entry.bytes)?;
                update_digest(&mut hasher, &entry.name, &entry.bytes);
                begin(&read)?;
                manifest = Some(read);
            }
            (_, None) => return Err(not_portable()),
            ("end.json", Some(_)) => end = Some(parse_end_record(&entry.bytes, &hasher)?),
            _ => {
                update_digest(&mut hasher, &entry.name, &entry.bytes);
                each(entry)?;
            }
        }
    }
    let manifest = manifest.ok_or_else(not_portable)?;
    check_rest(archive.into_rest())?;
    Ok((manifest, end.ok_or_else(truncated_file)?))
}

/// Checks that only padding follows the archive, and that the compressed stream is complete.
fn check_rest(mut rest: impl Read) -> Result<()> {
    let mut padding = Vec::new();
    // Reading to the end makes the decoder verify the checksum of the stream.
    let read = (&mut rest).take(PADDING + 1).read_to_end(&mut padding);
    let is_padding = padding.len() as u64 <= PADDING && padding.iter().all(|byte| *byte == 0);
    if read.is_ok() && is_padding {
        Ok(())
    } else {
        Err(truncated_file())
    }
}

/// Reads only the manifest.
pub(super) fn read_manifest(source: impl Read) -> Result<Manifest> {
    let decoder = zstd::stream::read::Decoder::new(source).map_err(|_| not_portable())?;
    let mut archive = Archive::new(decoder);
    let mut entries = archive.entries().map_err(|_| not_portable())?;
    let first = entries.next().ok_or_else(not_portable)?;
    let entry = first.and_then(read_entry).map_err(|_| not_portable())?;
    match entry.name.as_str() {
        "manifest.json" => parse_manifest(&entry.bytes),
        _ => Err(not_portable()),
    }
}

fn read_entry<R: Read>(mut entry: tar::Entry<'_, R>) -> std::io::Result<PortableFileEntry> {
    let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let name = std::str::from_utf8(&entry.path_bytes())
        .map_err(|_| wrong())?
        .to_owned();
    let size = entry.size();
    // Checked before the buffer is allocated, because the header may claim any size.
    if size > LARGEST || !entry.header().entry_type().is_file() {
        return Err(wrong());
    }
    let mut bytes = Vec::with_capacity(size as usize);
    entry.read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size {
        Ok(PortableFileEntry { name, bytes })
    } else {
        Err(wrong())
    }
}

fn parse_manifest(bytes: &[u8]) -> Result<Manifest> {
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| not_portable())?;
    let version = value.get("version").and_then(serde_json::Value::as_u64);
    match (value.get("format").and_then(serde_json::Value::as_str), version) {
        (Some(FORMAT), Some(VERSION)) => {
            serde_json::from_value(value).map_err(|_| damaged_file("its manifest is not valid"))
        }
        // Checked before the other fields, because a newer version may have other ones.
        (Some(FORMAT), Some(version)) if version > VERSION => {
            let message = format!(
                "this file was written by a newer Garret: its version is {version}, this program knows {VERSION}"
            );
            Err(Error::new(ErrorKind::Unsupported, message).hint("use the newer Garret to import it"))
        }
        _ => Err(not_portable()),
    }
}

fn parse_end_record(bytes: &[u8], hasher: &blake3::Hasher) -> Result<EndRecord> {
    let end: EndRecord = serde_json::from_slice(bytes).map_err(|_| damaged_file("its end record is not valid"))?;
    if end.blake3 == hasher.finalize().to_hex().as_str() {
        Ok(end)
    } else {
        Err(damaged_file("its checksum does not match"))
    }
}

fn update_digest(hasher: &mut blake3::Hasher, name: &str, bytes: &[u8]) {
    hasher.update(name.as_bytes()).update(b"\0").update(bytes);
}

/// Returns the error for a file that differs from the written one.
pub(super) fn damaged_file(how: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the file to import is damaged: {how}"))
        .hint("nothing was imported; export it again, or take another copy")
}

fn truncated_file() -> Error {
    damaged_file("it is truncated, or its bytes were changed")
}

fn not_portable() -> Error {
    Error::invalid("this file is not an export of Garret").hint("import a directory or a tar archive as files instead")
}
