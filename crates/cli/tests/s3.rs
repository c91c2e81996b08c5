//! A workspace in a bucket, as a user runs it, with boto3 looking at the objects after each step.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests run the program as a user does, several at once"
)]

use std::io::Read;
use std::process::{Command, Stdio};

use crate::common::{Ran, Room};
use garret_testkit::s3::{Issuer, Keys, Proxy, Server};

/// A workspace in a prefix of its own.
struct Cloud {
    room: Room,
    server: &'static Server,
    prefix: String,
}

impl Cloud {
    /// Makes the workspace `cloud`.
    fn new() -> Self {
        let cloud = Self::bare(Server::shared_seaweed());
        let url = cloud.url("");
        let made = [
            "create",
            "cloud",
            "--storage",
            &url,
            "--capability",
            "fs,shell,snapshot",
        ];
        cloud.run(&made).done();
        cloud
    }

    fn bare(server: &'static Server) -> Self {
        Self {
            room: Room::new(),
            prefix: server.prefix(),
            server,
        }
    }

    fn url(&self, options: &str) -> String {
        let (bucket, endpoint) = (self.server.bucket(), self.server.endpoint());
        format!(
            "s3://{bucket}/{}?endpoint={endpoint}&force_path_style=true{options}",
            self.prefix
        )
    }

