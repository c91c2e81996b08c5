//! How a command runs: its streams, its environment, its limits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use garret::{
    Chunk, DeclaredCapability, ErrorKind, OutputSink, OutputStream, RunRequest, RunResult, ScopeOptions, ShellPolicy,
};
use serde_json::json;

use crate::shell::support::{On, each, room, room_with};

#[test]
fn a_failing_command_is_a_success_with_its_exit_code() {
    each(|on| async move {
        let room = room(on).await;
        let result = room.run("echo kept > a; exit 3").await;
        assert_eq!((result.exit_code, result.signal), (3, None), "{on:?}");
        assert_eq!(room.read("a").await, "kept\n", "what it did counts all the same");
        let result = room.run("kill -9 $$").await;
        assert_eq!((result.exit_code, result.signal), (137, Some(9)), "{on:?}");
        let answer = room.toolbox.call("run", json!({"command": "exit 4"})).await;
        assert!(answer.ok && answer.text.contains("exit code 4"), "{}", answer.text);
    });
}

#[test]
fn what_cannot_run_is_an_error() {
    each(|on| async move {
        let room = room(on).await;
        let missing = room
            .workspace()
            .run(RunRequest::arguments(["no-such-program-here"]))
            .await
            .unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        for request in [RunRequest::shell("  "), RunRequest::arguments::<String>([])] {
            let error = room.workspace().run(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        }
        let elsewhere = RunRequest {
            cwd: "../..".into(),
            ..RunRequest::shell("pwd")
        };
        let error = room.workspace().run(elsewhere).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PathEscape, "{error}");
        assert_eq!(room.sh("echo fine").await.output, "fine\n", "{on:?}: the next one runs");
    });
}

#[test]
fn streams_stay_apart_and_byte_exact() {
    each(|on| async move {
        let room = room(on).await;
        let result = room
            .sh("printf 'a\\377b'; printf 'err\\n' >&2; head -c 300000 /dev/zero")
            .await;
        assert_eq!(result.stdout.0.len(), 300_003, "{on:?}");
        assert_eq!(&result.stdout.0[..3], b"a\xffb");
        assert_eq!(&result.stderr.0[..], b"err\n");
        assert!(!result.truncated);
    });
}

#[test]
fn a_command_has_its_input_its_environment_and_its_directory() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.env.insert("FROM".into(), "workspace".into());
            config.env.insert("BOTH".into(), "workspace".into());
        })
        .await;
        room.sh("mkdir -p deep/er").await;
        let request = RunRequest {
            stdin: Some("input".into()),
            env: BTreeMap::from([("BOTH".to_owned(), "call".to_owned())]),
            cwd: "deep/er".into(),
            ..RunRequest::shell("cat; echo; echo $FROM $BOTH; pwd; env | cut -d= -f1 | sort | tr '\\n' ' '")
        };
        let output = room.workspace().run(request).await.unwrap().output;
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(&lines[..3], ["input", "workspace call", "/workspace/deep/er"], "{on:?}");
        let names: Vec<_> = lines[3].split(' ').collect();
        // The environment of this test has both.
        assert!(
            names.contains(&"PATH") && !names.contains(&"CARGO_MANIFEST_DIR"),
            "{names:?}"
        );
    });
}

#[test]
fn promise_31_at_the_time_limit_everything_ends() {
    each(|on| async move {
        let room = room(on).await;
        // A time that no other process sleeps for.
        let mark = format!("98{}", std::process::id());
        let request = RunRequest {
            timeout: Some(Duration::from_secs(2)),
            ..RunRequest::shell(format!(
                "sleep {mark} & disown; setsid sleep {mark} & (trap '' TERM INT; sleep {mark}) & sleep {mark}"
            ))
        };
        room.sh("true").await;
        let began = Instant::now();
        let result = room.workspace().run(request).await.unwrap();
        let took = began.elapsed();
        assert!(result.timed_out && result.limit.is_some(), "{on:?}");
        assert!(
            took >= Duration::from_secs(2) && took < Duration::from_secs(8),
            "{took:?}"
        );
        assert_eq!(sleepers(&mark), 0, "{on:?}");
    });
}

