//! Reading a file, whole or a range.
//!
//! It takes one request if the file is at its own key: the headers of the answer give the kind, the size and the
//! version before any content is read. A body that breaks off is continued from its end, on the same version, so a
//! reader never sees a mix.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use garret_core::memory::check_read_limit;
use garret_core::{Error, ReadOptions, ReadResult, Result, WsPath};

use super::S3Context;
use super::bucket::{ObjectDownload, S3Object};
use super::locate::{S3FinalLink, S3FoundEntry, S3LinkRules, entry_of_object, error_at_path};
use super::stat::{FILE_MODE, not_a_file, version_of};
use super::wire::failure::S3RequestError;

const MAX_CONTINUATIONS: u32 = 8;
/// The number of times that a file is read from its start because it was replaced meanwhile.
const MAX_RESTARTS: u32 = 16;

pub(super) async fn read_file(shared: &S3Context, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
    super::keys::refuse_reserved(path)?;
    if path.is_root() {
        return Err(Error::is_a_directory(path));
    }
    let mut real = path.clone();
    for restart in 1..=MAX_RESTARTS {
        match read_at(shared, path, &real, &options).await? {
            S3ReadOutcome::Done(result) => return Ok(result),
            S3ReadOutcome::NotAtKey => real = find_file(shared, path, &options).await?,
            S3ReadOutcome::Changed => shared.bucket.wire.pause_before_retry(restart.min(3)).await,
        }
    }
    Err(Error::new(
        garret_core::ErrorKind::Unavailable,
        format!("{} keeps changing while it is read", path.to_quoted()),
    )
    .at_path(path))
}

enum S3ReadOutcome {
    Done(ReadResult),
    /// There is no file at the key itself.
    NotAtKey,
    /// The file was replaced while it was read.
    Changed,
}

/// Returns the real path of a file that is not at its own key.
async fn find_file(shared: &S3Context, path: &WsPath, options: &ReadOptions) -> Result<WsPath> {
    let way = S3LinkRules {
        last: S3FinalLink::Followed,
        follow: options.follow,
    };
    let located = shared.locate_entry(path, way).await?;
    match located.found {
        S3FoundEntry::File(_) => Ok(located.path),
        _ => Err(not_a_file(&located)),
    }
}

async fn read_at(shared: &S3Context, path: &WsPath, real: &WsPath, options: &ReadOptions) -> Result<S3ReadOutcome> {
    let key = shared.layout.file_key(real)?;
    let range = options.range.clone();
    // HTTP has no empty range.
    if range.as_ref().is_some_and(|range| range.start >= range.end) {
        return answer_empty_read(shared, path, real, options).await;
    }
    let got = match shared.bucket.get(&key, range.clone(), None).await {
        Ok(got) => got,
        Err(S3RequestError::NotFound) => return Ok(S3ReadOutcome::NotAtKey),
        Err(S3RequestError::Range) => return answer_empty_read(shared, path, real, options).await,
        Err(failure) => return Err(error_at_path(path, failure)),
    };
    if !matches!(entry_of_object(got.object.clone()), S3FoundEntry::File(_)) {
        return Ok(S3ReadOutcome::NotAtKey);
    }
    shared.known.remember_object(real, &got.object);
    // Before the body is read, so that a refused read transfers no content.
    options
        .precondition
        .check_version(path, Some(&version_of(&got.object)))?;
    check_read_limit(path, got.length, options.max_bytes)?;
    let object = got.object.clone();
    let start = range.map_or(0, |range| range.start);
    match read_body(shared, &key, got, start).await {
        Ok(bytes) => Ok(S3ReadOutcome::Done(read_result(&object, bytes))),
        Err(S3RequestError::Precondition | S3RequestError::NotFound | S3RequestError::Range) => {
            Ok(S3ReadOutcome::Changed)
        }
        Err(failure) => Err(error_at_path(path, failure)),
    }
}

/// Answers a read of no bytes: past the end, or of an empty range.
async fn answer_empty_read(
    shared: &S3Context,
    path: &WsPath,
    real: &WsPath,
    options: &ReadOptions,
) -> Result<S3ReadOutcome> {
    let S3FoundEntry::File(object) = shared.look_up_key(real).await? else {
        return Ok(S3ReadOutcome::NotAtKey);
    };
    options.precondition.check_version(path, Some(&version_of(&object)))?;
    Ok(S3ReadOutcome::Done(read_result(&object, Bytes::new())))
}

fn read_result(object: &S3Object, bytes: Bytes) -> ReadResult {
    ReadResult {
        bytes,
        size: object.size,
        version: version_of(object),
        mode: Some(object.metadata.mode.unwrap_or(FILE_MODE)),
        hard_linked: None,
    }
}

/// Reads the whole body, which begins at byte `start` of the object.
pub(super) async fn read_body(
    shared: &S3Context,
    key: &str,
    got: ObjectDownload,
    start: u64,
) -> Result<Bytes, S3RequestError> {
    let mut body = BytesMut::with_capacity(usize::try_from(got.length).unwrap_or(0).min(1 << 30));
    let (length, tag) = (got.length, got.object.tag);
    let mut answer = got.answer;
    let mut attempt = 0;
    loop {
        let broken = loop {
            match answer.next_piece().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) if body.len() as u64 == length => return Ok(body.freeze()),
                Ok(None) => break S3RequestError::Unreachable("the connection broke before the answer was complete"),
                Err(failure) => break failure,
            }
        };
        attempt += 1;
        if attempt > MAX_CONTINUATIONS || body.len() as u64 >= length {
            return Err(broken);
        }
        shared.bucket.wire.pause_before_retry(attempt).await;
        let rest: Range<u64> = start + body.len() as u64..start + length;
        // The tag makes the server refuse a version other than the one that was begun.
        answer = shared.bucket.get(key, Some(rest), Some(&tag)).await?.answer;
    }
}
