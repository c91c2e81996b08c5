//! A workspace narrowed to a subdirectory, never wider than the one around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use garret_core::{FsPolicy, Result};

use crate::Workspace;
use crate::workspace::{Layer, View};

/// What a scope has of its own.
#[derive(Debug, Clone, Default)]
pub struct ScopeOptions {
    /// Its policy, with globs relative to the scope; the policies around it hold besides.
    pub policy: FsPolicy,
    /// Environment added to, or put in place of, what is around it.
    pub env: BTreeMap<String, String>,
}

impl Workspace {
    /// Narrows the workspace to the directory `path`. A path that leaves this view is `path_escape`, whatever `on_escape` says: a
    /// tenant must not be handed another's room. The directory need not exist yet; a link that later takes its place leads nowhere.
    pub fn scope(&self, path: &str, options: ScopeOptions) -> Result<Self> {
        let base = self.parse_strictly(path)?.below(&self.view.base)?;
        let layer = Arc::new(Layer::new(base.clone(), options.policy)?);
        let layers = self.view.layers.iter().cloned().chain([layer]).collect();
        let mut env = self.view.env.clone();
        env.extend(options.env);
        let view = Arc::new(View { base, layers, env });
        Ok(Self { view, ..self.clone() })
    }
}
