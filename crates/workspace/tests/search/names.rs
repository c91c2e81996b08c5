//! `glob`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use futures::executor::block_on;
use garret_core::ErrorKind;
use garret_core::policy::compile_glob;
use garret_workspace::GlobRequest;
use proptest::prelude::*;
use proptest::sample::select;

use crate::search::support::{Rooms, globbing, rooms};

fn room() -> Rooms {
    rooms(&[
        ("a.txt", ""),
        ("b.txt", ""),
        ("c.ts", ""),
        ("d.js", ""),
        ("readme.md", ""),
        ("x", ""),
        ("src/main.rs", ""),
        ("src/deep/x", ""),
        ("src/deep/lib.rs", ""),
        ("[...slug]/a..b", ""),
        ("with space/é.txt", ""),
    ])
}

#[test]
fn a_glob_has_one_meaning_on_every_storage() {
    let rooms = room();
    assert_eq!(rooms.paths("[!a].txt"), ["b.txt"]);
    assert_eq!(rooms.paths("{*.ts,*.js}"), ["c.ts", "d.js"]);
    assert_eq!(rooms.paths("**/x"), ["src/deep/x", "x"]);
    assert_eq!(rooms.paths("*.{rs,md}"), ["readme.md"]);
    assert_eq!(rooms.paths("src/*.rs"), ["src/main.rs"]);
    assert_eq!(rooms.paths("**/*.rs"), ["src/deep/lib.rs", "src/main.rs"]);
    assert_eq!(rooms.paths("src/**"), ["src/deep/lib.rs", "src/deep/x", "src/main.rs"]);
    assert_eq!(rooms.paths("?"), ["x"]);
    assert_eq!(rooms.paths("with space/*.txt"), ["with space/é.txt"]);
    assert_eq!(rooms.paths("\\[...slug\\]/*"), ["[...slug]/a..b"]);
    assert_eq!(rooms.paths("/workspace/src/main.rs"), ["src/main.rs"]);
    assert_eq!(rooms.paths("nothing/**"), [""; 0]);
    assert_eq!(rooms.paths("**").len(), 11);
}

#[test]
fn a_pattern_is_relative_to_the_directory_and_the_results_to_the_workspace() {
    let request = GlobRequest {
        path: "/workspace/src/".into(),
        ..globbing("**/*.rs")
    };
    assert_eq!(room().glob(&request).paths, ["src/deep/lib.rs", "src/main.rs"]);
    let level = GlobRequest {
        path: "src".into(),
        ..globbing("*.rs")
    };
    assert_eq!(room().glob(&level).paths, ["src/main.rs"]);
}

#[test]
fn results_come_in_the_byte_order_of_their_paths() {
    let rooms = rooms(&[
        ("a/z", ""),
        ("a.b", ""),
        ("a-b/c", ""),
        ("a0", ""),
        ("B", ""),
        ("é", ""),
    ]);
    assert_eq!(rooms.paths("**"), ["B", "a-b/c", "a.b", "a/z", "a0", "é"]);
}

#[test]
fn pages_give_everything_once() {
    let names: Vec<String> = (0..40)
        .flat_map(|n| [format!("d{n}/x"), format!("d{n}.txt"), format!("d{n}/y/z")])
        .collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let rooms = rooms(&files);
    let all = rooms.paths("**");
    assert_eq!(all.len(), names.len());
    for limit in [1, 7, 119, 120] {
        let mut request = GlobRequest {
            limit,
            ..globbing("**")
        };
        let mut joined = Vec::new();
        loop {
            let page = rooms.glob(&request);
            assert!(page.paths.len() <= limit);
            joined.extend(page.paths);
            match page.next_cursor {
                Some(cursor) => request.cursor = Some(cursor),
                None => break,
            }
        }
        assert_eq!(joined, all, "pages of {limit}");
    }
}

#[test]
fn git_and_ignored_files_are_left_out_and_each_has_its_switch() {
    let rooms = rooms(&[
        (".git/config", ""),
        (".gitignore", "*.log\nbuild/\n"),
        (".hidden", ""),
        ("a.log", ""),
        ("build/b", ""),
        ("c", ""),
    ]);
    let found = |request: GlobRequest| rooms.glob(&request).paths;
    assert_eq!(found(globbing("**")), [".gitignore", ".hidden", "c"]);
    let ignored = GlobRequest {
        include_ignored: true,
        ..globbing("**")
    };
    assert_eq!(found(ignored), [".gitignore", ".hidden", "a.log", "build/b", "c"]);
    let git = GlobRequest {
        include_git: true,
        ..globbing("**")
    };
    assert_eq!(found(git), [".git/config", ".gitignore", ".hidden", "c"]);
    let plain = GlobRequest {
        hidden: false,
        ..globbing("**")
    };
    assert_eq!(found(plain), ["c"]);
    let inside = GlobRequest {
        path: ".git".into(),
        ..globbing("*")
    };
    assert_eq!(found(inside), [".git/config"], "what is named is searched");
}

