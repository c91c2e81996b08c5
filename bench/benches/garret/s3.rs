//! Workspaces in a bucket beside boto3 and rclone, on one SeaweedFS on loopback, and how many requests each operation takes.
//!
//! Garret keeps its history all the while: the journal and the content it has met are on local disk. Both sides make one request after
//! another where a line says so, and eight at once otherwise.

mod other;
mod requests;

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use garret::{
    Content, ContentSource, Garret, GlobRequest, GrepRequest, Home, ListRequest, RunRequest, StorageConfig, Toolbox,
    Workspace, WorkspaceConfig, WriteOptions,
};
use garret_testkit::s3::Server;
use serde_json::json;
use tempfile::TempDir;

use self::other::{Boto, rclone};
use crate::measure::{Line, at_most, in_turns};
use crate::report;

const ROUNDS: usize = 3;
const AT_ONCE: usize = 8;
const FILE_BYTES: usize = 4096;
const BOTO: &str = "boto3";
const RCLONE: &str = "rclone";

/// A part of the page after the table.
pub(crate) async fn section() -> String {
    let mut page = String::from("## In a bucket\n\n");
    if !other::is_installed() {
        return page + "The S3 servers could not be installed here; there are no lines.\n\n";
    }
    let (lines, first, requests) = tokio::task::block_in_place(|| {
        let server = Server::shared_seaweed();
        let bench = Bench::new(server);
        let first = requests::of_first_grep(server, &bench.filled);
        (bench.lines(), first, requests::table(server))
    });
    page += &format!(
        "SeaweedFS 4.48 on loopback; {} objects of 4 KiB in a hundred directories, and one of {} MiB. Garret's history is included, except with the large object.\n\n",
        files(),
        large_bytes() >> 20
    );
    page + &report::table(&lines)
        + &format!("\nThe first `grep` over {} objects: {first}.\n", files())
        + "\nRequests of one operation in an open workspace, history included:\n\n"
        + &requests
        + "\n"
}

fn files() -> u32 {
    at_most(10_000)
}

