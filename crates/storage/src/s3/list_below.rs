//! Listing all keys below a prefix, several directories at once.
//!
//! Each page of a list names the next one, so pages come one after another. If there is more than one page, the
//! directories right below the prefix are listed concurrently instead, unless there are so many that this would take
//! more requests than there are pages.

use futures::FutureExt;

use super::bucket::{Bucket, ListCall, PAGE};
use super::concurrent::run_concurrently;
use super::wire::failure::S3RequestError;
use super::wire::xml::S3ListPage;

/// The largest number of directories that are listed concurrently.
const MAX_SPREAD: usize = 32;

impl Bucket {
    /// Returns every key below `prefix`, in any order.
    pub(super) async fn list_below(&self, prefix: &str) -> Result<S3ListPage, S3RequestError> {
        let deep = ListCall {
            prefix,
            limit: PAGE,
            ..ListCall::default()
        };
        let first = self.list(&deep).await?;
        if first.next.is_none() {
            return self.list_remaining(&deep, first).await;
        }
        let shallow = ListCall {
            is_shallow: true,
            ..deep
        };
        let children = self.list(&shallow).await?;
        // With one directory there is nothing to run concurrently; with many, most of them are likely small.
        let is_spread = children.next.is_none() && (2..=MAX_SPREAD).contains(&children.prefixes.len());
        if is_spread {
            self.list_concurrently(children).await
        } else {
            self.list_remaining(&deep, first).await
        }
    }

    async fn list_concurrently(&self, children: S3ListPage) -> Result<S3ListPage, S3RequestError> {
        let mut whole = S3ListPage {
            objects: children.objects,
            ..S3ListPage::default()
        };
        let lists = children
            .prefixes
            .iter()
            .map(|below| self.list_all(below, false).boxed());
        for page in run_concurrently(lists.collect()).await? {
            whole.objects.extend(page.objects);
        }
        Ok(whole)
    }
}
