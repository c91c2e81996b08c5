//! A short list of classic mistakes: what makes no sense anywhere, however it is spelled.
//!
//! `rm -rf *` is not among them: in a workspace it is one change, and undo brings everything back.

use crate::shell::policy::parse::{CommandLine, SimpleCommand, Word, WordKind};

/// A mistake that a command line would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// What is wrong, as it was read.
    pub(super) shown: String,
    /// What it would do.
    pub(super) would: &'static str,
}

const DOWNLOADERS: &[&str] = &["curl", "wget", "fetch", "aria2c"];
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "python", "python3", "perl", "ruby", "node", "php",
];
const TO_DEVICES: &[&str] = &[
    "mkfs",
    "mke2fs",
    "mkswap",
    "wipefs",
    "shred",
    "fdisk",
    "sfdisk",
    "parted",
    "blkdiscard",
];
/// What below `/dev` takes anything and harms nothing.
const HARMLESS: &[&str] = &["null", "zero", "full", "stdin", "stdout", "stderr", "tty", "ptmx"];
const HARMLESS_BELOW: &[&str] = &["fd/", "pts/", "shm/", "tcp/", "udp/"];

/// Finds the first mistake.
pub(super) fn check(line: &CommandLine) -> Result<(), Mistake> {
    if let Some(name) = line.bombs.first() {
        return Err(mistake(name, "start an endless number of processes"));
    }
    if let Some(device) = line.writes.iter().find(|word| is_device(&word.text)) {
        return Err(mistake(&device.text, "overwrite a device"));
    }
    for (index, command) in line.commands.iter().enumerate() {
        let found = of_command(command)
            .or_else(|| runs_download(line, index).then_some("run a program that was just downloaded"));
        if let Some(would) = found {
            return Err(mistake(&shown(command), would));
        }
    }
    Ok(())
}

fn mistake(shown: &str, would: &'static str) -> Mistake {
    Mistake {
        shown: shown.to_owned(),
        would,
    }
}

fn shown(command: &SimpleCommand) -> String {
    let words: Vec<_> = command.words.iter().map(|word| word.text.as_str()).collect();
    words.join(" ")
}

fn of_command(command: &SimpleCommand) -> Option<&'static str> {
    let arguments = command.arguments();
    let any = |is_it: fn(&Word) -> bool| arguments.iter().any(is_it);
    let says = |text: &str| arguments.iter().any(|word| word.text == text);
    match command.name() {
        "rm" if is_recursive(arguments) && any(|word| is_root(word) || is_home(word)) => {
            Some("delete the whole workspace")
        }
        "find" if says("-delete") && any(|word| is_root(word) || is_home(word)) => Some("delete the whole workspace"),
        "chmod" | "chown" | "chgrp" if is_recursive(arguments) && any(is_root) => Some("change the whole system"),
        "dd" if any(|word| word.text.strip_prefix("of=").is_some_and(is_device)) => Some("overwrite a device"),
        name if is_to_device(name) && any(|word| is_device(&word.text)) => Some("overwrite a device"),
        "shutdown" | "reboot" | "halt" | "poweroff" => Some("stop the machine"),
        "init" | "telinit" if says("0") || says("6") => Some("stop the machine"),
        "systemctl" if ["poweroff", "reboot", "halt", "kexec"].into_iter().any(says) => Some("stop the machine"),
        _ => None,
    }
}

fn is_to_device(name: &str) -> bool {
    TO_DEVICES.contains(&name.split_once('.').map_or(name, |(before, _)| before))
}

/// Whether an option asks for everything below: `-r`, `-fR`, `--recursive` or the start of that word.
fn is_recursive(arguments: &[Word]) -> bool {
    let options = arguments
        .iter()
        .map(|word| word.text.as_str())
        .take_while(|text| *text != "--");
    options
        .filter_map(|text| text.strip_prefix('-'))
        .any(|option| match option.strip_prefix('-') {
            Some(long) => long.len() > 2 && "recursive".starts_with(long),
            None => option.contains(['r', 'R']),
        })
}

/// Whether it is `/`, or all that is in it, in any spelling.
fn is_root(word: &Word) -> bool {
    word.text.starts_with('/') && is_nothing_more(word, &word.text)
}

/// Whether it is the home, or all that is in it; in quotes, `~` is an ordinary name.
fn is_home(word: &Word) -> bool {
    let rest = match word.kind {
        WordKind::Literal => None,
        WordKind::Pattern => word.text.strip_prefix('~'),
        WordKind::Expanded => {
            let homes = ["$HOME", "${HOME}", "~"];
            homes.iter().find_map(|home| word.text.strip_prefix(home))
        }
    };
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') && is_nothing_more(word, rest))
}

/// Whether `rest` leads nowhere else: dots, slashes, and stars that are patterns.
fn is_nothing_more(word: &Word, rest: &str) -> bool {
    let is_star = |part: &str| word.kind != WordKind::Literal && matches!(part, "*" | ".*" | "{*,.*}");
    rest.split('/')
        .all(|part| matches!(part, "" | "." | "..") || is_star(part))
}

fn is_device(text: &str) -> bool {
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    let path = parts.collect::<Vec<_>>().join("/");
    match path.strip_prefix("dev/") {
        Some(name) if text.starts_with('/') => {
            !HARMLESS.contains(&name) && !HARMLESS_BELOW.iter().any(|below| name.starts_with(below))
        }
        _ => false,
    }
}

/// Whether the command at `index` takes for a program what a downloader gives it.
fn runs_download(line: &CommandLine, index: usize) -> bool {
    let command = &line.commands[index];
    let downloads = |at: &usize| DOWNLOADERS.contains(&line.commands[*at].name());
    let holds = |word: &Word| {
        word.outputs
            .iter()
            .any(|at| downloads(at) || line.sources(*at).iter().any(downloads))
    };
    let is_source = matches!(command.name(), "eval" | "source" | ".");
    let is_interpreter = INTERPRETERS.contains(&command.name());
    let reads_program = is_interpreter && reads_program(command) && line.sources(index).iter().any(downloads);
    let first = command.arguments().iter().find(|word| !word.text.starts_with('-'));
    reads_program || is_interpreter && first.is_some_and(holds) || is_source && command.arguments().iter().any(holds)
}

/// Whether an interpreter has its program from what it reads, and not from an argument.
fn reads_program(command: &SimpleCommand) -> bool {
    let arguments = || command.arguments().iter().map(|word| word.text.as_str());
    let is_operand = |text: &str| !text.starts_with('-') && text != "/dev/stdin";
    let is_told = arguments()
        .take_while(|text| !is_operand(text))
        .any(|text| text == "-s");
    is_told || !arguments().any(is_operand)
}
