//! What an attack finds around it: a workspace, and everything on the machine that it must not reach.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::typist::Typist;

/// What must never be seen inside.
pub(crate) const CANARY: &str = "canary-4f1d7c";

/// Who runs Garret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The user of the test.
    Own,
    /// Somebody without rights, where the test is root.
    Nobody,
}

const NOBODY: u32 = 65534;
const STRANGER: u32 = 54321;

/// Where the files live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Filestore,
    Local,
}

/// A machine with secrets, seen by the user who runs Garret.
pub(crate) struct Scene {
    directory: tempfile::TempDir,
    pub(crate) user: User,
    pub(crate) place: Place,
    pub(crate) port: u16,
    pub(crate) socket: String,
    reached: Arc<AtomicUsize>,
}

impl Scene {
    pub(crate) fn new(user: User, place: Place) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let reached = Arc::new(AtomicUsize::new(0));
        let port = listen_on_port(reached.clone());
        let socket = format!("garret-attack-{}-{port}", std::process::id());
        listen_on_name(&socket, reached.clone());
        let scene = Self {
            directory,
            user,
            place,
            port,
            socket,
            reached,
        };
        scene.furnish();
        scene
    }

    fn furnish(&self) {
        for name in ["work", "work/tree", "work/vault", "home", "outside", "user"] {
            std::fs::create_dir_all(self.path(name)).unwrap();
        }
        // The program may lie where only its builder can read.
        std::fs::copy(env!("CARGO_BIN_EXE_garret"), self.path("garret")).unwrap();
        std::fs::write(self.path("outside/secret"), CANARY).unwrap();
        std::fs::write(self.path("user/.secret"), CANARY).unwrap();
        std::fs::write(self.path("work/garret.toml"), self.config()).unwrap();
        let mine = [
            "work",
            "work/tree",
            "work/vault",
            "work/garret.toml",
            "home",
            "outside",
            "outside/secret",
            "user",
            "user/.secret",
        ];
        std::fs::set_permissions(self.directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for name in mine.iter().filter(|_| self.user == User::Nobody) {
            chown(self.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        self.garret(&["trust", "--yes"]);
        self.garret(&["-w", "other", "write", "secret", CANARY]);
        self.garret(&["-w", "box", "write", "kept", "kept"]);
        self.garret(&["-w", "box", "write", "dir/file", "kept"]);
        self.garret(&["-w", "vault", "run", "-c", "mkdir sub; printf open > open"]);
    }

    fn config(&self) -> String {
        let storage = |name: &str| match self.place {
            Place::Filestore => format!("filestore:{name}"),
            Place::Local if name == "box" => "local:tree".to_owned(),
            Place::Local if name == "vault" => "local:vault".to_owned(),
            Place::Local => format!("filestore:{name}"),
        };
        let vault = storage("vault");
        let views = [
            ("vault", ""),
            ("fenced", "deny_read = ['**/.env', '**/keys']"),
            ("frozen", "read_only = true"),
        ];
        let views = views.map(|(name, rules)| {
            format!(
                "[workspaces.{name}]\nstorage = '{vault}'\nexclude = ['target/']\n[workspaces.{name}.capabilities]\nsnapshot = true\n\
                 [workspaces.{name}.capabilities.fs]\n{rules}\n\
                 [workspaces.{name}.capabilities.shell]\nprevent_dangerous = false\n"
            )
        });
        let own = format!(
            "[workspaces.other]\nstorage = '{}'\n[workspaces.box]\nstorage = '{}'\n[workspaces.box.capabilities]\nfs = true\n\
             snapshot = true\n[workspaces.box.capabilities.shell]\nprevent_dangerous = false\n\
             limits = {{ memory_mb = 512, processes = 64, written_mb = 64, output_kib = 64, changed_files = 2000, home_mb = 32 }}\n",
            storage("other"),
            storage("box"),
        );
        own + &views.concat()
    }

    /// A path outside of every workspace.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text, for a script.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// How often something inside reached a listener of the machine.
    pub(crate) fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }

    /// Runs the program as the user of the scene would.
    pub(crate) fn garret(&self, arguments: &[&str]) -> Ran {
        self.garret_in("work", arguments)
    }

    /// Runs the program with variables, written `NAME=VALUE`, besides those that it always has.
    pub(crate) fn garret_with(&self, variables: &[&str], arguments: &[&str]) -> Ran {
        let mut command = self.command();
        command.envs(variables.iter().filter_map(|text| text.split_once('=')));
        Ran::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the program on a machine whose names and addresses are those of the file `hosts` of the scene.
    pub(crate) fn garret_with_hosts(&self, hosts: &str, arguments: &[&str]) -> Ran {
        // Mounting takes root. A user without rights becomes root of a namespace for it, and himself again afterwards.
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let (unshare, back) = if user.is_root() {
            (&["unshare", "--mount"][..], String::new())
        } else {
            let back = format!("unshare --map-user {} --map-group {} --", user.as_raw(), group.as_raw());
            (&["unshare", "--mount", "--map-root-user"][..], back)
        };
        let script = format!("mount --bind {} /etc/hosts && exec {back} \"$@\"", self.text(hosts));
        let machine = [unshare, &["sh", "-c", &script, "sh"]].concat();
        let mut command = self.command_on(&machine, &[]);
        Ran::of(&command.args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the program in another directory.
    pub(crate) fn garret_in(&self, directory: &str, arguments: &[&str]) -> Ran {
        let mut command = self.command();
        command.current_dir(self.path(directory)).args(arguments);
        Ran::of(&command.stdin(Stdio::null()).output().unwrap())
    }

    /// Writes a file that belongs to the user of the scene, as a clone or a download leaves it there.
    pub(crate) fn put(&self, name: &str, content: &str) {
        let path = self.path(name);
        let parents: Vec<_> = path.ancestors().skip(1).take_while(|above| !above.exists()).collect();
        for directory in parents.into_iter().rev() {
            std::fs::create_dir(directory).unwrap();
            self.give(directory);
        }
        std::fs::write(&path, content).unwrap();
        self.give(&path);
    }

    fn give(&self, path: &Path) {
        if self.user == User::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    /// Gives a file to somebody who is neither the user of the scene nor root; says whether that could be done.
    pub(crate) fn give_away(&self, name: &str) -> bool {
        rustix::process::geteuid().is_root() && chown(self.path(name), Some(STRANGER), Some(STRANGER)).is_ok()
    }

    /// Starts the MCP server in a directory, has it list its tools and runs a script by the tool `run`. Both answers are in the output; there
    /// are none where the server does not start.
    pub(crate) fn run_by_mcp(&self, directory: &str, arguments: &[&str], script: &str) -> Ran {
        let mut command = self.command();
        command.current_dir(self.path(directory)).args(arguments);
        let mut client = Client::open(&mut command);
        let tools = client.ask("tools/list", &json!({}));
        let ran = client.call("run", &json!({"command": script}));
        client.close();
        let names = tools["tools"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = names.iter().map(|tool| tool["name"].to_string()).collect();
        Ran {
            code: Some(i32::from(names.iter().any(|name| name == "\"run\""))),
            stdout: format!("{} {ran}", names.join(" ")),
            stderr: String::new(),
        }
    }

    /// Runs the program on a terminal of its own, whose user answers no to all questions. Everything that the terminal got is in `stdout`.
    pub(crate) fn garret_on_terminal(&self, directory: &str, arguments: &[&str]) -> Ran {
        let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
        let mut command = self.command_under(&["python3", "-c", spawn]);
        command.current_dir(self.path(directory)).args(arguments);
        let piped = command
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut running = piped.stderr(Stdio::piped()).spawn().unwrap();
        // A program that asks nothing may be gone already.
        let _ = running.stdin.take().unwrap().write_all(b"n\n");
        Ran::of(&running.wait_with_output().unwrap())
    }

    /// Runs a shell on a terminal, and types on it. Everything that was shown is in `stdout`, without what
    /// the typist looked at.
    pub(crate) fn shell(&self, arguments: &[&str], typing: impl FnOnce(&mut Typist)) -> Ran {
        let mut command = self.command();
        command.args(["-w", "box", "shell"]).args(arguments);
        let mut typist = Typist::start(&command);
        typist.see("$ ");
        typing(&mut typist);
        let (code, stdout) = typist.finish();
        Ran {
            code: Some(code),
            stdout,
            stderr: String::new(),
        }
    }

    /// Runs the program in a directory with umask 0.
    pub(crate) fn garret_without_umask(&self, directory: &str, arguments: &[&str]) -> Ran {
        let mut command = self.command_under(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
        command.current_dir(self.path(directory)).args(arguments);
        Ran::of(&command.stdin(Stdio::null()).output().unwrap())
    }

    fn command(&self) -> Command {
        self.command_under(&[])
    }

    /// The program as the user of the scene starts it, by another program that gets it as an argument.
    fn command_under(&self, starter: &[&str]) -> Command {
        self.command_on(&[], starter)
    }

    /// The same on a machine that another program changes first.
    fn command_on(&self, machine: &[&str], starter: &[&str]) -> Command {
        let id = NOBODY.to_string();
        let user = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
        let user = match self.user {
            User::Own => &[][..],
            User::Nobody => &user[..],
        };
        let program = self.text("garret");
        let words = [machine, user, starter, &[&program]].concat();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("user"))
            .env("GARRET_HOME", self.path("home/garret"))
            .env("SECRET_OF_GARRET", CANARY);
        command
    }

    /// Runs the script of an attack in the workspace.
    pub(crate) fn attack(&self, seconds: u32, script: &str) -> Ran {
        let timeout = format!("{seconds}s");
        self.garret(&["-w", "box", "run", "--timeout", &timeout, "-c", script])
    }

    /// Starts a script in the background, and once it has said `wanted` calls tools beside it: each must do its work. Gives what all of them
    /// said.
    pub(crate) fn beside(&self, script: &str, wanted: &str, calls: &[(&str, Value)]) -> Ran {
        let mut client = Client::open(self.command().args(["-w", "box", "mcp", "--structured"]));
        let mut answers = vec![client.call("start", &json!({"command": script}))];
        let id = answers[0]["structuredContent"]["id"].clone();
        let has_said = |client: &mut Client| {
            let output = client.call("output", &json!({"id": id, "wait_s": 0.1}));
            // The rest of the answer has the script, which holds the word as well.
            output["structuredContent"]["stdout"].to_string().contains(wanted)
        };
        let has_begun = (0..100).any(|_| has_said(&mut client));
        answers.extend(calls.iter().map(|(tool, arguments)| client.call(tool, arguments)));
        client.call("kill", &json!({"id": id}));
        client.close();
        let has_failed = answers.iter().any(|answer| answer["isError"] != false);
        let texts = answers
            .iter()
            .filter_map(|answer| answer["content"][0]["text"].as_str());
        Ran {
            code: Some(i32::from(has_failed || !has_begun)),
            stdout: texts.collect::<Vec<_>>().join("\n"),
            stderr: String::new(),
        }
    }

    /// Whether the machine and the workspace are as they were, and the workspace still works.
    pub(crate) fn is_unharmed(&self) -> Result<(), String> {
        for (name, content) in [("outside/secret", CANARY), ("user/.secret", CANARY)] {
            if std::fs::read_to_string(self.path(name)).ok().as_deref() != Some(content) {
                return Err(format!("{name} was touched"));
            }
        }
        let strange = |directory: &str, known: &[&str]| {
            let entries = std::fs::read_dir(self.path(directory)).unwrap();
            let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default());
            names.find(|name| !known.contains(&name.as_str()))
        };
        for (directory, known) in [("outside", &["secret"][..]), ("user", &[".secret"][..])] {
            if let Some(name) = strange(directory, known) {
                return Err(format!("{name} came to be in {directory}"));
            }
        }
        let other = self.garret(&["-w", "other", "cat", "secret"]);
        if other.stdout != CANARY {
            return Err(format!("another workspace was touched: {other:?}"));
        }
        let again = self.garret(&["-w", "box", "run", "-c", "echo fine"]);
        match again.stdout.trim() {
            "fine" => Ok(()),
            _ => Err(format!("the next command does not run: {again:?}")),
        }
    }

    /// Whether a process with this text in its command line lives on the machine.
    pub(crate) fn lives(&self, text: &str) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let own = std::process::id().to_string();
        processes
            .filter(|entry| entry.file_name().to_str() != Some(&own))
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .any(|line| String::from_utf8_lossy(&line).contains(text))
    }

    /// Returns how long the process `number` of a script shall sleep: a time that no process of another scene sleeps.
    pub(crate) fn sleep_seconds(&self, number: u32) -> String {
        format!("{}.{}", 7390 + number, self.port)
    }

    /// Returns whether the process that sleeps [`Self::sleep_seconds`] of `number` lives.
    pub(crate) fn sleeps(&self, number: u32) -> bool {
        self.lives(&format!("sleep\x00{}", self.sleep_seconds(number)))
    }

    /// The host's file at a path of the workspace, where the files live in a directory.
    pub(crate) fn tree(&self, name: &str) -> Option<PathBuf> {
        (self.place == Place::Local).then(|| self.path("work/tree").join(name))
    }
}

/// A client of the program over a pipe, for what must stay open.
struct Client {
    server: Child,
    lines: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    fn open(command: &mut Command) -> Self {
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = piped.spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap());
        let mut client = Self {
            server,
            lines,
            asked: 0,
        };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}});
        client.ask("initialize", &hello);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        // A server that refused to start reads nothing, and its answers are missing then.
        let _ = writeln!(self.server.stdin.as_mut().unwrap(), "{message}");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        answer["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    fn close(mut self) {
        drop(self.server.stdin.take());
        self.server.wait().unwrap();
    }
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Everything that was said.
    pub(crate) fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Adds up variants of an attack: everything that was said, and as exit code how many of them succeeded.
pub(crate) fn sum(variants: impl IntoIterator<Item = (Ran, bool)>) -> Ran {
    let mut all = Ran {
        code: Some(0),
        stdout: String::new(),
        stderr: String::new(),
    };
    for (number, (ran, has_succeeded)) in variants.into_iter().enumerate() {
        all.code = all.code.map(|code| code + i32::from(has_succeeded));
        all.stdout += &format!("[{number}] {}\n", ran.stdout);
        all.stderr += &format!("[{number}] {}\n", ran.stderr);
    }
    all
}

/// Whether no variant of a sum succeeded.
pub(crate) fn none_succeeded(_: &Scene, ran: &Ran) -> bool {
    ran.code == Some(0)
}

/// A script of the shell that runs a text in Python, which has no single quote.
pub(crate) fn python(text: &str) -> String {
    format!("python3 -c '\n{text}\n'")
}

fn listen_on_port(reached: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            reached.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(CANARY.as_bytes());
        }
    });
    port
}

fn listen_on_name(name: &str, reached: Arc<AtomicUsize>) {
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            reached.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(CANARY.as_bytes());
            let _ = stream.read(&mut [0]);
        }
    });
}

/// Whether a file is there, whatever it is.
pub(crate) fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
