//! `garret port` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the machine from outside, as another program would"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::common::Room;

/// `garret port` as it runs, and the URL that it has printed.
struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    fn start(room: &Room, arguments: &[&str]) -> Self {
        let mut command = room.command(arguments);
        let piped = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .find_map(|line| {
                let line = line.unwrap();
                let (_, rest) = line.strip_prefix("garret: port ")?.split_once("http://")?;
                Some(format!("http://{}", rest.split([';', ' ']).next()?))
            })
            .expect("the URL is printed");
        // Read to its end, so that the program can go on writing.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url }
    }

    /// What an ordinary HTTP client gets.
    fn fetch(&self, page: &str) -> String {
        let text = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1]).read().decode())";
        let fetched = Command::new("python3")
            .args(["-c", text, &format!("{}/{page}", self.url)])
            .env("no_proxy", "*")
            .output()
            .unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        String::from_utf8(fetched.stdout).unwrap()
    }

    /// Interrupts it, as Ctrl-C does; gives its exit code.
    fn interrupt(mut self) -> i32 {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code().unwrap()
    }
}

#[test]
fn a_development_server_is_reached_until_ctrl_c_and_its_changes_are_kept() {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    room.run(&["-w", "box", "write", "index.html", "hello from the sandbox"])
        .done();
    let server = "echo started > log.txt; exec python3 -m http.server 8000";
    let serving = Serving::start(&room, &["-w", "box", "port", "8000", "-c", server]);
    assert_eq!(serving.fetch("index.html"), "hello from the sandbox");
    let address = serving.url.trim_start_matches("http://").to_owned();
    assert_eq!(serving.interrupt(), 130);
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!(room.run(&["-w", "box", "cat", "log.txt"]).done(), "started\n");
}

#[test]
fn a_server_runs_in_a_plain_directory() {
    let room = Room::new();
    room.put("page.txt", "as it is");
    let serving = Serving::start(&room, &["port", "8000", "--", "python3", "-m", "http.server", "8000"]);
    assert_eq!(serving.fetch("page.txt"), "as it is");
    room.put("later.txt", "written by an editor");
    // The server sees changes of other programs on the directory itself.
    assert_eq!(serving.fetch("later.txt"), "written by an editor");
    assert_eq!(serving.interrupt(), 130);
}

#[test]
fn a_user_without_rights_reaches_his_server() {
    let Some(room) = Room::of_nobody() else { return };
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    room.run(&["-w", "box", "write", "index.html", "hello from the sandbox"])
        .done();
    let server = "echo started > log.txt; exec python3 -m http.server 8000";
    let serving = Serving::start(&room, &["-w", "box", "port", "8000", "-c", server]);
    assert_eq!(serving.fetch("index.html"), "hello from the sandbox");
    assert_eq!(serving.interrupt(), 130);
    assert_eq!(room.run(&["-w", "box", "cat", "log.txt"]).done(), "started\n");
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let room = Room::new();
    let ran = room.run(&["port", "8000", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!((ran.code(), ran.out()), (3, "out\n"), "{}", ran.err());
    assert!(ran.err().contains("err\n"), "{}", ran.err());
    assert!(ran.err().contains("did not listen on port 8000"), "{}", ran.err());
    let missing = room.run(&["port", "8000", "--", "no-such-program"]);
    assert_eq!(missing.failed(), "not_found");
}

#[test]
fn without_a_command_the_error_says_what_to_write() {
    let room = Room::new();
    let refused = room.run(&["port", "3000"]);
    assert_eq!(refused.misused(), "invalid");
    assert!(refused.err().contains("garret port 3000 -- "), "{}", refused.err());
}

#[test]
fn another_address_is_refused_before_the_command_runs() {
    let room = Room::new();
    let refused = room.run(&["port", "8000", "--bind", "0.0.0.0", "-c", "echo ran"]);
    assert_eq!(refused.failed(), "denied");
    assert_eq!(refused.out(), "");
    room.put(
        "garret.toml",
        "[workspaces.site]\nstorage = 'memory:'\n[workspaces.site.capabilities.shell]\nports = { bind = '127.0.0.2' }\n",
    )
    .trust();
    let server = [
        "-w",
        "site",
        "port",
        "8000",
        "--",
        "python3",
        "-m",
        "http.server",
        "8000",
    ];
    let serving = Serving::start(&room, &server);
    assert!(serving.url.starts_with("http://127.0.0.2:"), "{}", serving.url);
    serving.fetch("");
    serving.interrupt();
}
