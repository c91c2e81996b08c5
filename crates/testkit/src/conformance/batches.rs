//! Batches: all or nothing, each step seeing the ones before.

use garret_core::{EntryKind, ErrorKind, Mutation};

use crate::Probe;
use crate::mutations::{
    append, append_or_create, copy, copy_into, copy_over, link, make_dir, make_dirs, remove, remove_tree, rename,
    rename_into, rename_over, set_mode, write, write_mode,
};

/// A tree with something for every mutation to work on.
async fn plant(probe: &Probe) {
    let mutations = vec![
        write_mode("file", "old content", 0o640),
        write("other", "other content"),
        write("dir/one", "1"),
        write_mode("dir/sub/two", "2", 0o700),
        make_dirs("dir/empty"),
        make_dirs("empty"),
    ];
    probe.batch(mutations).await;
    if probe.info().has_symlinks {
        probe
            .batch(vec![link("link", "dir/one"), link("dir/away", "/etc")])
            .await;
    }
}

/// One mutation of each kind and flavour that works on the planted tree.
fn every_kind(probe: &Probe) -> Vec<Mutation> {
    let mut mutations = vec![
        write("new", "x"),
        write("a/b/new", "x"),
        write("file", "new content"),
        write_mode("file", "new content", 0o700),
        append("file", " and more"),
        append_or_create("x/y/log", "line"),
        remove("file"),
        remove("empty"),
        remove_tree("dir"),
        rename("file", "moved"),
        rename_into("file", "p/q/moved"),
        rename_over("file", "other"),
        rename("dir", "moved"),
        rename_over("dir", "empty"),
        copy("file", "copied"),
        copy_into("file", "p/q/copied"),
        copy_over("file", "other"),
        make_dir("made"),
        make_dirs("m/n/o"),
    ];
    if probe.info().has_symlinks {
        mutations.extend([
            link("fresh", "file"),
            link("p/fresh", "../file"),
            write("link", "through"),
            append("link", "through"),
            remove("link"),
            rename("link", "moved"),
            rename_over("file", "link"),
        ]);
    }
    if probe.info().has_modes {
        mutations.extend([set_mode("file", 0o600), set_mode("dir", 0o700)]);
    }
    mutations
}

/// A batch of nothing does nothing.
pub async fn an_empty_batch_does_nothing(probe: Probe) {
    plant(&probe).await;
    let before = probe.tree().await;
    assert_eq!(probe.batch(Vec::new()).await, []);
    assert_eq!(probe.tree().await, before);
}

/// Each step sees what the steps before it did.
pub async fn steps_see_the_ones_before(probe: Probe) {
    let applied = probe
        .batch(vec![
            write("a", "one"),
            append("a", " two"),
            copy("a", "b"),
            append("b", " three"),
            make_dir("d"),
            rename("b", "d/c"),
            write("d/c", "replaced"),
            rename("d", "e"),
            remove("a"),
            make_dir("a"),
            copy("e/c", "a/c"),
        ])
        .await;
    assert_eq!(applied[1].size, 7);
    assert!(!applied[6].created);
    assert!(applied[9].created);
    assert_eq!(probe.names_deep("").await, ["a", "a/c", "e", "e/c"]);
    assert_eq!(probe.text("a/c").await, "replaced");
}

/// A failure after a mutation of any kind takes that mutation back.
pub async fn a_failure_takes_back_each_kind(probe: Probe) {
    plant(&probe).await;
    for mutation in every_kind(&probe) {
        let failing = remove("missing");
        probe.refuses_batch(ErrorKind::NotFound, vec![mutation, failing]).await;
    }
}

/// A failure in the middle of many mutations takes back those before and leaves out those after.
pub async fn a_failure_in_the_middle_takes_back_everything(probe: Probe) {
    plant(&probe).await;
    let mutations = vec![
        write("file", "changed"),
        append("file", "!"),
        rename("dir", "moved"),
        write("moved/one", "changed"),
        remove("moved/sub/two"),
        remove("moved/sub"),
        write("moved/sub", "a file now"),
        rename_over("file", "moved/one"),
        write("file/now/a/directory", "x"),
        remove_tree("moved"),
        write("dir", "a file now"),
        copy_over("dir", "other"),
        make_dir("dir"),
        write("never", "reached"),
    ];
    let error = probe.refuses_batch(ErrorKind::AlreadyExists, mutations).await;
    assert_eq!(error.path(), Some("dir"), "the error is that of the failing step");
}

