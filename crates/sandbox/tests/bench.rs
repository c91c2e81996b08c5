//! Benches: a checkout that follows a journal, and a directory that is its own bench.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(clippy::disallowed_methods, reason = "a bench is looked at as a command sees it")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::layers::{Layers, is_root, is_somebody, run_in, tree};
use garret_core::{
    Batch, Bench, Clock, Durability, Effect, Exclusions, History, HistoryMode, LayerOutcome, MemoryStorage, Mutation,
    NewBranch, OpenContext, Origin, PathExpectation, PathPut, PlacedEntry, Point, PutBatch, RandomIds, Storage,
    SystemClock, WsPath,
};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};
use garret_sandbox::bench::{CheckoutBench, CheckoutOptions, DirectoryBench, DirectoryOptions};

struct Room {
    files: Arc<DepotWorkspace>,
    depot: Depot,
    cache: tempfile::TempDir,
}

impl Room {
    async fn new() -> Self {
        let context = OpenContext {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            history: HistoryMode::Durable,
        };
        let options = DepotOptions {
            durability: Durability::Relaxed,
            ..DepotOptions::default()
        };
        let depot = Depot::in_memory(options, context).unwrap();
        let files = Arc::new(depot.create(NewWorkspace::named("room")).await.unwrap());
        Self {
            files,
            depot,
            cache: tempfile::tempdir().unwrap(),
        }
    }

    fn bench(&self, exclude: &[&str]) -> CheckoutBench {
        bench_of(&self.files, &self.cache.path().join("bench"), exclude)
    }

    fn root(&self) -> PathBuf {
        self.cache.path().join("bench/tree")
    }

    fn home(&self, name: &str) -> PathBuf {
        self.cache.path().join("bench").join(name)
    }

    async fn apply(&self, mutations: Vec<Mutation>) {
        let batch = Batch {
            mutations,
            ..Batch::default()
        };
        self.files.apply(batch).await.unwrap();
    }

    async fn write(&self, name: &str, content: &'static str) {
        self.apply(vec![Mutation::write(path(name), content)]).await;
    }

    /// Makes a change of what a layer left, as a workspace does.
    async fn commit(&self, effects: &[Effect], head: u64) -> u64 {
        let put = |effect: &Effect| PathPut {
            path: effect.path.clone(),
            expected: PathExpectation::UnchangedSince {
                change: head,
                at: SystemClock::default().now(),
            },
            placed: effect.placed.clone(),
        };
        let puts = PutBatch {
            puts: effects.iter().map(put).collect(),
            ..PutBatch::default()
        };
        let change = self.files.put(puts, Origin::default()).await.unwrap();
        change.map_or(head, |change| change.number)
    }
}

fn bench_of(files: &Arc<DepotWorkspace>, directory: &Path, exclude: &[&str]) -> CheckoutBench {
    let options = CheckoutOptions {
        directory: directory.to_owned(),
        files: files.clone(),
        history: Some(files.clone()),
        exclude: exclude.iter().map(|glob| (*glob).to_owned()).collect(),
    };
    CheckoutBench::new(options).unwrap()
}

fn path(text: &str) -> WsPath {
    WsPath::parse(text).unwrap()
}

fn remove(name: &str) -> Mutation {
    Mutation::Remove {
        path: path(name),
        recursive: true,
        precondition: garret_core::Precondition::Any,
    }
}

fn mode(name: &str, mode: u32) -> Mutation {
    Mutation::SetMode { path: path(name), mode }
}

fn make(name: &str) -> Mutation {
    Mutation::MakeDir {
        path: path(name),
        parents: true,
    }
}

fn symlink(name: &str, target: &str) -> Mutation {
    Mutation::Symlink {
        path: path(name),
        target: target.to_owned(),
    }
}

/// What is in a directory, in words.
fn shown(root: &Path) -> BTreeMap<String, String> {
    let text = |(path, node): (Vec<u8>, String)| (String::from_utf8_lossy(&path).into_owned(), node);
    tree(root).into_iter().map(text).collect()
}

fn expect(root: &Path, expected: &[(&str, &str)]) {
    let expected = expected
        .iter()
        .map(|(path, node)| ((*path).to_owned(), (*node).to_owned()));
    assert_eq!(shown(root), expected.collect());
}

