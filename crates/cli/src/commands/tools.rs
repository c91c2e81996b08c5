//! `garret tools`

use clap::{Args, ValueEnum};
use garret::{Definition, ExportFormat, Naming, Toolbox};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret tools
  garret tools --format openai > tools.json";

#[derive(Debug, Args)]
pub(crate) struct Tools {
    /// Print the definitions in the format of another program, with or without --json, instead of a list for people
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// How the tools are named [default: as the workspace is configured, or bare]
    #[arg(long, value_enum)]
    naming: Option<NamingChoice>,
}

/// The formats of exported definitions.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
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

impl From<NamingChoice> for Naming {
    fn from(choice: NamingChoice) -> Self {
        match choice {
            NamingChoice::Prefixed => Self::Prefixed,
            NamingChoice::Flat => Self::Flat,
            NamingChoice::Bare => Self::Bare,
            NamingChoice::Short => Self::Short,
        }
    }
}

impl Tools {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let mut chosen = session.chosen(session.global().workspace.as_deref()).await?;
        if let Some(naming) = self.naming {
            chosen.config.tools.naming = naming.into();
            chosen.take_directory_name();
        }
        let toolbox = chosen.open(session).await?;
        Ok(match self.format {
            Some(format) => Report::document(&toolbox.export(format.into())),
            None => listing(&toolbox),
        })
    }
}

impl From<Format> for ExportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Mcp => Self::Mcp,
            Format::Openai => Self::OpenAi,
            Format::Anthropic => Self::Anthropic,
            Format::JsonSchema => Self::JsonSchema,
        }
    }
}

fn listing(toolbox: &Toolbox) -> Report {
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
    let tools: Vec<_> = definitions.iter().map(entry).collect();
    Report::done(text, json!({"tools": tools}))
}

fn entry(definition: &Definition) -> serde_json::Value {
    json!({"name": definition.name, "canonical": definition.canonical, "title": definition.title})
}
