#![allow(clippy::disallowed_methods, reason = "the real git works on real files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use garret_core::{
    EntryKind, EntryPath, MergeInput, MergePoint, MergeSide, PathExpectation, PathImage, PlacedEntry, PutBatch,
};
use proptest::prelude::*;

use super::plan::{MergePlan, plan_merge};
use super::*;
use crate::history::testing::{TestEntry, TestFiles, changes, file, files, image, storage};
use crate::text::merge::{ConflictFavour, Labels, merge_texts};
use crate::{ConflictKind, ConflictSide};

/// One side of a merge: its files, and the moves that led to them.
#[derive(Debug, Clone, Default)]
struct Did {
    files: TestFiles,
    moves: Vec<(String, String)>,
}

impl Did {
    fn of(files: &TestFiles) -> Self {
        Self {
            files: files.clone(),
            moves: Vec::new(),
        }
    }

    fn moved<const N: usize>(mut self, moves: [(&str, &str); N]) -> Self {
        self.moves = moves.map(|(from, to)| (from.to_owned(), to.to_owned())).to_vec();
        self
    }
}

fn did<const N: usize>(all: [(&str, TestEntry); N]) -> Did {
    Did::of(&files(all))
}

fn text(lines: &[&str]) -> TestEntry {
    file(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn bytes(byte: u8) -> TestEntry {
    TestEntry::File(vec![0, byte], 0o644)
}

/// Returns the files with an entry for every directory.
fn with_directories(files: &TestFiles) -> TestFiles {
    let mut all = files.clone();
    for name in files.keys() {
        for (slash, _) in name.match_indices('/') {
            all.entry(name[..slash].to_owned()).or_insert(TestEntry::Directory);
        }
    }
    all
}

async fn side(name: &str, base: &TestFiles, did: &Did) -> MergeSide {
    let all = with_directories(&did.files);
    let path = |name: &String| EntryPath::from_bytes(name.clone().into_bytes());
    MergeSide {
        name: name.to_owned(),
        files: storage(&all).await,
        changes: changes(base, &all),
        moves: did.moves.iter().map(|(from, to)| (path(from), path(to))).collect(),
    }
}

async fn merging(base: &TestFiles, ours: &Did, theirs: &Did) -> MergeInput {
    let base = with_directories(base);
    MergeInput {
        ours: side("mine", &base, ours).await,
        theirs: side("try", &base, theirs).await,
        point: MergePoint {
            workspace: "other".into(),
            change: 7,
        },
        base: storage(&base).await,
    }
}

async fn planned(base: &TestFiles, ours: &Did, theirs: &Did, on_conflict: OnConflict) -> MergePlan {
    let merging = merging(base, ours, theirs).await;
    plan_merge(&merging, on_conflict, &|_| true).await.unwrap()
}

/// Applies `puts` to our files. Every expected entry must exist, and every entry must have its directory.
fn applied(ours: &TestFiles, all: &[&TestFiles], puts: &PutBatch) -> TestFiles {
    let mut found = with_directories(ours);
    let known: Vec<TestEntry> = all
        .iter()
        .flat_map(|files| with_directories(files).into_values())
        .collect();
    for put in &puts.puts {
        let name = put.path.display_path();
        assert_eq!(PathExpectation::Is(found.get(&name).map(image)), put.expected, "{name}");
        match &put.placed {
            PlacedEntry::Nothing => drop(found.remove(&name)),
            PlacedEntry::File { content, mode } => {
                let content = content.to_bytes().expect("it is at hand");
                drop(found.insert(name, TestEntry::File(content.to_vec(), *mode)));
            }
            PlacedEntry::Image(image) => drop(found.insert(name, thing(&known, image))),
            placed => panic!("a merge places no {placed:?}"),
        }
    }
    for name in found.keys() {
        if let Some((above, _)) = name.rsplit_once('/') {
            assert_eq!(found.get(above), Some(&TestEntry::Directory), "{name} has no directory");
        }
    }
    found
}

fn thing(known: &[TestEntry], wanted: &PathImage) -> TestEntry {
    let is_it = |thing: &&TestEntry| {
        let of = |image: &PathImage| (image.kind, image.content, image.target.clone());
        of(&image(thing)) == of(wanted)
    };
    match known.iter().find(is_it) {
        Some(TestEntry::File(content, _)) => TestEntry::File(content.clone(), wanted.mode),
        Some(other) => other.clone(),
        None => panic!("{wanted:?} was nowhere"),
    }
}

/// Returns the result of the merge, and the conflicts.
async fn merged(
    base: &TestFiles,
    ours: &Did,
    theirs: &Did,
    on_conflict: OnConflict,
) -> (TestFiles, Vec<(String, ConflictKind)>) {
    let plan = planned(base, ours, theirs, on_conflict).await;
    let conflicts = plan.conflicts.into_iter().map(|one| (one.path, one.kind)).collect();
    (
        applied(&ours.files, &[base, &ours.files, &theirs.files], &plan.puts),
        conflicts,
    )
}

/// Returns the result of a merge without conflicts, which must be the same in both directions.
async fn agreed(base: &TestFiles, ours: &Did, theirs: &Did) -> TestFiles {
    let (one, conflicts) = merged(base, ours, theirs, OnConflict::Report).await;
    assert_eq!(conflicts, []);
    let (other, conflicts) = merged(base, theirs, ours, OnConflict::Report).await;
    assert_eq!(conflicts, []);
    assert_eq!(one, other);
    one
}

fn clash(path: &str, kind: ConflictKind) -> Vec<(String, ConflictKind)> {
    vec![(path.to_owned(), kind)]
}

#[tokio::test]
async fn a_file_renamed_here_and_edited_there_is_renamed_and_edited() {
    let base = files([("a", text(&["1", "2", "3"]))]);
    let ours = did([("b", text(&["1", "2", "3"]))]).moved([("a", "b")]);
    let theirs = did([("a", text(&["1", "2", "three"]))]);
    assert_eq!(
        agreed(&base, &ours, &theirs).await,
        files([("b", text(&["1", "2", "three"]))])
    );
}

#[tokio::test]
async fn a_rename_with_an_edit_is_followed_by_the_journal_and_a_plain_one_by_content() {
    let base = files([("a", text(&["1", "2", "3"]))]);
    let theirs = did([("a", text(&["1", "2", "three"]))]);
    let edited = did([("b", text(&["one", "2", "3"]))]).moved([("a", "b")]);
    assert_eq!(
        agreed(&base, &edited, &theirs).await,
        files([("b", text(&["one", "2", "three"]))])
    );
    let unsaid = did([("b", text(&["1", "2", "3"]))]);
    assert_eq!(
        agreed(&base, &unsaid, &theirs).await,
        files([("b", text(&["1", "2", "three"]))])
    );
}

#[tokio::test]
async fn a_renamed_directory_takes_along_what_the_other_side_did_inside() {
    let base = files([("d/a", bytes(1)), ("d/b", bytes(2)), ("d/c", bytes(3))]);
    let ours = did([("e/a", bytes(1)), ("e/b", bytes(2)), ("e/c", bytes(3))]).moved([("d", "e")]);
    let theirs = did([("d/a", bytes(9)), ("d/f", bytes(3)), ("d/sub/new", bytes(4))]).moved([("d/c", "d/f")]);
    let expected = files([("e/a", bytes(9)), ("e/f", bytes(3)), ("e/sub/new", bytes(4))]);
    assert_eq!(agreed(&base, &ours, &theirs).await, with_directories(&expected));
}

#[tokio::test]
async fn what_both_did_alike_is_no_conflict() {
    let base = files([("a", text(&["1"])), ("gone", bytes(1)), ("old", bytes(2))]);
    let both = did([
        ("a", text(&["one"])),
        ("added", bytes(3)),
        ("dir/new", bytes(4)),
        ("new", bytes(2)),
    ])
    .moved([("old", "new")]);
    assert_eq!(agreed(&base, &both, &both).await, with_directories(&both.files));
}

#[tokio::test]
async fn modes_are_merged_apart_from_content() {
    let base = files([("a", text(&["1", "2", "3"])), ("b", bytes(1))]);
    let ours = did([
        ("a", TestEntry::File(b"1\n2\n3\n".to_vec(), 0o755)),
        ("b", TestEntry::File(vec![0, 1], 0o600)),
    ]);
    let theirs = did([("a", text(&["one", "2", "3"])), ("b", bytes(2))]);
    let expected = files([
        ("a", TestEntry::File(b"one\n2\n3\n".to_vec(), 0o755)),
        ("b", TestEntry::File(vec![0, 2], 0o600)),
    ]);
    assert_eq!(agreed(&base, &ours, &theirs).await, expected);
    let other = did([("a", TestEntry::File(b"1\n2\n3\n".to_vec(), 0o700)), ("b", bytes(1))]);
    let (found, conflicts) = merged(&base, &ours, &other, OnConflict::Theirs).await;
    assert_eq!(conflicts, clash("a", ConflictKind::Mode));
    assert_eq!(found["a"], TestEntry::File(b"1\n2\n3\n".to_vec(), 0o700));
}

#[tokio::test]
async fn a_text_that_both_changed_is_a_conflict_with_all_three_versions() {
    let base = files([("a", text(&["1", "2", "3"]))]);
    let (ours, theirs) = (
        did([("a", text(&["1", "two", "3"]))]),
        did([("a", text(&["1", "zwei", "3"]))]),
    );
    let conflicts = planned(&base, &ours, &theirs, OnConflict::Report).await.conflicts;
    let [conflict] = conflicts.as_slice() else {
        panic!("{conflicts:?}")
    };
    assert_eq!(
        (conflict.path.as_str(), conflict.kind, conflict.hunks),
        ("a", ConflictKind::Content, 1)
    );
    let shown = |side: &Option<ConflictSide>| side.as_ref().unwrap().text.clone().unwrap();
    assert_eq!(shown(&conflict.base), "1\n2\n3\n");
    assert_eq!(shown(&conflict.ours), "1\ntwo\n3\n");
    assert_eq!(shown(&conflict.theirs), "1\nzwei\n3\n");
    let (found, _) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    let expected = "1\n<<<<<<< mine\ntwo\n||||||| base\n2\n=======\nzwei\n>>>>>>> try\n3\n";
    assert_eq!(found["a"], file(expected));
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Ours).await.0, ours.files);
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Theirs).await.0, theirs.files);
}

