//! Refuses a short list of classic mistakes, which make no sense anywhere, however they are spelled.
//!
//! `rm -rf *` is not among them: in a workspace it is one change, and undo brings everything back.

use std::ops::Range;

use garret_core::Result;
use garret_core::path::quote;

use super::refuse;
use crate::shell::policy::parse::{CommandLine, CommandWord, SHELLS, SimpleCommand, is_short};

const DOWNLOADERS: &[&str] = &["curl", "wget", "fetch", "aria2c"];
const INTERPRETERS: &[&str] = &["python", "python3", "perl", "ruby", "node", "php"];
const DEVICE_TOOLS: &str = "mkfs mke2fs mkswap wipefs shred fdisk sfdisk parted blkdiscard";
/// Names below `/dev` that take anything and harm nothing.
const HARMLESS: &str = "null zero full stdin stdout stderr tty ptmx fd pts shm tcp udp";

/// Refuses the first mistake in a command line.
pub(super) fn check_line(line: &CommandLine) -> Result<()> {
    let Some((effect, shown)) = find_mistake(line) else {
        return Ok(());
    };
    let message = format!("Refused: this would {effect}: {}", quote(&shown));
    let hint = "name the exact path in the workspace";
    Err(refuse(message, "prevent_dangerous = true", hint))
}

/// Returns what the first mistake in a command line would do, and its text.
fn find_mistake(line: &CommandLine) -> Option<(&'static str, String)> {
    let is_bomb = |(name, body): &(&String, &Range<usize>)| {
        let commands = line.commands[(*body).clone()].iter();
        let calls = commands.filter(|command| command.is_concurrent && command.program().text == **name);
        calls.count() > 1
    };
    if let Some((name, _)) = line.functions.iter().find(is_bomb) {
        return Some(("start an endless number of processes", name.clone()));
    }
    if let Some(word) = line.writes.iter().find(|word| is_device(&word.text)) {
        return Some(("overwrite a device", word.text.clone()));
    }
    line.commands.iter().find_map(|command| {
        let downloaded = || runs_download(line, command).then_some("run a program that was just downloaded");
        let effect = find_harm(command).or_else(downloaded)?;
        Some((effect, CommandWord::join(&command.words).text))
    })
}

/// Returns what a command would do that makes no sense anywhere.
fn find_harm(command: &SimpleCommand) -> Option<&'static str> {
    let arguments = command.arguments();
    let any = |is_it: fn(&CommandWord) -> bool| arguments.iter().any(is_it);
    let says = |text: &str| arguments.iter().any(|word| word.text == text);
    let name = command.name();
    let tool = name.split('.').next();
    match name {
        "rm" if is_recursive(arguments) && any(is_root_or_home) => Some("delete the whole workspace"),
        "find" if says("-delete") && any(is_root_or_home) => Some("delete the whole workspace"),
        "chmod" | "chown" | "chgrp" if is_recursive(arguments) && any(is_root) => Some("change the whole system"),
        "dd" if any(|word| word.text.strip_prefix("of=").is_some_and(is_device)) => Some("overwrite a device"),
        _ if DEVICE_TOOLS.split(' ').any(|name| tool == Some(name)) && any(|word| is_device(&word.text)) => {
            Some("overwrite a device")
        }
        "shutdown" | "reboot" | "halt" | "poweroff" => Some("stop the machine"),
        "init" | "telinit" if says("0") || says("6") => Some("stop the machine"),
        "systemctl" if ["poweroff", "reboot", "halt", "kexec"].into_iter().any(says) => Some("stop the machine"),
        _ => None,
    }
}

/// Whether an option asks for everything below: `-r`, `-fR` or `--recursive`, which may be cut.
fn is_recursive(arguments: &[CommandWord]) -> bool {
    let mut options = arguments.iter().map(|word| &word.text).take_while(|text| *text != "--");
    options.any(|text| text.starts_with("--rec") || is_short(text) && text.contains(['r', 'R']))
}

/// Whether it is `/`, or everything in it, in any spelling.
fn is_root(word: &CommandWord) -> bool {
    word.text.starts_with('/') && leads_nowhere(word, &word.text)
}

/// Whether it is `/` or the home, or everything in them; in quotes, `~` is an ordinary name.
fn is_root_or_home(word: &CommandWord) -> bool {
    let homes = ["$HOME", "${HOME}", "~"].into_iter().filter(|_| word.is_expanded);
    let mut rests = homes.filter_map(|home| word.text.strip_prefix(home));
    let is_home = rests.any(|rest| rest.is_empty() || rest.starts_with('/') && leads_nowhere(word, rest));
    is_home || is_root(word)
}

/// Whether `rest` has no names: only dots, slashes, and stars that are patterns.
fn leads_nowhere(word: &CommandWord, rest: &str) -> bool {
    let is_star = |part: &str| word.is_expanded && matches!(part, "*" | ".*" | "{*,.*}");
    rest.split('/')
        .all(|part| matches!(part, "" | "." | "..") || is_star(part))
}

fn is_device(text: &str) -> bool {
    let is_harmless = |name: &str| HARMLESS.split(' ').any(|one| one == name);
    let mut parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    text.starts_with('/') && parts.next() == Some("dev") && parts.next().is_some_and(|name| !is_harmless(name))
}

/// Whether a command takes the output of a downloader for a program.
fn runs_download(line: &CommandLine, command: &SimpleCommand) -> bool {
    let downloads = |command: &SimpleCommand| DOWNLOADERS.contains(&command.name());
    let reads_download = |command: &SimpleCommand| line.commands[command.inputs.clone()].iter().any(downloads);
    let is_download = |command: &SimpleCommand| downloads(command) || reads_download(command);
    let holds = |word: &CommandWord| line.commands[word.outputs.clone()].iter().any(is_download);
    let name = command.name();
    if matches!(name, "eval" | "source" | ".") {
        return command.arguments().iter().any(holds);
    }
    let is_interpreter = SHELLS.contains(&name) || INTERPRETERS.contains(&name);
    let is_given = || command.operands().first().is_some_and(holds);
    is_interpreter && (is_given() || command.reads_program() && reads_download(command))
}
