//! Moving a directory: many objects, one intent.
//!
//! S3 cannot move a prefix, so every object is copied and then removed. The move is written down first as an intent,
//! below the reserved directory, with its phase. In the first phase copies are made and no source is touched; the phase
//! is changed by a conditional write; only then are the sources removed, each after its copy is certain. A process that
//! finds an intent at an opening continues the move. Two processes that do so at once take the same steps, and neither
//! removes an object that has no copy.

use futures::FutureExt;
use garret_core::{Content, Error, MutationOutcome, Result, WsPath};
use serde::{Deserialize, Serialize};

use super::S3Context;
use super::batch::S3BatchRun;
use super::bucket::{S3Object, WriteCondition};
use super::concurrent::run_concurrently;
use super::conditional_write::{ObjectSource, ObjectWriteError};
use super::keys::KeyMeaning;
use super::locate::{S3EntryLocation, error_at_path};
use super::metadata::ObjectMetadata;
use super::read;
use super::undo::{S3UndoStep, SavedObject};
use super::wire::failure::S3RequestError;
use super::wire::xml::ListedObject;

const MOVES: &str = "moves/";
/// The age in seconds after which a reserved object is a leftover.
const LEFT_SECONDS: i64 = 24 * 60 * 60;

/// The phase of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MovePhase {
    /// Copies are made; every source still exists.
    Copying,
    /// Every copy exists; the sources are removed.
    Removing,
    /// The copies are removed again; every source still exists.
    TakingBack,
}

/// The stored form of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MoveIntent {
    from: WsPath,
    to: WsPath,
    phase: MovePhase,
}

/// An intent and the object that stores it.
struct WrittenIntent {
    key: String,
    object: S3Object,
    intent: MoveIntent,
}

/// An object and its copy, made now or by an earlier process.
struct CopiedObject {
    from: S3Object,
    from_key: String,
    to: S3Object,
    to_key: String,
}

impl S3BatchRun<'_> {
    pub(super) async fn move_directory(&self, from: &WsPath, to: &S3EntryLocation) -> Result<MutationOutcome> {
        let objects = self.list_objects_below(from).await?;
        self.check_server(from)?;
        let written = begin_move(self.shared, from, &to.path).await?;
        let copied = match self.copy_all(&written.intent, &objects).await {
            Ok(copied) => copied,
            Err(error) => {
                revert_move(self.shared, written).await;
                return Err(error);
            }
        };
        self.drop_other_marker(&to.path, &objects, from).await?;
        // A conditional write: if another process has changed the phase, it continues the move, and this one must stop.
        let Some(written) = written.advance_phase(self.shared, MovePhase::Removing).await? else {
            return Err(Error::conflict(from, None).hint("another process continues this move; check both directories"));
        };
        self.preserve_parent(from).await?;
        self.remove_sources(from, copied).await?;
        written.remove_intent(self.shared).await;
        self.shared.known.forget_tree(&WsPath::root());
        Ok(MutationOutcome {
            version: None,
            size: 0,
            created: !matches!(to.found, super::locate::S3FoundEntry::Directory { .. }),
            change: None,
        })
    }

    async fn copy_all(&self, intent: &MoveIntent, objects: &[ListedObject]) -> Result<Vec<CopiedObject>> {
        let copied = copy_objects(self.shared, intent, objects).await?;
        for copied in &copied {
            self.record_undo(S3UndoStep::Made {
                key: copied.to_key.clone(),
                object: copied.to.clone(),
            });
        }
        Ok(copied)
    }

    /// Removes the marker of an empty directory that is replaced, and its mode with it.
    async fn drop_other_marker(&self, to: &WsPath, objects: &[ListedObject], from: &WsPath) -> Result<()> {
        let ours = self.shared.layout.directory_key(from);
        if objects.iter().any(|object| object.key == ours) {
            return Ok(());
        }
        let key = self.shared.layout.directory_key(to);
        let list = super::bucket::ListCall {
            prefix: &key,
            limit: 1,
            ..Default::default()
        };
        let first = self
            .shared
            .bucket
            .list(&list)
            .await
            .map_err(|failure| error_at_path(to, failure))?;
        if first.objects.first().is_none_or(|object| object.key != key) {
            return Ok(());
        }
        let marker = self
            .shared
            .bucket
            .head(&key)
            .await
            .map_err(|failure| error_at_path(to, failure))?;
        let Some(marker) = marker else { return Ok(()) };
        let saved = self.save_object(to, &key, &marker).await?;
        self.shared
            .bucket
            .delete(&key, None)
            .await
            .map_err(|failure| error_at_path(to, failure))?;
        if let Some(before) = saved {
            self.record_undo(S3UndoStep::Removed { key, before });
        }
        Ok(())
    }

    async fn remove_sources(&self, from: &WsPath, copied: Vec<CopiedObject>) -> Result<()> {
        let removals = copied
            .into_iter()
            .map(|copied| self.remove_source(from, copied).boxed());
        run_concurrently(removals.collect()).await.map(|_: Vec<()>| ())
    }

    async fn remove_source(&self, from: &WsPath, copied: CopiedObject) -> Result<()> {
        let outcome = self.shared.discard_if_unchanged(&copied.from_key, &copied.from).await;
        if outcome.map_err(|failure| with_resume_hint(error_at_path(from, failure)))? {
            let before = SavedObject::moved_to(copied.from.metadata, copied.to_key, copied.to);
            let key = copied.from_key;
            self.record_undo(S3UndoStep::Removed { key, before });
        }
        Ok(())
    }
}

