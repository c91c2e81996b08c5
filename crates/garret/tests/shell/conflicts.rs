//! Somebody else writes while a command runs.

use std::time::Duration;

use garret::RunRequest;

use crate::support::{everywhere, room};

#[test]
fn promise_32_work_on_the_same_file_is_kept_on_a_branch_and_nothing_is_lost() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        room.write("mine", "before\n").await;
        let workspace = room.workspace().clone();
        let request =
            RunRequest::shell("echo started > /tmp/x; sleep 2; echo by the command >> shared; echo new > fresh");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        let branch = result
            .changed
            .branch
            .clone()
            .unwrap_or_else(|| panic!("{on:?}: {:?}", result.changed));
        assert!(result.changed.change.is_none());
        assert_eq!(room.read("shared").await, "by a tool\n", "{on:?}");
        assert!(!room.tree().await.contains_key("fresh"), "{on:?}");
        let branches = room.workspace().branches().await.unwrap();
        assert!(
            branches.iter().any(|one| one.name.as_deref() == Some(&branch)),
            "{on:?}"
        );
        let merged = room.workspace().merge(&branch, Default::default()).await;
        let told = format!("{merged:?}");
        assert!(told.contains("shared"), "{on:?}: {told}");
        assert_eq!(
            room.sh("cat shared").await.output,
            "by a tool\n",
            "the bench follows the files"
        );
    });
}

#[test]
fn work_on_other_files_goes_in_beside_it() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        let workspace = room.workspace().clone();
        let request = RunRequest::shell("sleep 2; echo by the command > own");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        assert!(
            result.changed.change.is_some() && result.changed.branch.is_none(),
            "{on:?}: {:?}",
            result.changed
        );
        assert_eq!(
            room.sh("cat shared own").await.output,
            "by a tool\nby the command\n",
            "{on:?}"
        );
    });
}
