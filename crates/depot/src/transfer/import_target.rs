//! Stores content and files in a workspace.

use std::collections::BTreeMap;

use garret_core::{Change, ChangeKind, Content, Error, ErrorKind, Origin, Result, WsPath};

use super::entry_placement::{make_destination, put_entry};
use super::{EntryNode, PlainPiece, PreparedContent};
use crate::change::ChangeBuilder;
use crate::history::{finish_change, with_description};
use crate::metadata::MetadataSession;
use crate::workspace::DepotWorkspace;

/// A workspace as the target of an import. Content is stored first, then the entries that refer to it.
#[derive(Debug, Clone)]
pub struct ImportTarget {
    workspace: DepotWorkspace,
}

impl ImportTarget {
    /// Returns `workspace` as the target of an import.
    pub fn new(workspace: &DepotWorkspace) -> Self {
        Self {
            workspace: workspace.clone(),
        }
    }

    /// Stores the blobs of a file's content. [`Self::record_contents`] records them.
    pub async fn prepare_content(&self, content: &Content) -> Result<PreparedContent> {
        let shared = self.workspace.shared();
        let store = &shared.content;
        store
            .prepare_content(&shared.database, content, self.workspace.durability)
            .await
    }

    /// Stores the blob of a piece of content. [`Self::record_contents`] records it.
    pub async fn prepare_piece(&self, piece: PlainPiece) -> Result<PreparedContent> {
        let shared = self.workspace.shared();
        let store = &shared.content;
        store
            .prepare_piece(&shared.database, piece, self.workspace.durability)
            .await
    }

    /// Records prepared content, in one transaction. Content that nothing refers to is garbage after a grace period.
    pub async fn record_contents(&self, contents: Vec<PreparedContent>) -> Result<()> {
        let shared = self.workspace.shared().clone();
        let record = move |session: MetadataSession<'_>| {
            let store = &shared.content;
            contents
                .iter()
                .try_for_each(|prepared| store.record_content(session, prepared))
        };
        self.workspace
            .shared()
            .writer
            .write(self.workspace.durability, record)
            .await
    }

    /// Puts entries, whose content is recorded, into the workspace as one change, and creates the directory `into`.
    /// Existing files are replaced; a directory never replaces a file, nor a file a directory. Returns `None` if nothing
    /// differed.
    pub async fn put_entries(
        &self,
        entries: BTreeMap<Vec<u8>, EntryNode>,
        into: &WsPath,
        request: Origin,
    ) -> Result<Option<Change>> {
        let (number, durability) = (self.workspace.number, self.workspace.durability);
        let request = with_description(request, "import", format!("import {} entries", entries.len()));
        let (shared, into) = (self.workspace.shared().clone(), into.clone());
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            if !into.is_root() {
                make_destination(&mut changing, &into)?;
            }
            for (path, node) in entries {
                // The content was stored in earlier transactions, and garbage collection may have removed it since.
                if let Some(address) = node.content
                    && !shared.content.refer_to_content(session, address)?
                {
                    return Err(content_collected());
                }
                put_entry(&mut changing, &path, node)?;
            }
            finish_change(session, &shared, changing, ChangeKind::Change, request)
        };
        self.workspace.shared().writer.write(durability, work).await
    }
}

fn content_collected() -> Error {
    let message = "imported content was collected as garbage during the import";
    Error::new(ErrorKind::Unavailable, message)
        .hint("nothing was changed; import again, and collect garbage with a longer grace period")
}
