//! Listing all keys below a prefix, several directories at once.
//!
//! Each page of a list names the next one, so pages come one after another. If there is more than one page, the
//! directories right below the prefix are listed concurrently instead, unless there are so many that this would take
//! more requests than there are pages.

use futures::FutureExt;

use super::at_once::try_all;
use super::bucket::{Bucket, ListCall, PAGE};
use super::wire::failure::Failure;
use super::wire::xml::Page;

/// The largest number of directories that are listed concurrently.
const MAX_SPREAD: usize = 32;

impl Bucket {
    /// Returns every key below `prefix`, in any order.
    pub(super) async fn list_below(&self, prefix: &str) -> Result<Page, Failure> {
        let deep = ListCall {
            prefix,
            limit: PAGE,
            ..ListCall::default()
        };
        let first = self.list(&deep).await?;
        if first.next.is_none() {
            return self.list_on(&deep, first).await;
        }
        let shallow = ListCall {
            is_shallow: true,
            ..deep
        };
        let children = self.list(&shallow).await?;
        // With one directory there is nothing to run concurrently; with many, most of them are likely small.
        let is_spread = children.next.is_none() && (2..=MAX_SPREAD).contains(&children.prefixes.len());
        if is_spread {
            self.spread(children).await
        } else {
            self.list_on(&deep, first).await
        }
    }

    async fn spread(&self, children: Page) -> Result<Page, Failure> {
        let mut whole = Page {
            objects: children.objects,
            ..Page::default()
        };
        let lists = children
            .prefixes
            .iter()
            .map(|below| self.list_all(below, false).boxed());
        for page in try_all(lists.collect()).await? {
            whole.objects.extend(page.objects);
        }
        Ok(whole)
    }
}
