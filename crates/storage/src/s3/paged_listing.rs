//! A list that is requested page by page, as far as it is wanted.
//!
//! Each page of the server gives entries that wait until no later page can add an entry before them ([`ListOrder`]). If a
//! page does not keep the order that the server showed at its probe, the list is given up and gathered as a whole.

use std::collections::BTreeMap;

use garret_core::{EntryPath, WsPath};

use super::S3Context;
use super::bucket::{ListCall, PAGE};
use super::keys::{KeyLayout, KeyMeaning};
use super::list::S3ListItem;
use super::list_order::{FilesAbove, ListOrder, names_before};
use super::wire::failure::S3RequestError;
use super::wire::xml::{ListedObject, S3ListPage};

/// A list of which further pages may be requested.
#[derive(Debug)]
pub(super) struct PagedListing {
    directory: WsPath,
    prefix: String,
    is_deep: bool,
    order: ListOrder,
    next: NextPage,
    /// Entries that were seen, but before which others may still come.
    waiting: BTreeMap<WsPath, Option<ListedObject>>,
    /// The last entry that was returned; entries up to it are not wanted.
    floor: Option<EntryPath>,
    /// The path of the last key that is one.
    mark: String,
    above: FilesAbove,
    /// Names before the cursor that may be files or directories.
    unsure: Vec<String>,
    /// Whether any key was seen, the directory's own marker included.
    pub(super) is_there: bool,
}

/// The page to request next.
#[derive(Debug, PartialEq, Eq)]
enum NextPage {
    /// The first page, of the keys after this one.
    First(Option<String>),
    /// The page that this token names.
    Token(String),
    /// No page: the last one was received.
    Done,
}

/// A page was not in the order of the server's lists.
#[derive(Debug)]
pub(super) struct ListDisorder;

