//! Finds the versions of one path, back across renames and forks.

use garret_core::{EntryPath, PathVersion, Result, WsPath};

use super::conversions::{change_of, image_of};
use super::point::{lineage_of, newest_level};
use crate::metadata::{ChangeRow, EntryNode, LevelEntry, LineageLevel, MetadataSession};
use crate::tree::{path_key, version_of};
use crate::workspace::DepotWorkspace;

/// A version of a path, from the rows of the metadata.
pub(super) struct FoundVersion {
    pub(super) row: ChangeRow,
    path: Vec<u8>,
    pub(super) node: EntryNode,
}

impl FoundVersion {
    /// Returns whether `wanted` names this version: by the version of its content, or by the id of its change.
    pub(super) fn matches_name(&self, wanted: &str) -> bool {
        self.row.id == wanted || version_of(&self.node).is_some_and(|version| version.as_str() == wanted)
    }
}

impl DepotWorkspace {
    /// Returns at most `limit` versions of `path`, newest first: across renames, and from before the fork of a branch.
    /// A path that was removed still has its versions.
    pub async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>> {
        self.shared().database.read(|session| {
            let found = version_history(session, self.number, path_key(path), limit)?;
            let version = |found: FoundVersion| {
                Ok(PathVersion {
                    change: change_of(session, found.row)?,
                    path: EntryPath::from_bytes(found.path),
                    image: image_of(&found.node),
                })
            };
            found.into_iter().map(version).collect()
        })
    }
}

/// Returns the versions of `path`, newest first.
pub(super) fn version_history(
    session: MetadataSession<'_>,
    workspace: i64,
    path: &[u8],
    limit: usize,
) -> Result<Vec<FoundVersion>> {
    let mut found = Vec::new();
    let mut path = path.to_vec();
    for level in lineage_of(session, newest_level(session, workspace)?)? {
        match level_history(session, level, path, limit, &mut found)? {
            Some(earlier) => path = earlier,
            None => break,
        }
    }
    Ok(found)
}

/// Adds the versions of one level to `found`. Returns the name that the path had before its first change there, or
/// `None` if retention dropped the change that would tell.
fn level_history(
    session: MetadataSession<'_>,
    level: LineageLevel,
    mut path: Vec<u8>,
    limit: usize,
    found: &mut Vec<FoundVersion>,
) -> Result<Option<Vec<u8>>> {
    let mut upto = level.at;
    'renamed: loop {
        for (since, _, held) in session.entries().entry_history(level.workspace, &path, upto)? {
            // A row that begins at 0 was copied by flattening; the original is found in the lineage.
            if found.len() >= limit || since == 0 {
                return Ok(Some(path));
            }
            let LevelEntry::Node(node) = held else { continue };
            let Some(row) = session.changes().change(level.workspace, since)? else {
                return Ok(None);
            };
            let name = path.clone();
            found.push(FoundVersion { row, path: name, node });
            let earlier = name_before(&session.entries().moves_of_change(level.workspace, since)?, &path);
            if earlier != path {
                (path, upto) = (earlier, since - 1);
                continue 'renamed;
            }
        }
        return Ok(Some(path));
    }
}

/// Returns the name that the entry at `path` had before `moves`, which are in the order in which they were made.
fn name_before(moves: &[(Vec<u8>, Vec<u8>)], path: &[u8]) -> Vec<u8> {
    let mut name = path.to_vec();
    for (source, place) in moves.iter().rev() {
        if let Some(rest) = name.strip_prefix(place.as_slice())
            && (rest.is_empty() || rest[0] == b'/')
        {
            name = [source.as_slice(), rest].concat();
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(pairs: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        pairs
            .iter()
            .map(|(from, to)| (from.as_bytes().to_vec(), to.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn a_name_is_followed_back_through_directories_and_swaps() {
        assert_eq!(name_before(&moves(&[("old", "new")]), b"new/a/b"), b"old/a/b");
        assert_eq!(name_before(&moves(&[("old", "new")]), b"newer/a"), b"newer/a");
        let swap = moves(&[("a", "t"), ("b", "a"), ("t", "b")]);
        assert_eq!(name_before(&swap, b"a"), b"b");
        assert_eq!(name_before(&swap, b"b"), b"a");
    }
}
