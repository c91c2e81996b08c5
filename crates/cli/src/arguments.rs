//! The arguments of the command line. The texts here are the help that users read.

use std::path::PathBuf;

use std::io::IsTerminal;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::output::{CliFailure, CliOutcome, Format};
use crate::session::{EventsChoice, Session};
use crate::terminal::ColorChoice;

const AFTER_HELP: &str = "\
Which workspace (-w):
  1. a storage URL: memory:  local:DIR  filestore:NAME (of the home)  s3://BUCKET/PREFIX
  2. a name from garret.toml, which is searched in the current directory and above it
  3. a name of the home (see `garret create` and `garret list`)
  4. a directory
A name that is also a directory means the workspace of that name; write ./NAME for the directory.
NAME@POINT is the workspace as it was at a point, read-only. A point is a snapshot, a change
(its number or its id) or a time such as 2026-11-15T20:00:00Z.
After `grep`, -w means whole words: write `garret -w NAME grep`, or --workspace NAME.
Paths are inside the workspace: `a/b`, `/a/b` and `/workspace/a/b` are one file. An argument
that begins with a dash and is not an option comes after `--`.

Exit codes:
  0  success (also for a search without matches)
  1  the operation failed; the reason is on standard error, or in `error` with --json
  2  wrong usage: arguments, JSON, the choice of workspace or its configuration
  75 `run`, `shell` and `code`: the command ended with 0, but its effects went to a branch or a leftover
`garret run`, `garret shell` and `garret code` end with the exit code of the command or code.

With --json, every command prints one object: {\"ok\", \"text\", \"data\", \"error\"}.";

/// Workspaces for AI agents: files, tools and undo.
#[derive(Debug, Parser)]
#[command(name = "garret", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// The workspace: a URL (`memory:`, `local:DIR`), a name from garret.toml or of the home, or a directory [default: the current directory]
    #[arg(short, long, global = true, value_name = "WORKSPACE")]
    pub(crate) workspace: Option<String>,
    /// The configuration file, instead of the garret.toml found in the current directory or above it
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The directory of named workspaces, their history and their content [default: GARRET_HOME, or garret in the data folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print one JSON object: {"ok", "text", "data", "error"}
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colour in the output of diff, grep and log: auto (on a terminal), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        value_enum,
        hide_possible_values = true
    )]
    pub(crate) color: ColorChoice,
    /// Where events go: none, console or jsonl (to standard error), jsonl:FILE (added to a file)
    #[arg(long, global = true, value_name = "SINK", default_value = "none", value_parser = EventsChoice::parse)]
    pub(crate) events: EventsChoice,
}

