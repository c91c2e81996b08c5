//! `garret fsck`

use std::collections::HashMap;

use clap::Args;
use garret::WorkspaceInfo;
use garret::depot::{CheckProblem, CheckReport, RepairReport};
use garret::path::{escape_unprintable, quote};
use serde_json::json;

use crate::output::{CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Reads every piece of content and checks it against its name; checks every entry, every journal and
where branches begin. The exit code is 1 if something is wrong. `--repair` restores what can be
derived from the rest of the home. Lost content cannot be restored, and is reported with its file.";

/// Names of workspaces by their ids.
type NamesById = HashMap<String, String>;

#[derive(Debug, Args)]
pub(crate) struct FsckArgs {
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
}

impl FsckArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let depot = session.open_depot().await?;
        let progress = ProgressLine::spinner("checking the home");
        let repaired = if self.repair {
            depot.repair().await?
        } else {
            RepairReport::default()
        };
        // After the repair, so that only the problems that are left are counted.
        let mut found = depot.inspect().await?;
        let all = depot.workspaces().await?;
        found.notes.extend(find_odd_keys(session, &all).await);
        drop(progress);
        let names = names_by_id(&all);
        let text = format_report(&found, &repaired, &names);
        let is_sound = found.problems.is_empty();
        let data = json!({"sound": is_sound, "repaired": repaired.repaired, "found": found});
        Ok(if is_sound {
            CliReport::success(text, data)
        } else {
            CliReport::with_problems(text, data)
        })
    }
}

/// Lists the keys in the buckets of workspaces that are not the key of any path, or that collide with each other.
async fn find_odd_keys(session: &Session, all: &[WorkspaceInfo]) -> Vec<String> {
    let mut notes = Vec::new();
    for one in all.iter().filter(|one| one.kind == "s3" && one.deleted.is_none()) {
        let name = escape_unprintable(one.name.as_deref().unwrap_or(&one.id));
        match session.garret().odd_keys(&one.id).await {
            Ok(odd) => notes.extend(
                odd.iter()
                    .map(|odd| format!("{name}: {}: {}", quote(&odd.key), odd.trouble.message())),
            ),
            // A bucket that cannot be reached says nothing about the home, so it is no problem of the home.
            Err(error) => notes.push(format!(
                "{name}: its bucket could not be checked: {}",
                escape_unprintable(error.message())
            )),
        }
    }
    notes
}

/// Returns the names of the workspaces by their ids.
fn names_by_id(all: &[WorkspaceInfo]) -> NamesById {
    let named = all.iter().filter_map(|one| Some((one.id.clone(), one.name.clone()?)));
    named.collect()
}

fn format_report(found: &CheckReport, repaired: &RepairReport, names: &NamesById) -> String {
    let looked = format!(
        "checked {}, {}, {} of content",
        render::format_count(found.workspaces, "workspace"),
        match found.entries {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        },
        render::format_count(found.pieces, "piece"),
    );
    let repaired = repaired
        .repaired
        .iter()
        .map(|problem| problem_line("repaired", problem, names));
    let wrong = found
        .problems
        .iter()
        .map(|problem| problem_line("wrong", problem, names));
    let notes = found.notes.iter().map(|note| format!("  {:8}  {note}", "note"));
    let verdict = match found.problems.len() as u64 {
        0 => "no problems found".to_owned(),
        count => render::format_count(count, "problem"),
    };
    let lines = [looked]
        .into_iter()
        .chain(repaired)
        .chain(wrong)
        .chain(notes)
        .chain([verdict]);
    lines.collect::<Vec<_>>().join("\n")
}

fn problem_line(word: &str, problem: &CheckProblem, names: &NamesById) -> String {
    let name = |id: &String| escape_unprintable(names.get(id).unwrap_or(id)).into_owned();
    let place = [
        problem.workspace.as_ref().map(name),
        problem
            .path
            .as_ref()
            .map(|path| render::display_path(&path.display_path())),
        Some(escape_unprintable(&problem.what).into_owned()),
    ];
    format!(
        "  {word:8}  {}",
        place.into_iter().flatten().collect::<Vec<_>>().join(": ")
    )
}
