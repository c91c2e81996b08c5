//! Programs that run what their arguments name.

use std::ops::Range;

use super::{SimpleCommand, Word, WordKind};

/// What a program runs besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Runs {
    /// The command that these words are.
    Words(Range<usize>),
    /// The command that the words from this one on are, with more arguments from what it reads.
    WordsAndInput(usize),
    /// The text for a shell that is this word.
    Text(usize),
    /// The text for a shell that the words from this one on are together.
    Joined(usize),
    /// The text for a shell that it reads.
    Input,
}

/// The shells.
pub(crate) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"];

/// A program that runs the command in its arguments, and what stands before that.
struct Wrapper {
    name: &'static str,
    /// The letters of options that take a value.
    letters: &'static str,
    /// The long options that take a value.
    long: &'static [&'static str],
    /// The arguments before the command.
    operands: usize,
}

const fn wrapper(name: &'static str, letters: &'static str, long: &'static [&'static str], operands: usize) -> Wrapper {
    Wrapper {
        name,
        letters,
        long,
        operands,
    }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", &[], 0),
    wrapper("busybox", "", &[], 0),
    wrapper("chroot", "", &["groups", "userspec"], 1),
    wrapper("chrt", "TPD", &[], 1),
    wrapper("command", "", &[], 0),
    wrapper("coproc", "", &[], 0),
    wrapper("doas", "uCa", &[], 0),
    wrapper("env", "uC", &["unset", "chdir"], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("flock", "wE", &["timeout", "conflict-exit-code"], 1),
    wrapper("ionice", "cnpPu", &["class", "classdata"], 0),
    wrapper("ltrace", "aeonpsu", &[], 0),
    wrapper("nice", "n", &["adjustment"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("nsenter", "tSG", &["target", "setuid", "setgid"], 0),
    wrapper("parallel", "jNnLIaP", &["jobs", "max-args"], 0),
    wrapper("proot", "rbwq", &[], 0),
    wrapper("runuser", "ugGws", &["user", "group"], 0),
    wrapper("setpriv", "", &["reuid", "regid", "groups", "bounding-set"], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["input", "output", "error"], 0),
    wrapper("strace", "aeEoOpPsSuUX", &["output", "trace"], 0),
    wrapper(
        "sudo",
        "CDghpRrTtUu",
        &[
            "user",
            "group",
            "host",
            "prompt",
            "chdir",
            "chroot",
            "role",
            "type",
            "other-user",
            "command-timeout",
        ],
        0,
    ),
    wrapper("taskset", "", &[], 1),
    wrapper("time", "fo", &["format", "output"], 0),
    wrapper("timeout", "sk", &["signal", "kill-after"], 1),
    wrapper("toybox", "", &[], 0),
    wrapper("unshare", "RSGw", &["root", "setuid", "setgid", "wd"], 0),
    wrapper(
        "xargs",
        "adEILnPs",
        &[
            "arg-file",
            "delimiter",
            "max-args",
            "max-procs",
            "max-chars",
            "max-lines",
        ],
        0,
    ),
];

/// What `command` runs besides itself.
pub(super) fn runs(command: &SimpleCommand) -> Vec<Runs> {
    let (name, words) = (command.name(), command.words.as_slice());
    match name {
        "eval" if words.len() > 1 => vec![Runs::Joined(1)],
        "trap" if words.len() > 2 => vec![Runs::Text(1)],
        "watch" => of_watch(words),
        "su" => of_option(words, "-c", "--command"),
        "find" => of_find(words),
        "command" if !of_option(words, "-v", "-V").is_empty() => Vec::new(),
        "env" if !of_option(words, "-S", "--split-string").is_empty() => of_option(words, "-S", "--split-string"),
        "flock" | "runuser" if !of_option(words, "-c", "--command").is_empty() => of_option(words, "-c", "--command"),
        name if SHELLS.contains(&name) => of_shell(words),
        name => of_wrapper(name, words),
    }
}

fn of_wrapper(name: &str, words: &[Word]) -> Vec<Runs> {
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == name) else {
        return Vec::new();
    };
    let begin = first_operand(
        words,
        wrapper.letters,
        wrapper.long,
        name == "env" || name == "sudo" || name == "doas",
    );
    // A word that only the run knows may be an option, so that nothing after it has a sure place.
    let begin = match words.get(begin).is_some_and(Word::is_literal) {
        true => begin + wrapper.operands,
        false => begin,
    };
    match begin < words.len() {
        true if name == "xargs" => vec![Runs::WordsAndInput(begin)],
        true => vec![Runs::Words(begin..words.len())],
        false => Vec::new(),
    }
}

/// The place of the first word that is neither an option nor the value of one.
fn first_operand(words: &[Word], letters: &str, long: &[&str], skips_assignments: bool) -> usize {
    let mut place = 1;
    while let Some(word) = words.get(place).filter(|word| word.is_literal()) {
        let text = word.text.as_str();
        if text == "--" {
            return place + 1;
        }
        place += match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(name), _) => 1 + usize::from(long.contains(&name)),
            (None, Some(group)) if !group.is_empty() => 1 + usize::from(wants_value(group, letters)),
            _ if skips_assignments && is_assignment(text) => 1,
            _ => return place,
        };
    }
    place
}

