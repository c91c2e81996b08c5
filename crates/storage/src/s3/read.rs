//! Reading a file, whole or a range.
//!
//! It takes one request if the file is at its own key: the headers of the answer give the kind, the size and the
//! version before any content is read. A body that breaks off is continued from its end, on the same version, so a
//! reader never sees a mix.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use garret_core::memory::check_limit;
use garret_core::{Error, ReadOptions, ReadResult, Result, WsPath};

use super::Shared;
use super::bucket::{Got, Object};
use super::locate::{Found, Last, Way, failed, found};
use super::stat::{FILE_MODE, not_a_file, version};
use super::wire::failure::Failure;

const MAX_CONTINUATIONS: u32 = 8;
/// The number of times that a file is read from its start because it was replaced meanwhile.
const MAX_RESTARTS: u32 = 16;

pub(super) async fn read(shared: &Shared, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
    super::keys::refuse_reserved(path)?;
    if path.is_root() {
        return Err(Error::is_a_directory(path));
    }
    let mut real = path.clone();
    for restart in 1..=MAX_RESTARTS {
        match read_at(shared, path, &real, &options).await? {
            Outcome::Done(result) => return Ok(result),
            Outcome::Elsewhere => real = find(shared, path, &options).await?,
            Outcome::Changed => shared.bucket.wire.pause(restart.min(3)).await,
        }
    }
    Err(Error::new(
        garret_core::ErrorKind::Unavailable,
        format!("{} keeps changing while it is read", path.quoted()),
    )
    .at(path))
}

enum Outcome {
    Done(ReadResult),
    /// There is no file at the key itself.
    Elsewhere,
    /// The file was replaced while it was read.
    Changed,
}

/// Returns the real path of a file that is not at its own key.
async fn find(shared: &Shared, path: &WsPath, options: &ReadOptions) -> Result<WsPath> {
    let way = Way {
        last: Last::Followed,
        follow: options.follow,
    };
    let located = shared.locate(path, way).await?;
    match located.found {
        Found::File(_) => Ok(located.path),
        _ => Err(not_a_file(&located)),
    }
}

async fn read_at(shared: &Shared, path: &WsPath, real: &WsPath, options: &ReadOptions) -> Result<Outcome> {
    let key = shared.layout.file(real)?;
    let range = options.range.clone();
    // HTTP has no empty range.
    if range.as_ref().is_some_and(|range| range.start >= range.end) {
        return look_only(shared, path, real, options).await;
    }
    let got = match shared.bucket.get(&key, range.clone(), None).await {
        Ok(got) => got,
        Err(Failure::NotFound) => return Ok(Outcome::Elsewhere),
        Err(Failure::Range) => return look_only(shared, path, real, options).await,
        Err(failure) => return Err(failed(path, failure)),
    };
    if !matches!(found(got.object.clone()), Found::File(_)) {
        return Ok(Outcome::Elsewhere);
    }
    shared.known.met(real, &got.object);
    // Before the body is read, so that a refused read transfers no content.
    options.precondition.check(path, Some(&version(&got.object)))?;
    check_limit(path, got.length, options.max_bytes)?;
    let object = got.object.clone();
    let start = range.map_or(0, |range| range.start);
    match take(shared, &key, got, start).await {
        Ok(bytes) => Ok(Outcome::Done(result(&object, bytes))),
        Err(Failure::Precondition | Failure::NotFound | Failure::Range) => Ok(Outcome::Changed),
        Err(failure) => Err(failed(path, failure)),
    }
}

/// Answers a read of no bytes: past the end, or of an empty range.
async fn look_only(shared: &Shared, path: &WsPath, real: &WsPath, options: &ReadOptions) -> Result<Outcome> {
    let Found::File(object) = shared.look(real).await? else {
        return Ok(Outcome::Elsewhere);
    };
    options.precondition.check(path, Some(&version(&object)))?;
    Ok(Outcome::Done(result(&object, Bytes::new())))
}

fn result(object: &Object, bytes: Bytes) -> ReadResult {
    ReadResult {
        bytes,
        size: object.size,
        version: version(object),
        mode: Some(object.metadata.mode.unwrap_or(FILE_MODE)),
        hard_linked: None,
    }
}

/// Reads the whole body, which begins at byte `start` of the object.
pub(super) async fn take(shared: &Shared, key: &str, got: Got, start: u64) -> Result<Bytes, Failure> {
    let mut body = BytesMut::with_capacity(usize::try_from(got.length).unwrap_or(0).min(1 << 30));
    let (length, tag) = (got.length, got.object.tag);
    let mut answer = got.answer;
    let mut attempt = 0;
    loop {
        let broken = loop {
            match answer.next().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) if body.len() as u64 == length => return Ok(body.freeze()),
                Ok(None) => break Failure::Unreachable("the connection broke before the answer was complete"),
                Err(failure) => break failure,
            }
        };
        attempt += 1;
        if attempt > MAX_CONTINUATIONS || body.len() as u64 >= length {
            return Err(broken);
        }
        shared.bucket.wire.pause(attempt).await;
        let rest: Range<u64> = start + body.len() as u64..start + length;
        // The tag makes the server refuse a version other than the one that was begun.
        answer = shared.bucket.get(key, Some(rest), Some(&tag)).await?.answer;
    }
}
