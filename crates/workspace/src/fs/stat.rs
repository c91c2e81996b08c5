//! Looking at an entry without reading it.

use garret_core::{Access, ErrorKind, Result, StatOptions};

use crate::admission::PathSubject;
use crate::file_access::FileAccess;
use crate::fs::shown_time;
use crate::{Existence, FileStat, Workspace};

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
