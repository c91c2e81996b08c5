//! Lists a directory as a whole, page after page.

use crate::{Entry, Follow, ListOptions, Result, Storage, WsPath};

/// The most entries of one page: enough that few pages are requested, and few enough to be held in memory.
const PAGE: usize = 10_000;

/// The options of [`list_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListAllOptions {
    /// Whether the entries below the directories are listed too.
    pub is_deep: bool,
    /// How links above the directory are treated.
    pub follow: Follow,
    /// The most entries.
    pub limit: Option<u64>,
}

/// The entries of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullListing {
    /// The entries in the byte order of their paths.
    pub entries: Vec<Entry>,
    /// Whether the directory has more entries, after the last one, than were requested.
    pub is_cut: bool,
}

/// Lists everything in `directory`, or below it.
pub async fn list_all(storage: &dyn Storage, directory: &WsPath, all: &ListAllOptions) -> Result<FullListing> {
    let most = all
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut options = ListOptions {
        is_deep: all.is_deep,
        limit: PAGE,
        follow: all.follow,
        after: None,
    };
    let mut listed = FullListing::default();
    loop {
        // One entry more than requested tells whether there are more.
        let room = most.saturating_sub(listed.entries.len()).saturating_add(1);
        options.limit = PAGE.min(room);
        let page = storage.list(directory, options.clone()).await?;
        options.after = page.entries.last().map(|entry| entry.path.clone());
        listed.entries.extend(page.entries);
        if listed.entries.len() > most {
            listed.entries.truncate(most);
            listed.is_cut = true;
        }
        if listed.is_cut || !page.has_more {
            return Ok(listed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::{Batch, MemoryStorage, Mutation, SystemClock};

    /// What a future gives that never waits.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("memory does not wait"),
        }
    }

    fn filled(paths: impl Iterator<Item = String>) -> MemoryStorage {
        let storage = MemoryStorage::new(Arc::new(SystemClock::default()));
        let mutations = paths.map(|path| Mutation::write(WsPath::parse(&path).unwrap(), "x"));
        let batch = Batch {
            mutations: mutations.collect(),
            ..Batch::default()
        };
        ready(storage.apply(batch)).unwrap();
        storage
    }

    fn listed(storage: &MemoryStorage, is_deep: bool, limit: Option<u64>) -> FullListing {
        let all = ListAllOptions {
            is_deep,
            follow: Follow::Never,
            limit,
        };
        ready(list_all(storage, &WsPath::root(), &all)).unwrap()
    }

    #[test]
    fn every_page_is_there_in_order() {
        let storage = filled((0..PAGE + 5).map(|file| format!("d{}/f{file:05}", file % 3)));
        let found = listed(&storage, true, None);
        assert_eq!((found.entries.len(), found.is_cut), (PAGE + 8, false));
        assert!(found.entries.is_sorted_by_key(|entry| entry.path.clone()));
        assert_eq!(listed(&storage, false, None).entries.len(), 3);
    }

    #[test]
    fn a_limit_gives_the_first_and_says_that_there_are_more() {
        let storage = filled((0..50).map(|file| format!("f{file:04}")));
        for (limit, count, is_cut) in [
            (0, 0, true),
            (10, 10, true),
            (49, 49, true),
            (50, 50, false),
            (51, 50, false),
        ] {
            let found = listed(&storage, true, Some(limit));
            assert_eq!((found.entries.len(), found.is_cut), (count, is_cut), "{limit}");
        }
    }
}
