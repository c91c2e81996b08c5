//! Writing and appending.

use bytes::Bytes;
use garret_core::{Access, Content, Follow, Mutation, MutationOutcome, Precondition, Result, WsPath};

use crate::admission::PathSubject;
use crate::file_access::FileAccess;
use crate::fs::permissions::check_mode;
use crate::{Workspace, WriteResult};

/// How to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The condition on the present file.
    pub precondition: Precondition,
    /// New permission bits, up to 0777; by default, an existing file keeps its own.
    pub mode: Option<u32>,
}

/// How to append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendOptions {
    /// The condition on the present file.
    pub precondition: Precondition,
    /// Whether a missing file is made.
    pub create: bool,
}

impl Default for AppendOptions {
    fn default() -> Self {
        Self {
            precondition: Precondition::Any,
            create: true,
        }
    }
}

impl Workspace {
    /// Replaces the whole content of `path`, and makes missing directories above. Atomic: a reader sees the old content
    /// or the new. Content from a source ([`Content::from_source`]) is stored as it is read, whatever its size; a
    /// source that fails changes nothing.
    pub async fn write(&self, path: &str, content: impl Into<Content>, options: WriteOptions) -> Result<WriteResult> {
        let content = content.into();
        let size = content.len();
        let WriteOptions { precondition, mode } = options;
        // A precondition needs read access: its answer tells whether the content is a known one, and the version that
        // is there.
        let accesses: &[Access] = match precondition {
            Precondition::Any => &[Access::Write],
            _ => &[Access::Read, Access::Write],
        };
        let work = async {
            let mode = check_mode(mode)?;
            let write = |path| Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents: true,
            };
            self.files.put_file("write_file", path, accesses, write).await
        };
        self.run_operation("write_file", &[path], |_| size, work).await
    }

    /// Adds `content` to the end of `path`. Concurrent appends are all kept.
    pub async fn append(&self, path: &str, content: impl Into<Bytes>, options: AppendOptions) -> Result<WriteResult> {
        let content = content.into();
        let size = content.len() as u64;
        let AppendOptions { precondition, create } = options;
        // The answer tells the size and the version of the whole file, so a file that may not be read cannot be
        // appended to.
        let work = self
            .files
            .put_file("append_file", path, &[Access::Read, Access::Write], |path| {
                Mutation::Append {
                    path,
                    content,
                    precondition,
                    create,
                }
            });
        self.run_operation("append_file", &[path], |_| size, work).await
    }
}

impl FileAccess {
    /// Applies one mutation, as a change of its own. Its paths are admitted already.
    pub(crate) async fn commit_mutation(
        &self,
        operation: &'static str,
        mutation: Mutation,
        follow: Follow,
    ) -> Result<MutationOutcome> {
        let applied = self.commit_mutations(operation, vec![mutation], follow).await?;
        Ok(applied.into_iter().next().expect("one mutation has one result"))
    }

    async fn put_file(
        &self,
        operation: &'static str,
        path: &str,
        accesses: &[Access],
        mutation: impl FnOnce(WsPath) -> Mutation,
    ) -> Result<WriteResult> {
        let target = self.admit_creation(path, PathSubject::Content, accesses).await?;
        let mutation = mutation(target.real);
        let applied = self.commit_mutation(operation, mutation, target.follow).await?;
        let path = target.shown.to_string();
        Ok(WriteResult {
            path,
            version: applied.version,
            size: applied.size,
            created: applied.created,
            change: applied.change,
        })
    }
}
