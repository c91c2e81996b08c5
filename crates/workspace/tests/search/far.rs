//! Searching files that are far away: what is asked of the storage, and what is said of what was not.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use futures::executor::block_on;
use garret_core::{AccessLimits, ErrorKind, LocalContent, MemoryStorage, Mutation, OpenedStorage, SystemClock, WsPath};
use garret_storage::cache::{CacheOptions, CachedStorage, ContentCache};
use garret_testkit::{Call, Hook, Hooked};
use garret_workspace::{GrepRequest, GrepSink, Workspace};
use tempfile::TempDir;

use crate::search::support::{globbing, grepping, lines, skipped};

/// Notes what the storage is asked for.
#[derive(Debug, Default)]
struct Noting {
    asked: Mutex<Vec<String>>,
    /// Reads wait until this many are under way.
    together: AtomicUsize,
    under_way: AtomicUsize,
}

impl Noting {
    fn note(&self, what: &str, path: &WsPath) {
        self.asked.lock().unwrap().push(format!("{what} {path}"));
    }

    async fn wait_for_others(&self) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let mut tries = 0;
        poll_fn(|context| {
            tries += 1;
            assert!(tries < 10_000_000, "the others never came");
            match self.under_way.load(Ordering::SeqCst) >= self.together.load(Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
        .await;
    }
}

#[async_trait]
impl Hook for Noting {
    async fn before(&self, call: Call<'_>) {
        match call {
            Call::Resolve(_) | Call::Apply => {}
            Call::Stat(path) => self.note("stat", path),
            Call::Read(path) => {
                self.note("read", path);
                self.wait_for_others().await;
            }
            Call::List(path, options) => self.note(if options.is_deep { "list" } else { "children" }, path),
        }
    }
}

struct Far {
    storage: Arc<Hooked<Noting>>,
    workspace: Workspace,
    _home: TempDir,
}

fn far(files: impl IntoIterator<Item = (String, String)>, reach: AccessLimits) -> Far {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    let storage = Arc::new(Hooked::new(storage, Noting::default()));
    for (path, content) in files {
        put(&storage, &path, &content);
    }
    let home = tempfile::tempdir().unwrap();
    let cache = ContentCache::open(&CacheOptions {
        directory: home.path().join("cache"),
        max_bytes: 1 << 30,
    });
    let cached = Arc::new(CachedStorage::new(storage.clone(), Arc::new(cache.unwrap()), "far"));
    let near: Arc<dyn LocalContent> = cached.clone();
    let reach = AccessLimits {
        is_remote: true,
        ..reach
    };
    let opened = OpenedStorage {
        access_limits: reach,
        local_content: Some(near),
        ..cached.into()
    };
    let workspace = Workspace::builder(opened).open().unwrap();
    Far {
        storage,
        workspace,
        _home: home,
    }
}

/// What others write.
fn put(storage: &Hooked<Noting>, path: &str, content: &str) {
    let mutation = Mutation::write(WsPath::parse(path).unwrap(), content.to_owned().into_bytes());
    block_on(storage.inner().apply(mutation.into())).unwrap();
}

impl Far {
    fn asked(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.storage.hook().asked.lock().unwrap());
        asked.sort();
        asked
    }

    fn grep(&self, request: GrepRequest) -> Vec<String> {
        lines(&block_on(self.workspace.grep(request)).unwrap())
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        block_on(self.workspace.glob(globbing(pattern))).unwrap().paths
    }
}

fn tree() -> Vec<(String, String)> {
    let file = |path: &str| (path.to_owned(), format!("canary in {path}\n"));
    ["a.txt", "docs/a.md", "docs/b.md", "src/deep/x.rs", "src/main.rs"]
        .map(file)
        .into()
}

#[test]
fn a_second_search_fetches_only_what_changed_since_the_first() {
    let far = far(tree(), AccessLimits::default());
    assert_eq!(far.grep(grepping("canary")).len(), 5);
    let reads = |asked: &[String]| asked.iter().filter(|one| one.starts_with("read")).count();
    assert_eq!(reads(&far.asked()), 5);
    assert_eq!(far.grep(grepping("canary")).len(), 5);
    assert_eq!(
        far.asked(),
        ["list ", "stat "],
        "one list, and the look at where it begins"
    );
    put(&far.storage, "docs/b.md", "another canary\n");
    put(&far.storage, "docs/c.md", "a new canary\n");
    assert!(
        far.grep(grepping("canary"))
            .contains(&"docs/b.md:1:another canary".to_owned())
    );
    assert_eq!(far.asked(), ["list ", "read docs/b.md", "read docs/c.md", "stat "]);
}

#[test]
fn what_was_written_here_is_found_without_fetching_it() {
    let far = far(Vec::new(), AccessLimits::default());
    block_on(far.workspace.write("own.txt", "canary\n", Default::default())).unwrap();
    far.asked();
    assert_eq!(far.grep(grepping("canary")), ["own.txt:1:canary"]);
    let reads = far.asked().iter().filter(|one| one.starts_with("read")).count();
    assert!(reads <= 1, "it is fetched at most once");
    assert_eq!(far.grep(grepping("canary")), ["own.txt:1:canary"]);
    assert_eq!(far.asked(), ["list ", "stat "]);
}

#[test]
fn damage_to_what_lies_at_hand_is_made_good() {
    let far = far(tree(), AccessLimits::default());
    let before = far.grep(grepping("canary"));
    far.asked();
    let mut damaged = 0;
    let mut directories = vec![far._home.path().to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            match entry.path().is_dir() {
                true => directories.push(entry.path()),
                false => {
                    let mut bytes = std::fs::read(entry.path()).unwrap();
                    *bytes.last_mut().unwrap() ^= 1;
                    std::fs::write(entry.path(), bytes).unwrap();
                    damaged += 1;
                }
            }
        }
    }
    assert!(damaged >= 5);
    assert_eq!(far.grep(grepping("canary")), before);
    let reads = far.asked().iter().filter(|one| one.starts_with("read")).count();
    assert_eq!(reads, 5, "all of it is fetched again");
}