impl GlobalArgs {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// List a directory
    Ls(commands::ls::LsArgs),
    /// Draw a directory as a tree
    Tree(commands::tree::TreeArgs),
    /// Print a file, byte for byte
    Cat(commands::cat::CatArgs),
    /// Write a whole file atomically
    #[command(after_help = commands::write::EXAMPLES)]
    Write(commands::write::WriteArgs),
    /// Add to the end of a file
    Append(commands::append::AppendArgs),
    /// Replace exact text in a file
    #[command(after_help = commands::edit::EXAMPLES)]
    Edit(commands::edit::EditArgs),
    /// Apply a unified diff to several files, all or nothing
    #[command(after_help = commands::patch::EXAMPLES)]
    Patch(commands::patch::PatchArgs),
    /// Copy a file or a directory
    Cp(commands::cp::CpArgs),
    /// Move a file or a directory
    Mv(commands::mv::MvArgs),
    /// Remove a file, a link or a directory
    Rm(commands::rm::RmArgs),
    /// Make a directory
    Mkdir(commands::mkdir::MkdirArgs),
    /// Copy files of this machine into the workspace
    #[command(after_help = commands::put::EXAMPLES)]
    Put(commands::put::PutArgs),
    /// Copy files out of the workspace onto this machine
    #[command(after_help = commands::get::EXAMPLES)]
    Get(commands::get::GetArgs),
    /// Describe an entry, with its version
    Stat(commands::stat::StatArgs),
    /// Find files by pattern
    #[command(after_help = commands::glob::EXAMPLES)]
    Glob(commands::glob::GlobArgs),
    /// Search the content of files
    #[command(override_usage = commands::grep::USAGE, after_help = commands::grep::EXAMPLES, arg = commands::grep::workspace_option())]
    Grep(commands::grep::GrepArgs),
    /// Run a command in a sandbox on the files; what it does to them is one change
    #[command(after_help = commands::run::EXAMPLES)]
    Run(commands::run::RunArgs),
    /// Open a shell in a sandbox on the files; what it does to them is one change
    #[command(after_help = commands::shell::EXAMPLES)]
    Shell(commands::shell::ShellArgs),
    /// Run a server in a sandbox on the files, and reach its port from this machine
    #[command(after_help = commands::port::EXAMPLES)]
    Port(commands::port::PortArgs),
    /// Run a piece of code in a sandbox on the files; what it does to them is one change
    #[command(after_help = commands::code::EXAMPLES)]
    Code(commands::code::CodeArgs),
    /// List the changes, newest first
    #[command(after_help = commands::log::EXAMPLES)]
    Log(commands::log::LogArgs),
    /// Show one change: who made it, and what it did to each path
    Show(commands::show::ShowArgs),
    /// Compare two points, or a point with now
    #[command(after_help = commands::diff::EXAMPLES)]
    Diff(commands::diff::DiffArgs),
    /// List the versions of a file
    #[command(after_help = commands::versions::EXAMPLES)]
    Versions(commands::versions::VersionsArgs),
    /// Undo changes
    #[command(after_help = commands::undo::EXAMPLES)]
    Undo(commands::undo::UndoArgs),
    /// Reverse the newest undo
    Redo(commands::redo::RedoArgs),
    /// Restore files to an earlier point
    #[command(override_usage = commands::restore::USAGE, after_help = commands::restore::EXAMPLES)]
    Restore(commands::restore::RestoreArgs),
    /// Create, list and delete snapshots: labels for points that are kept
    #[command(after_help = commands::snapshot::EXAMPLES)]
    Snapshot(commands::snapshot::SnapshotArgs),
    /// Create, list and delete branches: workspaces that begin at a point of this one
    #[command(after_help = commands::branch::EXAMPLES)]
    Branch(commands::branch::BranchArgs),
    /// Merge a branch into this workspace
    #[command(after_help = commands::merge::EXAMPLES)]
    Merge(commands::merge::MergeArgs),
    /// Create a named workspace in the home
    #[command(after_help = commands::create::EXAMPLES)]
    Create(commands::create::CreateArgs),
    /// List the workspaces of the home
    List(commands::list::ListArgs),
    /// Rename a workspace of the home
    Rename(commands::rename::RenameArgs),
    /// Delete a workspace of the home; it can be recovered for a while
    #[command(after_help = commands::delete::DETAILS)]
    Delete(commands::delete::DeleteArgs),
    /// Recover a deleted workspace
    Recover(commands::recover::RecoverArgs),
    /// Show, keep or discard the effects of commands that Garret could not record
    #[command(after_help = commands::leftovers::DETAILS)]
    Leftovers(commands::leftovers::LeftoversArgs),
    /// Export a workspace as one portable file, or its files as a directory or an archive
    #[command(override_usage = commands::export::USAGE, after_help = commands::export::EXAMPLES)]
    Export(commands::export::ExportArgs),
    /// Import a workspace from a portable file, a directory or an archive
    #[command(override_usage = commands::import::USAGE, after_help = commands::import::EXAMPLES)]
    Import(commands::import::ImportArgs),
    /// Show the size of the home directory of commands, or empty it
    #[command(after_help = commands::home::DETAILS)]
    Home(commands::home::HomeArgs),
    /// Show how much space each workspace takes
    #[command(after_help = commands::usage::DETAILS)]
    Usage(commands::usage::UsageArgs),
    /// Show or set how much history a workspace keeps
    #[command(after_help = commands::keep::EXAMPLES)]
    Keep(commands::keep::KeepArgs),
    /// Show or set the options of a workspace of the home
    #[command(after_help = commands::configure::EXAMPLES)]
    Configure(commands::configure::ConfigureArgs),
    /// Show or set the capabilities of a workspace of the home
    #[command(after_help = commands::capabilities::EXAMPLES)]
    Capabilities(commands::capabilities::CapabilitiesArgs),
    /// Delete unreferenced content
    #[command(after_help = commands::gc::DETAILS)]
    Gc(commands::gc::GcArgs),
    /// Check the whole home for damage
    #[command(after_help = commands::fsck::DETAILS)]
    Fsck(commands::fsck::FsckArgs),
    /// Print a reference with which another program reopens the workspace
    #[command(after_help = commands::reference::EXAMPLES)]
    Ref(commands::reference::RefArgs),
    /// List the tools that a model may call, or export their schemas
    #[command(after_help = commands::tools::EXAMPLES)]
    Tools(commands::tools::ToolsArgs),
    /// Call a tool as a model would
    #[command(after_help = commands::call::EXAMPLES)]
    Call(commands::call::CallArgs),
    /// Serve a workspace to an MCP client on standard input and output
    #[command(after_help = commands::mcp::EXAMPLES)]
    Mcp(commands::mcp::McpArgs),
    /// Take a short tour with real operations in a temporary home
    Demo(commands::demo::DemoArgs),
    /// Show what this machine can enforce, and how to fix what it cannot
    Doctor(commands::doctor::DoctorArgs),
    /// Check configuration files
    Config(commands::config::ConfigArgs),
    /// Trust a garret.toml, so that it may grant more than the defaults
    #[command(after_help = commands::trust::DETAILS)]
    Trust(commands::trust::TrustArgs),
    /// Print completions for a shell
    #[command(after_help = commands::completions::DETAILS)]
    Completions(commands::completions::CompletionsArgs),
    /// Print the names that a shell completes
    #[command(name = "__complete", hide = true)]
    Complete(commands::complete::CompleteArgs),
}