#[tokio::test]
async fn a_binary_file_that_both_changed_keeps_both_side_by_side() {
    let base = files([("a", bytes(1))]);
    let (ours, theirs) = (did([("a", bytes(2))]), did([("a", bytes(3)), ("a~try", bytes(9))]));
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("a", ConflictKind::Content));
    assert_eq!(
        found,
        files([("a", bytes(2)), ("a~try", bytes(9)), ("a~try~1", bytes(3))])
    );
}

#[tokio::test]
async fn what_one_deleted_and_the_other_changed_stays_where_both_are_asked_for() {
    let base = files([("a", bytes(1)), ("b", bytes(2))]);
    let (ours, theirs) = (did([("b", bytes(3))]), did([("a", bytes(4))]));
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    let expected = [
        ("a".to_owned(), ConflictKind::DeletedByUs),
        ("b".to_owned(), ConflictKind::DeletedByThem),
    ];
    assert_eq!(conflicts, expected);
    assert_eq!(found, files([("a", bytes(4)), ("b", bytes(3))]));
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Ours).await.0, ours.files);
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Theirs).await.0, theirs.files);
}

#[tokio::test]
async fn a_file_with_two_new_names_keeps_ours_and_one_that_was_deleted_its_new_one() {
    let base = files([("a", bytes(1))]);
    let ours = did([("b", bytes(1))]).moved([("a", "b")]);
    let theirs = did([("c", bytes(1))]).moved([("a", "c")]);
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("b", ConflictKind::RenameRename));
    assert_eq!(found, ours.files);
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Theirs).await.0, theirs.files);
    let (found, conflicts) = merged(&base, &ours, &Did::default(), OnConflict::Markers).await;
    assert_eq!(conflicts, clash("b", ConflictKind::RenameDelete));
    assert_eq!(found, ours.files);
}

