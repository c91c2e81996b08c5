//! `garret doctor`

use clap::Args;
use garret::probe::{Check, Status, probe};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

/// What is tried is tried on the chosen workspace's own directory.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let chosen = session.chosen(session.global().workspace.as_deref())?;
        let Some(directory) = chosen.local_directory() else {
            let kind = chosen.open(session.garret()).await?.workspace().storage_info().kind;
            return Ok(report(
                format!("storage {kind}: needs nothing of this machine\n"),
                Vec::new(),
            ));
        };
        let checks = probe(&directory)?;
        Ok(report(
            "storage local: tried on the workspace's own directory\n".into(),
            checks,
        ))
    }
}

fn report(mut text: String, checks: Vec<Check>) -> Report {
    checks.iter().for_each(|check| text.push_str(&lines(check)));
    let is_wanting = checks.iter().any(|check| check.status == Status::Missing);
    text.push_str(if is_wanting {
        "something that Garret needs is missing\n"
    } else {
        "Garret can keep its promises here\n"
    });
    let data = json!({"checks": checks});
    if is_wanting {
        Report::wanting(text, data)
    } else {
        Report::done(text, data)
    }
}

fn lines(check: &Check) -> String {
    let status = match check.status {
        Status::Works => "works",
        Status::Limited => "limited",
        Status::Missing => "MISSING",
    };
    let advice = check
        .advice
        .map_or_else(String::new, |advice| format!("{:27}do: {advice}\n", ""));
    format!("  {status:8} {:15} {}\n{advice}", check.name, check.detail)
}
