//! Writing a file.

use bytes::{Bytes, BytesMut};
use garret_core::{Content, Error, ErrorKind, MutationOutcome, Precondition, Result, WsPath};

use super::batch::S3BatchRun;
use super::bucket::{S3Object, WriteCondition};
use super::conditional_write::{ONE_PIECE, ObjectSource, ObjectWriteError};
use super::locate::{S3EntryLocation, S3FinalLink, S3FoundEntry, entry_of_object, error_at_path};
use super::metadata::ObjectMetadata;
use super::read;
use super::stat::{not_a_file, version_of};
use super::undo::S3UndoStep;
use super::wire::failure::S3RequestError;

/// The number of times that a change is repeated on an object that another writer has changed meanwhile.
const MAX_ROUNDS: u32 = 1_000;

impl S3BatchRun<'_> {
    pub(super) async fn write(
        &self,
        path: &WsPath,
        content: &Content,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<MutationOutcome> {
        if let Some(applied) = self.replace_known(path, content, precondition, mode).await? {
            return Ok(applied);
        }
        for round in 1..=MAX_ROUNDS {
            let located = self.locate_file(path, parents).await?;
            let before = self.check_file(&located, precondition)?;
            if before.is_none() {
                require_parent(&located, parents)?;
            }
            let metadata = self.metadata_for(before.as_ref(), mode);
            let put = ObjectWrite {
                path: &located.path,
                source: ObjectSource::Content(content),
                metadata,
                before: before.as_ref(),
            };
            match self.put_object(put).await {
                Ok(object) => return Ok(applied_object(&object, before.is_none())),
                Err(ObjectWriteError::Conflict(_)) if *precondition == Precondition::Any => {
                    self.next_round(&located.path, round).await;
                }
                Err(ObjectWriteError::Conflict(now)) => {
                    self.shared.known.forget_tree(&located.path);
                    return Err(precondition.conflict_error(&located.path, now.map(|now| version_of(&now))));
                }
                Err(ObjectWriteError::Failed(failure)) => return Err(error_at_path(&located.path, failure)),
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
    ) -> Result<Option<MutationOutcome>> {
        let Precondition::Version(wanted) = precondition else {
            return Ok(None);
        };
        let met = self.shared.known.object(path);
        let Some(before) = met.filter(|met| met.tag == wanted.as_str() && met.metadata.target.is_none()) else {
            return Ok(None);
        };
        super::keys::refuse_reserved(path)?;
        let put = ObjectWrite {
            path,
            source: ObjectSource::Content(content),
            metadata: self.metadata_for(Some(&before), mode),
            before: Some(&before),
        };
        match self.put_object(put).await {
            Ok(object) => Ok(Some(applied_object(&object, false))),
            // The write starts over, so that the error describes the file as it is now.
            Err(ObjectWriteError::Conflict(_)) => {
                self.shared.known.forget_tree(path);
                Ok(None)
            }
            Err(ObjectWriteError::Failed(failure)) => Err(error_at_path(path, failure)),
        }
    }

    pub(super) async fn append(
        &self,
        path: &WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> Result<MutationOutcome> {
        for round in 1..=MAX_ROUNDS {
            let (located, met) = self.find_for_append(path, create).await?;
            let Some(before) = self.check_file(&located, precondition)? else {
                if !create {
                    return Err(located.missing_error().hint("set `create` to make the file"));
                }
                return self.append_new(path, &located, content, precondition).await;
            };
            if content.is_empty() {
                return Ok(applied_object(&before, false));
            }
            let outcome = match met {
                Some(bytes) => self.put_extended(&located.path, &before, &bytes, content).await,
                // The content changed while it was read, and the file is too short to be a part of an upload.
                None if before.size <= ONE_PIECE => Err(ObjectWriteError::Conflict(None)),
                None => self.extend_on_server(&located.path, &before, content).await,
            };
            match outcome {
                Ok(object) => return Ok(applied_object(&object, false)),
                // The file was replaced after it was found.
                Err(
                    ObjectWriteError::Conflict(_)
                    | ObjectWriteError::Failed(S3RequestError::Precondition | S3RequestError::NotFound),
                ) => {
                    self.next_round(&located.path, round).await;
                }
                Err(ObjectWriteError::Failed(failure)) => return Err(error_at_path(&located.path, failure)),
            }
        }
        Err(too_busy(path))
    }

    /// Finds the file to append to, with its content if that is small and did not change while it was read. It takes
    /// one request if the file is at its own key.
    async fn find_for_append(&self, path: &WsPath, create: bool) -> Result<(S3EntryLocation, Option<Bytes>)> {
        if !path.is_root()
            && !self.shared.known.is_free(path)
            && let Some(met) = self.read_small_file(path).await?
        {
            return Ok(met);
        }
        let located = self.locate_file(path, create).await?;
        // A link was followed, or the file was made just now: read it at its own key.
        if let S3FoundEntry::File(object) = &located.found
            && object.size <= ONE_PIECE
            && let Some(met) = self.read_small_file(&located.path).await?
        {
            return Ok(met);
        }
        Ok((located, None))
    }

    /// Reads the file at exactly this path; `None` if there is no file, or it changed while it was read. A file that is
    /// too large comes without its content.
    async fn read_small_file(&self, path: &WsPath) -> Result<Option<(S3EntryLocation, Option<Bytes>)>> {
        let key = self.shared.layout.file_key(path)?;
        let got = match self.shared.bucket.get(&key, None, None).await {
            Ok(got) => got,
            Err(S3RequestError::NotFound) => return Ok(None),
            Err(failure) => return Err(error_at_path(path, failure)),
        };
        let found = entry_of_object(got.object.clone());
        if !matches!(found, S3FoundEntry::File(_)) {
            return Ok(None);
        }
        let located = S3EntryLocation {
            path: path.clone(),
            found,
        };
        if got.object.size > ONE_PIECE {
            return Ok(Some((located, None)));
        }
        match read::read_body(self.shared, &key, got, 0).await {
            Ok(bytes) => Ok(Some((located, Some(bytes)))),
            Err(S3RequestError::Precondition | S3RequestError::NotFound | S3RequestError::Range) => Ok(None),
            Err(failure) => Err(error_at_path(path, failure)),
        }
    }

    async fn put_extended(
        &self,
        path: &WsPath,
        before: &S3Object,
        bytes: &Bytes,
        content: &Bytes,
    ) -> Result<S3Object, ObjectWriteError> {
        let mut joined = BytesMut::with_capacity(bytes.len() + content.len());
        joined.extend_from_slice(bytes);
        joined.extend_from_slice(content);
        let longer = Content::from(joined.freeze());
        let put = ObjectWrite {
            path,
            source: ObjectSource::Content(&longer),
            metadata: before.metadata.clone(),
            before: Some(before),
        };
        self.put_object(put).await
    }

    /// Appends to a large file on the server: the existing content is copied in parts, and only the new content is
    /// sent.
    async fn extend_on_server(
        &self,
        path: &WsPath,
        before: &S3Object,
        content: &Bytes,
    ) -> Result<S3Object, ObjectWriteError> {
        let put = ObjectWrite {
            path,
            source: ObjectSource::Extended {
                object: before,
                content,
            },
            metadata: before.metadata.clone(),
            before: Some(before),
        };
        self.put_object(put).await
    }

    /// Makes the file with the first bytes; if another writer was quicker, appends to its file.
    async fn append_new(
        &self,
        path: &WsPath,
        located: &S3EntryLocation,
        content: &Bytes,
        precondition: &Precondition,
    ) -> Result<MutationOutcome> {
        require_parent(located, true)?;
        let content_to_write = Content::from(content.clone());
        let put = ObjectWrite {
            path: &located.path,
            source: ObjectSource::Content(&content_to_write),
            metadata: self.metadata_for(None, None),
            before: None,
        };
        match self.put_object(put).await {
            Ok(object) => Ok(applied_object(&object, true)),
            Err(ObjectWriteError::Conflict(now)) if *precondition == Precondition::Absent => {
                Err(precondition.conflict_error(&located.path, now.map(|now| version_of(&now))))
            }
            Err(ObjectWriteError::Conflict(_)) => {
                self.shared.known.forget_tree(&located.path);
                Box::pin(self.append(path, content, precondition, true)).await
            }
            Err(ObjectWriteError::Failed(failure)) => Err(error_at_path(&located.path, failure)),
        }
    }

    async fn locate_file(&self, path: &WsPath, parents: bool) -> Result<S3EntryLocation> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        let way = self.link_rules(S3FinalLink::Followed);
        self.shared.locate_for_write(path, way, parents).await
    }

    /// Returns the file at the location, if any, after checking the precondition; refuses an entry of another kind.
    fn check_file(&self, located: &S3EntryLocation, precondition: &Precondition) -> Result<Option<S3Object>> {
        let before = match &located.found {
            S3FoundEntry::File(object) => Some(object.clone()),
            S3FoundEntry::Nothing { .. } => None,
            _ => return Err(not_a_file(located)),
        };
        precondition.check_version(&located.path, before.as_ref().map(version_of).as_ref())?;
        Ok(before)
    }

    /// Returns the metadata of an object that replaces `before`.
    pub(super) fn metadata_for(&self, before: Option<&S3Object>, mode: Option<u32>) -> ObjectMetadata {
        let metadata = match before {
            Some(before) => before.metadata.clone(),
            None => ObjectMetadata::new(self.shared.clock.now()),
        };
        ObjectMetadata {
            mode: mode.map(|mode| mode & 0o7777).or(metadata.mode),
            target: None,
            ..metadata
        }
    }

    async fn next_round(&self, path: &WsPath, round: u32) {
        self.shared.known.forget_tree(path);
        self.shared.bucket.wire.pause_before_retry(round.min(4)).await;
    }

    /// Writes an object in place of `before`, and records how to revert it.
    pub(super) async fn put_object(&self, put: ObjectWrite<'_>) -> Result<S3Object, ObjectWriteError> {
        self.shared.check_server()?;
        let key = self.shared.layout.file_key(put.path).map_err(S3RequestError::Local)?;
        let saved = match put.before {
            Some(before) => self
                .save_object(put.path, &key, before)
                .await
                .map_err(S3RequestError::Local)?,
            None => None,
        };
        let condition = match put.before {
            Some(before) => WriteCondition::Tag(&before.tag),
            None => WriteCondition::Absent,
        };
        let object = self
            .shared
            .store_object(&key, put.source, put.metadata, condition)
            .await?;
        self.shared.known.remember_write(put.path, &object);
        match (put.before, saved) {
            (None, _) => self.record_undo(S3UndoStep::Made {
                key,
                object: object.clone(),
            }),
            (Some(_), Some(before)) => self.record_undo(S3UndoStep::Replaced {
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
pub(super) struct ObjectWrite<'a> {
    pub(super) path: &'a WsPath,
    pub(super) source: ObjectSource<'a>,
    pub(super) metadata: ObjectMetadata,
    /// The object that is there now, and must still be there.
    pub(super) before: Option<&'a S3Object>,
}

/// Refuses an entry below a file, and one whose directory is missing and may not be made.
pub(super) fn require_parent(located: &S3EntryLocation, parents: bool) -> Result<()> {
    // No directory is made here: it exists as soon as a key lies below it.
    match located.found {
        S3FoundEntry::Blocked => Err(Error::not_a_directory(&located.path)),
        S3FoundEntry::Nothing { has_parent: false } if !parents => {
            Err(Error::not_found(&located.path.parent().unwrap_or_else(WsPath::root)))
        }
        _ => Ok(()),
    }
}

pub(super) fn applied_object(object: &S3Object, created: bool) -> MutationOutcome {
    let target = object.metadata.target.as_ref();
    MutationOutcome {
        version: target.is_none().then(|| version_of(object)),
        size: target.map_or(object.size, |target| target.len() as u64),
        created,
        change: None,
    }
}

fn too_busy(path: &WsPath) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("other programs keep changing {}", path.to_quoted()),
    )
    .at_path(path)
}
