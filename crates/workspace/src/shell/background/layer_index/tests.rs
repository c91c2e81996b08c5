//! Changes that others make to the files, some of which cannot be read.

use std::sync::Arc;

use garret_core::{Batch, ErrorKind, MemoryStorage, Mutation, Storage, SystemClock};
use garret_testkit::faults::Call;
use garret_testkit::{Fault, FaultStorage, Moment};

use super::*;
use crate::Workspace;
use crate::shell::testing::file;

/// Files, some of which cannot be read, and the index of a layer over them.
struct Scene {
    files: Arc<MemoryStorage>,
    faults: Arc<FaultStorage>,
    workspace: Workspace,
    shadow: LayerIndex,
}

impl Scene {
    /// Returns a scene with a layer that has these effects.
    fn with(effects: &[Effect]) -> Self {
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let faults = Arc::new(FaultStorage::planned(files.clone(), Vec::new()));
        let mut shadow = LayerIndex::default();
        shadow.add_effects(effects).unwrap();
        Self {
            workspace: Workspace::builder(faults.clone()).open().unwrap(),
            files,
            faults,
            shadow,
        }
    }

    async fn write(&self, path: &str, content: &str) {
        let write = Mutation::write(WsPath::parse(path).unwrap(), content.to_owned());
        self.files.apply(Batch::from(write)).await.unwrap();
    }

    /// Makes a later call of this sort fail with `kind`, after `after` calls that work.
    fn refuse(&self, call: Call, after: u64, kind: ErrorKind) {
        self.faults.add(Fault {
            call: Some(call),
            after_calls: after,
            kind,
            moment: Moment::Before,
        });
    }

    async fn strays(&mut self) -> std::result::Result<Vec<String>, ErrorKind> {
        let strays = self
            .shadow
            .find_outside_changes(&self.workspace.files, &Exclusions::default())
            .await;
        let strays = strays.map_err(|error| error.kind())?;
        Ok(strays.iter().map(|stray| stray.path.display_path()).collect())
    }
}

fn directory(path: &str) -> Effect {
    effect_at(
        &EntryPath::from_bytes(path.as_bytes().to_vec()),
        PlacedEntry::Directory { mode: 0o755 },
    )
}

fn found<const N: usize>(paths: [&str; N]) -> std::result::Result<Vec<String>, ErrorKind> {
    Ok(paths.map(str::to_owned).to_vec())
}

#[tokio::test]
async fn a_path_that_cannot_be_looked_at_hides_no_other() {
    for (call, kind) in [
        (Call::Stat, ErrorKind::Denied),
        (Call::Read, ErrorKind::Denied),
        (Call::Read, ErrorKind::Conflict),
        (Call::Read, ErrorKind::Corrupt),
    ] {
        let mut scene = Scene::with(&[file("a", "1"), file("b", "1")]);
        scene.write("a", "2").await;
        scene.write("b", "2").await;
        scene.refuse(call, 0, kind);
        assert_eq!(scene.strays().await, found(["b"]), "{call:?} {kind}");
        assert_eq!(
            scene.strays().await,
            found(["a", "b"]),
            "{call:?} {kind}: looked at again"
        );
    }
}

#[tokio::test]
async fn a_look_that_may_work_a_moment_later_is_not_passed_over() {
    let mut scene = Scene::with(&[file("a", "1")]);
    scene.write("a", "2").await;
    scene.refuse(Call::Stat, 0, ErrorKind::Unavailable);
    assert_eq!(scene.strays().await, Err(ErrorKind::Unavailable));
    assert_eq!(scene.strays().await, found(["a"]));
}

#[tokio::test]
async fn what_came_into_a_directory_is_found_once_that_can_be_listed() {
    let mut scene = Scene::with(&[directory("d"), file("d/own", "1")]);
    scene.write("d/own", "1").await;
    assert_eq!(scene.strays().await, found([]));
    scene.write("d/new", "1").await;
    scene.refuse(Call::List, 0, ErrorKind::Denied);
    assert_eq!(scene.strays().await, found([]));
    assert_eq!(scene.strays().await, found(["d", "d/new"]));
}

#[tokio::test]
async fn a_new_file_that_cannot_be_read_hides_no_other_below_the_same_directory() {
    let mut scene = Scene::with(&[effect_at(&EntryPath::from_bytes(b"d".to_vec()), PlacedEntry::Nothing)]);
    scene.write("d/a", "1").await;
    scene.write("d/b", "1").await;
    scene.refuse(Call::Read, 0, ErrorKind::Denied);
    assert_eq!(scene.strays().await, found(["d", "d/b"]));
}

#[test]
fn of_a_directory_above_only_that_it_is_one_is_known() {
    let above = LayerIndexEntry::default();
    assert!(above.matches_print(LayerEntryPrint::Directory { mode: 0o700 }));
    assert!(!above.matches_print(LayerEntryPrint::Nothing));
    let own = LayerIndexEntry {
        print: Some(LayerEntryPrint::Directory { mode: 0o755 }),
        ..LayerIndexEntry::default()
    };
    assert!(!own.matches_print(LayerEntryPrint::Directory { mode: 0o700 }));
}

#[test]
fn what_is_gone_on_both_sides_needs_no_second_look() {
    let gone = LayerIndexEntry {
        print: Some(LayerEntryPrint::Nothing),
        ..LayerIndexEntry::default()
    };
    assert!(gone.is_unchanged(None));
    assert!(!LayerIndexEntry::default().is_unchanged(None));
}
