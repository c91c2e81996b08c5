//! Finding files by their names.

use std::collections::BinaryHeap;

use garret_core::{Directory, EntryKind, EntryPath, Error, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::pattern::PathGlob;
use super::run::{Scope, Search};
use super::walk::{Coverage, Spot, Visitor};
use super::{LeftOut, MAX_SKIPPED, Skipped, shown};
use crate::by_time::{ByTime, FirstByTime, TimePage};
use crate::{Sort, Workspace};

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
    pub sort: Sort,
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
            sort: Sort::Name,
            hidden: true,
            include_ignored: false,
            include_git: false,
            include_directories: false,
        }
    }
}

/// The files found by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GlobFound {
    /// Their paths, in byte order; by time, the newest first.
    pub paths: Vec<String>,
    /// Whether there are more.
    pub truncated: bool,
    /// The `cursor` of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Those of `paths` that are shown in escaped form, because a name in them is not UTF-8; no tool can open them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escaped: Vec<String>,
    /// Directories that could not be searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// The paths that were not searched because of the limit `max_objects_scanned` of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Set if not every file was captured at this earlier point: the other files are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// If sorted by time, the cursor after each path, for a caller that shows fewer paths.
    #[serde(skip)]
    pub cursors: Vec<String>,
}

impl Workspace {
    /// Finds files by a glob on their paths. Links are found and not followed. Paths that the policy hides are left
    /// out.
    pub async fn glob(&self, request: GlobRequest) -> Result<GlobFound> {
        let path = request.path.clone();
        self.operate("glob", &[&path], |_| 0, self.find_by_name(request)).await
    }

    async fn find_by_name(&self, request: GlobRequest) -> Result<GlobFound> {
        if request.limit == 0 {
            return Err(Error::invalid("`limit` must be at least 1"));
        }
        let request = GlobRequest {
            pattern: self.glob_within(request.pattern, &request.path)?,
            ..request
        };
        let wanted = Wanted::of(&request, self)?;
        let place = self.place(&request.path).await?;
        if place.kind != EntryKind::Directory {
            return Err(Error::not_a_directory(&self.shown(&place.real)).hint("name the directory to search as `path`"));
        }
        let scope = Scope {
            coverage: wanted.coverage,
            narrow: wanted.glob.narrow(),
        };
        self.search(place, scope, move |search| page(search, &wanted)).await
    }
}

/// A prepared request.
struct Wanted {
    glob: PathGlob,
    coverage: Coverage,
    include_directories: bool,
    /// The length of the path from the root of the storage to the root of the view, its slash included.
    base: usize,
    /// The end of the page before, by path or by time.
    after: After,
    limit: usize,
}

/// The entry after which a page begins.
enum After {
    Path(Option<EntryPath>),
    Time(Option<ByTime>),
}

impl Wanted {
    fn of(request: &GlobRequest, workspace: &Workspace) -> Result<Self> {
        Ok(Self {
            glob: PathGlob::parse(&request.pattern)?,
            coverage: Coverage {
                hidden: request.hidden,
                include_ignored: request.include_ignored,
                include_git: request.include_git,
            },
            include_directories: request.include_directories,
            base: workspace.base_length(),
            after: match request.sort {
                Sort::Name => After::Path(request.cursor.as_deref().map(EntryPath::from_token).transpose()?),
                Sort::Modified => After::Time(request.cursor.as_deref().map(ByTime::from_token).transpose()?),
            },
            limit: request.limit,
        })
    }

    fn is_after(&self, path: &[u8]) -> bool {
        match &self.after {
            After::Path(Some(after)) => path > after.as_bytes(),
            After::Path(None) | After::Time(_) => true,
        }
    }

    /// Returns whether a path below the directory `path` can come after the page before.
    fn may_come_after(&self, path: &[u8]) -> bool {
        match &self.after {
            // All paths below the directory come before its path and a `0`, the character after `/`.
            After::Path(Some(after)) => after.as_bytes() < [path, b"0"].concat().as_slice(),
            After::Path(None) | After::Time(_) => true,
        }
    }