impl CliCommand {
    /// Returns the reason why `-w` has no meaning for this command, with a hint; `None` if it has one.
    fn workspace_refusal(&self) -> Option<(&'static str, &'static str)> {
        let leave_out = "leave out -w";
        match self {
            Self::List(_) => Some((
                "`list` shows the whole home",
                "leave out -w; `garret usage NAME` shows one workspace",
            )),
            Self::Gc(_) => Some(("`gc` collects the garbage of the whole home", leave_out)),
            Self::Fsck(_) => Some(("`fsck` checks the whole home", leave_out)),
            Self::Import(_) => Some((
                "`import` makes a new workspace",
                "leave out -w, and give its name with --name",
            )),
            Self::Demo(_) => Some(("`demo` makes a workspace of its own", leave_out)),
            Self::Config(_) => Some(("`config` works on a configuration file", leave_out)),
            Self::Trust(_) => Some(("`trust` works on a configuration file", leave_out)),
            Self::Completions(_) => Some(("`completions` needs no workspace", leave_out)),
            _ => None,
        }
    }

    /// Returns the text of the progress line; `None` for a command that shows its own output from its start, or reads
    /// from a person.
    pub(crate) fn progress_label(&self, global: &GlobalArgs) -> Option<&'static str> {
        let shows_own = matches!(
            self,
            Self::Mcp(_) | Self::Demo(_) | Self::Shell(_) | Self::Complete(_) | Self::Completions(_)
        );
        let may_read_input = match self {
            Self::Write(_) | Self::Append(_) | Self::Patch(_) => true,
            Self::Run(run) => run.reads_stdin(),
            Self::Code(code) => code.reads_stdin(),
            _ => false,
        };
        // The line would be drawn over the text that a person types, or between the events on the same stream.
        let reads_input = may_read_input && std::io::stdin().is_terminal();
        (!shows_own && !reads_input && !global.events.goes_to_stderr()).then_some("working")
    }

    /// Refuses `-w` for a command on which it has no effect.
    fn check_workspace(&self, global: &GlobalArgs) -> Result<(), CliFailure> {
        // The user meant something by the option; to ignore it would do something else.
        match (&global.workspace, self.workspace_refusal()) {
            (Some(_), Some((why, hint))) => Err(CliFailure::wrong_usage(
                garret::Error::invalid(format!("-w chooses a workspace, and {why}")).hint(hint),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        self.check_workspace(session.global())?;
        macro_rules! run_variant {
            ($($variant:ident)*) => {
                match self { $(Self::$variant(command) => command.run(session).await,)* }
            };
        }
        run_variant! {
            Ls Tree Cat Write Append Edit Patch Cp Mv Rm Mkdir Stat Glob Grep Run Shell Port Code Log Show Diff Versions
            Undo Redo Restore Snapshot Branch Merge Create List Rename Delete Recover Leftovers Export Import Home
            Usage Keep Configure Capabilities Gc Fsck Ref Tools Call Mcp Demo Doctor Config Trust Completions Complete Put
            Get
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_two_options_of_a_command_share_a_name() {
        Cli::command().debug_assert();
    }
}