#[test]
fn dropping_the_call_ends_the_command_and_keeps_nothing() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("true").await;
        let mark = format!("97{}", std::process::id());
        let workspace = room.workspace().clone();
        let text = format!("echo half > half; sleep {mark}");
        let call = tokio::spawn(async move { workspace.run(RunRequest::shell(text)).await });
        wait_until(|| sleepers(&mark) > 0).await;
        call.abort();
        wait_until(|| sleepers(&mark) == 0).await;
        assert_eq!(room.sh("ls").await.output, "", "{on:?}");
        assert!(room.tree().await.is_empty(), "{on:?}");
    });
}

/// How many processes of this machine sleep for `mark` seconds.
fn sleepers(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let wanted = format!("sleep\0{mark}\0").into_bytes();
    lines.filter(|line| *line == wanted).count()
}

async fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come to be in ten seconds");
}

#[test]
fn endless_output_is_bounded_with_its_head_and_tail() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                limits: garret::ShellLimits {
                    output_kib: Some(4),
                    ..Default::default()
                },
                ..ShellPolicy::default()
            });
        })
        .await;
        let result = room.sh("echo first; seq 100000; echo last").await;
        assert!(result.truncated && result.left_out_bytes > 500_000, "{on:?}");
        assert!(result.output.starts_with("first\n1\n") && result.output.ends_with("last\n"));
        assert!(result.output.len() < 5_000);
    });
}

#[test]
fn a_call_raises_its_time_limit_up_to_the_longest_one_and_a_reached_limit_says_how() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                limits: garret::ShellLimits {
                    timeout_s: Some(0.5),
                    max_timeout_s: Some(60.0),
                    file_size_mb: Some(1.0),
                    open_files: Some(32),
                    ..Default::default()
                },
                ..ShellPolicy::default()
            });
        })
        .await;
        let reached = |result: &RunResult| {
            let reached = result.reached.as_ref();
            reached.map(|limit| (limit.value.clone(), limit.option.clone(), limit.longest_s))
        };
        let of = |value: &str, key: &str, longest| Some((value.to_owned(), format!("shell.limits.{key}"), longest));

        let ended = room.run("sleep 1000").await;
        assert!(ended.timed_out, "{on:?}");
        assert_eq!(reached(&ended), of("0.5 s", "timeout_s", Some(60)), "{on:?}");
        // Longer than the default, and as long as was asked for.
        let raised = RunRequest {
            timeout: Some(Duration::from_secs(50)),
            ..RunRequest::shell("sleep 1; echo done")
        };
        let raised = room.workspace().run(raised).await.unwrap();
        assert_eq!(
            (raised.output.as_str(), raised.lowered_timeout_ms),
            ("done\n", None),
            "{on:?}"
        );
        assert_eq!(reached(&raised), None, "{on:?}");
        let lowered = RunRequest {
            timeout: Some(Duration::from_secs(100)),
            ..RunRequest::shell("echo done")
        };
        let lowered = room.workspace().run(lowered).await.unwrap();
        assert_eq!(lowered.lowered_timeout_ms, Some(60_000), "{on:?}");

        let large = room.run("head -c 2000000 /dev/zero > large").await;
        assert_eq!(reached(&large), of("1 MiB", "file_size_mb", None), "{on:?}");
        let opening = "python3 -c 'files = [open(\"/dev/null\") for _ in range(99)]'";
        let open = room.run(opening).await;
        assert_eq!(reached(&open), of("32", "open_files", None), "{on:?}: {}", open.output);
    });
}

/// Notes when each chunk came.
struct Watch(Vec<(OutputStream, Vec<u8>, Instant)>);

#[async_trait]
impl OutputSink for Watch {
    async fn take(&mut self, chunk: &Chunk) {
        self.0.push((chunk.stream, chunk.bytes.to_vec(), Instant::now()));
    }
}

#[test]
fn output_comes_while_the_command_runs() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("true").await;
        let mut watch = Watch(Vec::new());
        let request = RunRequest::shell("echo early; sleep 1; echo late >&2");
        room.workspace().run_with(request, &mut watch).await.unwrap();
        let (first, last) = (&watch.0[0], watch.0.last().unwrap());
        assert_eq!(
            (first.0, &first.1[..]),
            (OutputStream::Stdout, &b"early\n"[..]),
            "{on:?}"
        );
        assert_eq!((last.0, &last.1[..]), (OutputStream::Stderr, &b"late\n"[..]));
        assert!(last.2 - first.2 > Duration::from_millis(700), "{on:?}");
    });
}

