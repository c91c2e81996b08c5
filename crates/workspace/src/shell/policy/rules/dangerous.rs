//! Refuses a short list of classic mistakes, which make no sense anywhere, however they are spelled.
//!
//! `rm -rf *` is not among them: in a workspace it is one change, and undo brings everything back.

use garret_core::Result;
use garret_core::path::quote;

use super::refuse;
use crate::shell::policy::parse::{CommandLine, CommandWord, SHELLS, SimpleCommand, WordKind};

const DOWNLOADERS: &[&str] = &["curl", "wget", "fetch", "aria2c"];
const INTERPRETERS: &[&str] = &["python", "python3", "perl", "ruby", "node", "php"];
const DEVICE_TOOLS: &str = "mkfs mke2fs mkswap wipefs shred fdisk sfdisk parted blkdiscard";
/// Names below `/dev` that take anything and harm nothing.
const HARMLESS: &[&str] = &["null", "zero", "full", "stdin", "stdout", "stderr", "tty", "ptmx"];
const HARMLESS_BELOW: &[&str] = &["fd/", "pts/", "shm/", "tcp/", "udp/"];

/// Refuses the first mistake in a command line.
pub(super) fn check_line(line: &CommandLine) -> Result<()> {
    let is_bomb = |name: &str, body: &[SimpleCommand]| {
        let calls = body
            .iter()
            .filter(|command| command.is_concurrent && command.program().text == name);
        calls.count() > 1
    };
    for (name, body) in &line.functions {
        check_that(
            !is_bomb(name, &line.commands[body.clone()]),
            name,
            "start an endless number of processes",
        )?;
    }
    for word in &line.writes {
        check_that(!is_device(&word.text), &word.text, "overwrite a device")?;
    }
    for command in &line.commands {
        let downloaded = || runs_download(line, command).then_some("run a program that was just downloaded");
        if let Some(effect) = find_mistake(command).or_else(downloaded) {
            check_that(false, &CommandWord::join(&command.words).text, effect)?;
        }
    }
    Ok(())
}

fn check_that(is_harmless: bool, shown: &str, effect: &str) -> Result<()> {
    if is_harmless {
        return Ok(());
    }
    let message = format!("Refused: this would {effect}: {}", quote(shown));
    Err(refuse(
        message,
        "prevent_dangerous = true",
        "name the exact path in the workspace",
    ))
}

fn find_mistake(command: &SimpleCommand) -> Option<&'static str> {
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

/// Whether an option asks for everything below: `-r`, `-fR`, `--recursive` or the start of that word.
fn is_recursive(arguments: &[CommandWord]) -> bool {
    let options = arguments.iter().take_while(|word| word.text != "--");
    let mut options = options.filter_map(|word| word.text.strip_prefix('-'));
    options.any(|option| match option.strip_prefix('-') {
        Some(long) => long.len() > 2 && "recursive".starts_with(long),
        None => option.contains(['r', 'R']),
    })
}

/// Whether it is `/`, or everything in it, in any spelling.
fn is_root(word: &CommandWord) -> bool {
    word.text.starts_with('/') && leads_nowhere(word, &word.text)
}

/// Whether it is `/` or the home, or everything in them; in quotes, `~` is an ordinary name.
fn is_root_or_home(word: &CommandWord) -> bool {
    let homes: &[&str] = match word.kind {
        WordKind::Literal => &[],
        WordKind::Pattern => &["~"],
        WordKind::Expanded => &["$HOME", "${HOME}", "~"],
    };
    let rest = homes.iter().find_map(|home| word.text.strip_prefix(home));
    let is_home = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') && leads_nowhere(word, rest));
    is_home || is_root(word)
}

/// Whether `rest` has no names: only dots, slashes, and stars that are patterns.
fn leads_nowhere(word: &CommandWord, rest: &str) -> bool {
    let is_star = |part: &str| !word.is_literal() && matches!(part, "*" | ".*" | "{*,.*}");
    rest.split('/')
        .all(|part| matches!(part, "" | "." | "..") || is_star(part))
}

fn is_device(text: &str) -> bool {
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    let path = parts.collect::<Vec<_>>().join("/");
    let name = path.strip_prefix("dev/").filter(|_| text.starts_with('/'));
    let is_harmless =
        |name: &str| HARMLESS.contains(&name) || HARMLESS_BELOW.iter().any(|below| name.starts_with(below));
    name.is_some_and(|name| !is_harmless(name))
}

/// Whether a command takes the output of a downloader for a program.
fn runs_download(line: &CommandLine, command: &SimpleCommand) -> bool {
    let downloads = |command: &SimpleCommand| DOWNLOADERS.contains(&command.name());
    let reads_download = |command: &SimpleCommand| line.commands[command.inputs.clone()].iter().any(downloads);
    let is_download = |index: &usize| downloads(&line.commands[*index]) || reads_download(&line.commands[*index]);
    let holds = |word: &CommandWord| word.outputs.iter().any(is_download);
    let (name, arguments) = (command.name(), command.arguments());
    if matches!(name, "eval" | "source" | ".") {
        return arguments.iter().any(holds);
    }
    let is_operand = |word: &&CommandWord| !word.text.starts_with('-') && word.text != "/dev/stdin";
    let operand = arguments.iter().position(|word| is_operand(&word));
    let reads_program = operand.is_none_or(|operand| arguments[..operand].iter().any(|word| word.text == "-s"));
    let is_interpreter = SHELLS.contains(&name) || INTERPRETERS.contains(&name);
    is_interpreter
        && (reads_program && reads_download(command) || operand.is_some_and(|operand| holds(&arguments[operand])))
}
