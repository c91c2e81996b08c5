//! Conditional mutations: nobody's change is lost.

use garret_core::{ErrorKind, Precondition, Version};

use crate::Probe;
use crate::mutations::{append_if, remove_if, write, write_if};

/// `Absent` writes where nothing is.
pub async fn absent_writes_a_new_file(probe: Probe) {
    let applied = probe.apply(write_if("d/f", "new", Precondition::Absent)).await;
    assert!(applied.created);
    assert_eq!(probe.text("d/f").await, "new");
}

/// `Absent` refuses where a file is, and tells the version there.
pub async fn absent_refuses_an_existing_file(probe: Probe) {
    probe.write("f", "old").await;
    let error = probe
        .refuses(ErrorKind::Conflict, write_if("f", "new", Precondition::Absent))
        .await;
    let current = error
        .current_version()
        .expect("a conflict carries the current version")
        .clone();
    probe
        .apply(write_if("f", "third", Precondition::Version(current)))
        .await;
    assert_eq!(probe.text("f").await, "third");
}

/// The version of the content that is there lets a write pass.
pub async fn the_current_version_passes(probe: Probe) {
    let version = probe.write("f", "one").await;
    probe.apply(write_if("f", "two", Precondition::Version(version))).await;
    assert_eq!(probe.text("f").await, "two");
}

/// Versions from a write, a read, a range and a stat all serve.
pub async fn a_version_serves_whoever_gave_it(probe: Probe) {
    let mut turn = 0;
    let mut next = async |probe: &Probe, version: Version| {
        turn += 1;
        let applied = probe
            .apply(write_if("f", format!("{turn}"), Precondition::Version(version)))
            .await;
        applied.version.expect("a write gives the new version")
    };
    let written = probe.write("f", "zero").await;
    next(&probe, written).await;
    let read = probe.read("f").await.version;
    next(&probe, read).await;
    let options = garret_core::ReadOptions {
        range: Some(0..1),
        ..Default::default()
    };
    let part = probe
        .storage()
        .read(&crate::mutations::path("f"), options)
        .await
        .expect("the file is there");
    next(&probe, part.version).await;
    let described = probe.stat("f").await.version.expect("stat was asked for the version");
    let chained = next(&probe, described).await;
    next(&probe, chained).await;
    assert_eq!(probe.text("f").await, "5");
}

/// A version of content that is gone is a conflict, which carries the version that is there.
pub async fn a_stale_version_is_a_conflict(probe: Probe) {
    let stale = probe.write("f", "aaaa").await;
    probe.write("f", "bbbb").await;
    let error = probe
        .refuses(ErrorKind::Conflict, write_if("f", "mine", Precondition::Version(stale)))
        .await;
    let current = error
        .current_version()
        .expect("a conflict carries the current version")
        .clone();
    probe.apply(write_if("f", "mine", Precondition::Version(current))).await;
    assert_eq!(probe.text("f").await, "mine");
}

/// A version where nothing is any more is a conflict without a version.
pub async fn a_version_of_a_removed_file_is_a_conflict(probe: Probe) {
    let version = probe.write("d/f", "x").await;
    probe.apply(crate::mutations::remove("d/f")).await;
    let wanted = Precondition::Version(version);
    for mutation in [write_if("d/f", "y", wanted.clone()), append_if("d/f", "y", wanted)] {
        let error = probe.refuses(ErrorKind::Conflict, mutation).await;
        assert_eq!(error.current_version(), None);
    }
}

/// A token that no storage made is a conflict, not a pass.
pub async fn a_made_up_version_is_a_conflict(probe: Probe) {
    probe.write("f", "x").await;
    for token in ["", "0", "latest", "*", "m1 ", "é", "\u{0}"] {
        let wanted = Precondition::Version(Version::new(token));
        probe.refuses(ErrorKind::Conflict, write_if("f", "y", wanted)).await;
    }
}

