//! Creates a workspace from plain files.

use garret_core::{ChangeRequest, Result, WsPath};

use super::{TreeSource, TreeTransferReport};
use crate::depot::{Depot, NewWorkspace};
use crate::portable::ProgressWatcher;
use crate::workspace::DepotWorkspace;

impl Depot {
    /// Creates a workspace from plain files, in one change. It becomes visible when all files are in it; if that fails,
    /// it is removed again.
    pub async fn import_files(
        &self,
        new: NewWorkspace,
        source: TreeSource,
        making: impl Into<ChangeRequest>,
        watch: ProgressWatcher<'_>,
    ) -> Result<(DepotWorkspace, TreeTransferReport)> {
        self.check_new(&new)?;
        let row = self.begin_import(&new).await?;
        let workspace = self.workspace_handle(&row);
        let taken = workspace.import_tree(source, &WsPath::root(), making, watch).await;
        let done = match taken {
            Ok(moved) => self.show_imported(row.id, new.name).await.map(|()| moved),
            Err(error) => Err(error),
        };
        match done {
            Ok(moved) => Ok((workspace, moved)),
            Err(error) => {
                self.remove_hidden(row.id).await?;
                Err(error)
            }
        }
    }
}
