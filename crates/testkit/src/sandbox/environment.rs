//! Where a command finds itself.

use std::collections::BTreeMap;

use garret_core::{ErrorKind, SandboxCommand, WsPath};

use super::{Stand, program, run, sh, shell};

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Promise of `SandboxCommand::env`: everything that is in its environment.
pub async fn the_environment_is_what_was_given(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut command = program(&["env"]);
    let given = [
        ("PATH", super::PATH),
        ("ONE", "1"),
        ("EMPTY", ""),
        ("SPACED", "a b  c=d"),
        ("ODD", "é'\"$x\\"),
    ];
    command.env = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut expected: Vec<_> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    expected.sort();
    assert_eq!(lines(&run(&layer, command).await.stdout), expected);
}

/// Promise of `SandboxCommand::env`: nothing of the parent's.
pub async fn nothing_comes_from_outside(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = run(
        &layer,
        SandboxCommand {
            env: BTreeMap::new(),
            ..program(&["/usr/bin/env"])
        },
    )
    .await;
    assert_eq!(lines(&ran.stdout), Vec::<String>::new());
}

/// Promise of `Program::Arguments`: no shell touches them.
pub async fn arguments_are_passed_as_they_are(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = run(
        &layer,
        program(&["printf", "%s|", "a b", "", "*", "$PATH", "-n", "é\n", "'\"\\"]),
    )
    .await;
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "a b||*|$PATH|-n|é\n|'\"\\|");
}

/// Promise of `Program::Arguments`: looked for on the `PATH` of its environment.
pub async fn a_program_is_looked_for_on_its_own_path(stand: Stand) {
    stand.fill("mkdir tools && printf '#!/bin/sh\\necho mine\\n' > tools/own && chmod +x tools/own");
    let (_room, layer) = stand.lay().await;
    let here = sh(&layer, "pwd").await.text();
    let mut command = program(&["own"]);
    command
        .env
        .insert("PATH".to_owned(), format!("{}:{here}/tools", super::PATH));
    assert_eq!(run(&layer, command).await.text(), "mine");
}

/// Promise of `SandboxCommand::cwd`.
pub async fn a_command_begins_in_its_directory(stand: Stand) {
    stand.put("a/deep place/file", "found");
    let (_room, layer) = stand.lay().await;
    let cwd = WsPath::parse("a/deep place").expect("a path");
    let ran = run(
        &layer,
        SandboxCommand {
            cwd,
            ..shell("cat file; pwd")
        },
    )
    .await;
    let text = ran.text();
    assert!(text.starts_with("found") && text.ends_with("/a/deep place"), "{text}");
}

/// Promise of `Layer::start_process`: a directory that is not there is `not_found`.
pub async fn a_directory_that_is_not_there_is_not_found(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let cwd = WsPath::parse("nowhere").expect("a path");
    let error = layer
        .start_process(SandboxCommand { cwd, ..shell("true") })
        .await
        .expect_err("there is no such directory");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let shown = format!("{error} {:?}", error.to_json());
    assert!(
        !shown.contains(&stand.base.display().to_string()),
        "no host path in any message: {shown}"
    );
}

/// Promise of `SandboxCommand::cwd`: a link that stays inside is followed, and one that leads out is `path_escape`.
pub async fn a_command_begins_behind_a_link_only_where_that_leads_inside(stand: Stand) {
    stand.put("a/b/file", "found");
    let (_room, layer) = stand.lay().await;
    sh(&layer, "ln -s a/b in; ln -s ../.. out; ln -s / away; ln -s in again")
        .await
        .text();
    let command = |cwd: &str| SandboxCommand {
        cwd: WsPath::parse(cwd).expect("a path"),
        ..shell("cat file")
    };
    for inside in ["in", "again", "a/b"] {
        assert_eq!(run(&layer, command(inside)).await.text(), "found", "{inside}");
    }
    for outside in ["out", "away", "away/usr"] {
        let error = layer.start_process(command(outside)).await.expect_err(outside);
        assert_eq!(error.kind(), ErrorKind::PathEscape, "{outside}: {error}");
    }
}

/// Promise of `Layer::start_process`: a program that is not there is `not_found`.
pub async fn a_program_that_is_not_there_is_not_found(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for name in ["there-is-no-such-program", "/nowhere/at/all", "./missing"] {
        let error = layer.start_process(program(&[name])).await.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(
        sh(&layer, "there-is-no-such-program").await.code(),
        127,
        "of a shell, it is the code"
    );
}

/// Every command finds the files at the same path, so that one can tell another.
pub async fn the_workspace_is_in_one_place(stand: Stand) {
    stand.put("a/b", "found");
    let (_room, layer) = stand.lay().await;
    let here = sh(&layer, "pwd").await.text();
    assert!(here.starts_with('/'), "{here}");
    assert_eq!(sh(&layer, &format!("cd / && cat '{here}/a/b'")).await.text(), "found");
    assert_eq!(sh(&layer, "cd a && cd .. && pwd").await.text(), here);
}