/// A version stays good while others change other files.
pub async fn a_version_outlives_changes_elsewhere(probe: Probe) {
    let version = probe.write("d/f", "x").await;
    probe.write("d/g", "y").await;
    probe.write("e", "z").await;
    probe.read("d/f").await;
    probe.apply(crate::mutations::remove("d/g")).await;
    probe
        .apply(write_if("d/f", "mine", Precondition::Version(version)))
        .await;
}

/// Append obeys a precondition.
pub async fn append_obeys_preconditions(probe: Probe) {
    let stale = probe.write("f", "a").await;
    let current = probe.write("f", "b").await;
    probe
        .refuses(ErrorKind::Conflict, append_if("f", "!", Precondition::Version(stale)))
        .await;
    probe
        .refuses(ErrorKind::Conflict, append_if("f", "!", Precondition::Absent))
        .await;
    probe.apply(append_if("f", "!", Precondition::Version(current))).await;
    assert_eq!(probe.text("f").await, "b!");
}

/// Reading obeys preconditions: the current version passes, a stale one and `Absent` are conflicts that carry the current one.
pub async fn read_obeys_preconditions(probe: Probe) {
    let stale = probe.write("f", "old").await;
    let current = probe.write("f", "new").await;
    let read = async |precondition| {
        let options = garret_core::ReadOptions {
            precondition,
            ..Default::default()
        };
        probe.storage().read(&crate::mutations::path("f"), options).await
    };
    let passed = read(Precondition::Version(current))
        .await
        .expect("the version is current");
    assert_eq!(&passed.bytes[..], b"new");
    for precondition in [Precondition::Version(stale), Precondition::Absent] {
        let error = read(precondition).await.expect_err("the precondition does not hold");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let current = error.current_version().expect("a conflict carries the current version");
        read(Precondition::Version(current.clone()))
            .await
            .expect("the version is current");
    }
}

/// Remove obeys a precondition, and no directory or missing file has a version.
pub async fn remove_obeys_preconditions(probe: Probe) {
    let stale = probe.write("f", "a").await;
    let current = probe.write("f", "b").await;
    probe.make_dirs("d").await;
    let error = probe
        .refuses(
            ErrorKind::Conflict,
            remove_if("f", Precondition::Version(stale.clone())),
        )
        .await;
    assert!(
        error.current_version().is_some(),
        "a conflict carries the current version"
    );
    probe
        .refuses(ErrorKind::Conflict, remove_if("f", Precondition::Absent))
        .await;
    probe
        .refuses(ErrorKind::Conflict, remove_if("d", Precondition::Version(stale)))
        .await;
    probe
        .apply(remove_if("f", Precondition::Version(current.clone())))
        .await;
    assert!(!probe.exists("f").await);
    probe
        .refuses(ErrorKind::NotFound, remove_if("f", Precondition::Version(current)))
        .await;
}

/// A directory at the path is `is_a_directory`, whatever the precondition.
pub async fn a_directory_is_no_conflict(probe: Probe) {
    let version = probe.write("d/f", "x").await;
    for wanted in [Precondition::Absent, Precondition::Version(version)] {
        probe.refuses(ErrorKind::IsADirectory, write_if("d", "y", wanted)).await;
    }
}

/// A precondition in a batch sees the steps before it.
pub async fn a_precondition_sees_earlier_steps(probe: Probe) {
    let absent = |content| write_if("f", content, Precondition::Absent);
    probe
        .refuses_batch(ErrorKind::Conflict, vec![absent("one"), absent("two")])
        .await;
    let version = probe.write("f", "zero").await;
    let wanted = Precondition::Version(version.clone());
    let stale = vec![write("f", "one"), write_if("f", "two", wanted.clone())];
    probe.refuses_batch(ErrorKind::Conflict, stale).await;
    probe.batch(vec![crate::mutations::remove("f"), absent("fresh")]).await;
    assert_eq!(probe.text("f").await, "fresh");
}
