//! Lists: their order, their pages, and that nothing is missing or twice.

use garret_core::{EntryKind, EntryPath, ErrorKind, ListOptions, Precondition, ReadOptions};

use crate::Probe;
use crate::mutations::{path, remove, write};

/// Names around `/` in the byte order: `-` and `.` come before it, digits and letters after.
const ODD: [&str; 12] = [
    "a", "a!", "a+x", "a-b", "a-b/y", "a.txt", "a/b", "a/b-c", "a/b/d", "a/z", "a0", "aa",
];
const ODD_FILES: [&str; 9] = ["a!", "a+x", "a-b/y", "a.txt", "a/b-c", "a/b/d", "a/z", "a0", "aa"];

async fn write_odd(probe: &Probe) {
    probe.batch(ODD_FILES.iter().map(|at| write(at, *at)).collect()).await;
}

async fn after(probe: &Probe, at: &str, is_deep: bool, cursor: EntryPath, limit: usize) -> (Vec<String>, bool) {
    let options = ListOptions {
        is_deep,
        after: Some(cursor),
        limit,
        ..ListOptions::default()
    };
    let page = probe.page(at, options).await;
    (
        page.entries.iter().map(|entry| entry.path.display_path()).collect(),
        page.has_more,
    )
}

fn cursor(at: &str) -> EntryPath {
    EntryPath::from(path(at))
}

/// Where a list tells versions, they are those of the files: what is demanded by one holds until the file changes.
pub async fn a_version_that_a_list_tells_is_the_file_s(probe: Probe) {
    probe.write("d/a", "one").await;
    probe.write("d/b", "b").await;
    let listed = probe.page("d", ListOptions::default()).await.entries;
    for entry in listed.iter().filter(|entry| entry.version.is_some()) {
        let path = entry.path.as_path().expect("its name is plain").clone();
        let demanding = ReadOptions {
            precondition: entry.version.clone().map_or(Precondition::Any, Precondition::Version),
            ..ReadOptions::default()
        };
        let read = probe.storage().read(&path, demanding.clone()).await;
        assert_eq!(read.expect("it is what was listed").bytes.len() as u64, entry.size);
        probe.write(path.as_str(), "two").await;
        let refused = probe.storage().read(&path, demanding).await.expect_err("it changed");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        let now = probe.page("d", ListOptions::default()).await.entries;
        let now = now.into_iter().find(|now| now.path == entry.path).expect("it is there");
        assert_ne!(now.version, entry.version);
    }
}

/// A shallow list gives the entries of one directory with kind and size, in order.
pub async fn a_shallow_list_gives_one_directory(probe: Probe) {
    probe.write("b", "bb").await;
    probe.write("d/deep", "x").await;
    probe.write("a", "").await;
    let page = probe.page("", ListOptions::default()).await;
    let seen: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (entry.path.display_path(), entry.kind, entry.size))
        .collect();
    let wanted = [
        ("a", EntryKind::File, 0),
        ("b", EntryKind::File, 2),
        ("d", EntryKind::Directory, 0),
    ];
    assert_eq!(seen, wanted.map(|(at, kind, size)| (at.to_owned(), kind, size)));
    assert!(!page.has_more);
    assert_eq!(probe.names("d").await, ["d/deep"]);
}

/// A deep list is in the byte order of the full paths: `a-b` comes between `a` and `a/x`.
pub async fn a_deep_list_is_in_byte_order(probe: Probe) {
    write_odd(&probe).await;
    assert_eq!(probe.names_deep("").await, ODD);
    assert_eq!(probe.names_deep("a").await, ["a/b", "a/b-c", "a/b/d", "a/z"]);
    assert_eq!(probe.names("").await, ["a", "a!", "a+x", "a-b", "a.txt", "a0", "aa"]);
}

/// Pages of every size give the same list.
pub async fn pages_of_every_size_give_the_same_list(probe: Probe) {
    write_odd(&probe).await;
    for limit in 1..=ODD.len() + 1 {
        assert_eq!(probe.paths("", true, limit).await, ODD, "pages of {limit}");
        let shallow = ["a", "a!", "a+x", "a-b", "a.txt", "a0", "aa"];
        assert_eq!(probe.paths("", false, limit).await, shallow, "pages of {limit}");
        assert_eq!(
            probe.paths("a", true, limit).await,
            ["a/b", "a/b-c", "a/b/d", "a/z"],
            "pages of {limit}"
        );
    }
}

/// A page that ends with the last entry says that nothing follows.
pub async fn a_full_last_page_has_no_more(probe: Probe) {
    probe.batch(["a", "b", "c"].map(|at| write(at, "x")).to_vec()).await;
    for (limit, has_more) in [(2, true), (3, false), (4, false)] {
        let options = ListOptions {
            limit,
            ..ListOptions::default()
        };
        assert_eq!(probe.page("", options).await.has_more, has_more, "pages of {limit}");
    }
}

