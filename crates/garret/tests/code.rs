//! Code in workspaces, in the sandbox of this machine: what it gives back, what a context keeps, and how one ends.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test makes the directories that it works in, and looks at the clock"
)]

use std::time::{Duration, Instant};

use garret::{
    CodeRequest, CodeResult, ContextRequest, ErrorKind, Garret, Home, Language, LogRequest, PieceRequest, RunRequest,
    Toolbox, UndoRequest, Workspace, WorkspaceConfig, WriteOptions,
};
use garret_testkit::s3::Server;
use serde_json::{Value, json};

const STORAGES: [&str; 3] = ["memory", "filestore", "local"];
/// With a bucket: for what a storage far away does in its own manner.
const EVERYWHERE: [&str; 4] = ["memory", "filestore", "local", "s3"];

/// A workspace with code, on one storage.
struct Room {
    kind: &'static str,
    toolbox: Toolbox,
    directory: tempfile::TempDir,
}

impl Room {
    /// A workspace whose code keeps contexts.
    async fn open(kind: &'static str) -> Self {
        Self::with(kind, json!({"isStateful": true}), json!({})).await
    }

    async fn with(kind: &'static str, code: Value, more: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let toolbox = open(&directory, kind, code, more).await;
        Self {
            kind,
            toolbox,
            directory,
        }
    }

    fn workspace(&self) -> &Workspace {
        self.toolbox.workspace()
    }

    async fn code(&self, language: Language, code: &str) -> CodeResult {
        let ran = self.workspace().run_code(CodeRequest::new(language, code)).await;
        ran.unwrap_or_else(|error| panic!("{language:?} on {}: {error}", self.kind))
    }

    async fn context(&self, language: Language) -> String {
        let made = self
            .workspace()
            .create_code_context(ContextRequest::new(language))
            .await;
        made.unwrap_or_else(|error| panic!("{language:?} on {}: {error}", self.kind))
            .id
    }

    async fn piece(&self, context: &str, code: &str) -> CodeResult {
        let ran = self
            .workspace()
            .run_in_code_context(PieceRequest::new(context, code))
            .await;
        ran.unwrap_or_else(|error| panic!("{context} on {}: {error}", self.kind))
    }

    async fn value(&self, context: &str, code: &str) -> String {
        let result = self.piece(context, code).await;
        assert_eq!(result.error, None, "{code}");
        result.result.map(|value| value.repr).unwrap_or_default()
    }

    async fn read(&self, path: &str) -> Option<String> {
        let read = self.workspace().read_bytes(path).await.ok()?;
        Some(String::from_utf8(read.bytes.to_vec()).unwrap())
    }

    async fn write(&self, path: &str, text: &str) {
        let options = WriteOptions::default();
        self.workspace().write(path, text.to_owned(), options).await.unwrap();
    }

    /// The newest change: its operation, its command and its summary.
    async fn newest(&self) -> Value {
        let log = self.workspace().log(LogRequest::default()).await.unwrap();
        serde_json::to_value(&log.changes[0]).unwrap()
    }

    /// How a context ended, as soon as it has.
    async fn ended(&self, context: &str) -> String {
        for _ in 0..600 {
            let contexts = self.workspace().code_contexts().await.unwrap();
            let found = contexts.into_iter().find(|one| one.id == context).unwrap();
            if let Some(how) = found.ended {
                return how;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the context {context} on {} does not end", self.kind);
    }
}

async fn open(directory: &tempfile::TempDir, kind: &str, code: Value, more: Value) -> Toolbox {
    let files = directory.path().join("files");
    let storage = match kind {
        "local" => {
            std::fs::create_dir_all(&files).unwrap();
            json!(format!("local:{}", files.display()))
        }
        "filestore" => json!("filestore:room"),
        "s3" => in_a_bucket(),
        _ => json!("memory:"),
    };
    let mut config = json!({
        "storage": storage,
        "capabilities": {"fs": true, "snapshot": true, "shell": true, "code": code},
    });
    merge(&mut config, more);
    let config = WorkspaceConfig::from_json(&config.to_string()).unwrap();
    let garret = Garret::new().home(Home::new(directory.path().join("home")));
    garret.open_config("room", &config).await.unwrap()
}

/// A prefix that nobody else has, on the server of this process.
fn in_a_bucket() -> Value {
    let server = Server::shared_seaweed();
    let keys = server.keys();
    json!({
        "kind": "s3", "bucket": server.bucket(), "prefix": server.prefix(), "endpoint": server.endpoint(), "forcePathStyle": true,
        "accessKeyId": keys.access_key_id, "secretAccessKey": keys.secret_access_key,
    })
}

/// Puts the values of `more` into `base`, and takes out what is null.
fn merge(base: &mut Value, more: Value) {
    let Value::Object(more) = more else {
        *base = more;
        return;
    };
    for (key, value) in more {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(&key)),
            value if base[&key].is_object() => merge(&mut base[&key], value),
            value => base[&key] = value,
        }
    }
}

