//! Reads a command line for policy and approval: every simple command in it, however deep.
//!
//! A pure function of the text. A shell decides many things only while it runs (variables, globs, aliases, the use that a program makes
//! of its arguments), so the result is advice and never the boundary: that is the sandbox. If the text alone does not tell a word, the
//! word carries the best guess and says that it is one.

mod inner_commands;
mod reader;
mod word;

use std::collections::BTreeMap;
use std::ops::Range;

use garret_core::CommandProgram;

pub(in crate::shell) use inner_commands::SHELLS;
use reader::read_at_depth;
pub use word::{CommandWord, WordKind};

/// The simple commands, redirections and functions of a command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Every simple command in the order of the text. A command in a substitution comes before the one that has it as a word, and one
    /// that another runs (`env X`, `xargs X`, `sh -c 'X'`) behind that.
    pub commands: Vec<SimpleCommand>,
    /// The files that output is sent to.
    pub writes: Vec<CommandWord>,
    /// The functions that the line defines, with the range of [`Self::commands`] that is their body.
    pub functions: BTreeMap<String, Range<usize>>,
    /// The values that the line assigns to variables, as far as the text tells them.
    pub variables: BTreeMap<String, String>,
    /// Whether a part of it could not be read: the text is no shell text, is too long or too deep, or hands a shell a text
    /// that is known only at run time.
    pub is_partial: bool,
}

/// A program and its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program and its arguments; never empty.
    pub words: Vec<CommandWord>,
    /// The range of [`CommandLine::commands`] whose output may reach it by a pipe.
    pub inputs: Range<usize>,
    /// Whether another command of the line runs it, so that it does not see the functions of the line.
    pub is_indirect: bool,
    /// Whether the shell goes on while it runs: in a pipe, or in the background.
    pub is_concurrent: bool,
}

impl SimpleCommand {
    /// Returns the word that names the program.
    pub fn program(&self) -> &CommandWord {
        &self.words[0]
    }

    /// Returns the words after the program.
    pub fn arguments(&self) -> &[CommandWord] {
        &self.words[1..]
    }

    /// Returns the name of the program without its directory.
    pub fn name(&self) -> &str {
        let text = self.program().text.as_str();
        text.rsplit_once('/').map_or(text, |(_, name)| name)
    }

    /// Returns the text that `echo` or `printf` prints: its arguments without its options.
    fn printed_text(&self) -> Option<CommandWord> {
        let is_option = |word: &&CommandWord| ["-n", "-e", "-ne", "-E", "--", "%s", "%s\\n"].contains(&&*word.text);
        let options = self.arguments().iter().take_while(is_option).count();
        matches!(self.name(), "echo" | "printf").then(|| CommandWord::join(&self.arguments()[options..]))
    }
}

impl CommandLine {
    /// Reads the program that is to be run.
    pub fn from_program(program: &CommandProgram) -> Self {
        match program {
            CommandProgram::Shell(text) => Self::parse(text),
            CommandProgram::Arguments(arguments) => Self::from_arguments(arguments),
        }
    }

    /// Reads a text for the shell.
    pub fn parse(text: &str) -> Self {
        let mut line = Self::default();
        read_at_depth(text, 0, &mut line, |reader| reader.read_text());
        line
    }

    /// Reads a program and its arguments, which no shell expands.
    pub fn from_arguments(arguments: &[String]) -> Self {
        let mut line = Self::default();
        let words: Vec<_> = arguments.iter().map(|text| CommandWord::literal(text)).collect();
        read_at_depth("", 0, &mut line, |reader| reader.add_command(words, 0..0));
        line
    }
}

#[cfg(test)]
mod tests;
