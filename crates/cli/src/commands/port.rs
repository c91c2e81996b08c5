//! `garret port`

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use garret::path::escape_unprintable;
use garret::{
    Chunk, CommandProgram, Error, ErrorKind, LONGEST_WAIT, OutputRequest, OutputSink, OutputStream, PortAnswer,
    PortRequest, ProcessStatus, Result, RunRequest, Workspace,
};

use crate::commands::run::{NetworkArgs, RunOutputPrinter, name_directory, parse_variable};
use crate::interruption::{WorkInterruption, run_until_interrupted};
use crate::mounts::MountArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, Format, write_all};
use crate::progress;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret port 3000 -- npm run dev             in the current directory
  garret -w box port 8000 -- python3 -m http.server 8000
  garret port 5173 --network registries -c 'npm ci && npm run dev'
The command runs in the sandbox. When it listens on the port, programs of this machine reach it at
the URL that is printed: on the same port if it is free, and else on the next free one. Only this
machine reaches it, unless the workspace allows another address.
The command sees later changes of the files, and its own changes are kept as it makes them. It runs
until it ends or until Ctrl-C, and the port closes with it. The exit code is that of the command.";

/// The most bytes of output that are printed at once.
const OUTPUT_PIECE: usize = 64 * 1024;

#[derive(Debug, Args)]
pub(crate) struct PortArgs {
    /// The port on which the command listens
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The program that listens, and its arguments; options of garret come before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// A shell command line
    #[arg(short = 'c', value_name = "TEXT", conflicts_with = "command")]
    text: Option<String>,
    /// The address of this machine to listen on; another than a loopback address only if the workspace allows it [default: that of the workspace, 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// A variable for its environment; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The directory to run it in [default: the root of the workspace]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    mounts: MountArgs,
}

/// A command that has ended, and whether it has listened on its port.
struct ServedCommand {
    ended: ProcessStatus,
    has_listened: bool,
}

impl PortArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = self.run_request().map_err(CliFailure::wrong_usage)?;
        let workspace = session
            .open_workspace_with(&["shell"], &self.mounts, &self.network)
            .await?;
        let format = session.global().format();
        let mut terminal = RunOutputPrinter::for_format(format);
        let reader = terminal.reader.clone();
        let serving = self.serve(&workspace, request, &mut terminal);
        let served = run_until_interrupted(&reader, serving).await;
        // Ends the command and keeps its changes; in every case, before an error or an interruption returns.
        let closed = workspace.close().await;
        let served = match served {
            Ok(served) => served.map_err(|error| name_directory(error, self.cwd.as_deref()))?,
            Err(WorkInterruption::Signal(number)) => {
                closed?;
                let note = "garret: interrupted; the command was ended, and its changes are kept\n";
                let code = u8::try_from(128 + number).unwrap_or(u8::MAX);
                return Ok(CliReport::silent().with_note(note).with_code(code));
            }
            Err(stopped) => return stopped.to_report("command"),
        };
        closed?;
        let ServedCommand { ended, has_listened } = served;
        let note = if has_listened {
            String::new()
        } else {
            format!(
                "garret: the command has ended and did not listen on port {}\n",
                self.port
            )
        };
        let code = u8::try_from(ended.exit_code.unwrap_or(0)).unwrap_or(u8::MAX);
        let report = match format {
            Format::Json => CliReport::success(ended.ended.clone().unwrap_or_default(), ended),
            // The output was printed while the command ran.
            Format::Text => CliReport::silent().with_lost(terminal.lost).with_note(note),
        };
        Ok(report.with_code(code))
    }

    fn run_request(&self) -> Result<RunRequest> {
        let program = match &self.text {
            Some(text) => CommandProgram::Shell(text.clone()),
            None if self.command.is_empty() => return Err(missing_command_error(self.port)),
            None => CommandProgram::Arguments(self.command.clone()),
        };
        Ok(RunRequest {
            cwd: self.cwd.clone().unwrap_or_default(),
            env: self.env.iter().map(|one| parse_variable(one)).collect::<Result<_>>()?,
            ..RunRequest::for_program(program)
        })
    }

    /// Runs the command with its port open.
    async fn serve(
        &self,
        workspace: &Workspace,
        request: RunRequest,
        terminal: &mut RunOutputPrinter,
    ) -> Result<ServedCommand> {
        workspace.check_ports(self.bind)?;
        let started = workspace.start(request).await?;
        let open = |wait| {
            workspace.open_port(PortRequest {
                id: started.id.clone(),
                port: self.port,
                bind: self.bind,
                wait,
            })
        };
        // Opened at once, so that a port that cannot be opened ends the command before it does any work. A command that
        // has ended already is `not_found`; its output and its exit code are the answer then.
        match open(Duration::ZERO).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => (),
        }
        let announce = async {
            let answer = open(Duration::MAX).await.ok().filter(|answer| answer.ready);
            answer.iter().for_each(announce_port);
            answer.is_some()
        };
        let (ended, has_listened) = tokio::join!(print_output(workspace, &started.id, terminal), announce);
        Ok(ServedCommand {
            ended: ended?,
            has_listened,
        })
    }
}

/// Prints the output of a process until its end; returns how it ended.
async fn print_output(workspace: &Workspace, id: &str, terminal: &mut RunOutputPrinter) -> Result<ProcessStatus> {
    let mut cursor = 0;
    loop {
        let output = workspace
            .output(OutputRequest {
                id: id.to_owned(),
                cursor,
                wait: LONGEST_WAIT,
                max_bytes: OUTPUT_PIECE,
                with_tail: false,
                with_details: false,
            })
            .await?;
        for (stream, content) in [
            (OutputStream::Stdout, output.stdout),
            (OutputStream::Stderr, output.stderr),
        ] {
            if !content.0.is_empty() {
                terminal
                    .take(&Chunk {
                        stream,
                        bytes: content.0,
                    })
                    .await;
            }
        }
        cursor = output.cursor;
        if !output.process.running && !output.has_more {
            return Ok(output.process);
        }
    }
}

fn announce_port(answer: &PortAnswer) {
    progress::stop_general_line();
    let opened = &answer.opened;
    let bound = opened.address.parse::<SocketAddr>().ok();
    let mut remark = String::new();
    if bound.is_some_and(|bound| bound.port() != opened.port) {
        remark += &format!(" (port {} of this machine is in use)", opened.port);
    }
    if bound.is_some_and(|bound| !bound.ip().is_loopback()) {
        remark += " (other machines reach it, too)";
    }
    let line = format!(
        "garret: port {} of the command is {}{remark}; Ctrl-C ends it\n",
        opened.port,
        escape_unprintable(&opened.url)
    );
    // The command goes on even if nobody can read this line.
    let _ = write_all(std::io::stderr().lock(), &[line.as_bytes()]);
}

fn missing_command_error(port: u16) -> Error {
    Error::invalid("no command is given; `garret port` starts the server itself")
        .hint(format!(
            "write the command: `garret port {port} -- npm run dev`; under `garret mcp`, the tool `port` opens a port of a process that `start` started"
        ))
}
