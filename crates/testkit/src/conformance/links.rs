//! Symbolic links: those that stay inside work, those that leave never do, and some operations are about the link itself.

use garret_core::{Batch, EntryKind, ErrorKind, Follow, ListOptions, Mutation, ReadOptions, StatOptions};

use crate::Probe;
use crate::mutations::{
    append, append_or_create, copy, copy_over, link, make_dir, make_dirs, path, remove, remove_tree, rename,
    rename_over, set_mode, write,
};

/// Targets that lead outside, from a link at the root.
const OUTSIDE: [&str; 8] = [
    "..",
    "../outside",
    "../../../../../../etc/passwd",
    "d/../../outside",
    "/",
    "/etc/passwd",
    "/d/f",
    "/workspace/d/f",
];

async fn has_links(probe: &Probe) -> bool {
    if !probe.info().has_symlinks {
        probe.refuses(ErrorKind::Unsupported, link("link", "f")).await;
    }
    probe.info().has_symlinks
}

async fn resolved(probe: &Probe, at: &str) -> String {
    let real = probe.storage().resolve(&path(at)).await;
    real.unwrap_or_else(|error| panic!("{at} cannot be resolved: {error:?}"))
        .to_string()
}

/// A link is described as itself: its kind, its target as written, the size of that.
pub async fn a_link_is_described_as_itself(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    for (at, target) in [
        ("a", "f"),
        ("b", "./x//y/../z"),
        ("c", "missing/日本"),
        ("d", "/absolute"),
        ("e", ".."),
    ] {
        let applied = probe.apply(link(at, target)).await;
        assert!(applied.created);
        assert_eq!(applied.version, None, "a link has no version");
        let stat = probe.stat(at).await;
        assert_eq!(stat.kind, EntryKind::Symlink);
        assert_eq!(stat.target.as_deref(), Some(target));
        assert_eq!(stat.size, target.len() as u64);
        assert_eq!(stat.version, None);
    }
}

/// What no system can make a link to is refused everywhere, so that every link can be put on a disk.
pub async fn a_link_points_where_one_can(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    for target in [String::new(), "a\0b".to_owned(), "x".repeat(4096)] {
        probe.refuses(ErrorKind::Invalid, link("link", &target)).await;
    }
    assert_eq!(probe.kind("link").await, None);
}

/// A link makes the directories above it, and replaces nothing.
pub async fn a_link_replaces_nothing(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.apply(link("a/b/link", "../../d/f")).await;
    assert_eq!(probe.text("a/b/link").await, "x");
    for at in ["d", "d/f", "a/b/link", ""] {
        probe.refuses(ErrorKind::AlreadyExists, link(at, "f")).await;
    }
    probe.refuses(ErrorKind::NotADirectory, link("d/f/link", "f")).await;
}

/// A file is read, written, appended to and given a mode through a link, which stays a link.
pub async fn a_link_to_a_file_stands_for_it(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "one").await;
    probe.apply(link("link", "d/f")).await;
    assert_eq!(probe.text("link").await, "one");
    assert!(!probe.apply(write("link", "two")).await.created);
    probe.apply(append("link", "!")).await;
    assert_eq!(probe.text("d/f").await, "two!");
    if probe.info().has_modes {
        probe.apply(set_mode("link", 0o700)).await;
        assert_eq!(probe.stat("d/f").await.mode, Some(0o700));
    }
    assert_eq!(probe.kind("link").await, Some(EntryKind::Symlink));
    assert_eq!(probe.names_deep("").await, ["d", "d/f", "link"]);
}

/// What lies below a link to a directory is reached through it.
pub async fn a_link_to_a_directory_stands_for_it(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/e/f", "one").await;
    probe.apply(link("link", "d")).await;
    assert_eq!(probe.text("link/e/f").await, "one");
    assert_eq!(probe.stat("link/e").await.kind, EntryKind::Directory);
    probe.write("link/e/g", "two").await;
    probe.write("link/new/h", "three").await;
    probe.apply(rename("link/e/f", "link/moved")).await;
    probe.apply(copy("link/e/g", "link/copied")).await;
    probe.apply(remove("link/e/g")).await;
    let wanted = ["d", "d/copied", "d/e", "d/moved", "d/new", "d/new/h", "link"];
    assert_eq!(probe.names_deep("").await, wanted);
}

/// A list through a link gives the real paths.
pub async fn a_list_through_a_link_gives_real_paths(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/e/f", "x").await;
    probe.apply(link("link", "d")).await;
    assert_eq!(probe.names("link").await, ["d/e"]);
    assert_eq!(probe.names_deep("link/e").await, ["d/e/f"]);
}

