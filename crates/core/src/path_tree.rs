//! A map from paths to values that stores each name once.
//!
//! A command can make many files in a directory whose own path is long. A map with whole paths as keys would hold that
//! long path once for each file; here a path is a chain of names, and an entry costs only its own name and a few words
//! of memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

const ROOT: u32 = 0;

/// Values by path, stored as a tree of names.
#[derive(Clone)]
pub struct PathTree<V> {
    /// The nodes; the first one is the root.
    nodes: Vec<PathTreeNode<V>>,
    length: usize,
}

#[derive(Clone)]
struct PathTreeNode<V> {
    parent: u32,
    name: Arc<[u8]>,
    children: BTreeMap<Arc<[u8]>, u32>,
    value: Option<V>,
}

impl<V> PathTreeNode<V> {
    fn new(parent: u32, name: Arc<[u8]>) -> Self {
        Self {
            parent,
            name,
            children: BTreeMap::new(),
            value: None,
        }
    }
}

impl<V> Default for PathTree<V> {
    fn default() -> Self {
        Self {
            nodes: vec![PathTreeNode::new(ROOT, Arc::default())],
            length: 0,
        }
    }
}

impl<V> PathTree<V> {
    /// Returns how many paths have a value.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether no path has a value.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Gives `path` a value; returns its earlier value. The empty path is the root.
    pub fn insert(&mut self, path: &[u8], value: V) -> Option<V> {
        let mut node = ROOT;
        for name in split_names(path) {
            node = match self.find_child(node, name) {
                Some(child) => child,
                None => self.add_child(node, name),
            };
        }
        let before = self.node_mut(node).value.replace(value);
        self.length += usize::from(before.is_none());
        before
    }

    /// Returns the value of `path`.
    pub fn get(&self, path: &[u8]) -> Option<&V> {
        let mut names = split_names(path);
        let node = names.try_fold(ROOT, |node, name| self.find_child(node, name))?;
        self.node_at(node).value.as_ref()
    }

    /// Returns the value of `path`, to change it.
    pub fn get_mut(&mut self, path: &[u8]) -> Option<&mut V> {
        let mut names = split_names(path);
        let node = names.try_fold(ROOT, |node, name| self.find_child(node, name))?;
        self.node_mut(node).value.as_mut()
    }

    /// Returns whether `path` has a value.
    pub fn contains(&self, path: &[u8]) -> bool {
        self.get(path).is_some()
    }

    /// Returns every path that has a value, in the order of insertion. Each path is assembled when the iterator reaches
    /// it.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, &V)> {
        let numbered = self.nodes.iter().enumerate();
        numbered.filter_map(|(number, node)| Some((self.path_of(number as u32), node.value.as_ref()?)))
    }

    /// Returns every path with its value, in the order of insertion.
    pub fn into_values(mut self) -> impl Iterator<Item = (Vec<u8>, V)> {
        (0..self.nodes.len() as u32).filter_map(move |number| {
            let value = self.node_mut(number).value.take()?;
            Some((self.path_of(number), value))
        })
    }

    fn node_at(&self, number: u32) -> &PathTreeNode<V> {
        &self.nodes[number as usize]
    }

    fn node_mut(&mut self, number: u32) -> &mut PathTreeNode<V> {
        &mut self.nodes[number as usize]
    }

    fn find_child(&self, node: u32, name: &[u8]) -> Option<u32> {
        self.node_at(node).children.get(name).copied()
    }

    fn add_child(&mut self, node: u32, name: &[u8]) -> u32 {
        let name: Arc<[u8]> = name.into();
        let number = u32::try_from(self.nodes.len()).expect("memory ends before four billion entries");
        self.nodes.push(PathTreeNode::new(node, Arc::clone(&name)));
        self.node_mut(node).children.insert(name, number);
        number
    }

    fn path_of(&self, number: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut node = number;
        while node != ROOT {
            names.push(&*self.node_at(node).name);
            node = self.node_at(node).parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}

fn split_names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

impl<V: PartialEq> PartialEq for PathTree<V> {
    fn eq(&self, other: &Self) -> bool {
        // Two trees are equal whatever the order of insertion was.
        self.length == other.length && self.iter().all(|(path, value)| other.get(&path) == Some(value))
    }
}

impl<V: Eq> Eq for PathTree<V> {}

impl<V: fmt::Debug> fmt::Debug for PathTree<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .iter()
            .map(|(path, value)| (path.escape_ascii().to_string(), value));
        formatter.debug_map().entries(shown).finish()
    }
}

impl<V> FromIterator<(Vec<u8>, V)> for PathTree<V> {
    fn from_iter<I: IntoIterator<Item = (Vec<u8>, V)>>(values: I) -> Self {
        let mut tree = Self::default();
        for (path, value) in values {
            tree.insert(&path, value);
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_directories_above_a_path_have_no_value_of_their_own() {
        let mut tree = PathTree::default();
        assert_eq!(tree.insert(b"a/b", 1), None);
        assert_eq!((tree.get(b"a"), tree.get(b""), tree.get(b"a/b/c")), (None, None, None));
        assert_eq!((tree.insert(b"a/b", 2), tree.len()), (Some(1), 1));
        tree.insert(b"", 3);
        assert_eq!(tree.get(b""), Some(&3));
    }

    #[test]
    fn a_deep_tree_is_dropped_without_going_down_the_stack() {
        let deep = vec!["d"; 100_000].join("/");
        let tree: PathTree<u64> = [(deep.clone().into_bytes(), 7)].into_iter().collect();
        assert_eq!(tree.into_values().collect::<Vec<_>>(), [(deep.into_bytes(), 7)]);
    }

    #[test]
    fn many_files_under_a_long_path_cost_their_own_names() {
        let above = vec!["n".repeat(250); 15].join("/");
        let mut tree = PathTree::default();
        for number in 0..1000 {
            tree.insert(format!("{above}/{number}").as_bytes(), number);
        }
        let stored: usize = tree.nodes.iter().map(|node| node.name.len()).sum();
        assert!(stored < 250 * 15 + 1000 * 4, "{stored}");
    }

    proptest! {
        #[test]
        fn a_tree_holds_what_a_map_of_whole_paths_holds(values in prop::collection::vec(("[a-c]{1,2}(/[a-c]{1,2}){0,3}", 0..9u64), 0..40)) {
            let values: Vec<_> = values.into_iter().map(|(path, value)| (path.into_bytes(), value)).collect();
            let map: BTreeMap<_, _> = values.iter().cloned().collect();
            let tree: PathTree<u64> = values.into_iter().collect();
            prop_assert_eq!(tree.len(), map.len());
            let held: BTreeMap<_, _> = tree.iter().map(|(path, value)| (path, *value)).collect();
            prop_assert_eq!(&held, &map);
            prop_assert!(map.iter().all(|(path, value)| tree.get(path) == Some(value)));
        }
    }
}