#[tokio::test]
async fn two_files_at_one_new_path_are_merged_as_if_they_began_empty() {
    let (ours, theirs) = (did([("a", text(&["1"]))]), did([("a", text(&["2"]))]));
    let (found, conflicts) = merged(&TestFiles::new(), &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("a", ConflictKind::BothAdded));
    assert_eq!(
        found["a"],
        file("<<<<<<< mine\n1\n||||||| base\n=======\n2\n>>>>>>> try\n")
    );
}

#[tokio::test]
async fn two_files_that_were_renamed_to_one_path_stand_side_by_side() {
    let base = files([("a", bytes(1)), ("b", bytes(2))]);
    let ours = did([("b", bytes(2)), ("c", bytes(1))]).moved([("a", "c")]);
    let theirs = did([("a", bytes(1)), ("c", bytes(2))]).moved([("b", "c")]);
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("c", ConflictKind::BothAdded));
    assert_eq!(found, files([("c", bytes(1)), ("c~try", bytes(2))]));
}

#[tokio::test]
async fn a_directory_where_the_other_has_a_file_goes_beside_it_with_everything_inside() {
    let (ours, theirs) = (did([("x", bytes(1))]), did([("x/y", bytes(2)), ("x/z/w", bytes(3))]));
    let (found, conflicts) = merged(&TestFiles::new(), &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("x", ConflictKind::DirectoryFile));
    let expected = files([("x", bytes(1)), ("x~try/y", bytes(2)), ("x~try/z/w", bytes(3))]);
    assert_eq!(found, with_directories(&expected));
    assert_eq!(
        merged(&TestFiles::new(), &ours, &theirs, OnConflict::Ours).await.0,
        ours.files
    );
    let (found, _) = merged(&TestFiles::new(), &ours, &theirs, OnConflict::Theirs).await;
    assert_eq!(found, with_directories(&theirs.files));
}

