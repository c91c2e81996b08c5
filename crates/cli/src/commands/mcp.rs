//! `garret mcp`

use std::io::IsTerminal;

use clap::Args;
use garret::{Actor, Error, ErrorKind, Toolbox};
use garret_server::mcp::ServeOptions;

use crate::commands::run::NetworkArgs;
use crate::commands::tools::NamingChoice;
use crate::mounts::MountArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, print_note};
use crate::session::Session;
use crate::workspace_choice;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret mcp .
  garret mcp . --shell --code --exclude target/,node_modules/
  garret mcp . --shell --network registries,example.org
  garret -w site mcp --read-only
  garret mcp . --tools read_file,grep,glob
In a client's configuration: {\"command\": \"garret\", \"args\": [\"mcp\", \"path/to/project\"]}";

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The workspace, as for -w: a directory, a URL or a name [default: the current directory]
    path: Option<String>,
    /// How the tools are named [default: as the workspace is configured, or bare]
    #[arg(long, value_enum)]
    naming: Option<NamingChoice>,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Offer the tools for commands, which run in a sandbox
    #[arg(long)]
    shell: bool,
    /// Offer the tools for code, which runs in a sandbox
    #[arg(long)]
    code: bool,
    /// Paths that history leaves out and only commands write, as in a .gitignore: `target/,node_modules/`
    #[arg(long, value_delimiter = ',', value_name = "PATTERNS")]
    exclude: Vec<String>,
    #[command(flatten)]
    mounts: MountArgs,
    #[command(flatten)]
    network: NetworkArgs,
    /// Offer only these tools, by the names that `garret tools` shows
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    tools: Option<Vec<String>>,
    /// Also send structured data with output schemas; some clients then show the model only the data
    #[arg(long)]
    structured: bool,
}

impl McpArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let flag = session.global().workspace.as_deref();
        let text = workspace_choice::flag_or_argument(flag, self.path.as_deref()).map_err(CliFailure::wrong_usage)?;
        let mounts = self.mounts.parse_mounts().map_err(CliFailure::wrong_usage)?;
        let mut chosen = session.choose_workspace(text.as_deref()).await?;
        let mut notes = vec![chosen.withhold_untrusted(self.shell, self.code)];
        chosen.declare_capabilities(self.shell, self.code);
        chosen.config.exclude.extend(self.exclude.iter().cloned());
        chosen.set_network(&self.network)?;
        if !mounts.is_empty() {
            // Nobody else sees a mount.
            chosen.check_declares(&["shell", "code"])?;
        }
        if self.read_only {
            notes.push(chosen.make_read_only());
        }
        notes.iter().flatten().for_each(|note| print_note(note));
        if let Some(naming) = self.naming {
            chosen.config.tools.naming = naming.into();
            chosen.take_directory_name();
        }
        // Standard input belongs to the client, so the answer of a person could not be read from it.
        let actor = Actor::from_door("mcp");
        let garret = session.garret().clone().without_approver().actor(actor).mounts(mounts);
        let toolbox = chosen.open_with(session, &garret).await?;
        let workspace = toolbox.workspace().clone();
        if std::io::stdin().is_terminal() {
            print_note("waiting for an MCP client on standard input; `garret mcp --help` shows how a client starts it");
        }
        let served = self.serve_tools(toolbox).await;
        // Processes that still run are ended here, and their changes are kept.
        workspace.close().await?;
        served?;
        Ok(CliReport::silent())
    }

    async fn serve_tools(&self, toolbox: Toolbox) -> Result<(), CliFailure> {
        let toolbox = if self.read_only { toolbox.for_reading() } else { toolbox };
        let toolbox = match &self.tools {
            Some(names) => toolbox.only(names).map_err(CliFailure::wrong_usage)?,
            None => toolbox,
        };
        let options = ServeOptions {
            structured: self.structured,
        };
        garret_server::mcp::serve_stdio(toolbox, options)
            .await
            .map_err(serve_failure)
    }
}

fn serve_failure(error: garret_server::mcp::ServeError) -> CliFailure {
    Error::new(ErrorKind::Unavailable, error.to_string())
        .hint("start this program from an MCP client, which sends the first message")
        .into()
}
