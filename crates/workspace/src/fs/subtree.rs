//! All entries below a directory, for operations on whole trees.

use garret_core::{
    Access, Entry, EntryKind, Error, ErrorKind, Follow, ListAllOptions, Result, Stat, StatOptions, WsPath, list_all,
};

use crate::admission::AdmittedPath;
use crate::file_access::FileAccess;

impl FileAccess {
    /// Describes the entry at a path of the storage, without its version.
    pub(crate) async fn stat_entry(&self, path: &WsPath, follow: Follow) -> Result<Stat> {
        let options = StatOptions {
            follow,
            with_version: false,
        };
        self.storage().stat(path, options).await
    }

    /// Returns the kind of the entry at an admitted path itself.
    pub(crate) async fn kind_of(&self, target: &AdmittedPath) -> Result<EntryKind> {
        self.stat_entry(&target.real, target.follow).await.map(|stat| stat.kind)
    }

    /// Returns all entries below `directory`, in order.
    pub(crate) async fn entries_below(&self, directory: &WsPath, follow: Follow) -> Result<Vec<Entry>> {
        let all = ListAllOptions {
            is_deep: true,
            follow,
            limit: None,
        };
        list_all(self.storage(), directory, &all)
            .await
            .map(|listed| listed.entries)
    }

    /// Refuses an operation on the whole tree at `directory` if the policy denies it for one of the entries. The error
    /// does not name an entry that lists do not show.
    pub(crate) async fn check_subtree(&self, directory: &WsPath, entries: &[Entry], accesses: &[Access]) -> Result<()> {
        if !self.view.is_restricted() {
            return Ok(());
        }
        // Each entry is checked and not the directory alone: moved or copied, a denied file would get a name that no
        // rule denies.
        for entry in entries {
            match entry.path.as_path() {
                Some(path) => {
                    self.view.check_rules(path, accesses).map_err(|refusal| {
                        if self.view.is_visible(path, entry.kind == EntryKind::Directory) {
                            refusal
                        } else {
                            hidden_entry_error(directory, &refusal)
                        }
                    })?;
                    self.hard_links().check_file(path, entry.hard_linked).await?;
                }
                None if self.view.is_entry_visible(&entry.path, false) => {}
                None => {
                    return Err(Error::new(
                        ErrorKind::Denied,
                        "a name in it is not UTF-8, so the policy cannot be checked",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The refusal for a tree that holds an entry which the caller may not know of. It names the kind of the rule and
/// nothing else.
fn hidden_entry_error(directory: &WsPath, refusal: &Error) -> Error {
    let rule = refusal.refused_by().unwrap_or("the policy");
    // Only the name of the rule: its pattern may contain the hidden path.
    let rule = rule.split([' ', '=', ':']).next().unwrap_or(rule);
    let message = format!(
        "{} contains a path that the rule `{rule}` denies",
        directory.to_quoted()
    );
    Error::new(ErrorKind::Denied, message)
        .at_path(directory)
        .with_rule(rule)
        .hint("name the listed entries one by one")
}
