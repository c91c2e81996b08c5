//! Writing a file.

use bytes::{Bytes, BytesMut};
use garret_core::{Applied, Content, Error, ErrorKind, Precondition, Result, WsPath};

use super::batch::Work;
use super::bucket::{Condition, Object};
use super::locate::{Found, Last, Located, failed, found};
use super::metadata::Metadata;
use super::read;
use super::stat::{not_a_file, version};
use super::store::{ONE_PIECE, Refusal, Source};
use super::undo::Undo;
use super::wire::failure::Failure;

/// The number of times that a change is repeated on an object that another writer has changed meanwhile.
const MAX_ROUNDS: u32 = 1_000;

impl Work<'_> {
    pub(super) async fn write(
        &self,
        path: &WsPath,
        content: &Content,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<Applied> {
        if let Some(applied) = self.replace_known(path, content, precondition, mode).await? {
            return Ok(applied);
        }
        for round in 1..=MAX_ROUNDS {
            let located = self.locate_file(path, parents).await?;
            let before = self.check_file(&located, precondition)?;
            if before.is_none() {
                need_parent(&located, parents)?;
            }
            let metadata = self.metadata_for(before.as_ref(), mode);
            let put = Put {
                path: &located.path,
                source: Source::Content(content),
                metadata,
                before: before.as_ref(),
            };
            match self.put(put).await {
                Ok(object) => return Ok(applied(&object, before.is_none())),
                Err(Refusal::Conflict(_)) if *precondition == Precondition::Any => {
                    self.next_round(&located.path, round).await;
                }
                Err(Refusal::Conflict(now)) => {
                    self.shared.known.forget(&located.path);
                    return Err(precondition.refusal(&located.path, now.map(|now| version(&now))));
                }
                Err(Refusal::Failed(failure)) => return Err(failed(&located.path, failure)),
            }
        }
        Err(too_busy(path))
    }

    /// Replaces a file of the wanted version that this handle has just seen: one request, because its metadata is
    /// known.
    async fn replace_known(
        &self,
        path: &WsPath,
        content: &Content,
        precondition: &Precondition,
        mode: Option<u32>,
    ) -> Result<Option<Applied>> {
        let Precondition::Version(wanted) = precondition else {
            return Ok(None);
        };
        let met = self.shared.known.object(path);
        let Some(before) = met.filter(|met| met.tag == wanted.as_str() && met.metadata.target.is_none()) else {
            return Ok(None);
        };
        super::keys::refuse_reserved(path)?;
        let put = Put {
            path,
            source: Source::Content(content),
            metadata: self.metadata_for(Some(&before), mode),
            before: Some(&before),
        };
        match self.put(put).await {
            Ok(object) => Ok(Some(applied(&object, false))),
            // The write starts over, so that the error describes the file as it is now.
            Err(Refusal::Conflict(_)) => {
                self.shared.known.forget(path);
                Ok(None)
            }
            Err(Refusal::Failed(failure)) => Err(failed(path, failure)),
        }
    }

    pub(super) async fn append(
        &self,
        path: &WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> Result<Applied> {
        for round in 1..=MAX_ROUNDS {
            let (located, met) = self.meet(path, create).await?;
            let Some(before) = self.check_file(&located, precondition)? else {
                if !create {
                    return Err(located.missing().hint("set `create` to make the file"));
                }
                return self.append_new(path, &located, content, precondition).await;
            };
            if content.is_empty() {
                return Ok(applied(&before, false));
            }
            let outcome = match met {
                Some(bytes) => self.put_longer(&located.path, &before, &bytes, content).await,
                // The content changed while it was read, and the file is too short to be a part of an upload.
                None if before.size <= ONE_PIECE => Err(Refusal::Conflict(None)),
                None => self.extend(&located.path, &before, content).await,
            };
            match outcome {
                Ok(object) => return Ok(applied(&object, false)),
                // The file was replaced after it was found.
                Err(Refusal::Conflict(_) | Refusal::Failed(Failure::Precondition | Failure::NotFound)) => {
                    self.next_round(&located.path, round).await;
                }
                Err(Refusal::Failed(failure)) => return Err(failed(&located.path, failure)),
            }
        }
        Err(too_busy(path))
    }

    /// Finds the file to append to, with its content if that is small and did not change while it was read. It takes
    /// one request if the file is at its own key.
    async fn meet(&self, path: &WsPath, create: bool) -> Result<(Located, Option<Bytes>)> {
        if !path.is_root()
            && !self.shared.known.is_free(path)
            && let Some(met) = self.get_small(path).await?
        {
            return Ok(met);
        }
        let located = self.locate_file(path, create).await?;
        // A link was followed, or the file was made just now: read it at its own key.
        if let Found::File(object) = &located.found
            && object.size <= ONE_PIECE
            && let Some(met) = self.get_small(&located.path).await?
        {
            return Ok(met);
        }
        Ok((located, None))
    }

    /// Reads the file at exactly this path; `None` if there is no file, or it changed while it was read. A file that is
    /// too large comes without its content.
    async fn get_small(&self, path: &WsPath) -> Result<Option<(Located, Option<Bytes>)>> {
        let key = self.shared.layout.file(path)?;
        let got = match self.shared.bucket.get(&key, None, None).await {
            Ok(got) => got,
            Err(Failure::NotFound) => return Ok(None),
            Err(failure) => return Err(failed(path, failure)),
        };
        let found = found(got.object.clone());
        if !matches!(found, Found::File(_)) {
            return Ok(None);
        }
        let located = Located {
            path: path.clone(),
            found,
        };
        if got.object.size > ONE_PIECE {
            return Ok(Some((located, None)));
        }
        match read::take(self.shared, &key, got, 0).await {
            Ok(bytes) => Ok(Some((located, Some(bytes)))),
            Err(Failure::Precondition | Failure::NotFound | Failure::Range) => Ok(None),
            Err(failure) => Err(failed(path, failure)),
        }
    }

    async fn put_longer(
        &self,
        path: &WsPath,
        before: &Object,
        bytes: &Bytes,
        content: &Bytes,
    ) -> Result<Object, Refusal> {
        let mut joined = BytesMut::with_capacity(bytes.len() + content.len());
        joined.extend_from_slice(bytes);
        joined.extend_from_slice(content);
        let longer = Content::from(joined.freeze());
        let put = Put {
            path,
            source: Source::Content(&longer),
            metadata: before.metadata.clone(),
            before: Some(before),
        };
        self.put(put).await
    }

    /// Appends to a large file on the server: the existing content is copied in parts, and only the new content is
    /// sent.
    async fn extend(&self, path: &WsPath, before: &Object, content: &Bytes) -> Result<Object, Refusal> {
        let put = Put {
            path,
            source: Source::Longer {
                object: before,
                content,
            },
            metadata: before.metadata.clone(),
            before: Some(before),
        };
        self.put(put).await
    }

    /// Makes the file with the first bytes; if another writer was quicker, appends to its file.
    async fn append_new(
        &self,
        path: &WsPath,
        located: &Located,
        content: &Bytes,
        precondition: &Precondition,
    ) -> Result<Applied> {
        need_parent(located, true)?;
        let content_to_write = Content::from(content.clone());
        let put = Put {
            path: &located.path,
            source: Source::Content(&content_to_write),
            metadata: self.metadata_for(None, None),
            before: None,
        };
        match self.put(put).await {
            Ok(object) => Ok(applied(&object, true)),
            Err(Refusal::Conflict(now)) if *precondition == Precondition::Absent => {
                Err(precondition.refusal(&located.path, now.map(|now| version(&now))))
            }
            Err(Refusal::Conflict(_)) => {
                self.shared.known.forget(&located.path);
                Box::pin(self.append(path, content, precondition, true)).await
            }
            Err(Refusal::Failed(failure)) => Err(failed(&located.path, failure)),
        }
    }

    async fn locate_file(&self, path: &WsPath, parents: bool) -> Result<Located> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        let way = self.way(Last::Followed);
        self.shared.locate_for_write(path, way, parents).await
    }

    /// Returns the file at the location, if any, after checking the precondition; refuses an entry of another kind.
    fn check_file(&self, located: &Located, precondition: &Precondition) -> Result<Option<Object>> {
        let before = match &located.found {
            Found::File(object) => Some(object.clone()),
            Found::Nothing { .. } => None,
            _ => return Err(not_a_file(located)),
        };
        precondition.check(&located.path, before.as_ref().map(version).as_ref())?;
        Ok(before)
    }

    /// Returns the metadata of an object that replaces `before`.
    pub(super) fn metadata_for(&self, before: Option<&Object>, mode: Option<u32>) -> Metadata {
        let metadata = match before {
            Some(before) => before.metadata.clone(),
            None => Metadata::new(self.shared.clock.now()),
        };
        Metadata {
            mode: mode.map(|mode| mode & 0o7777).or(metadata.mode),
            target: None,
            ..metadata
        }
    }

    async fn next_round(&self, path: &WsPath, round: u32) {
        self.shared.known.forget(path);
        self.shared.bucket.wire.pause(round.min(4)).await;
    }

    /// Writes an object in place of `before`, and records how to revert it.
    pub(super) async fn put(&self, put: Put<'_>) -> Result<Object, Refusal> {
        self.shared.check_server()?;
        let key = self.shared.layout.file(put.path).map_err(Failure::Local)?;
        let saved = match put.before {
            Some(before) => self.save(put.path, &key, before).await.map_err(Failure::Local)?,
            None => None,
        };
        let condition = match put.before {
            Some(before) => Condition::Tag(&before.tag),
            None => Condition::Absent,
        };
        let object = self.shared.store(&key, put.source, put.metadata, condition).await?;
        self.shared.known.wrote(put.path, &object);
        match (put.before, saved) {
            (None, _) => self.note(Undo::Made {
                key,
                object: object.clone(),
            }),
            (Some(_), Some(before)) => self.note(Undo::Replaced {
                key,
                object: object.clone(),
                before,
            }),
            (Some(_), None) => {}
        }
        Ok(object)
    }
}

/// The parameters of a write.
pub(super) struct Put<'a> {
    pub(super) path: &'a WsPath,
    pub(super) source: Source<'a>,
    pub(super) metadata: Metadata,
    /// The object that is there now, and must still be there.
    pub(super) before: Option<&'a Object>,
}

/// Refuses an entry below a file, and one whose directory is missing and may not be made.
pub(super) fn need_parent(located: &Located, parents: bool) -> Result<()> {
    // No directory is made here: it exists as soon as a key lies below it.
    match located.found {
        Found::Blocked => Err(Error::not_a_directory(&located.path)),
        Found::Nothing { has_parent: false } if !parents => {
            Err(Error::not_found(&located.path.parent().unwrap_or_else(WsPath::root)))
        }
        _ => Ok(()),
    }
}

pub(super) fn applied(object: &Object, created: bool) -> Applied {
    let target = object.metadata.target.as_ref();
    Applied {
        version: target.is_none().then(|| version(object)),
        size: target.map_or(object.size, |target| target.len() as u64),
        created,
    }
}

fn too_busy(path: &WsPath) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("other programs keep changing {}", path.quoted()),
    )
    .at(path)
}