fn large_bytes() -> u64 {
    u64::from(at_most(1024)) << 20
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

fn path(number: u32) -> String {
    format!("d{:02}/f{number:05}.txt", number % 100)
}

/// Text in lines, each file with its own, and one word that few have.
fn text(number: u32) -> String {
    let rare = if number.is_multiple_of(1000) { " needle" } else { "" };
    let line = format!("line of file {number} with some words that nobody looks for{rare}\n");
    let mut text = line.repeat(FILE_BYTES / line.len() + 1);
    text.truncate(FILE_BYTES);
    text
}

/// Opens a prefix of the server's bucket.
pub(crate) fn open(server: &Server, endpoint: &str, prefix: &str, home: &Path, history: &str) -> Toolbox {
    let keys = server.keys();
    let options = json!({
        "bucket": server.bucket(), "prefix": prefix, "endpoint": endpoint, "force_path_style": true,
        "access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key, "max_read_bytes": u64::MAX >> 1,
    });
    let storage = StorageConfig::Table {
        kind: "s3".into(),
        options: options.as_object().expect("it is an object").clone(),
    };
    let capabilities = garret::Capabilities::from_names(["fs", "shell", "snapshot"]).expect("they are known");
    let config = WorkspaceConfig {
        capabilities,
        history: Some(garret::shape::from_value(history.into()).expect("it is a mode")),
        ..WorkspaceConfig::with_storage(storage)
    };
    let garret = Garret::new().home(Home::new(home));
    wait(garret.open_config("bench", &config)).expect("the workspace opens")
}

pub(crate) fn write(workspace: &Workspace, path: &str, content: impl Into<Content>) {
    wait(workspace.write(path, content, WriteOptions::default())).expect("it is written");
}

pub(crate) fn run(workspace: &Workspace, text: &str) {
    let result = wait(workspace.run(RunRequest::shell(text))).expect("the command runs");
    assert_eq!(result.exit_code, 0, "{}", result.output);
}

pub(crate) fn grep(workspace: &Workspace) {
    let request = GrepRequest {
        pattern: "needle".into(),
        ..GrepRequest::default()
    };
    let found = wait(workspace.grep(request)).expect("it is searched");
    assert_eq!(found.file_count, u64::from(files().div_ceil(1000)));
}

fn list(workspace: &Workspace) {
    let request = ListRequest {
        depth: usize::MAX,
        limit: usize::MAX,
        ..ListRequest::default()
    };
    let listed = wait(workspace.list("", request)).expect("it is listed");
    assert!(listed.entries.len() >= files() as usize);
}

/// The one list that a search of everything begins with, and nothing else of it.
fn list_only(workspace: &Workspace) {
    let request = GlobRequest {
        pattern: "**/a name that nothing has".into(),
        ..GlobRequest::default()
    };
    let found = wait(workspace.glob(request)).expect("it is listed");
    assert!(found.paths.is_empty());
}

struct Bench {
    server: &'static Server,
    boto: Boto,
    /// A prefix with all files, which nothing changes.
    filled: String,
    /// How long rclone took to fill it.
    filling: Duration,
    local: TempDir,
}

impl Bench {
    fn new(server: &'static Server) -> Self {
        let local = tempfile::tempdir().expect("a temporary directory");
        for number in 0..files() {
            let path = local.path().join(path(number));
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is made");
            std::fs::write(path, text(number)).expect("it is written");
        }
        let filled = server.prefix();
        let filling = timed(|| rclone_copy(server, &shown(local.path()), &other::remote(server, &filled)));
        Self {
            boto: Boto::start(server),
            server,
            filled,
            filling,
            local,
        }
    }

    fn open(&self, prefix: &str, home: &Path, history: &str) -> Toolbox {
        open(self.server, &self.server.endpoint(), prefix, home, history)
    }

    fn lines(mut self) -> Vec<Line> {
        let mut lines = vec![self.write_one_by_one()];
        lines.extend(self.write_small());
        lines.extend(self.read_small());
        lines.extend(self.list_all());
        lines.extend(self.search());
        lines.extend(self.commands());
        lines.extend(self.large());
        lines
    }

    fn write_one_by_one(&mut self) -> Line {
        let home = tempfile::tempdir().expect("a temporary directory");
        let count = at_most(1_000);
        let paths: Vec<_> = (0..count).map(path).collect();
        let prefixes: Vec<_> = (0..=ROUNDS)
            .map(|_| [self.server.prefix(), self.server.prefix()])
            .collect();
        let workspaces: Vec<_> = prefixes
            .iter()
            .map(|[own, _]| self.open(own, home.path(), "durable"))
            .collect();
        let (mut ours, mut theirs) = (workspaces.iter(), prefixes.iter());
        let boto = &mut self.boto;
        let [floor, garret] = in_turns(
            ROUNDS,
            |_| (),
            [
                &mut || {
                    let prefix = &theirs.next().expect("there is one for each round")[1];
                    boto.ask(
                        json!({"do": "write", "prefix": format!("{prefix}/"), "paths": paths, "content": text(1)}),
                    );
                },
                &mut || {
                    let toolbox = ours.next().expect("there is one for each round");
                    paths.iter().for_each(|path| write(toolbox.workspace(), path, text(1)));
                },
            ],
        );
        let what = "a new object of 4 KiB, one after another, journaled";
        line(what, BOTO, floor, garret, count)
    }

    fn write_small(&mut self) -> [Line; 2] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let paths: Vec<_> = (0..files()).map(path).collect();
        let (ours, theirs) = (self.server.prefix(), format!("{}/", self.server.prefix()));
        let toolbox = self.open(&ours, home.path(), "durable");
        let (boto, workspace) = (&mut self.boto, toolbox.workspace());
        let [floor, garret] = once([
            &mut || drop(boto.ask(json!({"do": "write_many", "prefix": theirs, "paths": paths, "content": text(1)}))),
            &mut || {
                let writes = paths
                    .iter()
                    .map(|path| workspace.write(path, text(1), WriteOptions::default()));
                let writes = stream::iter(writes).buffer_unordered(AT_ONCE);
                wait(writes.for_each(|written| async move { drop(written.expect("it is written")) }));
            },
        ]);
        let what = "a new object of 4 KiB, eight at once, journaled";
        [
            line(what, BOTO, floor, garret, files()),
            line(what, "rclone copy", self.filling, garret, files()),
        ]
    }

    fn read_small(&mut self) -> [Line; 2] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let toolbox = self.open(&self.filled, home.path(), "durable");
        let paths: Vec<_> = (0..files()).map(path).collect();
        let (boto, prefix) = (&mut self.boto, format!("{}/", self.filled));
        let (server, remote) = (self.server, other::remote(self.server, &self.filled));
        let copy = shown(&home.path().join("copy"));
        let [floor, copied, garret] = once([
            &mut || drop(boto.ask(json!({"do": "read", "prefix": prefix, "paths": paths}))),
            &mut || rclone_copy(server, &remote, &copy),
            &mut || {
                let reads = paths.iter().map(|path| toolbox.workspace().read_bytes(path));
                let reads = stream::iter(reads).buffer_unordered(AT_ONCE);
                wait(reads.for_each(|read| async move { drop(read.expect("it is there")) }));
            },
        ]);
        let what = "reading an object of 4 KiB, eight at once";
        [
            line(what, BOTO, floor, garret, files()),
            line(what, "rclone copy", copied, garret, files()),
        ]
    }

    fn list_all(&mut self) -> [Line; 2] {
        let home = tempfile::tempdir().expect("a temporary directory");
        let toolbox = self.open(&self.filled, home.path(), "durable");
        let (boto, prefix) = (&mut self.boto, format!("{}/", self.filled));
        let (server, remote) = (self.server, other::remote(self.server, &self.filled));
        let [floor, other, garret] = in_turns(
            ROUNDS,
            |_| (),
            [
                &mut || drop(boto.ask(json!({"do": "list", "prefix": prefix}))),
                &mut || rclone(server, &["lsf", "--recursive", "--fast-list", &remote]),
                &mut || list(toolbox.workspace()),
            ],
        );
        let what = format!("listing {} objects", files());
        [
            line(&what, BOTO, floor, garret, 1),
            line(&what, "rclone lsf", other, garret, 1),
        ]
    }

    fn search(&mut self) -> Vec<Line> {
        let (boto, prefix) = (&mut self.boto, format!("{}/", self.filled));
        let home = tempfile::tempdir().expect("a temporary directory");
        let server = self.server;
        let toolbox = open(server, &server.endpoint(), &self.filled, home.path(), "durable");
        let local = wait(Garret::new().open_dir(self.local.path())).expect("the directory opens");
        let [floor, first] = once([
            &mut || drop(boto.ask(json!({"do": "search", "prefix": prefix, "pattern": "needle"}))),
            &mut || grep(toolbox.workspace()),
        ]);
        let [again, near] = in_turns(
            2 * ROUNDS,
            |_| (),
            [&mut || grep(toolbox.workspace()), &mut || {
                grep(local.workspace());
                list_only(toolbox.workspace());
            }],
        );
        let list_and_download = "boto3, list and download, 8 at once";
        let what = |when: &str| format!("`grep` over {} objects, {when}", files());
        vec![
            line(&what("the first"), list_and_download, floor, first, 1),
            line(&what("again"), list_and_download, floor, again, 1),
            Line {
                aim: "≥ 0.67 (≤ 1.5 × local grep, and the list)",
                ..line(
                    &what("again"),
                    "the same of a local directory, and the list",
                    near,
                    again,
                    1,
                )
            },
        ]
    }

    /// What a command costs beside what others do: everything down, the command, everything up.
    fn commands(&mut self) -> Vec<Line> {
        let home = tempfile::tempdir().expect("a temporary directory");
        let toolbox = self.open(&self.filled, home.path(), "durable");
        let (server, remote) = (self.server, other::remote(self.server, &self.filled));
        let command = "cat d00/*.txt | wc -l > counted.txt";
        let work = tempfile::tempdir().expect("a temporary directory");
        let by_hand = |directory: &Path| {
            rclone(server, &["sync", "--transfers", "16", &remote, &shown(directory)]);
            other::sh(directory, command);
            rclone(server, &["sync", "--transfers", "16", &shown(directory), &remote]);
        };
        let [floor, first] = once([&mut || by_hand(work.path()), &mut || run(toolbox.workspace(), command)]);
        let [floor_again, again] = in_turns(
            ROUNDS,
            |_| (),
            [&mut || by_hand(work.path()), &mut || run(toolbox.workspace(), command)],
        );
        let what = |when: &str| format!("a command on {} objects, {when}", files());
        let beside = "rclone sync down, the command, rclone sync up";
        vec![
            line(&what("the first"), beside, floor, first, 1),
            line(&what("again"), beside, floor_again, again, 1),
        ]
    }

    fn large(&mut self) -> Vec<Line> {
        let home = tempfile::tempdir().expect("a temporary directory");
        let file = home.path().join("large");
        std::fs::write(&file, vec![7; usize::try_from(large_bytes()).expect("it fits")]).expect("it is written");
        let prefix = self.server.prefix();
        let toolbox = self.open(&prefix, home.path(), "off");
        let (boto, server) = (&mut self.boto, self.server);
        let theirs = format!("{prefix}/boto/");
        let remote = other::remote(server, &format!("{prefix}/rclone"));
        let out = home.path().join("out");
        let [boto_up, rclone_up, up] = once([
            &mut || drop(boto.ask(json!({"do": "upload", "file": file, "prefix": theirs, "key": "large"}))),
            &mut || {
                rclone(
                    server,
                    &["copyto", "--ignore-times", &shown(&file), &format!("{remote}/large")],
                )
            },
            &mut || {
                write(
                    toolbox.workspace(),
                    "large",
                    Content::from_source(FileSource(file.clone())),
                )
            },
        ]);
        let [boto_down, rclone_down, down] = once([
            &mut || drop(boto.ask(json!({"do": "download", "prefix": theirs, "key": "large"}))),
            &mut || {
                rclone(
                    server,
                    &["copyto", "--ignore-times", &format!("{remote}/large"), &shown(&out)],
                )
            },
            &mut || {
                let mut read = 0;
                let take = |piece: bytes::Bytes| {
                    read += piece.len();
                    std::ops::ControlFlow::Continue(())
                };
                wait(toolbox.workspace().read_stream("large", 0..u64::MAX, take)).expect("it is there");
                assert_eq!(read as u64, large_bytes());
            },
        ]);
        let size = large_bytes() >> 20;
        let (wrote, read) = (
            format!("writing {size} MiB, streamed"),
            format!("reading {size} MiB, streamed"),
        );
        vec![
            line(&wrote, BOTO, boto_up, up, 1),
            line(&wrote, RCLONE, rclone_up, up, 1),
            line(&read, BOTO, boto_down, down, 1),
            line(&read, RCLONE, rclone_down, down, 1),
        ]
    }
}

/// A file, read as it is asked for.
#[derive(Debug)]
struct FileSource(std::path::PathBuf);

impl ContentSource for FileSource {
    fn size(&self) -> u64 {
        std::fs::metadata(&self.0).map_or(0, |metadata| metadata.len())
    }

    fn open(&self) -> garret::Result<Box<dyn std::io::Read + Send>> {
        Ok(Box::new(std::fs::File::open(&self.0).expect("it is there")))
    }
}

/// Does each way once: for what takes so long that a second time would tell nothing more.
fn once<const WAYS: usize>(ways: [&mut dyn FnMut(); WAYS]) -> [Duration; WAYS] {
    ways.map(timed)
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Copies a tree by rclone, as many files at once as the others.
fn rclone_copy(server: &Server, from: &str, to: &str) {
    rclone(server, &["copy", "--transfers", "8", "--checkers", "8", from, to]);
}

fn shown(path: &Path) -> String {
    path.to_str().expect("its name is UTF-8").to_owned()
}

fn line(what: &str, floor_name: &'static str, floor: Duration, garret: Duration, operations: u32) -> Line {
    Line {
        what: what.to_owned(),
        floor_name,
        aim: "",
        floor,
        garret,
        operations,
    }
}
