//! The commit of effects: the states that it expects, and what its review refuses.

use std::sync::Arc;

use garret_core::{
    BenchState, Effect, EffectsMode, ErrorKind, FsPolicy, HistoryMode, MemoryStorage, OpenContext, Origin, PlacedEntry,
    RandomIds, Storage, SystemClock,
};
use garret_depot::{Depot, DepotOptions, NewWorkspace};

use crate::Workspace;
use crate::commit::{ChangePlanner, CommitWork};
use crate::shell::effects::commit_effects::{EffectBasis, EffectCommitOutcome, EffectSplit, EffectsCommit};
use crate::shell::effects::commit_without_history::EffectBatchPlanner;
use crate::shell::effects::layer_note::LayerNotePlace;
use crate::shell::testing::file;

async fn write(workspace: &Workspace, path: &str, content: &str) {
    workspace
        .write(path, content.to_owned(), Default::default())
        .await
        .unwrap();
}

async fn commit(workspace: &Workspace, mode: EffectsMode, effects: Vec<Effect>) -> EffectCommitOutcome {
    let scratch = tempfile::tempdir().unwrap();
    let state = BenchState {
        root: scratch.path().to_owned(),
        scratch: scratch.path().to_owned(),
        head: 0,
        generation: None,
        corrupt: Vec::new(),
    };
    let commit = EffectsCommit {
        files: &workspace.files,
        basis: &EffectBasis::before_first_change(),
        note: &LayerNotePlace::new(&state, "layer"),
        origin: Origin {
            operation: "run".into(),
            ..Origin::default()
        },
        mode,
        has_quota_turns: false,
    };
    let split = EffectSplit {
        kept: effects,
        excluded: Vec::new(),
    };
    commit.commit_effects(&split).await.unwrap().kept
}

fn is_over_quota(outcome: &EffectCommitOutcome) -> bool {
    matches!(outcome, EffectCommitOutcome::Refused(error) if error.kind() == ErrorKind::QuotaExceeded)
}

fn at_most(files: u64) -> FsPolicy {
    FsPolicy {
        max_files: Some(files),
        ..FsPolicy::default()
    }
}

#[tokio::test]
async fn without_a_history_a_file_that_changed_after_the_plan_is_a_conflict() {
    let removal = Effect {
        placed: PlacedEntry::Nothing,
        ..file("removed", "")
    };
    let effects = [file("changed", "mine"), file("new", "mine"), removal];
    for path in ["changed", "new", "removed"] {
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let workspace = Workspace::builder(files.clone()).open().unwrap();
        write(&workspace, "changed", "one").await;
        write(&workspace, "removed", "one").await;
        let origin = Origin::default();
        let mut planner = EffectBatchPlanner::new(&effects, &origin);
        let plan = planner.plan_change(&workspace.files, None).await.unwrap();
        write(&workspace, path, "theirs").await;
        let CommitWork::Mutations(batch) = plan.work else {
            panic!("effects without a history are mutations");
        };
        assert_eq!(
            files.apply(batch).await.unwrap_err().kind(),
            ErrorKind::Conflict,
            "{path}"
        );
        let read = workspace.read_bytes(path).await.unwrap();
        assert_eq!(read.bytes.as_ref(), b"theirs");
    }
}

#[tokio::test]
async fn without_a_history_discarded_effects_are_refused_as_committed_ones_are() {
    let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    let workspace = Workspace::builder(files).policy(at_most(1)).open().unwrap();
    for mode in [EffectsMode::Discard, EffectsMode::Commit] {
        let outcome = commit(&workspace, mode, vec![file("a", "1"), file("b", "2")]).await;
        assert!(is_over_quota(&outcome), "{mode:?}: {outcome:?}");
    }
    let outcome = commit(&workspace, EffectsMode::Discard, vec![file("a", "1")]).await;
    assert!(matches!(outcome, EffectCommitOutcome::Discarded), "{outcome:?}");
    let outcome = commit(&workspace, EffectsMode::Commit, vec![file("a", "1")]).await;
    assert!(matches!(outcome, EffectCommitOutcome::Applied), "{outcome:?}");
}

#[tokio::test]
async fn effects_in_conflict_that_are_over_the_quota_leave_no_branch() {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    };
    let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
    let files = Arc::new(depot.create(NewWorkspace::named("box")).await.unwrap());
    let builder = Workspace::builder(files.clone())
        .history(Some(files))
        .policy(at_most(2));
    let workspace = builder.open().unwrap();
    write(&workspace, "a", "theirs").await;
    let many: Vec<_> = ["a", "b", "c"].map(|path| file(path, "mine")).into();
    for mode in [EffectsMode::Discard, EffectsMode::Commit] {
        let outcome = commit(&workspace, mode, many.clone()).await;
        assert!(is_over_quota(&outcome), "{mode:?}: {outcome:?}");
    }
    assert!(workspace.branches().await.unwrap().is_empty());
    let outcome = commit(&workspace, EffectsMode::Commit, many[..2].to_vec()).await;
    assert!(matches!(outcome, EffectCommitOutcome::Branch(_)), "{outcome:?}");
    assert_eq!(workspace.branches().await.unwrap().len(), 1);
}
