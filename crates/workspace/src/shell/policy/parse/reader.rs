//! From the tree of a shell text to its simple commands.

use std::collections::BTreeMap;

use tree_sitter::{Node, Parser};

use super::word::SPLIT;
use super::wrapper::{self, Runs};
use super::{CommandLine, MAX_BYTES, MAX_NESTING, SimpleCommand, Word, WordKind};

/// How deep a tree is looked into; text from outside may nest without end, and the stack does not.
const MAX_DEPTH: usize = 150;

/// Reads `text` into `line`.
pub(super) fn read(text: &str, line: &mut CommandLine) {
    read_at(text, line, &mut BTreeMap::new(), Level::default());
}

/// Where a text stands.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    /// The texts that it is in.
    nesting: usize,
    /// How deep in their trees.
    depth: usize,
    /// The command that hands it to a shell.
    owner: Option<usize>,
}

/// Reads `text` into `line`; `variables` holds what was assigned so far.
fn read_at(text: &str, line: &mut CommandLine, variables: &mut BTreeMap<String, String>, level: Level) {
    let text = joined_lines(text);
    if text.len() > MAX_BYTES || level.nesting > MAX_NESTING {
        line.is_whole = false;
        return;
    }
    let mut parser = Parser::new();
    let language = tree_sitter_bash::LANGUAGE.into();
    parser
        .set_language(&language)
        .expect("the grammar fits the parser that it is built with");
    let Some(tree) = parser.parse(&text, None) else {
        line.is_whole = false;
        return;
    };
    let first = line.commands.len();
    let mut reader = Reader {
        text: &text,
        line,
        variables,
        nesting: level.nesting,
        depth: level.depth,
    };
    reader.visit(tree.root_node(), &Flow::default());
    let read = line.commands[first..].iter_mut();
    read.for_each(|command| command.run_by = command.run_by.or(level.owner));
}

/// Adds a command whose words are known.
pub(super) fn add(words: Vec<Word>, line: &mut CommandLine) {
    let mut reader = Reader {
        text: "",
        line,
        variables: &mut BTreeMap::new(),
        nesting: 0,
        depth: 0,
    };
    let index = reader.reserve(&Flow::default(), None);
    reader.finish(index, words, &[]);
}

/// A shell takes a backslash and the end of the line after it as nothing at all, even within a word.
fn joined_lines(text: &str) -> String {
    let (mut joined, mut is_escaped) = (String::with_capacity(text.len()), false);
    for character in text.chars() {
        match (is_escaped, character) {
            (true, '\n') => {
                joined.pop();
            }
            _ => joined.push(character),
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    joined
}

/// What commands at a place read.
#[derive(Debug, Clone, Default)]
struct Flow {
    /// From these commands.
    inputs: Vec<usize>,
    /// These texts.
    texts: Vec<Word>,
}

struct Reader<'a> {
    text: &'a str,
    line: &'a mut CommandLine,
    variables: &'a mut BTreeMap<String, String>,
    nesting: usize,
    depth: usize,
}

type Child<'t> = (Option<&'t str>, Node<'t>);

fn children<'t>(node: Node<'t>) -> Vec<Child<'t>> {
    let mut cursor = node.walk();
    let mut children = Vec::new();
    let mut is_there = cursor.goto_first_child();
    while is_there {
        children.push((cursor.field_name(), cursor.node()));
        is_there = cursor.goto_next_sibling();
    }
    children
}

