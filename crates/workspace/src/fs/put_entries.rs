//! Putting several files, directories and links into a workspace at once.

use garret_core::{Access, Content, EntryKind, Error, ErrorKind, Follow, Mutation, Precondition, Result, WsPath};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::fs::permissions::check_mode;
use crate::{PutResult, Workspace};

/// An entry to put into a workspace.
#[derive(Debug, Clone)]
pub struct PutEntry {
    /// Its path; missing directories above it are made.
    pub path: String,
    /// The file, directory or link to put there.
    pub item: PutItem,
}

/// The file, directory or link that is put at a path.
#[derive(Debug, Clone)]
pub enum PutItem {
    /// A file with all of its content. It replaces an existing file.
    File {
        /// The content.
        content: Content,
        /// Permission bits, up to 0777.
        mode: Option<u32>,
    },
    /// A directory; an existing one stays as it is.
    Directory,
    /// A symbolic link. It replaces an existing file or link.
    Symlink {
        /// The target of the link, as written.
        target: String,
    },
}

impl Workspace {
    /// Puts every entry at its path, as one change: all of them, or none. Each entry needs the approval of
    /// `write_file`.
    pub async fn put_entries(&self, entries: Vec<PutEntry>) -> Result<PutResult> {
        let names: Vec<String> = entries.iter().map(|entry| entry.path.clone()).collect();
        let paths: Vec<&str> = names.iter().map(String::as_str).collect();
        let files = self.files.remembering_hard_links();
        self.run_operation(
            "write_file",
            &paths,
            |put: &PutResult| put.bytes,
            files.put_all(entries),
        )
        .await
    }
}

impl FileAccess {
    async fn put_all(&self, entries: Vec<PutEntry>) -> Result<PutResult> {
        let mut put = PutResult::default();
        let mut mutations = Vec::with_capacity(entries.len());
        let (mut follow, mut first) = (Follow::default(), None);
        for entry in entries {
            let names = match entry.item {
                PutItem::File { .. } => PathSubject::Content,
                PutItem::Directory | PutItem::Symlink { .. } => PathSubject::Entry,
            };
            let target = self.admit_creation(&entry.path, names, &[Access::Write]).await?;
            follow = target.follow;
            first.get_or_insert_with(|| target.shown.clone());
            self.plan_put(target, entry.item, &mut put, &mut mutations).await?;
        }
        let Some(first) = first else {
            return Ok(put);
        };
        let origin = self.change_origin("put", put_summary(&put, &first));
        let applied = self.commit_with_origin(origin, mutations, follow).await?;
        put.change = applied.into_iter().find_map(|one| one.change);
        Ok(put)
    }

    async fn plan_put(
        &self,
        target: AdmittedPath,
        item: PutItem,
        put: &mut PutResult,
        mutations: &mut Vec<Mutation>,
    ) -> Result<()> {
        match item {
            PutItem::File { content, mode } => {
                put.files += 1;
                put.bytes += content.len();
                mutations.push(Mutation::Write {
                    path: target.real,
                    content,
                    precondition: Precondition::Any,
                    mode: check_mode(mode)?,
                    parents: true,
                });
            }
            // The root is there already.
            PutItem::Directory if target.shown.is_root() => {}
            PutItem::Directory => {
                put.directories += 1;
                mutations.push(Mutation::MakeDir {
                    path: target.real,
                    parents: true,
                });
            }
            PutItem::Symlink { target: points_to } => {
                put.links += 1;
                self.plan_removal(&target, mutations).await?;
                if let Some(parent) = target.real.parent().filter(|parent| !parent.is_root()) {
                    mutations.push(Mutation::MakeDir {
                        path: parent,
                        parents: true,
                    });
                }
                mutations.push(Mutation::Symlink {
                    path: target.real,
                    target: points_to,
                });
            }
        }
        Ok(())
    }

    /// Adds the removal of a file or a link at the path of a new link.
    async fn plan_removal(&self, target: &AdmittedPath, mutations: &mut Vec<Mutation>) -> Result<()> {
        // The contract's mutation for a link does not replace an entry, so an existing one is removed in the same
        // batch.
        match self.kind_of(target).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
            Err(error) => Err(error),
            Ok(EntryKind::Directory) => Err(Error::is_a_directory(&target.shown).hint("remove the directory first")),
            Ok(_) => {
                mutations.push(Mutation::Remove {
                    path: target.real.clone(),
                    recursive: false,
                    precondition: Precondition::Any,
                });
                Ok(())
            }
        }
    }
}

/// Returns the summary of the change for the history.
fn put_summary(put: &PutResult, first: &WsPath) -> String {
    match put.files + put.directories + put.links {
        0 | 1 => format!("put {}", first.to_quoted()),
        count => format!("put {} and {} more", first.to_quoted(), count - 1),
    }
}
