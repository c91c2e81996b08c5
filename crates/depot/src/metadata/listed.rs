//! The paths that a change names in its own row: those at which it lets an entry begin, as long as they are few. A large change leaves
//! the others to an index of the entries, which would cost a small one more than all the rest.

/// The most bytes of paths in the row of a change.
const MOST_BYTES: usize = 512;
/// Ends a path, in which it cannot be.
const END: u8 = 0;

/// The paths, each with its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listed(Vec<u8>);

impl Listed {
    /// What a change's row says.
    pub(super) fn of_row(began: Vec<u8>) -> Self {
        Self(began)
    }

    /// What the row of the change says; nothing where no path is named.
    pub(super) fn as_row(&self) -> Option<&[u8]> {
        Some(self.0.as_slice()).filter(|began| !began.is_empty())
    }

    /// Names `path`, unless there is no room for it; tells whether it is named.
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

    /// No longer names `path`.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        if self.paths().any(|listed| listed == path) {
            let kept = self.paths().filter(|listed| *listed != path);
            self.0 = kept.flat_map(|listed| [listed, &[END]].concat()).collect();
        }
    }

    /// The paths.
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
        let mut listed = Listed::default();
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
        let mut listed = Listed::default();
        assert!(listed.add(&[b'x'; 500]));
        assert!(!listed.add(&[b'y'; 20]));
        assert!(listed.add(b"short"));
        assert_eq!(listed.paths().count(), 2);
    }
}
