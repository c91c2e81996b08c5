//! The file operations on a storage in memory; the shared cases run on every storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use garret_core::{AccessLimits, EntryKind, ErrorKind, FixedClock, MemoryStorage, Precondition, Storage, Timestamp};
use garret_testkit::{Call, Hook, Hooked};
use garret_workspace::{
    AppendOptions, DirectoryListing, Edit, EditOptions, Encoding, GlobRequest, ListRequest, ListSortOrder,
    PatchOptions, ReadRequest, ReadUnit, TransferOptions, WriteOptions,
};

use crate::workspace::support::{builder_on, fill, get, link, put, shown, storage, workspace};

fn edit(old: &str, new: &str) -> Edit {
    Edit {
        old_text: old.into(),
        new_text: new.into(),
        ..Edit::default()
    }
}

#[tokio::test]
async fn pages_of_lines_add_up_to_the_file() {
    let workspace = workspace();
    let text: String = (0..2_500).map(|line| format!("line {line}\r\n")).collect::<String>() + "no newline at the end";
    put(&workspace, "a", &text).await;
    let (mut whole, mut offset) = (String::new(), Some(0));
    while let Some(at) = offset {
        let request = ReadRequest {
            offset: at,
            limit: Some(999),
            ..ReadRequest::default()
        };
        let page = workspace.read("a", request).await.unwrap();
        assert_eq!(page.eof, page.next_offset.is_none());
        whole.push_str(&page.content);
        offset = page.next_offset;
    }
    assert_eq!(whole, text);
}

#[tokio::test]
async fn a_window_deep_in_a_large_file_is_found() {
    let workspace = workspace();
    let text: String = (0..400_000).map(|line| format!("{line}\n")).collect();
    put(&workspace, "a", &text).await;
    let request = ReadRequest {
        offset: 399_998,
        limit: Some(5),
        ..ReadRequest::default()
    };
    let page = workspace.read("a", request).await.unwrap();
    assert_eq!((page.content.as_str(), page.eof), ("399998\n399999\n", true));
    let range = page.range.unwrap();
    assert_eq!((range.start, range.end), (399_998, 400_000));
}

/// Counts the reads.
#[derive(Debug, Default)]
struct CountedReads(AtomicUsize);

