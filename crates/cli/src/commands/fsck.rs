//! `garret fsck`

use std::collections::HashMap;

use clap::Args;
use garret::depot::{Inspection, Problem, Repaired};
use garret::path::printable;
use garret::{Finding, WorkspaceInfo};
use serde::Serialize;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::progress::Progress;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Reads every piece of content and checks it against its name; checks every entry, every journal and
where branches begin; in a bucket, looks for keys that no path names. What is wrong ends it with 1. A repair puts right what the rest of the home
tells; bytes that are lost are told by nothing, and stay an error by name.";

/// Names by id.
type Names = HashMap<String, String>;

#[derive(Debug, Args)]
pub(crate) struct Fsck {
    /// Put right what can be
    #[arg(long)]
    repair: bool,
}

impl Fsck {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let depot = session.depot().await?;
        let progress = Progress::spinner("looking everything over");
        let repaired = match self.repair {
            true => depot.repair().await?,
            false => Repaired::default(),
        };
        let found = depot.inspect().await?;
        let workspaces = depot.workspaces().await?;
        let buckets = look_into_buckets(session, &workspaces).await;
        drop(progress);
        let names = names(&workspaces);
        let text = text(&found, &repaired, &names, &buckets);
        let is_sound = found.problems.is_empty() && buckets.stray.is_empty();
        let data = json!({
            "sound": is_sound,
            "repaired": repaired.repaired,
            "found": found,
            "stray_keys": buckets.stray,
            "unseen_buckets": buckets.unseen,
        });
        Ok(match is_sound {
            true => Report::done(text, data),
            false => Report::wanting(text, data),
        })
    }
}

/// What lies in buckets that no tool reaches.
#[derive(Debug, Default)]
struct Buckets {
    stray: Vec<Stray>,
    /// Workspaces whose bucket could not be looked into, and why.
    unseen: Vec<(String, String)>,
}

/// A key in the bucket of a workspace.
#[derive(Debug, Serialize)]
struct Stray {
    workspace: String,
    #[serde(flatten)]
    finding: Finding,
}

/// Looks into the buckets. One that cannot be reached says nothing about the home, so it is no problem of it.
async fn look_into_buckets(session: &Session, workspaces: &[WorkspaceInfo]) -> Buckets {
    let mut buckets = Buckets::default();
    for info in workspaces.iter().filter(|info| info.kind == "s3") {
        let workspace = info.name.clone().unwrap_or_else(|| info.id.clone());
        match session.garret().stray_keys(&info.id).await {
            Ok(found) => buckets.stray.extend(found.into_iter().map(|finding| Stray {
                workspace: workspace.clone(),
                finding,
            })),
            Err(error) => buckets.unseen.push((workspace, error.message().to_owned())),
        }
    }
    buckets
}

/// What a person calls each workspace.
fn names(all: &[WorkspaceInfo]) -> Names {
    let named = all.iter().filter_map(|one| Some((one.id.clone(), one.name.clone()?)));
    named.collect()
}

fn text(found: &Inspection, repaired: &Repaired, names: &Names, buckets: &Buckets) -> String {
    let looked = format!(
        "looked at {}, {}, {} of content",
        render::counted(found.workspaces, "workspace"),
        match found.entries {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        },
        render::counted(found.pieces, "piece"),
    );
    let repaired = repaired.repaired.iter().map(|problem| line("repaired", problem, names));
    let wrong = found.problems.iter().map(|problem| line("wrong", problem, names));
    let notes = found.notes.iter().map(|note| format!("  {:8}  {note}", "note"));
    let stray = buckets.stray.iter().map(|stray| {
        let Stray { workspace, finding } = stray;
        let (workspace, key) = (printable(workspace), render::shown(&finding.key));
        format!("  {:8}  {workspace}: {key}: {}", "wrong", finding.trouble.message())
    });
    let unseen = buckets.unseen.iter().map(|(workspace, why)| {
        let workspace = printable(workspace);
        format!(
            "  {:8}  {workspace}: its bucket could not be looked into: {why}",
            "note"
        )
    });
    let verdict = match (found.problems.len() + buckets.stray.len()) as u64 {
        0 => "all is well".to_owned(),
        count => render::counted(count, "problem"),
    };
    let lines = [looked]
        .into_iter()
        .chain(repaired)
        .chain(wrong)
        .chain(stray)
        .chain(notes)
        .chain(unseen)
        .chain([verdict]);
    lines.collect::<Vec<_>>().join("\n")
}

fn line(word: &str, problem: &Problem, names: &Names) -> String {
    let name = |id: &String| printable(names.get(id).unwrap_or(id)).into_owned();
    let place = [
        problem.workspace.as_ref().map(name),
        problem.path.as_ref().map(|path| render::shown(&path.shown())),
        Some(printable(&problem.what).into_owned()),
    ];
    format!(
        "  {word:8}  {}",
        place.into_iter().flatten().collect::<Vec<_>>().join(": ")
    )
}