fn with_resume_hint(error: Error) -> Error {
    let hint = "no data is lost: the files are copied, and the next opening of the workspace finishes the move";
    error.hint(hint)
}

async fn begin_move(shared: &S3Context, from: &WsPath, to: &WsPath) -> Result<WrittenIntent> {
    let intent = MoveIntent {
        from: from.clone(),
        to: to.clone(),
        phase: MovePhase::Copying,
    };
    let key = shared.layout.reserved_key(&format!("{MOVES}{}", shared.ids.next_id()));
    let object = write_intent(shared, &key, &intent, WriteCondition::Absent)
        .await
        .map_err(|refusal| refusal.into_error(from))?;
    Ok(WrittenIntent { key, object, intent })
}

async fn write_intent(
    shared: &S3Context,
    key: &str,
    intent: &MoveIntent,
    condition: WriteCondition<'_>,
) -> Result<S3Object, ObjectWriteError> {
    let text = serde_json::to_vec(intent).expect("an intent has only strings as keys");
    let content = Content::from(text);
    let metadata = ObjectMetadata::new(shared.clock.now());
    shared
        .store_object(key, ObjectSource::Content(&content), metadata, condition)
        .await
}

impl WrittenIntent {
    /// Changes the phase; `None` if another process has changed it.
    async fn advance_phase(self, shared: &S3Context, phase: MovePhase) -> Result<Option<Self>> {
        let intent = MoveIntent { phase, ..self.intent };
        match write_intent(shared, &self.key, &intent, WriteCondition::Tag(&self.object.tag)).await {
            Ok(object) => Ok(Some(Self {
                object,
                intent,
                key: self.key,
            })),
            Err(ObjectWriteError::Conflict(_)) => Ok(None),
            Err(ObjectWriteError::Failed(failure)) => Err(error_at_path(&intent.from, failure)),
        }
    }

    /// Removes the intent.
    async fn remove_intent(self, shared: &S3Context) {
        // An intent that stays leads to a move of nothing at the next opening.
        let _ = shared.bucket.delete(&self.key, None).await;
    }
}

/// Returns the key of an object after the move.
fn new_key(shared: &S3Context, intent: &MoveIntent, key: &str) -> Option<String> {
    let (path, is_marker) = match shared.layout.classify_key(key) {
        KeyMeaning::File(path) => (path, false),
        KeyMeaning::Directory(path) => (path, true),
        KeyMeaning::Reserved | KeyMeaning::NotAPath(_) => return None,
    };
    let moved = path.relative_to(&intent.from)?.rebase_below(&intent.to).ok()?;
    if is_marker {
        Some(shared.layout.directory_key(&moved))
    } else {
        shared.layout.file_key(&moved).ok()
    }
}

