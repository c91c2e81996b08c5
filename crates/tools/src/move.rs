//! `move`: moves or renames a file or a directory.

use garret_core::Result;
use garret_workspace::{Transferred, Workspace};

use crate::limits::Limits;
use crate::tool::{Output, Tool};
use crate::{Annotations, transfer};

pub(crate) struct Move;

impl Tool for Move {
    type Arguments = transfer::Arguments;
    type Data = Transferred;

    const NAME: &'static str = "move";
    const SHORT: &'static str = "move";
    const TITLE: &'static str = "Move or rename a file or directory";
    const DESCRIPTION: &'static str = "Moves or renames a file or directory.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Self::Arguments, _limits: &Limits) -> Result<Output<Transferred>> {
        let moved = workspace
            .rename(&arguments.src, &arguments.dest, arguments.options())
            .await?;
        Ok(transfer::show("moved", moved))
    }
}
