//! A session with a shell on the terminal of a caller.
//!
//! The shell runs as a background process does, on the live layer: a session may last for hours, and others go on
//! working in the workspace meanwhile. Its effects are one change at the end, or one for each prompt. If effects are
//! discarded or approved first, the shell runs as a command in the foreground instead.

use std::collections::BTreeMap;
use std::time::Duration;

use garret_core::{
    CommandProgram, CommandTerminal, EffectsMode, Error, ErrorKind, InputStream, Limits, OutputCollector, OutputStream,
    Result, Secrets,
};

use crate::shell::background::live_layer::SettleRequest;
use crate::shell::background::processes::LiveProcess;
use crate::shell::command_access::CommandAccess;
use crate::shell::foreground::command_label::{printable_label, short_label};
use crate::shell::foreground::run::{CommandRunOutput, PreparedCommand, build_run_result};
use crate::shell::foreground::run_terminal::{RunTerminal, next_output};
use crate::shell::interpreter::code_label;
use crate::shell::{CommandLine, OutputSink, RunRequest};
use crate::{CommandChanges, RunResult, Workspace};

const OPERATION: &str = "shell";
const BASH: &str = "bash";
/// The shells that a session is opened with: the first one that the policy allows and the sandbox has.
const SHELLS: [&str; 2] = [BASH, "sh"];

/// Makes Bash mark each prompt on the descriptor of the marks: the exit status and the time, and from its history the
/// number of the last command line, when it was started, and its text. Then it waits until its effects are committed,
/// so that those of the next line are no part of them. Programs that the shell starts do not get the variable, so that
/// a shell in the shell marks nothing.
const MARK_PROMPT: &str = r#"{ builtin printf '%s %(%s)T %s\0' "$?" -1 "$(HISTTIMEFORMAT='%s ' builtin history 1)" >&63 && builtin read -r -t 20 -u 62 _; } 2>/dev/null; export -n PROMPT_COMMAND"#;

/// A session with a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellRequest {
    /// The directory that it begins in, as a path of this view; empty for its root.
    pub cwd: String,
    /// Variables that this call adds to the environment.
    pub env: BTreeMap<String, String>,
    /// The keys that are typed.
    pub keys: InputStream,
    /// The terminal.
    pub terminal: RunTerminal,
    /// The wall time after which it is ended; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Whether its effects on the files are committed, discarded or approved first; `None` for the mode of the policy.
    pub effects: Option<EffectsMode>,
    /// When its effects are committed.
    pub commits: ShellCommits,
    /// The longest wait for the turn, if one is needed; `None` for 60 seconds. Zero does not wait.
    pub turn_wait: Option<Duration>,
}

/// When the effects of a shell are committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShellCommits {
    /// As one change, when the shell ends.
    #[default]
    AtExit,
    /// Whenever the shell prompts, as one change for each command line. Only Bash can do this.
    PerPrompt,
}

/// Does not show the values of the environment: they may be secrets.
impl std::fmt::Debug for ShellRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ShellRequest")
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys())
            .field("commits", &self.commits)
            .finish_non_exhaustive()
    }
}

impl Workspace {
    /// Opens a shell on the terminal of the caller, hands its output to `sink` as it comes, and waits for its end. The
    /// rules on command lines cannot be checked inside it: opening it counts as the command `bash` or `sh`. Dropping the
    /// future ends the shell; its effects are kept as those of a background process are.
    pub async fn run_shell(&self, request: ShellRequest, sink: &mut dyn OutputSink) -> Result<RunResult> {
        let work = async { self.commands()?.open_shell(&request, sink).await };
        let bytes = |result: &RunResult| result.stdout.0.len() as u64;
        self.run_observed(OPERATION, None, bytes, work).await
    }

    /// Whether the policy has rules on command lines, which are not checked inside a shell.
    pub fn has_command_rules(&self) -> bool {
        let shell = self.shared.shell.as_ref();
        shell.is_some_and(|shell| shell.0.rules.has_lists())
    }
}

impl CommandAccess {
    async fn open_shell(&self, request: &ShellRequest, sink: &mut dyn OutputSink) -> Result<RunResult> {
        let mut failure = None;
        for shell in SHELLS {
            if request.commits == ShellCommits::PerPrompt && shell != BASH {
                break;
            }
            // The first error is the one to report: it is that of the shell that people expect.
            let error = match self.prepare_shell(shell, request) {
                Ok(prepared) => match self.run_prepared_shell(prepared, request, sink).await {
                    Err(error) if is_program_missing(&error) => error,
                    opened => return opened,
                },
                Err(refusal) => refusal,
            };
            failure.get_or_insert(error);
        }
        Err(failure.expect("one shell was tried"))
    }