#[async_trait]
impl Hook for CountedReads {
    async fn before(&self, call: Call<'_>) {
        if let Call::Read(_) = call {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn the_last_lines_of_a_large_file_are_read_from_its_end() {
    let storage = Arc::new(Hooked::new(storage(), CountedReads::default()));
    let workspace = builder_on(storage.clone()).open().unwrap();
    let text: String = (0..1_000_000).map(|line| format!("{line}\n")).collect();
    put(&workspace, "a", &text).await;
    let tail = |lines| ReadRequest {
        tail: Some(lines),
        ..ReadRequest::default()
    };
    let page = workspace.read("a", tail(2)).await.unwrap();
    assert_eq!((page.content.as_str(), page.eof), ("999998\n999999\n", true));
    assert_eq!(page.next_offset, None);
    let range = page.range.unwrap();
    assert_eq!((range.unit, range.end - range.start), (ReadUnit::Bytes, 14));
    // One read of a piece tells the size, one reads the end; the whole file has seven pieces.
    assert_eq!(storage.hook().0.load(Ordering::Relaxed), 2);
    // Across the border of two pieces.
    let page = workspace.read("a", tail(200_000)).await.unwrap();
    assert!(page.content.starts_with("800000\n") && page.content.ends_with("\n999999\n"));
    assert_eq!(page.content.lines().count(), 200_000);
}

#[tokio::test]
async fn the_last_lines_of_a_small_file_have_their_numbers() {
    let workspace = workspace();
    put(&workspace, "a", "one\ntwo\nthree\n").await;
    let tail = |lines| ReadRequest {
        tail: Some(lines),
        ..ReadRequest::default()
    };
    let page = workspace.read("a", tail(2)).await.unwrap();
    assert_eq!(page.content, "two\nthree\n");
    let range = page.range.unwrap();
    assert_eq!((range.unit, range.start, range.end), (ReadUnit::Lines, 1, 3));
    let whole = workspace.read("a", tail(9)).await.unwrap();
    assert_eq!((whole.content.as_str(), whole.range), ("one\ntwo\nthree\n", None));
    let both = ReadRequest { offset: 1, ..tail(1) };
    assert_eq!(workspace.read("a", both).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_list_by_time_is_paged_without_gaps_or_repeats() {
    let clock = Arc::new(FixedClock::starting_at(Timestamp::UNIX_EPOCH));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(clock.clone()));
    let workspace = builder_on(storage).open().unwrap();
    for path in ["b", "d/x", "a", "d/y", "c"] {
        clock.advance(Duration::from_secs(60));
        put(&workspace, path, "").await;
    }
    // Two of one time are in the order of their paths.
    put(&workspace, "c2", "").await;
    let by_time = |limit, cursor| ListRequest {
        long: false,
        depth: usize::MAX,
        limit,
        cursor,
        sort: ListSortOrder::Modified,
    };
    let files = |page: &DirectoryListing| -> Vec<String> {
        let files = page.entries.iter().filter(|entry| entry.r#type == EntryKind::File);
        files.map(|entry| entry.path.clone()).collect()
    };
    let all = workspace.list("", by_time(100, None)).await.unwrap();
    assert_eq!(files(&all), ["c", "c2", "d/y", "a", "d/x", "b"]);
    for limit in 1..=all.entries.len() {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = workspace.list("", by_time(limit, cursor)).await.unwrap();
            assert!(page.entries.len() <= limit && page.cursors.len() == page.entries.len());
            seen.extend(page.entries);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all.entries, "pages of {limit}");
    }
    // Where files are searched by handles, and where they are listed from afar.
    let clock_storage = MemoryStorage::new(clock.clone());
    let storage: Arc<dyn Storage> = Arc::new(clock_storage);
    for path in ["b", "d/x", "a", "d/y", "c"] {
        clock.advance(Duration::from_secs(60));
        fill(&storage, &[(path, "")]).await;
    }
    for is_far in [false, true] {
        let reach = AccessLimits {
            is_remote: is_far,
            ..AccessLimits::default()
        };
        let workspace = builder_on(storage.clone()).access_limits(reach).open().unwrap();
        for limit in 1..=6 {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let request = GlobRequest {
                    pattern: "**".into(),
                    limit,
                    cursor,
                    sort: ListSortOrder::Modified,
                    ..GlobRequest::default()
                };
                let page = workspace.glob(request).await.unwrap();
                assert!(page.paths.len() <= limit && page.cursors.len() == page.paths.len());
                seen.extend(page.paths);
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, ["c", "d/y", "a", "d/x", "b"], "pages of {limit}, far: {is_far}");
        }
    }
    let foreign = by_time(1, Some("d/x".into()));
    assert_eq!(
        workspace.list("", foreign).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn no_operation_sets_a_bit_beyond_the_permissions() {
    let workspace = workspace();
    put(&workspace, "kept", "old\n").await;
    for mode in [0o4755, 0o2755, 0o1777, 0o7777, 0o10_644, 0o104_755] {
        let options = WriteOptions {
            mode: Some(mode),
            ..WriteOptions::default()
        };
        let error = workspace.write("su", "x", options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{mode:o}");
        assert!(error.hint_text().contains("777"), "{error}");
    }
    let patches = [
        "diff --git a/su b/su\nnew file mode 104755\n--- /dev/null\n+++ b/su\n@@ -0,0 +1 @@\n+x\n",
        "diff --git a/kept b/kept\nold mode 100644\nnew mode 102755\n",
        "diff --git a/kept b/su\nsimilarity index 100%\ncopy from kept\ncopy to su\nnew mode 101777\n",
    ];
    for patch in patches {
        let patched = workspace.apply_patch(patch, PatchOptions::default()).await;
        assert_eq!(patched.unwrap_err().kind(), ErrorKind::Invalid, "{patch}");
    }
    assert_eq!(shown(&workspace).await, ["kept"]);
    assert_eq!(workspace.stat("kept").await.unwrap().mode.as_deref(), Some("0644"));
}

#[tokio::test]
async fn bytes_that_are_not_text_come_as_base64() {
    let workspace = workspace();
    workspace
        .write("a", vec![0xff, 0xfe, 0x00], WriteOptions::default())
        .await
        .unwrap();
    let content = workspace.read("a", ReadRequest::default()).await.unwrap();
    assert_eq!((content.content.as_str(), content.encoding), ("//4A", Encoding::Base64));
    let as_text = ReadRequest {
        encoding: Some(Encoding::Utf8),
        ..ReadRequest::default()
    };
    assert_eq!(
        workspace.read("a", as_text).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let bytes = ReadRequest {
        unit: ReadUnit::Bytes,
        offset: 1,
        limit: Some(1),
        encoding: Some(Encoding::Base64),
        ..Default::default()
    };
    let page = workspace.read("a", bytes).await.unwrap();
    assert_eq!((page.content.as_str(), page.next_offset), ("/g==", Some(2)));
}

#[tokio::test]
async fn a_tree_is_paged_without_gaps_or_repeats() {
    let workspace = workspace();
    for path in ["b", "a/x", "a/y/deep", "a-b", "a/y.txt", "c/1", "c/2", "c/3"] {
        put(&workspace, path, "").await;
    }
    let all = shown(&workspace).await;
    assert_eq!(
        all,
        [
            "a", "a/x", "a/y", "a/y/deep", "a/y.txt", "a-b", "b", "c", "c/1", "c/2", "c/3"
        ]
    );
    for limit in 1..=all.len() {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let request = ListRequest {
                depth: usize::MAX,
                limit,
                cursor,
                ..ListRequest::default()
            };
            let page = workspace.list("/", request).await.unwrap();
            seen.extend(page.entries.into_iter().map(|entry| entry.path));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all, "{limit} a page");
    }
}

#[tokio::test]
async fn depth_limits_a_tree() {
    let workspace = workspace();
    put(&workspace, "a/b/c/d", "").await;
    let request = ListRequest {
        depth: 2,
        ..ListRequest::default()
    };
    let listed = workspace.list("", request).await.unwrap();
    let paths: Vec<_> = listed.entries.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["a", "a/b"]);
}

#[tokio::test]
async fn a_page_continues_when_its_last_entry_was_removed() {
    let workspace = workspace();
    for path in ["a", "b", "c"] {
        put(&workspace, path, "").await;
    }
    let first = workspace
        .list(
            "",
            ListRequest {
                limit: 2,
                ..Default::default()
            },
        )
        .await
        .unwrap();
    workspace.remove("b", Default::default()).await.unwrap();
    let request = ListRequest {
        limit: 2,
        cursor: first.next_cursor,
        ..Default::default()
    };
    let second = workspace.list("", request).await.unwrap();
    assert_eq!(
        second
            .entries
            .iter()
            .map(|entry| entry.path.as_str())
            .collect::<Vec<_>>(),
        ["c"]
    );
}

#[tokio::test]
async fn a_directory_behind_a_link_is_paged_too() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("real/a", ""), ("real/b", ""), ("real/c", "")]).await;
    link(&storage, "alias", "real").await;
    let first = workspace
        .list(
            "alias",
            ListRequest {
                limit: 2,
                ..Default::default()
            },
        )
        .await
        .unwrap();
    let request = ListRequest {
        limit: 2,
        cursor: first.next_cursor,
        ..Default::default()
    };
    let second = workspace.list("alias", request).await.unwrap();
    assert_eq!(
        second
            .entries
            .iter()
            .map(|entry| entry.path.as_str())
            .collect::<Vec<_>>(),
        ["real/c"]
    );
}

#[tokio::test]
async fn a_foreign_cursor_is_refused() {
    let workspace = workspace();
    put(&workspace, "a/x", "").await;
    let request = ListRequest {
        cursor: Some("b/x".into()),
        ..Default::default()
    };
    assert_eq!(
        workspace.list("a", request).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn a_directory_is_copied_with_its_links_and_empty_directories() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("a/x", "x"), ("a/sub/y", "y")]).await;
    link(&storage, "a/l", "x").await;
    workspace.make_dir("a/empty", true).await.unwrap();
    let copied = workspace.copy("a", "b/c", TransferOptions::default()).await.unwrap();
    assert_eq!(copied.files, 2);
    assert_eq!(get(&workspace, "b/c/sub/y").await, "y");
    assert_eq!(workspace.stat("b/c/l").await.unwrap().target.as_deref(), Some("x"));
    assert!(workspace.exists("b/c/empty").await.unwrap().exists);
    assert_eq!(
        workspace
            .copy("a", "a/in", TransferOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Invalid
    );
    let taken = workspace
        .copy("a", "b", TransferOptions { overwrite: true })
        .await
        .unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::NotEmpty);
}

#[tokio::test]
async fn an_edit_without_a_version_is_worked_out_again_when_overtaken() {
    let workspace = workspace();
    put(&workspace, "count", &"0\n".repeat(16)).await;
    let tasks = (0..16).map(|number| {
        let workspace = workspace.clone();
        let edits = [edit("0\n", &format!("x{number}\n"))];
        async move {
            let edits = edits.map(|edit| Edit {
                replace_all: false,
                ..edit
            });
            workspace.edit("count", &edits, EditOptions::default()).await
        }
    });
    // Not unique: every one fails, and none writes.
    for result in futures::future::join_all(tasks).await {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    }
    put(
        &workspace,
        "lines",
        &(0..16).map(|n| format!("<{n}>\n")).collect::<String>(),
    )
    .await;
    let edits = (0..16).map(|n| {
        let workspace = workspace.clone();
        tokio::spawn(async move {
            workspace
                .edit("lines", &[edit(&format!("<{n}>"), "done")], EditOptions::default())
                .await
        })
    });
    for task in edits.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    assert_eq!(get(&workspace, "lines").await, "done\n".repeat(16));
}

#[tokio::test]
async fn an_edit_with_an_old_version_is_a_conflict() {
    let workspace = workspace();
    let old = workspace
        .write("a", "one", WriteOptions::default())
        .await
        .unwrap()
        .version
        .unwrap();
    put(&workspace, "a", "one two").await;
    let options = EditOptions {
        precondition: Precondition::Version(old),
        dry_run: false,
    };
    let error = workspace
        .edit("a", &[edit("one", "1")], options.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(
        error.current_version(),
        workspace.stat("a").await.unwrap().version.as_ref()
    );
    let trial = EditOptions {
        dry_run: true,
        ..options
    };
    assert_eq!(
        workspace
            .edit("a", &[edit("one", "1")], trial)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict
    );
}

#[tokio::test]
async fn a_dry_run_shows_the_difference_and_writes_nothing() {
    let workspace = workspace();
    put(&workspace, "a", "one\ntwo\n").await;
    let options = EditOptions {
        dry_run: true,
        ..EditOptions::default()
    };
    let edited = workspace.edit("a", &[edit("two", "2")], options).await.unwrap();
    assert_eq!(
        edited.diff.unwrap(),
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    );
    assert_eq!(get(&workspace, "a").await, "one\ntwo\n");
}

#[tokio::test]
async fn a_patch_creates_changes_renames_copies_and_deletes_in_one_change() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(
        &storage,
        &[("old", "o\n"), ("change", "1\n2\n"), ("gone", "g\n"), ("same", "s\n")],
    )
    .await;
    let diff = concat!(
        "diff --git a/old b/dir/new\nsimilarity index 50%\nrename from old\nrename to dir/new\n--- a/old\n+++ b/dir/new\n@@ -1 +1 @@\n-o\n+n\n",
        "--- a/change\n+++ b/change\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n",
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n",
        "--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+m\n",
        "diff --git a/same b/moved\nsimilarity index 100%\nrename from same\nrename to moved\n",
        "--- /dev/null\n+++ b/made2\n@@ -0,0 +1 @@\n+m\n",
    );
    let tried = workspace
        .apply_patch(diff, PatchOptions { dry_run: true })
        .await
        .unwrap();
    assert_eq!(shown(&workspace).await, ["change", "gone", "old", "same"]);
    let patched = workspace.apply_patch(diff, PatchOptions::default()).await.unwrap();
    assert_eq!(patched.files, tried.files);
    let actions: Vec<_> = patched
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.status.as_str()))
        .collect();
    let expected = [
        ("dir/new", "renamed"),
        ("change", "modified"),
        ("gone", "deleted"),
        ("made", "added"),
        ("moved", "renamed"),
        ("made2", "added"),
    ];
    assert_eq!(actions, expected);
    assert_eq!(
        shown(&workspace).await,
        ["change", "dir", "dir/new", "made", "made2", "moved"]
    );
    assert_eq!(get(&workspace, "dir/new").await, "n\n");
    assert_eq!(get(&workspace, "change").await, "1\ntwo\n");
}