#[test]
fn rules_above_the_directory_that_is_searched_hold_in_it() {
    let rooms = rooms(&[
        (".gitignore", "*.log\n"),
        ("sub/.ignore", "!keep.log\n"),
        ("sub/in/keep.log", ""),
        ("sub/in/b.log", ""),
    ]);
    let request = GlobRequest {
        path: "sub/in".into(),
        ..globbing("*")
    };
    assert_eq!(rooms.glob(&request).paths, ["sub/in/keep.log"]);
}

#[test]
fn directories_are_found_where_they_are_asked_for() {
    let request = GlobRequest {
        include_directories: true,
        ..globbing("s*/**")
    };
    assert_eq!(
        room().glob(&request).paths,
        ["src/deep", "src/deep/lib.rs", "src/deep/x", "src/main.rs"]
    );
}

#[test]
fn a_link_is_found_and_not_followed() {
    let rooms = room();
    rooms.link("link", "src");
    rooms.link("out", "/etc");
    assert_eq!(rooms.paths("{link,out}"), ["link", "out"]);
    assert_eq!(rooms.paths("link/**"), [""; 0]);
    let through = GlobRequest {
        path: "link".into(),
        ..globbing("*")
    };
    assert_eq!(
        rooms.glob(&through).paths,
        ["src/main.rs"],
        "a link that is named is followed inside"
    );
}

#[test]
fn a_name_that_is_not_utf8_is_shown_escaped_and_marked() {
    let rooms = room();
    fs::write(rooms.dir.path().join(OsStr::from_bytes(b"caf\xe9.txt")), "").unwrap();
    let [_, local, _] = rooms.workspaces();
    let found = block_on(local.glob(globbing("*.txt"))).unwrap();
    assert_eq!(found.paths, ["a.txt", "b.txt", "caf\\xE9.txt"]);
    assert_eq!(found.escaped, ["caf\\xE9.txt"]);
}

#[test]
fn a_wrong_request_says_what_is_wrong() {
    for workspace in room().workspaces() {
        let error = |request: GlobRequest| block_on(workspace.glob(request)).unwrap_err();
        let outside = error(globbing("../*"));
        assert_eq!(outside.kind(), ErrorKind::Invalid);
        assert_eq!(outside.message(), "the glob `../*` has a `..`");
        assert_eq!(error(globbing("")).message(), "a glob cannot be empty");
        assert!(
            error(globbing("a[b"))
                .message()
                .starts_with("`pattern`: `a[b` is not a glob")
        );
        let at = |path: &str| GlobRequest {
            path: path.into(),
            ..globbing("*")
        };
        assert_eq!(error(at("a.txt")).kind(), ErrorKind::NotADirectory);
        assert_eq!(error(at("none")).kind(), ErrorKind::NotFound);
        assert_eq!(error(at("../up")).kind(), ErrorKind::PathEscape);
        let empty = GlobRequest {
            limit: 0,
            ..globbing("*")
        };
        assert_eq!(error(empty).kind(), ErrorKind::Invalid);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A walk enters only directories that can hold a match; that must never lose one.
    #[test]
    fn a_pattern_finds_exactly_what_it_matches_among_all_paths(
        names in prop::collection::btree_set(prop::collection::vec(select(vec!["a", "b", "ab", "c.rs", ".d"]), 1..5), 1..20),
        parts in prop::collection::vec(select(vec!["a", "b", "*", "**", "?", "{a,b}", "[!a]", "*.rs", "{a/b,c*}", ".*"]), 1..5),
        cursor in select(vec![None, Some("a/b"), Some("ab"), Some("b/a/c.rs")]),
    ) {
        // A file ends in `.f`, so that no file is in the way of a directory.
        let paths: Vec<String> = names.iter().map(|parts| parts.join("/") + ".f").collect();
        let rooms = rooms(&paths.iter().map(|path| (path.as_str(), "")).collect::<Vec<_>>());
        let pattern = format!("{}.f", parts.join("/"));
        let glob = compile_glob(&pattern).unwrap();
        let mut expected = paths.clone();
        expected.sort();
        expected.retain(|path| glob.is_match(path) && cursor.is_none_or(|cursor| path.as_str() > cursor));
        let request = GlobRequest { cursor: cursor.map(str::to_owned), ..globbing(&pattern) };
        prop_assert_eq!(rooms.glob(&request).paths, expected, "{}", pattern);
    }
}
