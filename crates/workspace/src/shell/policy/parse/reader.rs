//! Reads the text of a command line, character by character, into its simple commands.
//!
//! No tree is built: each function reads one construct from the current place on and adds the commands in it. The reader may take more
//! than a shell does (`; ;`), since a shell refuses the rest by itself. A construct that it does not know makes the line partial, and
//! it reads on behind it.

use std::mem;
use std::ops::Range;

use super::{CommandLine, CommandWord, SHELLS, SimpleCommand};

/// More text than any shell takes as one argument.
const MAX_BYTES: usize = 128 * 1024;
/// Text from outside may nest without end, and the stack does not.
const MAX_DEPTH: usize = 60;
/// Commands read each other's output, so that the work grows with the square of their number.
pub(super) const MAX_COMMANDS: usize = 1000;
/// A longer value of an expansion is not guessed, since a text may name it many times.
const MAX_VALUE: usize = 1000;

/// The words that open and close a compound command.
const COMPOUNDS: &[(&str, &str)] = &[("if", "fi"), ("while", "done"), ("for", "done"), ("{", "}")];
/// Words before a command that do not change which command it is.
const LEADING_WORDS: &[&str] = &["!", "then", "elif", "else", "do"];
/// What opens an expansion.
const EXPANSIONS: &[&str] = &["`", "<(", ">(", "$((", "$(", "${", "$'", "$"];

pub(super) struct LineReader<'a> {
    text: String,
    at: usize,
    depth: usize,
    /// The index of the first command of the pipeline.
    pipeline: usize,
    line: &'a mut CommandLine,
}

impl<'a> LineReader<'a> {
    /// Makes a reader of `text`, which stands in so many other texts and constructs.
    pub(super) fn new(text: &str, depth: usize, line: &'a mut CommandLine) -> Self {
        line.is_partial |= text.len() > MAX_BYTES;
        Self {
            text: if text.len() > MAX_BYTES {
                String::new()
            } else {
                text.to_owned()
            },
            at: 0,
            depth,
            pipeline: line.commands.len(),
            line,
        }
    }

    /// Reads all of the text.
    pub(super) fn read_text(&mut self) {
        self.read_list("");
        while self.take_char().is_some() {
            // The list ended at something that closes nothing.
            self.line.is_partial = true;
            self.read_list("");
        }
    }

