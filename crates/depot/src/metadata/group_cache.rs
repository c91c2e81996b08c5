//! A cache that the changes of one transaction share. The changes of a group mostly belong to one workspace, and each
//! would else look up the head that the change before it has just written.

use std::cell::Cell;

use super::LineageLevel;

/// The cached head of the workspace that the newest change of the open transaction belongs to.
#[derive(Default)]
pub(super) struct GroupCache(Cell<Option<CachedHead>>);

/// The number of a workspace's newest change, and the levels of its newest state.
struct CachedHead {
    workspace: i64,
    head: i64,
    levels: Vec<LineageLevel>,
}

impl GroupCache {
    /// Takes the cached head and levels out of the cache, if they are those of `workspace`.
    pub(super) fn take_head(&self, workspace: i64) -> Option<(i64, Vec<LineageLevel>)> {
        // Removed even for another workspace: the caller is about to make a change, and caches the new head only when
        // it finishes.
        let known = self.0.take().filter(|known| known.workspace == workspace)?;
        Some((known.head, known.levels))
    }

    /// Caches the head and the levels of a workspace after a change.
    pub(super) fn remember_head(&self, workspace: i64, head: i64, levels: Vec<LineageLevel>) {
        self.0.set(Some(CachedHead {
            workspace,
            head,
            levels,
        }));
    }

    /// Empties the cache, after anything that may have changed the head.
    pub(super) fn clear(&self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_workspace_is_known_once_and_of_no_other() {
        let group = GroupCache::default();
        assert_eq!(group.take_head(1), None);
        group.remember_head(1, 7, Vec::new());
        assert_eq!(group.take_head(1), Some((7, Vec::new())));
        assert_eq!(group.take_head(1), None);
        group.remember_head(1, 8, Vec::new());
        assert_eq!(group.take_head(2), None);
        assert_eq!(group.take_head(1), None, "another has changed something meanwhile");
        group.remember_head(1, 9, Vec::new());
        group.clear();
        assert_eq!(group.take_head(1), None);
    }
}