/// A list names links and never enters them, so a circle ends.
pub async fn a_list_never_follows_a_link(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    for (at, target) in [("d/up", ".."), ("d/self", "."), ("link", "d"), ("out", "/etc")] {
        probe.apply(link(at, target)).await;
    }
    assert_eq!(
        probe.names_deep("").await,
        ["d", "d/f", "d/self", "d/up", "link", "out"]
    );
    let page = probe.page("", ListOptions::default()).await;
    let kinds: Vec<_> = page.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Directory, EntryKind::Symlink, EntryKind::Symlink]);
}

/// Relative links count from where they stand, and `..` in them may go up as far as the root.
pub async fn a_relative_link_counts_from_where_it_stands(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("a/f", "a").await;
    probe.write("f", "root").await;
    for (at, target, wanted) in [
        ("a/here", "f", "a"),
        ("a/up", "../f", "root"),
        ("a/b/up", "../../a/f", "a"),
        ("a/dots", "./.././a/./f", "a"),
        ("around", "a/../a/f", "a"),
    ] {
        probe.apply(link(at, target)).await;
        assert_eq!(probe.text(at).await, wanted, "{at}");
    }
}

/// `..` after a link to a directory goes up from where the link leads.
pub async fn dots_after_a_link_go_up_from_its_target(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("a/b/f", "deep").await;
    probe.write("a/g", "beside b").await;
    probe.write("g", "at the root").await;
    probe.apply(link("to_b", "a/b")).await;
    probe.apply(link("up", "to_b/../g")).await;
    assert_eq!(probe.text("up").await, "beside b");
    assert_eq!(resolved(&probe, "up").await, "a/g");
}

/// Links may lead to links.
pub async fn a_chain_of_links_is_followed(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "end").await;
    probe.apply(link("l0", "d")).await;
    for step in 1..10 {
        probe.apply(link(&format!("l{step}"), &format!("l{}", step - 1))).await;
    }
    assert_eq!(probe.text("l9/f").await, "end");
    assert_eq!(resolved(&probe, "l9/f").await, "d/f");
}

/// A link to nothing reads as nothing, and a write through it makes what it points to.
pub async fn a_write_through_a_link_to_nothing_makes_its_target(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.make_dirs("d").await;
    probe.apply(link("link", "d/new")).await;
    probe.apply(link("log", "logs/today")).await;
    probe.expect_error(ErrorKind::NotFound, "a link to nothing", probe.try_read("link").await);
    probe.refuses(ErrorKind::NotFound, append("link", "x")).await;
    probe.refuses(ErrorKind::NotFound, copy("link", "c")).await;
    assert!(probe.apply(write("link", "made")).await.created);
    assert!(probe.apply(append_or_create("log", "first")).await.created);
    assert_eq!(probe.text("d/new").await, "made");
    assert_eq!(
        probe.names_deep("").await,
        ["d", "d/new", "link", "log", "logs", "logs/today"]
    );
}

/// Links that go round are `invalid`, however they are approached.
pub async fn a_circle_of_links_is_invalid(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    for (at, target) in [("self", "self"), ("one", "two"), ("two", "one")] {
        probe.apply(link(at, target)).await;
    }
    for at in ["self", "one", "two", "one/below"] {
        probe.expect_error(ErrorKind::Invalid, at, probe.try_read(at).await);
        probe.expect_error(ErrorKind::Invalid, at, probe.storage().resolve(&path(at)).await);
        probe.refuses(ErrorKind::Invalid, write(at, "x")).await;
    }
    probe.apply(remove("self")).await;
    assert_eq!(probe.names("").await, ["one", "two"]);
}

/// A link that leads outside, by `..` or by an absolute path, is `path_escape` for whatever would follow it.
pub async fn a_link_that_leads_outside_is_never_followed(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    for target in OUTSIDE {
        probe.apply(link("out", target)).await;
        for at in ["out", "out/x", "out/x/y"] {
            refuses_to_follow(&probe, at, Follow::Inside).await;
        }
        probe.apply(remove("out")).await;
    }
}

/// The same holds for a link below a directory and for a chain whose last link leaves.
pub async fn a_chain_that_ends_outside_is_never_followed(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.apply(link("d/out", "../../outside")).await;
    probe.apply(link("d/abs", "/etc")).await;
    probe.apply(link("chain", "d/abs")).await;
    for at in ["d/out", "d/out/x", "chain", "chain/passwd"] {
        refuses_to_follow(&probe, at, Follow::Inside).await;
    }
}