#[test]
fn a_narrowed_view_runs_in_its_own_directory_and_sees_no_other() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p mine theirs && echo secret > theirs/s && echo own > mine/o && echo top > top")
            .await;
        let scope = room.workspace().scope("mine", ScopeOptions::default()).unwrap();
        let result = scope
            .run(RunRequest::shell("pwd; ls; ls /workspace; echo new > made"))
            .await
            .unwrap();
        assert_eq!(result.output, "/workspace/mine\no\nmine\n", "{on:?}");
        assert_eq!(result.changed.paths, ["+ made"], "{on:?}");
        let escape = scope
            .run(RunRequest::shell(
                "cat /workspace/theirs/s; echo x > /workspace/outside",
            ))
            .await
            .unwrap();
        assert!(!escape.output.contains("secret"), "{}", escape.output);
        assert!(!room.tree().await.contains_key("outside"), "{on:?}");
    });
}

#[test]
fn promise_39_every_result_says_whether_it_was_isolated_and_what_was_not_enforced() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let room = room(On::Memory).await;
        let result = room.sh("true").await;
        assert!(result.isolated);
        let told = serde_json::to_value(&result).unwrap();
        assert_eq!(told["isolated"], true, "{told}");
        let missing: Vec<_> = result.guards.iter().filter(|one| !one.is_enforced).collect();
        let names: Vec<_> = missing.iter().map(|one| one.guard.as_str()).collect();
        assert_eq!(told["not_enforced"], json!(names), "{told}");
        assert!(told.get("details").is_none() && told.get("guards").is_none(), "{told}");
        let asked = room
            .toolbox
            .call("run", json!({"command": "echo a; echo b >&2", "details": true}))
            .await;
        let data = asked.data.unwrap();
        assert!(data["details"]["guards"].as_array().unwrap().len() > 5, "{data}");
        let output = data["details"]["output"].as_str().unwrap();
        assert!(output.contains("a\n") && output.contains("b\n"), "{data}");
        let started = room.toolbox.call("start", json!({"command": "sleep 100"})).await;
        let data = started.data.unwrap();
        assert_eq!(
            (&data["isolated"], &data["not_enforced"]),
            (&json!(true), &json!(names))
        );
        room.toolbox.call("kill", json!({"id": data["id"]})).await;
        let answer = room.toolbox.call("run", json!({"command": "echo hi > a"})).await;
        assert!(answer.text.ends_with("1 created: + a; change 1]"), "{}", answer.text);
    });
}

#[test]
fn the_host_is_a_sandbox_for_those_who_ask_for_it_by_name() {
    each(|on| async move {
        let host = |host_as_root| {
            move |config: &mut garret::WorkspaceConfig| {
                config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                    sandbox: "host".into(),
                    host_as_root,
                    ..ShellPolicy::default()
                });
            }
        };
        let said_twice = room_with(on, host(true)).await;
        let result = said_twice.sh("echo hi > a && mkdir d && ln -s a l").await;
        assert!(!result.isolated, "{on:?}");
        assert!(result.not_enforced.contains(&garret::Guard::Files), "{on:?}");
        assert_eq!(result.changed.describe_counts(), "3 created", "{on:?}");
        said_twice.undo().await;
        assert!(said_twice.tree().await.is_empty(), "{on:?}");
        if is_root() {
            let said_once = room_with(on, host(false)).await;
            let error = said_once.workspace().run(RunRequest::shell("true")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
    });
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The processes that this one started and that have something open below `place`.
fn children_at(place: &std::path::Path) -> Vec<i32> {
    let entries = |path: String| std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_child = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains(&format!("\nPPid:\t{}\n", std::process::id()))
    };
    let is_there = |pid: &i32| {
        entries(format!("/proc/{pid}/fd"))
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|link| link.starts_with(place)))
    };
    let numbers = entries("/proc".to_owned()).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_child).filter(is_there).collect()
}

#[test]
fn a_sandbox_that_was_killed_between_two_commands_is_opened_again() {
    each(|on| async move {
        // Its checkout lies outside of the home.
        if on == On::Memory {
            return;
        }
        let room = room(on).await;
        room.sh("true").await;
        let supervisors = children_at(room.home.path());
        assert_eq!(supervisors.len(), 1, "{on:?}");
        let killed = std::process::Command::new("kill")
            .args(["-KILL", &supervisors[0].to_string()])
            .status();
        assert!(killed.unwrap().success());
        while std::path::Path::new(&format!("/proc/{}", supervisors[0])).exists() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(room.sh("echo there; echo x > made").await.output, "there\n", "{on:?}");
        assert_eq!(room.read("made").await, "x\n", "{on:?}");
    });
}
