//! Hosts by name, through the whole program: real programs, the registries that this machine itself uses, and servers
//! of its own.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the tests run the programs of this machine, and say what they could not try"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::common::{Ran, Room};

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

/// Runs a command with the environment of the user of this machine, so that its package managers are as he set them.
fn run_as_user(room: &Room, network: &str, script: &str) -> Ran {
    run_in_workspace(room, &[], network, script)
}

fn run_in_workspace(room: &Room, workspace: &[&str], network: &str, script: &str) -> Ran {
    let run = ["--json", "run", "--timeout", "110s", "--network", network, "-c", script];
    let mut command = room.command(&[workspace, &run].concat());
    command.envs(std::env::vars()).env("GARRET_HOME", room.home());
    Ran::of(command, b"")
}

/// Runs the script, and allows each host that is refused until it succeeds: the hosts are the machine's own choice and
/// stand in no file of ours. Returns the result, with the number of rounds.
fn run_until_allowed(room: &Room, network: &str, script: &str) -> (Value, usize) {
    run_until_allowed_in(room, &[], network, script)
}

/// Does the same in the workspace that the options `workspace` choose.
pub(crate) fn run_until_allowed_in(room: &Room, workspace: &[&str], network: &str, script: &str) -> (Value, usize) {
    let mut network = network.to_owned();
    for round in 0..MOST_HOSTS {
        let result = run_in_workspace(room, workspace, &network, script).json()["data"].clone();
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
    let path = std::env::var("PATH").unwrap_or_default();
    let inside = ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(name).exists());
    inside
        && path
            .split(':')
            .any(|directory| Path::new(directory).join(name).exists())
}

#[test]
fn a_refused_host_ends_the_request_at_once_and_is_named_with_its_rule() {
    let room = Room::new();
    let ran = run_on(&room, "example.org", &["curl", "-sS", "https://not-allowed.example"]);
    assert_ne!(ran.code(), 0);
    let told = "garret: refused by `network.allow`: no rule in `network.allow` names not-allowed.example:443\n";
    assert!(ran.err().contains(told), "{}", ran.err());
    let plain = run_on(&room, "example.org", &["curl", "-sS", "http://not-allowed.example/"]);
    assert!(
        plain.out().contains("garret: refused by `network.allow`"),
        "{}",
        plain.out()
    );
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
fn requests_are_events_and_background_processes_have_a_record() {
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
        return;
    };
    let url = url.trim();
    let script = format!(
        "curl -sSf {url}left-pad -o pad.json && python3 -c 'import json; json.load(open(\"pad.json\"))' && (git ls-remote {url} 2>&1 | head -1)"
    );
    let ran = run_as_user(&room, "registries", &script);
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

#[test]
fn cargo_fetches_from_the_registry_that_it_uses() {
    let Ok(cargo) = std::env::var("CARGO") else { return };
    let room = Room::new();
    room.put(
        "Cargo.toml",
        "[package]\nname = \"own\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n",
    );
    room.put("src/lib.rs", "");
    // The program itself, so that the test does not depend on how this machine installs toolchains.
    std::fs::copy(cargo, room.path().join("cargo")).unwrap();
    let script = "CARGO_HOME=/tmp/cargo ./cargo vendor --quiet >/dev/null && test -f vendor/itoa/Cargo.toml";
    let (result, _) = run_until_allowed(&room, "registries", script);
    assert!(result["network"]["request_count"].as_u64().unwrap() > 0, "{result:#}");
}