#[tokio::test]
async fn a_file_that_one_changed_and_the_other_made_a_link_is_a_conflict_of_types() {
    let base = files([("a", bytes(1))]);
    let (ours, theirs) = (did([("a", bytes(2))]), did([("a", TestEntry::Link("b".into()))]));
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("a", ConflictKind::Type));
    assert_eq!(found, files([("a", bytes(2)), ("a~try", TestEntry::Link("b".into()))]));
    assert_eq!(merged(&base, &ours, &theirs, OnConflict::Theirs).await.0, theirs.files);
    let untouched = Did::of(&base);
    assert_eq!(agreed(&base, &untouched, &theirs).await, theirs.files);
}

#[tokio::test]
async fn directories_moved_into_each_other_stay_where_ours_are() {
    let base = files([("a/x", bytes(1)), ("b/y", bytes(2))]);
    let ours = did([("b/a/x", bytes(1)), ("b/y", bytes(2))]).moved([("a", "b/a")]);
    let theirs = did([("a/x", bytes(1)), ("a/b/y", bytes(2))]).moved([("b", "a/b")]);
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert!(
        conflicts.iter().all(|(_, kind)| *kind == ConflictKind::RenameRename),
        "{conflicts:?}"
    );
    assert_eq!(found, with_directories(&ours.files));
}

#[tokio::test]
async fn a_deleted_directory_stays_for_what_the_other_side_added_in_it() {
    let base = files([("d/a", bytes(1)), ("d/b", bytes(2))]);
    let theirs = did([("d/a", bytes(1)), ("d/b", bytes(2)), ("d/new", bytes(3))]);
    let found = agreed(&base, &Did::default(), &theirs).await;
    assert_eq!(found, with_directories(&files([("d/new", bytes(3))])));
}

#[tokio::test]
async fn names_that_were_swapped_stay_swapped_and_take_the_edits_along() {
    let base = files([("a", text(&["1", "2", "3"])), ("b", bytes(2))]);
    let swap = [("a", "t"), ("b", "a"), ("t", "b")];
    let ours = did([("b", text(&["1", "2", "3"])), ("a", bytes(2))]).moved(swap);
    let theirs = did([("a", text(&["1", "2", "three"])), ("b", bytes(3))]);
    let expected = files([("b", text(&["1", "2", "three"])), ("a", bytes(3))]);
    assert_eq!(agreed(&base, &ours, &theirs).await, expected);
}

