//! The process that is killed. Every line it says is something that was acknowledged.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use garret_core::{ErrorKind, Precondition, Storage};
use garret_depot::{Depot, NewWorkspace};
use garret_testkit::Probe;
use garret_testkit::mutations::{append_or_create, write, write_if};

use crate::place::{Place, Room, open};
use crate::program::{done, step};

const TASKS: u32 = 3;
/// How often a task turns to what all processes share.
const SHARED_EVERY: usize = 3;

/// Unbuffered: what is said before the kill is heard.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    let said = output
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| output.flush());
    said.expect("somebody listens");
}

/// Works until every task has taken so many steps, or the process is killed.
pub(crate) async fn work(home: &Path, place: Place, name: &str, steps: usize) {
    let depot = open(home).await;
    let shared = place.room(home, &depot, "shared").await;
    let workers = (0..TASKS).map(|task| {
        let (home, depot, shared) = (home.to_owned(), depot.clone(), shared.clone());
        let name = format!("{name}-{task}");
        tokio::spawn(async move { take_steps(&place.room(&home, &depot, &name).await, &shared, &name, steps).await })
    });
    let workers: Vec<_> = workers.collect();
    let (depot, name) = (depot.clone(), name.to_owned());
    let sweeper = tokio::spawn(async move { sweep(&depot, &name, place.grace()).await });
    for worker in workers {
        worker.await.expect("it takes its steps");
    }
    sweeper.abort();
}

async fn take_steps(own: &Room, shared: &Room, name: &str, steps: usize) {
    let probe = Probe::new(shared.storage.clone(), None);
    for index in 0..steps {
        step(own, name, index).await;
        say(&format!("step {name} {index}"));
        if index % SHARED_EVERY == 0 {
            let line = append_or_create("log", format!("{name} {}\n", index / SHARED_EVERY));
            done(|| shared.storage.apply(line.clone().into())).await;
            say(&format!("log {name} {}", index / SHARED_EVERY));
            count(&probe).await;
            say(&format!("count {name} {}", index / SHARED_EVERY));
        }
    }
}

/// Counts up by conditional writes until one of them is not overtaken.
async fn count(probe: &Probe) {
    loop {
        let (next, wanted) = match probe.try_read("counter").await {
            Ok(read) => {
                let text = std::str::from_utf8(&read.bytes).expect("it is text");
                let value: u64 = text.parse().expect("it is a number");
                (value + 1, Precondition::Version(read.version))
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                (1, Precondition::Absent)
            }
        };
        match probe.try_apply(write_if("counter", next.to_string(), wanted)).await {
            Ok(_) => return,
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes and deletes workspaces with the same large content again and again, and collects what is left of them.
async fn sweep(depot: &Depot, name: &str, grace: Duration) {
    for index in 0.. {
        let name = format!("scratch-{name}-{index}");
        let scratch = depot
            .create(NewWorkspace::named(&name))
            .await
            .expect("the name is free");
        let batch = write("f", format!("{}\n", index % 3).repeat(50_000));
        done(|| scratch.apply(batch.clone().into())).await;
        done(|| depot.delete(&name)).await;
        done(|| depot.collect(grace)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