impl Reader<'_> {
    fn source(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// Reads what is at `node` and gives the commands whose output leaves it.
    fn visit(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        if node.is_error() || node.is_missing() {
            self.line.is_whole = false;
        }
        if self.depth >= MAX_DEPTH {
            self.line.is_whole = false;
            return Vec::new();
        }
        self.depth += 1;
        let outputs = match node.kind() {
            "command" | "declaration_command" | "unset_command" => self.command(node, flow),
            "command_name" => self.lone_name(node, flow),
            "pipeline" => self.pipeline(node, flow),
            "redirected_statement" => self.redirected(node, flow),
            "heredoc_redirect" => self.after_heredoc(node, flow),
            "file_redirect" | "herestring_redirect" => {
                self.redirect(node, flow);
                Vec::new()
            }
            "function_definition" => self.function(node, flow),
            "variable_assignment" => self.assignment(node, flow),
            "comment" => Vec::new(),
            _ => self.visit_children(node, flow),
        };
        self.depth -= 1;
        outputs
    }

    fn visit_children(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let inner = children(node).into_iter().filter(|(_, child)| child.is_named());
        inner.flat_map(|(_, child)| self.visit(child, flow)).collect()
    }

    fn pipeline(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let mut flow = flow.clone();
        for (_, part) in children(node).into_iter().filter(|(_, child)| child.is_named()) {
            let outputs = self.piped(part, &flow);
            flow.inputs.extend(outputs);
            flow.texts.clear();
        }
        flow.inputs
    }

    /// The grammar takes `a | b && c` for a pipe into a list, and only the head of the list reads from it.
    fn piped(&mut self, part: Node<'_>, flow: &Flow) -> Vec<usize> {
        if part.kind() != "list" || self.depth >= MAX_DEPTH {
            return self.visit(part, flow);
        }
        self.depth += 1;
        let mut parts = children(part).into_iter().filter(|(_, child)| child.is_named());
        let head = parts.next().map(|(_, head)| self.piped(head, flow)).unwrap_or_default();
        let rest = parts.flat_map(|(_, child)| self.visit(child, &Flow::default()));
        let outputs = head.into_iter().chain(rest).collect();
        self.depth -= 1;
        outputs
    }

    fn function(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        if let Some(name) = node.child_by_field_name("name") {
            let name = self.source(name).to_owned();
            if self.calls_at_once(node, &name, 0) > 1 {
                self.line.bombs.insert(name.clone());
            }
            self.line.functions.insert(name);
        }
        match node.child_by_field_name("body") {
            Some(body) => self.visit(body, flow),
            None => self.visit_children(node, flow),
        }
    }

    /// How often `name` is called below `node` beside something else: in a pipe, or in the background.
    fn calls_at_once(&self, node: Node<'_>, name: &str, depth: usize) -> usize {
        if depth >= MAX_DEPTH {
            return 0;
        }
        let parts = children(node);
        let mut calls = 0;
        for (place, (_, part)) in parts.iter().enumerate() {
            let is_beside =
                node.kind() == "pipeline" || parts.get(place + 1).is_some_and(|(_, next)| next.kind() == "&");
            let is_call = part.kind() == "command" && self.source(*part).split_whitespace().next() == Some(name);
            calls += usize::from(is_beside && is_call);
            calls += self.calls_at_once(*part, name, depth + 1);
        }
        calls
    }

    /// A value that is assigned is the best guess for the variable from here on.
    fn assignment(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let Some((name, value)) = node.child_by_field_name("name").zip(node.child_by_field_name("value")) else {
            return self.visit_children(node, flow);
        };
        let name = self.source(name).to_owned();
        let value = self.word(value, flow, None);
        match value.kind {
            WordKind::Expanded => self.variables.remove(&name),
            _ => self.variables.insert(name, value.text),
        };
        value.outputs
    }

    /// A command that could not be read any further than its program.
    fn lone_name(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let index = self.reserve(flow, None);
        let words = self.word(node, flow, Some(index)).split();
        self.finish(index, words, &flow.texts)
    }

    fn command(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let index = self.reserve(flow, None);
        let mut flow = flow.clone();
        let mut words = Vec::new();
        let is_builtin = node.kind() != "command";
        for (field, child) in children(node) {
            match (field, child.kind()) {
                (Some("name" | "argument"), _) => words.extend(self.word(child, &flow, Some(index)).split()),
                (_, "file_redirect" | "herestring_redirect") => flow.texts.extend(self.redirect(child, &flow)),
                (_, "variable_assignment") => {
                    self.assignment(child, &flow);
                    words.extend(is_builtin.then(|| Word::literal(self.source(child))));
                }
                _ if is_builtin => words.extend(self.word(child, &flow, Some(index)).split()),
                (_, "subshell") => drop(self.visit(child, &flow)),
                _ if child.is_error() => drop(self.visit(child, &flow)),
                _ => {}
            }
        }
        self.finish(index, words, &flow.texts)
    }

    /// Gives a command its place before its words are read, since what is in them may need it.
    fn reserve(&mut self, flow: &Flow, run_by: Option<usize>) -> usize {
        self.line.commands.push(SimpleCommand {
            words: vec![Word::default()],
            inputs: flow.inputs.clone(),
            run_by,
        });
        self.line.commands.len() - 1
    }

    fn finish(&mut self, index: usize, words: Vec<Word>, texts: &[Word]) -> Vec<usize> {
        if !words.is_empty() {
            self.line.commands[index].words = words;
            self.run_further(index, texts);
        }
        vec![index]
    }

    /// Reads what the command runs besides itself.
    fn run_further(&mut self, index: usize, texts: &[Word]) {
        let command = self.line.commands[index].clone();
        let words = &command.words;
        for runs in wrapper::runs(&command) {
            match runs {
                Runs::Words(range) => self.run_words(index, words[range].to_vec(), texts),
                Runs::WordsAndInput(place) => {
                    let more = self.echoed(&command).into_iter().flatten();
                    self.run_words(index, words[place..].iter().cloned().chain(more).collect(), &[]);
                }
                Runs::Text(place) => self.run_text(index, &words[place].text, words[place].kind == WordKind::Expanded),
                Runs::Joined(place) => {
                    let is_open = words[place..].iter().any(|word| word.kind == WordKind::Expanded);
                    self.run_text(index, &spaced(&words[place..]), is_open);
                }
                Runs::Input => {
                    let echoed = self.echoed(&command).into_iter().map(|words| (spaced(&words), false));
                    let read = texts
                        .iter()
                        .map(|text| (text.text.clone(), text.kind == WordKind::Expanded));
                    let read: Vec<_> = echoed.chain(read).collect();
                    read.iter()
                        .for_each(|(text, is_open)| self.run_text(index, text, *is_open));
                }
            }
        }
    }

    fn run_words(&mut self, by: usize, words: Vec<Word>, texts: &[Word]) {
        // `env env env …` runs itself; a line has only so many words, and the stack only so much room.
        if self.depth >= MAX_DEPTH {
            self.line.is_whole = false;
            return;
        }
        self.depth += 1;
        let inputs = self.line.commands[by].inputs.clone();
        let index = self.reserve(
            &Flow {
                inputs,
                texts: Vec::new(),
            },
            Some(by),
        );
        self.finish(index, words, texts);
        self.depth -= 1;
    }

    fn run_text(&mut self, by: usize, text: &str, is_open: bool) {
        if is_open {
            self.line.is_whole = false;
        }
        let level = Level {
            nesting: self.nesting + 1,
            depth: self.depth,
            owner: Some(by),
        };
        read_at(text, self.line, self.variables, level);
    }

    /// What the commands that it reads from print, as far as they are `echo` or `printf`.
    fn echoed(&self, command: &SimpleCommand) -> Vec<Vec<Word>> {
        let inputs = command.inputs.iter().map(|input| &self.line.commands[*input]);
        let echoes = inputs.filter(|input| matches!(input.name(), "echo" | "printf"));
        echoes.map(|echo| printed(echo).cloned().collect()).collect()
    }

    fn redirected(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let mut flow = flow.clone();
        let parts = children(node);
        for (_, redirect) in parts.iter().filter(|(field, _)| *field == Some("redirect")) {
            flow.texts.extend(self.redirect(*redirect, &Flow::default()));
        }
        let body = parts
            .iter()
            .filter(|(field, child)| *field != Some("redirect") && child.is_named());
        let mut outputs: Vec<_> = body.flat_map(|(_, body)| self.visit(*body, &flow)).collect();
        let after = Flow {
            inputs: outputs.clone(),
            texts: Vec::new(),
        };
        for (_, redirect) in parts.iter().filter(|(_, child)| child.kind() == "heredoc_redirect") {
            outputs.extend(self.after_heredoc(*redirect, &after));
        }
        outputs
    }

    /// What a redirect gives to read; where it sends output to is noted.
    fn redirect(&mut self, node: Node<'_>, flow: &Flow) -> Vec<Word> {
        match node.kind() {
            "heredoc_redirect" => self.heredoc(node),
            "herestring_redirect" => {
                let texts = children(node).into_iter().filter(|(_, child)| child.is_named());
                texts.map(|(_, child)| self.word(child, flow, None)).collect()
            }
            _ => {
                let is_write = self.source(node).contains('>');
                for (field, child) in children(node) {
                    if field == Some("destination") {
                        let word = self.word(child, flow, None);
                        self.line.writes.extend(is_write.then_some(word));
                    }
                }
                Vec::new()
            }
        }
    }

    fn heredoc(&mut self, node: Node<'_>) -> Vec<Word> {
        let body = children(node)
            .into_iter()
            .find(|(_, child)| child.kind() == "heredoc_body");
        let Some((_, body)) = body else { return Vec::new() };
        let outputs = self.visit_children(body, &Flow::default());
        let is_open = children(body)
            .iter()
            .any(|(_, child)| child.kind().ends_with("expansion"));
        let kind = match is_open || !outputs.is_empty() {
            true => WordKind::Expanded,
            false => WordKind::Literal,
        };
        vec![Word {
            text: self.source(body).to_owned(),
            kind,
            outputs,
        }]
    }

    /// The grammar puts what follows the head of a here-document (`cat <<E | sh`) into it.
    fn after_heredoc(&mut self, node: Node<'_>, flow: &Flow) -> Vec<usize> {
        let parts = children(node).into_iter().filter(|(_, child)| child.is_named());
        let after = parts.filter(|(_, child)| !child.kind().starts_with("heredoc_"));
        after.flat_map(|(_, child)| self.visit(child, flow)).collect()
    }

    /// The word at `node`, which belongs to the command at `owner`.
    fn word(&mut self, node: Node<'_>, flow: &Flow, owner: Option<usize>) -> Word {
        let mut word = Word::default();
        self.piece(
            node,
            &mut word,
            &Place {
                flow,
                owner,
                is_quoted: false,
            },
        );
        word
    }

    fn piece(&mut self, node: Node<'_>, word: &mut Word, place: &Place<'_>) {
        if self.depth >= MAX_DEPTH {
            self.line.is_whole = false;
            return word.becomes(WordKind::Expanded);
        }
        self.depth += 1;
        let source = self.source(node);
        match node.kind() {
            "raw_string" => word.text.push_str(inside(source, 1)),
            "ansi_c_string" => word.push_ansi(inside(source, 2)),
            "string" => self.pieces(
                node,
                word,
                &Place {
                    is_quoted: true,
                    ..*place
                },
            ),
            "command_name" | "concatenation" | "translated_string" | "array" => self.pieces(node, word, place),
            "simple_expansion" | "expansion" => self.expansion(node, word, place),
            "command_substitution" | "process_substitution" | "arithmetic_expansion" => {
                self.substitution(node, word, place)
            }
            "brace_expression" => {
                word.becomes(WordKind::Pattern);
                word.push_bare(source);
            }
            _ if place.is_quoted => word.push_quoted(source),
            _ => word.push_bare(source),
        }
        self.depth -= 1;
    }

    /// The pieces of a word and what stands between them.
    fn pieces(&mut self, node: Node<'_>, word: &mut Word, place: &Place<'_>) {
        let (mut at, end) = match node.kind() {
            "string" => (node.start_byte() + 1, node.end_byte() - 1),
            _ => (node.start_byte(), node.end_byte()),
        };
        let text = self.text;
        let push = |word: &mut Word, from: usize, to: usize| match text.get(from..to) {
            Some(between) if place.is_quoted => word.push_quoted(between),
            Some(between) => word.push_bare(between),
            None => {}
        };
        for (_, child) in children(node).into_iter().filter(|(_, child)| child.is_named()) {
            push(word, at, child.start_byte());
            self.piece(child, word, place);
            at = child.end_byte();
        }
        push(word, at, end);
    }

    /// A variable: what the text assigned to it, nothing for an argument of the text, or else as it is written.
    fn expansion(&mut self, node: Node<'_>, word: &mut Word, place: &Place<'_>) {
        word.becomes(WordKind::Expanded);
        let inner = self.visit_children(node, place.flow);
        word.outputs.extend(inner);
        let source = self.source(node);
        let name = source
            .trim_start_matches('$')
            .trim_start_matches('{')
            .trim_end_matches('}');
        let value = match name {
            "IFS" => Some(" ".to_owned()),
            "@" | "*" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" => Some(String::new()),
            name => self.variables.get(name).cloned(),
        };
        match value {
            None => word.text.push_str(source),
            Some(value) if place.is_quoted => word.text.push_str(&value),
            Some(value) => word
                .text
                .push_str(&value.replace(char::is_whitespace, &SPLIT.to_string())),
        }
    }

    /// The output of commands: what an `echo` prints, or else as it is written.
    fn substitution(&mut self, node: Node<'_>, word: &mut Word, place: &Place<'_>) {
        word.becomes(WordKind::Expanded);
        let source = self.source(node);
        let flow = match source.starts_with(">(") {
            true => Flow {
                inputs: place.owner.into_iter().collect(),
                texts: Vec::new(),
            },
            false => place.flow.clone(),
        };
        let source = source.to_owned();
        let outputs = self.visit_children(node, &flow);
        match outputs.as_slice() {
            [only] if self.line.commands[*only].name() == "echo" && !source.starts_with(['<', '>']) => {
                let echoed: Vec<_> = printed(&self.line.commands[*only]).cloned().collect();
                word.text
                    .push_str(&spaced(&echoed).replace(' ', if place.is_quoted { " " } else { "\0" }));
            }
            _ => word.text.push_str(&source),
        }
        if !source.starts_with(">(") {
            word.outputs.extend(outputs);
        }
    }
}

/// Where a piece of a word stands.
struct Place<'a> {
    flow: &'a Flow,
    owner: Option<usize>,
    is_quoted: bool,
}

/// What stands between quotes of which the first has `head` bytes.
fn inside(source: &str, head: usize) -> &str {
    source.get(head..source.len().saturating_sub(1)).unwrap_or_default()
}

/// What `echo` or `printf` prints: its arguments without its options.
fn printed(echo: &SimpleCommand) -> impl Iterator<Item = &Word> {
    let is_option = |word: &&Word| {
        matches!(
            word.text.as_str(),
            "-n" | "-e" | "-ne" | "-en" | "-E" | "--" | "%s" | "%s\\n"
        )
    };
    echo.arguments().iter().skip_while(is_option)
}

fn spaced(words: &[Word]) -> String {
    let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
    texts.join(" ")
}
