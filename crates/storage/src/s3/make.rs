//! Making directories and links, and setting modes.

use garret_core::path::check_target;
use garret_core::{Applied, Content, Error, ErrorKind, Result, WsPath};

use super::batch::Work;
use super::locate::{Found, Last, Located, failed};
use super::metadata::Metadata;
use super::remove::root_is_kept;
use super::store::{Refusal, Source};
use super::write::{Put, applied, need_parent};

const MAX_ROUNDS: u32 = 50;

impl Work<'_> {
    pub(super) async fn make_dir(&self, path: &WsPath, parents: bool) -> Result<Applied> {
        let made = Applied {
            version: None,
            size: 0,
            created: true,
        };
        let located = self.shared.locate(path, self.way(Last::Followed)).await?;
        match located.found {
            Found::Directory { .. } if parents => return Ok(Applied { created: false, ..made }),
            Found::Directory { .. } | Found::File(_) | Found::Link(_) => {
                return Err(Error::already_exists(&located.path));
            }
            Found::Nothing { .. } | Found::Blocked => need_parent(&located, parents)?,
        }
        let metadata = Metadata::new(self.shared.clock.now());
        self.put_marker(&located.path, metadata).await?;
        Ok(made)
    }

    pub(super) async fn make_link(&self, path: &WsPath, target: &str) -> Result<Applied> {
        check_target(target).map_err(|error| error.at(path))?;
        let located = self.locate_free(path).await?;
        let metadata = Metadata {
            target: Some(target.to_owned()),
            ..Metadata::new(self.shared.clock.now())
        };
        let nothing = Content::default();
        let put = Put {
            path: &located.path,
            source: Source::Content(&nothing),
            metadata,
            before: None,
        };
        match self.put(put).await {
            Ok(object) => Ok(applied(&object, true)),
            Err(Refusal::Conflict(_)) => Err(Error::already_exists(&located.path)),
            Err(Refusal::Failed(failure)) => Err(failed(&located.path, failure)),
        }
    }

    async fn locate_free(&self, path: &WsPath) -> Result<Located> {
        let located = self.shared.locate(path, self.way(Last::Kept)).await?;
        match located.found {
            Found::Nothing { .. } | Found::Blocked => need_parent(&located, true)?,
            _ => return Err(Error::already_exists(&located.path)),
        }
        Ok(located)
    }

    pub(super) async fn set_mode(&self, path: &WsPath, mode: u32) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("changed"));
        }
        for round in 1..=MAX_ROUNDS {
            let located = self.shared.locate(path, self.way(Last::Followed)).await?;
            let object = match &located.found {
                Found::File(object) => object,
                Found::Directory { has_marker } => return self.set_marker_mode(&located.path, *has_marker, mode).await,
                Found::Link(_) => return Err(Error::path_escape(&located.path)),
                Found::Nothing { .. } | Found::Blocked => return Err(located.missing()),
            };
            let key = self.shared.layout.file(&located.path)?;
            let put = Put {
                path: &located.path,
                source: Source::Copy { key: &key, object },
                metadata: self.metadata_for(Some(object), Some(mode)),
                before: Some(object),
            };
            match self.put(put).await {
                Ok(object) => return Ok(applied(&object, false)),
                Err(Refusal::Conflict(_)) => self.shared.bucket.wire.pause(round.min(4)).await,
                Err(Refusal::Failed(failure)) => return Err(failed(&located.path, failure)),
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", path.quoted()),
        )
        .at(path))
    }

    async fn set_marker_mode(&self, path: &WsPath, has_marker: bool, mode: u32) -> Result<Applied> {
        let key = self.shared.layout.directory(path);
        let before = if has_marker {
            self.shared
                .bucket
                .head(&key)
                .await
                .map_err(|failure| failed(path, failure))?
        } else {
            None
        };
        let metadata = Metadata {
            mode: Some(mode & 0o7777),
            ..before
                .as_ref()
                .map(|before| before.metadata.clone())
                .unwrap_or_default()
        };
        match before {
            None => self.put_marker(path, metadata).await?,
            Some(before) => self.replace_marker(path, &key, before, metadata).await?,
        }
        Ok(Applied {
            version: None,
            size: 0,
            created: false,
        })
    }
}
