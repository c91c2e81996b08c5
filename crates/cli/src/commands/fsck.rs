//! `garret fsck`

use std::collections::HashMap;

use clap::Args;
use garret::depot::CheckProblem;
use garret::path::escape_unprintable;
use garret::{HomeCheck, WorkspaceInfo};

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
        let garret = session.garret_with_home()?;
        let progress = ProgressLine::start("checking the home");
        let checked = if self.repair {
            garret.repair_home().await?
        } else {
            garret.check_home().await?
        };
        drop(progress);
        let names = names_by_id(&garret.depot().await?.workspaces().await?);
        let text = format_report(&checked, &names);
        Ok(if checked.sound {
            CliReport::success(text, checked)
        } else {
            CliReport::with_problems(text, checked)
        })
    }
}

/// Returns the names of the workspaces by their ids.
fn names_by_id(all: &[WorkspaceInfo]) -> NamesById {
    let named = all.iter().filter_map(|one| Some((one.id.clone(), one.name.clone()?)));
    named.collect()
}

fn format_report(checked: &HomeCheck, names: &NamesById) -> String {
    let found = &checked.found;
    let looked = format!(
        "checked {}, {}, {} of content",
        render::format_count(found.workspaces, "workspace"),
        match found.entries {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        },
        render::format_count(found.pieces, "piece"),
    );
    let repaired = checked
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
