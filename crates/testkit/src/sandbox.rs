//! The contract of sandboxes as tests: one function for each behaviour, over any [`Sandbox`].
//!
//! Each behaviour stands on a bench of its own and panics where a promise of `garret_core::sandbox` is broken.
//! [`sandbox_tests!`](crate::sandbox_tests) makes each of them a `#[test]`, so that a failure has a name:
//!
//! ```text
//! fn mine(private: &std::path::Path) -> std::sync::Arc<dyn garret_core::Sandbox> { … }
//! garret_testkit::sandbox_tests!(mine);
//! ```
//!
//! Commands of the suite use `/bin/sh` and the usual small programs (`cat`, `sleep`, `mkdir`, …). What a sandbox does not claim to enforce
//! ([`OpenSandbox::guard_statuses`]) is not asked of it; that it says so is. A command that must end gets far more time than it needs, and what must
//! stand still is looked at twice; nothing else depends on the clock.

#![allow(
    clippy::disallowed_methods,
    reason = "what a sandbox did is compared with what plain directories and processes do"
)]

pub mod effects;
pub mod endings;
pub mod environment;
pub mod input;
pub mod isolation;
pub mod layers;
pub mod leftovers;
pub mod limits;
pub mod output;
pub mod placing;
pub mod ports;
pub mod telling;
pub mod terminal;
mod trees;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{
    Chunk, CommandExit, CommandProgram, CommandStdin, Effects, Guard, Layer, Limits, OpenSandbox, OutputStream,
    Process, Sandbox, SandboxCommand, SandboxRequest, WsPath,
};

use crate::fixture::block_on;

/// How long something that must happen may take on a machine that is busy with everything else.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long something must stand still to count as standing still.
const STILL: Duration = Duration::from_millis(400);

/// The environment of the suite's commands.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A sandbox on a bench of its own.
pub struct Stand {
    sandbox: Arc<dyn Sandbox>,
    base: PathBuf,
    test: String,
    _directory: Option<tempfile::TempDir>,
}

impl fmt::Debug for Stand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Stand")
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

/// What [`sandbox_tests!`](crate::sandbox_tests) takes: a sandbox that may keep what it needs in a private directory.
pub type Maker = fn(&Path) -> Arc<dyn Sandbox>;

/// Runs one behaviour; `test` is the name by which the test binary finds it again.
pub fn check<Checked: Future<Output = ()>>(make: Maker, test: &str, behaviour: impl FnOnce(Stand) -> Checked) {
    let test = test.split_once("::").map_or(test, |(_, name)| name).to_owned();
    let again = std::env::var_os(leftovers::AGAIN).map(PathBuf::from);
    let directory = again
        .is_none()
        .then(|| tempfile::tempdir().expect("a test machine has room"));
    let base = again.or(directory.as_ref().map(|directory| directory.path().to_owned()));
    let base = base.expect("one of the two is there");
    for name in ["bench", "scratch", "private", "outside"] {
        std::fs::create_dir_all(base.join(name)).expect("a test machine has room");
    }
    let stand = Stand {
        sandbox: make(&base.join("private")),
        base,
        test,
        _directory: directory,
    };
    block_on(async move {
        tokio::time::timeout(3 * PATIENCE, behaviour(stand))
            .await
            .expect("nothing waits for ever")
    });
}

impl Stand {
    /// The directory with the files.
    pub fn bench(&self) -> PathBuf {
        self.base.join("bench")
    }

    /// A directory that is no part of the bench.
    pub fn outside(&self) -> PathBuf {
        self.base.join("outside")
    }

