//! The drivers without a sandbox: each interpreter is started as in a sandbox, and is spoken to over pipes.

#![allow(clippy::disallowed_methods, reason = "these tests start interpreters")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use garret_core::{Chunk, OutputStream, Secrets};
use serde_json::json;

use super::*;
use crate::code::outcome::CodeOutcome;
use crate::code::output_mark::DriverStreams;

/// The outcome and the output of one piece.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    outcome: Option<CodeOutcome>,
    stdout: String,
    stderr: String,
}

impl Piece {
    fn repr(&self) -> &str {
        let outcome = self.outcome.as_ref().expect("the piece came to an end");
        outcome.result.as_ref().map_or("", |value| &value.repr)
    }

    fn json(&self) -> Option<serde_json::Value> {
        self.outcome.as_ref()?.result.as_ref()?.json.clone()
    }

    fn error(&self) -> &crate::CodeError {
        let outcome = self.outcome.as_ref().expect("the piece came to an end");
        outcome.error.as_ref().expect("the piece failed")
    }

    fn exit_code(&self) -> Option<i32> {
        self.outcome.as_ref()?.exit_code
    }
}

/// Runs pieces one after the other in one interpreter. Returns each of them, and the exit code.
fn run(language: Language, pieces: &[&str]) -> (Vec<Piece>, Option<i32>) {
    let CommandProgram::Arguments(arguments) = driver_program(language) else {
        panic!("a driver has arguments")
    };
    let mut child = Command::new(&arguments[0])
        .args(&arguments[1..])
        .current_dir(std::env::temp_dir())
        .env_remove("PYTHONSTARTUP")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the interpreter is on this machine");
    let mut stdin = child.stdin.take().expect("it is piped");
    let requests: Vec<Bytes> = pieces
        .iter()
        .enumerate()
        .map(|(at, code)| encode_request(language, &format!("word-{at}-"), code).unwrap())
        .collect();
    let writer = std::thread::spawn(move || {
        for request in requests {
            // An interpreter that has ended reads no more requests.
            let _ = stdin.write_all(&request);
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let (mut stdout, mut stderr) = (output.stdout, output.stderr);
    let pieces = (0..pieces.len()).map(|at| next(&format!("word-{at}-"), &mut stdout, &mut stderr));
    (pieces.collect(), output.status.code())
}

/// Takes the piece with this word off both streams; without a mark, takes all of both.
fn next(word: &str, stdout: &mut Vec<u8>, stderr: &mut Vec<u8>) -> Piece {
    let mut marked = DriverStreams::new(word);
    let mut shown = |stream, bytes: &mut Vec<u8>| {
        let mut output = Vec::new();
        let mut taken = 0;
        // Byte by byte, so that the bytes behind the mark stay for the next piece.
        while taken < bytes.len() && !marked.has_mark(stream) {
            let chunk = Chunk {
                stream,
                bytes: Bytes::copy_from_slice(&bytes[taken..=taken]),
            };
            output.extend(marked.push(&chunk).into_iter().flat_map(|chunk| chunk.bytes));
            taken += 1;
        }
        bytes.drain(..taken);
        String::from_utf8_lossy(&output).into_owned()
    };
    let (stdout, stderr) = (shown(OutputStream::Stdout, stdout), shown(OutputStream::Stderr, stderr));
    Piece {
        outcome: marked
            .driver_report()
            .map(|told| CodeOutcome::parse_report(told, &Secrets::default())),
        stdout,
        stderr,
    }
}

fn run_one(language: Language, code: &str) -> (Piece, Option<i32>) {
    let (mut pieces, exit) = run(language, &[code]);
    (pieces.remove(0), exit)
}

#[test]
fn python_keeps_what_pieces_define() {
    let (pieces, exit) = run(
        Language::Python,
        &[
            "import json\nx = 20",
            "def double(n):\n    return 2 * n\n",
            "import os\nos.chdir('/')",
            "print(double(x))\n[os.getcwd(), json.loads('1')]",
        ],
    );
    assert_eq!(pieces[3].stdout, "40\n");
    assert_eq!(pieces[3].json(), Some(json!(["/", 1])));
    assert_eq!(exit, Some(0));
}

#[test]
fn python_tells_the_value_of_the_last_expression() {
    let code = [
        "1 + 1",
        "None",
        "x = 3",
        "{'a': (1, None)}",
        "object",
        "float('nan')",
        "10 ** 30",
        "'\\ud800'",
    ];
    let (pieces, _) = run(Language::Python, &code);
    let told: Vec<_> = pieces.iter().map(|piece| (piece.repr(), piece.json())).collect();
    assert_eq!(
        told,
        [
            ("2", Some(json!(2))),
            ("", None),
            ("", None),
            ("{'a': (1, None)}", Some(json!({"a": [1, null]}))),
            ("<class 'object'>", None),
            ("nan", None),
            ("1000000000000000000000000000000", None),
            ("'\\ud800'", Some(json!("?"))),
        ]
    );
}

#[test]
fn python_errors_come_with_the_frames_of_the_code_only() {
    let (pieces, exit) = run(
        Language::Python,
        &[
            "def f():\n    return 1 / 0",
            "try:\n    f()\nexcept Exception as e:\n    raise KeyError('k') from e",
            "x = (",
        ],
    );
    let error = pieces[1].error();
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("KeyError", "'k'"));
    assert!(error.traceback.contains("return 1 / 0"), "{}", error.traceback);
    assert!(error.traceback.contains("direct cause"), "{}", error.traceback);
    assert!(!error.traceback.contains("<string>"), "{}", error.traceback);
    assert_eq!(pieces[2].error().kind, "SyntaxError");
    assert!(pieces[2].error().traceback.contains("x = ("));
    assert_eq!(exit, Some(1));
}

#[test]
fn a_python_value_or_error_that_cannot_be_shown_is_an_error_of_the_code() {
    let value = "class V:\n    def __repr__(self): raise KeyError('no')\nV()";
    let error = "class E(Exception):\n    def __str__(self): raise KeyError('no')\nraise E()";
    let (pieces, _) = run(Language::Python, &[value, error, "'alive'"]);
    assert_eq!(pieces[0].error().kind, "KeyError");
    assert_eq!(pieces[1].error().kind, "E");
    assert_eq!(pieces[2].repr(), "'alive'");
}

#[test]
fn python_that_awaits_keeps_one_loop() {
    let (pieces, _) = run(
        Language::Python,
        &[
            "import asyncio\nasync def later(n):\n    await asyncio.sleep(0)\n    return n\nx = await later(5)",
            "await later(x) + 1",
            "task = asyncio.ensure_future(later(9))\nawait asyncio.sleep(0)",
            "await task",
            "asyncio.run(later(3))",
            "await later(4)",
        ],
    );
    let told: Vec<_> = pieces.iter().map(Piece::repr).collect();
    assert_eq!(told, ["", "6", "", "9", "3", "4"]);
}

#[test]
fn python_that_takes_its_streams_away_is_still_heard() {
    let (pieces, _) = run(
        Language::Python,
        &[
            "import sys, os, io\nsys.stdout = io.StringIO()\nprint('lost')",
            "sys.stdout = sys.__stdout__\nprint('back', end='')",
            "sys.stdout.close()\nsys.stderr.close()\n1",
            "os.close(1) if False else 2",
            "input()",
        ],
    );
    assert_eq!((pieces[0].stdout.as_str(), pieces[1].stdout.as_str()), ("", "back"));
    assert_eq!((pieces[2].repr(), pieces[3].repr()), ("1", "2"));
    assert_eq!(pieces[4].error().kind, "EOFError");
}

#[test]
fn a_fork_in_python_does_not_answer_for_its_parent() {
    let code = "import os, sys\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('both')";
    let (pieces, exit) = run(Language::Python, &[code, "'after'"]);
    assert_eq!(pieces[0].stdout, "both\nboth\n");
    assert_eq!((pieces[1].repr(), exit), ("'after'", Some(0)));
}

#[test]
fn an_interpreter_that_exits_gives_its_code_and_no_outcome() {
    for (language, code) in [
        (Language::Python, "print('x')\nimport sys\nsys.exit(3)"),
        (Language::Javascript, "console.log('x'); process.exit(3)"),
        (Language::Bash, "echo x; exit 3"),
    ] {
        let (piece, exit) = run_one(language, code);
        assert_eq!(
            (piece.outcome, piece.stdout.as_str(), exit),
            (None, "x\n", Some(3)),
            "{language:?}"
        );
    }
}

#[test]
fn javascript_keeps_what_pieces_define() {
    let (pieces, exit) = run(
        Language::Javascript,
        &[
            "const fs = require('fs'), path = 1, pieces = 2, end = 3; let x = 20; class Box {}",
            "function double(n) { return 2 * n }",
            "const {a, b} = await Promise.resolve({a: 1, b: 2})",
            "async function later() { return await 7 }",
            "process.chdir('/'); console.log(double(x)); [process.cwd(), a + b, typeof fs.statSync, new Box() instanceof Box]",
            "later()",
            "(await import('node:path')).sep",
        ],
    );
    assert_eq!(pieces[4].stdout, "40\n");
    assert_eq!(pieces[4].json(), Some(json!(["/", 3, "function", true])));
    assert_eq!((pieces[5].repr(), pieces[6].repr()), ("7", "'/'"));
    assert_eq!(pieces.iter().map(|piece| piece.stderr.as_str()).collect::<String>(), "");
    assert_eq!(exit, Some(0));
}

#[test]
fn javascript_tells_the_value_of_the_last_expression() {
    let code = [
        "1 + 1",
        "undefined",
        "let y = 3",
        "{a: [1, null]}",
        "10n",
        "(() => 1)",
        "Promise.resolve('p')",
    ];
    let (pieces, _) = run(Language::Javascript, &code);
    let told: Vec<_> = pieces.iter().map(|piece| (piece.repr(), piece.json())).collect();
    assert_eq!(
        told,
        [
            ("2", Some(json!(2))),
            ("", None),
            ("", None),
            ("{ a: [ 1, null ] }", Some(json!({"a": [1, null]}))),
            ("10n", None),
            ("[Function (anonymous)]", None),
            ("'p'", Some(json!("p"))),
        ]
    );
}

#[test]
fn javascript_errors_come_with_the_frames_of_the_code_only() {
    let (pieces, exit) = run(
        Language::Javascript,
        &[
            "function f() { throw new TypeError('no') }\nf()",
            "throw 5",
            "let (",
            "await (",
            "await f()",
        ],
    );
    let error = pieces[0].error();
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("TypeError", "no"));
    assert!(error.traceback.contains("at f (code-1.js:1:22)"), "{}", error.traceback);
    assert!(!error.traceback.contains("[eval]"), "{}", error.traceback);
    assert_eq!(
        (pieces[1].error().kind.as_str(), pieces[1].error().message.as_str()),
        ("number", "5")
    );
    assert_eq!(
        (pieces[2].error().kind.as_str(), pieces[3].error().kind.as_str()),
        ("SyntaxError", "SyntaxError")
    );
    assert_eq!(pieces[4].error().kind, "TypeError");
    assert_eq!(exit, Some(1));
}

#[test]
fn what_javascript_still_waits_for_goes_on_and_its_failure_shows() {
    let (piece, exit) = run_one(Language::Javascript, "setTimeout(() => console.log('late'), 20); 1");
    assert_eq!((piece.repr(), exit), ("1", Some(0)));
    let (piece, exit) = run_one(
        Language::Javascript,
        "setTimeout(() => { throw new Error('late') }, 20); 1",
    );
    assert_eq!((piece.repr(), exit), ("1", Some(1)));
    let (pieces, _) = run(Language::Javascript, &["Promise.reject(new Error('lost')); 1", "2"]);
    assert_eq!(pieces[1].repr(), "2");
}

#[test]
fn javascript_that_takes_its_streams_away_is_still_heard() {
    let code = [
        "require('fs').closeSync(1); 1",
        "require('fs').readFileSync(0, 'utf8')",
        "console.log = null; 3",
    ];
    let (pieces, _) = run(Language::Javascript, &code);
    let told: Vec<_> = pieces.iter().map(Piece::repr).collect();
    assert_eq!(told, ["1", "''", "3"]);
}

#[test]
fn bash_keeps_what_pieces_define() {
    let (pieces, exit) = run(
        Language::Bash,
        &[
            "x='a b'\ndeclare -A map=([k]=v)",
            "f() { echo \"$x\\n${map[k]}\"; }",
            "cd /",
            "f; pwd; printf '%s\\n' 'back\\slash'",
            "false",
        ],
    );
    assert_eq!(pieces[3].stdout, "a b\\nv\n/\nback\\slash\n");
    let codes: Vec<_> = pieces.iter().map(Piece::exit_code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(0), Some(0), Some(1)]);
    assert_eq!(exit, Some(1));
}

