//! Moving a directory: many objects, one intent.
//!
//! S3 cannot move a prefix, so every object is copied and then removed. The move is written down first as an intent,
//! below the reserved directory, with its phase. In the first phase copies are made and no source is touched; the phase
//! is changed by a conditional write; only then are the sources removed, each after its copy is certain. A process that
//! finds an intent at an opening continues the move. Two processes that do so at once take the same steps, and neither
//! removes an object that has no copy.

use futures::FutureExt;
use garret_core::{Applied, Content, Error, Result, WsPath};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::at_once::try_all;
use super::batch::Work;
use super::bucket::{Condition, Object};
use super::keys::Meaning;
use super::locate::{Located, failed};
use super::metadata::Metadata;
use super::read;
use super::store::{Refusal, Source};
use super::undo::{Saved, Undo};
use super::wire::failure::Failure;
use super::wire::xml::Listed;

const MOVES: &str = "moves/";
/// The age in seconds after which a reserved object is a leftover.
const LEFT_SECONDS: i64 = 24 * 60 * 60;

/// The phase of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// Copies are made; every source still exists.
    Copying,
    /// Every copy exists; the sources are removed.
    Removing,
    /// The copies are removed again; every source still exists.
    TakingBack,
}

/// The stored form of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Intent {
    from: WsPath,
    to: WsPath,
    phase: Phase,
}

/// An intent and the object that stores it.
struct Written {
    key: String,
    object: Object,
    intent: Intent,
}

/// An object and its copy, made now or by an earlier process.
struct Copied {
    from: Object,
    from_key: String,
    to: Object,
    to_key: String,
}

impl Work<'_> {
    pub(super) async fn move_directory(&self, from: &WsPath, to: &Located) -> Result<Applied> {
        let objects = self.objects_of(from).await?;
        self.check_server(from)?;
        let written = begin(self.shared, from, &to.path).await?;
        let copied = match self.copy_all(&written.intent, &objects).await {
            Ok(copied) => copied,
            Err(error) => {
                take_back(self.shared, written).await;
                return Err(error);
            }
        };
        self.drop_other_marker(&to.path, &objects, from).await?;
        // A conditional write: if another process has changed the phase, it continues the move, and this one must stop.
        let Some(written) = written.advance(self.shared, Phase::Removing).await? else {
            return Err(Error::conflict(from, None).hint("another process continues this move; check both directories"));
        };
        self.keep_parent(from).await?;
        self.remove_sources(from, copied).await?;
        written.end(self.shared).await;
        self.shared.known.forget(&WsPath::root());
        Ok(Applied {
            version: None,
            size: 0,
            created: !matches!(to.found, super::locate::Found::Directory { .. }),
        })
    }

    async fn copy_all(&self, intent: &Intent, objects: &[Listed]) -> Result<Vec<Copied>> {
        let copied = copy_each(self.shared, intent, objects).await?;
        for copied in &copied {
            self.note(Undo::Made {
                key: copied.to_key.clone(),
                object: copied.to.clone(),
            });
        }
        Ok(copied)
    }

    /// Removes the marker of an empty directory that is replaced, and its mode with it.
    async fn drop_other_marker(&self, to: &WsPath, objects: &[Listed], from: &WsPath) -> Result<()> {
        let ours = self.shared.layout.directory(from);
        if objects.iter().any(|object| object.key == ours) {
            return Ok(());
        }
        let key = self.shared.layout.directory(to);
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
            .map_err(|failure| failed(to, failure))?;
        if first.objects.first().is_none_or(|object| object.key != key) {
            return Ok(());
        }
        let marker = self
            .shared
            .bucket
            .head(&key)
            .await
            .map_err(|failure| failed(to, failure))?;
        let Some(marker) = marker else { return Ok(()) };
        let saved = self.save(to, &key, &marker).await?;
        self.shared
            .bucket
            .delete(&key, None)
            .await
            .map_err(|failure| failed(to, failure))?;
        if let Some(before) = saved {
            self.note(Undo::Removed { key, before });
        }
        Ok(())
    }

    async fn remove_sources(&self, from: &WsPath, copied: Vec<Copied>) -> Result<()> {
        let removals = copied
            .into_iter()
            .map(|copied| self.remove_source(from, copied).boxed());
        try_all(removals.collect()).await.map(|_: Vec<()>| ())
    }

    async fn remove_source(&self, from: &WsPath, copied: Copied) -> Result<()> {
        let outcome = self.shared.discard(&copied.from_key, &copied.from).await;
        if outcome.map_err(|failure| unfinished(failed(from, failure)))? {
            let before = Saved::moved(copied.from.metadata, copied.to_key, copied.to);
            let key = copied.from_key;
            self.note(Undo::Removed { key, before });
        }
        Ok(())
    }
}

