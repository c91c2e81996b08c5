//! Programs that run the command in their arguments, or in a text that they are given.

use super::reader::assigned_name;
use super::{CommandWord, SimpleCommand};

pub(in crate::shell) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"];

/// Programs that run their operands.
const WRAPPERS: &[&str] = &[
    "builtin", "busybox", "command", "coproc", "env", "exec", "nice", "nohup", "setpriv", "setsid", "strace", "sudo",
    "time", "timeout", "toybox", "unshare", "xargs",
];

/// The options of wrappers and shells that take a value as the next word.
const VALUE_OPTIONS: &[(&str, &str)] = &[
    ("ash bash dash ksh sh zsh", "-o -O --rcfile --init-file"),
    ("env", "-u -C --unset --chdir"),
    ("exec", "-a"),
    ("nice", "-n --adjustment"),
    ("setpriv unshare", "-R -S -G -w --root --wd --reuid --regid --groups"),
    ("strace", "-a -e -E -n -o -O -p -P -s -S -u -U -X"),
    ("sudo", "-C -D -g -h -p -R -r -T -t -U -u --user --group --chdir"),
    ("time", "-f -o --format --output"),
    ("timeout", "-s -k --signal --kill-after"),
    ("xargs", "-a -d -E -I -L -n -P -s --delimiter --max-args --max-procs"),
];

impl SimpleCommand {
    /// Returns the commands that it runs with the words behind it.
    pub(super) fn inner_commands(&self) -> Vec<Vec<CommandWord>> {
        let is_question = |word: &CommandWord| word.text == "-v" || word.text == "-V";
        match self.name() {
            "command" if self.arguments().iter().any(is_question) => Vec::new(),
            "find" => find_actions(&self.words),
            name if WRAPPERS.contains(&name) => vec![self.operands().to_vec()],
            _ => Vec::new(),
        }
    }

    /// Returns the text for a shell that is among its words. A shell may also get it from another command: `bash <(X)`.
    pub(super) fn inner_text(&self) -> Option<CommandWord> {
        match (self.name(), self.arguments()) {
            ("eval", texts) => Some(CommandWord::join(texts)),
            ("trap", [text, _, ..]) => Some(text.clone()),
            (name, _) if SHELLS.contains(&name) => {
                let mut options = self.options().iter().map(|word| word.text.as_str());
                let is_text = options.any(|option| is_short(option) && option.contains('c'));
                let text = self.operands().first();
                text.filter(|word| is_text || !word.outputs.is_empty()).cloned()
            }
            _ => None,
        }
    }

    /// Whether a shell or another interpreter reads its program from its input.
    pub(in crate::shell) fn reads_program(&self) -> bool {
        let is_input = |word: &CommandWord| word.text == "-" || word.text == "/dev/stdin";
        self.operands().first().is_none_or(is_input) || self.options().iter().any(|word| word.text == "-s")
    }

    /// Returns the text that `echo` or `printf` prints: its arguments without its options.
    pub(super) fn printed_text(&self) -> Option<CommandWord> {
        let is_option = |word: &&CommandWord| word.text.starts_with(['-', '%']);
        let options = self.arguments().iter().take_while(is_option).count();
        matches!(self.name(), "echo" | "printf").then(|| CommandWord::join(&self.arguments()[options..]))
    }

    /// Returns the words from the first one on that is no option, no value of one, and no setting of the program.
    pub(in crate::shell) fn operands(&self) -> &[CommandWord] {
        let row = VALUE_OPTIONS
            .iter()
            .find(|(names, _)| names.split(' ').any(|name| name == self.name()));
        let is_listed = |option: &str| row.is_some_and(|(_, options)| options.split(' ').any(|one| one == option));
        let is_setting = |text: &str| match self.name() {
            "env" | "sudo" => assigned_name(text).is_some(),
            "timeout" => text.starts_with(|first: char| first.is_ascii_digit()),
            _ => false,
        };
        let is_option = |text: &str| text.len() > 1 && text.starts_with('-');
        // In `-nuX`, the first letter that takes a value has the other letters as its value.
        let first_listed = |text: &str| text.find(|letter| is_listed(&format!("-{letter}")));
        let takes_next = |text: &str| is_listed(text) || is_short(text) && first_listed(text) == Some(text.len() - 1);
        let mut words = self.arguments();
        // A word that is known only at run time may be an option, so that nothing after it has a sure place.
        while let [word, behind @ ..] = words
            && !word.is_expanded
            && (is_option(&word.text) || is_setting(&word.text))
        {
            words = behind.get(usize::from(takes_next(&word.text))..).unwrap_or_default();
            if word.text == "--" {
                break;
            }
        }
        words
    }

    fn options(&self) -> &[CommandWord] {
        &self.arguments()[..self.arguments().len() - self.operands().len()]
    }
}

/// Whether it is an option of one letter, or several of them.
pub(in crate::shell) fn is_short(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

/// Returns the commands behind `-exec` and its like.
fn find_actions(words: &[CommandWord]) -> Vec<Vec<CommandWord>> {
    let is_action = |word: &CommandWord| ["-exec", "-execdir", "-ok", "-okdir"].contains(&word.text.as_str());
    let is_end = |word: &CommandWord| word.text == ";" || word.text == "+";
    let command = |rest: &[CommandWord]| rest.split(is_end).next().map(<[_]>::to_vec);
    words.split(is_action).skip(1).filter_map(command).collect()
}