fn text(result: &CodeResult) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&result.stdout.0), text(&result.stderr.0))
}

#[tokio::test]
async fn promise_40_code_is_one_change_that_undo_takes_back() {
    for kind in EVERYWHERE {
        let room = Room::open(kind).await;
        room.write("in.txt", "21").await;
        for (language, code) in [
            (
                Language::Python,
                "n = int(open('in.txt').read())\nimport os\nos.mkdir('d')\nopen('d/out.txt', 'w').write(str(2 * n))\nNone",
            ),
            (
                Language::Javascript,
                "const fs = require('fs'); const n = +fs.readFileSync('in.txt')\nfs.mkdirSync('d'); fs.writeFileSync('d/out.txt', `${2 * n}`)",
            ),
            (Language::Bash, "mkdir d; echo -n $((2 * $(cat in.txt))) > d/out.txt"),
        ] {
            let result = room.code(language, code).await;
            assert_eq!(
                (result.exit_code, &result.error),
                (Some(0), &None),
                "{language:?} on {kind}"
            );
            assert!(result.isolated);
            assert_eq!(result.changed.paths, ["+ d", "+ d/out.txt"]);
            assert_eq!(room.read("d/out.txt").await.as_deref(), Some("42"));
            let newest = room.newest().await;
            assert_eq!(newest["operation"], "run_code");
            let command = newest["actor"]["command"].as_str().unwrap();
            let first = code.lines().next().unwrap();
            assert_eq!(command, format!("{}: {first}", language.as_str()));
            room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
            assert_eq!(room.read("d/out.txt").await, None);
        }
    }
}

#[tokio::test]
async fn code_gives_back_output_value_error_and_exit_code() {
    let room = Room::open("memory").await;
    let result = room
        .code(
            Language::Python,
            "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, 2]}",
        )
        .await;
    assert_eq!(text(&result), ("out\n".to_owned(), "err\n".to_owned()));
    let value = result.result.unwrap();
    assert_eq!(
        (value.repr.as_str(), value.json),
        ("{'a': [1, 2]}", Some(json!({"a": [1, 2]})))
    );
    assert!(result.changed.is_nothing() && result.changed.change.is_none());

    let result = room.code(Language::Javascript, "throw new RangeError('far')").await;
    let error = result.error.unwrap();
    assert_eq!(
        (error.kind.as_str(), error.message.as_str(), result.exit_code),
        ("RangeError", "far", Some(1))
    );

    let result = room.code(Language::Bash, "echo hi; exit 7").await;
    assert_eq!(
        (text(&result).0.as_str(), result.exit_code, result.result),
        ("hi\n", Some(7), None)
    );
}