/// A link that leads outside can be described, moved and removed: that is about the link.
pub async fn a_link_that_leads_outside_can_be_handled(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    for target in OUTSIDE {
        probe.apply(link("out", target)).await;
        assert_eq!(probe.stat("out").await.kind, EntryKind::Symlink, "{target}");
        probe.apply(rename("out", "moved")).await;
        assert_eq!(probe.stat("moved").await.target.as_deref(), Some(target));
        probe.apply(remove_tree("moved")).await;
    }
    assert_eq!(probe.names("").await, Vec::<String>::new());
}

/// With `Follow::Never`, a link on the way is `path_escape` even where it stays inside.
pub async fn never_follows_no_link_at_all(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.apply(link("to_file", "d/f")).await;
    probe.apply(link("to_dir", "d")).await;
    probe.apply(link("to_nothing", "d/new")).await;
    for at in ["to_file", "to_dir", "to_nothing", "to_dir/f", "to_dir/new"] {
        refuses_to_follow(&probe, at, Follow::Never).await;
    }
    for mutation in [
        remove("to_dir/f"),
        rename("to_dir/f", "g"),
        rename("d/f", "to_dir/g"),
        link("to_dir/l", "f"),
    ] {
        probe
            .refuses_following(Follow::Never, ErrorKind::PathEscape, vec![mutation])
            .await;
    }
    probe
        .refuses_following(Follow::Never, ErrorKind::PathEscape, vec![copy("d/f", "to_dir/g")])
        .await;
}

/// With `Follow::Never`, paths without links work, and a link in the last place is described and removed as itself.
pub async fn never_still_handles_the_link_itself(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.apply(link("d/link", "f")).await;
    let follow = Follow::Never;
    let options = StatOptions {
        follow,
        with_version: false,
    };
    let stat = probe
        .storage()
        .stat(&path("d/link"), options)
        .await
        .expect("the link can be described");
    assert_eq!(stat.kind, EntryKind::Symlink);
    let mutations = vec![
        write("d/f", "y"),
        rename("d/link", "l"),
        remove("l"),
        link("l2", "d"),
        make_dirs("e/g"),
    ];
    probe
        .storage()
        .apply(Batch {
            mutations,
            follow,
            ..Batch::default()
        })
        .await
        .expect("no link is followed");
    assert_eq!(probe.names_deep("").await, ["d", "d/f", "e", "e/g", "l2"]);
    assert_eq!(probe.text("d/f").await, "y");
}

/// Checks that everything that would follow a link at `at` answers `path_escape` and changes nothing.
async fn refuses_to_follow(probe: &Probe, at: &str, follow: Follow) {
    let kind = ErrorKind::PathEscape;
    let what = format!("{at} with {follow:?}");
    let at_path = path(at);
    let storage = probe.storage();
    let read = ReadOptions {
        follow,
        ..ReadOptions::default()
    };
    probe.expect_error(kind, &what, storage.read(&at_path, read).await);
    let list = ListOptions {
        follow,
        ..ListOptions::default()
    };
    probe.expect_error(kind, &what, storage.list(&at_path, list).await);
    if follow == Follow::Inside {
        probe.expect_error(kind, &what, storage.resolve(&at_path).await);
    }
    for mutation in followers(probe, at) {
        probe.refuses_following(follow, kind, vec![mutation]).await;
    }
}

/// The mutations that follow a link in the last place.
fn followers(probe: &Probe, at: &str) -> Vec<Mutation> {
    let mut mutations = vec![
        write(at, "x"),
        append(at, "x"),
        append_or_create(at, "x"),
        copy(at, "copied"),
        make_dir(at),
        make_dirs(at),
    ];
    if probe.info().has_modes {
        mutations.push(set_mode(at, 0o700));
    }
    mutations
}

/// Removing a link, recursively too, leaves what it points to.
pub async fn removing_a_link_leaves_its_target(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("keep/f", "precious").await;
    probe.apply(link("one", "keep")).await;
    probe.apply(remove("one")).await;
    probe.apply(link("two", "keep")).await;
    probe.apply(remove_tree("two")).await;
    probe.apply(link("d/three", "../keep")).await;
    probe.apply(link("d/four", "../keep/f")).await;
    probe.apply(remove_tree("d")).await;
    assert_eq!(probe.names_deep("").await, ["keep", "keep/f"]);
    assert_eq!(probe.text("keep/f").await, "precious");
}

