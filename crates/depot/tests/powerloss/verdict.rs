//! What must hold after the power came back, whatever was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use garret_core::{EntryKind, ListOptions, ReadOptions, Storage, WsPath};
use garret_depot::{Depot, DepotWorkspace, Point};

use crate::workload::{Profile, open};

/// A tree in short: each path with what is there.
type Shape = BTreeMap<String, String>;

/// The workspaces as the recorded process left them, with every state they went through.
#[derive(Debug)]
pub(crate) struct Reference(BTreeMap<String, Room>);

#[derive(Debug)]
struct Room {
    changes: Vec<String>,
    states: Vec<Shape>,
    snapshots: BTreeSet<String>,
}

/// What was promised before the cut.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promises {
    workspaces: BTreeSet<String>,
    changes: BTreeMap<String, u64>,
    snapshots: BTreeSet<(String, String)>,
}

impl Promises {
    /// Takes down a line of the process.
    pub(crate) fn note(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["workspace", id] => {
                self.workspaces.insert((*id).to_owned());
            }
            ["change", id, number] => {
                let number: u64 = number.parse().expect("a change has a number");
                let newest = self.changes.entry((*id).to_owned()).or_default();
                *newest = number.max(*newest);
            }
            ["snapshot", id, label] => {
                self.snapshots.insert(((*id).to_owned(), (*label).to_owned()));
            }
            other => panic!("{other:?} was said"),
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.changes.values().sum::<u64>() + (self.workspaces.len() + self.snapshots.len()) as u64
    }
}

type Verdict<T = ()> = Result<T, String>;

impl Reference {
    /// Reads every state of every workspace.
    pub(crate) async fn of(home: &Path, profile: Profile) -> Self {
        let depot = open(home, profile).await.expect("nothing was cut yet");
        let mut rooms = BTreeMap::new();
        for info in depot.workspaces().await.expect("they can be listed") {
            let room = depot.workspace(&info.id).await.expect("it is there");
            let mut states = Vec::new();
            for number in 0..=info.head {
                states.push(shape_at(&room, number).await.expect("nothing was cut yet"));
            }
            let changes = ids(&room).await.expect("nothing was cut yet");
            let snapshots = labels(&room).await.expect("nothing was cut yet");
            rooms.insert(
                info.id,
                Room {
                    changes,
                    states,
                    snapshots,
                },
            );
        }
        Self(rooms)
    }

    /// Opens the home as it was found after the loss, and looks at everything.
    pub(crate) async fn judge(&self, home: &Path, profile: Profile, promises: &Promises) -> Verdict {
        let depot = open(home, profile)
            .await
            .map_err(|error| format!("it cannot be opened: {error}"))?;
        let problems = depot
            .check()
            .await
            .map_err(|error| format!("it cannot be looked over: {error}"))?;
        if !problems.is_empty() {
            return Err(format!("it is not clean: {problems:?}"));
        }
        let found = depot.workspaces().await.map_err(|error| error.to_string())?;
        let found: BTreeMap<_, _> = found.into_iter().map(|info| (info.id.clone(), info)).collect();
        if let Some(lost) = promises.workspaces.iter().find(|id| !found.contains_key(*id)) {
            return Err(format!("the workspace {lost} is lost"));
        }
        for (id, info) in &found {
            let promised = promises.changes.get(id).copied().unwrap_or(0);
            // One that the process deleted and collected is in no reference.
            if let Some(room) = self.0.get(id) {
                room.judge(&depot, id, info.head, promised)
                    .await
                    .map_err(|why| format!("in {:?}: {why}", info.name))?;
            }
        }
        self.judge_snapshots(&depot, promises).await?;
        still_works(&depot).await
    }

    async fn judge_snapshots(&self, depot: &Depot, promises: &Promises) -> Verdict {
        for (id, label) in &promises.snapshots {
            let room = depot.workspace(id).await.map_err(|error| error.to_string())?;
            if !labels(&room).await?.contains(label) {
                return Err(format!("the snapshot {label} is lost"));
            }
        }
        Ok(())
    }
}

impl Room {
    /// The journal is a beginning of the one that was, as long as was promised, and each state is the one of that change.
    async fn judge(&self, depot: &Depot, id: &str, head: u64, promised: u64) -> Verdict {
        if head < promised {
            return Err(format!("change {promised} was promised, the newest is {head}"));
        }
        let room = depot.workspace(id).await.map_err(|error| error.to_string())?;
        let changes = ids(&room).await?;
        if changes.len() as u64 != head || !self.changes.starts_with(&changes) {
            return Err(format!("its journal of {head} is not the one that was written"));
        }
        for number in [head, head / 2] {
            let (shape, wanted) = (shape_at(&room, number).await?, &self.states[number as usize]);
            if shape != *wanted {
                return Err(format!("after change {number} it is {shape:?}, not {wanted:?}"));
            }
        }
        let labels = labels(&room).await?;
        match labels.is_subset(&self.snapshots) {
            true => Ok(()),
            false => Err(format!("it has snapshots {labels:?} that nobody took")),
        }
    }
}

/// Work goes on after the loss.
async fn still_works(depot: &Depot) -> Verdict {
    let work = async {
        let room = depot.create(garret_depot::NewWorkspace::unnamed()).await?;
        let content = vec![7; 10_000];
        room.apply(garret_testkit::mutations::write("after", content.clone()).into())
            .await?;
        let read = room
            .read(&garret_testkit::mutations::path("after"), ReadOptions::default())
            .await?;
        assert_eq!(read.bytes, content);
        Ok(())
    };
    work.await
        .map_err(|error: garret_core::Error| format!("work does not go on: {error}"))
}

async fn ids(room: &DepotWorkspace) -> Verdict<Vec<String>> {
    let changes = room
        .changes(None, usize::MAX >> 1)
        .await
        .map_err(|error| error.to_string())?;
    Ok(changes.into_iter().rev().map(|change| change.id).collect())
}

async fn labels(room: &DepotWorkspace) -> Verdict<BTreeSet<String>> {
    let snapshots = room.snapshots().await.map_err(|error| error.to_string())?;
    Ok(snapshots.into_iter().map(|snapshot| snapshot.label).collect())
}

async fn shape_at(room: &DepotWorkspace, number: u64) -> Verdict<Shape> {
    let view = room
        .open_view_at(&Point::Number(number))
        .await
        .map_err(|error| error.to_string())?;
    let options = ListOptions {
        is_deep: true,
        limit: usize::MAX,
        ..ListOptions::default()
    };
    let page = view
        .list(&WsPath::root(), options)
        .await
        .map_err(|error| error.to_string())?;
    let mut shape = Shape::new();
    for entry in page.entries {
        let path = entry.path.as_path().expect("the paths of the workload are UTF-8");
        let stat = view
            .stat(path, Default::default())
            .await
            .map_err(|error| error.to_string())?;
        let content = match entry.kind {
            EntryKind::File => {
                let read = view.read(path, ReadOptions::default()).await;
                let read = read.map_err(|error| format!("{path} cannot be read: {error}"))?;
                blake3::hash(&read.bytes).to_hex()[..8].to_owned()
            }
            _ => String::new(),
        };
        shape.insert(path.to_string(), format!("{:?} {:?} {content}", entry.kind, stat.mode));
    }
    Ok(shape)
}
