//! The content of listed files, as a search finds it.

use garret_core::{Follow, ListAllOptions, LocalContent, Storage, Version, WsPath, list_all};
use garret_depot::{DepotWorkspace, NewWorkspace, Point};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::path;

use crate::depot::support::{Desk, on_disk, workspace};

/// Finds the content of every listed file by its version, and compares it with what a read returns.
async fn compare_with_reads(finder: &DepotWorkspace, files: &dyn Storage) -> usize {
    let options = ListAllOptions {
        is_deep: true,
        follow: Follow::Never,
        limit: None,
    };
    let listed = list_all(files, &WsPath::root(), &options)
        .await
        .expect("the test has set it up");
    for entry in &listed.entries {
        let (path, version) = (
            entry.path.as_path().expect("the test has set it up"),
            entry.version.as_ref().expect("the test has set it up"),
        );
        let read = files
            .read(path, Default::default())
            .await
            .expect("the test has set it up");
        assert_eq!(
            finder.find_content(path, version, entry.size),
            Some(read.bytes),
            "{path}"
        );
    }
    listed.entries.len()
}

#[test]
fn listed_content_of_any_size_is_found_at_every_point_and_in_a_branch() {
    block_on(async {
        let home = tempfile::tempdir().expect("the test has set it up");
        let desk = Desk::over(workspace(&on_disk(home.path()).await, "box").await);
        // In a row, in a blob, in parts.
        for (name, length) in [("empty", 0), ("small", 100), ("blob", 50_000), ("parts", 600_000)] {
            desk.write(name, &"a line of text\n".repeat(length)[..length]).await;
        }
        desk.write("small", "changed").await;
        let branch = desk
            .room
            .branch(NewWorkspace::named("try"), &Point::Now)
            .await
            .expect("the test has set it up");
        let past = desk
            .room
            .open_view_at(&Point::Number(4))
            .await
            .expect("the test has set it up");
        assert_eq!(compare_with_reads(&desk.room, &desk.room).await, 4);
        assert_eq!(compare_with_reads(&desk.room, &past).await, 4);
        assert_eq!(compare_with_reads(&branch, &branch).await, 4);
    });
}

#[test]
fn content_that_is_damaged_or_not_there_is_not_found() {
    block_on(async {
        let home = tempfile::tempdir().expect("the test has set it up");
        let desk = Desk::over(workspace(&on_disk(home.path()).await, "box").await);
        desk.write("a", "text").await;
        desk.write("b", &"b".repeat(50_000)).await;
        let version = |name| {
            let desk = &desk;
            async move { desk.probe.read(name).await.version }
        };
        let (a, b) = (version("a").await, version("b").await);
        let find = |version: &Version, size| desk.room.find_content(&path("a"), version, size);
        assert!(find(&a, 4).is_some() && find(&b, 50_000).is_some());
        assert_eq!(find(&a, 5), None, "another size");
        for unknown in ["", "text", &"0".repeat(32), &"é".repeat(16), &a.as_str()[..31]] {
            assert_eq!(find(&Version::new(unknown), 4), None, "{unknown}");
        }
        let database = rusqlite::Connection::open(home.path().join("depot.db")).expect("the test has set it up");
        database
            .execute_batch("UPDATE content SET data = CAST(zeroblob(5) AS BLOB) WHERE data IS NOT NULL")
            .expect("the test has set it up");
        std::fs::remove_dir_all(home.path().join("blobs")).expect("the test has set it up");
        assert_eq!((find(&a, 4), find(&b, 50_000)), (None, None));
    });
}
