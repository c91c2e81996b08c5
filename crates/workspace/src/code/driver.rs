//! The drivers: the programs that make an interpreter run pieces of code, and the form in which a piece is handed to
//! them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use garret_core::{CommandProgram, Error, Language, Result};

const PYTHON: &str = include_str!("drivers/python.py");
const NODE: &str = include_str!("drivers/node.js");
const BASH: &str = include_str!("drivers/bash.sh");

/// Starts Node by a shell, which copies the descriptors first, because Node cannot. With access to its internals, Node
/// can keep the variables that code with `await` declares.
const START_NODE: &str = r#"exec node --expose-internals -e "$0" 3<&0 4>&1 5>&2 </dev/null"#;

/// Returns the name of the interpreter of a language.
pub(super) const fn interpreter_name(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::Javascript => "node",
        Language::Bash => "bash",
    }
}

/// Returns the name of the package that has the interpreter on most systems.
pub(super) const fn package_name(language: Language) -> &'static str {
    match language {
        Language::Python => "python3",
        Language::Javascript => "nodejs",
        Language::Bash => "bash",
    }
}

/// Returns the command line that starts the interpreter with its driver.
pub(super) fn driver_program(language: Language) -> CommandProgram {
    let arguments: &[&str] = match language {
        Language::Python => &["python3", "-u", "-c", PYTHON],
        Language::Javascript => &["sh", "-c", START_NODE, NODE],
        Language::Bash => &["bash", "-c", BASH],
    };
    CommandProgram::Arguments(arguments.iter().map(|&argument| argument.to_owned()).collect())
}

/// Returns the program that policies and approvers judge for a piece of code.
pub(super) fn judged_program(language: Language, code: &str) -> CommandProgram {
    match language {
        // Bash code is a command line, so the rules for commands hold for it.
        Language::Bash => CommandProgram::Shell(code.to_owned()),
        Language::Python | Language::Javascript => bare_interpreter(language),
    }
}

/// Returns the program that policies and approvers judge for an interpreter that starts without code.
pub(super) fn bare_interpreter(language: Language) -> CommandProgram {
    CommandProgram::Arguments(vec![interpreter_name(language).to_owned()])
}

/// Returns the label of a piece of code in the journal.
pub(super) fn piece_label(language: Language, code: &str) -> String {
    format!("{}: {}", language.as_str(), code.trim_start())
}

/// Returns a piece of code in the form that the driver reads: one line, with the word for its mark.
pub(super) fn encode_request(language: Language, word: &str, code: &str) -> Result<Bytes> {
    let code = match language {
        Language::Python | Language::Javascript => STANDARD.encode(code),
        Language::Bash if code.contains('\0') => {
            return Err(Error::invalid("Bash code cannot contain a NUL byte")
                .hint("write the byte as an escape, as in `printf '\\0'`"));
        }
        // Bash decodes this itself. For base64 it would need a program, and code may have put that out of reach by
        // changing `PATH`.
        Language::Bash => format!("{}.", code.replace('\\', r"\\").replace('\n', r"\n")),
    };
    Ok(format!("{word} {code}\n").into())
}

#[cfg(test)]
mod tests;