    /// Goes a level deeper to `read`. Beyond the bounds, the rest of the text is not read.
    fn nest(&mut self, read: impl FnOnce(&mut Self)) {
        if self.depth >= MAX_DEPTH || self.line.commands.len() >= MAX_COMMANDS {
            self.line.is_partial = true;
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        read(self);
        self.depth -= 1;
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek_char(&mut self) -> Option<char> {
        // A shell drops a backslash with the end of the line behind it, even within a word.
        while self.rest().starts_with("\\\n") {
            self.at += 2;
        }
        self.rest().chars().next()
    }

    fn take_char(&mut self) -> Option<char> {
        let character = self.rest().chars().next();
        self.at += character.map_or(0, char::len_utf8);
        character
    }

    fn expect(&mut self, text: &str) {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        self.line.is_partial |= !is_next;
    }

    fn take_until(&mut self, end: &str) -> String {
        let text = self.rest().split(end).next().unwrap_or_default().to_owned();
        self.at += text.len();
        self.expect(end);
        text
    }

    /// Returns the text up to the next blank or operator.
    fn peek_keyword(&self) -> &str {
        let is_end = |character: char| character.is_whitespace() || ";&|<>()".contains(character);
        self.rest().split(is_end).next().unwrap_or_default()
    }

    /// Whether `operator` is next, and not twice.
    fn is_at_single(&self, operator: char) -> bool {
        let rest = self.rest().strip_prefix(operator);
        rest.is_some_and(|rest| !rest.starts_with(operator))
    }

    fn skip_blanks(&mut self) {
        while let Some(' ' | '\t') = self.peek_char() {
            self.at += 1;
        }
        if self.rest().starts_with('#') {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    /// Skips everything that may stand between two commands.
    fn skip_separators(&mut self) {
        loop {
            self.skip_blanks();
            let keyword = self.peek_keyword();
            if LEADING_WORDS.contains(&keyword) {
                self.at += keyword.len();
            } else if self.rest().starts_with([';', '&', '|', '\n']) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// Reads commands up to `closer`.
    fn read_list(&mut self, closer: &str) {
        let (outer, start, mut is_piped) = (self.pipeline, self.line.commands.len(), false);
        loop {
            self.skip_separators();
            let is_closing = |pair: &(&str, &str)| pair.1 == self.peek_keyword();
            if self.rest().is_empty() || self.rest().starts_with(')') || COMPOUNDS.iter().any(is_closing) {
                self.pipeline = outer;
                return self.expect(closer);
            }
            let first = self.line.commands.len();
            if !is_piped {
                // All commands of a list read from the pipe in which the list stands.
                self.pipeline = if outer < start { outer } else { first };
            }
            self.nest(Self::read_command);
            self.skip_blanks();
            let was_piped = mem::replace(&mut is_piped, self.is_at_single('|'));
            let is_concurrent = was_piped || is_piped || self.is_at_single('&');
            if let [command] = &mut self.line.commands[first..] {
                command.is_concurrent = is_concurrent;
            }
        }
    }

    fn read_command(&mut self) {
        let (first, mut texts) = (self.line.commands.len(), Vec::new());
        let keyword = self.peek_keyword();
        if let Some((opener, closer)) = COMPOUNDS.iter().find(|(opener, _)| *opener == keyword) {
            self.at += opener.len();
            if *opener == "for" {
                self.read_words(&mut texts);
            }
            self.read_list(closer);
        } else if self.rest().starts_with('(') {
            self.at += 1;
            self.read_list(")");
        } else {
            self.read_simple(&mut texts);
        }
        while self.read_redirect(&mut texts) {}
        // The text of a redirection goes to every shell that may read it.
        for text in &texts {
            for index in first..self.line.commands.len() {
                self.feed_shell(index, text);
            }
        }
    }

    fn read_simple(&mut self, texts: &mut Vec<CommandWord>) {
        let inputs = self.pipeline..self.line.commands.len();
        let words = self.read_words(texts);
        let is_at_bracket = self.rest().starts_with('(');
        if let [name] = words.as_slice()
            && is_at_bracket
        {
            return self.read_function(&name.text);
        }
        // Braces may hold all of the command: `{rm,-rf,/}`. Those of `${x}` do not.
        let is_brace = |program: &CommandWord| program.is_expanded && program.text.replace("${", "").contains('{');
        self.line.is_partial |= is_at_bracket || words.first().is_some_and(is_brace);
        self.add_command(words, inputs);
    }

    /// Reads a function behind its name.
    fn read_function(&mut self, name: &str) {
        self.expect("()");
        self.skip_separators();
        let first = self.line.commands.len();
        self.nest(Self::read_command);
        let body = first..self.line.commands.len();
        self.line.functions.insert(name.to_owned(), body);
    }

    /// Reads words, assignments and redirections up to an operator.
    fn read_words(&mut self, texts: &mut Vec<CommandWord>) -> Vec<CommandWord> {
        let mut words: Vec<CommandWord> = Vec::new();
        loop {
            if self.read_redirect(texts) {
                continue;
            }
            if matches!(self.peek_char(), None | Some('\n' | ';' | '&' | '|' | '(' | ')')) {
                return words;
            }
            let assigned = assigned_name(self.rest()).map(str::to_owned);
            let is_setting = assigned.is_some() && words.is_empty();
            let word = self.read_word();
            if let Some(name) = assigned {
                self.assign(name, &word);
            }
            // A word of which only an empty value is left is none.
            let is_none = word.is_expanded && word.text.is_empty();
            words.extend((!is_setting && !is_none).then_some(word));
        }
    }

    /// Notes a value that is assigned: from here on the best guess for the variable.
    fn assign(&mut self, name: String, word: &CommandWord) {
        self.line.variables.remove(&name);
        if let (Some((_, value)), false) = (word.text.split_once('='), word.is_expanded) {
            self.line.variables.insert(name, value.to_owned());
        }
    }

    /// Adds a command and those that it runs.
    pub(super) fn add_command(&mut self, words: Vec<CommandWord>, inputs: Range<usize>) {
        if words.is_empty() {
            return;
        }
        let command = SimpleCommand {
            words,
            inputs,
            ..SimpleCommand::default()
        };
        let index = self.line.commands.len();
        self.line.commands.push(command.clone());
        let printing = self.line.commands[command.inputs.clone()].iter();
        let printed: Vec<_> = printing.filter_map(SimpleCommand::printed_text).collect();
        for mut words in command.inner_commands() {
            if command.name() == "xargs" {
                let more = printed.iter().flat_map(|text| text.text.split_whitespace());
                words.extend(more.map(CommandWord::literal));
            }
            let inputs = command.inputs.clone();
            self.read_inner("", |inner| inner.add_command(words, inputs));
        }
        if let Some(text) = command.inner_text() {
            self.run_text(&text);
        }
        printed.iter().for_each(|text| self.feed_shell(index, text));
    }

    /// Hands a text to the command at `index`, if that is a shell that reads one.
    fn feed_shell(&mut self, index: usize, text: &CommandWord) {
        let command = &self.line.commands[index];
        if SHELLS.contains(&command.name()) && command.reads_program() {
            self.run_text(text);
        }
    }

    /// Reads a text that a command hands to a shell.
    fn run_text(&mut self, text: &CommandWord) {
        self.line.is_partial |= text.is_expanded;
        self.read_inner(&text.text, |inner| inner.read_text());
    }

    /// Reads another text, which stands in this one, and the commands of which another one runs.
    fn read_inner(&mut self, text: &str, read: impl FnOnce(&mut LineReader<'_>)) {
        let first = self.line.commands.len();
        self.nest(|outer| read(&mut LineReader::new(text, outer.depth, outer.line)));
        let inner = self.line.commands[first..].iter_mut();
        inner.for_each(|inner| inner.is_indirect = true);
    }

    /// Reads a redirection; returns whether there was one. The text that it gives to a command goes to `texts`.
    fn read_redirect(&mut self, texts: &mut Vec<CommandWord>) -> bool {
        self.skip_blanks();
        let rest = self
            .rest()
            .trim_start_matches(|character: char| character.is_ascii_digit());
        if self.is_at_process() || !rest.starts_with(['<', '>']) {
            return false;
        }
        let operator: String = rest
            .chars()
            .take_while(|character| "<>&|".contains(*character))
            .collect();
        self.at = self.text.len() - rest.len() + operator.len();
        self.skip_blanks();
        match operator.as_str() {
            "<<" => {
                let text = self.read_heredoc();
                texts.push(text);
            }
            "<<<" => texts.push(self.read_word()),
            "<" | "<&" => drop(self.read_word()),
            _ => {
                let word = self.read_word();
                self.line.writes.push(word);
            }
        }
        true
    }

    /// Reads the head of a here-document. Takes its body out of the text behind this line and returns that.
    fn read_heredoc(&mut self) -> CommandWord {
        let head = self.at;
        let delimiter = self.read_word().text;
        let is_literal = self.text[head..self.at].contains(['\'', '"', '\\']);
        let start = self.at + self.rest().find('\n').map_or(self.rest().len(), |end| end + 1);
        let is_inside = |row: &&str| row.trim_end_matches('\n') != delimiter;
        let rows = self.text[start..].split_inclusive('\n');
        let end = start + rows.take_while(is_inside).map(str::len).sum::<usize>();
        let body = CommandWord::literal(&self.text[start..end]);
        let closing = self.text[end..].split_inclusive('\n').next();
        self.line.is_partial |= closing.is_none();
        self.text.replace_range(start..end + closing.map_or(0, str::len), "");
        if is_literal {
            return body;
        }
        let mut word = CommandWord::default();
        self.read_inner(&body.text, |inner| inner.read_quoted(None, &mut word));
        word
    }

    fn is_at_process(&self) -> bool {
        self.rest().starts_with("<(") || self.rest().starts_with(">(")
    }

    fn read_word(&mut self) -> CommandWord {
        let (mut word, first) = (CommandWord::default(), self.line.commands.len());
        while let Some(character) = self.peek_char() {
            if "$`".contains(character) || self.is_at_process() {
                self.nest(|reader| reader.read_expansion(&mut word, false));
                continue;
            }
            if " \t\n;&|<>()".contains(character) {
                break;
            }
            self.take_char();
            match character {
                '"' => self.read_quoted(Some('"'), &mut word),
                '\'' => word.text.push_str(&self.take_until("'")),
                '\\' => word.text.extend(self.take_char()),
                _ => word.push_bare(character),
            }
        }
        word.outputs = first..self.line.commands.len();
        word
    }

    /// Reads text up to `end`, or all of it, in which only expansions and backslashes mean something.
    fn read_quoted(&mut self, end: Option<char>, word: &mut CommandWord) {
        while let Some(character) = self.peek_char() {
            if "$`".contains(character) {
                self.nest(|reader| reader.read_expansion(word, true));
                continue;
            }
            self.take_char();
            if Some(character) == end {
                return;
            }
            let is_escape = character == '\\' && self.rest().starts_with(['$', '`', '"', '\\']);
            word.text
                .extend(if is_escape { self.take_char() } else { Some(character) });
        }
        self.line.is_partial |= end.is_some();
    }

    /// Reads an expansion: the value that the line tells, or else the text as it is written.
    fn read_expansion(&mut self, word: &mut CommandWord, is_quoted: bool) {
        let (start, first) = (self.at, self.line.commands.len());
        let is_next = |opener: &&&str| self.rest().starts_with(**opener) && !(is_quoted && **opener == "$'");
        let opener = *EXPANSIONS
            .iter()
            .find(is_next)
            .expect("a character that opens one is next");
        self.at += opener.len();
        match opener {
            "`" => {
                let text = self.take_until("`");
                // A backslash may keep a backquote from closing.
                self.line.is_partial |= text.contains('\\');
                self.read_inner(&text, |inner| inner.read_text());
            }
            "$((" => {
                self.read_quoted(Some(')'), &mut CommandWord::default());
                self.expect(")");
            }
            "${" => self.read_quoted(Some('}'), &mut CommandWord::default()),
            "$'" => {
                let text = self.take_until("'");
                self.line.is_partial |= text.ends_with('\\');
                return word.push_ansi(&text);
            }
            "$" => {
                let is_special = self.rest().starts_with(|next: char| "@*#?$!-0123456789".contains(next));
                self.at += if is_special { 1 } else { name_length(self.rest()) };
            }
            _ => self.read_list(")"),
        }
        let source = self.text[start..self.at].to_owned();
        word.is_expanded |= source != "$";
        match self.guess_value(&source, first).filter(|value| is_plain(value)) {
            // The value is read in place of the expansion, so that it falls apart at its spaces unless it is in quotes.
            Some(value) => {
                self.text.replace_range(start..self.at, &value);
                self.at = start;
            }
            None => word.text.push_str(&source),
        }
    }

    /// Returns the value of an expansion in which the commands from `first` on are.
    fn guess_value(&self, source: &str, first: usize) -> Option<String> {
        let name = source.trim_start_matches(['$', '{']).trim_end_matches('}');
        match (&self.line.commands[first..], name) {
            ([only], _) if !source.starts_with(['<', '>']) => Some(only.printed_text()?.text),
            (_, "IFS") => Some(" ".to_owned()),
            // The line itself has no arguments.
            (_, "@" | "*" | "1" | "2" | "3") => Some(String::new()),
            _ => self.line.variables.get(name).cloned(),
        }
    }
}

/// Whether no character of a value means something to a shell, but for blanks and patterns.
fn is_plain(value: &str) -> bool {
    let is_plain = |character: char| character.is_alphanumeric() || " -_./=:,@%+*~".contains(character);
    value.len() <= MAX_VALUE && value.chars().all(is_plain)
}

fn name_length(text: &str) -> usize {
    let is_end = |character: char| character != '_' && !character.is_ascii_alphanumeric();
    text.find(is_end).unwrap_or(text.len())
}

/// Returns the variable to which the text at its head assigns: `x=` or `x+=`.
pub(super) fn assigned_name(text: &str) -> Option<&str> {
    let (name, rest) = text.split_at(name_length(text));
    let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
    (is_name && (rest.starts_with('=') || rest.starts_with("+="))).then_some(name)
}
