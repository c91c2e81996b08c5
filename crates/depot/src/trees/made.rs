//! A workspace made of plain files.

use garret_core::{Making, Result, WsPath};

use super::{Moved, TreeSource};
use crate::depot::{Depot, NewWorkspace};
use crate::portable::Watch;
use crate::workspace::DepotWorkspace;

impl Depot {
    /// Makes a workspace of plain files, in one change. It is there when all of them are; until then, and where they cannot be had, there is
    /// none.
    pub async fn import_files(
        &self,
        new: NewWorkspace,
        source: TreeSource,
        making: impl Into<Making>,
        watch: Watch<'_>,
    ) -> Result<(DepotWorkspace, Moved)> {
        self.check_new(&new)?;
        let row = self.begin_import(&new).await?;
        let workspace = self.handle(&row);
        let taken = workspace.import_tree(source, &WsPath::root(), making, watch).await;
        let done = match taken {
            Ok(moved) => self.show(row.id, new.name).await.map(|()| moved),
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