/// Copies objects concurrently, markers before the objects below them.
async fn copy_objects(shared: &S3Context, intent: &MoveIntent, objects: &[ListedObject]) -> Result<Vec<CopiedObject>> {
    let depth = |listed: &&ListedObject| {
        if listed.key.ends_with('/') {
            listed.key.matches('/').count()
        } else {
            usize::MAX
        }
    };
    // SeaweedFS makes the parent directories of a new object. One that it makes while the marker is being written
    // replaces the marker, and its mode with it.
    let mut ordered: Vec<_> = objects.iter().collect();
    ordered.sort_by_key(depth);
    let mut copied = Vec::with_capacity(ordered.len());
    for level in ordered.chunk_by(|one, other| depth(one) == depth(other)) {
        let copies = level.iter().map(|listed| copy_one(shared, intent, listed).boxed());
        copied.extend(run_concurrently(copies.collect()).await?.into_iter().flatten());
    }
    Ok(copied)
}

/// Copies one object, unless its copy exists already. Returns `None` if the source is gone, because another process has
/// moved it.
async fn copy_one(shared: &S3Context, intent: &MoveIntent, listed: &ListedObject) -> Result<Option<CopiedObject>> {
    let path = &intent.from;
    let too_long = || Error::invalid("a path below the new one would be too long").at_path(path);
    let to_key = new_key(shared, intent, &listed.key).ok_or_else(too_long)?;
    let head = shared.bucket.head(&listed.key).await;
    let Some(from) = head.map_err(|failure| error_at_path(path, failure))? else {
        return Ok(None);
    };
    let to = if to_key.ends_with('/') {
        copy_marker(shared, &to_key, &from).await
    } else {
        copy_object(shared, &listed.key, &from, &to_key).await
    };
    let to = to.map_err(|refusal| refusal.into_error(path))?;
    Ok(Some(CopiedObject {
        from,
        from_key: listed.key.clone(),
        to,
        to_key,
    }))
}

async fn copy_marker(shared: &S3Context, key: &str, from: &S3Object) -> Result<S3Object, ObjectWriteError> {
    let put = shared
        .bucket
        .put(key, bytes::Bytes::new(), &from.metadata, WriteCondition::Any);
    Ok(S3Object {
        tag: put.await?,
        ..from.clone()
    })
}

async fn copy_object(
    shared: &S3Context,
    from_key: &str,
    from: &S3Object,
    to_key: &str,
) -> Result<S3Object, ObjectWriteError> {
    let source = ObjectSource::Copy {
        key: from_key,
        object: from,
    };
    match shared
        .store_object(to_key, source, from.metadata.clone(), WriteCondition::Absent)
        .await
    {
        // A process that was interrupted, or works on the same intent, has made this copy.
        Err(ObjectWriteError::Conflict(Some(there))) if is_copy(from, &there) => Ok(*there),
        outcome => outcome,
    }
}

/// Returns whether `there` is a copy of `from`, by the id of its last write or by its ETag.
fn is_copy(from: &S3Object, there: &S3Object) -> bool {
    let is_same_write = from
        .metadata
        .writes
        .first()
        .is_some_and(|id| there.metadata.has_write(id));
    there.size == from.size && (is_same_write || there.tag == from.tag)
}

/// Finishes every stored move, and removes leftovers of handles that died. A move that cannot be finished stays for the
/// next opening, and does not make this one fail.
pub(super) async fn resume_moves(shared: &S3Context) -> Result<(), S3RequestError> {
    let moves = shared.layout.reserved_key(MOVES);
    let all = shared.bucket.list_all(&shared.layout.reserved_key(""), false).await?;
    shared.check_server()?;
    for listed in all.objects {
        if !listed.key.starts_with(&moves) {
            remove_leftover(shared, &listed).await;
        } else if let Some(written) = read_intent(shared, &listed.key).await? {
            let _ = finish_move(shared, written).await;
        }
    }
    Ok(())
}

