//! The files of a workspace, as one view and one actor may access them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, ready};
use garret_core::{
    AccessLimits, Actor, Clock, DerivedFiles, Error, ErrorKind, EventSink, Exclusions, History, Ids, LocalContent,
    Result, Storage, WsPath,
};

use crate::Approver;
use crate::hard_links::{HardLinkCheck, HardLinkMemo};
use crate::history::HistoryAccess;
use crate::host_path::HostRoots;
use crate::shell::background::live_layer::ProcessPause;
use crate::shell::runtime::ShellRuntime;
use crate::view::WorkspaceView;

/// The files, as one view and one actor may access them. Every operation on files goes through it; commands do not.
#[derive(Debug, Clone)]
pub(crate) struct FileAccess {
    pub(crate) source: Arc<FileSource>,
    pub(crate) context: Arc<OperationContext>,
    pub(crate) view: Arc<WorkspaceView>,
    pub(crate) actor: Arc<Actor>,
    /// The hard links that one operation met; `None` unless this is the access of a single operation.
    pub(crate) hard_links: Option<Arc<HardLinkMemo>>,
}

/// The place of the files, and its limits.
#[derive(Debug, Clone)]
pub(crate) struct FileSource {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) history: Option<Arc<dyn History>>,
    /// The configuration that is kept for new branches.
    pub(crate) branch_config: Option<serde_json::Value>,
    /// Whether this is a view of the past from which files may be missing: those that the history had not captured by
    /// then.
    pub(crate) is_partial: bool,
    /// In a view of the past, the storage with the files as they are now.
    pub(crate) present: Option<Arc<dyn Storage>>,
    /// How much of the files is read and searched at once.
    pub(crate) access_limits: AccessLimits,
    /// The content of listed files, if it can be read without the storage.
    pub(crate) local_content: Option<Arc<dyn LocalContent>>,
    /// The paths of the host directory that holds the files, if there is one.
    pub(crate) host_roots: HostRoots,
    /// The paths at which only commands have files; no operation can write there.
    pub(crate) exclusions: Exclusions,
    /// The files that commands make from others.
    pub(crate) derived: DerivedFiles,
    /// The commands whose background processes are paused while the files are changed; `None` if there are none, or if
    /// their own effects are committed.
    pub(crate) shell: Option<Arc<ShellRuntime>>,
}

/// The parts that every operation of a workspace needs besides the files.
#[derive(Debug)]
pub(crate) struct OperationContext {
    pub(crate) name: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// The consents that were given for the session: the directory of the view, and the rule.
    pub(crate) consents: Mutex<HashSet<(WsPath, String)>>,
}

impl FileAccess {
    pub(crate) fn storage(&self) -> &dyn Storage {
        self.source.storage.as_ref()
    }

    /// Returns the history; `unsupported` if none is kept.
    pub(crate) fn journal(&self) -> Result<&Arc<dyn History>> {
        self.source.history.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this workspace keeps no history")
                .hint("open it with `history` set to `durable` or `session`")
        })
    }

    /// Returns the access to the history of the files; `unsupported` if none is kept.
    pub(crate) fn history(&self) -> Result<HistoryAccess<'_>> {
        let journal = self.journal()?;
        Ok(HistoryAccess { files: self, journal })
    }

    /// Returns the check of files for denied names.
    pub(crate) fn hard_links(&self) -> HardLinkCheck {
        HardLinkCheck {
            view: self.view.clone(),
            storage: self.source.storage.clone(),
            present: self.source.present.clone(),
            memo: self.hard_links.clone(),
        }
    }

    /// Returns this access for one operation on several files: the tree is walked for hard links once.
    pub(crate) fn remembering_hard_links(&self) -> Self {
        Self {
            hard_links: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// Returns the access to the files in another place, for the same view and actor.
    pub(crate) fn on_source(&self, source: Arc<FileSource>) -> Self {
        Self {
            source,
            hard_links: None,
            ..self.clone()
        }
    }

    /// Pauses the background processes for a change of the files and commits their effects, for a caller that holds the
    /// turns of the quotas.
    pub(crate) fn pause_processes(&self) -> BoxFuture<'_, Result<ProcessPause<'_>>> {
        // Boxed, since the effects of the processes are committed by the function that calls this one.
        match &self.source.shell {
            Some(shell) => Box::pin(shell.pause_for_change()),
            None => Box::pin(ready(Ok(ProcessPause::default()))),
        }
    }
}
