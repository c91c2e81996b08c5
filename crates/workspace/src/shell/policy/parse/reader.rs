//! Reads the text of a command line, character by character, into its simple commands.
//!
//! No tree is built: each function reads one construct from the current place on and adds the commands in it. The reader may take more
//! than a shell does (`; ;`), since a shell refuses the rest by itself. A construct that it does not know makes the line partial, and
//! it reads on behind it.

use std::mem;
use std::ops::Range;

use super::inner_commands::InnerCommand;
use super::{CommandLine, CommandWord, SimpleCommand, WordKind};

/// More text than any shell takes as one argument.
const MAX_BYTES: usize = 128 * 1024;
/// Text from outside may nest without end, and the stack does not.
const MAX_DEPTH: usize = 60;
/// Commands read each other's output, so that the work grows with the square of their number.
pub(super) const MAX_COMMANDS: usize = 1000;

/// The words that open and close a compound command.
const COMPOUNDS: &[(&str, &str)] = &[
    ("if", "fi"),
    ("while", "done"),
    ("until", "done"),
    ("for", "done"),
    ("select", "done"),
    ("case", "esac"),
    ("{", "}"),
];
/// Words before a command that do not change which command it is.
const LEADING_WORDS: &[&str] = &["!", "then", "elif", "else", "do"];

pub(super) struct LineReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The index of the first command of the pipeline.
    pipeline: usize,
    /// The start and the end of the here-documents behind the current line of the text.
    heredocs: Option<(usize, usize)>,
    line: &'a mut CommandLine,
}