/// Removes an object that was saved for reverting a batch, or written by a probe, once it is too old to be in use.
async fn remove_leftover(shared: &S3Context, listed: &ListedObject) {
    let now = shared.clock.now().as_second();
    let is_old = |written: garret_core::Timestamp| now - written.as_second() > LEFT_SECONDS;
    if listed.modified.is_some_and(is_old) {
        let _ = shared.bucket.delete(&listed.key, None).await;
    }
}

async fn read_intent(shared: &S3Context, key: &str) -> Result<Option<WrittenIntent>, S3RequestError> {
    let got = match shared.bucket.get(key, None, None).await {
        Ok(got) => got,
        Err(S3RequestError::NotFound) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let object = got.object.clone();
    let text = read::read_body(shared, key, got, 0).await?;
    Ok(serde_json::from_slice(&text).ok().map(|intent| WrittenIntent {
        key: key.to_owned(),
        object,
        intent,
    }))
}

async fn finish_move(shared: &S3Context, written: WrittenIntent) -> Result<()> {
    let written = match written.intent.phase {
        MovePhase::TakingBack => {
            revert_move(shared, written).await;
            return Ok(());
        }
        MovePhase::Removing => written,
        MovePhase::Copying => {
            let objects = objects_below(shared, &written.intent.from).await?;
            copy_objects(shared, &written.intent, &objects).await?;
            match written.advance_phase(shared, MovePhase::Removing).await? {
                Some(written) => written,
                None => return Ok(()),
            }
        }
    };
    let objects = objects_below(shared, &written.intent.from).await?;
    let removals = objects
        .iter()
        .map(|listed| remove_one(shared, &written.intent, listed, MoveSide::Source).boxed());
    run_concurrently(removals.collect()).await?;
    written.remove_intent(shared).await;
    Ok(())
}

async fn objects_below(shared: &S3Context, path: &WsPath) -> Result<Vec<ListedObject>> {
    let prefix = shared.layout.directory_key(path);
    let page = shared.bucket.list_all(&prefix, false).await;
    Ok(page.map_err(|failure| error_at_path(path, failure))?.objects)
}

/// The side of a move that is removed.
#[derive(Debug, Clone, Copy)]
enum MoveSide {
    Source,
    Copy,
}

/// Removes an object or its copy, if both exist.
async fn remove_one(shared: &S3Context, intent: &MoveIntent, listed: &ListedObject, spare: MoveSide) -> Result<()> {
    let failed = |failure| error_at_path(&intent.from, failure);
    let Some(to_key) = new_key(shared, intent, &listed.key) else {
        return Ok(());
    };
    let from = shared.bucket.head(&listed.key).await.map_err(failed)?;
    let there = shared.bucket.head(&to_key).await.map_err(failed)?;
    let (Some(from), Some(there)) = (from, there) else {
        return Ok(());
    };
    // One of them was written after the copy was made, so the other is not its copy: both stay.
    if !is_copy(&from, &there) {
        return Ok(());
    }
    let removed = match spare {
        MoveSide::Source => shared.discard_if_unchanged(&listed.key, &from).await,
        MoveSide::Copy => shared.discard_if_unchanged(&to_key, &there).await,
    };
    removed.map(|_| ()).map_err(failed)
}

/// Removes the copies of a move that failed before any source was touched.
async fn revert_move(shared: &S3Context, written: WrittenIntent) {
    let written = match written.intent.phase {
        MovePhase::TakingBack => written,
        _ => match written.advance_phase(shared, MovePhase::TakingBack).await {
            Ok(Some(written)) => written,
            // Another process continues the move, or the next opening will.
            _ => return,
        },
    };
    let Ok(objects) = objects_below(shared, &written.intent.from).await else {
        return;
    };
    let removals = objects
        .iter()
        .map(|listed| remove_one(shared, &written.intent, listed, MoveSide::Copy).boxed());
    if run_concurrently(removals.collect()).await.is_ok() {
        written.remove_intent(shared).await;
    }
}
