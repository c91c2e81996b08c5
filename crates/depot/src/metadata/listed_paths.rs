//! The paths that are listed in the row of a change: those at which an entry begins with it, as long as they are few.
//! The further paths of a large change are found by an index of the entries; for a small change, that index would cost
//! more than all its other rows.

/// The maximum number of bytes of paths in the row of a change.
const MOST_BYTES: usize = 512;
/// The byte that ends a path; no path contains it.
const END: u8 = 0;

/// The listed paths, each followed by [`END`].
#[derive(Debug, Clone, Default)]
pub(crate) struct ListedPaths(Vec<u8>);

impl ListedPaths {
    /// Parses the column of a change's row.
    pub(super) fn of_row(began: Vec<u8>) -> Self {
        Self(began)
    }

    /// Returns the column of a change's row; `None` if no path is listed.
    pub(super) fn as_row(&self) -> Option<&[u8]> {
        Some(self.0.as_slice()).filter(|began| !began.is_empty())
    }

    /// Lists `path`, unless there is no room for it. Returns whether it is listed.
    pub(crate) fn add(&mut self, path: &[u8]) -> bool {
        if self.paths().any(|listed| listed == path) {
            return true;
        }
        let has_room = self.0.len() + path.len() < MOST_BYTES;
        if has_room {
            self.0.extend_from_slice(path);
            self.0.push(END);
        }
        has_room
    }

    /// Removes `path` from the list.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        if self.paths().any(|listed| listed == path) {
            let kept = self.paths().filter(|listed| *listed != path);
            self.0 = kept.flat_map(|listed| [listed, &[END]].concat()).collect();
        }
    }

    /// Returns the listed paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        let paths = self.0.split_inclusive(|byte| *byte == END);
        paths.map(|path| path.strip_suffix(&[END]).unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_once_and_can_be_taken_away() {
        let mut listed = ListedPaths::default();
        assert_eq!(listed.as_row(), None);
        assert!(listed.add(b"a") && listed.add(b"a/b") && listed.add(b"a"));
        assert_eq!(listed.paths().collect::<Vec<_>>(), [b"a".as_slice(), b"a/b"]);
        listed.remove(b"a");
        assert_eq!(listed.as_row(), Some(b"a/b\0".as_slice()));
        listed.remove(b"a/b");
        assert_eq!(listed.as_row(), None);
    }

    #[test]
    fn what_has_no_room_is_not_named() {
        let mut listed = ListedPaths::default();
        assert!(listed.add(&[b'x'; 500]));
        assert!(!listed.add(&[b'y'; 20]));
        assert!(listed.add(b"short"));
        assert_eq!(listed.paths().count(), 2);
    }
}
