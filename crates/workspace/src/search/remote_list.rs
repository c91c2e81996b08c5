//! Lists the files of a storage that has no handles for a search: one list, of no more than can hold a match, with the
//! versions of the files.
//!
//! If a pattern names the directories that every match lies in, only the entries below them are listed. Ignore rules
//! may lie above as well, so their files are looked up one by one.

use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{Entry, EntryKind, ErrorKind, Follow, ListAllOptions, Result, StatOptions, WsPath, list_all};

use super::listed_tree::SearchList;
use super::path_glob::SearchArea;
use super::search_task::SearchScope;
use crate::file_access::FileSource;

/// The names of entries that hold ignore rules.
const RULES: [&str; 3] = [".gitignore", ".ignore", ".git"];

impl FileSource {
    /// Lists the entries that a search covers, and those that hold ignore rules for them.
    pub(super) async fn list_for_search(&self, start: &WsPath, scope: &SearchScope) -> Result<SearchList> {
        let mut above = directories_to_area(start, &scope.narrow);
        let within = above.pop().unwrap_or_else(WsPath::root);
        let is_whole_way = above.len() == scope.narrow.directories.len();
        let options = ListAllOptions {
            is_deep: scope.narrow.is_deep || !is_whole_way,
            follow: Follow::Never,
            limit: self.access_limits.max_objects_scanned,
        };
        let rules = async {
            if scope.coverage.include_ignored {
                Ok(Vec::new())
            } else {
                self.rule_entries(&above).await
            }
        };
        // Both at once, because each waits for the storage.
        let (listed, rules) = futures::join!(list_all(&*self.storage, &within, &options), rules);
        let listed = match listed {
            // The directory that the pattern names does not exist, or is not a directory.
            Err(error) if !above.is_empty() && means_absence(error.kind()) => return Ok(SearchList::empty(start)),
            listed => listed?,
        };
        let left_out = listed
            .is_cut
            .then(|| listed.entries.last().map(|last| last.path.clone()));
        let mut entries = listed.entries;
        // The list succeeded, so every path that leads there is a directory.
        entries.extend(within.ancestry().map(directory_entry));
        entries.extend(rules?);
        entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(SearchList {
            complete: within,
            entries,
            left_out: left_out.flatten(),
        })
    }

    /// Returns the entries in these directories that hold ignore rules.
    async fn rule_entries(&self, directories: &[WsPath]) -> Result<Vec<Entry>> {
        let names = directories
            .iter()
            .flat_map(|directory| RULES.map(|name| directory.child(name)));
        let paths = names.collect::<Result<Vec<_>>>()?;
        let found = stream::iter(paths).map(|path| self.stat_entry(path));
        let found = found.buffered(self.access_limits.search_concurrency.max(1));
        found.try_filter_map(async |entry| Ok(entry)).try_collect().await
    }

    async fn stat_entry(&self, path: WsPath) -> Result<Option<Entry>> {
        let options = StatOptions {
            follow: Follow::Never,
            with_version: true,
        };
        match self.storage.stat(&path, options).await {
            Err(error) if means_absence(error.kind()) => Ok(None),
            stat => stat.map(|stat| {
                Some(Entry {
                    path: path.into(),
                    kind: stat.kind,
                    size: stat.size,
                    modified: stat.modified,
                    version: stat.version,
                    hard_linked: stat.hard_linked,
                })
            }),
        }
    }
}

/// Returns the directories from the start down to the one that holds every match.
fn directories_to_area(start: &WsPath, narrow: &SearchArea) -> Vec<WsPath> {
    let mut way = vec![start.clone()];
    for name in &narrow.directories {
        // A name that no path can contain does not exist; the walk finds that out.
        let Some(Ok(next)) = way.last().map(|above| above.child(name)) else {
            break;
        };
        way.push(next);
    }
    way
}

fn directory_entry(path: WsPath) -> Entry {
    Entry {
        path: path.into(),
        kind: EntryKind::Directory,
        size: 0,
        modified: None,
        version: None,
        hard_linked: None,
    }
}

fn means_absence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
    )
}
