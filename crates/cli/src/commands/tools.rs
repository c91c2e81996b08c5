//! `garret tools`

use clap::{Args, ValueEnum};
use garret::{Definition, ExportFormat, ToolNaming, Toolbox};
use serde_json::json;

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret tools
  garret tools --format openai > tools.json";

#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Print the definitions in the format of another program, with or without --json, instead of a list for people
    #[arg(long, value_enum)]
    format: Option<ToolFormatChoice>,
    /// How the tools are named [default: as the workspace is configured, or bare]
    #[arg(long, value_enum)]
    naming: Option<NamingChoice>,
}

/// The formats of exported definitions.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ToolFormatChoice {
    /// The `tools` of an MCP server, as `garret mcp --structured` lists them
    Mcp,
    /// The `tools` of an OpenAI request
    Openai,
    /// The `tools` of an Anthropic request
    Anthropic,
    /// Each tool's name with the JSON schema of its arguments
    JsonSchema,
}

/// The ways to name tools.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum NamingChoice {
    /// workspace__NAME__read_file
    Prefixed,
    /// workspace_read_file
    Flat,
    /// read_file
    Bare,
    /// read
    Short,
}

impl From<NamingChoice> for ToolNaming {
    fn from(choice: NamingChoice) -> Self {
        match choice {
            NamingChoice::Prefixed => Self::Prefixed,
            NamingChoice::Flat => Self::Flat,
            NamingChoice::Bare => Self::Bare,
            NamingChoice::Short => Self::Short,
        }
    }
}

impl ToolsArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let mut chosen = session.choose_workspace(session.global().workspace.as_deref()).await?;
        if let Some(naming) = self.naming {
            chosen.config.tools.naming = naming.into();
            chosen.take_directory_name();
        }
        let toolbox = chosen.open(session).await?;
        Ok(match self.format {
            Some(format) => CliReport::document(&toolbox.export(format.into())),
            None => tool_list_report(&toolbox),
        })
    }
}

impl From<ToolFormatChoice> for ExportFormat {
    fn from(format: ToolFormatChoice) -> Self {
        match format {
            ToolFormatChoice::Mcp => Self::Mcp,
            ToolFormatChoice::Openai => Self::OpenAi,
            ToolFormatChoice::Anthropic => Self::Anthropic,
            ToolFormatChoice::JsonSchema => Self::JsonSchema,
        }
    }
}

fn tool_list_report(toolbox: &Toolbox) -> CliReport {
    let definitions = toolbox.definitions();
    let width = definitions
        .iter()
        .map(|definition| definition.name.len())
        .max()
        .unwrap_or(0);
    let lines: Vec<_> = definitions
        .iter()
        .map(|definition| format!("{:width$}  {}", definition.name, definition.title))
        .collect();
    let text = if lines.is_empty() {
        "this workspace declares no capability, so it has no tools".into()
    } else {
        lines.join("\n")
    };
    let tools: Vec<_> = definitions.iter().map(definition_entry).collect();
    CliReport::success(text, json!({"tools": tools}))
}

fn definition_entry(definition: &Definition) -> serde_json::Value {
    json!({"name": definition.name, "canonical": definition.canonical, "title": definition.title})
}
