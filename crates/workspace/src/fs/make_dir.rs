//! Making directories.

use garret_core::{Access, Error, ErrorKind, Mutation, Result};

use crate::admission::PathSubject;
use crate::{MakeDirResult, Workspace};

impl Workspace {
    /// Makes a directory. With `parents`, missing directories above are made too, and an existing directory is no
    /// error.
    pub async fn make_dir(&self, path: &str, parents: bool) -> Result<MakeDirResult> {
        let work = async {
            let target = self
                .files
                .admit_creation(path, PathSubject::Content, &[Access::Write])
                .await?;
            let mutation = Mutation::MakeDir {
                path: target.real,
                parents,
            };
            let applied = self.files.commit_mutation("mkdir", mutation, target.follow).await;
            let applied = applied.map_err(|error| with_hint(error, parents))?;
            Ok(MakeDirResult {
                path: target.shown.to_string(),
                created: applied.created,
                change: applied.change,
            })
        };
        self.run_operation("mkdir", &[path], |_| 0, work).await
    }
}

/// Adds a hint to an error of the storage.
fn with_hint(error: Error, parents: bool) -> Error {
    // Without `parents`, only a directory above can be missing.
    if error.kind() == ErrorKind::NotFound && !parents {
        return error.hint("set `parents` to make the directories above, too");
    }
    match error.kind() {
        ErrorKind::AlreadyExists => error.hint("choose another name"),
        _ => error,
    }
}