    fn prepare_shell(&self, shell: &str, request: &ShellRequest) -> Result<PreparedCommand> {
        let program = CommandProgram::Arguments(vec![shell.to_owned()]);
        self.shell
            .rules
            .check_opened_shell(&CommandLine::from_program(&program))?;
        let mut prepared = self.prepare_unchecked(
            OPERATION,
            RunRequest {
                cwd: request.cwd.clone(),
                env: request.env.clone(),
                stdin_stream: Some(request.keys.clone()),
                terminal: Some(request.terminal.clone()),
                effects: request.effects,
                turn_wait: request.turn_wait,
                ..RunRequest::for_program(program)
            },
        )?;
        prepared.command.limits.wall = request.timeout;
        prepared.lowered_timeout = None;
        if request.commits == ShellCommits::PerPrompt {
            prepared.check_background().map_err(|error| {
                error.hint("open the shell without changes per prompt, or set `effects = \"commit\"`")
            })?;
            prepared.command.terminal = prepared.command.terminal.map(|terminal| CommandTerminal {
                has_mark_pipe: true,
                ..terminal
            });
            let variable = ("PROMPT_COMMAND".to_owned(), MARK_PROMPT.to_owned());
            prepared.command.env.extend([variable]);
        }
        Ok(prepared)
    }

    async fn run_prepared_shell(
        &self,
        prepared: PreparedCommand,
        request: &ShellRequest,
        sink: &mut dyn OutputSink,
    ) -> Result<RunResult> {
        self.approve_command(&prepared).await?;
        if prepared.effects != EffectsMode::Commit {
            return self.run_prepared(prepared, sink).await;
        }
        let room = self.shell.take_background_permit()?;
        let limits = Limits {
            wall: request.timeout,
            ..prepared.command.limits.clone()
        };
        let session = ShellSession {
            secrets: prepared.hidden.clone(),
            terminal: request.terminal.clone(),
            most: prepared.command.limits.output,
        };
        let network_mark = self.shell.network.mark();
        let mut live = self.spawn_on_live_layer(prepared.clone(), limits, room).await?;
        let laid = live.sandbox_layer().clone();
        let ran = session.follow_shell(&mut live, self, sink).await?;
        let taking = SettleRequest::for_caller(self.run_origin(&prepared, &ran.exit));
        let changed = self.summarize_settled(live.end_and_report(taking).await?);
        let network = self
            .shell
            .network
            .take_record(network_mark, &self.files, &prepared.hidden);
        let result = build_run_result(ran, changed, &laid);
        Ok(RunResult {
            network,
            changed: result.changed.mask_secrets(&prepared.hidden),
            ..result
        })
    }
}

/// Whether an error says that the sandbox has no such program; one about the directory names its path.
fn is_program_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && error.path().is_none()
}

/// A session with a shell on the live layer.
struct ShellSession {
    secrets: Secrets,
    terminal: RunTerminal,
    most: u64,
}

impl ShellSession {
    /// Hands the output of the shell to `sink` until the shell ends, and commits its effects at each marked prompt.
    async fn follow_shell(
        &self,
        live: &mut LiveProcess,
        commands: &CommandAccess,
        sink: &mut dyn OutputSink,
    ) -> Result<CommandRunOutput> {
        let mut collector = OutputCollector::new(self.most, &self.secrets);
        let mut marks = PromptMarks::default();
        self.terminal.connect();
        while let Some(chunk) = next_output(&mut *live.process, Some(&self.terminal)).await {
            if chunk.stream == OutputStream::Stderr {
                for mark in marks.push_bytes(&chunk.bytes) {
                    let changed = self.commit_prompt(&mark, commands).await;
                    sink.note_changes(&changed).await;
                    // A shell that has ended needs no answer.
                    let _ = live.process.answer_mark().await;
                }
            } else if let Some(shown) = collector.push_chunk(&chunk) {
                sink.take(&shown).await;
            }
        }
        let (last, output) = collector.finish();
        for shown in &last {
            sink.take(shown).await;
        }
        let exit = live.process.wait().await?;
        self.terminal.disconnect();
        Ok(CommandRunOutput { output, exit })
    }

    /// Commits the effects of a command line, which are those since the last prompt.
    async fn commit_prompt(&self, mark: &PromptMark, commands: &CommandAccess) -> CommandChanges {
        let label = code_label(mark.line.as_deref().unwrap_or(BASH), &self.secrets);
        let short = printable_label(&short_label(&label));
        // The history of a shell knows whole seconds only.
        let took = match mark.took.as_secs() {
            0 => String::new(),
            seconds => format!(" after {seconds} s"),
        };
        let summary = format!("{OPERATION} `{short}`: exit {}{took}", mark.status);
        let origin = commands.files.change_origin(OPERATION, summary);
        let changed = commands.commit_live_effects(origin).await;
        // The shell goes on: effects that cannot be committed now stay on the layer for the next commit.
        let changed = changed.unwrap_or_else(|error| CommandChanges::from_refusal(&error));
        changed.mask_secrets(&self.secrets)
    }
}

