//! A workspace narrowed to a subdirectory, never wider than the one around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use garret_core::{FsPolicy, Result};

use crate::Workspace;
use crate::file_access::FileAccess;
use crate::view::{PolicyLayer, WorkspaceView};

/// The policy and the environment of a scope.
#[derive(Debug, Clone, Default)]
pub struct ScopeOptions {
    /// Its policy, with globs relative to the scope; the policies of the views around it apply as well.
    pub policy: FsPolicy,
    /// Variables that are added to the environment of the view around it, or replace variables of that environment.
    pub env: BTreeMap<String, String>,
}

impl Workspace {
    /// Narrows the workspace to the directory `path`. A path that leaves this view is `path_escape`, whatever
    /// `on_escape` says. The directory need not exist yet; a link that later takes its place leads nowhere.
    pub fn scope(&self, path: &str, options: ScopeOptions) -> Result<Self> {
        // `on_escape` may clamp a path to the root, and a tenant must never be given a wider directory than was asked
        // for.
        let base = self.files.parse_strictly(path)?.rebase_below(&self.files.view.base)?;
        let layer = Arc::new(PolicyLayer::new(base.clone(), options.policy)?);
        let layers = self.files.view.layers.iter().cloned().chain([layer]).collect();
        let mut env = self.files.view.env.clone();
        env.extend(options.env);
        let view = Arc::new(WorkspaceView { base, layers, env });
        let files = FileAccess {
            view,
            ..self.files.clone()
        };
        Ok(Self { files, ..self.clone() })
    }
}