    fn command(&self, arguments: &[&str], keys: &Keys) -> Command {
        let mut command = self.room.command(arguments);
        command.env("AWS_ACCESS_KEY_ID", &keys.access_key_id);
        command.env("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_as(&self.server.keys(), arguments, "")
    }

    /// Runs the program on the workspace with something on its standard input.
    fn on(&self, arguments: &[&str], input: &str) -> Ran {
        let all: Vec<_> = ["-w", "cloud"].iter().chain(arguments).copied().collect();
        self.run_as(&self.server.keys(), &all, input)
    }

    fn run_as(&self, keys: &Keys, arguments: &[&str], input: &str) -> Ran {
        Ran::of(self.command(arguments, keys), input.as_bytes())
    }

    /// The objects as boto3 sees them, without the prefix and what Garret keeps for itself.
    fn objects(&self) -> Vec<(String, String)> {
        let start = format!("{}/", self.prefix);
        let mut boto = self.server.boto();
        let keys = boto.keys(&start).into_iter().filter(|key| !key.contains("/.garret/"));
        let keys: Vec<_> = keys.collect();
        let object = |key: String| {
            let body = String::from_utf8(boto.get(&key).body).unwrap();
            (key[start.len()..].to_owned(), body)
        };
        keys.into_iter().map(object).collect()
    }

    /// What another program does.
    fn put(&self, path: &str, content: &str) {
        self.server
            .boto()
            .put(&format!("{}/{path}", self.prefix), content.as_bytes(), &[]);
    }
}

fn texts(objects: &[(&str, &str)]) -> Vec<(String, String)> {
    objects
        .iter()
        .map(|(key, body)| ((*key).to_owned(), (*body).to_owned()))
        .collect()
}

#[test]
fn an_import_can_live_in_a_bucket() {
    let cloud = Cloud::bare(Server::shared_seaweed());
    cloud.room.put("from/a.txt", "one").put("from/deep/b", "two");
    let url = cloud.url("");
    cloud
        .run(&["import", "--from", "from", "--name", "cloud", "--storage", &url])
        .done();
    let imported = texts(&[("a.txt", "one"), ("deep/", ""), ("deep/b", "two")]);
    assert_eq!(cloud.objects(), imported);
    cloud.on(&["write", "a.txt"], "changed").done();
    cloud.on(&["undo"], "").done();
    assert_eq!(cloud.objects(), imported);
}

#[test]
fn a_workspace_in_a_bucket_is_one_like_any_other_and_its_objects_are_plain() {
    let cloud = Cloud::new();
    assert_eq!(cloud.objects(), texts(&[]));
    cloud.on(&["write", "notes/a.md"], "hello world\n").done();
    cloud.on(&["write", "b.txt"], "plain\n").done();
    assert_eq!(
        cloud.objects(),
        texts(&[("b.txt", "plain\n"), ("notes/a.md", "hello world\n")])
    );
    cloud.on(&["edit", "notes/a.md", "world", "cloud"], "").done();
    assert_eq!(cloud.objects()[1].1, "hello cloud\n");
    assert_eq!(cloud.on(&["grep", "hello"], "").done(), "notes/a.md:1:hello cloud\n");
    // What others put there is found by the next search, and by commands.
    cloud.put("theirs.txt", "hello from boto3\n");
    let mut found: Vec<_> = cloud
        .on(&["grep", "hello"], "")
        .done()
        .lines()
        .map(str::to_owned)
        .collect();
    found.sort();
    assert_eq!(found, ["notes/a.md:1:hello cloud", "theirs.txt:1:hello from boto3"]);
    assert_eq!(cloud.on(&["glob", "notes/*.md"], "").done(), "notes/a.md\n");
    cloud.on(&["run", "-c", "ls -R > listing.txt"], "").done();
    let listing = cloud
        .objects()
        .into_iter()
        .find(|(key, _)| key == "listing.txt")
        .unwrap()
        .1;
    for name in ["b.txt", "notes:", "a.md", "theirs.txt"] {
        assert!(listing.contains(name), "{listing}");
    }
    cloud.on(&["undo"], "").done();
    let now = texts(&[
        ("b.txt", "plain\n"),
        ("notes/a.md", "hello cloud\n"),
        ("theirs.txt", "hello from boto3\n"),
    ]);
    assert_eq!(cloud.objects(), now);
    cloud.on(&["snapshot", "create", "before"], "").done();
    cloud.on(&["branch", "create", "try"], "").done();
    assert_eq!(cloud.objects(), now, "neither is in the bucket");
    cloud.on(&["write", "b.txt"], "changed\n").done();
    cloud.on(&["rm", "theirs.txt"], "").done();
    let try_it = |arguments: &[&str]| {
        let all: Vec<_> = ["-w", "try"].iter().chain(arguments).copied().collect();
        cloud.run(&all)
    };
    assert_eq!(try_it(&["cat", "b.txt"]).done(), "plain\n");
    assert_eq!(
        cloud.objects(),
        texts(&[("b.txt", "changed\n"), ("notes/a.md", "hello cloud\n")])
    );
    cloud.on(&["restore", "before"], "").done();
    assert_eq!(cloud.objects(), now);
}

#[test]
fn a_command_that_others_overtake_is_kept_on_a_branch() {
    let cloud = Cloud::new();
    cloud.on(&["write", "shared.txt"], "before\n").done();
    // What the command prints is more than a pipe holds, so it ends only after all of it is read here.
    let script = "echo ours > shared.txt; echo more > new.txt; head -c 1000000 /dev/zero | tr '\\0' x";
    let mut child = cloud
        .command(&["-w", "cloud", "run", "-c", script], &cloud.server.keys())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    cloud.put("shared.txt", "theirs\n");
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(75), "{said}");
    assert!(said.starts_with("garret: Not applied: "), "{said}");
    assert_eq!(
        cloud.objects(),
        texts(&[("shared.txt", "theirs\n")]),
        "nothing of it is in the bucket"
    );
    let branch = said.split('`').nth(1).unwrap();
    assert_eq!(cloud.run(&["-w", branch, "cat", "shared.txt"]).done(), "ours\n");
    assert_eq!(cloud.run(&["-w", branch, "cat", "new.txt"]).done(), "more\n");
}