#[test]
fn bash_does_not_get_out_of_its_piece() {
    let (pieces, _) = run(
        Language::Bash,
        &[
            "break",
            "continue",
            "return 4 2>/dev/null",
            "echo ok; if",
            "printf() { echo mine; }; eval() { echo mine; }; read() { echo mine; }; PATH=; IFS=x",
            "cat() { builtin echo \"cat reads $(</dev/stdin)\"; }; cat",
            "exec >/dev/null; echo lost",
            "exec 2>/dev/null; nothing-like-it",
            "set -x; :",
            "echo still >/dev/null",
        ],
    );
    assert!(pieces.iter().all(|piece| piece.outcome.is_some()), "{pieces:#?}");
    assert_eq!(pieces[3].exit_code(), Some(2));
    assert!(pieces[3].stderr.contains("syntax error"), "{}", pieces[3].stderr);
    assert_eq!(pieces[5].stdout, "cat reads \n");
    assert_eq!(pieces[6].stdout, "");
    assert_eq!(pieces[7].exit_code(), Some(127));
}

#[test]
fn bash_takes_code_of_any_shape() {
    let code = "cat <<'EOF'\n  tab\there, ünïcode, %s \\n and a quote '\"\nEOF\necho   'end'  \n\n";
    let (piece, _) = run_one(Language::Bash, code);
    assert_eq!(piece.stdout, "  tab\there, ünïcode, %s \\n and a quote '\"\nend\n");
    let error = encode_request(Language::Bash, "w", "a\0b").unwrap_err();
    assert!(error.message().contains("NUL"), "{error}");
}

