//! What a command line contains: every simple command in it, wherever it stands.
//!
//! A pure function of the text, for policy and approval. A shell decides many things only while it runs (variables, globs, aliases, what
//! a program does with its arguments), so what is found here is advice and never the boundary: that is the sandbox. Where the text alone
//! does not say what a word will be, the word carries the best guess and says that it is one.

mod reader;
mod word;
mod wrapper;

use std::collections::BTreeSet;

use garret_core::CommandProgram;

pub use word::{Word, WordKind};

/// More text than any shell takes as one argument.
const MAX_BYTES: usize = 128 * 1024;
/// How often a text may hold a text for another shell.
const MAX_NESTING: usize = 6;

/// What a command line contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Every simple command, in the order of the text, with those that another one runs (`env X`, `xargs X`, `sh -c 'X'`) behind it.
    pub commands: Vec<SimpleCommand>,
    /// The files that output is sent to.
    pub writes: Vec<Word>,
    /// The names of the functions that it defines; their bodies are among the commands.
    pub functions: BTreeSet<String>,
    /// The functions that start themselves more than once at a time.
    pub bombs: BTreeSet<String>,
    /// Whether all of it could be read; not where it is no shell text, too long, or hands a shell a text that only the run will know.
    pub is_whole: bool,
}

/// A program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program and its arguments; never empty.
    pub words: Vec<Word>,
    /// The commands, by their place in [`CommandLine::commands`], whose output it reads.
    pub inputs: Vec<usize>,
    /// The command that runs it, where it does not stand for itself.
    pub run_by: Option<usize>,
}

impl SimpleCommand {
    /// The word that names the program.
    pub fn program(&self) -> &Word {
        &self.words[0]
    }

    /// The words after the program.
    pub fn arguments(&self) -> &[Word] {
        &self.words[1..]
    }

    /// The name of the program without its directory.
    pub fn name(&self) -> &str {
        let text = self.program().text.as_str();
        text.rsplit_once('/').map_or(text, |(_, name)| name)
    }
}

impl CommandLine {
    /// Reads what is to be run.
    pub fn of(program: &CommandProgram) -> Self {
        match program {
            CommandProgram::Shell(text) => Self::parse(text),
            CommandProgram::Arguments(arguments) => Self::of_arguments(arguments),
        }
    }

    /// Reads a text for the shell.
    pub fn parse(text: &str) -> Self {
        let mut line = Self::empty();
        reader::read(text, &mut line);
        line
    }

    /// Reads a program and its arguments, which no shell expands.
    pub fn of_arguments(arguments: &[String]) -> Self {
        let mut line = Self::empty();
        let words = arguments.iter().map(|text| Word::literal(text)).collect();
        reader::add(words, &mut line);
        line
    }

    fn empty() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// All commands whose output reaches the command at `index`, also by way of others.
    pub fn sources(&self, index: usize) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::new(), self.commands[index].inputs.clone());
        while let Some(next) = open.pop() {
            if found.insert(next) {
                open.extend(&self.commands[next].inputs);
                open.extend(self.commands[next].words.iter().flat_map(|word| &word.outputs));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
