//! The order in which a server lists keys, and the entries that no later key can precede.
//!
//! A list of Garret comes in the byte order of the paths, in which the directory `a` stands before the file `a-b`. Most
//! servers give keys in byte order, in which `a/x`, which implies the directory `a`, stands after `a-b`; some give them
//! in the order of a tree, in which everything in `a` stands before `a-b`. So an entry can be shown as soon as no later
//! key can imply an entry before it.

use garret_core::WsPath;
use serde::{Deserialize, Serialize};

/// The order of a server's lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ListOrder {
    /// No order that can be relied on.
    #[default]
    Unknown,
    /// The byte order of the keys.
    Keys,
    /// Name by name, each directory together with everything in it.
    Tree,
}

impl ListOrder {
    /// Returns whether no key after `mark` can add an entry before `path`. Both are below `directory`; in the order of
    /// a tree, both are its direct children.
    pub(super) fn is_settled(self, directory: &WsPath, path: &WsPath, mark: &str) -> bool {
        match self {
            Self::Unknown => false,
            // A file and a directory of one name may be on two pages.
            Self::Tree => path.as_str() < mark,
            Self::Keys => match first_above(directory, path.as_str()) {
                None => true,
                Some(above) => mark.as_bytes() >= [above.as_bytes(), b"/"].concat().as_slice(),
            },
        }
    }
}

/// Returns the shortest directory that would stand before `path` although its keys stand after it.
fn first_above<'p>(directory: &WsPath, path: &'p str) -> Option<&'p str> {
    names_before(directory, path).next()
}

/// Returns the beginnings of `path` that end before a character smaller than `/`: the keys below such a directory come
/// after `path`.
pub(super) fn names_before<'p>(directory: &WsPath, path: &'p str) -> impl Iterator<Item = &'p str> {
    let start = match directory.as_str().len() {
        0 => 0,
        length => length + 1,
    };
    let bytes = path.as_bytes();
    let is_end = move |at: &usize| bytes[*at] < b'/' && bytes[*at - 1] != b'/';
    ((start + 1).min(bytes.len())..bytes.len())
        .filter(is_end)
        .map(|at| &path[..at])
}

/// The files that later keys may lie below, each a prefix of the next. Keys below a file are in no list.
#[derive(Debug, Default)]
pub(super) struct FilesAbove(Vec<String>);

impl FilesAbove {
    /// Returns whether `path`, the next in the byte order of the keys, is below a file.
    pub(super) fn hides_key(&mut self, path: &str) -> bool {
        while self.0.pop_if(|file| !may_be_below(file, path)).is_some() {}
        self.0.iter().any(|file| path[file.len()..].starts_with('/'))
    }

    /// Adds a file.
    pub(super) fn push_file(&mut self, file: &str) {
        self.0.push(file.to_owned());
    }
}

/// Returns whether `path` or a later key can lie below `file`.
fn may_be_below(file: &str, path: &str) -> bool {
    let rest = path.strip_prefix(file).map(str::as_bytes);
    rest.and_then(<[u8]>::first).is_some_and(|next| *next <= b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WsPath {
        WsPath::parse(text).unwrap()
    }

    fn settled(order: ListOrder, text: &str, mark: &str) -> bool {
        order.is_settled(&WsPath::root(), &path(text), mark)
    }

    #[test]
    fn in_the_order_of_keys_an_entry_waits_for_the_directories_before_it() {
        assert!(settled(ListOrder::Keys, "plain", "plain"));
        assert!(
            !settled(ListOrder::Keys, "a.txt", "a.txt"),
            "the directory `a` may come"
        );
        assert!(!settled(ListOrder::Keys, "a-b.txt", "a-b/x"), "likewise");
        assert!(settled(ListOrder::Keys, "a.txt", "a/x"), "it came");
        assert!(settled(ListOrder::Keys, "a.txt", "b"), "it cannot come any more");
        assert!(settled(ListOrder::Keys, ".hidden", ".hidden"), "nothing has no name");
        assert!(settled(ListOrder::Keys, "d/.hidden", "d/.hidden"));
        assert!(!settled(ListOrder::Keys, "d/f.txt", "d/f.txt"));
    }

    #[test]
    fn the_name_of_the_directory_itself_does_not_count() {
        let inside = |text, mark| ListOrder::Keys.is_settled(&path("v1.2"), &path(text), mark);
        assert!(inside("v1.2/plain", "v1.2/plain"));
        assert!(!inside("v1.2/a.b", "v1.2/a.b"));
    }

    #[test]
    fn in_the_order_of_a_tree_all_but_the_last_is_settled() {
        assert!(settled(ListOrder::Tree, "a.txt", "b"));
        assert!(
            !settled(ListOrder::Tree, "b", "b"),
            "a directory of the same name may come"
        );
        assert!(!settled(ListOrder::Unknown, "a", "z"));
    }

    #[test]
    fn what_is_below_a_file_is_told_however_much_lies_between() {
        let mut above = FilesAbove::default();
        for key in ["a", "a-b", "a-b.txt"] {
            assert!(!above.hides_key(key), "{key}");
            above.push_file(key);
        }
        assert!(above.hides_key("a-b/x"));
        assert!(above.hides_key("a/x") && above.hides_key("a/y/z"));
        assert!(!above.hides_key("aa") && !above.hides_key("b/x"));
    }
}