#[test]
fn only_what_a_pattern_can_reach_is_listed() {
    let far = far(tree(), AccessLimits::default());
    let rules = |directory: &str| [".git", ".gitignore", ".ignore"].map(|name| format!("stat {directory}{name}"));
    assert_eq!(far.glob("src/deep/*.rs"), ["src/deep/x.rs"]);
    let mut wanted: Vec<_> = ["children src/deep".to_owned(), "stat ".to_owned()].into();
    wanted.extend(rules("").into_iter().chain(rules("src/")));
    wanted.sort();
    assert_eq!(far.asked(), wanted);
    assert_eq!(far.glob("docs/**"), ["docs/a.md", "docs/b.md"]);
    assert!(far.asked().contains(&"list docs".to_owned()));
    assert_eq!(far.glob("*.txt"), ["a.txt"]);
    assert_eq!(far.asked(), ["children ", "stat "]);
    assert_eq!(far.glob("nowhere/*.txt"), Vec::<String>::new());
    far.asked();
    let request = GrepRequest {
        include: vec!["docs/*.md".into(), "docs/deep/*.md".into()],
        include_ignored: true,
        ..grepping("canary")
    };
    assert_eq!(far.grep(request).len(), 2);
    assert_eq!(far.asked(), ["list docs", "read docs/a.md", "read docs/b.md", "stat "]);
}

#[test]
fn what_is_ignored_above_stays_ignored_where_only_a_part_is_listed() {
    let ignored = [
        (".gitignore", "target\n"),
        ("target/x.rs", "canary\n"),
        ("src/.ignore", "deep\n"),
        ("src/deep/x.rs", "canary\n"),
    ];
    let far = far(
        ignored.map(|(path, content)| (path.to_owned(), content.to_owned())),
        AccessLimits::default(),
    );
    assert_eq!(far.glob("target/*.rs"), Vec::<String>::new());
    assert_eq!(far.glob("src/deep/*.rs"), Vec::<String>::new());
    let all = garret_workspace::GlobRequest {
        include_ignored: true,
        ..globbing("src/deep/*.rs")
    };
    assert_eq!(block_on(far.workspace.glob(all)).unwrap().paths, ["src/deep/x.rs"]);
}

#[test]
fn as_many_files_are_asked_for_at_once_as_the_storage_says() {
    let files = (0..24).map(|number| (format!("f{number:02}"), "canary\n".to_owned()));
    let reach = AccessLimits {
        search_concurrency: 12,
        ..AccessLimits::default()
    };
    let far = far(files, reach);
    far.storage.hook().together.store(12, Ordering::SeqCst);
    assert_eq!(far.grep(grepping("canary")).len(), 24);
}

#[test]
fn what_a_limit_leaves_out_is_said() {
    let reach = AccessLimits {
        max_objects_scanned: Some(3),
        max_grep_bytes_per_object: Some(19),
        ..AccessLimits::default()
    };
    let far = far(tree(), reach);
    let found = block_on(far.workspace.grep(grepping("canary"))).unwrap();
    assert_eq!(lines(&found), ["a.txt:1:canary in a.txt"]);
    assert_eq!(skipped(&found), [("docs/a.md", "too_large")].into());
    let left_out = found.left_out.unwrap();
    assert_eq!(
        (left_out.after.as_str(), left_out.reason),
        ("docs/a.md", "max_objects_scanned")
    );
    let found = block_on(far.workspace.glob(globbing("**"))).unwrap();
    assert_eq!(found.paths, ["a.txt", "docs/a.md"]);
    assert_eq!(found.left_out.unwrap().after, "docs/a.md");
    let found = block_on(far.workspace.glob(globbing("src/deep/*"))).unwrap();
    assert_eq!(
        (found.paths.len(), found.left_out),
        (1, None),
        "what was not listed was not left out by a limit"
    );
}

#[test]
fn matches_come_as_each_file_was_searched() {
    let far = far(tree(), AccessLimits::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let heard = heard.clone();
        GrepSink::new(move |found| heard.lock().unwrap().extend(found))
    };
    let found = block_on(far.workspace.grep_with(grepping("canary"), Some(sink))).unwrap();
    let mut heard = std::mem::take(&mut *heard.lock().unwrap());
    heard.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(heard, found.matches);
}

#[test]
fn a_storage_that_is_not_to_be_searched_is_not() {
    let reach = AccessLimits {
        is_searchable: false,
        ..AccessLimits::default()
    };
    let far = far(tree(), reach);
    let error = block_on(far.workspace.grep(grepping("canary"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`search_enabled`"), "{error}");
    assert!(block_on(far.workspace.glob(globbing("**"))).is_err());
    assert_eq!(far.asked(), Vec::<String>::new());
}
