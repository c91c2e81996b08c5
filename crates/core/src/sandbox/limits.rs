//! Limits on the resources of a command, and on reading its effects.

use std::ops::Not;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Effect, Effects};
use crate::{Error, ErrorKind, PlacedEntry, Result};

/// Limits on the resources of a command; `None` for no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time on the clock; when it is over, every process of the command is ended.
    pub wall: Option<Duration>,
    /// Time on processors.
    pub cpu: Option<Duration>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Bytes in one file.
    pub file_size: Option<u64>,
    /// Bytes written to the layer and `/tmp` in all.
    pub written: Option<u64>,
    /// Bytes in the home directory, which is kept from one command to the next.
    pub home: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Paths that a command may create, change and delete, all together.
    pub changed_files: Option<u64>,
    /// Time for reading the effects of a command.
    pub reading: Option<Duration>,
    /// Bytes of output that are kept: half from its head, half from its tail.
    pub output: u64,
}

impl Limits {
    /// The time for reading the effects of a command, in addition to the time that the command itself may take.
    pub const READING_ALLOWANCE: Duration = Duration::from_secs(60);

    /// The bytes that a command may leave in addition to those that it may write. A command that is ended at its limit
    /// has written a little more than the limit, and everything that it wrote until then is kept.
    pub const READING_SLACK_BYTES: u64 = 1024 * 1024 * 1024;

    /// Returns the limits on reading the effects of a command.
    // Names are bounded by the number of entries, so that many long paths cannot fill the memory.
    pub fn effect_limits(&self) -> EffectLimits {
        let text = |entries: u64| entries.saturating_mul(EffectLimits::TEXT_BYTES_OF_ENTRY);
        EffectLimits {
            entries: self.changed_files,
            text_bytes: self.changed_files.map(text),
            content_bytes: self
                .written
                .map(|written| written.saturating_add(Self::READING_SLACK_BYTES)),
            time: self.reading,
        }
    }
}

impl Default for Limits {
    /// Enough for builds and tests, too little to harm the machine.
    fn default() -> Self {
        const MEBIBYTE: u64 = 1024 * 1024;
        const WALL: Duration = Duration::from_secs(120);
        Self {
            wall: Some(WALL),
            cpu: None,
            memory: Some(4096 * MEBIBYTE),
            processes: Some(512),
            file_size: Some(4096 * MEBIBYTE),
            written: Some(8192 * MEBIBYTE),
            home: Some(5 * 1024 * MEBIBYTE),
            open_files: Some(4096),
            changed_files: Some(200_000),
            reading: Some(WALL.saturating_add(Self::READING_ALLOWANCE)),
            output: MEBIBYTE,
        }
    }
}

/// The time limits of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallTimeLimits {
    /// The time limit of a call that asks for none; `None` for no limit.
    pub default: Option<Duration>,
    /// The longest time limit that a call may ask for; `None` for no bound.
    pub longest: Option<Duration>,
}

impl CallTimeLimits {
    /// Returns the time limit of a call that asks for `asked`.
    pub fn limit_call(&self, asked: Option<Duration>) -> Option<Duration> {
        asked.map_or(self.default, |asked| {
            Some(self.longest.map_or(asked, |longest| longest.min(asked)))
        })
    }

    /// Returns the time limit that holds, if the call asked for a longer one.
    pub fn find_lowered(&self, asked: Option<Duration>) -> Option<Duration> {
        self.longest
            .filter(|longest| asked.is_some_and(|asked| asked > *longest))
    }
}

impl Default for CallTimeLimits {
    fn default() -> Self {
        Self {
            default: Limits::default().wall,
            longest: Some(Duration::from_secs(3_600)),
        }
    }
}

/// A limit that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceLimit {
    /// Time on the clock.
    Wall,
    /// Time on processors.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes in one file.
    FileSize,
    /// Bytes written in all.
    Written,
    /// Bytes in the home directory.
    Home,
    /// The second in which processes must stand still when they are paused.
    Pause,
}

