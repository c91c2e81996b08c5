//! The same answer as the `rg` program gives with `--hidden --no-require-git -g '!.git'`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use garret_workspace::{GrepOutput, GrepRequest};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::search::support::{Rooms, grepping, rooms_of_bytes};

const DEFAULTS: [&str; 7] = [
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--glob=!.git",
    "--json",
];

/// Path, number of the first line, and text of each match, in order.
type Matches = Vec<(String, u64, String)>;

fn rg(dir: &Path, arguments: &[&str]) -> Matches {
    let mut command = Command::new("rg");
    command.current_dir(dir).args(DEFAULTS).args(arguments);
    let output = command
        .output()
        .expect("the tests need ripgrep; see scripts/setup-tests");
    assert!(
        output.status.code() != Some(2),
        "rg {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let mut matches: Matches = text.lines().filter_map(rg_match).collect();
    matches.sort();
    matches
}

fn rg_match(line: &str) -> Option<(String, u64, String)> {
    let message: serde_json::Value = serde_json::from_str(line).unwrap();
    let data = &message["data"];
    let path = data["path"]["text"].as_str()?;
    let text = data["lines"]["text"].as_str()?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let number = data["line_number"].as_u64()?;
    (message["type"] == "match").then(|| (path.trim_start_matches("./").to_owned(), number, line.to_owned()))
}

fn garret(rooms: &Rooms, request: &GrepRequest) -> Matches {
    let found = rooms.grep(request).matches.into_iter();
    let mut matches: Matches = found.map(|found| (found.path, found.line_number, found.line)).collect();
    let in_order = matches.clone();
    matches.sort();
    assert_eq!(matches, in_order, "by path, then by line");
    matches
}

fn tree() -> Rooms {
    let wide: Vec<u8> = "\u{feff}foo wide\nbar\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let long = "x".repeat(200_000) + "foo\n";
    let files: Vec<(&str, &[u8])> = vec![
        ("a file.txt", b"foo\nbar foo\nFOO\nfood\n"),
        (".hidden/x.txt", b"foo hidden\n"),
        (".git/HEAD", b"foo\n"),
        (".git/info/exclude", b"excluded.txt\n"),
        ("excluded.txt", b"foo\n"),
        (".gitignore", b"*.log\n!important.log\n/top\nbuild/\n"),
        ("important.log", b"foo important\n"),
        ("debug.log", b"foo debug\n"),
        ("top", b"foo top\n"),
        ("sub/top", b"foo sub top\n"),
        ("sub/.gitignore", b"*.txt\n!keep.txt\n"),
        ("sub/keep.txt", b"foo keep\n"),
        ("sub/drop.txt", b"foo drop\n"),
        ("sub/important.log", b"foo\n"),
        ("sub/build/x", b"foo build\n"),
        ("sub/deep/.ignore", b"!debug.log\nz*\n"),
        ("sub/deep/debug.log", b"foo kept by .ignore\n"),
        ("sub/deep/zzz", b"foo\n"),
        ("inner/.git/HEAD", b""),
        ("inner/debug.log", b"foo in an inner repository\n"),
        ("inner/build/x", b"foo in an inner repository\n"),
        ("crlf.txt", b"foo one\r\nbar\r\nfoo two\r\n\r\n"),
        ("no-newline.txt", b"bar\nfoo at the end"),
        ("empty.txt", b""),
        ("binary.dat", b"foo\0foo\n"),
        ("wide.txt", &wide),
        ("long.txt", long.as_bytes()),
        ("$(touch x)", b"foo\n"),
        ("-rf", b"foo\n"),
    ];
    rooms_of_bytes(files)
}

#[test]
fn a_tree_with_every_peculiarity_gives_the_same_matches() {
    let rooms = tree();
    type Change = fn(&mut GrepRequest);
    let cases: Vec<(&str, &[&str], Change)> = vec![
        ("foo", &[], |_| {}),
        ("^foo", &[], |_| {}),
        ("foo$", &[], |_| {}),
        ("two\\r$", &[], |_| {}),
        ("", &[], |_| {}),
        ("fo{2}|b[a-z]r", &[], |_| {}),
        ("foo", &["-i"], |request| request.ignore_case = true),
        ("foo", &["-S"], |request| request.smart_case = true),
        ("Foo", &["-S"], |request| request.smart_case = true),
        ("foo", &["-w"], |request| request.whole_word = true),
        ("o.", &["-F"], |request| request.literal = true),
        ("foo", &["-m1"], |request| request.max_matches_per_file = Some(1)),
        ("foo", &["-t", "txt"], |request| request.include = vec!["*.txt".into()]),
        ("foo", &["-g", "!sub"], |request| request.exclude = vec!["sub".into()]),
        ("foo", &["--no-ignore"], |request| request.include_ignored = true),
        ("foo", &["--no-hidden"], |request| request.hidden = false),
        ("foo\\n", &["-U"], |request| request.multiline = true),
        ("bar\\s+foo", &["-U"], |request| request.multiline = true),
    ];
    for (pattern, flags, change) in cases {
        let mut request = grepping(pattern);
        change(&mut request);
        let arguments = [flags, &["-e", pattern, "."]].concat();
        assert_same(&rooms, &request, &arguments);
    }
}

/// Compares line by line, because rg joins neighbouring matches of `-U` into one.
fn assert_same(rooms: &Rooms, request: &GrepRequest, arguments: &[&str]) {
    let ours = by_line(garret(rooms, request));
    let theirs = by_line(rg(rooms.dir.path(), arguments));
    assert_eq!(ours, theirs, "rg {arguments:?}");
}

fn by_line(matches: Matches) -> Matches {
    let lines = |(path, number, text): (String, u64, String)| {
        let numbered = text.split('\n').zip(number..);
        let lines = numbered.map(|(line, number)| (path.clone(), number, brief(line.trim_end_matches('\r'))));
        lines.collect::<Vec<_>>()
    };
    let mut all: Matches = matches.into_iter().flat_map(lines).collect();
    all.dedup();
    all
}

/// A long line by its length, so that a difference can be read.
fn brief(line: &str) -> String {
    match line.len() {
        0..200 => line.to_owned(),
        length => format!("{length} bytes"),
    }
}

#[test]
fn counts_are_those_of_rg() {
    let rooms = tree();
    let request = GrepRequest {
        output: GrepOutput::Counts,
        ..grepping("foo")
    };
    let counted = rooms.grep(&request).counts.unwrap();
    let ours: BTreeMap<_, _> = counted.into_iter().map(|file| (file.path, file.count)).collect();
    let mut theirs = BTreeMap::new();
    for (path, ..) in rg(rooms.dir.path(), &["foo", "."]) {
        *theirs.entry(path).or_insert(0) += 1;
    }
    assert_eq!(ours, theirs);
}

/// Files by path; where two cannot be together, the first in order is there.
fn trees() -> impl Strategy<Value = BTreeMap<String, String>> {
    let names = vec!["a", "b", "src", "x y", ".h", "build", "c.txt", "d.log", "e.rs"];
    let path = prop::collection::vec(select(names), 1..4).prop_map(|parts| parts.join("/"));
    let words = vec!["foo", "bar", "food", "Foo bar", "", "x foo", "\r", "oo\r"];
    let content = prop::collection::vec(select(words), 0..5).prop_map(|lines| lines.join("\n"));
    let rules = vec![
        "*.log", "!d.log", "/build", "build/", "src/*.rs", "**/x y", "a/b", "!a", "b", "*", "!*.txt", "!*/", "/*/b",
    ];
    let count = rules.len();
    let rules = subsequence(rules, 0..count.min(4))
        .prop_shuffle()
        .prop_map(|lines| lines.join("\n"));
    let directory = select(vec!["", "a/", "src/", "a/b/", "build/"]);
    let rule_file = (
        directory.clone(),
        select(vec![".gitignore", ".ignore", ".git/info/exclude"]),
        rules,
    )
        .prop_map(|(directory, name, rules)| (format!("{directory}{name}"), rules));
    (
        prop::collection::btree_map(path, content, 1..25),
        prop::collection::btree_map(0..6u8, rule_file, 0..4),
    )
        .prop_map(|(files, rules)| together(files.into_iter().chain(rules.into_values())))
}

fn together(files: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for (path, content) in files {
        let is_below = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
        if !kept
            .keys()
            .any(|other| is_below(other, &path) || is_below(&path, other))
        {
            kept.insert(path, content);
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_and_patterns_give_the_same_matches(
        files in trees(),
        pattern in select(vec!["foo", "ba.", "^x", "o+$", "(?i)FOO", r"\bbar\b", "", "o\\r"]),
        flag in select(vec!["", "-i", "-w", "--no-ignore", "--no-hidden"]),
    ) {
        let rooms = rooms_of_bytes(files.iter().map(|(path, content)| (path.as_str(), content.as_bytes())));
        let request = GrepRequest {
            ignore_case: flag == "-i",
            whole_word: flag == "-w",
            include_ignored: flag == "--no-ignore",
            hidden: flag != "--no-hidden",
            ..grepping(pattern)
        };
        let flags: &[&str] = if flag.is_empty() { &[] } else { &[flag] };
        assert_same(&rooms, &request, &[flags, &["-e", pattern, "."]].concat());
    }
}
