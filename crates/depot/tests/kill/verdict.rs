//! What must hold when the next process opens the home.

use std::collections::BTreeMap;
use std::path::Path;

use garret_core::ErrorKind;
use garret_depot::{Depot, NewWorkspace};
use garret_testkit::Probe;

use crate::place::{Place, Room, in_memory, open};
use crate::program::{State, step};

/// What was acknowledged on one home.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// How many steps of each task.
    steps: BTreeMap<String, usize>,
    logged: BTreeMap<String, usize>,
    counted: u64,
    /// Tasks whose last count may have been made without being acknowledged.
    counting: u64,
    /// What each workspace was when it was last looked at; nobody works there any more.
    settled: BTreeMap<String, State>,
    acknowledged: u64,
    /// Whether everything that was done was acknowledged, since nobody was killed.
    is_exact: bool,
}

impl Ledger {
    /// Of processes that nobody kills.
    pub(crate) fn exact() -> Self {
        Self {
            is_exact: true,
            ..Self::default()
        }
    }

    /// Takes down what a process said.
    pub(crate) fn note(&mut self, process: &str, said: &str) {
        assert!(said.is_empty() || said.ends_with('\n'), "{process} said half a line");
        for line in said.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [what, name, number] = words.as_slice() else {
                panic!("{line:?} was said")
            };
            let number: usize = number.parse().expect("a number");
            assert!(name.starts_with(process), "{process} said {line:?}");
            match *what {
                "step" => drop(self.steps.insert((*name).to_owned(), number + 1)),
                "log" => drop(self.logged.insert((*name).to_owned(), number + 1)),
                "count" => self.counted += 1,
                other => panic!("{other} was said"),
            }
            self.acknowledged += 1;
        }
        self.counting += if self.is_exact { 0 } else { 3 };
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Looks over the home, what the processes of this round did, and what all share.
    pub(crate) async fn judge(&mut self, home: &Path, place: Place, round: u64) {
        let depot = open(home).await;
        assert_eq!(
            depot.check().await.expect("it can be looked over"),
            [],
            "after round {round}"
        );
        let prefix = format!("{round}-");
        let steps: Vec<_> = self
            .steps
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix))
            .collect();
        for (name, steps) in steps {
            let state = State::of(&place.room(home, &depot, name).await).await;
            check_state(name, *steps, &state, self.is_exact).await;
            self.settled.insert(name.clone(), state);
        }
        self.check_shared(home, &depot, place).await;
    }

    /// Looks again at everything that was ever acknowledged on the home.
    pub(crate) async fn judge_all(&self, home: &Path, place: Place) {
        let depot = open(home).await;
        for (name, state) in &self.settled {
            assert!(
                State::of(&place.room(home, &depot, name).await).await == *state,
                "{name} has changed since"
            );
        }
    }

    async fn check_shared(&self, home: &Path, depot: &Depot, place: Place) {
        let probe = Probe::new(place.room(home, depot, "shared").await.storage, None);
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for line in text(&probe, "log").await.lines() {
            let (name, number) = line.split_once(' ').expect("a line is a name and a number");
            let next = found.entry(name.to_owned()).or_default();
            assert_eq!(number.parse(), Ok(*next), "the log of {name} has a gap or a line twice");
            *next += 1;
        }
        for (name, logged) in &self.logged {
            let found = found.get(name).copied().unwrap_or(0);
            assert!(
                found == *logged || (!self.is_exact && found == logged + 1),
                "{logged} lines of {name} were acknowledged, {found} are there"
            );
        }
        let counter = text(&probe, "counter").await.parse().unwrap_or(0);
        let possible = self.counted..=self.counted + self.counting;
        assert!(
            possible.contains(&counter),
            "the counter is {counter}, not within {possible:?}"
        );
    }
}

async fn text(probe: &Probe, at: &str) -> String {
    match probe.try_read(at).await {
        Ok(read) => String::from_utf8(read.bytes.to_vec()).expect("it is text"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            String::new()
        }
    }
}

/// The workspace is as after the acknowledged steps, or one more that was made and not yet acknowledged.
async fn check_state(name: &str, steps: usize, state: &State, is_exact: bool) {
    let depot = in_memory();
    let room = Room::of(depot.create(NewWorkspace::named(name)).await.expect("the name is free"));
    for index in 0..steps {
        step(&room, name, index).await;
    }
    let acknowledged = State::of(&room).await;
    if *state == acknowledged {
        return;
    }
    assert!(
        !is_exact,
        "{name} after {steps} steps is {state:?}, not {acknowledged:?}"
    );
    step(&room, name, steps).await;
    let next = State::of(&room).await;
    assert!(
        *state == next,
        "{name} after {steps} acknowledged steps is {state:?}\n\nacknowledged: {acknowledged:?}\n\nor: {next:?}"
    );
}
