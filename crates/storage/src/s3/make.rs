//! Making directories and links, and setting modes.

use garret_core::path::check_target;
use garret_core::{Content, Error, ErrorKind, MutationOutcome, Result, WsPath};

use super::batch::S3BatchRun;
use super::conditional_write::{ObjectSource, ObjectWriteError};
use super::locate::{S3EntryLocation, S3FinalLink, S3FoundEntry, error_at_path};
use super::metadata::ObjectMetadata;
use super::write::{ObjectWrite, applied_object, require_parent};

const MAX_ROUNDS: u32 = 50;

impl S3BatchRun<'_> {
    pub(super) async fn make_dir(&self, path: &WsPath, parents: bool) -> Result<MutationOutcome> {
        let made = MutationOutcome {
            version: None,
            size: 0,
            created: true,
            change: None,
        };
        let located = self
            .shared
            .locate_entry(path, self.link_rules(S3FinalLink::Followed))
            .await?;
        match located.found {
            S3FoundEntry::Directory { .. } if parents => return Ok(MutationOutcome { created: false, ..made }),
            S3FoundEntry::Directory { .. } | S3FoundEntry::File(_) | S3FoundEntry::Link(_) => {
                return Err(Error::already_exists(&located.path));
            }
            S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => require_parent(&located, parents)?,
        }
        let metadata = ObjectMetadata::new(self.shared.clock.now());
        self.put_marker(&located.path, metadata).await?;
        Ok(made)
    }

    pub(super) async fn make_link(&self, path: &WsPath, target: &str) -> Result<MutationOutcome> {
        check_target(target).map_err(|error| error.at_path(path))?;
        let located = self.locate_free(path).await?;
        let metadata = ObjectMetadata {
            target: Some(target.to_owned()),
            ..ObjectMetadata::new(self.shared.clock.now())
        };
        let nothing = Content::default();
        let put = ObjectWrite {
            path: &located.path,
            source: ObjectSource::Content(&nothing),
            metadata,
            before: None,
        };
        match self.put_object(put).await {
            Ok(object) => Ok(applied_object(&object, true)),
            Err(ObjectWriteError::Conflict(_)) => Err(Error::already_exists(&located.path)),
            Err(ObjectWriteError::Failed(failure)) => Err(error_at_path(&located.path, failure)),
        }
    }

    async fn locate_free(&self, path: &WsPath) -> Result<S3EntryLocation> {
        let located = self
            .shared
            .locate_entry(path, self.link_rules(S3FinalLink::Kept))
            .await?;
        match located.found {
            S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => require_parent(&located, true)?,
            _ => return Err(Error::already_exists(&located.path)),
        }
        Ok(located)
    }

    pub(super) async fn set_mode(&self, path: &WsPath, mode: u32) -> Result<MutationOutcome> {
        if path.is_root() {
            return Err(Error::root_denied("changed"));
        }
        for round in 1..=MAX_ROUNDS {
            let located = self
                .shared
                .locate_entry(path, self.link_rules(S3FinalLink::Followed))
                .await?;
            let object = match &located.found {
                S3FoundEntry::File(object) => object,
                S3FoundEntry::Directory { has_marker } => {
                    return self.set_marker_mode(&located.path, *has_marker, mode).await;
                }
                S3FoundEntry::Link(_) => return Err(Error::path_escape(&located.path)),
                S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => return Err(located.missing_error()),
            };
            let key = self.shared.layout.file_key(&located.path)?;
            let put = ObjectWrite {
                path: &located.path,
                source: ObjectSource::Copy { key: &key, object },
                metadata: self.metadata_for(Some(object), Some(mode)),
                before: Some(object),
            };
            match self.put_object(put).await {
                Ok(object) => return Ok(applied_object(&object, false)),
                Err(ObjectWriteError::Conflict(_)) => self.shared.bucket.wire.pause_before_retry(round.min(4)).await,
                Err(ObjectWriteError::Failed(failure)) => return Err(error_at_path(&located.path, failure)),
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", path.to_quoted()),
        )
        .at_path(path))
    }

    async fn set_marker_mode(&self, path: &WsPath, has_marker: bool, mode: u32) -> Result<MutationOutcome> {
        let key = self.shared.layout.directory_key(path);
        let before = if has_marker {
            self.shared
                .bucket
                .head(&key)
                .await
                .map_err(|failure| error_at_path(path, failure))?
        } else {
            None
        };
        let metadata = ObjectMetadata {
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
        Ok(MutationOutcome {
            version: None,
            size: 0,
            created: false,
            change: None,
        })
    }
}
