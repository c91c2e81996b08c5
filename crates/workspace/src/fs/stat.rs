//! Looking at an entry without reading it.

use garret_core::{Access, EntryKind, ErrorKind, Result, StatOptions, Version};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Workspace;
use crate::admission::PathSubject;
use crate::file_access::FileAccess;
use crate::fs::shown_time;

/// A description of an entry; a link is described itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileStat {
    /// The entry.
    pub path: String,
    /// What it is.
    pub r#type: EntryKind,
    /// Bytes of content.
    pub size: u64,
    /// Permission bits in octal, where the storage keeps them.
    pub mode: Option<String>,
    /// When it was created, if the storage knows.
    pub created_at: Option<String>,
    /// When it last changed, if the storage knows.
    pub modified_at: Option<String>,
    /// The version of a file; a token for `if_version`.
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Where a link points, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Whether something is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Existence {
    /// Whether something is there.
    pub exists: bool,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<EntryKind>,
}

impl Workspace {
    /// Describes an entry.
    pub async fn stat(&self, path: &str) -> Result<FileStat> {
        self.run_operation("stat", &[path], |_| 0, self.files.describe_entry(path))
            .await
    }

    /// Tells whether something is at `path`. A path that may not be read is `denied`, not absent.
    pub async fn exists(&self, path: &str) -> Result<Existence> {
        let work = async {
            match self.files.describe_entry(path).await {
                Ok(stat) => Ok(Existence {
                    exists: true,
                    r#type: Some(stat.r#type),
                }),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Existence {
                    exists: false,
                    r#type: None,
                }),
                Err(error) => Err(error),
            }
        };
        self.run_operation("exists", &[path], |_| 0, work).await
    }
}

impl FileAccess {
    async fn describe_entry(&self, path: &str) -> Result<FileStat> {
        let target = self.admit(path, PathSubject::Entry, &[Access::Read]).await?;
        let stat = self
            .storage()
            .stat(
                &target.real,
                StatOptions {
                    follow: target.follow,
                    with_version: true,
                },
            )
            .await?;
        self.hard_links().check_file(&target.real, stat.hard_linked).await?;
        Ok(FileStat {
            path: target.shown.to_string(),
            r#type: stat.kind,
            size: stat.size,
            mode: stat.mode.map(|mode| format!("{mode:04o}")),
            created_at: shown_time(stat.created),
            modified_at: shown_time(stat.modified),
            version: stat.version,
            target: stat.target,
        })
    }
}