/// A cursor need not name an entry that exists.
pub async fn a_cursor_need_not_exist(probe: Probe) {
    write_odd(&probe).await;
    for at in ODD
        .iter()
        .chain(&["a,", "a/", "a/a", "a/b/", "a/y", "b", "Z", "a-b/y/below"])
    {
        let from = EntryPath::from_bytes(at.as_bytes().to_vec());
        let wanted: Vec<_> = ODD
            .iter()
            .filter(|entry| entry.as_bytes() > at.as_bytes())
            .copied()
            .collect();
        assert_eq!(
            after(&probe, "", true, from, 100).await,
            (wanted.iter().map(ToString::to_string).collect(), false),
            "{at}"
        );
    }
}

/// A cursor deep in a directory resumes a shallow list after that directory.
pub async fn a_deep_cursor_resumes_a_shallow_list(probe: Probe) {
    write_odd(&probe).await;
    assert_eq!(after(&probe, "", false, cursor("a/b"), 100).await.0, ["a0", "aa"]);
    assert_eq!(
        after(&probe, "", false, cursor("a"), 2).await,
        (vec!["a!".into(), "a+x".into()], true)
    );
}

/// A cursor before the directory starts at its beginning, one after it is at its end.
pub async fn a_cursor_elsewhere_is_before_or_after(probe: Probe) {
    write_odd(&probe).await;
    assert_eq!(
        after(&probe, "a", true, cursor("A"), 100).await.0,
        ["a/b", "a/b-c", "a/b/d", "a/z"]
    );
    assert_eq!(
        after(&probe, "a", true, cursor("a.txt"), 100).await.0,
        ["a/b", "a/b-c", "a/b/d", "a/z"]
    );
    assert_eq!(after(&probe, "a", true, cursor("a0"), 100).await, (Vec::new(), false));
    assert_eq!(after(&probe, "a", false, cursor("b"), 100).await, (Vec::new(), false));
}

/// A cursor that is not UTF-8 has its place in the byte order too.
pub async fn a_raw_cursor_has_its_place(probe: Probe) {
    probe
        .batch(["a", "b", "é", "\u{fffd}"].map(|at| write(at, "x")).to_vec())
        .await;
    let raw = |bytes: &[u8]| EntryPath::from_bytes(bytes.to_vec());
    assert_eq!(
        after(&probe, "", false, raw(b"a\xff"), 100).await.0,
        ["b", "é", "\u{fffd}"]
    );
    assert_eq!(after(&probe, "", false, raw(b"b\xff"), 100).await.0, ["é", "\u{fffd}"]);
}

/// Entries that come and go between pages disturb no others.
pub async fn a_list_survives_changes_between_pages(probe: Probe) {
    let names: Vec<String> = (0..20).map(|index| format!("{index:02}")).collect();
    probe.batch(names.iter().map(|at| write(at, "x")).collect()).await;
    let (first, has_more) = after(&probe, "", false, cursor("!"), 8).await;
    assert_eq!((first.len(), has_more), (8, true));
    probe.apply(remove("07")).await;
    probe.apply(remove("12")).await;
    probe.write("055", "x").await;
    probe.write("085", "x").await;
    let (second, has_more) = after(&probe, "", false, cursor("07"), 100).await;
    let wanted = ["08", "085", "09", "10", "11", "13", "14", "15", "16", "17", "18", "19"];
    assert_eq!((second, has_more), (wanted.map(str::to_owned).to_vec(), false));
}

/// Only a directory can be listed.
pub async fn only_directories_can_be_listed(probe: Probe) {
    probe.write("d/f", "x").await;
    for (at, kind) in [
        ("d/f", ErrorKind::NotADirectory),
        ("d/f/x", ErrorKind::NotADirectory),
        ("missing", ErrorKind::NotFound),
        ("missing/x", ErrorKind::NotFound),
    ] {
        for is_deep in [false, true] {
            let options = ListOptions {
                is_deep,
                ..ListOptions::default()
            };
            probe.expect_error(kind, at, probe.storage().list(&path(at), options).await);
        }
    }
}

/// Five thousand entries come in pages: none missing, none twice.
pub async fn five_thousand_entries_come_in_pages(probe: Probe) {
    let count = probe.many(5_000);
    let mut wanted: Vec<String> = (0..count)
        .map(|index| format!("d/{:04}-{index}", (index * 7_919) % count))
        .collect();
    probe.batch(wanted.iter().map(|at| write(at, "x")).collect()).await;
    wanted.sort();
    assert_eq!(probe.paths("d", false, 700).await, wanted);
    assert_eq!(probe.paths("d", true, 999).await, wanted);
    assert_eq!(probe.paths("", true, 10_000).await.len(), count + 1);
}
