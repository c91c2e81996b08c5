//! Recognizes command lines that are just a program and its arguments, in words without any special meaning to a shell.
//!
//! A shell executes such a program directly, after it has prepared itself for everything else that a command line may
//! hold, which takes longer than many programs run.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

/// The builtins and reserved words of shells. A command line that begins with one is left to the shell.
const OWN: &str = ". : alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs \
    disown do done echo elif else enable esac eval exec exit export fc fg fi for function getopts hash help history \
    if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift \
    shopt source suspend test then time times trap type typeset ulimit umask unalias unset until wait while true \
    false chdir";

/// Returns the words of a command line that `shell` would only execute; `None` if the shell may do anything else with
/// it.
pub(super) fn split_plain_words(
    shell: &str,
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Option<Vec<String>> {
    let is_known = matches!(shell.rsplit('/').next(), Some("bash" | "sh" | "dash"));
    if !is_known || !environment.contains_key("PATH") || environment.keys().any(|name| changes_a_shell(name)) {
        return None;
    }
    if !text.chars().all(is_plain_character) {
        return None;
    }
    let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let first = words.first()?;
    // Without arguments, these two do the same as a program and as a builtin.
    let is_alike = words.len() == 1 && matches!(first.as_str(), "true" | "false");
    let is_program = !first.contains('=') && !OWN.split_ascii_whitespace().any(|own| own == first);
    (is_program || is_alike).then_some(words)
}

/// Returns whether a character has no special meaning to a shell at any position.
fn is_plain_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || " _-./:,+@%=".contains(character)
}

/// Returns whether a variable changes the behaviour of a shell.
fn changes_a_shell(name: &str) -> bool {
    name.starts_with("BASH") || matches!(name, "ENV" | "SHELLOPTS" | "POSIXLY_CORRECT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Option<Vec<String>> {
        split_plain_words(
            "/bin/bash",
            text,
            &BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
        )
    }

    #[test]
    fn a_program_and_its_arguments_need_no_shell() {
        assert_eq!(plain(" ls  -la src/a.rs ").unwrap(), ["ls", "-la", "src/a.rs"]);
        assert_eq!(
            plain("env A=1 ./run --x=y,z").unwrap(),
            ["env", "A=1", "./run", "--x=y,z"]
        );
        assert_eq!(plain("true").unwrap(), ["true"]);
    }

    #[test]
    fn whatever_a_shell_does_itself_is_left_to_it() {
        for text in [
            "",
            "  ",
            "echo hi",
            "true --help",
            "A=1 ls",
            "A=1",
            "cd src",
            "ls; ls",
            "ls\nls",
            "ls *",
            "ls ~",
            "ls $A",
            "ls 'a'",
            "ls > a",
            "ls | wc",
            "ls &",
            "ls #a",
            "! ls",
            "{ ls",
            "ls {a,b}",
            "ls a?",
            "ls [a]",
            "time ls",
            "a\\b",
            "ls \u{e9}",
            "^a",
        ] {
            assert_eq!(plain(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_shell_that_is_told_otherwise_is_asked() {
        let path = ("PATH".to_owned(), "/bin".to_owned());
        for name in ["BASH_ENV", "BASH_FUNC_ls%%", "SHELLOPTS", "ENV"] {
            let environment = BTreeMap::from([path.clone(), (name.to_owned(), String::new())]);
            assert_eq!(split_plain_words("/bin/bash", "ls", &environment), None, "{name}");
        }
        assert_eq!(split_plain_words("/bin/bash", "ls", &BTreeMap::new()), None);
        assert_eq!(split_plain_words("/usr/bin/fish", "ls", &BTreeMap::from([path])), None);
    }
}