/// Whether the value of an option in this group of letters is the next word: one before the last would have the rest as its value.
fn wants_value(group: &str, letters: &str) -> bool {
    group
        .find(|letter| letters.contains(letter))
        .is_some_and(|place| place + 1 == group.len())
}

fn is_assignment(text: &str) -> bool {
    let name = text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()))
}

/// The text behind an option `-c` or `--command`.
fn of_option(words: &[Word], short: &str, long: &str) -> Vec<Runs> {
    let is_it = |word: &Word| word.text == short || word.text == long;
    let found = words.iter().position(is_it);
    found
        .map(|place| Runs::Text(place + 1))
        .filter(|runs| in_range(runs, words))
        .into_iter()
        .collect()
}

fn in_range(runs: &Runs, words: &[Word]) -> bool {
    matches!(runs, Runs::Text(place) if *place < words.len())
}

fn of_watch(words: &[Word]) -> Vec<Runs> {
    let begin = first_operand(words, "nq", &["interval", "equexit"], false);
    (begin < words.len())
        .then_some(Runs::Joined(begin))
        .into_iter()
        .collect()
}

fn of_find(words: &[Word]) -> Vec<Runs> {
    let begins = ["-exec", "-execdir", "-ok", "-okdir"];
    let begin = words
        .iter()
        .enumerate()
        .filter(|(_, word)| begins.contains(&word.text.as_str()));
    let command = |(place, _): (usize, &Word)| {
        let rest = &words[place + 1..];
        let length = rest.iter().position(|word| word.text == ";" || word.text == "+");
        Runs::Words(place + 1..place + 1 + length.unwrap_or(rest.len()))
    };
    begin
        .map(command)
        .filter(|runs| !matches!(runs, Runs::Words(range) if range.is_empty()))
        .collect()
}

/// Where a shell has its text from: an argument, or what it reads; a file is not looked into.
fn of_shell(words: &[Word]) -> Vec<Runs> {
    let options = &words[..first_operand(words, "oO", &["rcfile", "init-file"], false)];
    let has = |letter: char| {
        options[1..]
            .iter()
            .any(|word| !word.text.starts_with("--") && word.text.contains(letter))
    };
    let operand = options.len();
    match words.get(operand) {
        Some(_) if has('c') => vec![Runs::Text(operand)],
        None => vec![Runs::Input],
        Some(_) if has('s') => vec![Runs::Input],
        Some(word) if word.text == "-" || word.text == "/dev/stdin" => vec![Runs::Input],
        // `bash <(X)` reads the output of a command as its text.
        Some(word) if word.kind == WordKind::Expanded && !word.outputs.is_empty() => vec![Runs::Text(operand)],
        Some(_) => Vec::new(),
    }
}