impl PagedListing {
    /// Begins a list of `directory` after the path `after`.
    pub(super) fn new(shared: &S3Context, directory: &WsPath, is_deep: bool, after: Option<&EntryPath>) -> Self {
        let order = shared.abilities.order;
        // If keys come in byte order, the server can begin at the cursor and skip the keys before it.
        let within = after.and_then(EntryPath::as_path).filter(|_| order == ListOrder::Keys);
        let within = within.filter(|after| after.is_within(directory) && *after != directory);
        let unsure = within.filter(|_| is_deep).map_or_else(Vec::new, |after| {
            names_before(directory, after.as_str()).map(str::to_owned).collect()
        });
        Self {
            directory: directory.clone(),
            prefix: shared.layout.directory_key(directory),
            is_deep,
            order,
            next: NextPage::First(within.map(|after| format!("{}{}", shared.layout.prefix(), after.as_str()))),
            waiting: BTreeMap::new(),
            floor: after.cloned(),
            mark: String::new(),
            above: FilesAbove::default(),
            unsure,
            is_there: false,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.next == NextPage::Done
    }

    /// Requests the next page; returns the entries that are settled by it, in order.
    pub(super) async fn request_next(
        &mut self,
        shared: &S3Context,
    ) -> Result<Result<Vec<S3ListItem>, ListDisorder>, S3RequestError> {
        let mut page = self.request_page(shared).await?;
        self.check_unsure_names(shared, &page).await?;
        self.is_there |= !page.objects.is_empty() || !page.prefixes.is_empty();
        let next = page.next.take();
        if self.take_page(&shared.layout, page).is_err() {
            return Ok(Err(ListDisorder));
        }
        self.next = match next {
            // A server that gives the same token twice would never end.
            Some(token) if self.next != NextPage::Token(token.clone()) => NextPage::Token(token),
            _ => NextPage::Done,
        };
        Ok(Ok(self.take_settled()))
    }

    async fn request_page(&self, shared: &S3Context) -> Result<S3ListPage, S3RequestError> {
        let (after, token) = match &self.next {
            NextPage::First(after) => (after.as_deref(), None),
            NextPage::Token(token) => (None, Some(token.as_str())),
            NextPage::Done => return Ok(S3ListPage::default()),
        };
        let list = ListCall {
            prefix: &self.prefix,
            is_shallow: !self.is_deep,
            after,
            token,
            limit: PAGE,
        };
        shared.bucket.list(&list).await
    }

    /// Finds out whether a name before the cursor is a file, once a key lies below it.
    async fn check_unsure_names(&mut self, shared: &S3Context, page: &S3ListPage) -> Result<(), S3RequestError> {
        for name in std::mem::take(&mut self.unsure) {
            let key = format!("{}{name}", shared.layout.prefix());
            let is_below =
                |object: &ListedObject| object.key.strip_prefix(&key).is_some_and(|rest| rest.starts_with('/'));
            if !page.objects.iter().any(is_below) {
                self.unsure.push(name);
            // The list began after this name, so only a request of its own can tell.
            } else if shared.bucket.head(&key).await?.is_some() {
                self.above.push_file(&name);
            }
        }
        Ok(())
    }

    fn is_wanted(&self, path: &WsPath) -> bool {
        let floor = self.floor.as_ref().map(EntryPath::as_bytes);
        floor.is_none_or(|floor| path.as_str().as_bytes() > floor)
    }

    fn take_page(&mut self, layout: &KeyLayout, page: S3ListPage) -> Result<(), ListDisorder> {
        let mut last = std::mem::take(&mut self.mark);
        let mut last_directory = String::new();
        for object in page.objects {
            match layout.classify_key(&object.key) {
                KeyMeaning::File(path) => {
                    check_order(&mut last, path.as_str())?;
                    self.take_file(path, object);
                }
                KeyMeaning::Directory(path) if self.is_deep && !path.is_root() => {
                    let marker = format!("{}/", path.as_str());
                    check_order(&mut last, &marker)?;
                    if !self.above.hides_key(&marker) {
                        self.take_directory(path);
                    }
                }
                KeyMeaning::Directory(_) | KeyMeaning::Reserved | KeyMeaning::NotAPath(_) => {}
            }
        }
        for prefix in page.prefixes {
            if let KeyMeaning::Directory(path) = layout.classify_key(&prefix) {
                let end = if self.order == ListOrder::Keys { "/" } else { "" };
                last_directory = last_directory.max(format!("{}{end}", path.as_str()));
                self.take_directory(path);
            }
        }
        self.mark = last.max(last_directory);
        Ok(())
    }

    fn take_file(&mut self, path: WsPath, object: ListedObject) {
        if self.is_deep {
            if self.above.hides_key(path.as_str()) {
                return;
            }
            self.above.push_file(path.as_str());
            if let Some(parent) = path.parent() {
                self.take_directory(parent);
            }
        }
        if self.is_wanted(&path) {
            self.waiting.insert(path, Some(object));
        }
    }

    /// Adds a directory and those above it, unless they are known.
    fn take_directory(&mut self, path: WsPath) {
        let mut next = Some(path);
        while let Some(path) = next.filter(|path| path.is_within(&self.directory) && *path != self.directory) {
            if !self.is_wanted(&path) || self.waiting.contains_key(&path) {
                return;
            }
            next = path.parent();
            self.waiting.insert(path, None);
        }
    }

    fn take_settled(&mut self) -> Vec<S3ListItem> {
        let mut settled = Vec::new();
        while let Some(first) = self.waiting.first_entry() {
            let is_settled =
                self.next == NextPage::Done || self.order.is_settled(&self.directory, first.key(), &self.mark);
            if !is_settled {
                break;
            }
            let (path, object) = first.remove_entry();
            settled.push(S3ListItem { path, object });
        }
        if let Some(last) = settled.last() {
            self.floor = Some(last.path.clone().into());
        }
        settled
    }
}

/// Checks that keys come in the order that the server showed at its probe.
fn check_order(last: &mut String, next: &str) -> Result<(), ListDisorder> {
    if next <= last.as_str() {
        return Err(ListDisorder);
    }
    next.clone_into(last);
    Ok(())
}
