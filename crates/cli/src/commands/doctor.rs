//! `garret doctor`

use clap::Args;
use garret::path::printable;
use garret::probe::{Check, Status, probe};
use serde::Serialize;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::session::Session;

/// What is tried is tried on the chosen workspace's own directory, and on the home where there is one.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let chosen = session.chosen(session.global().workspace.as_deref()).await?;
        let home = HomeState::of(session).await;
        let Some(directory) = chosen.local_directory() else {
            let kind = chosen.config.storage.kind();
            let text = format!("storage {kind}: needs nothing of this machine\n");
            return Ok(report(text, Vec::new(), home));
        };
        let checks = probe(&directory)?;
        Ok(report(
            "storage local: tried on the workspace's own directory\n".into(),
            checks,
            home,
        ))
    }
}

/// What is known of the home.
#[derive(Debug, Serialize)]
struct HomeState {
    /// As its user wrote it.
    home: Option<String>,
    status: &'static str,
    detail: String,
}

impl HomeState {
    async fn of(session: &Session) -> Self {
        let Some(choice) = session.home() else {
            return Self {
                home: None,
                status: "limited",
                detail: "there is no place for named workspaces; set GARRET_HOME".into(),
            };
        };
        // To look is not to make.
        let (status, detail) = match choice.is_made() {
            false => ("works", "not made yet; the first workspace makes it".to_owned()),
            true => match session.garret().depot().await {
                Ok(_) => ("works", "opens".to_owned()),
                Err(error) => ("MISSING", error.message().to_owned()),
            },
        };
        Self {
            home: Some(choice.written.clone()),
            status,
            detail,
        }
    }

    fn line(&self) -> String {
        let written = self.home.as_deref().map_or("none".into(), printable);
        format!("home {written}\n  {:8} {:15} {}\n", self.status, "home", self.detail)
    }
}

fn report(mut text: String, checks: Vec<Check>, home: HomeState) -> Report {
    checks.iter().for_each(|check| text.push_str(&lines(check)));
    text.push_str(&home.line());
    let is_wanting = home.status == "MISSING" || checks.iter().any(|check| check.status == Status::Missing);
    text.push_str(if is_wanting {
        "something that Garret needs is missing\n"
    } else {
        "Garret can keep its promises here\n"
    });
    let data = json!({"checks": checks, "home": home});
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
