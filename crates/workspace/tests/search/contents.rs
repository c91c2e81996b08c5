//! `grep`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use futures::executor::block_on;
use garret_core::ErrorKind;
use garret_workspace::{FileCount, GrepOutput, GrepRequest, MAX_SKIPPED, WriteOptions};

use crate::search::support::{Rooms, grepping, lines, rooms, rooms_of_bytes, skipped};

fn poem() -> Rooms {
    rooms(&[
        ("a/one.txt", "alpha\nBeta beta\ngamma\nbeta\nomega\n"),
        ("b.md", "betamax\n(beta)\r\nno end beta"),
        ("c.txt", "nothing\n"),
    ])
}

#[test]
fn a_search_finds_what_was_written_just_before() {
    for (room, workspace) in poem().workspaces().into_iter().enumerate() {
        for n in 0..20 {
            let (path, word) = (format!("new/{n}.txt"), format!("room{room}needle{n}."));
            block_on(workspace.write(&path, word.clone(), WriteOptions::default())).unwrap();
            let found = block_on(workspace.grep(grepping(&word))).unwrap();
            assert_eq!(lines(&found), [format!("{path}:1:{word}")]);
        }
    }
}

#[test]
fn lines_come_without_their_ending_and_in_order() {
    let found = poem().grep(&grepping("beta"));
    assert_eq!(
        lines(&found),
        [
            "a/one.txt:2:Beta beta",
            "a/one.txt:4:beta",
            "b.md:1:betamax",
            "b.md:2:(beta)",
            "b.md:3:no end beta"
        ]
    );
    assert_eq!((found.match_count, found.file_count, found.truncated), (5, 2, false));
}

#[test]
fn the_pattern_is_read_as_asked() {
    let rooms = poem();
    let ask = |change: fn(&mut GrepRequest), pattern: &str| {
        let mut request = grepping(pattern);
        change(&mut request);
        rooms.lines(&request).len()
    };
    assert_eq!(ask(|_| {}, "(beta)"), 5, "a group");
    assert_eq!(ask(|request| request.literal = true, "(beta)"), 1);
    assert_eq!(ask(|_| {}, "BETA"), 0);
    assert_eq!(ask(|request| request.ignore_case = true, "BETA"), 5);
    assert_eq!(ask(|request| request.smart_case = true, "Beta"), 1);
    assert_eq!(ask(|request| request.whole_word = true, "beta"), 4);
    assert_eq!(ask(|_| {}, "^beta$"), 1);
    assert_eq!(ask(|_| {}, r"a\r$"), 0);
    assert_eq!(ask(|_| {}, r"\)\r$"), 1, "the carriage return belongs to the line");
}

#[test]
fn every_match_has_all_its_neighbours() {
    let request = GrepRequest {
        before: 1,
        after: 2,
        ..grepping("[Bb]eta$")
    };
    let found = poem().grep(&request).matches;
    let neighbours: Vec<_> = found
        .iter()
        .map(|found| (found.before.clone(), found.after.clone()))
        .collect();
    let strings = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(neighbours[0], (strings(&["alpha"]), strings(&["gamma", "beta"])));
    assert_eq!(neighbours[1], (strings(&["gamma"]), strings(&["omega"])));
    assert_eq!(neighbours[2], (strings(&["(beta)"]), strings(&[])));
}

#[test]
fn context_does_not_leak_over_a_gap() {
    let rooms = rooms(&[("f", "x1\nb\nc\nd\ne\nx2\ng\n")]);
    let request = GrepRequest {
        before: 1,
        after: 1,
        ..grepping("x")
    };
    let found = rooms.grep(&request).matches;
    assert_eq!(
        (found[0].after.as_slice(), found[1].before.as_slice()),
        (&["b".to_owned()][..], &["e".to_owned()][..])
    );
    assert!(found[0].before.is_empty());
}

#[test]
fn a_match_over_several_lines_is_one_block() {
    let rooms = rooms(&[(
        "f.rs",
        "fn a(\n    b: u8,\n) {}\nfn c() {}\nfn d() {}\n\nfn e(\n) {}\r\n",
    )]);
    let request = GrepRequest {
        multiline: true,
        ..grepping(r"fn \w+\((?s:.*?)\)")
    };
    assert_eq!(
        rooms.lines(&request),
        [
            "f.rs:1:fn a(\n    b: u8,\n) {}",
            "f.rs:4:fn c() {}",
            "f.rs:5:fn d() {}",
            "f.rs:7:fn e(\n) {}"
        ]
    );
}