    /// Puts a file on the bench.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.bench().join(path);
        std::fs::create_dir_all(path.parent().expect("it is below the bench")).expect("a test machine has room");
        std::fs::write(path, content).expect("a test machine has room");
    }

    /// Runs a script in the bench itself, to fill it.
    pub fn fill(&self, script: &str) {
        trees::run_plainly(&self.bench(), script);
    }

    /// What the suite asks of a sandbox where nothing else is said.
    pub fn request(&self) -> SandboxRequest {
        SandboxRequest::on_bench(self.bench(), self.base.join("scratch"))
    }

    /// Opens the sandbox on the bench.
    pub async fn open(&self) -> Room {
        self.open_with(self.request()).await
    }

    /// Opens the sandbox as `request` says.
    pub async fn open_with(&self, request: SandboxRequest) -> Room {
        let open = self
            .sandbox
            .open(request)
            .await
            .expect("nothing is required that it might lack");
        Room { open }
    }

    /// A room and a layer in it.
    pub async fn lay(&self) -> (Room, Arc<dyn Layer>) {
        let room = self.open().await;
        let layer = room.lay().await;
        (room, layer)
    }
}

/// A sandbox that is open.
#[derive(Debug)]
pub struct Room {
    open: Arc<dyn OpenSandbox>,
}

impl Room {
    /// Lays a layer.
    pub async fn lay(&self) -> Arc<dyn Layer> {
        self.open.create_layer().await.expect("a layer can be laid")
    }

    /// Whether it claims to enforce `guard`.
    pub fn enforces(&self, guard: Guard) -> bool {
        self.open
            .guard_statuses()
            .iter()
            .any(|enforced| enforced.guard == guard && enforced.is_enforced)
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    /// All its standard output.
    pub stdout: Vec<u8>,
    /// All its standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub exit: CommandExit,
}

impl Ran {
    /// Its standard output as text, without the last end of line; it must have ended with 0.
    #[track_caller]
    pub fn text(&self) -> String {
        assert_eq!(
            self.exit.ended.exit_code(),
            0,
            "{}",
            String::from_utf8_lossy(&self.stderr)
        );
        String::from_utf8(self.stdout.clone())
            .expect("text")
            .trim_end()
            .to_owned()
    }

    /// The code with which it ended.
    pub fn code(&self) -> i32 {
        self.exit.ended.exit_code()
    }
}

/// A text for the shell as a command.
pub fn shell(text: &str) -> SandboxCommand {
    command(CommandProgram::Shell(text.to_owned()))
}

/// A program and its arguments as a command.
pub fn program(arguments: &[&str]) -> SandboxCommand {
    command(CommandProgram::Arguments(
        arguments.iter().map(|text| (*text).to_owned()).collect(),
    ))
}

fn command(program: CommandProgram) -> SandboxCommand {
    SandboxCommand {
        program,
        cwd: WsPath::root(),
        env: BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]),
        stdin: CommandStdin::Closed,
        limits: Limits::default(),
        has_empty_home: false,
        terminal: None,
    }
}

/// Starts a command that must start.
pub async fn start(layer: &Arc<dyn Layer>, command: SandboxCommand) -> Box<dyn Process> {
    layer.start_process(command).await.expect("the command can be started")
}

/// Runs a command to its end.
pub async fn run(layer: &Arc<dyn Layer>, command: SandboxCommand) -> Ran {
    let mut process = start(layer, command).await;
    finish(process.as_mut()).await
}

/// Runs a text for the shell to its end.
pub async fn sh(layer: &Arc<dyn Layer>, text: &str) -> Ran {
    run(layer, shell(text)).await
}

/// Reads all output of a process and waits for its end.
pub async fn finish(process: &mut dyn Process) -> Ran {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(Chunk { stream, bytes }) = in_time(process.next_output()).await {
        match stream {
            OutputStream::Stdout => stdout.extend_from_slice(&bytes),
            OutputStream::Stderr => stderr.extend_from_slice(&bytes),
        }
    }
    let exit = in_time(process.wait())
        .await
        .expect("it can be told how a process ended");
    Ran { stdout, stderr, exit }
}

/// Waits until the process has written `text` on a line of its standard output.
pub async fn says(process: &mut dyn Process, text: &str) {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        let chunk = in_time(process.next_output()).await.expect("it says so before it ends");
        read.extend_from_slice(&chunk.bytes);
    }
}

/// What `work` gives, which must not take long.
pub async fn in_time<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("it happens in time")
}

/// What was done on a layer, after it was lifted.
pub async fn lifted(layer: &Arc<dyn Layer>) -> Effects {
    in_time(layer.lift()).await.expect("a layer can be lifted");
    layer.read_effects(None).await.expect("what was done can be read")
}

