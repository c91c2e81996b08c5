//! Moving and copying, on the server.

use garret_core::{Applied, Error, ErrorKind, Result, WsPath};

use super::batch::Work;
use super::bucket::Object;
use super::locate::{Found, Last, Located, failed};
use super::metadata::Metadata;
use super::remove::root_is_kept;
use super::stat::not_a_file;
use super::store::{Refusal, Source};
use super::undo::Saved;
use super::write::{Put, applied, need_parent};

const MAX_ROUNDS: u32 = 50;

impl Work<'_> {
    pub(super) async fn rename(&self, from: &WsPath, to: &WsPath, overwrite: bool, parents: bool) -> Result<Applied> {
        for round in 1..=MAX_ROUNDS {
            if let Some(applied) = self.rename_once(from, to, overwrite, parents).await? {
                return Ok(applied);
            }
            self.shared.known.forget(&WsPath::root());
            self.shared.bucket.wire.pause(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", from.quoted()),
        )
        .at(from))
    }

    /// Tries the move once; returns `None`, with nothing changed, if another program interfered.
    async fn rename_once(&self, from: &WsPath, to: &WsPath, overwrite: bool, parents: bool) -> Result<Option<Applied>> {
        let from = self.shared.locate(from, self.way(Last::Kept)).await?;
        if from.path.is_root() {
            return Err(root_is_kept("moved"));
        }
        if matches!(from.found, Found::Nothing { .. } | Found::Blocked) {
            return Err(from.missing());
        }
        let to = self.shared.locate(to, self.way(Last::Kept)).await?;
        if from.path == to.path {
            return Ok(Some(unmoved(&from)));
        }
        if to.path.is_within(&from.path) {
            let message = format!("{} cannot be moved into itself", from.path.quoted());
            return Err(Error::invalid(message).at(&from.path));
        }
        let is_directory = matches!(from.found, Found::Directory { .. });
        self.make_room(&to, is_directory, overwrite).await?;
        need_parent(&to, parents)?;
        match &from.found {
            Found::File(object) | Found::Link(object) => self.move_object(&from.path, object, &to).await,
            _ => self.move_directory(&from.path, &to).await.map(Some),
        }
    }

    async fn move_object(&self, from: &WsPath, object: &Object, to: &Located) -> Result<Option<Applied>> {
        let Some(moved) = self.copy_object(from, object, to, object.metadata.clone()).await? else {
            return Ok(None);
        };
        // Before the removal: in between, the directory would not exist.
        self.keep_parent(from).await?;
        let saved = Saved::moved(
            object.metadata.clone(),
            self.shared.layout.file(&to.path)?,
            moved.clone(),
        );
        if self.discard_saved(from, object, saved).await? {
            let created = object_at(to).is_none();
            return Ok(Some(applied(&moved, created)));
        }
        // The source was changed or removed while it was copied, so the copy is outdated.
        self.take_back_copy(to, &moved).await?;
        Ok(None)
    }

    /// Copies an object to `to` on the condition that `to` is still as it was found; `None` if it is not.
    async fn copy_object(
        &self,
        from: &WsPath,
        object: &Object,
        to: &Located,
        metadata: Metadata,
    ) -> Result<Option<Object>> {
        let key = self.shared.layout.file(from)?;
        let put = Put {
            path: &to.path,
            source: Source::Copy { key: &key, object },
            metadata,
            before: object_at(to),
        };
        match self.put(put).await {
            Ok(object) => Ok(Some(object)),
            Err(Refusal::Conflict(_)) => Ok(None),
            Err(Refusal::Failed(super::wire::failure::Failure::NotFound)) => Ok(None),
            Err(Refusal::Failed(failure)) => Err(failed(&to.path, failure)),
        }
    }

    async fn take_back_copy(&self, to: &Located, moved: &Object) -> Result<()> {
        // The copy has replaced another file, so removing it would leave nothing there.
        if object_at(to).is_some() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the source was changed while it replaced {}", to.path.quoted()),
            )
            .at(&to.path)
            .hint("check both files"));
        }
        let key = self.shared.layout.file(&to.path)?;
        let outcome = self.shared.discard(&key, moved).await;
        self.shared.known.forget(&to.path);
        outcome.map(|_| ()).map_err(|failure| failed(&to.path, failure))
    }

    pub(super) async fn copy(&self, from: &WsPath, to: &WsPath, overwrite: bool, parents: bool) -> Result<Applied> {
        for round in 1..=MAX_ROUNDS {
            let from = self.shared.locate(from, self.way(Last::Followed)).await?;
            let Found::File(object) = &from.found else {
                return Err(not_a_file(&from));
            };
            let to = self.shared.locate(to, self.way(Last::Kept)).await?;
            if from.path == to.path {
                return Ok(applied(object, false));
            }
            self.make_room(&to, false, overwrite).await?;
            need_parent(&to, parents)?;
            // A copy is a new file, so it gets a new creation time.
            let metadata = Metadata {
                created: Some(self.shared.clock.now()),
                ..object.metadata.clone()
            };
            if let Some(copied) = self.copy_object(&from.path, object, &to, metadata).await? {
                return Ok(applied(&copied, object_at(&to).is_none()));
            }
            self.shared.known.forget(&WsPath::root());
            self.shared.bucket.wire.pause(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", from.quoted()),
        )
        .at(from))
    }

    /// Checks that an entry may be put at `to`.
    async fn make_room(&self, to: &Located, is_directory: bool, overwrite: bool) -> Result<()> {
        if to.path.is_root() {
            return Err(Error::already_exists(&to.path));
        }
        let there = match to.found {
            Found::Nothing { .. } | Found::Blocked => return Ok(()),
            Found::Directory { .. } => true,
            Found::File(_) | Found::Link(_) => false,
        };
        if !overwrite {
            return Err(Error::already_exists(&to.path).hint("set `overwrite` to replace it"));
        }
        match (is_directory, there) {
            (true, true) => self.need_empty(&to.path).await,
            (true, false) => Err(Error::not_a_directory(&to.path)),
            (false, true) => Err(Error::is_a_directory(&to.path)),
            (false, false) => Ok(()),
        }
    }

    async fn need_empty(&self, path: &WsPath) -> Result<()> {
        let marker = self.shared.layout.directory(path);
        let objects = self.objects_of(path).await?;
        if objects.iter().any(|object| object.key != marker) {
            Err(Error::not_empty(path))
        } else {
            Ok(())
        }
    }
}

fn object_at(located: &Located) -> Option<&Object> {
    match &located.found {
        Found::File(object) | Found::Link(object) => Some(object),
        _ => None,
    }
}

fn unmoved(located: &Located) -> Applied {
    object_at(located).map_or(
        Applied {
            version: None,
            size: 0,
            created: false,
        },
        |object| applied(object, false),
    )
}