#[test]
fn the_streams_of_a_driver_are_not_in_the_hands_of_what_it_starts() {
    let list = "ls -l /proc/self/fd";
    let quoted = format!("{list:?}");
    for (language, code) in [
        (
            Language::Python,
            format!("import subprocess\nsubprocess.run({quoted}, shell=True)\nNone"),
        ),
        (
            Language::Javascript,
            format!("require('child_process').execSync({quoted}, {{stdio: 'inherit'}}); undefined"),
        ),
        (Language::Bash, list.to_owned()),
    ] {
        let (piece, _) = run_one(language, &code);
        let open = piece.stdout.lines().filter_map(|line| {
            let (before, target) = line.split_once(" -> ")?;
            Some((before.rsplit(' ').next()?.parse::<u32>().ok()?, target.to_owned()))
        });
        let (own, more): (Vec<_>, Vec<_>) = open.partition(|(number, _)| *number < 3);
        assert_eq!(own.len(), 3, "{language:?}: {}", piece.stdout);
        for (_, stream) in &own[1..] {
            assert!(
                more.iter().all(|(_, target)| target != stream),
                "{language:?}: {}",
                piece.stdout
            );
        }
    }
}

#[test]
fn much_output_and_no_end_of_line_before_the_mark_are_no_matter() {
    for (language, code) in [
        (
            Language::Python,
            "import sys\nsys.stdout.write('x' * 3_000_000)\nsys.stderr.write('y' * 70_000)\nNone",
        ),
        (
            Language::Javascript,
            "process.stdout.write('x'.repeat(3_000_000)); process.stderr.write('y'.repeat(70_000)); undefined",
        ),
        (Language::Bash, "printf '%03000000d' 0; printf '%070000d' 0 >&2"),
    ] {
        let (piece, exit) = run_one(language, code);
        assert_eq!(
            (piece.stdout.len(), piece.stderr.len(), exit),
            (3_000_000, 70_000, Some(0)),
            "{language:?}"
        );
        assert!(piece.outcome.is_some());
    }
}

#[test]
fn a_value_that_is_too_long_is_cut_and_has_no_json() {
    for (language, code) in [
        (Language::Python, "'x' * 1_000_000"),
        (Language::Javascript, "'x'.repeat(1_000_000)"),
    ] {
        let (piece, _) = run_one(language, code);
        assert!((1..300_000).contains(&piece.repr().len()), "{language:?}");
        assert_eq!(piece.json(), None);
    }
}

#[test]
fn processes_that_code_leaves_behind_do_not_hold_it_up() {
    let begun = std::time::Instant::now();
    for (language, code) in [
        (
            Language::Python,
            "import subprocess\nsubprocess.Popen(['sleep', '30'], stdout=-3, stderr=-3)\nNone",
        ),
        (Language::Bash, "sleep 30 >/dev/null 2>&1 &"),
    ] {
        let (piece, _) = run_one(language, code);
        assert!(piece.outcome.is_some(), "{language:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
}