/// A script that adds to the file `beat` for ever.
pub const HEART: &str = "while :; do echo x >> beat; sleep 0.02; done";

/// How much is in `beat`, asked by another process on the layer.
pub async fn beats(layer: &Arc<dyn Layer>) -> u64 {
    sh(layer, "cat beat 2>/dev/null | wc -c")
        .await
        .text()
        .trim()
        .parse()
        .expect("a number")
}

/// Waits until something adds to `beat`.
pub async fn beating(layer: &Arc<dyn Layer>) {
    let before = beats(layer).await;
    in_time(async {
        while beats(layer).await <= before {
            pause().await;
        }
    })
    .await;
}

/// Whether nothing adds to `beat` any more.
pub async fn is_still(layer: &Arc<dyn Layer>) -> bool {
    let before = beats(layer).await;
    tokio::time::sleep(STILL).await;
    beats(layer).await == before
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Bytes that do not repeat soon, so that a piece out of place shows.
pub fn noise(length: usize) -> Bytes {
    let mut state = 0x2545_f491_u32;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    });
    next.take(length).collect()
}

/// Hands every behaviour of the suite, grouped by module, to the macro `$each` with `$extra` in front.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_sandbox_behaviour {
    ([$($each:tt)*], $extra:tt) => {
        $($each)*! { $extra
            output {
                every_byte_arrives_as_it_was_written
                the_streams_are_apart
                output_larger_than_any_pipe_arrives_whole
                a_reader_who_waits_holds_the_command_up
                output_that_nobody_asks_for_holds_nothing_up_once_waited_for
                output_ends_with_the_process_whatever_it_left_behind
                endless_output_is_kept_in_bounds
            }
            input {
                what_is_closed_is_at_its_end
                bytes_are_read_and_then_the_end
                input_larger_than_any_pipe_is_read_whole
                a_command_may_leave_its_input_unread
                a_stream_is_read_whole
                a_stream_is_not_read_ahead_of_the_command
                what_is_piped_is_read_as_it_comes
                only_a_pipe_can_be_written_to
            }
            environment {
                the_environment_is_what_was_given
                nothing_comes_from_outside
                arguments_are_passed_as_they_are
                a_program_is_looked_for_on_its_own_path
                a_command_begins_in_its_directory
                a_directory_that_is_not_there_is_not_found
                a_command_begins_behind_a_link_only_where_that_leads_inside
                a_program_that_is_not_there_is_not_found
                the_workspace_is_in_one_place
            }
            endings {
                a_code_is_passed_on
                a_signal_is_told_apart_from_a_code
                a_command_can_be_asked_to_end
                a_kill_ends_the_whole_tree
                a_kill_ends_what_ran_away
                a_process_that_is_dropped_ends_with_its_tree
                waiting_twice_tells_the_same
                the_duration_is_that_of_the_clock
                time_on_processors_is_counted
            }
            limits {
                the_wall_ends_a_command
                the_wall_ends_what_ignores_signals
                the_wall_ends_what_was_left_in_the_background
                the_wall_ends_what_ran_away
                a_file_grows_no_larger_than_allowed
                no_more_files_are_open_than_allowed
                time_on_processors_ends
                memory_ends
                processes_end
                what_is_written_ends
            }
            layers {
                a_command_sees_the_bench
                the_bench_does_not_change
                commands_on_a_layer_see_one_another
                commands_at_once_see_one_another
                layers_do_not_see_one_another
                a_layer_is_its_own
                what_is_paused_stands_still
                nothing_outlives_its_layer
                lifting_twice_is_fine
                the_last_process_is_followed_by_the_end_of_the_layer
                removing_forgets_everything
                closing_ends_everything_and_twice_is_fine
            }
            effects {
                nothing_done_is_nothing
                new_files_and_directories
                changed_files
                removed_files_and_trees
                renamed_files_and_trees
                changed_modes
                links
                one_kind_in_place_of_another
                directories_made_anew
                odd_names
                names_that_are_no_text
                hard_links_of_one_command
                a_repository
                large_files_and_holes
                what_no_workspace_takes_is_named
                times_are_told
                what_came_after_a_mark
                content_can_be_read_until_it_is_removed
            }
            placing {
                a_running_command_sees_what_is_placed
                files_directories_and_links_can_be_placed
                what_is_placed_takes_the_place_of_what_was_there
                what_is_placed_can_be_changed_by_a_command
                a_planted_link_leads_nothing_outside
            }
            leftovers {
                a_layer_in_use_is_no_leftover
                what_a_crash_left_is_found
            }
            isolation {
                files_outside_cannot_be_read
                files_outside_cannot_be_written
                hidden_paths_are_not_there
                read_only_paths_stay_as_they_are
                processes_outside_cannot_be_reached
                the_network_is_out_of_reach
                the_network_can_be_allowed
            }
            ports {
                commands_reach_a_listener_outside
                ports_of_the_machine_are_not_those_of_the_sandbox
            }
            telling {
                every_guard_is_told_once
                what_is_not_enforced_says_why
                what_is_required_and_missing_is_unsupported
            }
            terminal {
                the_streams_are_one_terminal
                what_is_typed_is_shown_and_read
                given_input_is_typed
                an_interrupt_reaches_the_foreground
                a_shell_controls_its_jobs
                a_new_size_is_told_to_the_program
                only_a_terminal_has_a_size
                marks_come_apart_from_the_terminal
                a_terminal_is_of_one_command
                a_session_ends_with_its_program
            }
        }
    };
}

