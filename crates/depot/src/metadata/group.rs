//! What one change of a transaction leaves to the next: changes of a group are mostly of one workspace, and each would look up anew what
//! the one before it has just put down.

use std::cell::Cell;

use super::Level;

/// What is known of the workspace that the newest change of the open transaction was made in.
#[derive(Default)]
pub(super) struct Group(Cell<Option<Known>>);

/// The newest change of a workspace and the levels of its newest state.
struct Known {
    workspace: i64,
    head: i64,
    levels: Vec<Level>,
}

impl Group {
    /// The newest change of a workspace and its levels, where they are known; then no longer: whoever changes it says what it has become.
    pub(super) fn take(&self, workspace: i64) -> Option<(i64, Vec<Level>)> {
        let known = self.0.take().filter(|known| known.workspace == workspace)?;
        Some((known.head, known.levels))
    }

    /// Remembers what a workspace has become.
    pub(super) fn remember(&self, workspace: i64, head: i64, levels: Vec<Level>) {
        self.0.set(Some(Known {
            workspace,
            head,
            levels,
        }));
    }

    /// Forgets it, since anything may have come to be.
    pub(super) fn forget(&self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_workspace_is_known_once_and_of_no_other() {
        let group = Group::default();
        assert_eq!(group.take(1), None);
        group.remember(1, 7, Vec::new());
        assert_eq!(group.take(1), Some((7, Vec::new())));
        assert_eq!(group.take(1), None);
        group.remember(1, 8, Vec::new());
        assert_eq!(group.take(2), None);
        assert_eq!(group.take(1), None, "another has changed something meanwhile");
        group.remember(1, 9, Vec::new());
        group.forget();
        assert_eq!(group.take(1), None);
    }
}