/// The marks of a shell at its prompts, from the bytes of their descriptor in any pieces.
///
/// Programs that the shell starts can write there, too. All that they reach is an earlier commit, with another text.
#[derive(Debug, Default)]
struct PromptMarks {
    unread: Vec<u8>,
    /// The number of the command line before the last prompt; 0 if the history had none.
    last: Option<u64>,
}

/// A prompt: the command line before it has ended.
#[derive(Debug, PartialEq, Eq)]
struct PromptMark {
    status: i32,
    took: Duration,
    /// The command line; `None` if the history has none for this prompt.
    line: Option<String>,
}

/// The most bytes of a mark; more are not from [`MARK_PROMPT`].
const LONGEST_MARK: usize = 256 * 1024;

impl PromptMarks {
    fn push_bytes(&mut self, bytes: &[u8]) -> Vec<PromptMark> {
        self.unread.extend_from_slice(bytes);
        let mut marks = Vec::new();
        while let Some(end) = self.unread.iter().position(|byte| *byte == 0) {
            let mark: Vec<u8> = self.unread.drain(..=end).collect();
            marks.extend(self.parse_mark(&String::from_utf8_lossy(&mark[..end])));
        }
        if self.unread.len() > LONGEST_MARK {
            self.unread.clear();
        }
        marks
    }

    fn parse_mark(&mut self, text: &str) -> Option<PromptMark> {
        let (status, rest) = text.split_once(' ')?;
        let (now, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (status, now) = (status.parse().ok()?, now.parse::<u64>().ok()?);
        let entry = parse_history_entry(rest);
        let before = self.last.replace(entry.as_ref().map_or(0, |entry| entry.0));
        // The first prompt comes before any command line, and a line may stay out of the history.
        let entry = entry.filter(|entry| before.is_some_and(|before| before != entry.0));
        let took = entry.as_ref().map_or(0, |entry| now.saturating_sub(entry.1));
        Some(PromptMark {
            status,
            took: Duration::from_secs(took),
            line: entry.map(|entry| entry.2),
        })
    }
}

/// Parses the number of a line of the history, the second when it was started, and its text.
fn parse_history_entry(text: &str) -> Option<(u64, u64, String)> {
    let (number, rest) = text.trim_start().split_once(' ')?;
    let (start, line) = rest.trim_start().split_once(' ')?;
    // A `*` behind the number means that the line was edited.
    let number = number.trim_end_matches('*').parse().ok()?;
    Some((number, start.parse().ok()?, line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(marks: &mut PromptMarks, text: &str) -> Vec<(i32, u64, Option<String>)> {
        let found = marks.push_bytes(text.as_bytes());
        let parts = found
            .into_iter()
            .map(|mark| (mark.status, mark.took.as_secs(), mark.line));
        parts.collect()
    }

    #[test]
    fn a_mark_names_the_line_that_has_ended() {
        let mut marks = PromptMarks::default();
        assert_eq!(marked(&mut marks, "0 100     4  90 old line\0"), [(0, 0, None)]);
        assert_eq!(marked(&mut marks, "2 112     5  109 make  te"), []);
        assert_eq!(
            marked(&mut marks, "st\x00000 120     5  109 make  test\0"),
            [(2, 3, Some("make  test".to_owned())), (0, 0, None)]
        );
        assert_eq!(
            marked(&mut marks, "1 130     6  109 a\nb\0"),
            [(1, 21, Some("a\nb".to_owned()))]
        );
    }

    #[test]
    fn the_first_line_of_a_new_history_is_named() {
        let mut marks = PromptMarks::default();
        let lines = marked(&mut marks, "0 100 \x00000 101     1  101 ls\0");
        assert_eq!(lines, [(0, 0, None), (0, 0, Some("ls".to_owned()))]);
    }

    #[test]
    fn a_shell_without_history_marks_its_prompts() {
        let mut marks = PromptMarks::default();
        assert_eq!(marked(&mut marks, "0 100 \x00001 101 \0"), [(0, 0, None), (1, 0, None)]);
    }

    #[test]
    fn what_is_no_mark_is_left_out() {
        let mut marks = PromptMarks::default();
        assert_eq!(marked(&mut marks, "garbage\0\0 \0x y z\0"), []);
        assert_eq!(marked(&mut marks, &"x".repeat(LONGEST_MARK + 1)), []);
        assert!(marks.unread.is_empty());
    }
}
