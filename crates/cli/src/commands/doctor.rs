//! `garret doctor`

#![allow(
    clippy::disallowed_methods,
    reason = "the doctor looks for the programs that run code"
)]

use std::path::Path;

use clap::Args;
use garret::path::escape_unprintable;
use garret::probe::{DirectoryCheck, DirectoryCheckStatus, probe_directory};
use garret::{Guard, GuardStatus, ShellPolicy, WorkspaceConfig};
use serde::Serialize;
use serde_json::json;

use crate::error_wording;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

/// Runs its checks on the directory of the chosen workspace, on the home if there is one, and in the sandbox.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

impl DoctorArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let chosen = session.choose_workspace(session.global().workspace.as_deref()).await?;
        let home = HomeState::check_home(session).await;
        let sandbox = SandboxState::probe_sandbox(session, &chosen.config).await?;
        let Some(directory) = chosen.local_directory() else {
            let kind = chosen.config.storage.kind();
            let text = format!("storage {kind}: needs nothing of this machine\n");
            return Ok(doctor_report(text, Vec::new(), home, sandbox));
        };
        let checks = probe_directory(&directory)?;
        Ok(doctor_report(
            "storage local: tried on the workspace's own directory\n".into(),
            checks,
            home,
            sandbox,
        ))
    }
}

/// The state of the home.
#[derive(Debug, Serialize)]
struct HomeState {
    /// The directory as its user wrote it.
    home: Option<String>,
    status: &'static str,
    detail: String,
    /// The remedy, if the home cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl HomeState {
    async fn check_home(session: &Session) -> Self {
        let Some(choice) = session.home() else {
            return Self {
                home: None,
                status: "limited",
                detail: "no directory for the home is known, so there is no history; set GARRET_HOME".into(),
                advice: None,
            };
        };
        let mut advice = None;
        // A check must not make the home, and opening the depot would.
        let (status, detail) = if choice.is_made() {
            match session.garret().depot().await {
                Ok(_) => ("works", "opens".to_owned()),
                Err(error) => {
                    let error = error_wording::translate_error(error);
                    advice = Some(error.hint_text().to_owned());
                    ("MISSING", error.message().to_owned())
                }
            }
        } else {
            (
                "works",
                "does not exist yet; creating the first workspace creates it".to_owned(),
            )
        };
        Self {
            home: Some(choice.written.clone()),
            status,
            detail,
            advice,
        }
    }

    fn status_lines(&self) -> String {
        let written = self.home.as_deref().map_or("none".into(), escape_unprintable);
        let line = status_line(self.status, "home", &self.detail, self.advice.as_deref());
        format!("home {written}\n{line}")
    }
}

/// Formats one result, with the remedy below it if there is one.
fn status_line(status: &str, what: &str, detail: &str, advice: Option<&str>) -> String {
    let advice = advice.map_or_else(String::new, |advice| format!("{:27}do: {advice}\n", ""));
    format!("  {status:8} {what:15} {detail}\n{advice}")
}

/// The guards that the sandbox of the workspace enforces on this machine, found by running a process in it.
#[derive(Debug, Serialize)]
struct SandboxState {
    kind: String,
    /// Whether commands run on the host, without isolation.
    #[serde(skip)]
    is_host: bool,
    enforced: Vec<GuardStatus>,
    /// The required guards that are not enforced.
    missing: Vec<&'static str>,
    interpreters: Vec<InterpreterStatus>,
}

/// A program that runs code.
#[derive(Debug, Serialize)]
struct InterpreterStatus {
    language: &'static str,
    program: &'static str,
    is_there: bool,
}

impl SandboxState {
    async fn probe_sandbox(session: &Session, config: &WorkspaceConfig) -> Result<Self, CliFailure> {
        let policy = config.capabilities.shell.policy().unwrap_or_default();
        let sandbox = session.garret().sandbox_of(&policy).map_err(CliFailure::wrong_usage)?;
        let enforced = sandbox.probe().await;
        let holds = |guard: &Guard| enforced.iter().any(|one| one.guard == *guard && one.is_enforced);
        let required = policy.required_guards();
        Ok(Self {
            kind: sandbox.kind().to_owned(),
            is_host: policy.sandbox == ShellPolicy::HOST,
            missing: required
                .iter()
                .filter(|guard| !holds(guard))
                .map(|guard| guard.as_str())
                .collect(),
            enforced,
            interpreters: INTERPRETERS.map(InterpreterStatus::of_program).into(),
        })
    }

    fn status_lines(&self) -> String {
        let how = if self.is_host {
            "no isolation; commands run like any other program of this user"
        } else {
            "tried by running a process in it"
        };
        let mut text = format!("sandbox {}: {how}\n", self.kind);
        for one in &self.enforced {
            let word = one.guard.as_str();
            let status = match (one.is_enforced, self.missing.contains(&word)) {
                (true, _) => "works",
                (false, true) => "MISSING",
                (false, false) => "limited",
            };
            text.push_str(&status_line(status, word, &one.by, one.remedy.as_deref()));
        }
        for one in &self.interpreters {
            let (status, detail) = if one.is_there {
                ("works", format!("{} is installed", one.program))
            } else {
                (
                    "limited",
                    format!("{} is not installed; install it to run such code", one.program),
                )
            };
            text.push_str(&status_line(status, one.language, &detail, None));
        }
        text
    }
}

const INTERPRETERS: [(&str, &str); 3] = [("python", "python3"), ("javascript", "node"), ("bash", "bash")];

impl InterpreterStatus {
    fn of_program((language, program): (&'static str, &'static str)) -> Self {
        // Not PATH: commands search programs here, and the rest of the machine is not visible in a sandbox.
        let places = ["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new);
        Self {
            language,
            program,
            is_there: places.iter().any(|place| place.join(program).exists()),
        }
    }
}

fn doctor_report(mut text: String, checks: Vec<DirectoryCheck>, home: HomeState, sandbox: SandboxState) -> CliReport {
    checks.iter().for_each(|check| text.push_str(&check_lines(check)));
    text.push_str(&home.status_lines());
    text.push_str(&sandbox.status_lines());
    let is_wanting = home.status == "MISSING"
        || !sandbox.missing.is_empty()
        || checks.iter().any(|check| check.status == DirectoryCheckStatus::Missing);
    let exceptions: Vec<_> = [
        home.home.is_none().then_some("changes cannot be undone later"),
        sandbox.is_host.then_some("commands are not isolated"),
    ]
    .into_iter()
    .flatten()
    .collect();
    text.push_str(&match (is_wanting, &exceptions[..]) {
        (true, _) => "a requirement is missing: see the lines marked MISSING\n".to_owned(),
        (false, []) => "all required checks passed\n".to_owned(),
        (false, some) => format!("all required checks passed, but {}\n", some.join(", and ")),
    });
    let data = json!({"checks": checks, "home": home, "sandbox": sandbox});
    if is_wanting {
        CliReport::with_problems(text, data)
    } else {
        CliReport::success(text, data)
    }
}

fn check_lines(check: &DirectoryCheck) -> String {
    let status = match check.status {
        DirectoryCheckStatus::Works => "works",
        DirectoryCheckStatus::Limited => "limited",
        DirectoryCheckStatus::Missing => "MISSING",
    };
    status_line(status, check.name, &check.detail, check.advice)
}
