//! Finds the interpreters that code has inside the sandbox.

use garret_core::{CommandProgram, Error, ErrorKind, Language, Result};

use super::driver;
use super::rules::CodeAccess;
use crate::shell::interpreter::{InterpreterProgram, NoSink};
use crate::{Interpreter, RunRequest, Workspace};

/// A shell script that prints the version of each program among its arguments. It leaves out programs that it does not
/// find.
const ASK: &str = r#"line='
'
for program do
  if command -v "$program" >/dev/null; then
    version=$("$program" --version 2>&1)
    printf '%s %s\n' "$program" "${version%%"$line"*}"
  fi
done"#;

impl Workspace {
    /// Returns the interpreters that code of this workspace would find, for each language that the policy names.
    pub async fn interpreters(&self) -> Result<Vec<Interpreter>> {
        let work = async {
            let code = self.code()?;
            code.find_interpreters(&code.rules.policy.languages).await
        };
        self.run_observed("interpreters", None, |_| 0, work).await
    }
}

impl CodeAccess<'_> {
    async fn find_interpreters(&self, languages: &[Language]) -> Result<Vec<Interpreter>> {
        let programs = languages.iter().map(|language| driver::interpreter_name(*language));
        let arguments = ["sh", "-c", ASK, "sh"].into_iter().chain(programs);
        let driven = InterpreterProgram {
            operation: "interpreters",
            request: RunRequest::for_program(CommandProgram::Arguments(arguments.map(str::to_owned).collect())),
            judged: None,
            label: "interpreters".to_owned(),
        };
        let (ran, _) = self.commands.run_interpreter(driven, |_| NoSink).await?;
        let said = String::from_utf8_lossy(&ran.stdout.0).into_owned();
        Ok(languages
            .iter()
            .map(|language| parse_interpreter(*language, &said))
            .collect())
    }

    /// Refuses a language whose interpreter is missing from the sandbox.
    pub(super) async fn check_interpreter(&self, language: Language) -> Result<()> {
        let found = self.find_interpreters(&[language]).await?;
        if found.iter().all(|one| one.version.is_some()) {
            Ok(())
        } else {
            Err(missing_interpreter_error(language))
        }
    }

    /// Returns the error that the interpreter is missing, if it is; otherwise `error`.
    pub(super) async fn explain_missing_interpreter(&self, language: Language, error: Error) -> Error {
        self.check_interpreter(language).await.err().unwrap_or(error)
    }
}

fn parse_interpreter(language: Language, said: &str) -> Interpreter {
    let program = driver::interpreter_name(language);
    let version = said.lines().find_map(|line| {
        let (name, version) = line.split_once(' ')?;
        (name == program).then(|| version.to_owned())
    });
    Interpreter {
        language,
        program: program.to_owned(),
        remedy: version.is_none().then(|| install_remedy(language)),
        version,
    }
}

fn missing_interpreter_error(language: Language) -> Error {
    let (name, program) = (language.as_str(), driver::interpreter_name(language));
    Error::new(
        ErrorKind::Unsupported,
        format!("`{program}` is missing from the sandbox, so {name} code cannot run"),
    )
    .hint(install_remedy(language))
}

fn install_remedy(language: Language) -> String {
    format!(
        "install the package `{}` on the machine, below `/usr`, which the sandbox can see",
        driver::package_name(language)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_comes_with_its_remedy() {
        let said = "python3 Python 3.11.7\nbash GNU bash, version 5.2\n";
        let found = Language::ALL.map(|language| parse_interpreter(language, said));
        let versions = found.each_ref().map(|one| one.version.as_deref());
        assert_eq!(versions, [Some("Python 3.11.7"), None, Some("GNU bash, version 5.2")]);
        assert!(found[1].remedy.as_ref().unwrap().contains("`nodejs`"));
        assert_eq!(found[0].remedy, None);
    }
}