/// A moved link is still a link, with its target as written.
pub async fn moving_a_link_moves_the_link(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.apply(link("link", "d")).await;
    probe.apply(rename("link", "d/moved")).await;
    assert_eq!(probe.stat("d/moved").await.target.as_deref(), Some("d"));
    assert_eq!(probe.text("d/f").await, "x");
}

/// A move or copy onto a link replaces the link, and only with `overwrite`.
pub async fn a_move_or_copy_onto_a_link_replaces_the_link(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("target", "old").await;
    probe.write("f", "new").await;
    for at in ["one", "two"] {
        probe.apply(link(at, "target")).await;
        probe.refuses(ErrorKind::AlreadyExists, rename("f", at)).await;
        probe.refuses(ErrorKind::AlreadyExists, copy("f", at)).await;
    }
    probe.apply(copy_over("f", "one")).await;
    probe.apply(rename_over("f", "two")).await;
    for at in ["one", "two"] {
        assert_eq!(probe.kind(at).await, Some(EntryKind::File), "{at}");
        assert_eq!(probe.text(at).await, "new");
    }
    assert_eq!(probe.text("target").await, "old");
}

/// A link may take the place of a file, and never that of a directory.
pub async fn a_moved_link_replaces_files_only(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/f", "x").await;
    probe.write("g", "old").await;
    probe.apply(link("link", "d")).await;
    probe.refuses(ErrorKind::IsADirectory, rename_over("link", "d")).await;
    probe.refuses(ErrorKind::NotADirectory, rename_over("d", "link")).await;
    probe.apply(rename_over("link", "g")).await;
    assert_eq!(probe.kind("g").await, Some(EntryKind::Symlink));
}

/// Two names of one file through a link are one place: a move between them is a no-op, one below itself `invalid`.
pub async fn a_move_sees_through_links(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.write("d/e/f", "precious").await;
    probe.apply(link("link", "d")).await;
    let before = probe.tree().await;
    probe.apply(rename_over("d/e/f", "link/e/f")).await;
    probe.apply(rename("link/e", "d/e")).await;
    probe.apply(copy_over("link/e/f", "d/e/f")).await;
    assert_eq!(probe.tree().await, before);
    probe.refuses(ErrorKind::Invalid, rename("d/e", "link/e/x")).await;
    probe.refuses(ErrorKind::Invalid, rename("d", "link/x")).await;
}

/// `make_dir` with `parents` finds a directory through a link.
pub async fn make_dir_sees_through_links(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    probe.make_dirs("d").await;
    probe.apply(link("link", "d")).await;
    assert!(!probe.apply(make_dirs("link")).await.created);
    probe.refuses(ErrorKind::AlreadyExists, make_dir("link")).await;
    assert!(probe.apply(make_dirs("link/a/b")).await.created);
    assert_eq!(probe.names_deep("").await, ["d", "d/a", "d/a/b", "link"]);
}

/// A write that asks for nothing at a link looks at what the link leads to.
pub async fn preconditions_look_through_links(probe: Probe) {
    if !has_links(&probe).await {
        return;
    }
    use garret_core::Precondition::{Absent, Version};
    let version = probe.write("f", "x").await;
    probe.apply(link("link", "f")).await;
    probe.apply(link("fresh", "g")).await;
    probe
        .refuses(ErrorKind::Conflict, crate::mutations::write_if("link", "y", Absent))
        .await;
    probe
        .apply(crate::mutations::write_if("link", "y", Version(version)))
        .await;
    probe.apply(crate::mutations::write_if("fresh", "z", Absent)).await;
    assert_eq!(probe.text("f").await, "y");
    assert_eq!(probe.text("g").await, "z");
}

/// A real path is where the links lead; what does not exist is kept as written.
pub async fn resolve_gives_the_real_path(probe: Probe) {
    probe.write("d/f", "x").await;
    for at in ["", "d", "d/f", "missing", "missing/deep", "d/missing/deep", "d/f/below"] {
        assert_eq!(resolved(&probe, at).await, at);
    }
    if !has_links(&probe).await {
        return;
    }
    for (at, target) in [
        ("link", "d"),
        ("again", "link/f"),
        ("nowhere", "d/none"),
        ("d/root", ".."),
    ] {
        probe.apply(link(at, target)).await;
    }
    for (at, wanted) in [
        ("link", "d"),
        ("link/f", "d/f"),
        ("link/missing/deep", "d/missing/deep"),
        ("again", "d/f"),
        ("nowhere", "d/none"),
        ("nowhere/deep", "d/none/deep"),
        ("d/root", ""),
        ("link/root/link/root/d/f", "d/f"),
    ] {
        assert_eq!(resolved(&probe, at).await, wanted, "{at}");
    }
}
