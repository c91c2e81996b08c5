//! Secrets do not leave the command.

use std::collections::BTreeMap;
use std::path::Path;

use garret::{DeclaredCapability, RunRequest, ShellPolicy};

use crate::shell::support::{On, each, room_with};

#[test]
fn promise_35_a_secret_is_masked_in_output_and_nowhere_under_the_home() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                secrets: vec!["TOKEN".into()],
                ..ShellPolicy::default()
            });
        })
        .await;
        let canary = format!("canary-{}-{}", std::process::id(), "f00dcafe");
        let request = RunRequest {
            env: BTreeMap::from([("TOKEN".to_owned(), canary.clone())]),
            ..RunRequest::shell(format!(
                "echo $TOKEN; echo {canary} >&2; printf %s $TOKEN | wc -c; echo done > out"
            ))
        };
        let result = room.workspace().run(request).await.unwrap();
        assert_eq!(
            result.stdout.0,
            format!("[TOKEN]\n{}\n", canary.len()).as_bytes(),
            "{on:?}"
        );
        assert_eq!(&result.stderr.0[..], b"[TOKEN]\n");
        assert!(!serde_json::to_string(&result).unwrap().contains(&canary));
        let log = room.workspace().log(Default::default()).await.unwrap();
        let command = log.changes[0].actor.command.clone().unwrap();
        assert!(command.contains("echo [TOKEN] >&2"), "{command}");
        let told = format!("{log:?} {:?}", room.events.events());
        assert!(!told.contains(&canary), "{told}");
        room.workspace().close().await.unwrap();
        let mut looked = 0;
        holds_nowhere(room.home.path(), canary.as_bytes(), &mut looked);
        assert!(on == On::Memory || looked > 0, "something was looked at");
    });
}

#[test]
fn a_secret_is_masked_in_messages_and_in_the_names_of_files() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                secrets: vec!["TOKEN".into()],
                ..ShellPolicy::default()
            });
            config.exclude = vec!["*.log".into()];
        })
        .await;
        let env = BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]);
        let with = |request: RunRequest| RunRequest {
            env: env.clone(),
            ..request
        };
        let absent = RunRequest::arguments(["/usr/bin/hunter2"]);
        for refused in [
            room.workspace().run(with(absent.clone())).await.unwrap_err(),
            room.workspace().start(with(absent)).await.unwrap_err(),
        ] {
            assert!(!refused.to_string().contains("hunter2"), "{on:?}: {refused}");
        }
        let named = RunRequest::shell("echo 1 > $TOKEN; echo 2 > $TOKEN.log; rm $TOKEN.log; mkfifo fifo-$TOKEN");
        let made = room.workspace().run(with(named)).await.unwrap();
        assert_eq!(made.changed.paths, ["+ [TOKEN]"], "{on:?}");
        let told = serde_json::to_string(&made).unwrap();
        assert!(!told.contains("hunter2"), "{on:?}: {told}");
    });
}

fn holds_nowhere(directory: &Path, canary: &[u8], looked: &mut usize) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            holds_nowhere(&entry.path(), canary, looked);
        } else if kind.is_file() {
            *looked += 1;
            let bytes = std::fs::read(entry.path()).unwrap();
            let found = bytes.windows(canary.len()).any(|part| part == canary);
            assert!(!found, "{}", entry.path().display());
        }
    }
}
