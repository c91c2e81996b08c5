//! `--mount`: parts of this machine that commands see.

use clap::Args;
use garret::{Result, SandboxMount};

/// The parts of this machine that commands see besides the workspace.
#[derive(Debug, Default, Args)]
pub(crate) struct MountArgs {
    /// Show a file or directory of this machine to commands, at TARGET [default: at its own path]; ACCESS is `read`, `write`, or `layer` (written and not kept) [default: read]; may be given several times
    #[arg(long = "mount", value_name = "SOURCE[:TARGET][:ACCESS]")]
    mounts: Vec<String>,
}

impl MountArgs {
    /// Returns the mounts; a relative source begins at the current directory.
    pub(crate) fn parse_mounts(&self) -> Result<Vec<SandboxMount>> {
        let read = |text: &String| {
            let mount = SandboxMount::parse(text)?;
            let is_absolute = mount.source.is_absolute() || mount.source.starts_with("~");
            let source = if is_absolute {
                mount.source.clone()
            } else {
                std::path::absolute(&mount.source).unwrap_or_else(|_| mount.source.clone())
            };
            Ok(SandboxMount { source, ..mount })
        };
        self.mounts.iter().map(read).collect()
    }
}