impl ResourceLimit {
    /// Returns the limit in words, to follow "its limit of".
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Wall => "time",
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::FileSize => "bytes in one file",
            Self::Written => "bytes written",
            Self::Home => "bytes in the home directory",
            Self::Pause => "one second to stop when paused",
        }
    }
}

/// Limits on reading the effects of a command; `None` for no limit. The author of the command decides the number and
/// size of its entries, so neither says anything about the work that Garret can afford.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EffectLimits {
    /// Entries: created, changed and deleted paths.
    pub entries: Option<u64>,
    /// Bytes of all paths and all link targets, which are held in memory.
    pub text_bytes: Option<u64>,
    /// Bytes of all files. A hole counts like data, because history stores the zeros.
    pub content_bytes: Option<u64>,
    /// Time for reading all effects.
    pub time: Option<Duration>,
}

/// A limit that a command reached: its value, and the option that raises it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ReachedLimit {
    /// The limited resource in words: `time`, `memory`, `open files`.
    pub resource: String,
    /// The value of the limit with its unit: `120 s`.
    pub value: String,
    /// The option of the configuration that raises it: `shell.limits.timeout_s`.
    pub option: String,
    /// Whether the next call may ask for more itself.
    #[serde(skip_serializing_if = "Not::not")]
    pub is_raised_by_call: bool,
    /// The longest time limit that a call may ask for, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_s: Option<u64>,
}

/// The options by which a caller raises a limit for one call, as its door writes them.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// The option for the time limit.
    pub time: &'static str,
    /// The option that opens the network; `None` if the caller may not open it.
    pub network: Option<&'static str>,
}

impl CallOptions {
    /// The options of the command line.
    pub const COMMAND_LINE: Self = Self {
        time: "--timeout",
        network: Some("`--network HOST` or `--network registries`"),
    };
    /// The parameters of a tool.
    pub const TOOL: Self = Self {
        time: "`timeout_s`",
        network: None,
    };
}

impl ReachedLimit {
    /// The bytes at the end of the output of a failed command that are searched for an error of the system.
    const LAST_WORDS: usize = 4096;
    /// The option that opens the network, host by host.
    const NETWORK_OPTION: &str = "shell.network.allow";
    /// The words of programs that find no network: of curl and git, the C library, Python, Node, Go, Rust, wget and pip.
    const NO_NETWORK_WORDS: [&str; 11] = [
        "Could not resolve host",
        "Temporary failure in name resolution",
        "Name or service not known",
        "EAI_AGAIN",
        "ENOTFOUND",
        "etwork is unreachable",
        "ENETUNREACH",
        "no such host",
        "failed to lookup address",
        "unable to resolve host",
        "No matching distribution found",
    ];

    /// Describes `limit`, which ended a command with the limits `of_command`; `None` for a limit without a value.
    pub fn describe(limit: ResourceLimit, of_command: &Limits, calls: CallTimeLimits) -> Option<Self> {
        let (value, key) = match limit {
            ResourceLimit::Wall => return of_command.wall.map(|wall| Self::of_time(wall, calls)),
            ResourceLimit::Cpu => (format_seconds(of_command.cpu?), "cpu_s"),
            ResourceLimit::Memory => (format_mebibytes(of_command.memory?), "memory_mb"),
            ResourceLimit::FileSize => (format_mebibytes(of_command.file_size?), "file_size_mb"),
            ResourceLimit::Written => (format_mebibytes(of_command.written?), "written_mb"),
            ResourceLimit::Home => (format_mebibytes(of_command.home?), "home_mb"),
            ResourceLimit::Pause => return None,
        };
        Some(Self::of_resource(limit.as_words(), value, key))
    }

    /// Describes the time limit `wall` of a call.
    pub fn of_time(wall: Duration, calls: CallTimeLimits) -> Self {
        let is_longest = calls.longest.is_some_and(|longest| wall >= longest);
        let key = if is_longest { "max_timeout_s" } else { "timeout_s" };
        Self {
            is_raised_by_call: !is_longest,
            longest_s: calls.longest.filter(|_| !is_longest).map(|longest| longest.as_secs()),
            ..Self::of_resource(ResourceLimit::Wall.as_words(), format_seconds(wall), key)
        }
    }