fn unfinished(error: Error) -> Error {
    let hint = "no data is lost: the files are copied, and the next opening of the workspace finishes the move";
    error.hint(hint)
}

async fn begin(shared: &Shared, from: &WsPath, to: &WsPath) -> Result<Written> {
    let intent = Intent {
        from: from.clone(),
        to: to.clone(),
        phase: Phase::Copying,
    };
    let key = shared.layout.reserved(&format!("{MOVES}{}", shared.ids.next()));
    let object = write_down(shared, &key, &intent, Condition::Absent)
        .await
        .map_err(|refusal| refusal.into_error(from))?;
    Ok(Written { key, object, intent })
}

async fn write_down(shared: &Shared, key: &str, intent: &Intent, condition: Condition<'_>) -> Result<Object, Refusal> {
    let text = serde_json::to_vec(intent).expect("an intent has only strings as keys");
    let content = Content::from(text);
    let metadata = Metadata::new(shared.clock.now());
    shared.store(key, Source::Content(&content), metadata, condition).await
}

impl Written {
    /// Changes the phase; `None` if another process has changed it.
    async fn advance(self, shared: &Shared, phase: Phase) -> Result<Option<Self>> {
        let intent = Intent { phase, ..self.intent };
        match write_down(shared, &self.key, &intent, Condition::Tag(&self.object.tag)).await {
            Ok(object) => Ok(Some(Self {
                object,
                intent,
                key: self.key,
            })),
            Err(Refusal::Conflict(_)) => Ok(None),
            Err(Refusal::Failed(failure)) => Err(failed(&intent.from, failure)),
        }
    }

    /// Removes the intent.
    async fn end(self, shared: &Shared) {
        // An intent that stays leads to a move of nothing at the next opening.
        let _ = shared.bucket.delete(&self.key, None).await;
    }
}

/// Returns the key of an object after the move.
fn new_key(shared: &Shared, intent: &Intent, key: &str) -> Option<String> {
    let (path, is_marker) = match shared.layout.meaning(key) {
        Meaning::File(path) => (path, false),
        Meaning::Directory(path) => (path, true),
        Meaning::Reserved | Meaning::Odd(_) => return None,
    };
    let moved = path.relative_to(&intent.from)?.below(&intent.to).ok()?;
    if is_marker {
        Some(shared.layout.directory(&moved))
    } else {
        shared.layout.file(&moved).ok()
    }
}

/// Copies objects concurrently, markers before the objects below them.
async fn copy_each(shared: &Shared, intent: &Intent, objects: &[Listed]) -> Result<Vec<Copied>> {
    let depth = |listed: &&Listed| {
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
        copied.extend(try_all(copies.collect()).await?.into_iter().flatten());
    }
    Ok(copied)
}

/// Copies one object, unless its copy exists already. Returns `None` if the source is gone, because another process has
/// moved it.
async fn copy_one(shared: &Shared, intent: &Intent, listed: &Listed) -> Result<Option<Copied>> {
    let path = &intent.from;
    let too_long = || Error::invalid("a path below the new one would be too long").at(path);
    let to_key = new_key(shared, intent, &listed.key).ok_or_else(too_long)?;
    let head = shared.bucket.head(&listed.key).await;
    let Some(from) = head.map_err(|failure| failed(path, failure))? else {
        return Ok(None);
    };
    let to = if to_key.ends_with('/') {
        copy_marker(shared, &to_key, &from).await
    } else {
        copy_object(shared, &listed.key, &from, &to_key).await
    };
    let to = to.map_err(|refusal| refusal.into_error(path))?;
    Ok(Some(Copied {
        from,
        from_key: listed.key.clone(),
        to,
        to_key,
    }))
}

async fn copy_marker(shared: &Shared, key: &str, from: &Object) -> Result<Object, Refusal> {
    let put = shared
        .bucket
        .put(key, bytes::Bytes::new(), &from.metadata, Condition::Any);
    Ok(Object {
        tag: put.await?,
        ..from.clone()
    })
}

