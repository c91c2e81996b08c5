//! Layers that a crash left behind: unsaved work is offered, saved work is not.

use garret_core::{Batch, CountedIds, HistoryMode, MemoryStorage, Mutation, OpenContext, Storage, SystemClock, WsPath};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};

use super::*;
use crate::WorkspaceBuilder;
use crate::shell::RunRequest;
use crate::shell::testing::FakeMachine;

/// A workspace with a background process. The tests end its Garret in the middle of its work.
struct CrashScene {
    machine: Arc<FakeMachine>,
    depot: DepotWorkspace,
    /// The workspace whose Garret will end.
    ended: Workspace,
}

impl CrashScene {
    async fn new() -> Self {
        let context = OpenContext {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(CountedIds::default()),
            history: HistoryMode::Durable,
        };
        let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
        let depot = depot.create(NewWorkspace::named("box")).await.unwrap();
        apply(&depot, Mutation::write(path("old"), "old")).await;
        let machine = FakeMachine::new();
        machine.set_head(1);
        let ended = on_depot(&depot).shell(Some(machine.parts())).open().unwrap();
        ended.start(RunRequest::shell("sleep 1000")).await.unwrap();
        Self { machine, depot, ended }
    }

    /// Writes a file on the layer, and commits the effects so far.
    async fn write_and_settle(&self, path: &str, content: &str) {
        self.machine.write(path, content);
        self.ended.settle_live().await.unwrap();
    }

    /// Ends the Garret, and returns the workspace as the next one opens it.
    async fn reopen(&self) -> Workspace {
        self.machine.abandon_layer();
        self.machine
            .set_head(garret_core::History::head(&self.depot).await.unwrap());
        on_depot(&self.depot).shell(Some(self.machine.parts())).open().unwrap()
    }

    async fn leftover_paths(&self) -> Vec<String> {
        offered_paths(&self.reopen().await).await
    }
}

fn on_depot(depot: &DepotWorkspace) -> WorkspaceBuilder {
    Workspace::builder(Arc::new(depot.clone())).history(Some(Arc::new(depot.clone())))
}

fn path(text: &str) -> WsPath {
    WsPath::parse(text).unwrap()
}

async fn apply(files: &dyn Storage, mutation: Mutation) {
    files.apply(Batch::from(mutation)).await.unwrap();
}

/// Returns the paths of all leftovers, each of which can be committed. A leftover that would change nothing is named.
async fn offered_paths(workspace: &Workspace) -> Vec<String> {
    let found = workspace.leftovers().await.unwrap();
    let refused = found.iter().find(|one| one.changed.refused.is_some());
    assert_eq!(refused, None);
    let paths = |one: Leftover| {
        if one.changed.paths.is_empty() {
            vec![format!("{} without changes", one.id)]
        } else {
            one.changed.paths
        }
    };
    found.into_iter().flat_map(paths).collect()
}

async fn branch_names(workspace: &Workspace) -> Vec<String> {
    let branches = workspace.branches().await.unwrap();
    branches.into_iter().filter_map(|branch| branch.name).collect()
}

#[tokio::test]
async fn a_live_layer_whose_effects_were_all_committed_is_no_leftover() {
    let scene = CrashScene::new().await;
    scene.write_and_settle("one", "1").await;
    scene.write_and_settle("two", "2").await;
    assert_eq!(scene.leftover_paths().await, Vec::<String>::new());
}

#[tokio::test]
async fn later_work_of_others_does_not_bring_a_committed_live_layer_back() {
    let scene = CrashScene::new().await;
    scene.write_and_settle("one", "1").await;
    apply(&scene.depot, Mutation::write(path("one"), "others")).await;
    assert_eq!(scene.leftover_paths().await, Vec::<String>::new());
}

#[tokio::test]
async fn only_the_effects_after_the_last_commit_of_a_live_layer_are_offered() {
    let scene = CrashScene::new().await;
    scene.write_and_settle("one", "1").await;
    scene.machine.write("two", "2");
    assert_eq!(scene.leftover_paths().await, ["+ two"]);
}

#[tokio::test]
async fn a_committed_layer_without_a_note_is_no_leftover() {
    let scene = CrashScene::new().await;
    scene.write_and_settle("one", "1").await;
    scene.machine.remove_note().await;
    apply(&scene.depot, Mutation::write(path("one"), "others")).await;
    assert_eq!(scene.leftover_paths().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_unsaved_layer_without_a_note_is_a_leftover() {
    let scene = CrashScene::new().await;
    scene.write_and_settle("one", "1").await;
    scene.machine.write("two", "2");
    scene.machine.remove_note().await;
    // Without a note every change since the first one counts as one by others. What the files have already is saved.
    assert_eq!(scene.leftover_paths().await, ["+ two"]);
}

#[tokio::test]
async fn a_removal_that_was_not_committed_is_a_leftover() {
    let scene = CrashScene::new().await;
    scene.machine.delete("old");
    assert_eq!(scene.leftover_paths().await, ["- old"]);
}

#[tokio::test]
async fn effects_that_are_on_a_conflict_branch_are_not_put_on_a_second_one() {
    let scene = CrashScene::new().await;
    apply(&scene.depot, Mutation::write(path("one"), "others")).await;
    scene.write_and_settle("one", "1").await;
    let reopened = scene.reopen().await;
    let branches = branch_names(&reopened).await;
    assert_eq!(branches.len(), 1);
    assert_eq!(offered_paths(&reopened).await, Vec::<String>::new());
    assert_eq!(branch_names(&reopened).await, branches);
}

#[tokio::test]
async fn work_after_a_conflict_branch_is_offered() {
    let scene = CrashScene::new().await;
    apply(&scene.depot, Mutation::write(path("one"), "others")).await;
    scene.write_and_settle("one", "1").await;
    scene.machine.write("two", "2");
    assert_eq!(scene.leftover_paths().await, ["~ one", "+ two"]);
}

#[tokio::test]
async fn effects_that_are_in_files_without_history_are_no_leftover() {
    let machine = FakeMachine::new();
    let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    let open = || Workspace::builder(files.clone()).shell(Some(machine.parts())).open();
    let ended = open().unwrap();
    ended.start(RunRequest::shell("sleep 1000")).await.unwrap();
    machine.write("one", "1");
    ended.settle_live().await.unwrap();
    machine.abandon_layer();
    assert_eq!(offered_paths(&open().unwrap()).await, Vec::<String>::new());
    machine.abandon_layer();
    machine.write("two", "2");
    assert_eq!(offered_paths(&open().unwrap()).await, ["+ two"]);
}