#[tokio::test]
async fn the_moves_of_swapped_names_go_by_way_of_names_that_can_be() {
    let base = files([("a", bytes(1)), ("b", bytes(2)), (".garret-merging-1", bytes(3))]);
    let circle = [
        ("a", "t"),
        ("b", "a"),
        (".garret-merging-1", "b"),
        ("t", ".garret-merging-1"),
    ];
    let theirs = did([("a", bytes(2)), ("b", bytes(3)), (".garret-merging-1", bytes(1))]).moved(circle);
    let plan = planned(&base, &Did::of(&base), &theirs, OnConflict::Report).await;
    assert!(
        plan.puts
            .moves
            .iter()
            .all(|(from, to)| from.as_path().is_some() && to.as_path().is_some())
    );
    let shown: Vec<_> = plan
        .puts
        .moves
        .iter()
        .map(|(from, to)| (from.display_path(), to.display_path()))
        .collect();
    let find = |from: &str| shown.iter().find(|(one, _)| one == from).expect("it moves").1.clone();
    for (from, to) in [("a", ".garret-merging-1"), ("b", "a"), (".garret-merging-1", "b")] {
        let between = find(from);
        assert!(
            !["a", "b", ".garret-merging-1"].contains(&between.as_str()),
            "{between}"
        );
        assert_eq!(find(&between), to);
    }
}

#[tokio::test]
async fn a_place_that_neither_side_spoke_of_is_not_taken() {
    let base = files([("d/f", bytes(1)), ("e/g", bytes(2))]);
    let ours = did([("e/f", bytes(1)), ("e/g", bytes(2))]).moved([("d/f", "e/f")]);
    let theirs = did([("d/g", bytes(1)), ("e/g", bytes(2))]).moved([("d/f", "d/g")]);
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts, clash("e/g", ConflictKind::BothAdded));
    assert_eq!(found["e/g"], bytes(2));
    assert_eq!(found["e/g~try"], bytes(1));
}

#[tokio::test]
async fn what_stands_beside_a_long_name_has_one_that_a_file_system_takes() {
    let (one, other) = (format!("{}1", "é".repeat(126)), format!("{}2", "é".repeat(126)));
    let both = |byte: u8| files([(one.as_str(), bytes(byte)), (other.as_str(), bytes(byte + 1))]);
    let (base, ours, theirs) = (both(1), Did::of(&both(3)), Did::of(&both(5)));
    let (found, conflicts) = merged(&base, &ours, &theirs, OnConflict::Markers).await;
    assert_eq!(conflicts.len(), 2);
    let new: Vec<_> = found.iter().filter(|(name, _)| !base.contains_key(*name)).collect();
    let names: Vec<_> = new.iter().map(|(name, _)| name.as_str()).collect();
    let cut = |length: usize, ending: &str| format!("{}{ending}", "é".repeat(length));
    assert_eq!(names, [cut(124, "~try~1"), cut(125, "~try")]);
    let contents: BTreeSet<_> = new.iter().map(|(_, thing)| format!("{thing:?}")).collect();
    assert_eq!(contents.len(), 2, "both are there");
}

#[tokio::test]
async fn a_merge_makes_no_path_that_no_tool_can_open() {
    let deep = vec!["y".repeat(200); 12].join("/");
    let (short, long) = ("d/f".to_owned(), format!("{}/f", vec!["x".repeat(200); 12].join("/")));
    let base = files([(short.as_str(), bytes(1))]);
    let top = long.trim_end_matches("/f");
    let ours = did([(long.as_str(), bytes(1))]).moved([("d", top)]);
    let added = format!("d/{deep}");
    let theirs = did([(short.as_str(), bytes(1)), (added.as_str(), bytes(2))]);
    let merging = merging(&base, &ours, &theirs).await;
    for on_conflict in [OnConflict::Report, OnConflict::Markers, OnConflict::Theirs] {
        let error = plan_merge(&merging, on_conflict, &|_| true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.path().is_some_and(|path| path.starts_with(top)), "{error}");
    }
}

#[tokio::test]
async fn the_moves_of_a_merge_name_a_directory_once() {
    let base = files([("d/a", bytes(1)), ("d/b", bytes(2))]);
    let theirs = did([("e/a", bytes(1)), ("e/b", bytes(2))]).moved([("d", "e")]);
    let puts = planned(&base, &Did::of(&base), &theirs, OnConflict::Report).await.puts;
    let path = |name: &str| EntryPath::from_bytes(name.as_bytes().to_vec());
    assert_eq!(puts.moves, [(path("d"), path("e"))]);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Returns the text with single lines replaced or removed.
fn edited(base: &[String], edits: &BTreeMap<usize, Option<String>>) -> String {
    let line = |(at, line): (usize, &String)| match edits.get(&at) {
        None => line.clone(),
        Some(None) => String::new(),
        Some(Some(other)) => other.clone(),
    };
    base.iter().enumerate().map(line).collect()
}

fn edits() -> impl Strategy<Value = BTreeMap<usize, Option<String>>> {
    let instead = prop::option::of(prop::sample::select(vec!["X\n", "Y\n", "X\nY\n"]).prop_map(str::to_owned));
    prop::collection::btree_map(0..20_usize, instead, 0..5)
}

/// Returns the result of `git merge-file`; `None` if it finds a conflict.
fn git_merged(base: &str, ours: &str, theirs: &str) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("base", base), ("ours", ours), ("theirs", theirs)] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let output = Command::new("git")
        .current_dir(directory.path())
        .args(["merge-file", "-p", "ours", "base", "theirs"])
        .output()
        .expect("git is installed");
    output.status.success().then_some(output.stdout)
}

