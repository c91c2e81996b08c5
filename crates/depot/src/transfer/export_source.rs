//! Reads the files of a workspace at a point, and pieces of content.

use std::ops::Range;

use bytes::Bytes;
use garret_core::{EntryKind, Error, Point, Result, WsPath};

use super::{EntryNode, HistoryReader, PAGE, PieceAddress, PlainPiece};
use crate::error::damaged_content;
use crate::history::check_kept;
use crate::metadata::{LineageLevel, MetadataSession, WorkspaceRow};
use crate::tree::{DepotTree, path_key};
use crate::workspace::DepotWorkspace;

/// A workspace as the source of an export.
#[derive(Debug, Clone)]
pub struct ExportSource {
    pub(super) workspace: DepotWorkspace,
}

impl ExportSource {
    /// Returns `workspace` as the source of an export.
    pub fn new(workspace: &DepotWorkspace) -> Self {
        Self {
            workspace: workspace.clone(),
        }
    }

    /// Returns the name of the workspace.
    pub fn workspace_name(&self) -> Result<Option<String>> {
        self.workspace_row().map(|row| row.name)
    }

    /// Returns a reader of the tree at `point` below the directory `path`; a path that is no directory is refused.
    pub fn read_tree(&self, point: &Point, path: &WsPath) -> Result<TreeReader> {
        let level = self.read_metadata(|session| {
            let level = self.workspace.resolve_point(session, point)?;
            let tree = DepotTree::at_point(session, level)?;
            let is_directory = |node: EntryNode| node.kind == EntryKind::Directory;
            if path.is_root() || tree.node(path_key(path))?.is_some_and(is_directory) {
                Ok(level)
            } else {
                Err(Error::not_a_directory(path))
            }
        })?;
        Ok(TreeReader {
            source: self.clone(),
            level,
            directory: path_key(path).to_vec(),
            from: Some(Vec::new()),
        })
    }

    /// Returns a reader of everything that the journal keeps, as of now.
    pub fn read_history(&self) -> Result<HistoryReader> {
        HistoryReader::begin(self.clone())
    }

    /// Reads a piece of content and verifies it.
    pub async fn read_piece(&self, address: PieceAddress) -> Result<PlainPiece> {
        let shared = self.workspace.shared();
        shared.content.read_plain_piece(&shared.database, address).await
    }

    /// Reads a range of a file's bytes and verifies them. An empty range of an empty file is verified too.
    pub async fn read_range(&self, node: &EntryNode, range: Range<u64>) -> Result<Bytes> {
        let shared = self.workspace.shared();
        let address = node.content.ok_or_else(|| damaged_content("a file has no content"))?;
        let row = self.read_metadata(|session| session.contents().content(address))?;
        let row = row.ok_or_else(|| damaged_content("the content is missing from the home"))?;
        let content = &shared.content;
        content
            .read_range(&shared.database, address, row, node.size, range)
            .await
    }

    /// Returns the path of a file with this content, for an error message.
    pub fn path_with_content(&self, address: PieceAddress) -> Result<Option<Vec<u8>>> {
        self.read_metadata(|session| session.retention().path_with_content(self.workspace.number, address))
    }

    pub(super) fn workspace_row(&self) -> Result<WorkspaceRow> {
        let row = self.read_metadata(|session| session.workspaces().workspace(self.workspace.number))?;
        row.ok_or_else(|| damaged_content("the record of a workspace is missing"))
    }

    pub(super) fn read_metadata<T>(&self, look: impl FnOnce(MetadataSession<'_>) -> Result<T>) -> Result<T> {
        self.workspace.shared().database.read(look)
    }
}

/// A reader of the entries below a directory at a point. Each page is a transaction of its own; a point that garbage
/// collection removes between two pages is an error.
#[derive(Debug)]
pub struct TreeReader {
    pub(super) source: ExportSource,
    pub(super) level: LineageLevel,
    pub(super) directory: Vec<u8>,
    /// The path at which the next page begins; `None` at the end.
    pub(super) from: Option<Vec<u8>>,
}

impl TreeReader {
    /// Returns the next entries with their paths, in order; none at the end.
    pub fn next_page(&mut self) -> Result<Vec<(Vec<u8>, EntryNode)>> {
        self.next_page_of(|_, path, node| Ok(Some((path, node))))
    }

    /// Returns the next items that `select` makes of entries. The page is empty at the end only.
    pub(super) fn next_page_of<T>(
        &mut self,
        select: impl Fn(MetadataSession<'_>, Vec<u8>, EntryNode) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        let Some(start) = self.from.take() else {
            return Ok(Vec::new());
        };
        let (page, next) = self.source.read_metadata(|session| {
            check_kept(session, self.level)?;
            let tree = DepotTree::at_point(session, self.level)?;
            let mut scan = tree.scan_below(&self.directory);
            scan.seek(&start);
            let mut page = Vec::with_capacity(PAGE);
            while page.len() < PAGE {
                let Some((path, node)) = scan.next()? else {
                    return Ok((page, None));
                };
                page.extend(select(session, path, node)?);
            }
            Ok((page, scan.next()?.map(|(path, _)| path)))
        })?;
        self.from = next;
        Ok(page)
    }
}