#[tokio::test]
async fn a_patch_can_swap_two_names() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("a", "A\n"), ("b", "B\n")]).await;
    let diff = concat!(
        "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n",
        "diff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n",
    );
    workspace.apply_patch(diff, PatchOptions::default()).await.unwrap();
    assert_eq!(
        (get(&workspace, "a").await.as_str(), get(&workspace, "b").await.as_str()),
        ("B\n", "A\n")
    );
}

#[tokio::test]
async fn a_patch_whose_last_file_fails_changes_none() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("a", "a\n"), ("b", "b\n")]).await;
    let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-wrong\n+B\n";
    let error = workspace.apply_patch(diff, PatchOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Invalid, Some("b")));
    assert_eq!(get(&workspace, "a").await, "a\n");
}

#[tokio::test]
async fn an_append_without_create_needs_the_file() {
    let workspace = workspace();
    let options = AppendOptions {
        create: false,
        ..AppendOptions::default()
    };
    let error = workspace.append("a", "x", options).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.hint_text()),
        (ErrorKind::NotFound, "set `create` to make the file")
    );
}

#[tokio::test]
async fn a_link_is_described_itself_and_read_through() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("a", "content")]).await;
    link(&storage, "l", "a").await;
    assert_eq!(workspace.stat("l").await.unwrap().target.as_deref(), Some("a"));
    assert_eq!(get(&workspace, "l").await, "content");
    put(&workspace, "l", "through").await;
    assert_eq!(get(&workspace, "a").await, "through");
    workspace.remove("l", Default::default()).await.unwrap();
    assert_eq!(get(&workspace, "a").await, "through");
}

#[tokio::test]
async fn a_patch_that_could_mean_two_files_is_refused() {
    let storage = storage();
    let workspace = builder_on(storage.clone()).open().unwrap();
    fill(&storage, &[("old.txt", "1\n"), ("new.txt", "1\n")]).await;
    let two = "--- old.txt\n+++ new.txt\n@@ -1 +1 @@\n-1\n+2\n";
    let error = workspace.apply_patch(two, PatchOptions::default()).await.unwrap_err();
    assert_eq!(
        error.message(),
        "the patch names `old.txt` and `new.txt`, and both exist"
    );
    let one = "--- a/old.txt\n+++ b/old.txt\n@@ -1 +1 @@\n-1\n+2\n";
    let twice = format!("{one}{}", one.replace("/old", "/./old"));
    let error = workspace
        .apply_patch(&twice, PatchOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.message(), "the patch names `old.txt` twice");
    assert_eq!(get(&workspace, "old.txt").await, "1\n");
}
