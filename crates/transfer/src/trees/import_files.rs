//! Creates a workspace from plain files.

use garret_core::{Origin, Result, WsPath};
use garret_depot::transfer::HiddenWorkspace;
use garret_depot::{Depot, DepotWorkspace, NewWorkspace};

use super::{TreeSource, TreeTransferReport, import_tree};
use crate::progress::ProgressWatcher;

/// Creates a workspace from plain files, in one change. It becomes visible when all files are in it; if that fails, it
/// is removed again.
pub async fn import_files(
    depot: &Depot,
    new: NewWorkspace,
    source: TreeSource,
    request: impl Into<Origin>,
    watch: ProgressWatcher<'_>,
) -> Result<(DepotWorkspace, TreeTransferReport)> {
    HiddenWorkspace::check_name(depot, &new)?;
    let hidden = HiddenWorkspace::create(depot, new).await?;
    let workspace = hidden.workspace();
    let done = match import_tree(&workspace, source, &WsPath::root(), request, watch).await {
        Ok(moved) => hidden.show().await.map(|()| moved),
        Err(error) => Err(error),
    };
    match done {
        Ok(moved) => Ok((workspace, moved)),
        Err(error) => {
            hidden.remove().await?;
            Err(error)
        }
    }
}