    fn collector(&self) -> Collector {
        match &self.after {
            After::Path(_) => Collector::ByPath(BinaryHeap::new()),
            After::Time(after) => Collector::ByTime(FirstByTime::new(after.clone(), self.limit)),
        }
    }
}

fn page(search: Search, wanted: &Wanted) -> Result<GlobFound> {
    let visitor = || Names {
        wanted,
        first: wanted.collector(),
        skipped: Vec::new(),
    };
    let mut all = wanted.collector();
    let mut skipped = Vec::new();
    let (left_out, incomplete) = (search.left_out.clone(), search.is_incomplete());
    for names in search.walk(visitor)? {
        all.merge(names.first);
        skipped.extend(names.skipped);
    }
    // Threads find them in any order; the answer must not depend on it.
    skipped.sort_unstable();
    skipped.truncate(MAX_SKIPPED);
    let TimePage {
        entries: paths,
        cursors,
        next_cursor,
    } = all.finish(wanted.limit);
    Ok(GlobFound {
        truncated: next_cursor.is_some(),
        next_cursor,
        cursors,
        escaped: paths
            .iter()
            .filter(|path| std::str::from_utf8(path).is_err())
            .map(|path| shown(path))
            .collect(),
        paths: paths.iter().map(|path| shown(path)).collect(),
        skipped,
        left_out,
        incomplete,
    })
}

/// The first paths: a page and one more path, which shows that there are more.
enum Collector {
    ByPath(BinaryHeap<Vec<u8>>),
    ByTime(FirstByTime<Vec<u8>>),
}

impl Collector {
    fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::ByPath(first), Self::ByPath(others)) => first.extend(others),
            (Self::ByTime(first), Self::ByTime(others)) => first.merge(others),
            _ => unreachable!("all threads of one search collect in one order"),
        }
    }

    /// Returns the page; if sorted by path, without the cursors after its entries.
    fn finish(self, limit: usize) -> TimePage<Vec<u8>> {
        match self {
            Self::ByTime(first) => first.finish(),
            Self::ByPath(first) => {
                let mut paths = first.into_sorted_vec();
                let has_more = paths.len() > limit;
                paths.truncate(limit);
                let last = paths.last().filter(|_| has_more);
                TimePage {
                    next_cursor: last.map(|path| EntryPath::from_bytes(path.clone()).to_token()),
                    entries: paths,
                    cursors: Vec::new(),
                }
            }
        }
    }
}

/// Collects, on one thread, the first paths that match.
struct Names<'a> {
    wanted: &'a Wanted,
    first: Collector,
    skipped: Vec<Skipped>,
}

impl Names<'_> {
    fn consider(&mut self, spot: Spot<'_>, directory: &dyn Directory) {
        let path = &spot.path[self.wanted.base..];
        match &mut self.first {
            Collector::ByPath(first) => {
                let is_full = first.len() > self.wanted.limit;
                // Compared before the glob is tried: in a large tree, most paths come after the page.
                if is_full && first.peek().is_some_and(|last| path >= last.as_slice()) {
                    return;
                }
                if self.wanted.is_after(path) && self.wanted.glob.is_match(spot.relative()) {
                    first.push(path.to_vec());
                    if is_full {
                        first.pop();
                    }
                }
            }
            Collector::ByTime(first) => {
                if self.wanted.glob.is_match(spot.relative()) {
                    // An entry that is gone by now has no time, and comes last.
                    let modified = directory.stat(spot.name()).ok().and_then(|stat| stat.modified);
                    first.consider(ByTime::new(modified, path.to_vec()), || path.to_vec());
                }
            }
        }
    }
}

impl Visitor for Names<'_> {
    fn enter(&mut self, spot: Spot<'_>, directory: &dyn Directory) -> bool {
        if self.wanted.include_directories {
            self.consider(spot, directory);
        }
        self.wanted.glob.reaches_below(spot.relative()) && self.wanted.may_come_after(&spot.path[self.wanted.base..])
    }

    fn visit(&mut self, spot: Spot<'_>, directory: &dyn Directory) {
        self.consider(spot, directory);
    }

    fn fail(&mut self, path: &[u8], error: &Error) {
        self.skipped
            .push(Skipped::new(&path[self.wanted.base..], error.kind().as_str()));
    }
}
