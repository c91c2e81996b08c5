//! Hosts by name, through the whole program: real programs, the registries that this machine itself uses, and servers
//! of its own.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the tests run the programs of this machine, and say what they could not try"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::common::{Ran, Room, repository, tell_not_tried};
use crate::web_server::WebServer;

/// The most hosts that one installation may turn out to need.
const MOST_HOSTS: usize = 6;

/// A server that answers every connection.
fn serve(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

fn ok(text: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn run_on(room: &Room, network: &str, words: &[&str]) -> Ran {
    room.run(&[&["run", "--network", network], words].concat())
}

/// Returns a run with the environment of the user of this machine, so that its package managers are as he set them.
fn command_as_user(room: &Room, workspace: &[&str], network: &str, script: &str) -> Command {
    let run = ["--json", "run", "--timeout", "110s", "--network", network, "-c", script];
    let mut command = room.command(&[workspace, &run].concat());
    command.envs(std::env::vars()).env("GARRET_HOME", room.home());
    command
}

/// Runs the script, and allows each host that is refused until it succeeds: the hosts are the machine's own choice and
/// stand in no file of ours. Returns the result, with the number of rounds.
fn run_until_allowed(room: &Room, network: &str, script: &str) -> (Value, usize) {
    run_until_allowed_in(room, &[], network, script)
}

/// Runs the script as [`run_until_allowed`] does, in the workspace that the options `workspace` choose.
pub(crate) fn run_until_allowed_in(room: &Room, workspace: &[&str], network: &str, script: &str) -> (Value, usize) {
    let mut network = network.to_owned();
    for round in 0..MOST_HOSTS {
        let ran = Ran::of(command_as_user(room, workspace, &network, script), b"");
        let result = ran.json()["data"].clone();
        if result["exit_code"] == 0 {
            return (result, round);
        }
        let refused = result["network"]["refused"].as_array().cloned().unwrap_or_default();
        assert!(!refused.is_empty(), "{result:#}");
        for one in refused {
            network = format!("{network},{}", one["host"].as_str().unwrap());
        }
    }
    panic!("it is still refused with {network}");
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_it = std::env::split_paths(&path).any(|directory| directory.join(name).exists());
    if !has_it {
        tell_not_tried(format!("this machine has no {name}"));
    }
    has_it
}

#[test]
fn a_refused_host_ends_the_request_at_once_and_is_named_with_its_rule() {
    let room = Room::new();
    let ran = run_on(&room, "example.org", &["curl", "-sS", "https://not-allowed.example"]);
    assert_ne!(ran.code(), 0);
    let told = "garret: refused by `network.allow`: no rule in `network.allow` names not-allowed.example:443\n";
    assert!(ran.err().contains(told), "{}", ran.err());
    let remedy = "garret: to allow a host, name it with `--network`, or in the option `shell.network.allow`\n";
    assert!(ran.err().contains(remedy), "{}", ran.err());
    let plain = run_on(&room, "example.org", &["curl", "-sS", "http://not-allowed.example/"]);
    assert!(
        plain.out().contains("garret: refused by `network.allow`"),
        "{}",
        plain.out()
    );
}

#[test]
fn an_allowed_host_that_is_not_reached_is_named_with_the_reason() {
    let room = Room::new();
    let ran = run_on(&room, "nothing.invalid", &["curl", "-sS", "https://nothing.invalid/"]);
    assert_ne!(ran.code(), 0);
    let told = "garret: not reached: nothing.invalid cannot be resolved: ";
    assert!(ran.err().contains(told), "{}", ran.err());
}

#[test]
fn an_allowed_host_is_reached_and_every_request_is_in_the_result() {
    let room = Room::new();
    let port = serve(ok("hello"));
    let network = format!("localhost:{port}");
    let script = format!(
        "curl -sS --noproxy '' http://localhost:{port}/ && curl -sS --noproxy '' http://other.example/ >/dev/null"
    );
    let ran = room.run(&["--json", "run", "--network", &network, "-c", &script]);
    let result = ran.json()["data"].clone();
    assert_eq!(result["stdout"], "hello", "{result:#}");
    let network = &result["network"];
    assert_eq!(
        (&network["request_count"], &network["refused_count"]),
        (&2.into(), &1.into()),
        "{result:#}"
    );
    let first = &network["requests"][0];
    assert_eq!((&first["host"], &first["method"]), (&"localhost".into(), &"GET".into()));
    assert_eq!((&first["allowed"], &first["bytes_down"]), (&true.into(), &5.into()));
    assert_eq!(network["refused"][0]["host"], "other.example:80");
}

#[test]
fn requests_are_events() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.box]\nstorage = 'memory:'\n[workspaces.box.capabilities.shell]\nnetwork = { allow = ['example.org'] }\n");
    let untrusted = room.run(&["-w", "box", "run", "true"]);
    assert!(untrusted.err().contains("network"), "{}", untrusted.err());
    room.trust();
    let ran = room.run(&[
        "-w",
        "box",
        "--events",
        "jsonl:events",
        "run",
        "-c",
        "curl -s http://other.example/ >/dev/null",
    ]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let events = String::from_utf8(room.get("events")).unwrap();
    let request = events.lines().find(|line| line.contains("\"network\"")).unwrap();
    assert!(
        request.contains("GET other.example:80") && request.contains("\"refused\""),
        "{request}"
    );
}

#[test]
fn promise_45_nothing_but_the_proxy_leads_out() {
    let room = Room::new();
    let port = serve(ok("hello"));
    let script = format!(
        "curl -sS --max-time 3 --noproxy '*' http://127.0.0.1:{port}/; curl -sS --max-time 3 --noproxy '*' http://example.org/; getent hosts example.org; echo end"
    );
    let ran = run_on(&room, &format!("localhost:{port},example.org"), &["-c", &script]);
    assert_eq!(ran.out(), "end\n", "{}", ran.err());
}

#[test]
fn the_sandbox_without_isolation_cannot_name_hosts() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.box]\nstorage = 'memory:'\n[workspaces.box.capabilities.shell]\nsandbox = 'host'\nhost_as_root = true\nnetwork = { allow = ['example.org'] }\n");
    room.trust();
    let ran = room.run(&["-w", "box", "run", "true"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.err().contains("cannot limit the network") && ran.err().contains("`namespace`"),
        "{}",
        ran.err()
    );
}

