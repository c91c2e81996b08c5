//! `copy`: copies a file or a directory.

use garret_core::Result;
use garret_workspace::{Transferred, Workspace};

use crate::limits::Limits;
use crate::tool::{Output, Tool};
use crate::{Annotations, transfer};

pub(crate) struct Copy;

impl Tool for Copy {
    type Arguments = transfer::Arguments;
    type Data = Transferred;

    const NAME: &'static str = "copy";
    const SHORT: &'static str = "copy";
    const TITLE: &'static str = "Copy a file or directory";
    const DESCRIPTION: &'static str = "Copies a file, or a directory with everything in it.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: true,
    };

    async fn run(workspace: &Workspace, arguments: Self::Arguments, _limits: &Limits) -> Result<Output<Transferred>> {
        let copied = workspace
            .copy(&arguments.src, &arguments.dest, arguments.options())
            .await?;
        Ok(transfer::show("copied", copied))
    }
}
