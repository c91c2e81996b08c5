//! The same as another user.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::room::Room;

/// Runs every test of this file's siblings once more as a user without rights. Where the tests run as one already, they have.
#[test]
fn everything_holds_for_an_unprivileged_user_too() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (tests, supervisor) = (
        directory.path().join("tests"),
        directory.path().join("garret-supervisor"),
    );
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_garret-supervisor"), &supervisor).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .arg(&tests)
        .args(["--test-threads=2"])
        .env("GARRET_TEST_SUPERVISOR", &supervisor)
        .env("TMPDIR", directory.path())
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("test result: ok"), "{text}");
}

#[tokio::test]
async fn files_of_another_owner_can_be_changed_and_are_not_on_the_host() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let directory = crate::room::directory();
    let bench = directory.path().join("bench");
    std::fs::write(bench.join("file"), "one\n").unwrap();
    for path in [bench.clone(), bench.join("file")] {
        std::os::unix::fs::chown(path, Some(12345), Some(12345)).unwrap();
    }
    std::fs::set_permissions(&bench, std::fs::Permissions::from_mode(0o700)).unwrap();
    let room = Room::on(directory, |_| {}).await;
    let layer = room.open.create_layer().await.unwrap();
    let outcome = crate::room::run_on(
        &*layer,
        crate::room::shell("stat -c %u . file; echo two >> file; cat file; echo x > new"),
    )
    .await;
    assert_eq!(outcome.text(), "1000\n1000\none\ntwo\n");
    layer.lift().await.unwrap();
    let upper = room
        .directory
        .path()
        .join("scratch/layers")
        .join(layer.id())
        .join("upper/new");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(upper).unwrap());
    assert_eq!(owner, garret_sandbox::namespace::DEDICATED_USER);
    layer.remove().await.unwrap();
}
