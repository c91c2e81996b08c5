//! What commands see of the user who opens a workspace, where a program names one, and where it names none.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use garret::{Garret, HostUser, RunRequest, WorkspaceConfig};

/// Makes the home directory of a user with one program of cargo and an author of commits.
fn home_of_user() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let tool = home.path().join(".cargo/bin/tool");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho the tool ran\n").unwrap();
    std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(
        home.path().join(".gitconfig"),
        "[user]\nname = Ada\nemail = ada@example.org\n",
    )
    .unwrap();
    home
}

/// Runs a command in a workspace with these options of `shell`; returns all its output.
async fn run(user: Option<&Path>, options: &str, command: &str) -> String {
    let text = format!("storage = 'memory:'\n[capabilities.shell]\n{options}\n");
    let config = WorkspaceConfig::from_toml(&text).unwrap();
    let garret = match user {
        Some(home) => Garret::new().host_user(HostUser::with_home(Some(home.to_owned()))),
        None => Garret::new(),
    };
    let opened = garret.open_config("box", &config).await.unwrap();
    let ran = opened.workspace().run(RunRequest::shell(command)).await.unwrap();
    opened.workspace().close().await.unwrap();
    ran.output
}

#[tokio::test]
async fn toolchains_are_those_of_the_named_user_and_none_without_one() {
    let home = home_of_user();
    let user = Some(home.path());
    assert_eq!(run(user, "", "tool").await, "the tool ran\n");
    assert!(run(user, "toolchains = 'none'", "tool").await.contains("not found"));
    assert!(run(None, "", "tool").await.contains("not found"));
}

#[tokio::test]
async fn the_author_of_the_policy_comes_before_that_of_the_user() {
    let home = home_of_user();
    let ask = "git config user.name";
    assert_eq!(run(Some(home.path()), "", ask).await, "Ada\n");
    let agent = "git_author = { name = 'Agent', email = 'agent@example.org' }";
    assert_eq!(run(Some(home.path()), agent, ask).await, "Agent\n");
    assert_eq!(run(None, "", ask).await, "");
}
