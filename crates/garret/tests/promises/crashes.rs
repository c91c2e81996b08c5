//! What a crash, a loss of power or damage leaves.

use super::*;

/// Shown from outside: the system calls of a whole `garret` process, in their order.
#[test]
fn promise_19_a_returned_write_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let calls = |durability: &str| {
        let log = directory.path().join(format!("{durability}.log"));
        let mut command = std::process::Command::new("strace");
        command
            .args(["-f", "-o"])
            .arg(&log)
            .args(["-e", "trace=fsync,fdatasync,rename,renameat,renameat2"]);
        command.arg(std::env::current_exe().unwrap()).args([
            "--exact",
            "promises::crashes::child_that_writes_one_file",
            "--nocapture",
        ]);
        command
            .env("GARRET_TEST_DIRECTORY", directory.path())
            .env("GARRET_TEST_DURABILITY", durability);
        let status = command
            .output()
            .expect("strace is installed by scripts/setup-tests")
            .status;
        assert!(status.success());
        let log = std::fs::read_to_string(log).unwrap();
        let names = log.lines().filter_map(|line| {
            line.split_whitespace()
                .nth(1)?
                .split_once('(')
                .map(|(name, _)| name.to_owned())
        });
        names
            .map(|name| {
                if name.contains("sync") {
                    "sync".to_owned()
                } else {
                    "rename".to_owned()
                }
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(calls("full"), ["sync", "rename", "sync"]);
    assert_eq!(calls("relaxed"), ["rename"]);
}

/// The process that the test above watches; by itself it has nothing to do.
#[tokio::test]
async fn child_that_writes_one_file() {
    let (Ok(directory), Ok(durability)) = (
        std::env::var("GARRET_TEST_DIRECTORY"),
        std::env::var("GARRET_TEST_DURABILITY"),
    ) else {
        return;
    };
    let storage = json!({"storage": {"kind": "local", "dir": directory, "durability": durability}});
    let config = WorkspaceConfig::from_json(&storage.to_string()).unwrap();
    let toolbox = Garret::new().open_config("room", &config).await.unwrap();
    assert!(
        toolbox
            .call("write_file", json!({"path": "f", "content": "x"}))
            .await
            .ok
    );
}

/// The child of promise 28: writes until it is killed, and says what it was told is done.
async fn write_until_killed(home: &str, url: &str) -> ! {
    let toolbox = Garret::new().home(Home::new(home)).open_url(url).await.unwrap();
    for number in 0.. {
        let file = |name: &str| format!("--- /dev/null\n+++ b/{number}/{name}\n@@ -0,0 +1 @@\n+{number}\n");
        let patch = [file("a"), file("b")].concat();
        let answer = toolbox.call("apply_patch", json!({"diff": patch})).await;
        assert!(answer.ok, "{}", answer.text);
        // Straight to the descriptor: the test harness keeps what is printed.
        use std::io::Write;
        writeln!(
            std::fs::File::options().write(true).open("/dev/stderr").unwrap(),
            "done {number}"
        )
        .unwrap();
    }
    unreachable!("it is killed before")
}

#[tokio::test]
async fn promise_28_a_crash_leaves_every_change_that_was_done_and_no_half_of_one() {
    use std::io::BufRead;
    let asked = std::env::var("GARRET_PROMISE_28");
    if let Some((home, url)) = asked.as_deref().ok().and_then(|asked| asked.split_once('|')) {
        write_until_killed(home, url).await;
    }
    for kind in ["filestore", "local"] {
        let room = Room::open(kind, FsPolicy::default()).await;
        let url = match room.host_path() {
            Some(path) => format!("local:{}", path.display()),
            None => "filestore:room".to_owned(),
        };
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "promises::crashes::promise_28_a_crash_leaves_every_change_that_was_done_and_no_half_of_one",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env("GARRET_PROMISE_28", format!("{}|{url}", room.home.path().display()))
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("done ")?.parse::<u32>().ok());
        let last = said.take(25).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = room.reopened().await;
        for number in 0..=last {
            for name in ["a", "b"] {
                let read = found.workspace().read_bytes(&format!("{number}/{name}")).await;
                assert_eq!(read.unwrap().bytes, format!("{number}\n"), "{kind}");
            }
        }
        let (a, b) = (format!("{}/a", last + 1), format!("{}/b", last + 1));
        let has = |path: String| {
            let workspace = found.workspace().clone();
            async move { workspace.read_bytes(&path).await.is_ok() }
        };
        assert_eq!(
            has(a).await,
            has(b).await,
            "{kind}: both files of the change that was under way, or neither"
        );
        let log = found.workspace().log(LogRequest::default()).await.unwrap();
        assert!(log.changes.len() > last as usize, "{kind}: each is in the journal");
    }
}

#[tokio::test]
async fn promise_29_damaged_content_is_an_error_never_wrong_bytes() {
    let room = Room::open("filestore", FsPolicy::default()).await;
    let content = (0..200_000_u32).map(|number| (number % 251) as u8).collect::<Vec<_>>();
    room.workspace()
        .write("large", content, Default::default())
        .await
        .unwrap();
    room.write("small", "untouched").await;
    let mut blobs = walk(&room.home.path().join("blobs"));
    let blob = blobs.pop().unwrap();
    let mut bytes = std::fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blob, &bytes).unwrap();
    let error = room.workspace().read_bytes("large").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.path(), Some("large"));
    assert!(error.to_string().contains("`large`"), "in text, too: {error}");
    std::fs::remove_file(&blob).unwrap();
    let error = room.workspace().read_bytes("large").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(room.read("small").await, "untouched");
}

fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}
