//! The drivers: how an interpreter is started so that it runs pieces of code, and how a piece is handed to it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::{Error, Language, Program, Result};

const PYTHON: &str = include_str!("drivers/python.py");
const NODE: &str = include_str!("drivers/node.js");
const BASH: &str = include_str!("drivers/bash.sh");

/// Node cannot copy descriptors itself, so a shell does before it becomes Node. With its own internals in reach, Node can keep what code
/// that awaits declares.
const START_NODE: &str = r#"exec node --expose-internals -e "$0" 3<&0 4>&1 5>&2 </dev/null"#;

/// The program that must be there.
pub(super) const fn interpreter(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::Javascript => "node",
        Language::Bash => "bash",
    }
}

/// The package that has it, as most systems call it.
pub(super) const fn package(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::Javascript => "nodejs",
        Language::Bash => "bash",
    }
}

/// The interpreter with its driver.
pub(super) fn program(language: Language) -> Program {
    let arguments: &[&str] = match language {
        Language::Python => &["python3", "-u", "-c", PYTHON],
        Language::Javascript => &["sh", "-c", START_NODE, NODE],
        Language::Bash => &["bash", "-c", BASH],
    };
    Program::Arguments(arguments.iter().map(|&argument| argument.to_owned()).collect())
}

/// What policies and approvers look at: of Bash the code itself, since it is a command line; of the others the interpreter.
pub(super) fn judged(language: Language, code: &str) -> Program {
    match language {
        Language::Bash => Program::Shell(code.to_owned()),
        Language::Python | Language::Javascript => started(language),
    }
}

/// What policies and approvers look at when an interpreter starts without code.
pub(super) fn started(language: Language) -> Program {
    Program::Arguments(vec![interpreter(language).to_owned()])
}

/// How a journal names a piece of code.
pub(super) fn label(language: Language, code: &str) -> String {
    format!("{}: {}", language.as_str(), code.trim_start())
}

/// A piece of code as the driver reads it: one line, with the word for its mark.
pub(super) fn request(language: Language, word: &str, code: &str) -> Result<Bytes> {
    let code = match language {
        Language::Python | Language::Javascript => STANDARD.encode(code),
        Language::Bash if code.contains('\0') => {
            return Err(Error::invalid("Bash code cannot contain a NUL byte")
                .hint("write the byte as an escape, as in `printf '\\0'`"));
        }
        // Bash reads this by itself; for base64 it would need a program, which code may take out of its reach.
        Language::Bash => format!("{}.", code.replace('\\', r"\\").replace('\n', r"\n")),
    };
    Ok(format!("{word} {code}\n").into())
}

#[cfg(test)]
mod tests;