/// Makes one `#[test]` of each behaviour, for the sandbox that `$make` gives: a function from a private directory to an
/// `Arc<dyn Sandbox>`.
#[macro_export]
macro_rules! sandbox_tests {
    ($make:expr) => {
        $crate::for_each_sandbox_behaviour!([$crate::sandbox_tests_of], ($make));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! sandbox_tests_of {
    ($make:tt $($module:ident { $($behaviour:ident)* })*) => {
        $($crate::sandbox_module! { $make $module { $($behaviour)* } })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! sandbox_module {
    (($make:expr) $module:ident { $($behaviour:ident)* }) => {
        mod $module {
            #[allow(unused_imports, reason = "the maker may be a path or a closure")]
            use super::*;

            $(
                #[test]
                fn $behaviour() {
                    let test = concat!(module_path!(), "::", stringify!($behaviour));
                    $crate::sandbox::check($make, test, $crate::sandbox::$module::$behaviour);
                }
            )*
        }
    };
}

/// The names of all behaviours as `module::behaviour`.
pub fn names() -> Vec<String> {
    macro_rules! listed {
        (() $($module:ident { $($behaviour:ident)* })*) => {
            vec![$($(concat!(stringify!($module), "::", stringify!($behaviour)).to_owned()),*),*]
        };
    }
    crate::for_each_sandbox_behaviour!([listed], ())
}

#[cfg(test)]
mod tests {
    /// A behaviour that no macro names would be a test that never runs.
    #[test]
    fn every_behaviour_is_listed() {
        let sources = [
            ("output", include_str!("sandbox/output.rs")),
            ("input", include_str!("sandbox/input.rs")),
            ("environment", include_str!("sandbox/environment.rs")),
            ("endings", include_str!("sandbox/endings.rs")),
            ("limits", include_str!("sandbox/limits.rs")),
            ("layers", include_str!("sandbox/layers.rs")),
            ("effects", include_str!("sandbox/effects.rs")),
            ("placing", include_str!("sandbox/placing.rs")),
            ("leftovers", include_str!("sandbox/leftovers.rs")),
            ("isolation", include_str!("sandbox/isolation.rs")),
            ("ports", include_str!("sandbox/ports.rs")),
            ("telling", include_str!("sandbox/telling.rs")),
            ("terminal", include_str!("sandbox/terminal.rs")),
        ];
        let mut written = Vec::new();
        for (module, source) in sources {
            let found = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            written.extend(found.map(|rest| format!("{module}::{}", rest.split('(').next().unwrap_or_default())));
        }
        let mut listed = super::names();
        written.sort();
        listed.sort();
        assert_eq!(listed, written);
    }
}
