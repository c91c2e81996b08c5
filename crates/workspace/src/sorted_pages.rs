//! Sorted pages of entries: the newest first, equal times by path, and entries without a time last. Where no entry has a
//! time, they are in the order of paths.
//!
//! A cursor is the time and the path of the last entry shown, so that no state is kept between pages. An entry that
//! changes between two pages moves before the cursor: no entry is shown twice, and every unchanged entry is shown once.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use garret_core::{EntryPath, Error, Result, Timestamp};

/// The sort key of an entry: its time, then its path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageSortKey {
    /// Microseconds since the epoch; `None` sorts after all times.
    modified: Reverse<Option<i64>>,
    path: Vec<u8>,
}

impl PageSortKey {
    pub(crate) fn new(modified: Option<Timestamp>, path: Vec<u8>) -> Self {
        Self {
            modified: Reverse(modified.map(|time| time.as_microsecond())),
            path,
        }
    }

    /// Returns the key of a path in a list by path alone: without a time, the path decides.
    pub(crate) fn of_path(path: &[u8]) -> Self {
        Self::new(None, path.to_vec())
    }

    /// Returns the path as a cursor of a list by path: `src/a.rs`.
    pub(crate) fn to_path_token(&self) -> String {
        EntryPath::from_bytes(self.path.clone()).to_token()
    }

    /// Returns the key as a cursor: `1767323045000000 src/a.rs`.
    pub(crate) fn to_token(&self) -> String {
        let time = self.modified.0.map_or_else(|| "-".to_owned(), |time| time.to_string());
        format!("{time} {}", self.to_path_token())
    }

    pub(crate) fn from_token(token: &str) -> Result<Self> {
        let foreign = || {
            Error::invalid("this cursor belongs to a list in another order")
                .hint("pass `next_cursor` of the page before, unchanged, with the same `sort`")
        };
        let (time, path) = token.split_once(' ').ok_or_else(foreign)?;
        let modified = match time {
            "-" => None,
            time => Some(time.parse().map_err(|_| foreign())?),
        };
        Ok(Self {
            modified: Reverse(modified),
            path: EntryPath::from_token(path)?.as_bytes().to_vec(),
        })
    }
}

/// Collects the first entries after a cursor: a page and one more entry, which shows that another page follows.
#[derive(Debug)]
pub(crate) struct PageCollector<T> {
    after: Option<PageSortKey>,
    limit: usize,
    first: BTreeMap<PageSortKey, T>,
}

impl<T> PageCollector<T> {
    pub(crate) fn new(after: Option<PageSortKey>, limit: usize) -> Self {
        Self {
            after,
            limit,
            first: BTreeMap::new(),
        }
    }

    /// Returns whether an entry with this key is among the first.
    pub(crate) fn takes_key(&self, key: &PageSortKey) -> bool {
        let is_before = self.after.as_ref().is_some_and(|after| key <= after);
        let is_full = self.first.len() > self.limit;
        let is_past = is_full && self.first.last_key_value().is_some_and(|(last, _)| key >= last);
        !(is_before || is_past)
    }

    /// Adds an entry if it is among the first; `entry` is called only then.
    pub(crate) fn offer_entry(&mut self, key: PageSortKey, entry: impl FnOnce() -> T) {
        if !self.takes_key(&key) {
            return;
        }
        let is_full = self.first.len() > self.limit;
        self.first.insert(key, entry());
        // Dropped at once, so that a walk through a large tree holds one page in memory.
        if is_full {
            self.first.pop_last();
        }
    }

    /// Adds the entries that `other` collected.
    pub(crate) fn merge_from(&mut self, other: Self) {
        for (key, entry) in other.first {
            self.offer_entry(key, || entry);
        }
    }

    /// Returns the page, with its keys as cursors.
    pub(crate) fn into_page(self) -> SortedPage<T> {
        self.into_page_with(PageSortKey::to_token)
    }

    /// Returns the page; `token` makes the cursor of a key.
    pub(crate) fn into_page_with(mut self, token: fn(&PageSortKey) -> String) -> SortedPage<T> {
        let has_more = self.first.len() > self.limit;
        if has_more {
            self.first.pop_last();
        }
        let cursors: Vec<String> = self.first.keys().map(token).collect();
        SortedPage {
            next_cursor: cursors.last().filter(|_| has_more).cloned(),
            entries: self.first.into_values().collect(),
            cursors,
        }
    }
}

/// A page of sorted entries.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SortedPage<T> {
    pub(crate) entries: Vec<T>,
    /// The cursor after each entry.
    pub(crate) cursors: Vec<String>,
    /// The cursor of the next page, if there is one.
    pub(crate) next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(second: Option<i64>, path: &str) -> PageSortKey {
        let time = second.map(|second| Timestamp::from_second(second).unwrap());
        PageSortKey::new(time, path.as_bytes().to_vec())
    }

    #[test]
    fn pages_go_from_the_newest_to_what_has_no_time_and_show_everything_once() {
        let keys = [
            key(Some(3), "b"),
            key(Some(5), "z % z"),
            key(None, "a"),
            key(Some(3), "a"),
            key(Some(-1), "x"),
        ];
        for limit in 1..=6 {
            let (mut shown, mut cursor) = (Vec::new(), None);
            loop {
                let after = cursor.as_deref().map(|token| PageSortKey::from_token(token).unwrap());
                let mut first = PageCollector::new(after, limit);
                for key in &keys {
                    first.offer_entry(key.clone(), || String::from_utf8(key.path.clone()).unwrap());
                }
                let page = first.into_page();
                assert!(page.entries.len() <= limit);
                shown.extend(page.entries);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(shown, ["z % z", "a", "b", "x", "a"], "pages of {limit}");
        }
    }

    #[test]
    fn an_entry_that_changed_between_two_pages_is_not_shown_again() {
        let mut first = PageCollector::new(None, 1);
        first.offer_entry(key(Some(9), "a"), || "a");
        first.offer_entry(key(Some(5), "b"), || "b");
        let after = PageSortKey::from_token(&first.into_page().next_cursor.unwrap()).unwrap();
        let mut second = PageCollector::new(Some(after), 1);
        second.offer_entry(key(Some(11), "a"), || "a");
        second.offer_entry(key(Some(5), "b"), || "b");
        let page = second.into_page();
        assert_eq!((page.entries, page.next_cursor), (vec!["b"], None));
    }

    #[test]
    fn a_cursor_of_another_order_is_refused() {
        for token in ["src/a.rs", "", "soon a", "12"] {
            assert!(PageSortKey::from_token(token).is_err(), "{token}");
        }
    }
}