async fn copy_object(shared: &Shared, from_key: &str, from: &Object, to_key: &str) -> Result<Object, Refusal> {
    let source = Source::Copy {
        key: from_key,
        object: from,
    };
    match shared
        .store(to_key, source, from.metadata.clone(), Condition::Absent)
        .await
    {
        // A process that was interrupted, or works on the same intent, has made this copy.
        Err(Refusal::Conflict(Some(there))) if is_copy(from, &there) => Ok(*there),
        outcome => outcome,
    }
}

/// Returns whether `there` is a copy of `from`, by the id of its last write or by its ETag.
fn is_copy(from: &Object, there: &Object) -> bool {
    let is_same_write = from
        .metadata
        .writes
        .first()
        .is_some_and(|id| there.metadata.has_write(id));
    there.size == from.size && (is_same_write || there.tag == from.tag)
}

/// Finishes every stored move, and removes leftovers of handles that died. A move that cannot be finished stays for the
/// next opening, and does not make this one fail.
pub(super) async fn resume(shared: &Shared) -> Result<(), Failure> {
    let moves = shared.layout.reserved(MOVES);
    let all = shared.bucket.list_all(&shared.layout.reserved(""), false).await?;
    shared.check_server()?;
    for listed in all.objects {
        if !listed.key.starts_with(&moves) {
            remove_leftover(shared, &listed).await;
        } else if let Some(written) = read_intent(shared, &listed.key).await? {
            let _ = finish(shared, written).await;
        }
    }
    Ok(())
}

/// Removes an object that was saved for reverting a batch, or written by a probe, once it is too old to be in use.
async fn remove_leftover(shared: &Shared, listed: &Listed) {
    let now = shared.clock.now().as_second();
    let is_old = |written: garret_core::Timestamp| now - written.as_second() > LEFT_SECONDS;
    if listed.modified.is_some_and(is_old) {
        let _ = shared.bucket.delete(&listed.key, None).await;
    }
}

async fn read_intent(shared: &Shared, key: &str) -> Result<Option<Written>, Failure> {
    let got = match shared.bucket.get(key, None, None).await {
        Ok(got) => got,
        Err(Failure::NotFound) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let object = got.object.clone();
    let text = read::take(shared, key, got, 0).await?;
    Ok(serde_json::from_slice(&text).ok().map(|intent| Written {
        key: key.to_owned(),
        object,
        intent,
    }))
}

async fn finish(shared: &Shared, written: Written) -> Result<()> {
    let written = match written.intent.phase {
        Phase::TakingBack => {
            take_back(shared, written).await;
            return Ok(());
        }
        Phase::Removing => written,
        Phase::Copying => {
            let objects = objects_below(shared, &written.intent.from).await?;
            copy_each(shared, &written.intent, &objects).await?;
            match written.advance(shared, Phase::Removing).await? {
                Some(written) => written,
                None => return Ok(()),
            }
        }
    };
    let objects = objects_below(shared, &written.intent.from).await?;
    let removals = objects
        .iter()
        .map(|listed| remove_one(shared, &written.intent, listed, Spare::Source).boxed());
    try_all(removals.collect()).await?;
    written.end(shared).await;
    Ok(())
}

async fn objects_below(shared: &Shared, path: &WsPath) -> Result<Vec<Listed>> {
    let prefix = shared.layout.directory(path);
    let page = shared.bucket.list_all(&prefix, false).await;
    Ok(page.map_err(|failure| failed(path, failure))?.objects)
}

/// The side of a move that is removed.
#[derive(Debug, Clone, Copy)]
enum Spare {
    Source,
    Copy,
}

/// Removes an object or its copy, if both exist.
async fn remove_one(shared: &Shared, intent: &Intent, listed: &Listed, spare: Spare) -> Result<()> {
    let failed = |failure| failed(&intent.from, failure);
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
        Spare::Source => shared.discard(&listed.key, &from).await,
        Spare::Copy => shared.discard(&to_key, &there).await,
    };
    removed.map(|_| ()).map_err(failed)
}

/// Removes the copies of a move that failed before any source was touched.
async fn take_back(shared: &Shared, written: Written) {
    let written = match written.intent.phase {
        Phase::TakingBack => written,
        _ => match written.advance(shared, Phase::TakingBack).await {
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
        .map(|listed| remove_one(shared, &written.intent, listed, Spare::Copy).boxed());
    if try_all(removals.collect()).await.is_ok() {
        written.end(shared).await;
    }
}