/// Wherever in a batch the failure is, nothing is left of the batch.
pub async fn a_failure_anywhere_takes_back_everything(probe: Probe) {
    plant(&probe).await;
    let steps = [
        write("file", "1"),
        make_dirs("n/m"),
        rename("file", "n/file"),
        remove_tree("dir"),
        write("dir/x", "2"),
    ];
    for position in 0..=steps.len() {
        let mut mutations = steps.to_vec();
        mutations.insert(position, append("nowhere", "x"));
        probe.refuses_batch(ErrorKind::NotFound, mutations).await;
    }
    probe.batch(steps.to_vec()).await;
    assert_eq!(probe.text("n/file").await, "1");
}

/// A tree that a batch takes down entry by entry, or moves and then takes down, comes back whole.
pub async fn a_tree_taken_down_by_steps_is_taken_back(probe: Probe) {
    plant(&probe).await;
    let failing = || remove("missing");
    let down = |top: &str| vec![remove(&format!("{top}/two")), remove(top)];
    let mut moved_first = vec![rename("dir", "moved")];
    moved_first.extend(down("moved/sub"));
    let mut replaced = down("dir/sub");
    replaced.extend([
        write("dir/sub/two", "another"),
        remove_tree("dir"),
        write("dir", "a file"),
    ]);
    let moved_out = vec![rename("dir/sub/two", "two"), remove("dir/sub"), remove("two")];
    for mut mutations in [down("dir/sub"), moved_first, replaced, moved_out] {
        mutations.push(failing());
        probe.refuses_batch(ErrorKind::NotFound, mutations).await;
    }
}

/// One path changed many times is taken back to where it was.
pub async fn a_path_changed_many_times_is_taken_back(probe: Probe) {
    plant(&probe).await;
    let mut mutations = Vec::new();
    for turn in 0..10 {
        mutations.extend([
            write("file", format!("turn {turn}")),
            rename("file", "away"),
            make_dir("file"),
            rename("away", "file/inner"),
            rename("file", "dir/file"),
            rename("dir/file/inner", "file"),
            remove("dir/file"),
        ]);
    }
    probe.batch(mutations.clone()).await;
    assert_eq!(probe.text("file").await, "turn 9");
    mutations.push(write("file/below", "x"));
    probe.refuses_batch(ErrorKind::NotADirectory, mutations).await;
}

/// Hundreds of changes are taken back like one.
pub async fn a_large_batch_is_taken_back(probe: Probe) {
    plant(&probe).await;
    let mut mutations: Vec<_> = (0..probe.many(300))
        .map(|index| write(&format!("many/{}/{index}", index % 7), "x"))
        .collect();
    mutations.push(make_dir("dir"));
    probe.refuses_batch(ErrorKind::AlreadyExists, mutations).await;
}

/// Two files can change places, and so can two directories.
pub async fn a_batch_can_swap(probe: Probe) {
    for (left, right) in [("a", "b"), ("c/x", "d/x")] {
        probe.batch(vec![write(left, "left"), write(right, "right")]).await;
    }
    for (left, right) in [("a", "b"), ("c", "d")] {
        probe
            .batch(vec![rename(left, "swap"), rename(right, left), rename("swap", right)])
            .await;
    }
    assert_eq!(
        (probe.text("a").await, probe.text("b").await),
        ("right".into(), "left".into())
    );
    assert_eq!(
        (probe.text("c/x").await, probe.text("d/x").await),
        ("right".into(), "left".into())
    );
}

/// A file becomes a directory, and a directory a file, in one batch.
pub async fn a_batch_can_change_a_kind(probe: Probe) {
    plant(&probe).await;
    probe
        .batch(vec![
            remove("file"),
            write("file/inner", "x"),
            remove_tree("dir"),
            write("dir", "y"),
        ])
        .await;
    assert_eq!(probe.kind("file").await, Some(EntryKind::Directory));
    assert_eq!(probe.text("dir").await, "y");
}

/// A file named several times in a batch has one history: what the last version says is what is there.
pub async fn the_last_version_of_a_batch_is_the_file_s(probe: Probe) {
    let applied = probe
        .batch(vec![write("f", "1"), append("f", "2"), write("f", "3")])
        .await;
    let last = applied[2].version.clone().expect("a write gives the new version");
    let wanted = garret_core::Precondition::Version(last);
    probe.apply(crate::mutations::write_if("f", "4", wanted)).await;
}
