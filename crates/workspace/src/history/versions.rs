//! The versions of one file.

use garret_core::{Access, PathVersion, Restore, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::changes::{ActorShown, ChangeShown};
use crate::Workspace;
use crate::admit::Names;

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VersionShown {
    /// The version of its content in the history; of a link or directory, the id of the change.
    pub version: String,
    /// What the file was called then.
    pub path: String,
    /// When it became so, in RFC 3339.
    pub timestamp: String,
    /// The tool that made it so.
    pub tool_name: String,
    /// Who did it.
    pub actor: ActorShown,
    /// Bytes of content.
    pub size: u64,
    /// The id of the change that made it so.
    pub change: String,
}

impl Workspace {
    /// What was at `path` over time, newest first, at most `limit`, across renames. A path that is gone still has its versions.
    pub async fn versions(&self, path: &str, limit: usize) -> Result<Vec<VersionShown>> {
        let work = async {
            let target = self.admit(path, Names::Entry, &[Access::Read]).await?;
            let versions = self.journal()?.versions(&target.real, limit).await?;
            // A file that came from where this view may not look has no past here.
            let seen = versions
                .into_iter()
                .take_while(|version| self.is_path_seen(&version.path));
            Ok(seen.map(|version| self.version_shown(version)).collect())
        };
        self.operate("history", &[path], |_: &Vec<_>| 0, work).await
    }

    /// Makes the file at `path` what it was in `version`, one of [`Workspace::versions`] by its token or the id of its change; `None`
    /// where it is so already. One change, which can be undone.
    pub async fn restore_version(&self, path: &str, version: &str) -> Result<Option<ChangeShown>> {
        let work = async {
            let target = self.admit(path, Names::Entry, &[Access::Read, Access::Write]).await?;
            let restore = Restore::Version {
                path: target.real,
                version: version.to_owned(),
            };
            self.restored(restore, "restore_version").await
        };
        self.operate("restore_version", &[path], |_| 0, work).await
    }

    pub(crate) async fn restored(&self, restore: Restore, operation: &'static str) -> Result<Option<ChangeShown>> {
        match self.journal()?.restore(restore, self.making(operation)).await? {
            None => Ok(None),
            Some(change) => {
                let fallback = ChangeShown::from(change.clone());
                let seen = self.seen(change).await?;
                Ok(Some(seen.map_or(fallback, ChangeShown::from)))
            }
        }
    }

    fn version_shown(&self, version: PathVersion) -> VersionShown {
        let token = version.image.version.as_ref().map(|token| token.as_str().to_owned());
        VersionShown {
            version: token.unwrap_or_else(|| version.change.id.clone()),
            path: self.shown_entry(&version.path).shown(),
            timestamp: version.change.at.to_string(),
            tool_name: version.change.operation,
            actor: version.change.actor.into(),
            size: version.image.size,
            change: version.change.id,
        }
    }
}