    /// Finds the limit that a failed command may have reached, by the error of the system at the end of its output.
    /// The kernel reports these limits to the command only, so its words are the only trace. `has_network` is `false`
    /// if the sandbox gives the command no network at all.
    pub fn find_suspected(output: &str, of_command: &Limits, has_network: bool) -> Option<Self> {
        let mut from = output.len().saturating_sub(Self::LAST_WORDS);
        from = output.ceil_char_boundary(from);
        let output = &output[from..];
        let says = |errors: &[&str]| errors.iter().any(|error| output.contains(error));
        if says(&["Too many open files", "EMFILE"]) {
            return Some(Self::of_resource(
                "open files",
                of_command.open_files?.to_string(),
                "open_files",
            ));
        }
        if says(&[
            "fork: Resource temporarily unavailable",
            "fork: retry",
            "can't start new thread",
            "Cannot fork",
        ]) {
            let most = of_command.processes?.to_string();
            return Some(Self::of_resource("processes and threads", most, "processes"));
        }
        if says(&["Cannot allocate memory", "MemoryError", "ENOMEM"]) {
            return Self::describe(ResourceLimit::Memory, of_command, CallTimeLimits::default());
        }
        if says(&["File too large", "EFBIG"]) {
            return Self::describe(ResourceLimit::FileSize, of_command, CallTimeLimits::default());
        }
        if says(&["No space left on device", "ENOSPC"]) {
            return Self::describe(ResourceLimit::Written, of_command, CallTimeLimits::default());
        }
        if !has_network && says(&Self::NO_NETWORK_WORDS) {
            return Some(Self {
                resource: "network".to_owned(),
                value: "none".to_owned(),
                option: Self::NETWORK_OPTION.to_owned(),
                is_raised_by_call: false,
                longest_s: None,
            });
        }
        None
    }

    /// Returns the limit with its value, and how to raise it: `its limit is 4096 MiB (memory): set …`. `workspace` is
    /// the name of the workspace, if it is known to be one of the home.
    pub fn describe_advice(&self, call: CallOptions, workspace: Option<&str>) -> String {
        let remedy = self.describe_remedy(call, workspace);
        if self.is_network() {
            return format!("commands have no network (`network = \"none\"`): {remedy}");
        }
        format!("its limit is {} ({}): {remedy}", self.value, self.resource)
    }

    /// Says how to raise the limit.
    pub fn describe_remedy(&self, call: CallOptions, workspace: Option<&str>) -> String {
        let configured = describe_raising(&self.option, workspace);
        if self.is_network() {
            return match call.network {
                Some(option) => format!("open it for one call with {option}, or {configured}"),
                None => configured,
            };
        }
        match self.longest_s {
            Some(longest) => format!("raise it with {} (up to {longest} s), or {configured}", call.time),
            None if self.is_raised_by_call => format!("raise it with {}, or {configured}", call.time),
            None => configured,
        }
    }

    /// Returns whether commands have no network at all, which holds whatever the error of the command meant.
    pub fn is_network(&self) -> bool {
        self.option == Self::NETWORK_OPTION
    }

    fn of_resource(resource: &str, value: String, key: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            value,
            option: format!("shell.limits.{key}"),
            is_raised_by_call: false,
            longest_s: None,
        }
    }
}

/// Says how to set an option of the configuration: with `garret configure` for a named workspace.
pub fn describe_raising(option: &str, workspace: Option<&str>) -> String {
    match workspace {
        Some(name) => format!("set it with `garret configure {name} {option}=VALUE`"),
        None => format!("set `{option}` (of a named workspace with `garret configure NAME {option}=VALUE`)"),
    }
}

fn format_seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

fn format_mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes as f64 / (1024.0 * 1024.0))
}

impl EffectLimits {
    /// Bytes of text that each allowed entry adds to the limit on all text.
    pub const TEXT_BYTES_OF_ENTRY: u64 = 160;

    /// Returns the error for effects that take longer to read than the limit allows.
    pub fn timeout_error(&self) -> Error {
        let seconds = self.time.unwrap_or_default().as_secs();
        effect_limit_error(
            "timeout_s",
            format!("reading the effects of the command takes longer than {seconds} s"),
        )
    }
}

