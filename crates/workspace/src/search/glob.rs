//! Finding files by their names.

use garret_core::{DirectoryHandle, EntryKind, EntryPath, Error, Result};

use super::path_glob::PathGlob;
use super::search_task::{SearchScope, SearchTask};
use super::walk::{WalkCoverage, WalkEntry, WalkVisitor};
use super::{MAX_SKIPPED, show_path};
use crate::file_access::FileAccess;
use crate::sorted_pages::{PageCollector, PageSortKey, SortedPage};
use crate::{GlobResult, ListSortOrder, SkippedPath, Workspace};

/// A request to find files by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobRequest {
    /// A glob on the path below `path`: `*` stays within a name, `**` crosses directories, `[!a]`, `{a,b}`. One without a slash
    /// matches in `path` itself only. A leading `/`, `./` or `/workspace/` changes nothing.
    pub pattern: String,
    /// The directory to search.
    pub path: String,
    /// The most paths in this page.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// The order: by path, or by time.
    pub sort: ListSortOrder,
    /// Whether names that begin with a dot are found.
    pub hidden: bool,
    /// Whether paths that ignore files leave out are found.
    pub include_ignored: bool,
    /// Whether everything named `.git`, with its content, is found.
    pub include_git: bool,
    /// Whether directories are found, besides all other entries.
    pub include_directories: bool,
}

impl Default for GlobRequest {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            path: String::new(),
            limit: 1_000,
            cursor: None,
            sort: ListSortOrder::Name,
            hidden: true,
            include_ignored: false,
            include_git: false,
            include_directories: false,
        }
    }
}

impl Workspace {
    /// Finds files by a glob on their paths. Links are found and not followed. Paths that the policy hides are left
    /// out.
    pub async fn glob(&self, request: GlobRequest) -> Result<GlobResult> {
        let path = request.path.clone();
        self.run_operation("glob", &[&path], |_| 0, self.files.find_by_name(request))
            .await
    }
}

impl FileAccess {
    async fn find_by_name(&self, request: GlobRequest) -> Result<GlobResult> {
        if request.limit == 0 {
            return Err(Error::invalid("`limit` must be at least 1"));
        }
        let request = GlobRequest {
            pattern: self.glob_within(request.pattern, &request.path)?,
            ..request
        };
        let wanted = GlobPlan::from_request(&request, self)?;
        let place = self.search_target(&request.path).await?;
        if place.kind != EntryKind::Directory {
            return Err(Error::not_a_directory(&self.view.relative_path(&place.real))
                .hint("name the directory to search as `path`"));
        }
        let scope = SearchScope {
            coverage: wanted.coverage,
            narrow: wanted.glob.search_area(),
        };
        self.run_search(place, scope, move |search| collect_page(search, &wanted))
            .await
    }
}

/// A prepared request.
struct GlobPlan {
    glob: PathGlob,
    coverage: WalkCoverage,
    include_directories: bool,
    /// The length of the path from the root of the storage to the root of the view, its slash included.
    base: usize,
    sort: ListSortOrder,
    /// The end of the page before. In the order of paths, keys have no times.
    after: Option<PageSortKey>,
    limit: usize,
}

impl GlobPlan {
    fn from_request(request: &GlobRequest, files: &FileAccess) -> Result<Self> {
        let after = request.cursor.as_deref().map(|token| match request.sort {
            ListSortOrder::Name => EntryPath::from_token(token).map(|path| PageSortKey::of_path(path.as_bytes())),
            ListSortOrder::Modified => PageSortKey::from_token(token),
        });
        Ok(Self {
            glob: PathGlob::parse(&request.pattern)?,
            coverage: WalkCoverage {
                hidden: request.hidden,
                include_ignored: request.include_ignored,
                include_git: request.include_git,
            },
            include_directories: request.include_directories,
            base: files.view.base_length(),
            sort: request.sort,
            after: after.transpose()?,
            limit: request.limit,
        })
    }

    /// Returns whether a path below the directory `path` can come after the page before.
    fn may_come_after(&self, path: &[u8]) -> bool {
        match (&self.after, self.sort) {
            // All paths below the directory come before its path and a `0`, the character after `/`.
            (Some(after), ListSortOrder::Name) => *after < PageSortKey::of_path(&[path, b"0"].concat()),
            _ => true,
        }
    }

    fn new_collector(&self) -> PageCollector<Vec<u8>> {
        PageCollector::new(self.after.clone(), self.limit)
    }
}

fn collect_page(search: SearchTask, wanted: &GlobPlan) -> Result<GlobResult> {
    let visitor = || GlobVisitor {
        wanted,
        first: wanted.new_collector(),
        skipped: Vec::new(),
    };
    let mut all = wanted.new_collector();
    let mut skipped = Vec::new();
    let (left_out, incomplete) = (search.left_out.clone(), search.is_incomplete());
    for names in search.run_walk(visitor)? {
        all.merge_from(names.first);
        skipped.extend(names.skipped);
    }
    // Threads find them in any order; the answer must not depend on it.
    skipped.sort_unstable();
    skipped.truncate(MAX_SKIPPED);
    let SortedPage {
        entries: paths,
        cursors,
        next_cursor,
    } = all.into_page_with(match wanted.sort {
        ListSortOrder::Name => PageSortKey::to_path_token,
        ListSortOrder::Modified => PageSortKey::to_token,
    });
    Ok(GlobResult {
        next_cursor,
        cursors,
        escaped: paths
            .iter()
            .filter(|path| std::str::from_utf8(path).is_err())
            .map(|path| show_path(path))
            .collect(),
        paths: paths.iter().map(|path| show_path(path)).collect(),
        skipped,
        left_out,
        incomplete,
    })
}

/// Collects, on one thread, the first paths that match.
struct GlobVisitor<'a> {
    wanted: &'a GlobPlan,
    first: PageCollector<Vec<u8>>,
    skipped: Vec<SkippedPath>,
}

impl GlobVisitor<'_> {
    fn consider_entry(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle) {
        let path = &spot.path[self.wanted.base..];
        let is_by_path = self.wanted.sort == ListSortOrder::Name;
        // Compared before the glob is tried: in a large tree, most paths come after the page.
        if is_by_path && !self.first.takes_key(&PageSortKey::of_path(path)) {
            return;
        }
        if !self.wanted.glob.is_match(spot.relative_path()) {
            return;
        }
        let key = if is_by_path {
            PageSortKey::of_path(path)
        } else {
            // An entry that is gone by now has no time, and comes last.
            let modified = directory.stat_entry(spot.name()).ok().and_then(|stat| stat.modified);
            PageSortKey::new(modified, path.to_vec())
        };
        self.first.offer_entry(key, || path.to_vec());
    }
}

impl WalkVisitor for GlobVisitor<'_> {
    fn enter_directory(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle) -> bool {
        if self.wanted.include_directories {
            self.consider_entry(spot, directory);
        }
        self.wanted.glob.reaches_below(spot.relative_path())
            && self.wanted.may_come_after(&spot.path[self.wanted.base..])
    }

    fn visit_entry(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle) {
        self.consider_entry(spot, directory);
    }

    fn report_failure(&mut self, path: &[u8], error: &Error) {
        self.skipped
            .push(SkippedPath::new(&path[self.wanted.base..], error.kind().as_str()));
    }
}
