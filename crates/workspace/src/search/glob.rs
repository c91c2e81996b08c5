//! Finding files by their names.

use std::collections::BinaryHeap;

use garret_core::{Directory, EntryKind, EntryPath, Error, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::pattern::PathGlob;
use super::run::{Scope, Search};
use super::walk::{Coverage, Spot, Visitor};
use super::{LeftOut, MAX_SKIPPED, Skipped, shown};
use crate::Workspace;

/// Which files are wanted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobRequest {
    /// A glob on the path below `path`: `*` stays within a name, `**` crosses directories, `[!a]`, `{a,b}`. One without a slash
    /// matches in `path` itself only. A leading `/`, `./` or `/workspace/` says nothing.
    pub pattern: String,
    /// The directory to search.
    pub path: String,
    /// The most paths in this page.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Whether names that begin with a dot are found.
    pub hidden: bool,
    /// Whether what ignore files leave out is found.
    pub include_ignored: bool,
    /// Whether what is named `.git`, and what is inside, is found.
    pub include_git: bool,
    /// Whether directories are found, besides everything that is none.
    pub include_directories: bool,
}

impl Default for GlobRequest {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            path: String::new(),
            limit: 1_000,
            cursor: None,
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
    /// Their paths, in byte order.
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
    /// What was not looked at, because the storage's `max_objects_scanned` says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Set where this is a point of the past at which not every file was captured: those that were not are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

impl Workspace {
    /// Finds files by a glob on their paths. Links are found and not followed. What the policy hides is left out.
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

/// A request made ready.
struct Wanted {
    glob: PathGlob,
    coverage: Coverage,
    include_directories: bool,
    /// How many bytes of a path in the storage lead to the root of the view, their slash included.
    base: usize,
    /// The last path of the page before.
    after: Option<EntryPath>,
    limit: usize,
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
            after: request.cursor.as_deref().map(EntryPath::from_token).transpose()?,
            limit: request.limit,
        })
    }

    fn is_after(&self, path: &[u8]) -> bool {
        self.after.as_ref().is_none_or(|after| path > after.as_bytes())
    }

    /// Whether a path below the directory `path` can come after the page before: the last of them is before `path` and a `0`, the
    /// character after `/`.
    fn may_come_after(&self, path: &[u8]) -> bool {
        let all_before = |after: &EntryPath| after.as_bytes() >= [path, b"0"].concat().as_slice();
        !self.after.as_ref().is_some_and(all_before)
    }
}

fn page(search: Search, wanted: &Wanted) -> Result<GlobFound> {
    let visitor = || Names {
        wanted,
        first: BinaryHeap::new(),
        skipped: Vec::new(),
    };
    let mut paths = Vec::new();
    let mut skipped = Vec::new();
    let (left_out, incomplete) = (search.left_out.clone(), search.is_incomplete());
    for names in search.walk(visitor)? {
        paths.extend(names.first);
        skipped.extend(names.skipped);
    }
    paths.sort_unstable();
    skipped.sort_unstable();
    skipped.truncate(MAX_SKIPPED);
    let truncated = paths.len() > wanted.limit;
    paths.truncate(wanted.limit);
    let next = paths.last().filter(|_| truncated);
    Ok(GlobFound {
        next_cursor: next.map(|path| EntryPath::from_bytes(path.clone()).to_token()),
        truncated,
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

/// Collects, on one thread, the first paths that match: a page and one more, which tells that there are more.
struct Names<'a> {
    wanted: &'a Wanted,
    first: BinaryHeap<Vec<u8>>,
    skipped: Vec<Skipped>,
}

impl Names<'_> {
    fn consider(&mut self, spot: Spot<'_>) {
        let path = &spot.path[self.wanted.base..];
        let is_full = self.first.len() > self.wanted.limit;
        if is_full && self.first.peek().is_some_and(|last| path >= last.as_slice()) {
            return;
        }
        if self.wanted.is_after(path) && self.wanted.glob.is_match(spot.relative()) {
            self.first.push(path.to_vec());
            if is_full {
                self.first.pop();
            }
        }
    }
}

impl Visitor for Names<'_> {
    fn enter(&mut self, spot: Spot<'_>) -> bool {
        if self.wanted.include_directories {
            self.consider(spot);
        }
        self.wanted.glob.reaches_below(spot.relative()) && self.wanted.may_come_after(&spot.path[self.wanted.base..])
    }

    fn visit(&mut self, spot: Spot<'_>, _directory: &dyn Directory) {
        self.consider(spot);
    }

    fn fail(&mut self, path: &[u8], error: &Error) {
        self.skipped
            .push(Skipped::new(&path[self.wanted.base..], error.kind().as_str()));
    }
}
