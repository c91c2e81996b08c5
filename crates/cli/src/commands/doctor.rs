//! `garret doctor`

#![allow(
    clippy::disallowed_methods,
    reason = "the doctor looks for the programs that run code"
)]

use std::path::Path;

use clap::Args;
use garret::path::escape_unprintable;
use garret::probe::{DirectoryCheck, DirectoryCheckStatus, probe_directory};
use garret::sandboxes::toolchains::{CommandPrograms, ProgramDirectory};
use garret::{Guard, GuardStatus, NamedNetwork, NetworkChoice, NetworkRules, RequestedHost, ShellPolicy};
use serde::Serialize;
use serde_json::json;

use crate::error_wording;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::{ChosenWorkspace, Session};

/// Runs its checks on the directory of the chosen workspace, on the home if there is one, and in the sandbox.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

impl DoctorArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let chosen = session.choose_workspace(session.global().workspace.as_deref()).await?;
        let home = HomeState::check_home(session).await;
        let sandbox = SandboxState::probe_sandbox(session, &chosen).await?;
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
    /// The programs outside the system that commands find, and those that they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    programs: Option<CommandPrograms>,
    /// The reason why a toolchain cannot be shown, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    toolchain_problem: Option<ToolchainProblem>,
    /// The package registries of this machine, unless commands have the whole network anyway.
    #[serde(skip_serializing_if = "Option::is_none")]
    registries: Option<RegistryState>,
}

/// The reason why a toolchain cannot be shown to commands.
#[derive(Debug, Serialize)]
struct ToolchainProblem {
    message: String,
    advice: String,
}

/// The package registries that a named network can allow.
#[derive(Debug, Serialize)]
struct RegistryState {
    /// Whether `registries = true` allows those that are reported.
    are_allowed: bool,
    /// Hosts that package managers report.
    reported: Vec<String>,
    /// Hosts that are only built into package managers, each after the name of the manager.
    built_in: Vec<(&'static str, Vec<String>)>,
}

impl RegistryState {
    fn examine(session: &Session, named: &NamedNetwork) -> Self {
        let rules = NetworkRules::new(named, &[]);
        let is_refused = |host: &String| {
            let host = RequestedHost::parse(host, Some(443));
            host.is_ok_and(|host| rules.find_rule(&host).is_err())
        };
        let built_in = session.garret().unreported_registries().into_iter();
        let built_in = built_in.map(|one| {
            (
                one.manager,
                one.hosts.into_iter().filter(is_refused).collect::<Vec<_>>(),
            )
        });
        Self {
            are_allowed: named.registries,
            reported: session.garret().reported_registries(),
            built_in: built_in.filter(|(_, hosts)| !hosts.is_empty()).collect(),
        }
    }

    fn status_lines(&self) -> String {
        let mut text = String::new();
        if !self.reported.is_empty() {
            let (status, advice) = if self.are_allowed {
                ("works", None)
            } else {
                (
                    "limited",
                    Some("allow them with `--network registries`, or `registries = true` in `network`"),
                )
            };
            let detail = format!("reported by package managers: {}", self.reported.join(", "));
            text.push_str(&status_line(status, "registries", &detail, advice));
        }
        for (manager, hosts) in &self.built_in {
            let hosts = hosts.join(", ");
            let detail = format!("{manager} uses {hosts}, which is built in and not reported");
            let advice = format!("name them with `--network`, or in `allow` of `network`: {hosts}");
            text.push_str(&status_line("limited", "registries", &detail, Some(&advice)));
        }
        text
    }
}

/// A program that runs code.
#[derive(Debug, Serialize)]
struct InterpreterStatus {
    language: &'static str,
    program: &'static str,
    is_there: bool,
}

impl SandboxState {
    async fn probe_sandbox(session: &Session, chosen: &ChosenWorkspace) -> Result<Self, CliFailure> {
        let policy = chosen.config.capabilities.shell.policy().unwrap_or_default();
        let directory = chosen.local_directory();
        let (programs, toolchain_problem) = match session.garret().command_programs(&policy, directory.as_deref()) {
            Ok(programs) => (Some(programs), None),
            Err(error) => {
                let (message, advice) = (error.message().to_owned(), error.hint_text().to_owned());
                (None, Some(ToolchainProblem { message, advice }))
            }
        };
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
            registries: (policy.network != NetworkChoice::Full && policy.sandbox != ShellPolicy::HOST).then(|| {
                let named = policy.network.named().cloned().unwrap_or_default();
                RegistryState::examine(session, &named)
            }),
            interpreters: INTERPRETERS
                .map(|interpreter| InterpreterStatus::of_program(interpreter, programs.as_ref()))
                .into(),
            programs,
            toolchain_problem,
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
        if let Some(problem) = &self.toolchain_problem {
            text.push_str(&status_line(
                "MISSING",
                "toolchains",
                &problem.message,
                Some(&problem.advice),
            ));
        }
        if let (Some(programs), false) = (&self.programs, self.is_host) {
            text.push_str(&program_lines(programs));
        }
        text.push_str(
            &self
                .registries
                .as_ref()
                .map_or_else(String::new, RegistryState::status_lines),
        );
        text
    }
}

const INTERPRETERS: [(&str, &str); 3] = [("python", "python3"), ("javascript", "node"), ("bash", "bash")];

impl InterpreterStatus {
    fn of_program((language, program): (&'static str, &'static str), programs: Option<&CommandPrograms>) -> Self {
        let found = programs.map_or(&[][..], |programs| &programs.found);
        let is_in_toolchain = found.iter().any(|one| one.programs.iter().any(|name| name == program));
        // Not PATH: commands search programs here, and the rest of the machine is not visible in a sandbox.
        let places = ["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new);
        Self {
            language,
            program,
            is_there: is_in_toolchain || places.iter().any(|place| place.join(program).exists()),
        }
    }
}

/// The most names that a line of programs shows.
const SHOWN_NAMES: usize = 6;

fn program_lines(programs: &CommandPrograms) -> String {
    let mut text = String::new();
    for one in &programs.found {
        text.push_str(&status_line("works", "programs", &directory_line(one), None));
    }
    for left_out in &programs.left_out {
        text.push_str(&status_line(
            "limited",
            "toolchains",
            &format!("not shown: {left_out}"),
            None,
        ));
    }
    for one in &programs.not_found {
        let detail = format!("commands do not find those in {}", directory_line(one));
        text.push_str(&status_line("limited", "programs", &detail, None));
    }
    if !programs.not_found.is_empty() {
        text.push_str(&format!(
            "{:27}do: show a directory with `mounts` of the capability `shell`, or --mount\n",
            ""
        ));
    }
    text
}

fn directory_line(one: &ProgramDirectory) -> String {
    let mut names: Vec<&str> = one.programs.iter().map(String::as_str).take(SHOWN_NAMES).collect();
    let more = one.programs.len() - names.len();
    let more = format!("{more} more");
    if one.programs.len() > SHOWN_NAMES {
        names.push(&more);
    }
    format!(
        "{}: {}",
        escape_unprintable(&one.directory),
        escape_unprintable(&names.join(", "))
    )
}

fn doctor_report(mut text: String, checks: Vec<DirectoryCheck>, home: HomeState, sandbox: SandboxState) -> CliReport {
    checks.iter().for_each(|check| text.push_str(&check_lines(check)));
    text.push_str(&home.status_lines());
    text.push_str(&sandbox.status_lines());
    let is_wanting = home.status == "MISSING"
        || !sandbox.missing.is_empty()
        || sandbox.toolchain_problem.is_some()
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