#[test]
fn programs_that_append_to_and_edit_one_file_at_once_lose_nothing() {
    const EACH: usize = 6;
    let cloud = Cloud::new();
    cloud.on(&["write", "log.txt"], "count: 0\n").done();
    std::thread::scope(|scope| {
        let append = |name: &'static str| {
            let cloud = &cloud;
            move || {
                for number in 0..EACH {
                    cloud.on(&["append", "log.txt"], &format!("{name} {number}\n")).done();
                }
            }
        };
        scope.spawn(append("one"));
        scope.spawn(append("two"));
        let cloud = &cloud;
        scope.spawn(move || {
            for number in 0..EACH {
                let (old, new) = (format!("count: {number}"), format!("count: {}", number + 1));
                cloud.on(&["edit", "log.txt", &old, &new], "").done();
            }
        });
    });
    let text = cloud.objects().remove(0).1;
    assert!(text.starts_with(&format!("count: {EACH}\n")), "{text}");
    for name in ["one", "two"] {
        for number in 0..EACH {
            let line = format!("{name} {number}");
            assert_eq!(
                text.lines().filter(|found| *found == line).count(),
                1,
                "{line} in {text}"
            );
        }
    }
}

/// Makes a workspace, writes and reads with nothing but what `environment` says of keys; gives all that was printed.
fn works_with(cloud: &Cloud, environment: &[(&str, &str)]) -> String {
    let mut printed = String::new();
    let mut run = |arguments: &[&str], input: &str| {
        let mut command = cloud.room.command(arguments);
        command.envs(environment.iter().copied());
        let ran = Ran::of(command, input.as_bytes());
        printed += ran.err();
        printed += ran.done();
    };
    run(&["create", "cloud", "--storage", &cloud.url("")], "");
    run(&["-w", "cloud", "write", "a.txt"], "from nobody's keys");
    run(&["-w", "cloud", "cat", "a.txt", "--json"], "");
    assert_eq!(cloud.objects(), texts(&[("a.txt", "from nobody's keys")]));
    printed
}

#[test]
fn the_keys_of_the_instance_serve_where_none_are_given() {
    let cloud = Cloud::bare(Server::shared_moto());
    let instance = Proxy::before(cloud.server);
    let printed = works_with(&cloud, &[("AWS_METADATA_ENDPOINT", &instance.endpoint())]);
    let role = "/latest/meta-data/iam/security-credentials/default-role";
    assert!(
        instance.seen().iter().any(|seen| seen.target == role),
        "{:?}",
        instance.seen()
    );
    assert!(!printed.contains("test-secret-key") && !printed.contains("test-session-token"));
}

#[test]
fn a_web_identity_is_given_keys() {
    let cloud = Cloud::bare(Server::shared_moto());
    let issuer = Issuer::start();
    let token = cloud.room.path().join("token");
    std::fs::write(&token, "a token of somebody else").unwrap();
    let environment = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/tests"),
        ("AWS_ENDPOINT_URL_STS", &issuer.endpoint()),
        ("SSL_CERT_FILE", issuer.certificate().to_str().unwrap()),
    ];
    let printed = works_with(&cloud, &environment);
    assert!(!printed.contains("a token of somebody else"));
}

#[test]
fn where_nobody_gives_keys_that_is_what_the_error_says() {
    let cloud = Cloud::bare(Server::shared_moto());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut command = cloud
        .room
        .command(&["create", "cloud", "--storage", &cloud.url(""), "--json"]);
    command.env("AWS_METADATA_ENDPOINT", format!("http://{nobody}"));
    let ran = Ran::of(command, b"");
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "denied", "{error}");
    assert!(error["message"].as_str().unwrap().contains("credentials"), "{error}");
}

#[test]
fn a_wrong_key_is_named_by_its_cause_and_not_shown() {
    let cloud = Cloud::bare(Server::shared_seaweed());
    let keys = Keys::wrong();
    let url = cloud.url("");
    for json in [&[][..], &["--json"]] {
        let arguments: Vec<_> = ["create", "cloud", "--storage", &url]
            .iter()
            .chain(json)
            .copied()
            .collect();
        let ran = cloud.run_as(&keys, &arguments, "");
        assert_eq!(ran.failed(), "denied");
        let said = format!("{}{}", ran.out(), ran.err());
        assert!(
            !said.contains(&keys.secret_access_key) && !said.contains(&keys.access_key_id),
            "{said}"
        );
        assert!(said.contains("key"), "the cause: {said}");
    }
}