#[tokio::test]
async fn promise_41_a_context_keeps_what_code_defines_and_nobody_else_sees_it() {
    for kind in STORAGES {
        let room = Room::open(kind).await;
        room.write("d/f.txt", "x").await;
        let (one, two) = (
            room.context(Language::Python).await,
            room.context(Language::Python).await,
        );
        room.value(&one, "import os\nsecret = 41\nos.chdir('d')\ndef more(n): return n + 1")
            .await;
        assert_eq!(
            room.value(&one, "more(secret), os.getcwd(), os.listdir()").await,
            "(42, '/workspace/d', ['f.txt'])"
        );
        let result = room.piece(&two, "secret").await;
        assert_eq!(result.error.unwrap().kind, "NameError");
        let alone = room.code(Language::Python, "secret").await;
        assert_eq!(alone.error.unwrap().kind, "NameError");

        let node = room.context(Language::Javascript).await;
        room.value(&node, "const add = (a, b) => a + b; let x = await Promise.resolve(2)")
            .await;
        assert_eq!(
            room.value(&node, "process.chdir('d'); [add(x, 3), process.cwd()]")
                .await,
            "[ 5, '/workspace/d' ]"
        );

        let bash = room.context(Language::Bash).await;
        assert_eq!(
            room.piece(&bash, "cd d; x='a b'; f() { echo \"$x in $PWD\"; }; false")
                .await
                .exit_code,
            Some(1)
        );
        assert_eq!(text(&room.piece(&bash, "f").await).0, "a b in /workspace/d\n");
        room.workspace().close().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_context_writes_is_a_change_that_names_it_and_undo_takes_back() {
    for kind in EVERYWHERE {
        let room = Room::open(kind).await;
        let context = room.context(Language::Python).await;
        let result = room.piece(&context, "open('a.txt', 'w').write('one')").await;
        assert_eq!(result.changed.paths, ["+ a.txt"], "{kind}");
        assert!(result.changed.change.is_some());
        let newest = room.newest().await;
        assert_eq!(newest["operation"], "run_in_code_context", "{newest}");
        assert!(
            newest["actor"]["command"]
                .as_str()
                .unwrap()
                .contains("python context c1"),
            "{newest}"
        );
        // Tools and contexts see the same files, both ways and at once.
        assert_eq!(room.read("a.txt").await.as_deref(), Some("one"));
        room.write("b.txt", "two").await;
        assert_eq!(room.value(&context, "open('b.txt').read()").await, "'two'");
        room.workspace().undo(UndoRequest::Last(2)).await.unwrap();
        assert_eq!(room.value(&context, "import os\nos.listdir()").await, "[]", "{kind}");
        let result = room.piece(&context, "1 + 1").await;
        assert!(result.changed.is_nothing(), "{:?}", result.changed);
        room.workspace().close().await.unwrap();
        assert_eq!(room.read("a.txt").await, None);
    }
}

#[tokio::test]
async fn promise_42_a_context_that_ends_says_how_and_takes_no_other_with_it() {
    let room = Room::open("filestore").await;
    let (other, node) = (
        room.context(Language::Python).await,
        room.context(Language::Javascript).await,
    );
    room.value(&other, "kept = 'here'").await;
    for (language, code, how) in [
        (
            Language::Python,
            "open('last.txt', 'w').write('words')\nimport sys\nprint('bye')\nsys.exit(3)",
            "exit 3",
        ),
        (Language::Python, "import os\nos.kill(os.getpid(), 11)", "signal 11"),
        (Language::Javascript, "process.exit(6)", "exit 6"),
        (Language::Bash, "exit 5", "exit 5"),
    ] {
        let context = room.context(language).await;
        let result = room.piece(&context, code).await;
        assert_eq!(result.context_ended.as_deref(), Some(how));
        let error = room
            .workspace()
            .run_in_code_context(PieceRequest::new(&context, "1"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains(how), "{error}");
        assert_eq!(room.ended(&context).await, how);
    }
    assert_eq!(room.read("last.txt").await.as_deref(), Some("words"));
    // One that dies between calls is noticed, too.
    let context = room.context(Language::Bash).await;
    room.piece(&context, "(sleep 0.3; kill -9 $$) &").await;
    assert_eq!(room.ended(&context).await, "signal 9");
    assert_eq!(room.value(&other, "kept").await, "'here'");
    let deleted = room.workspace().delete_code_context(&node).await.unwrap();
    assert_eq!(
        (deleted.running, deleted.ended.as_deref()),
        (false, Some("it was deleted"))
    );
    assert_eq!(room.value(&other, "kept").await, "'here'");
    assert_eq!(
        room.workspace()
            .code_contexts()
            .await
            .unwrap()
            .iter()
            .filter(|one| one.running)
            .count(),
        1
    );
    room.workspace().close().await.unwrap();
    assert_eq!(room.ended(&other).await, "the workspace was closed");
}

#[tokio::test]
async fn a_limit_on_memory_ends_one_context_only() {
    let room = Room::with(
        "memory",
        json!({"isStateful": true}),
        json!({"capabilities": {"shell": {"limits": {"memory_mb": 300}}}}),
    )
    .await;
    let (greedy, modest) = (
        room.context(Language::Python).await,
        room.context(Language::Python).await,
    );
    let result = room
        .piece(
            &greedy,
            "x = bytearray(2_000_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\n'all'",
        )
        .await;
    let failed = result.error.as_ref().is_some_and(|error| error.kind == "MemoryError");
    assert!(failed || result.context_ended.is_some(), "{result:?}");
    assert_eq!(room.value(&modest, "'alive'").await, "'alive'");
}

#[tokio::test]
async fn at_its_time_limit_code_ends_and_a_context_with_it() {
    let room = Room::open("memory").await;
    let begun = Instant::now();
    let request = CodeRequest {
        timeout: Some(Duration::from_secs(1)),
        ..CodeRequest::new(Language::Bash, "echo begun; setsid sleep 60 & sleep 60")
    };
    let result = room.workspace().run_code(request).await.unwrap();
    assert!(result.timed_out);
    assert_eq!(text(&result).0, "begun\n");

    let (context, other) = (
        room.context(Language::Javascript).await,
        room.context(Language::Javascript).await,
    );
    let request = PieceRequest {
        timeout: Some(Duration::from_secs(1)),
        ..PieceRequest::new(&context, "console.log('begun'); for (;;) {}")
    };
    let result = room.workspace().run_in_code_context(request).await.unwrap();
    assert!(result.timed_out);
    assert_eq!(text(&result).0, "begun\n");
    assert_eq!(result.context_ended.as_deref(), Some("its code took longer than 1 s"));
    assert_eq!(room.value(&other, "2 + 2").await, "4");
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    let result = room
        .workspace()
        .run_in_code_context(PieceRequest {
            timeout: Some(Duration::from_secs(100_000)),
            ..PieceRequest::new(&other, "1")
        })
        .await
        .unwrap();
    // The policy allows an hour by default.
    assert_eq!(result.lowered_timeout_ms, Some(3_600_000));
}

/// What a model reads of much output, by every tool that shows some.
#[tokio::test]
async fn a_model_reads_the_head_the_tail_and_how_to_get_the_rest() {
    let room = Room::open("memory").await;
    let call = async |tool: &str, arguments: serde_json::Value| {
        let answer = room.toolbox.call(tool, arguments).await;
        assert!(answer.ok, "{}", answer.text);
        answer.text
    };
    let code = "import sys\nfor n in range(1, 3001): print(n)\nprint('the reason', file=sys.stderr)";
    let text = call("run_code", json!({"language": "python", "code": code})).await;
    assert!(text.len() <= 8_000, "{}", text.len());
    assert!(text.starts_with("stderr:\nthe reason\nstdout:\n1\n2\n"), "{text}");
    assert!(text.contains("\n2999\n3000\n[done after "), "{text}");
    assert!(text.contains("`max_output_bytes` (at most "), "{text}");
    let context = room.context(Language::Python).await;
    let more = json!({"context": context, "code": code, "max_output_bytes": 50_000});
    let text = call("run_in_code_context", more).await;
    assert!(text.contains("\n1500\n") && !text.contains("left out"), "{text}");
}

#[tokio::test]
async fn a_context_that_nobody_uses_ends() {
    let room = Room::with("memory", json!({"isStateful": true, "idleTimeoutS": 1.5}), json!({})).await;
    let (idle, used) = (
        room.context(Language::Python).await,
        room.context(Language::Python).await,
    );
    // What it prints by itself is no use of it.
    room.piece(&idle, "import threading, time\ndef talk():\n    while True:\n        print('.', flush=True)\n        time.sleep(0.1)\nthreading.Thread(target=talk, daemon=True).start()").await;
    for _ in 0..8 {
        room.value(&used, "1").await;
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert_eq!(room.ended(&idle).await, "it was not used for 1.5 s");
    assert_eq!(room.value(&used, "'still here'").await, "'still here'");
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_its_context() {
    let room = Room::open("memory").await;
    let (context, other) = (
        room.context(Language::Python).await,
        room.context(Language::Python).await,
    );
    let call = room
        .workspace()
        .run_in_code_context(PieceRequest::new(&context, "import time\ntime.sleep(60)"));
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err());
    assert_eq!(room.ended(&context).await, "a call was cancelled while its code ran");
    assert_eq!(room.value(&other, "1").await, "1");
}

#[tokio::test]
async fn calls_to_one_context_come_one_after_the_other_and_others_do_not_wait() {
    let room = Room::open("memory").await;
    let (slow, quick) = (
        room.context(Language::Python).await,
        room.context(Language::Python).await,
    );
    room.value(&slow, "import time\nlog = []").await;
    let code = "log.append('a'); time.sleep(0.3); log.append('b'); ''.join(log)";
    let both = async { tokio::join!(room.value(&slow, code), room.value(&slow, code)) };
    let (pair, ()) = tokio::join!(both, async {
        assert_eq!(room.value(&quick, "1").await, "1");
    });
    let mut values = [pair.0, pair.1];
    values.sort();
    assert_eq!(values, ["'ab'", "'abab'"]);
}

#[tokio::test]
async fn contexts_and_processes_are_limited_together() {
    let room = Room::with(
        "memory",
        json!({"isStateful": true}),
        json!({"capabilities": {"shell": {"max_processes": 2}}}),
    )
    .await;
    let context = room.context(Language::Bash).await;
    room.workspace().start(RunRequest::shell("sleep 60")).await.unwrap();
    let error = room
        .workspace()
        .create_code_context(ContextRequest::new(Language::Bash))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.refused_by()),
        (ErrorKind::QuotaExceeded, Some("max_processes = 2"))
    );
    room.workspace().delete_code_context(&context).await.unwrap();
    room.context(Language::Bash).await;
    room.workspace().close().await.unwrap();
}

#[tokio::test]
async fn promise_43_only_what_is_declared_is_offered() {
    let names = |toolbox: &Toolbox| -> Vec<String> {
        let all = toolbox.definitions().into_iter().map(|one| one.name);
        all.filter(|name| name.contains("code") || name == "run").collect()
    };
    let contexts = ["create_code_context", "run_in_code_context", "delete_code_context"];
    let room = Room::open("memory").await;
    let all: Vec<_> = ["run", "run_code"].into_iter().chain(contexts).collect();
    assert_eq!(names(&room.toolbox), all);

    let more = json!({"capabilities": {"shell": null}});
    let room = Room::with("memory", json!({"languages": ["bash", "python"]}), more).await;
    assert_eq!(names(&room.toolbox), ["run_code"]);
    let definitions = room.toolbox.definitions();
    let schema = &definitions
        .iter()
        .find(|one| one.name == "run_code")
        .unwrap()
        .input_schema;
    assert_eq!(schema["properties"]["language"]["enum"], json!(["bash", "python"]));
    let answer = room
        .toolbox
        .call("run_code", json!({"language": "javascript", "code": "1"}))
        .await;
    let error = answer.error.unwrap();
    assert_eq!(
        (error.kind(), error.refused_by()),
        (ErrorKind::Denied, Some("languages = bash, python"))
    );
    let error = room
        .workspace()
        .create_code_context(ContextRequest::new(Language::Bash))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let answer = room
        .toolbox
        .call("run_code", json!({"language": "python", "code": "print('hi')\n6 * 7"}))
        .await;
    assert!(answer.text.starts_with("hi\n=> 42\n[done after "), "{}", answer.text);

    let room = Room::with("memory", json!(false), json!({})).await;
    assert_eq!(names(&room.toolbox), ["run"]);
}

#[tokio::test]
async fn a_missing_interpreter_is_unsupported_and_its_package_is_named() {
    let room = Room::with("local", json!({"isStateful": true}), json!({})).await;
    room.code(Language::Bash, "mkdir bin; ln -s /bin/sh bin/sh").await;
    drop(room.toolbox);
    let toolbox = open(
        &room.directory,
        "local",
        json!({"isStateful": true}),
        json!({"env": {"PATH": "/workspace/bin"}}),
    )
    .await;
    let workspace = toolbox.workspace();
    for (language, package) in [
        (Language::Python, "`python3`"),
        (Language::Javascript, "`nodejs`"),
        (Language::Bash, "`bash`"),
    ] {
        let alone = workspace.run_code(CodeRequest::new(language, "1")).await.unwrap_err();
        let context = workspace
            .create_code_context(ContextRequest::new(language))
            .await
            .unwrap_err();
        for error in [alone, context] {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.hint_text().contains(package), "{error}");
        }
    }
    let found = workspace.interpreters().await.unwrap();
    assert!(
        found.iter().all(|one| one.version.is_none() && one.remedy.is_some()),
        "{found:?}"
    );
}

#[tokio::test]
async fn interpreters_tell_their_versions() {
    let room = Room::open("memory").await;
    let found = room.workspace().interpreters().await.unwrap();
    assert_eq!(found.len(), 3);
    let python = found[0].version.as_deref().unwrap();
    assert!(python.starts_with("Python 3."), "{python}");
    assert!(found.iter().all(|one| one.remedy.is_none()), "{found:?}");
}

#[tokio::test]
async fn no_secret_shows_in_what_code_gives_back_or_leaves() {
    let shell = json!({"capabilities": {"shell": {"secrets": ["TOKEN"]}}, "env": {"TOKEN": "canary-73"}});
    let room = Room::with("filestore", json!({"isStateful": true}), shell).await;
    let code =
        "token = __import__('os').environ['TOKEN']; print(token); open('f', 'w').write('x'); {'t': token} # canary-73";
    let context = room.context(Language::Python).await;
    let results = [
        room.code(Language::Python, code).await,
        room.piece(&context, code).await,
    ];
    for result in results {
        let shown = serde_json::to_string(&result).unwrap();
        assert!(!shown.contains("canary-73"), "{shown}");
        assert_eq!(result.result.unwrap().json, Some(json!({"t": "[TOKEN]"})));
    }
    let result = room.piece(&context, "raise ValueError(token)").await;
    assert!(!serde_json::to_string(&result).unwrap().contains("canary-73"));
    assert!(!room.newest().await.to_string().contains("canary-73"));
    room.workspace().close().await.unwrap();
}

#[tokio::test]
async fn bash_code_is_held_to_the_rules_for_commands() {
    let more = json!({"capabilities": {"shell": {"denied_commands": ["curl"], "allowed_commands": ["ls", "curl"]}}});
    let room = Room::with("memory", json!({"isStateful": true}), more).await;
    let error = room
        .workspace()
        .run_code(CodeRequest::new(Language::Bash, "ls; curl x"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let context = room.context(Language::Bash).await;
    let error = room
        .workspace()
        .run_in_code_context(PieceRequest::new(&context, "cat f"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(room.piece(&context, "ls").await.exit_code, Some(0));
    // An interpreter is there because its language is.
    assert_eq!(room.code(Language::Python, "1").await.exit_code, Some(0));
}

#[tokio::test]
async fn code_that_is_tried_leaves_nothing() {
    let room = Room::open("memory").await;
    let answer = room
        .toolbox
        .call(
            "run_code",
            json!({"language": "python", "code": "open('f', 'w').write('x')", "discard": true}),
        )
        .await;
    assert!(answer.ok && answer.text.contains("discarded"), "{}", answer.text);
    assert_eq!(room.read("f").await, None);
}

#[tokio::test]
async fn a_scope_has_contexts_of_its_own() {
    let room = Room::open("memory").await;
    room.write("d/f.txt", "x").await;
    let scope = room.workspace().scope("d", garret::ScopeOptions::default()).unwrap();
    let context = scope
        .create_code_context(ContextRequest::new(Language::Python))
        .await
        .unwrap()
        .id;
    let inside = scope
        .run_in_code_context(PieceRequest::new(&context, "import os\nos.getcwd()"))
        .await
        .unwrap();
    assert_eq!(inside.result.unwrap().repr, "'/workspace/d'");
    let error = room
        .workspace()
        .run_in_code_context(PieceRequest::new(&context, "1"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(room.workspace().code_contexts().await.unwrap().is_empty());
    scope.delete_code_context(&context).await.unwrap();
}

#[tokio::test]
async fn much_output_keeps_its_head_and_its_tail_and_the_outcome() {
    let room = Room::with(
        "memory",
        json!({"isStateful": true}),
        json!({"capabilities": {"shell": {"limits": {"output_kib": 4}}}}),
    )
    .await;
    let code = "print('first')\nfor i in range(200_000): print(i)\nprint('last')\n'value'";
    let context = room.context(Language::Python).await;
    for result in [
        room.code(Language::Python, code).await,
        room.piece(&context, code).await,
    ] {
        assert!(
            result.truncated && result.left_out_bytes > 1_000_000,
            "{}",
            result.left_out_bytes
        );
        assert!(result.output.starts_with("first\n") && result.output.ends_with("last\n"));
        assert_eq!(result.result.unwrap().repr, "'value'");
    }
}