#[test]
fn a_newline_in_a_pattern_needs_multiline_and_the_error_says_so() {
    for workspace in poem().workspaces() {
        let error = block_on(workspace.grep(grepping("a\\nB"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.hint_text(), "set `multiline` to true to search across lines");
    }
    let request = GrepRequest {
        multiline: true,
        ..grepping("a\\nB")
    };
    assert_eq!(poem().lines(&request), ["a/one.txt:1:alpha\nBeta beta"]);
}

#[test]
fn a_wrong_pattern_is_explained() {
    for workspace in poem().workspaces() {
        let error = block_on(workspace.grep(grepping("a(b"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("unclosed group"), "{error}");
        assert!(error.hint_text().contains("set `literal` to true"), "{error}");
        let huge = block_on(workspace.grep(grepping(r"(\w{900}){900}"))).unwrap_err();
        assert_eq!(huge.kind(), ErrorKind::Invalid);
    }
}

#[test]
fn text_in_utf16_is_searched_and_bytes_that_are_no_text_are_marked() {
    let wide: Vec<u8> = "\u{feff}one\ntwo needle\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let files: [(&str, &[u8]); 2] = [("latin.txt", b"caf\xe9 needle\n"), ("wide.txt", &wide)];
    let found = rooms_of_bytes(files).grep(&grepping("needle"));
    assert_eq!(
        lines(&found),
        ["latin.txt:1:caf\u{fffd} needle", "wide.txt:2:two needle"]
    );
    assert_eq!(
        found.matches.iter().map(|found| found.lossy).collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn files_that_are_not_searched_are_named_with_the_reason() {
    let large = "needle\n".repeat(10);
    let files: [(&str, &[u8]); 5] = [
        ("image.png", b"\x89PNG\0needle\n"),
        ("large.txt", large.as_bytes()),
        ("ok.txt", b"needle\n"),
        ("other.bin", b"\0"),
        (".gitignore", b"ignored.bin\n"),
    ];
    let request = GrepRequest {
        max_file_bytes: 50,
        exclude: vec!["*.bin".into()],
        ..grepping("needle")
    };
    let found = rooms_of_bytes(files).grep(&request);
    assert_eq!(lines(&found), ["ok.txt:1:needle"]);
    assert_eq!(
        skipped(&found),
        BTreeMap::from([("image.png", "binary"), ("large.txt", "too_large")])
    );
    assert_eq!(found.skipped_count, None);
}

#[test]
fn what_was_found_before_a_nul_counts_and_the_file_is_named() {
    let mut late = "needle\n".to_owned() + &"x".repeat(99).repeat(1_000) + "\n";
    late.extend(std::iter::repeat_n("filler\n", 40_000));
    late.push_str("\0\nneedle\n");
    let found = rooms(&[("late.bin", &late)]).grep(&grepping("needle"));
    assert_eq!(lines(&found), ["late.bin:1:needle"]);
    assert_eq!(skipped(&found), BTreeMap::from([("late.bin", "binary")]));
}

#[test]
fn special_files_and_names_that_are_not_utf8_are_named() {
    let rooms = rooms(&[("a.txt", "needle\n")]);
    let raw = rooms.dir.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&raw).unwrap();
    fs::write(raw.join("in.txt"), "needle\n").unwrap();
    let fifo = rooms.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    let [_, local, _] = rooms.workspaces();
    let found = block_on(local.grep(grepping("needle"))).unwrap();
    assert_eq!(lines(&found), ["a.txt:1:needle"]);
    assert_eq!(
        skipped(&found),
        BTreeMap::from([("caf\\xE9", "name_not_utf8"), ("pipe", "special_file")])
    );
}

#[test]
fn a_long_list_of_skipped_files_is_cut_and_counted() {
    let names: Vec<_> = (0..MAX_SKIPPED + 30).map(|n| format!("{n:05}.bin")).collect();
    let files = names.iter().map(|name| (name.as_str(), &b"\0"[..]));
    let found = rooms_of_bytes(files).grep(&grepping("x"));
    assert_eq!(found.skipped.len(), MAX_SKIPPED);
    assert_eq!(found.skipped_count, Some(MAX_SKIPPED as u64 + 30));
    assert_eq!(
        found.skipped[MAX_SKIPPED - 1].path,
        format!("{:05}.bin", MAX_SKIPPED - 1)
    );
}

#[test]
fn a_limit_gives_the_first_and_counts_all() {
    let content = "hit\n".repeat(3);
    let names: Vec<_> = (0..100).map(|n| format!("d{}/f{n:03}", n % 7)).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    let rooms = rooms(&files);
    let all = rooms.lines(&grepping("hit"));
    assert_eq!(all.len(), 300);
    for limit in [1, 2, 3, 4, 100, 299, 300, 301] {
        let found = rooms.grep(&GrepRequest {
            limit,
            ..grepping("hit")
        });
        assert_eq!(lines(&found), all[..limit.min(300)], "{limit}");
        assert_eq!((found.match_count, found.file_count), (300, 100));
        assert_eq!(found.truncated, limit < 300);
    }
    let page = GrepRequest {
        limit: 50,
        offset: 275,
        ..grepping("hit")
    };
    assert_eq!(rooms.lines(&page), all[275..]);
}

#[test]
fn a_limit_for_each_file_says_when_it_cut() {
    let rooms = rooms(&[("a", "x\nx\nx\n"), ("b", "x\nx\n")]);
    let limited = |max| {
        let found = rooms.grep(&GrepRequest {
            max_matches_per_file: Some(max),
            after: 1,
            ..grepping("x")
        });
        (lines(&found).len(), found.truncated)
    };
    assert_eq!(limited(1), (2, true));
    assert_eq!(limited(2), (4, true));
    assert_eq!(limited(3), (5, false));
}

#[test]
fn files_and_counts_are_other_forms_of_the_same_answer() {
    let rooms = poem();
    let ask = |output, limit| {
        rooms.grep(&GrepRequest {
            output,
            limit,
            ..grepping("beta")
        })
    };
    let files = ask(GrepOutput::Files, 10);
    assert_eq!(files.files.unwrap(), ["a/one.txt", "b.md"]);
    assert_eq!((files.match_count, files.matches.len(), files.truncated), (5, 0, false));
    let counts = ask(GrepOutput::Counts, 1);
    let (path, count) = ("a/one.txt".to_owned(), 2);
    assert_eq!(counts.counts.unwrap(), [FileCount { path, count }]);
    assert_eq!((counts.match_count, counts.file_count, counts.truncated), (5, 2, true));
}

#[test]
fn include_and_exclude_choose_the_files() {
    let rooms = rooms(&[
        ("a.rs", "x"),
        ("src/b.rs", "x"),
        ("src/gen/c.rs", "x"),
        ("src/d.md", "x"),
        ("vendor/e.rs", "x"),
    ]);
    let ask = |path: &str, include: &[&str], exclude: &[&str]| {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        let request = GrepRequest {
            path: path.into(),
            include: owned(include),
            exclude: owned(exclude),
            output: GrepOutput::Files,
            ..grepping("x")
        };
        rooms.grep(&request).files.unwrap()
    };
    assert_eq!(
        ask("", &["*.rs"], &[]),
        ["a.rs", "src/b.rs", "src/gen/c.rs", "vendor/e.rs"]
    );
    assert_eq!(ask("", &["*.rs"], &["vendor", "gen/"]), ["a.rs", "src/b.rs"]);
    assert_eq!(ask("", &["src/*.rs", "*.md"], &[]), ["src/b.rs", "src/d.md"]);
    assert_eq!(ask("src", &["gen/*"], &[]), ["src/gen/c.rs"]);
    assert_eq!(ask("", &[], &["src/**", "{a,e}.rs"]), [""; 0]);
    assert_eq!(ask("/a.rs", &["*.md"], &[]), ["a.rs"], "what is named is searched");
}

#[test]
fn a_file_that_is_named_is_searched_whatever_ignores_it() {
    let rooms = rooms(&[
        (".gitignore", "*.log\nout\n"),
        ("a.log", "x"),
        ("out/b.txt", "x"),
        ("out/c.log", "x"),
    ]);
    let at = |path: &str| {
        rooms.lines(&GrepRequest {
            path: path.into(),
            ..grepping("x")
        })
    };
    assert_eq!(at(""), [""; 0]);
    assert_eq!(at("a.log"), ["a.log:1:x"]);
    assert_eq!(at("out"), ["out/b.txt:1:x"], "the other rules still hold");
}

#[test]
fn results_end_where_their_room_does_and_say_so() {
    let wide = format!("{}\n", "x".repeat(1000)).repeat(50);
    let rooms = rooms(&[("a", &wide), ("b", &wide), ("c", "x\n")]);
    for context in [0, 3] {
        let request = GrepRequest {
            before: context,
            after: context,
            max_bytes: 80_000,
            ..grepping("x")
        };
        let found = rooms.grep(&request);
        assert_eq!(found.match_count, 101, "everything is counted");
        assert!(found.truncated);
        let kept = found.matches.len();
        assert!((5..=80).contains(&kept), "{kept}");
        assert!(found.matches[kept - 1].after.len() == context, "the last one is whole");
        let beyond = GrepRequest {
            offset: kept,
            ..request
        };
        for workspace in rooms.workspaces() {
            let error = block_on(workspace.grep(beyond.clone())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
        }
    }
}

#[test]
fn an_inverted_search_finds_the_lines_that_do_not_match() {
    let rooms = rooms(&[("f", "one\ntwo\nthree\ntwo\n"), ("g", "two\n")]);
    let request = GrepRequest {
        invert: true,
        ..grepping("two")
    };
    assert_eq!(rooms.lines(&request), ["f:1:one", "f:3:three"]);
    let counts = GrepRequest {
        output: GrepOutput::Counts,
        ..request.clone()
    };
    let counts = rooms.grep(&counts).counts.unwrap();
    let counts: Vec<_> = counts.iter().map(|file| (file.path.as_str(), file.count)).collect();
    assert_eq!(counts, [("f", 2)], "a file whose lines all match has none");
    let over_lines = GrepRequest {
        multiline: true,
        pattern: "two\nthree".into(),
        ..request
    };
    assert_eq!(rooms.lines(&over_lines), ["f:1:one", "f:4:two", "g:1:two"]);
}

#[test]
fn a_line_tells_where_its_matches_are_where_that_is_asked_for() {
    let rooms = rooms(&[("f", "a beta, a beta\r\nalpha\n")]);
    let request = GrepRequest {
        with_spans: true,
        ..grepping("beta")
    };
    assert_eq!(rooms.grep(&request).matches[0].spans, [2..6, 10..14]);
    assert!(rooms.grep(&grepping("beta")).matches[0].spans.is_empty());
}
