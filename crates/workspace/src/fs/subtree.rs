//! Everything below a directory, for operations on whole trees.

use garret_core::{Access, Entry, EntryKind, Error, ErrorKind, Follow, ListOptions, Result, StatOptions, WsPath};

use crate::Workspace;
use crate::admit::Target;

impl Workspace {
    /// What is at an admitted path itself.
    pub(crate) async fn kind_of(&self, target: &Target) -> Result<EntryKind> {
        let options = StatOptions {
            follow: target.follow,
            with_version: false,
        };
        self.storage().stat(&target.real, options).await.map(|stat| stat.kind)
    }

    /// All entries below `directory`, in order.
    pub(crate) async fn entries_below(&self, directory: &WsPath, follow: Follow) -> Result<Vec<Entry>> {
        let mut options = ListOptions {
            is_deep: true,
            limit: 10_000,
            follow,
            ..ListOptions::default()
        };
        let mut entries = Vec::new();
        loop {
            let page = self.storage().list(directory, options.clone()).await?;
            options.after = page.entries.last().map(|entry| entry.path.clone());
            entries.extend(page.entries);
            if !page.has_more {
                return Ok(entries);
            }
        }
    }

    /// Refuses an operation on a whole tree that holds a path which the policy keeps from it: moved or copied, a denied file would
    /// get a name that no rule denies.
    pub(crate) fn check_subtree(&self, entries: &[Entry], accesses: &[Access]) -> Result<()> {
        if !self.is_fenced() {
            return Ok(());
        }
        for entry in entries {
            match entry.path.as_path() {
                Some(path) => self.check_rules(path, accesses)?,
                None if self.is_entry_visible(&entry.path, false) => {}
                None => {
                    return Err(Error::new(
                        ErrorKind::Denied,
                        "a name in it is not UTF-8, so the rules cannot be checked",
                    ));
                }
            }
        }
        Ok(())
    }
}
