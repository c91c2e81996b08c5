//! Copying files and directories.

use garret_core::{Access, Entry, EntryKind, Error, ErrorKind, Follow, Mutation, Result, WsPath};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::{TransferOptions, TransferResult, Workspace};

impl Workspace {
    /// Copies a file, or a directory with everything below it, as one change. Links are copied as links.
    pub async fn copy(&self, src: &str, dest: &str, options: TransferOptions) -> Result<TransferResult> {
        let files = self.files.remembering_hard_links();
        self.run_operation("copy", &[src, dest], |_| 0, files.copy_entry(src, dest, options))
            .await
    }
}

impl FileAccess {
    async fn copy_entry(&self, src: &str, dest: &str, options: TransferOptions) -> Result<TransferResult> {
        let from = self.admit(src, PathSubject::Content, &[Access::Read]).await?;
        let to = self.admit_creation(dest, PathSubject::Entry, &[Access::Write]).await?;
        let real = AdmittedPath {
            real: self.follow_links(&from).await?,
            ..from.clone()
        };
        self.check_slash(&real, dest, &to).await?;
        let words = format!("copy {} to {}", real.real.to_quoted(), to.real.to_quoted());
        let (mutations, files) = match self.kind_of(&real).await? {
            EntryKind::Directory => self.plan_tree(&real, &to, options).await?,
            _ => (vec![copy_file(real.real, to.real, options)], 1),
        };
        let is_tree = mutations.len() > 1 || matches!(mutations[0], Mutation::MakeDir { .. });
        // For one file, the history writes the summary from the mutation.
        let origin = self.change_origin("copy", if is_tree { words } else { String::new() });
        let mut applied = self.commit_with_origin(origin, mutations, from.follow).await?;
        let applied = applied.swap_remove(0);
        Ok(TransferResult {
            src: from.shown.to_string(),
            dest: to.shown.to_string(),
            files,
            version: applied.version.filter(|_| !is_tree),
            change: applied.change,
        })
    }

    /// Returns the mutations that copy a directory, and the number of its files.
    async fn plan_tree(
        &self,
        from: &AdmittedPath,
        to: &AdmittedPath,
        options: TransferOptions,
    ) -> Result<(Vec<Mutation>, u64)> {
        if to.real.is_within(&from.real) {
            return Err(
                Error::invalid(format!("{} cannot be copied into itself", from.shown.to_quoted()))
                    .at_path(&from.shown)
                    .hint(format!("choose a destination outside {}", from.shown.to_quoted())),
            );
        }
        self.check_free(to, options).await?;
        let entries = self.entries_below(&from.real, from.follow).await?;
        self.check_subtree(&from.shown, &entries, &[Access::Read]).await?;
        let mut mutations = vec![Mutation::MakeDir {
            path: to.real.clone(),
            parents: true,
        }];
        for entry in &entries {
            let path = self.utf8_path(entry)?;
            let copy = path
                .relative_to(&from.real)
                .expect("it was listed below")
                .rebase_below(&to.real)?;
            self.view.check_rules(&copy, &[Access::Write])?;
            mutations.push(self.plan_entry(entry.kind, path, copy, from.follow).await?);
        }
        let files = entries.iter().filter(|entry| entry.kind == EntryKind::File).count() as u64;
        Ok((mutations, files))
    }

    async fn plan_entry(&self, kind: EntryKind, from: &WsPath, to: WsPath, follow: Follow) -> Result<Mutation> {
        match kind {
            EntryKind::Directory => Ok(Mutation::MakeDir {
                path: to,
                parents: true,
            }),
            EntryKind::File => Ok(copy_file(from.clone(), to, TransferOptions { overwrite: false })),
            EntryKind::Symlink => {
                let stat = self.stat_entry(from, follow).await?;
                Ok(Mutation::Symlink {
                    path: to,
                    target: stat.target.unwrap_or_default(),
                })
            }
            EntryKind::Other => {
                let message = format!(
                    "{} is a special file and cannot be copied",
                    self.view.relative_path(from).to_quoted()
                );
                Err(Error::new(ErrorKind::Unsupported, message).at_path(&self.view.relative_path(from)))
            }
        }
    }

    /// Refuses a destination that is taken: a directory can be copied to a new path, or onto an empty directory.
    async fn check_free(&self, to: &AdmittedPath, options: TransferOptions) -> Result<()> {
        match self.kind_of(to).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(_) if !options.overwrite => Err(Error::already_exists(&to.shown).hint("set `overwrite` to replace it")),
            Ok(EntryKind::Directory) if self.entries_below(&to.real, to.follow).await?.is_empty() => Ok(()),
            Ok(EntryKind::Directory) => Err(Error::not_empty(&to.shown).hint("remove it first, or copy to a new name")),
            Ok(_) => Err(Error::not_a_directory(&to.shown)),
        }
    }

    fn utf8_path<'a>(&self, entry: &'a Entry) -> Result<&'a WsPath> {
        entry.path.as_path().ok_or_else(|| {
            let shown = self.view.relative_entry_path(&entry.path).display_path();
            let message = format!(
                "the name {} is not UTF-8, so it cannot be copied",
                garret_core::path::quote(&shown)
            );
            Error::new(ErrorKind::Unsupported, message).at_path_text(shown)
        })
    }
}

fn copy_file(from: WsPath, to: WsPath, options: TransferOptions) -> Mutation {
    Mutation::Copy {
        from,
        to,
        overwrite: options.overwrite,
        parents: true,
    }
}