#[test]
fn a_wrong_network_is_refused_with_the_right_form() {
    let room = Room::new();
    for (network, told) in [
        ("https://example.org/", "without scheme"),
        ("127.1", "not the name of a host"),
        ("{\"alow\": []}", "alow"),
    ] {
        let ran = run_on(&room, network, &["true"]);
        assert_eq!(ran.code(), 2, "{network}");
        assert!(ran.err().contains(told), "{}", ran.err());
    }
}

#[test]
fn npm_installs_from_the_registry_that_it_reports() {
    if !has_program("npm") {
        return;
    }
    let room = Room::new();
    room.put("package.json", r#"{"name": "own", "version": "1.0.0"}"#);
    let (result, rounds) = run_until_allowed(
        &room,
        "registries",
        "npm install --no-audit --no-fund left-pad && node -e \"require('left-pad')\"",
    );
    assert_eq!(rounds, 0, "{result:#}");
    assert!(
        result["network"]["requests"][0]["rule"]
            .as_str()
            .unwrap()
            .starts_with("network.registries: ")
    );
}

#[test]
fn pip_installs_from_the_index_that_it_uses() {
    if Command::new("/usr/bin/python3")
        .args(["-m", "pip", "--version"])
        .output()
        .map_or(true, |answer| !answer.status.success())
    {
        tell_not_tried("the Python of this machine has no pip");
        return;
    }
    let room = Room::new();
    let script = "/usr/bin/python3 -m pip install --quiet --no-deps --target packages six && PYTHONPATH=packages python3 -c 'import six'";
    let (result, _) = run_until_allowed(&room, "registries", script);
    assert!(result["network"]["request_count"].as_u64().unwrap() > 0, "{result:#}");
}

#[test]
fn curl_and_git_reach_an_allowed_host_over_tls() {
    let room = Room::new();
    // A host that surely answers is one that this machine itself uses.
    let registry = Command::new("npm").args(["config", "get", "registry"]).output();
    let Some(url) = registry.ok().and_then(|answer| String::from_utf8(answer.stdout).ok()) else {
        tell_not_tried("this machine has no npm");
        return;
    };
    let url = url.trim();
    let script = format!(
        "curl -sSf {url}left-pad -o pad.json && python3 -c 'import json; json.load(open(\"pad.json\"))' && (git ls-remote {url} 2>&1 | head -1)"
    );
    let ran = Ran::of(command_as_user(&room, &[], "registries", &script), b"");
    let result = ran.json()["data"].clone();
    assert_eq!(result["exit_code"], 0, "{result:#}");
    // It is no repository, but git got as far as an answer of the host.
    assert!(
        !result["stdout"].as_str().unwrap().contains("Could not resolve"),
        "{result:#}"
    );
    assert!(result["network"]["request_count"].as_u64().unwrap() >= 2, "{result:#}");
    assert_eq!(result["network"]["refused_count"], 0, "{result:#}");
}

/// Returns a program of the virtual environment of the tests.
fn program_of_tests(name: &str) -> PathBuf {
    let program = repository().join(".venv/bin").join(name);
    assert!(
        program.exists(),
        "run scripts/setup-tests: {} is missing",
        program.display()
    );
    std::fs::canonicalize(program).unwrap()
}

#[test]
fn uv_installs_from_the_index_that_it_uses() {
    let room = Room::new();
    std::fs::copy(program_of_tests("uv"), room.path().join("uv")).unwrap();
    let script = "UV_CACHE_DIR=/tmp/uv ./uv pip install --quiet --no-deps --python /usr/bin/python3 --target packages six && PYTHONPATH=packages python3 -c 'import six'";
    let (result, _) = run_until_allowed(&room, "registries", script);
    assert!(result["network"]["request_count"].as_u64().unwrap() > 0, "{result:#}");
}

/// Serves one module for Go, `example.org/own`, on a name of this machine; returns the URL. Go uses no proxy for `localhost`.
fn serve_go_module(room: &Room) -> Option<String> {
    let name = std::fs::read_to_string("/etc/hostname").ok()?.trim().to_owned();
    let address = (name.as_str(), 0).to_socket_addrs().ok()?.next()?.ip();
    if !address.is_loopback() {
        return None;
    }
    let root = "example.org/own@v1.0.0";
    let pack = format!(
        "import zipfile\nwith zipfile.ZipFile('own.zip', 'w') as all:\n all.writestr('{root}/go.mod', 'module example.org/own\\n')\n all.writestr('{root}/own.go', 'package own\\n\\nconst Name = \"own\"\\n')\n"
    );
    let packed = Command::new("python3")
        .args(["-c", &pack])
        .current_dir(room.path())
        .status();
    assert!(packed.unwrap().success());
    let module = room.get("own.zip");
    let server = WebServer::start_on(address, move |request| {
        let body = match request.path() {
            "/example.org/own/@v/list" => b"v1.0.0\n".to_vec(),
            "/example.org/own/@v/v1.0.0.info" => br#"{"Version": "v1.0.0"}"#.to_vec(),
            "/example.org/own/@v/v1.0.0.mod" => b"module example.org/own\n".to_vec(),
            "/example.org/own/@v/v1.0.0.zip" => module.clone(),
            _ => return vec![b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()],
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        vec![head.into_bytes(), body]
    });
    Some(format!("http://{name}:{}", server.port))
}

#[test]
fn go_gets_a_module_from_the_proxy_that_it_reports() {
    if !has_program("go") {
        return;
    }
    let room = Room::new();
    let Some(url) = serve_go_module(&room) else {
        tell_not_tried("the name of this machine does not lead to its loopback interface");
        return;
    };
    room.put("go.mod", "module example.org/main\n\nrequire example.org/own v1.0.0\n");
    room.put(
        "main.go",
        "package main\n\nimport \"example.org/own\"\n\nfunc main() { println(own.Name) }\n",
    );
    let script = "CGO_ENABLED=0 GOFLAGS=-mod=mod go run .";
    let mut command = command_as_user(&room, &[], "registries", script);
    command.env("GOPROXY", &url).env("GOSUMDB", "off");
    let result = Ran::of(command, b"").json()["data"].clone();
    assert_eq!(result["exit_code"], 0, "{result:#}");
    assert!(result["stderr"].as_str().unwrap().ends_with("\nown\n"), "{result:#}");
    let rule = result["network"]["requests"][0]["rule"].as_str().unwrap();
    assert!(rule.starts_with("network.registries: "), "{result:#}");
}

#[test]
fn the_doctor_names_the_indexes_that_are_built_into_pip_and_uv() {
    // No setting names an index. `pip` does not work, as a shim of pyenv does not for a version that has only `pip3`.
    let room = Room::new();
    let tools = room.path().join("user/.tools");
    let pip3 = format!("exec {} \"$@\"", program_of_tests("pip3").display());
    for (name, script) in [("pip", "exit 127"), ("pip3", &pip3)] {
        room.put(&format!("user/.tools/{name}"), format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(tools.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::copy(program_of_tests("uv"), tools.join("uv")).unwrap();
    room.put("garret.toml", "[workspaces.box]\nstorage = 'memory:'\n[workspaces.box.capabilities.shell]\nnetwork = { allow = ['example.org'] }\n");
    room.trust();
    let mut command = room.command(&["-w", "box", "--json", "doctor"]);
    command.env("HOME", room.path().join("user"));
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let registries = Ran::of(command, b"").json()["data"]["sandbox"]["registries"].clone();
    let built_in = registries["built_in"].as_array().unwrap();
    let managers: Vec<_> = built_in.iter().filter_map(|one| one[0].as_str()).collect();
    assert_eq!(managers, ["pip", "uv"], "{registries:#}");
    assert_eq!(built_in[0][1], built_in[1][1], "{registries:#}");
    // npm reports the registry that is built into it as its setting.
    assert!(
        !has_program("npm") || registries["reported"][0].is_string(),
        "{registries:#}"
    );
}

#[test]
fn a_secret_for_a_host_reaches_the_host_and_nothing_else() {
    const SECRET: &str = "tok+12345/abcdef==";
    let room = Room::new();
    let server = WebServer::start(|request| {
        let text = format!("hello {}", request.header("authorization"));
        vec![crate::web_server::ok(&text)]
    });
    let port = server.port;
    room.put("certificate.pem", &server.certificate);
    room.put("garret.toml", format!("[workspaces.box]\nstorage = 'filestore:box'\n[workspaces.box.capabilities]\nfs = true\nsnapshot = true\n[[workspaces.box.capabilities.shell.network.secrets]]\nhost = 'localhost:{port}'\nprefix = 'Bearer '\nvalue = 'env:API_TOKEN'\n"));
    room.trust();
    let run = |words: &[&str]| {
        let mut command = room.command(&[&["-w", "box"], words].concat());
        command.env("API_TOKEN", SECRET);
        command.env("SSL_CERT_FILE", room.path().join("certificate.pem"));
        Ran::of(command, b"")
    };
    let script = format!(
        "curl -sS --noproxy '' https://localhost:{port}/ | tee answer; env; cat /proc/self/environ /garret-network/* | tr '\\0' '\\n'; touch $HOME/kept"
    );
    let ran = run(&["--json", "--events", "jsonl:events", "run", "-c", &script]);
    let result = ran.json()["data"].clone();
    assert!(
        result["stdout"].as_str().unwrap().starts_with("hello [secret]"),
        "{result:#}"
    );
    assert_eq!(
        result["network"]["requests"][0]["rule"],
        format!("network.secrets: localhost:{port}")
    );
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("authorization"), format!("Bearer {SECRET}"));
    assert!(requests[0].is_tls);
    let events = String::from_utf8(room.get("events")).unwrap();
    assert!(events.contains("GET localhost:"), "{events}");
    let journal = [&["log"][..], &["--json", "log"], &["show", "1"], &["cat", "answer"]].map(run);
    let shown = journal.iter().map(|ran| format!("{}{}", ran.done(), ran.err()));
    for text in shown.chain([ran.out().to_owned(), ran.err().to_owned(), events]) {
        assert!(!text.contains("12345"), "{text}");
    }
    // Neither do the files of the workspace, its journal, and the home of commands have it.
    for place in [room.path(), &room.home()] {
        let found = Command::new("grep")
            .args(["-rlaF", "12345/abcdef"])
            .arg(place)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    }
}

#[test]
fn a_secret_that_is_not_there_is_an_error_that_names_its_variable() {
    let room = Room::new();
    let network = r#"{"secrets": [{"host": "localhost:9", "value": "env:API_TOKEN"}]}"#;
    let ran = run_on(&room, network, &["true"]);
    assert_eq!(ran.failed(), "denied");
    assert!(
        ran.err().contains("API_TOKEN") && ran.err().contains("set the variable"),
        "{}",
        ran.err()
    );
}

#[test]
fn a_user_without_rights_is_refused_a_host_at_once_and_reaches_an_allowed_one() {
    let Some(room) = Room::of_nobody() else { return };
    let port = serve(ok("hello"));
    let script = format!("curl -sS --noproxy '' http://localhost:{port}/; curl -sS https://not-allowed.example");
    let ran = run_on(&room, &format!("localhost:{port}"), &["sh", "-c", &script]);
    assert_eq!(ran.out(), "hello", "{}", ran.err());
    assert!(
        ran.err()
            .contains("no rule in `network.allow` names not-allowed.example:443"),
        "{}",
        ran.err()
    );
}
