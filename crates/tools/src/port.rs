//! `port`: opens a port of a background process to programs outside.

use std::time::Duration;

use garret_workspace::{PortAnswer, PortRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

/// The longest wait for the process to listen: servers take some seconds to start.
const LISTEN_WAIT: Duration = Duration::from_secs(10);

pub(crate) struct PortTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    id: String,
    port: u16,
}

impl Tool for PortTool {
    type Arguments = Arguments;
    type Data = PortAnswer;

    const NAME: &'static str = "port";
    const SHORT: &'static str = "port";
    const TITLE: &'static str = "Open a port";
    const DESCRIPTION: &'static str = "Lets the user's machine reach a port on which a background process listens, until it ends; answers with the URL.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let request = PortRequest {
            id: arguments.id,
            port: arguments.port,
            bind: None,
            wait: LISTEN_WAIT,
        };
        let answer = workspace.open_port(request).await?;
        let opened = &answer.opened;
        let mut text = format!("port {} of {} is {}", opened.port, opened.process, opened.url);
        if !answer.ready {
            text.push_str("; nothing listens on it yet: see the `output` of the process");
        }
        Ok(ToolOutput::new(text, answer))
    }
}
