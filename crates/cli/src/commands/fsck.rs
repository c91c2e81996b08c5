//! `garret fsck`

use clap::Args;
use garret::depot::{Inspection, Problem, Repaired};
use garret::path::printable;
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::progress::Progress;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Reads every piece of content and checks it against its name; checks every entry, every journal and
where branches begin. What is wrong ends it with 1. A repair puts right what the rest of the home
tells; bytes that are lost are told by nothing, and stay an error by name.";

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
        drop(progress);
        let text = text(&found, &repaired);
        let is_sound = found.problems.is_empty();
        let data = json!({"sound": is_sound, "repaired": repaired.repaired, "found": found});
        Ok(match is_sound {
            true => Report::done(text, data),
            false => Report::wanting(text, data),
        })
    }
}

fn text(found: &Inspection, repaired: &Repaired) -> String {
    let looked = format!(
        "looked at {}, {}, {} of content",
        render::counted(found.workspaces, "workspace"),
        match found.entries {
            1 => "1 entry".to_owned(),
            count => format!("{count} entries"),
        },
        render::counted(found.pieces, "piece"),
    );
    let repaired = repaired.repaired.iter().map(|problem| line("repaired", problem));
    let wrong = found.problems.iter().map(|problem| line("wrong", problem));
    let verdict = match found.problems.len() as u64 {
        0 => "all is well".to_owned(),
        count => render::counted(count, "problem"),
    };
    let lines = [looked].into_iter().chain(repaired).chain(wrong).chain([verdict]);
    lines.collect::<Vec<_>>().join("\n")
}

fn line(word: &str, problem: &Problem) -> String {
    let place = [
        problem.workspace.as_deref().map(|id| printable(id).into_owned()),
        problem.path.as_ref().map(|path| printable(&path.shown()).into_owned()),
    ];
    let place: Vec<_> = place.into_iter().flatten().chain([printable(&problem.what).into_owned()]).collect();
    format!("  {word:8}  {}", place.join(": "))
}