#[test]
fn a_server_that_ignores_conditions_is_refused_unless_nobody_else_writes() {
    let server: &'static Server = Box::leak(Box::new(Server::rclone()));
    let cloud = Cloud::bare(server);
    let refused = cloud.run(&["create", "cloud", "--storage", &cloud.url("")]);
    assert_eq!(refused.failed(), "unsupported");
    assert!(refused.err().contains("single"), "{}", refused.err());
    let alone = cloud.url("&writers=single");
    cloud.run(&["create", "cloud", "--storage", &alone]).done();
    cloud.on(&["write", "a.txt"], "alone\n").done();
    assert_eq!(cloud.objects(), texts(&[("a.txt", "alone\n")]));
}

#[test]
fn keys_are_in_no_ref_no_log_and_no_file_of_the_home() {
    let cloud = Cloud::new();
    cloud.on(&["write", "a.txt"], "x\n").done();
    let keys = cloud.server.keys();
    let shown = [&["ref"][..], &["log"], &["--json", "log"]].map(|arguments| cloud.on(arguments, "").done().to_owned());
    for text in shown {
        assert!(!text.contains(&keys.secret_access_key), "{text}");
    }
    let mut directories = vec![cloud.room.home()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            let secret = keys.secret_access_key.as_bytes();
            let is_there = bytes.windows(secret.len()).any(|window| window == secret);
            assert!(!is_there, "{:?}", entry.path());
        }
    }
}

#[test]
fn keys_that_stand_in_each_others_way_are_told_by_fsck() {
    let cloud = Cloud::new();
    cloud.put("k", "a file");
    assert!(!cloud.run(&["fsck"]).done().contains("key"));
    cloud.put("k/sub", "below it");
    let told = cloud.run(&["fsck"]);
    assert!(told.done().contains("`k/sub`"), "{}", told.out());
    assert_eq!(cloud.on(&["cat", "k"], "").done(), "a file");
}

#[test]
fn a_search_that_is_limited_says_so_and_one_that_is_off_is_not_offered() {
    let cloud = Cloud::bare(Server::shared_seaweed());
    for path in ["a.txt", "b.txt", "c.txt"] {
        cloud.put(path, "canary\n");
    }
    let limited = cloud.url("&max_objects_scanned=2");
    let ran = cloud.run(&["-w", &limited, "grep", "canary"]);
    assert_eq!(ran.done().lines().count(), 2);
    assert!(
        ran.err().contains("max_objects_scanned: everything after b.txt"),
        "{}",
        ran.err()
    );
    let off = cloud.url("&search_enabled=false");
    assert_eq!(cloud.run(&["-w", &off, "grep", "canary"]).failed(), "unsupported");
    let tools = cloud.run(&["-w", &off, "tools"]);
    assert!(
        !tools.done().contains("grep") && !tools.out().contains("glob"),
        "{}",
        tools.out()
    );
}

#[test]
fn a_server_that_is_known_is_asked_only_where_a_command_needs_it() {
    let cloud = Cloud::bare(Server::shared_seaweed());
    let proxy = Proxy::before(cloud.server);
    let url = cloud.url("").replace(&cloud.server.endpoint(), &proxy.endpoint());
    let made = [
        "create",
        "cloud",
        "--storage",
        &url,
        "--capability",
        "fs,shell,snapshot",
    ];
    cloud.run(&made).done();
    assert!(proxy.operations().contains(&"PUT"), "the server is probed once");
    cloud.on(&["write", "a.txt"], "one\n").done();
    proxy.forget();
    cloud.run(&["list"]).done();
    for command in [&["log"][..], &["snapshot", "list"], &["branch", "list"]] {
        cloud.on(command, "").done();
        assert_eq!(proxy.operations(), [""; 0], "{command:?}");
    }
    assert_eq!(cloud.on(&["cat", "a.txt"], "").done(), "one\n");
    let asked = proxy.operations();
    assert!(asked.len() <= 2 && !asked.contains(&"PUT"), "{asked:?}");
}