/// Reads `text` with `read`. A text that stands in another one is one level deeper.
pub(super) fn read_at_depth(text: &str, depth: usize, line: &mut CommandLine, read: impl FnOnce(&mut LineReader<'_>)) {
    if depth > MAX_DEPTH || text.len() > MAX_BYTES {
        line.is_partial = true;
        return;
    }
    read(&mut LineReader {
        text,
        at: 0,
        depth,
        pipeline: line.commands.len(),
        heredocs: None,
        line,
    });
}

impl<'a> LineReader<'a> {
    /// Reads all of the text.
    pub(super) fn read_text(&mut self) {
        self.read_list("");
        while let Some(character) = self.peek_char() {
            // The list ended at something that closes nothing.
            self.line.is_partial = true;
            self.at += character.len_utf8();
            self.read_list("");
        }
        self.line.is_partial |= self.heredocs.is_some();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek_char(&mut self) -> Option<char> {
        // A shell drops a backslash with the end of the line behind it, even within a word.
        while self.rest().starts_with("\\\n") {
            self.at += 2;
        }
        self.rest().chars().next()
    }

    fn expect(&mut self, text: &str) {
        let is_next = self.rest().starts_with(text);
        self.at += if is_next { text.len() } else { 0 };
        self.line.is_partial |= !is_next;
    }

    fn take_until(&mut self, end: &str) -> &'a str {
        let text = self.rest().split(end).next().unwrap_or_default();
        self.at += text.len();
        self.expect(end);
        text
    }

    /// Returns the text up to the next blank or operator.
    fn peek_keyword(&self) -> &'a str {
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
            } else if self.rest().starts_with([';', '&', '|', '\n']) && !self.rest().starts_with("&>") {
                self.at += 1;
                if self.text[..self.at].ends_with('\n')
                    && let Some((start, end)) = self.heredocs.take()
                {
                    // Otherwise quotes reach over the end of the line, and the here-documents begin elsewhere.
                    self.line.is_partial |= start != self.at;
                    self.at = end;
                }
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
            if closer == "esac" && self.skip_pattern() {
                continue;
            }
            let first = self.line.commands.len();
            if !is_piped {
                // All commands of a list read from the pipe in which the list stands.
                self.pipeline = if outer < start { outer } else { first };
            }
            self.read_command();
            self.skip_blanks();
            let was_piped = mem::replace(&mut is_piped, self.is_at_single('|'));
            let is_concurrent = was_piped || is_piped || self.is_at_single('&');
            if let [command] = &mut self.line.commands[first..] {
                command.is_concurrent = is_concurrent;
            }
        }
    }

    /// Skips `pattern)` in `case`; no command has a bracket behind it there.
    fn skip_pattern(&mut self) -> bool {
        let end = self.rest().find(['(', ')', ';', '&', '\n', '$', '`']);
        let pattern = end.filter(|end| self.rest()[*end..].starts_with(')'));
        self.at += pattern.map_or(0, |length| length + 1);
        pattern.is_some()
    }

    fn read_command(&mut self) {
        let (first, keyword, mut texts) = (self.line.commands.len(), self.peek_keyword(), Vec::new());
        if self.depth >= MAX_DEPTH || first >= MAX_COMMANDS {
            self.line.is_partial = true;
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        if let Some((_, closer)) = COMPOUNDS.iter().find(|(opener, _)| *opener == keyword) {
            self.at += keyword.len();
            if ["for", "select", "case"].contains(&keyword) {
                self.read_words(&mut texts);
                if self.rest().starts_with("((") {
                    self.read_expression();
                }
                self.at += usize::from(self.rest().starts_with(')'));
            }
            self.read_list(closer);
        } else if keyword == "function" {
            self.at += keyword.len();
            self.skip_blanks();
            let name = self.read_word().text;
            self.read_function(&name);
        } else if self.rest().starts_with('(') {
            // `((rm x))` is an expression for Bash, but other shells run it.
            self.at += 1;
            self.read_list(")");
        } else {
            self.read_simple(&mut texts);
        }
        while self.read_redirect(&mut texts) {}
        texts.iter().for_each(|text| self.feed_shells(first, text));
        self.depth -= 1;
    }

    /// Reads `((…))`.
    fn read_expression(&mut self) {
        self.at += 2;
        self.read_until(')', &mut CommandWord::default());
        self.expect(")");
    }

    /// Reads a function behind its name.
    fn read_function(&mut self, name: &str) {
        self.skip_blanks();
        if self.rest().starts_with('(') {
            self.expect("()");
        }
        self.skip_separators();
        let first = self.line.commands.len();
        self.read_command();
        let body = first..self.line.commands.len();
        self.line.functions.insert(name.to_owned(), body);
    }

    fn read_simple(&mut self, texts: &mut Vec<CommandWord>) {
        let inputs = self.pipeline..self.line.commands.len();
        let words = self.read_words(texts);
        let is_at_bracket = self.rest().starts_with('(');
        match words.as_slice() {
            [] => {}
            [name] if is_at_bracket => self.read_function(&name.text),
            [program, ..] => {
                // Braces may hold all of the command: `{rm,-rf,/}`.
                let is_brace = program.kind == WordKind::Pattern && program.text.contains('{');
                self.line.is_partial |= is_brace || is_at_bracket;
                self.add_command(words, inputs);
            }
        }
    }

    /// Reads words, assignments and redirections up to an operator.
    fn read_words(&mut self, texts: &mut Vec<CommandWord>) -> Vec<CommandWord> {
        let mut words: Vec<CommandWord> = Vec::new();
        loop {
            let is_test = words.first().is_some_and(|word| word.text == "[[") && words[words.len() - 1].text != "]]";
            let is_redirect = !is_test && self.read_redirect(texts);
            self.skip_blanks();
            match self.peek_char() {
                _ if is_redirect => {}
                Some('&' | '|' | '(' | ')' | '<' | '>') if is_test => self.at += 1,
                None | Some('\n' | ';' | '&' | '|' | '(' | ')') => return words,
                _ => {
                    let assigned = assigned_name(self.rest());
                    let word = self.read_word();
                    assigned.iter().for_each(|name| self.assign(name, &word));
                    if assigned.is_none() || !words.is_empty() {
                        words.extend(word.split());
                    }
                }
            }
        }
    }

    /// Notes a value that is assigned: from here on the best guess for the variable.
    fn assign(&mut self, name: &str, word: &CommandWord) {
        if self.rest().starts_with('(') {
            self.at += 1;
            self.read_words(&mut Vec::new());
            self.expect(")");
        }
        self.line.variables.remove(name);
        if let (Some((_, value)), false) = (word.text.split_once('='), word.kind == WordKind::Expanded) {
            self.line.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Adds a command and those that it runs.
    pub(super) fn add_command(&mut self, words: Vec<CommandWord>, inputs: Range<usize>) {
        if words.is_empty() {
            return;
        }
        let printing = self.line.commands[inputs.clone()].iter();
        let printed: Vec<_> = printing.filter_map(SimpleCommand::printed_text).collect();
        let command = SimpleCommand {
            words,
            inputs,
            ..SimpleCommand::default()
        };
        self.line.commands.push(command.clone());
        for inner in command.inner_commands() {
            match inner {
                InnerCommand::Words(mut words) => {
                    if command.name() == "xargs" {
                        let more = printed.iter().flat_map(|text| text.text.split_whitespace());
                        words.extend(more.map(CommandWord::literal));
                    }
                    let inputs = command.inputs.clone();
                    self.run_inner("", |inner| inner.add_command(words, inputs));
                }
                InnerCommand::Text(text) => self.run_text(&text),
                InnerCommand::Input => printed.iter().for_each(|text| self.run_text(text)),
            }
        }
    }

    /// Reads a text that a command hands to a shell.
    fn run_text(&mut self, text: &CommandWord) {
        self.line.is_partial |= text.kind == WordKind::Expanded;
        self.run_inner(&text.text, |inner| inner.read_text());
    }

    fn run_inner(&mut self, text: &str, read: impl FnOnce(&mut LineReader<'_>)) {
        let first = self.line.commands.len();
        read_at_depth(text, self.depth + 1, self.line, read);
        let inner = self.line.commands[first..].iter_mut();
        inner.for_each(|inner| inner.is_indirect = true);
    }

    /// Hands the text of a redirection to the shells from the command at `first` on that read one.
    fn feed_shells(&mut self, first: usize, text: &CommandWord) {
        for index in first..self.line.commands.len() {
            if self.line.commands[index]
                .inner_commands()
                .contains(&InnerCommand::Input)
            {
                self.run_text(text);
            }
        }
    }

    /// Reads a redirection; returns whether there was one. The text that it gives to a command goes to `texts`.
    fn read_redirect(&mut self, texts: &mut Vec<CommandWord>) -> bool {
        self.skip_blanks();
        let rest = self
            .rest()
            .trim_start_matches(|character: char| character.is_ascii_digit());
        if self.is_at_process() || !rest.starts_with(['<', '>']) && !rest.starts_with("&>") {
            return false;
        }
        let length = rest.bytes().take_while(|byte| b"<>&|".contains(byte)).count();
        self.at = self.text.len() - rest.len() + length;
        self.skip_blanks();
        match &rest[..length] {
            "<<" => texts.push(self.read_heredoc()),
            "<<<" => texts.push(self.read_word()),
            "<" | "<&" => drop(self.read_word()),
            _ => {
                let word = self.read_word();
                self.line.writes.push(word);
            }
        }
        true
    }

    /// Reads the head of a here-document; looks ahead for its body and returns that.
    fn read_heredoc(&mut self) -> CommandWord {
        let indent = if self.rest().starts_with('-') { "\t" } else { "" };
        self.at += indent.len();
        self.skip_blanks();
        let head = self.at;
        let delimiter = self.read_word().text;
        let is_literal = self.text[head..self.at].contains(['\'', '"', '\\']);
        let next_line = self.at + self.rest().find('\n').map_or(self.rest().len(), |end| end + 1);
        let (start, body) = self.heredocs.unwrap_or((next_line, next_line));
        let is_inside = |row: &&str| row.trim_start_matches(indent).trim_end_matches('\n') != delimiter;
        let rows = self.text[body..].split_inclusive('\n').take_while(is_inside);
        let end = body + rows.map(str::len).sum::<usize>();
        let closing = self.text[end..].split_inclusive('\n').next();
        self.line.is_partial |= closing.is_none();
        self.heredocs = Some((start, end + closing.map_or(0, str::len)));
        let (mut word, text) = (CommandWord::default(), &self.text[body..end]);
        if is_literal {
            word.text.push_str(text);
        } else {
            let read = |inner: &mut LineReader<'_>| inner.read_until('\0', &mut word);
            read_at_depth(text, self.depth + 1, self.line, read);
        }
        word
    }

    fn is_at_process(&self) -> bool {
        self.rest().starts_with("<(") || self.rest().starts_with(">(")
    }

    fn read_word(&mut self) -> CommandWord {
        let mut word = CommandWord::default();
        self.read_until(' ', &mut word);
        word
    }

    /// Reads a part of a word up to `end`. A blank stands for the end of a word without quotes, and NUL for the end of
    /// the text. Elsewhere blanks and operators mean nothing.
    fn read_until(&mut self, end: char, word: &mut CommandWord) {
        let (is_bare, is_text) = (end == ' ', end == '\0');
        self.depth += 1;
        while let Some(character) = self.peek_char() {
            if "$`".contains(character) || is_bare && self.is_at_process() {
                self.read_expansion(word, !is_bare);
                continue;
            }
            if is_bare && " \t\n;&|<>()".contains(character) || self.depth > MAX_DEPTH {
                break;
            }
            self.at += character.len_utf8();
            match character {
                _ if character == end && !is_text => {
                    self.depth -= 1;
                    return;
                }
                '"' if !is_text => self.read_until('"', word),
                '\'' if is_bare => word.text.push_str(self.take_until("'")),
                // Depending on quotes further out, it quotes or stands for itself.
                '\'' if end == ')' || end == '}' => self.line.is_partial = true,
                '(' if end == ')' => self.read_until(end, word),
                '\\' => {
                    let is_kept = !is_bare && !self.rest().starts_with(['$', '`', '"', '\\']);
                    word.text.extend(is_kept.then_some('\\'));
                    let quoted = self.rest().chars().next();
                    self.at += quoted.map_or(0, char::len_utf8);
                    word.text.extend(quoted);
                }
                _ if is_bare => word.push_bare(character),
                _ => word.text.push(character),
            }
        }
        self.line.is_partial |= !is_bare && !is_text || self.depth > MAX_DEPTH;
        self.depth -= 1;
    }

    /// Reads an expansion: the value that the line tells, or else the text as it is written.
    fn read_expansion(&mut self, word: &mut CommandWord, is_quoted: bool) {
        let (start, first) = (self.at, self.line.commands.len());
        self.at += 1;
        let rest = self.rest();
        if self.text[start..].starts_with('`') {
            let text = self.take_until("`");
            // A backslash may keep a backquote from closing.
            self.line.is_partial |= text.contains('\\');
            read_at_depth(text, self.depth + 1, self.line, |inner| inner.read_text());
        } else if rest.starts_with("((") && self.text[start..].starts_with('$') {
            self.read_expression();
        } else if rest.starts_with('(') {
            self.at += 1;
            self.read_list(")");
        } else if rest.starts_with('{') {
            self.at += 1;
            self.read_until('}', &mut CommandWord::default());
        } else if rest.starts_with('\'') && !is_quoted {
            self.at += 1;
            let text = self.take_until("'");
            self.line.is_partial |= text.ends_with('\\');
            return word.push_ansi(text);
        } else if rest.starts_with('"') && !is_quoted {
            return;
        } else {
            let is_special = rest.starts_with(|next: char| "@*#?$!-0123456789".contains(next));
            self.at += if is_special { 1 } else { name_length(rest) };
        }
        let source = &self.text[start..self.at];
        if source == "$" {
            return word.text.push('$');
        }
        match self.guess_value(source, first) {
            Some(value) => word.push_value(&value, is_quoted),
            None => word.text.push_str(source),
        }
        word.kind = WordKind::Expanded;
        word.outputs.extend(first..self.line.commands.len());
    }

    /// Returns the value of an expansion in which the commands from `first` on are.
    fn guess_value(&self, source: &str, first: usize) -> Option<String> {
        let name = source.trim_start_matches(['$', '{']).trim_end_matches('}');
        match (&self.line.commands[first..], name) {
            ([only], _) if !source.starts_with(['<', '>']) => Some(only.printed_text()?.text),
            (_, "IFS") => Some(" ".to_owned()),
            // The line itself has no arguments.
            _ if "@*123456789".contains(name) => Some(String::new()),
            _ => self.line.variables.get(name).cloned(),
        }
    }
}

fn name_length(text: &str) -> usize {
    let is_end = |character: char| character != '_' && !character.is_ascii_alphanumeric();
    text.find(is_end).unwrap_or(text.len())
}

/// Returns the variable to which the text at its head assigns: `x=`, `x+=` or `x[…]=`.
pub(super) fn assigned_name(text: &str) -> Option<&str> {
    let (name, rest) = text.split_at(name_length(text));
    let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let rest = index.map_or(rest, |(_, rest)| rest);
    let is_name = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
    (is_name && (rest.starts_with('=') || rest.starts_with("+="))).then_some(name)
}