/// A counter of effects against their limits. An effect over a limit is `too_large`, and the error names the limit.
#[derive(Debug, Clone, Default)]
pub struct EffectTally {
    limits: EffectLimits,
    entries: u64,
    text_bytes: u64,
    content_bytes: u64,
}

impl EffectTally {
    /// Starts a count at zero.
    pub fn new(limits: EffectLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Counts an entry whose path has `path_bytes` bytes.
    pub fn add_entry(&mut self, path_bytes: usize) -> Result<()> {
        self.entries += 1;
        match self.limits.entries {
            Some(most) if self.entries > most => Err(Self::too_many_entries(most)),
            _ => self.add_text(path_bytes),
        }
    }

    /// Returns the error for more entries than `most`.
    pub fn too_many_entries(most: u64) -> Error {
        effect_limit_error(
            "changed_files",
            format!("the command created, changed or deleted more than {most} paths"),
        )
    }

    /// Counts the target of a link.
    pub fn add_text(&mut self, bytes: usize) -> Result<()> {
        self.text_bytes = self.text_bytes.saturating_add(bytes as u64);
        match self.limits.text_bytes {
            Some(most) if self.text_bytes > most => Err(effect_limit_error(
                "changed_files",
                format!(
                    "the names of the paths and links that the command changed have more than {most} bytes; {} bytes are allowed for each of `changed_files`",
                    EffectLimits::TEXT_BYTES_OF_ENTRY
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Counts the content of a file, including its holes.
    pub fn add_content(&mut self, bytes: u64) -> Result<()> {
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        match self.limits.content_bytes {
            Some(most) if self.content_bytes > most => Err(effect_limit_error(
                "written_mb",
                format!(
                    "the files that the command changed have more than {most} bytes, including holes of sparse files"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks effects that a sandbox read without counting them.
    pub fn check_effects(limits: EffectLimits, effects: &Effects) -> Result<()> {
        let mut tally = Self::new(limits);
        effects.effects.iter().try_for_each(|effect| tally.add_effect(effect))?;
        let mut dropped = effects.dropped.iter();
        // A dropped entry does not become part of the change, but its path is held in memory like any other.
        dropped.try_for_each(|one| tally.add_text(one.path.as_bytes().len()))
    }

    fn add_effect(&mut self, effect: &Effect) -> Result<()> {
        self.add_entry(effect.path.as_bytes().len())?;
        match &effect.placed {
            PlacedEntry::File { content, .. } => self.add_content(content.len()),
            PlacedEntry::Symlink { target } => self.add_text(target.len()),
            PlacedEntry::Nothing | PlacedEntry::Image(_) | PlacedEntry::Directory { .. } => Ok(()),
        }
    }
}

fn effect_limit_error(key: &str, message: String) -> Error {
    Error::new(ErrorKind::TooLarge, message)
        .with_rule(format!("limits.{key}"))
        .hint(format!(
            "none of its effects were kept; let the command change less, or {}",
            describe_raising(&format!("shell.limits.{key}"), None)
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> EffectTally {
        EffectTally::new(EffectLimits {
            entries: Some(2),
            text_bytes: Some(10),
            content_bytes: Some(100),
            time: None,
        })
    }

    #[test]
    fn what_is_within_every_limit_passes_and_the_next_is_refused_by_name() {
        let mut entries = tally();
        assert!(entries.add_entry(1).and_then(|()| entries.add_entry(1)).is_ok());
        let error = entries.add_entry(1).unwrap_err();
        assert_eq!(
            (error.kind(), error.refused_by()),
            (ErrorKind::TooLarge, Some("limits.changed_files"))
        );
        let mut text = tally();
        assert!(text.add_entry(6).and_then(|()| text.add_text(4)).is_ok());
        assert_eq!(text.add_text(1).unwrap_err().refused_by(), Some("limits.changed_files"));
        let mut content = tally();
        assert!(content.add_content(60).and_then(|()| content.add_content(40)).is_ok());
        assert_eq!(
            content.add_content(u64::MAX).unwrap_err().refused_by(),
            Some("limits.written_mb")
        );
    }

    #[test]
    fn a_call_may_raise_its_time_limit_up_to_the_longest_one() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let calls = CallTimeLimits::default();
        assert_eq!(calls.limit_call(None), seconds(120));
        assert_eq!(calls.limit_call(seconds(5)), seconds(5));
        assert_eq!(calls.limit_call(seconds(600)), seconds(600));
        assert_eq!(calls.find_lowered(seconds(600)), None);
        assert_eq!(calls.limit_call(seconds(7_200)), seconds(3_600));
        assert_eq!(calls.find_lowered(seconds(7_200)), seconds(3_600));
        let unbounded = CallTimeLimits {
            default: None,
            longest: None,
        };
        assert_eq!(
            (unbounded.limit_call(None), unbounded.limit_call(seconds(9))),
            (None, seconds(9))
        );
        assert_eq!(unbounded.find_lowered(seconds(9)), None);
    }

    #[test]
    fn a_reached_limit_names_its_value_and_the_way_to_raise_it() {
        let (limits, calls) = (Limits::default(), CallTimeLimits::default());
        let reached = |limit| ReachedLimit::describe(limit, &limits, calls).unwrap();
        let time = reached(ResourceLimit::Wall);
        assert_eq!(
            time.describe_advice(CallOptions::COMMAND_LINE, Some("box")),
            "its limit is 120 s (time): raise it with --timeout (up to 3600 s), or set it with `garret configure box shell.limits.timeout_s=VALUE`"
        );
        let longest = ReachedLimit::of_time(Duration::from_secs(3_600), calls);
        assert_eq!(
            longest.describe_remedy(CallOptions::COMMAND_LINE, None),
            "set `shell.limits.max_timeout_s` (of a named workspace with `garret configure NAME shell.limits.max_timeout_s=VALUE`)"
        );
        let memory = reached(ResourceLimit::Memory);
        assert_eq!(memory.value, "4096 MiB");
        assert_eq!(memory.option, "shell.limits.memory_mb");
        assert_eq!(ReachedLimit::describe(ResourceLimit::Cpu, &limits, calls), None);
    }

    #[test]
    fn the_words_of_a_failed_command_tell_the_limit_that_the_kernel_does_not() {
        let suspected = |output: &str| {
            let found = ReachedLimit::find_suspected(output, &Limits::default(), true);
            found.map(|limit| (limit.value, limit.option))
        };
        let of = |value: &str, key: &str| Some((value.to_owned(), format!("shell.limits.{key}")));
        assert_eq!(
            suspected("OSError: [Errno 24] Too many open files: 'a'"),
            of("4096", "open_files")
        );
        assert_eq!(suspected("sh: 1: Cannot fork"), of("512", "processes"));
        assert_eq!(suspected("MemoryError"), of("4096 MiB", "memory_mb"));
        assert_eq!(suspected("dd: No space left on device"), of("8192 MiB", "written_mb"));
        assert_eq!(suspected("error: expected `;`"), None);
    }

    #[test]
    fn a_command_that_finds_no_network_is_told_of_the_option_only_where_there_is_none() {
        let words = "curl: (6) Could not resolve host: example.org";
        let suspect = |has_network| ReachedLimit::find_suspected(words, &Limits::default(), has_network);
        assert_eq!(suspect(true), None);
        let reached = suspect(false).unwrap();
        assert_eq!((reached.resource.as_str(), reached.value.as_str()), ("network", "none"));
        assert_eq!(
            reached.describe_advice(CallOptions::COMMAND_LINE, Some("box")),
            "commands have no network (`network = \"none\"`): open it for one call with `--network HOST` or `--network registries`, or set it with `garret configure box shell.network.allow=VALUE`"
        );
        let for_model = reached.describe_advice(CallOptions::TOOL, None);
        assert!(!for_model.contains("--network"), "{for_model}");
    }

    #[test]
    fn without_limits_nothing_is_refused() {
        let mut tally = EffectTally::default();
        for _ in 0..3 {
            let counted = tally.add_entry(usize::MAX).and_then(|()| tally.add_content(u64::MAX));
            assert!(counted.is_ok());
        }
    }
}
