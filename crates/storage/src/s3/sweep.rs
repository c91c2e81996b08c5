//! All keys below a prefix, several directories at once.
//!
//! A page of a list names the next one, so pages come one after another. Where there is more than one page, the directories right below the
//! prefix are listed side by side instead, unless there are so many that this would take more requests than there are pages.

use futures::FutureExt;

use super::at_once::try_all;
use super::bucket::{Bucket, ListCall, PAGE};
use super::wire::failure::Failure;
use super::wire::xml::Page;

/// The most directories that are listed side by side.
const MAX_SPREAD: usize = 32;

impl Bucket {
    /// Every key below `prefix`, in whatever order.
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
        let is_spread = children.next.is_none() && (2..=MAX_SPREAD).contains(&children.prefixes.len());
        match is_spread {
            true => self.spread(children).await,
            false => self.list_on(&deep, first).await,
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