/// Generates the variant that a side has at each of some paths.
fn variants() -> impl Strategy<Value = [u8; 8]> {
    prop::array::uniform8(prop_oneof![3 => Just(0_u8), 1 => 1..4_u8])
}

const NAMES: [&str; 8] = ["a", "b", "c/d", "c/e", "c/f/g", "h/i", "j", "k"];

/// Returns the files of a tree whose contents name their path and variant; variant 3 is no file.
fn tree(base: [u8; 8], side: [u8; 8]) -> TestFiles {
    let thing = |index: usize| match (base[index], side[index]) {
        (_, 3) | (3, 0) => None,
        (began, 0) => Some(TestEntry::File(vec![0, index as u8, began], 0o644)),
        (_, changed) => Some(TestEntry::File(vec![0, index as u8, 10 + changed], 0o644)),
    };
    let all = NAMES
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some(((*name).to_owned(), thing(index)?)));
    all.collect()
}

/// Generates a side. Trees share contents, names and directories, so that every kind of conflict can occur.
fn wild_tree() -> impl Strategy<Value = Did> {
    let names = prop::sample::select(vec!["a", "b", "a/x", "a/y", "b/x", "c", "c/d/e", "c/d"]);
    let thing = prop_oneof![
        4 => (0..4_u8, prop::sample::select(vec![0o644_u32, 0o755])).prop_map(|(byte, mode)| TestEntry::File(format!("1\n{byte}\n3\n").into_bytes(), mode)),
        2 => (0..3_u8).prop_map(bytes),
        1 => prop::sample::select(vec!["a", "b"]).prop_map(|target| TestEntry::Link(target.to_owned())),
        1 => Just(TestEntry::Directory),
    ];
    let moves = prop::collection::vec((names.clone(), names.clone()), 0..3);
    (
        prop::collection::btree_map(names.prop_map(str::to_owned), thing, 0..6),
        moves,
    )
        .prop_map(|(files, moves)| Did {
            files: fitting(files),
            moves: moves
                .into_iter()
                .map(|(from, to)| (from.to_owned(), to.to_owned()))
                .collect(),
        })
}

/// Removes entries that would be inside a file or link.
fn fitting(files: TestFiles) -> TestFiles {
    let is_inside = |name: &String| {
        let mut above = name.match_indices('/').map(|(slash, _)| &name[..slash]);
        above.any(|above| files.get(above).is_some_and(|thing| *thing != TestEntry::Directory))
    };
    let inside: BTreeSet<String> = files.keys().filter(|name| is_inside(name)).cloned().collect();
    with_directories(&files.into_iter().filter(|(name, _)| !inside.contains(name)).collect())
}

/// Returns the parts of an entry that must not be lost: the lines of a text, any other entry as a whole.
fn pieces(thing: &TestEntry) -> Vec<Vec<u8>> {
    match thing {
        TestEntry::File(content, _) if content.first() == Some(&0) => vec![content.clone()],
        TestEntry::File(content, _) => content
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect(),
        TestEntry::Link(target) => vec![target.clone().into_bytes()],
        TestEntry::Directory => Vec::new(),
    }
}

