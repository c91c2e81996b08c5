//! The commands of a workspace, as one view and one actor may run them.

use std::sync::Arc;

use garret_core::{Error, ErrorKind, Result};
use tokio::sync::watch;

use crate::Workspace;
use crate::file_access::FileAccess;
use crate::shell::TurnWaiting;
use crate::shell::runtime::ShellRuntime;

/// The commands of a workspace, as one view and one actor may run them: their preparation, approval and run.
#[derive(Debug, Clone)]
pub(crate) struct CommandAccess {
    /// The files as operations see them: their changes pause the background processes.
    pub(crate) files: FileAccess,
    pub(crate) shell: Arc<ShellRuntime>,
    /// The channel that reports when a command waits for its turn.
    pub(crate) turn_watch: Option<watch::Sender<Option<TurnWaiting>>>,
}

impl CommandAccess {
    /// Returns the access to the files under the layers of commands, where their effects are committed.
    pub(in crate::shell) fn files_under_layer(&self) -> FileAccess {
        self.shell.files_under_layer(&self.files)
    }
}

impl Workspace {
    /// Returns the access to the commands; `unsupported` if this workspace does not run any.
    pub(crate) fn commands(&self) -> Result<CommandAccess> {
        let owned = self.shared.shell.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this workspace does not run commands")
                .hint("declare the capability `shell` for it")
        })?;
        Ok(CommandAccess {
            files: self.files.clone(),
            shell: owned.0.clone(),
            turn_watch: self.turn_watch.clone(),
        })
    }
}
