//! What a policy or a quota keeps from commands.

use garret::{Capabilities, DeclaredCapability, FsPolicy, ShellPolicy, WorkspaceConfig};
use serde_json::json;

use crate::shell::support::{On, each, everywhere, room_with};

fn policy(change: impl FnOnce(&mut FsPolicy)) -> DeclaredCapability<FsPolicy> {
    let mut policy = FsPolicy::default();
    change(&mut policy);
    DeclaredCapability::Options(policy)
}

#[test]
fn promise_33_what_a_policy_refuses_is_rolled_back_and_named() {
    everywhere(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.fs = policy(|policy| policy.deny_write = vec!["locked/**".into()]);
        })
        .await;
        let result = room.run("mkdir -p locked && echo a > ok && echo b > locked/new").await;
        let refused = result
            .changed
            .refused
            .clone()
            .unwrap_or_else(|| panic!("{on:?}: {:?}", result.changed));
        assert_eq!(refused.rule.as_deref(), Some("deny_write = locked/**"), "{on:?}");
        assert!(room.tree().await.is_empty(), "{on:?}: nothing of it was kept");
        assert_eq!(room.sh("ls").await.output, "", "{on:?}: in the bench neither");
        room.sh("echo fine > ok").await;
        assert_eq!(room.read("ok").await, "fine\n");
    });
}

#[test]
fn policies_hold_for_what_history_leaves_out() {
    everywhere(|on| async move {
        let room = room_with(on, |config| {
            config.exclude = vec!["target/".into()];
            config.capabilities.fs = policy(|policy| {
                policy.deny_write = vec!["target/locked".into()];
                policy.max_file_size_mb = Some(1.0);
            });
        })
        .await;
        for script in [
            "mkdir -p target && echo x > target/locked && echo x > beside",
            "mkdir -p target && head -c 3000000 /dev/zero > target/big && echo x > beside",
        ] {
            let result = room.run(script).await;
            assert!(
                result.changed.refused.is_some(),
                "{on:?}: {script}: {:?}",
                result.changed
            );
            assert!(result.changed.excluded.is_empty(), "{on:?}: {:?}", result.changed);
            assert_eq!(room.sh("ls").await.output, "", "{on:?}: nothing of it was kept");
        }
        room.sh("mkdir -p target && echo x > target/fine").await;
        assert_eq!(room.sh("cat target/fine").await.output, "x\n", "{on:?}");
    });
}

#[test]
fn promise_34_hidden_paths_are_absent_and_read_only_ones_stay_as_they_are() {
    everywhere(|on| async move {
        let room = room_with(on, |_| {}).await;
        room.sh("mkdir -p secrets lib && echo key > secrets/key && echo code > lib/code && echo env > .env && mkdir sub && echo env > sub/.env").await;
        let config = {
            let mut config = room.config.clone();
            config.capabilities.fs = policy(|policy| {
                policy.deny_read = vec!["secrets".into(), "**/.env".into()];
                policy.deny_write = vec!["lib".into()];
            });
            config
        };
        if on == crate::shell::support::On::Memory {
            return;
        }
        let fenced = room.garret.open_config("box", &config).await.unwrap();
        let run = async |text: &str| fenced.workspace().run(garret::RunRequest::shell(text)).await.unwrap();
        assert_eq!(run("ls -A . sub").await.output, ".:\nlib\nsub\n\nsub:\n", "{on:?}");
        let tried = run("cat secrets/key; echo x > lib/code; rm -rf lib; cat lib/code").await;
        assert_eq!(&tried.stdout.0[..], b"code\n", "{on:?}: {}", tried.output);
        assert!(tried.changed.is_nothing(), "{:?}", tried.changed);
        let hidden = run("mkdir -p secrets 2>/dev/null; echo mine > secrets/key").await;
        assert!(hidden.changed.change.is_none(), "{on:?}: {:?}", hidden.changed);
        fenced.workspace().close().await.unwrap();
    });
}

#[test]
fn promise_33_a_quota_holds_for_commands_too() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.fs = policy(|policy| policy.max_files = Some(3));
        })
        .await;
        room.sh("touch 1 2 3").await;
        let result = room.run("touch 4").await;
        let refused = result.changed.refused.unwrap_or_else(|| panic!("{on:?}"));
        assert_eq!(
            (refused.kind.as_str(), refused.rule.as_deref()),
            ("quota_exceeded", Some("max_files = 3"))
        );
        room.sh("rm 1 2 && touch 4").await;
        assert_eq!(room.tree().await.len(), 2, "{on:?}");
    });
}

#[test]
fn a_read_only_workspace_runs_commands_that_change_nothing() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.fs = policy(|policy| policy.read_only = true);
        })
        .await;
        let result = room.run("echo hi; echo x > a").await;
        assert!(result.output.starts_with("hi\n"), "{on:?}: {}", result.output);
        assert!(room.tree().await.is_empty(), "{on:?}");
    });
}

#[test]
fn command_lines_are_judged_before_they_run() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                denied_commands: vec!["curl".into()],
                require_approval: vec!["git push".into()],
                ..ShellPolicy::default()
            });
        })
        .await;
        for (command, rule) in [
            ("echo a && curl example.org", "denied_commands"),
            ("rm -fr /", "prevent_dangerous"),
            ("git push origin main", "require_approval"),
        ] {
            let answer = room.toolbox.call("run", json!({"command": command})).await;
            let error = answer.error.unwrap_or_else(|| panic!("{on:?}: {command} ran"));
            assert_eq!(
                (error.kind(), error.operation()),
                (garret::ErrorKind::Denied, Some("run")),
                "{error}"
            );
            let told = error.refused_by().unwrap_or_default();
            assert!(told.contains(rule) || error.message().contains(rule), "{told}: {error}");
        }
    });
}

#[test]
fn what_others_make_between_two_commands_is_hidden_from_the_second_where_a_rule_says_so() {
    each(|on| async move {
        // Nobody else reaches the files of a memory.
        if on == On::Memory {
            return;
        }
        let room = room_with(on, |config| {
            config.capabilities.fs = DeclaredCapability::Options(FsPolicy {
                deny_read: vec!["**/.env".into(), "config/*.key".into()],
                ..FsPolicy::default()
            });
        })
        .await;
        let open = WorkspaceConfig {
            capabilities: Capabilities::from_names(["fs"]).unwrap(),
            ..room.config.clone()
        };
        let others = room.garret.open_config("others", &open).await.unwrap();
        let write = |path: &'static str| others.workspace().write(path, "secret", Default::default());
        write("src/plain").await.unwrap();
        assert_eq!(room.sh("ls -A src").await.output, "plain\n", "{on:?}");
        write("src/.env").await.unwrap();
        write("config/a.key").await.unwrap();
        assert_eq!(
            room.sh("ls -A src; cat config/a.key 2>/dev/null || true").await.output,
            "plain\n",
            "{on:?}"
        );
        write("src/plain").await.unwrap();
        assert_eq!(
            room.sh("ls -A src; cat src/.env 2>/dev/null || true").await.output,
            "plain\n",
            "{on:?}"
        );
    });
}