fn mirrored(kind: ConflictKind) -> ConflictKind {
    match kind {
        ConflictKind::DeletedByUs => ConflictKind::DeletedByThem,
        ConflictKind::DeletedByThem => ConflictKind::DeletedByUs,
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn texts_are_merged_as_git_merges_them(ours in edits(), theirs in edits()) {
        let base: Vec<String> = (0..20).map(|line| format!("line {line}\n")).collect();
        let (ours, theirs, base) = (edited(&base, &ours), edited(&base, &theirs), base.concat());
        let labels = Labels { ours: "a", base: "b", theirs: "c" };
        let found = merge_texts(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), ConflictFavour::Markers(labels));
        let by_git = git_merged(&base, &ours, &theirs);
        prop_assert_eq!(Some(found.text).filter(|_| found.conflicts == 0), by_git);
    }

    #[test]
    fn trees_are_merged_path_by_path(base in variants(), ours in variants(), theirs in variants()) {
        let runtime = runtime();
        let began = tree(base, [0; 8]);
        let (one, other) = (tree(base, ours), tree(base, theirs));
        let mut expected = TestFiles::new();
        let mut conflicts = BTreeSet::new();
        for name in NAMES {
            let (old, one, other) = (began.get(name), one.get(name), other.get(name));
            let picked = if one == other || old == other { one } else if old == one { other } else {
                conflicts.insert(name.to_owned());
                one
            };
            expected.extend(picked.map(|thing| (name.to_owned(), thing.clone())));
        }
        let (found, clashes) = runtime.block_on(merged(&began, &Did::of(&one), &Did::of(&other), OnConflict::Ours));
        let files = |files: &TestFiles| files.iter().filter(|(_, thing)| **thing != TestEntry::Directory).map(|(name, thing)| (name.clone(), thing.clone())).collect::<TestFiles>();
        prop_assert_eq!(files(&found), expected);
        let clashing: BTreeSet<String> = clashes.into_iter().map(|(path, _)| path).collect();
        prop_assert_eq!(clashing, conflicts);
    }

    #[test]
    fn where_only_one_side_did_something_that_is_the_result(base in wild_tree(), did in wild_tree()) {
        let runtime = runtime();
        let untouched = Did::of(&base.files);
        let (found, conflicts) = runtime.block_on(merged(&base.files, &untouched, &did, OnConflict::Report));
        prop_assert_eq!(conflicts, vec![]);
        prop_assert_eq!(&found, &did.files);
        let plan = runtime.block_on(planned(&base.files, &did, &untouched, OnConflict::Report));
        prop_assert_eq!(plan.conflicts, vec![]);
        prop_assert_eq!(plan.puts.puts, vec![]);
    }

    #[test]
    fn whatever_was_asked_for_comes_to_a_tree_that_fits(base in wild_tree(), ours in wild_tree(), theirs in wild_tree()) {
        let runtime = runtime();
        for on_conflict in [OnConflict::Markers, OnConflict::Ours, OnConflict::Theirs] {
            let (found, conflicts) = runtime.block_on(merged(&base.files, &ours, &theirs, on_conflict));
            prop_assert!(found.values().all(|thing| image(thing).kind != EntryKind::Other));
            let (again, repeated) = runtime.block_on(merged(&base.files, &ours, &theirs, on_conflict));
            prop_assert_eq!((found, conflicts), (again, repeated));
        }
    }

    #[test]
    fn with_markers_nothing_that_a_side_wrote_is_lost(base in wild_tree(), ours in wild_tree(), theirs in wild_tree()) {
        let (found, _) = runtime().block_on(merged(&base.files, &ours, &theirs, OnConflict::Markers));
        let pieces = |files: &TestFiles| files.values().flat_map(pieces).collect::<BTreeSet<_>>();
        let written: BTreeSet<_> = pieces(&ours.files).union(&pieces(&theirs.files)).cloned().collect();
        let kept: BTreeSet<_> = pieces(&base.files).union(&pieces(&found)).cloned().collect();
        prop_assert!(written.is_subset(&kept), "{:?} is lost", written.difference(&kept).collect::<Vec<_>>());
    }

    #[test]
    fn both_sides_see_the_same_conflicts(base in variants(), ours in variants(), theirs in variants()) {
        let runtime = runtime();
        let began = tree(base, [0; 8]);
        let (one, other) = (Did::of(&tree(base, ours)), Did::of(&tree(base, theirs)));
        let (_, here) = runtime.block_on(merged(&began, &one, &other, OnConflict::Report));
        let (_, there) = runtime.block_on(merged(&began, &other, &one, OnConflict::Report));
        let there: Vec<_> = there.into_iter().map(|(path, kind)| (path, mirrored(kind))).collect();
        prop_assert_eq!(here, there);
    }
}