fn inode(path: PathBuf) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_holds_what_the_workspace_holds() {
    let room = Room::new().await;
    let large = vec![7; 3 * 1024 * 1024 + 5];
    room.apply(vec![
        Mutation::write(path("src/a"), "a"),
        mode("src/a", 0o750),
        make("empty"),
        mode("empty", 0o700),
        symlink("link", "src/a"),
        Mutation::write(path("new\nline and space"), "n"),
        Mutation::write(path("none"), ""),
        Mutation::write(path("large"), large.clone()),
    ])
    .await;
    let state = room.bench(&[]).bring_up_to_date().await.unwrap();
    assert_eq!((state.root.clone(), state.head), (room.root(), 1));
    assert!(state.scratch.is_dir());
    assert_eq!(fs::read(room.root().join("large")).unwrap(), large);
    fs::remove_file(room.root().join("large")).unwrap();
    let expected = [
        ("empty", "directory 700"),
        ("link", "link \"src/a\""),
        ("new\nline and space", "file 644 \"n\""),
        ("none", "file 644 \"\""),
        ("src", "directory 755"),
        ("src/a", "file 750 \"a\""),
    ];
    expect(&room.root(), &expected);
    assert_eq!(
        fs::metadata(room.home("")).unwrap().mode() & 0o777,
        0o700,
        "nobody else looks into it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_is_written_again() {
    let room = Room::new().await;
    room.apply(vec![
        Mutation::write(path("kept"), "k"),
        Mutation::write(path("changed"), "1"),
        Mutation::write(path("gone/deep/x"), "x"),
        Mutation::write(path("was-directory/in"), "x"),
        Mutation::write(path("was-file"), "x"),
        symlink("link", "kept"),
    ])
    .await;
    let bench = room.bench(&[]);
    bench.bring_up_to_date().await.unwrap();
    let before = (inode(room.root().join("kept")), inode(room.root().join("changed")));
    room.apply(vec![Mutation::write(path("changed"), "2"), remove("gone")])
        .await;
    room.apply(vec![
        remove("was-directory"),
        Mutation::write(path("was-directory"), "now a file"),
        remove("was-file"),
        Mutation::write(path("was-file/in"), "now a directory"),
        remove("link"),
        symlink("link", "elsewhere"),
        mode("kept", 0o600),
    ])
    .await;
    room.apply(vec![mode("kept", 0o644)]).await;
    assert_eq!(bench.bring_up_to_date().await.unwrap().head, 4);
    expect(
        &room.root(),
        &[
            ("changed", "file 644 \"2\""),
            ("kept", "file 644 \"k\""),
            ("link", "link \"elsewhere\""),
            ("was-directory", "file 644 \"now a file\""),
            ("was-file", "directory 755"),
            ("was-file/in", "file 644 \"now a directory\""),
        ],
    );
    assert_eq!(inode(room.root().join("kept")), before.0);
    assert_ne!(inode(room.root().join("changed")), before.1, "never written in place");
    room.files
        .undo(garret_core::UndoSelection::Last(3), Origin::default())
        .await
        .unwrap();
    bench.bring_up_to_date().await.unwrap();
    assert_eq!(shown(&room.root())["gone/deep/x"], "file 644 \"x\"");
    assert_eq!(shown(&room.root())["changed"], "file 644 \"1\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_goes_on_where_the_last_one_stood() {
    let room = Room::new().await;
    room.write("a", "1").await;
    room.bench(&[]).bring_up_to_date().await.unwrap();
    let before = inode(room.root().join("a"));
    room.write("b", "2").await;
    assert_eq!(room.bench(&[]).bring_up_to_date().await.unwrap().head, 2);
    assert_eq!(inode(room.root().join("a")), before);
    assert_eq!(shown(&room.root()).len(), 2);
}

/// Everything that can happen to a checkout, as scripts that run in its directory.
const DAMAGE: &[&str] = &[
    "rm state",
    "echo '{' > state",
    ": > state",
    "sed -i 's/\"is_whole\":true/\"is_whole\":false/' state; rm tree/a; echo foreign > tree/foreign; echo half > tree/.garret-tmp-1-1",
    "sed -i 's/\"is_whole\":true/\"is_whole\":false/' state; rm tree/a tree/d/b; : > tree/a; printf 2 > tree/d/b",
    "mv tree old; mkdir tree",
    "rm -r tree",
    "rm -r tree; ln -s /etc tree",
    "rm -r tree; echo > tree",
    "rm manifest-*; sed -i 's/\"is_whole\":true/\"is_whole\":false/' state",
    "truncate -s 10 manifest-*; sed -i 's/\"is_whole\":true/\"is_whole\":false/' state",
    "sed -i 's/\"boot\":\"./\"boot\":\"x/' state; echo other > tree/a",
    "sed -i 's/\"change\":\"./\"change\":\"x/' state",
    "sed -i 's/\"head\":1/\"head\":7/' state; rm tree/d/b",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_checkout_is_made_right() {
    let room = Room::new().await;
    room.apply(vec![
        Mutation::write(path("a"), "1"),
        Mutation::write(path("d/b"), "2"),
        symlink("l", "a"),
    ])
    .await;
    for damage in DAMAGE {
        room.bench(&[]).bring_up_to_date().await.unwrap();
        run_in(&room.home(""), damage);
        assert_eq!(room.bench(&[]).bring_up_to_date().await.unwrap().head, 1, "{damage}");
        let expected = [
            ("a", "file 644 \"1\""),
            ("d", "directory 755"),
            ("d/b", "file 644 \"2\""),
            ("l", "link \"a\""),
        ];
        expect(&room.root(), &expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_noticed_where_something_is_about_to_be_replaced_and_by_a_check_everywhere() {
    let room = Room::new().await;
    room.apply(vec![Mutation::write(path("a"), "1"), Mutation::write(path("b"), "2")])
        .await;
    let bench = room.bench(&[]);
    bench.bring_up_to_date().await.unwrap();
    let kept = inode(room.root().join("b"));
    run_in(&room.root(), "echo longer than it was > a; echo foreign > c");
    room.write("a", "3").await;
    bench.bring_up_to_date().await.unwrap();
    expect(&room.root(), &[("a", "file 644 \"3\""), ("b", "file 644 \"2\"")]);
    assert_eq!(inode(room.root().join("b")), kept, "what is as it was left stays");
    run_in(&room.root(), "touch -r b time; printf 9 > b; touch -r time b; rm time");
    bench.check().await.unwrap();
    expect(&room.root(), &[("a", "file 644 \"3\""), ("b", "file 644 \"2\"")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_out_of_history_stays_whatever_the_journal_does() {
    let room = Room::new().await;
    room.apply(vec![
        Mutation::write(path("web/app"), "1"),
        Mutation::write(path("target/first"), "journal"),
    ])
    .await;
    let bench = room.bench(&["target/", "web/node_modules"]);
    bench.bring_up_to_date().await.unwrap();
    assert_eq!(
        shown(&room.root())["target/first"],
        "file 644 \"journal\"",
        "where nothing is, it may come"
    );
    run_in(
        &room.root(),
        "mkdir -p web/node_modules/x; echo m > web/node_modules/x/m; echo built > target/first; echo t > target/t",
    );
    room.apply(vec![
        Mutation::write(path("target/first"), "other"),
        Mutation::write(path("target/t"), "other"),
    ])
    .await;
    room.apply(vec![remove("web"), remove("target")]).await;
    bench.bring_up_to_date().await.unwrap();
    let kept = [
        ("target", "directory 755"),
        ("target/first", "file 644 \"built\\n\""),
        ("target/t", "file 644 \"t\\n\""),
        ("web", "directory 755"),
        ("web/node_modules", "directory 755"),
        ("web/node_modules/x", "directory 755"),
        ("web/node_modules/x/m", "file 644 \"m\\n\""),
    ];
    expect(&room.root(), &kept);
    bench.release().await;
    run_in(
        &room.home(""),
        "rm state; echo half > tree/target/.garret-tmp-3-1; echo foreign > tree/foreign",
    );
    room.bench(&["target/", "web/node_modules"])
        .bring_up_to_date()
        .await
        .unwrap();
    expect(&room.root(), &kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_layer_left_is_taken_over_with_its_times_and_without_reading_it_again() {
    let room = Room::new().await;
    room.apply(vec![
        Mutation::write(path("a"), "old"),
        Mutation::write(path("gone/x"), "x"),
        make("d"),
    ])
    .await;
    let bench = room.bench(&["target"]);
    let head = bench.bring_up_to_date().await.unwrap().head;
    let layers = Layers::new();
    layers.above("echo new > a; chmod 755 a; mkdir d; echo in > d/in; ln -s a l; mkdir -p target/debug; echo built > target/debug/out; echo gone > gone");
    layers.above(
        "printf 'raw' > \"$(printf 'caf\\351')\"; touch -d '2001-02-03 04:05:06.5' a target/debug/out; ln d/in d/twin",
    );
    run_in(&layers.lower(), &format!("cp -a '{}/.' .", room.root().display()));
    let effects = layers.effects(None).effects;
    let excluded = Exclusions::new(&["target".to_owned()]).unwrap();
    let (excluded, committed): (Vec<_>, Vec<_>) = effects
        .into_iter()
        .partition(|effect| excluded.covers_path(&effect.path, matches!(effect.placed, PlacedEntry::Directory { .. })));
    // Somebody else was quicker, elsewhere.
    room.write("others", "o").await;
    let number = room.commit(&committed, head).await;
    assert_eq!(number, 3);
    let left = inode(layers.upper().join("a"));
    let taken = LayerOutcome {
        committed: &committed,
        excluded: &excluded,
        head: number,
    };
    bench.take_effects(taken).await.unwrap();
    let expected = [
        ("a", "file 755 \"new\\n\""),
        ("caf\u{fffd}", "file 644 \"raw\""),
        ("d", "directory 755"),
        ("d/in", "file 644 \"in\\n\""),
        ("d/twin", "file 644 \"in\\n\""),
        ("gone", "file 644 \"gone\\n\""),
        ("l", "link \"a\""),
        ("others", "file 644 \"o\""),
        ("target", "directory 755"),
        ("target/debug", "directory 755"),
        ("target/debug/out", "file 644 \"built\\n\""),
    ];
    expect(&room.root(), &expected);
    assert_eq!(
        inode(room.root().join("a")),
        left,
        "it is the very file that the layer had"
    );
    assert_eq!(
        inode(room.root().join("d/in")),
        inode(room.root().join("d/twin")),
        "two names of one file stay so"
    );
    assert_ne!(inode(room.root().join("d/in")), inode(layers.upper().join("d/in")));
    for name in ["a", "target/debug/out"] {
        let meta = fs::metadata(room.root().join(name)).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (981_173_106, 500_000_000), "{name}");
    }
    let times = |name: &str| fs::metadata(room.root().join(name)).unwrap().ctime_nsec();
    let before = times("a");
    assert_eq!(bench.bring_up_to_date().await.unwrap().head, 3);
    bench.check().await.unwrap();
    assert_eq!(times("a"), before, "nothing is written again, by a check neither");
    expect(&room.root(), &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_that_a_layer_left_do_not_get_into_the_bench() {
    let room = Room::new().await;
    let bench = room.bench(&[]);
    let head = bench.bring_up_to_date().await.unwrap().head;
    let layers = Layers::new();
    layers.above("echo x > a; setfattr -n user.overlay.origin -v y a; setfattr -n user.mine -v z a");
    let effects = layers.effects(None).effects;
    let number = room.commit(&effects, head).await;
    let taken = LayerOutcome {
        committed: &effects,
        excluded: &[],
        head: number,
    };
    bench.take_effects(taken).await.unwrap();
    assert_eq!(inode(room.root().join("a")), inode(layers.upper().join("a")));
    let list = rustix::fs::llistxattr_query(room.root().join("a")).unwrap();
    assert_eq!(list, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_layer_that_has_another_name_elsewhere_is_copied_and_left_alone() {
    let room = Room::new().await;
    let bench = room.bench(&[]);
    let head = bench.bring_up_to_date().await.unwrap().head;
    let layers = Layers::new();
    fs::create_dir(layers.outside()).unwrap();
    run_in(&layers.outside(), "echo host > file; chmod 640 file");
    fs::hard_link(layers.outside().join("file"), layers.upper().join("a")).unwrap();
    let effects = layers.effects(None).effects;
    let number = room.commit(&effects, head).await;
    let taken = LayerOutcome {
        committed: &effects,
        excluded: &[],
        head: number,
    };
    bench.take_effects(taken).await.unwrap();
    assert_ne!(inode(room.root().join("a")), inode(layers.outside().join("file")));
    assert_eq!(
        fs::metadata(layers.outside().join("file")).unwrap().mode() & 0o777,
        0o640
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_a_journal_are_compared() {
    let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()) as Arc<dyn Clock>));
    let cache = tempfile::tempdir().unwrap();
    let options = CheckoutOptions {
        directory: cache.path().join("bench"),
        files: files.clone(),
        history: None,
        exclude: vec!["target".to_owned()],
    };
    let apply = |mutations| {
        files.apply(Batch {
            mutations,
            ..Batch::default()
        })
    };
    apply(vec![
        Mutation::write(path("a"), "1"),
        Mutation::write(path("d/b"), "2"),
        symlink("l", "a"),
    ])
    .await
    .unwrap();
    let bench = CheckoutBench::new(options).unwrap();
    let root = bench.bring_up_to_date().await.unwrap().root;
    let before = inode(root.join("d/b"));
    fs::create_dir(root.join("target")).unwrap();
    apply(vec![
        Mutation::write(path("a"), "3"),
        remove("l"),
        Mutation::write(path("c"), "4"),
        mode("d", 0o700),
    ])
    .await
    .unwrap();
    assert_eq!(bench.bring_up_to_date().await.unwrap().head, 0);
    expect(
        &root,
        &[
            ("a", "file 644 \"3\""),
            ("c", "file 644 \"4\""),
            ("d", "directory 700"),
            ("d/b", "file 644 \"2\""),
            ("target", "directory 755"),
        ],
    );
    assert_eq!(inode(root.join("d/b")), before);
    let layers = Layers::new();
    layers.above("echo made > made; touch -d 2001-01-01 made");
    let effects = layers.effects(None).effects;
    let PlacedEntry::File { content, .. } = &effects[0].placed else {
        panic!("{effects:?}")
    };
    apply(vec![Mutation::write(path("made"), content.clone())])
        .await
        .unwrap();
    let taken = LayerOutcome {
        committed: &effects,
        excluded: &[],
        head: 0,
    };
    bench.take_effects(taken).await.unwrap();
    let taken = inode(root.join("made"));
    bench.bring_up_to_date().await.unwrap();
    assert_eq!(inode(root.join("made")), taken);
    assert_eq!(taken, inode(layers.upper().join("made")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_belongs_to_one_process_until_it_is_taken_over_or_released() {
    let room = Room::new().await;
    room.write("a", "1").await;
    let (one, other) = (room.bench(&[]), room.bench(&[]));
    let head = one.bring_up_to_date().await.unwrap().head;
    room.write("a", "2").await;
    let waiting = tokio::time::timeout(Duration::from_millis(200), other.bring_up_to_date()).await;
    assert!(waiting.is_err(), "the other waits");
    assert_eq!(shown(&room.root())["a"], "file 644 \"1\"");
    let taken = LayerOutcome {
        committed: &[],
        excluded: &[],
        head,
    };
    one.take_effects(taken).await.unwrap();
    assert_eq!(other.bring_up_to_date().await.unwrap().head, 2);
    other.release().await;
    assert_eq!(one.bring_up_to_date().await.unwrap().head, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_taken_over_nothing_is_written() {
    let room = Room::new().await;
    room.write("a", "1").await;
    let bench = room.bench(&[]);
    let head = bench.bring_up_to_date().await.unwrap().head;
    let nothing = |head| LayerOutcome {
        committed: &[],
        excluded: &[],
        head,
    };
    let state = || std::fs::read(room.home("state")).unwrap();
    // Another one would be written over the space.
    let marked = [b" ".to_vec(), state()].concat();
    std::fs::write(room.home("state"), &marked).unwrap();
    bench.take_effects(nothing(head)).await.unwrap();
    assert_eq!(bench.bring_up_to_date().await.unwrap().head, head);
    bench.take_effects(nothing(head)).await.unwrap();
    assert_eq!(state(), marked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_stands_until_something_in_it_changes() {
    let room = Room::new().await;
    room.write("a", "1").await;
    let (one, other) = (room.bench(&["target"]), room.bench(&["target"]));
    let stands = async |bench: &CheckoutBench| {
        let state = bench.bring_up_to_date().await.unwrap();
        bench.release().await;
        state.generation.unwrap()
    };
    let first = stands(&one).await;
    assert_eq!(stands(&one).await, first);
    assert_eq!(stands(&other).await, first, "for everybody");
    room.write("b", "2").await;
    let second = stands(&other).await;
    assert_ne!(second, first);
    assert_eq!(stands(&one).await, second);
    let layers = Layers::new();
    layers.above("mkdir target; echo built > target/x");
    let head = other.bring_up_to_date().await.unwrap().head;
    let effects = layers.effects(None).effects;
    let taken = LayerOutcome {
        committed: &[],
        excluded: &effects,
        head,
    };
    other.take_effects(taken).await.unwrap();
    let third = stands(&one).await;
    assert_ne!(third, second, "no change of the journal, and another content");
    // Whoever makes it anew, as often as those before did.
    fs::remove_file(room.home("state")).unwrap();
    let fourth = stands(&one).await;
    fs::remove_file(room.home("state")).unwrap();
    let fifth = stands(&other).await;
    fs::remove_dir_all(room.home("")).unwrap();
    let all = std::collections::BTreeSet::from([first, second, third, fourth, fifth, stands(&one).await]);
    assert_eq!(all.len(), 6, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_state_that_was_damaged_is_got_over_once() {
    let room = Room::new().await;
    room.write("a", "1").await;
    let bench = room.bench(&[]);
    bench.bring_up_to_date().await.unwrap();
    bench.release().await;
    std::fs::write(room.home("state"), "x".repeat(3000)).unwrap();
    bench.bring_up_to_date().await.unwrap();
    bench.release().await;
    let manifests = || {
        let names = std::fs::read_dir(room.home(""))
            .unwrap()
            .map(|one| one.unwrap().file_name());
        let manifest = names.filter(|name| name.to_string_lossy().starts_with("manifest-"));
        manifest.collect::<Vec<_>>()
    };
    let after = manifests();
    bench.bring_up_to_date().await.unwrap();
    // To look everything over again would have begun another one.
    assert_eq!(manifests(), after);
    expect(&room.root(), &[("a", "file 644 \"1\"")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_checks_out_what_it_inherits() {
    let room = Room::new().await;
    room.write("a", "1").await;
    History::branch(room.files.as_ref(), NewBranch::from("try"), &Point::Now)
        .await
        .unwrap();
    let branch = Arc::new(room.depot.workspace("try").await.unwrap());
    let bench = bench_of(&branch, &room.home("branch"), &[]);
    let root = bench.bring_up_to_date().await.unwrap().root;
    expect(&root, &[("a", "file 644 \"1\"")]);
    branch.apply(Mutation::write(path("b"), "2").into()).await.unwrap();
    assert_eq!(bench.bring_up_to_date().await.unwrap().head, 1);
    assert_eq!(shown(&root).len(), 2);
}

#[test]
fn directories_without_the_right_to_write_are_followed_and_keep_their_bits() {
    if !is_somebody("bench::directories_without_the_right_to_write_are_followed_and_keep_their_bits") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let room = Room::new().await;
        room.apply(vec![
            Mutation::write(path("locked/in/a"), "1"),
            Mutation::write(path("locked/in/b"), "1"),
            Mutation::write(path("locked/gone/c"), "1"),
            mode("locked/in/a", 0o000),
            mode("locked/in", 0o500),
            mode("locked/gone", 0o000),
            mode("locked", 0o555),
        ])
        .await;
        let bench = room.bench(&[]);
        bench.bring_up_to_date().await.unwrap();
        room.apply(vec![
            Mutation::write(path("locked/in/a"), "2"),
            Mutation::write(path("locked/in/new"), "2"),
            remove("locked/in/b"),
            remove("locked/gone"),
        ])
        .await;
        bench.bring_up_to_date().await.unwrap();
        run_in(
            &room.root(),
            "[ $(stat -c %a locked) = 555 ]; [ $(stat -c %a locked/in) = 500 ]; [ $(stat -c %a locked/in/a) = 0 ]",
        );
        fs::set_permissions(room.root().join("locked/in/a"), fs::Permissions::from_mode(0o600)).unwrap();
        let expected = [
            ("locked", "directory 555"),
            ("locked/in", "directory 500"),
            ("locked/in/a", "file 600 \"2\""),
            ("locked/in/new", "file 644 \"2\""),
        ];
        expect(&room.root(), &expected);
        run_in(&room.root(), "chmod -R u+rwx .");
    });
}

#[test]
fn several_threads_write_into_a_directory_without_the_right_to_write() {
    if !is_somebody("bench::several_threads_write_into_a_directory_without_the_right_to_write") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let room = Room::new().await;
        let files = |content: &'static str| (0..500).map(move |n| Mutation::write(path(&format!("d/f{n}")), content));
        let locked = |content| files(content).chain([mode("d", 0o500)]).collect();
        let bench = room.bench(&[]);
        room.apply(locked("old")).await;
        bench.bring_up_to_date().await.unwrap();
        // The files are replaced, and as many are new.
        room.apply(locked("renewed")).await;
        room.apply(
            (500..1000)
                .map(|n| Mutation::write(path(&format!("d/f{n}")), "renewed"))
                .collect(),
        )
        .await;
        bench.bring_up_to_date().await.unwrap();
        let mut entries = shown(&room.root());
        assert_eq!(entries.remove("d").as_deref(), Some("directory 500"));
        assert_eq!(entries.len(), 1000);
        let is_renewed = |entry: &String| entry == "file 644 \"renewed\"";
        assert!(entries.values().all(is_renewed), "{entries:?}");
        run_in(&room.root(), "chmod -R u+rwx .");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_small_files_check_out() {
    let room = Room::new().await;
    for hundred in 0..100 {
        let file = |number| Mutation::write(path(&format!("d{hundred}/f{number}")), format!("{hundred} {number}"));
        room.apply((0..100).map(file).collect()).await;
    }
    let clock = SystemClock::default();
    let bench = room.bench(&[]);
    bench.bring_up_to_date().await.unwrap();
    println!("ten thousand files were checked out in {:?}", clock.elapsed());
    assert_eq!(shown(&room.root()).len(), 10_100);
    room.write("d5/f5", "new").await;
    let before = clock.elapsed();
    bench.bring_up_to_date().await.unwrap();
    println!("one of them was followed in {:?}", clock.elapsed() - before);
    assert_eq!(fs::read_to_string(room.root().join("d5/f5")).unwrap(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_takes_over_only_what_is_kept_out_of_history() {
    let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outside = tempfile::tempdir().unwrap();
    run_in(root.path(), "mkdir -p target/old; echo o > target/old/o; echo mine > a");
    if is_root() {
        run_in(root.path(), "chown -R 1234:1235 .");
    }
    let bench = DirectoryBench::new(DirectoryOptions {
        root: root.path().to_owned(),
        scratch: scratch.path().to_owned(),
        history: None,
    });
    assert_eq!(bench.bring_up_to_date().await.unwrap().root, root.path());
    let layers = Layers::new();
    run_in(&layers.lower(), &format!("cp -a '{}/.' .", root.path().display()));
    layers.above("echo changed > a; mkdir -p target/new; echo n > target/new/n; chmod 755 target/new/n; rm -rf target/old; echo f > target/old");
    let effects = layers.effects(None).effects;
    let (excluded, committed): (Vec<_>, Vec<_>) = effects
        .into_iter()
        .partition(|effect| effect.path.as_bytes().starts_with(b"target"));
    let taken = LayerOutcome {
        committed: &committed,
        excluded: &excluded,
        head: 0,
    };
    bench.take_effects(taken).await.unwrap();
    let expected = [
        ("a", "file 644 \"mine\\n\""),
        ("target", "directory 755"),
        ("target/new", "directory 755"),
        ("target/new/n", "file 755 \"n\\n\""),
        ("target/old", "file 644 \"f\\n\""),
    ];
    expect(root.path(), &expected);
    if is_root() {
        let meta = fs::metadata(root.path().join("target/new/n")).unwrap();
        assert_eq!(
            (meta.uid(), meta.gid()),
            (1234, 1235),
            "it belongs to whom its directory does"
        );
    }
    // Somebody puts a link where the directory was: nothing is followed.
    run_in(
        root.path(),
        &format!("rm -r target; ln -s '{}' target", outside.path().display()),
    );
    let layers = Layers::new();
    layers.above("mkdir -p target; echo n > target/n");
    let effects = layers.effects(None).effects;
    let inside: Vec<_> = effects
        .into_iter()
        .filter(|effect| effect.path.as_bytes() == b"target/n")
        .collect();
    let taken = LayerOutcome {
        committed: &[],
        excluded: &inside,
        head: 0,
    };
    assert!(bench.take_effects(taken).await.is_err());
    assert_eq!(tree(outside.path()).len(), 0);
}
