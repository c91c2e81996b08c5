//! The record of the requests of commands, by whom they were made.

use std::time::Duration;

use garret::{
    DeclaredCapability, NetworkChoice, NetworkRecord, OutputRequest, RunRequest, ScopeOptions, ShellPolicy, Workspace,
};

use crate::shell::support::{On, on_all, room_with};

fn hosts(record: Option<NetworkRecord>) -> Vec<String> {
    let requests = record.expect("the workspace names hosts").requests;
    requests.into_iter().map(|request| request.host).collect()
}

/// Runs a command that asks for a host once, which is refused, and returns the hosts of its record.
async fn ask_for(workspace: &Workspace, host: &str) -> Vec<String> {
    let command = format!("curl -s http://{host}/ >/dev/null");
    let ran = workspace.run(RunRequest::shell(command)).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{}", ran.output);
    hosts(ran.network)
}

async fn output_hosts(workspace: &Workspace, id: &str) -> Vec<String> {
    let request = OutputRequest {
        id: id.to_owned(),
        cursor: 0,
        wait: Duration::from_millis(10),
        max_bytes: 1000,
        with_tail: false,
        with_details: false,
    };
    hosts(workspace.output(request).await.unwrap().network)
}

#[test]
fn the_record_of_a_scope_has_no_requests_of_another_scope() {
    on_all(&[On::Memory], |on| async move {
        let network = NetworkChoice::from_words("allowed.example").unwrap();
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                network,
                ..ShellPolicy::default()
            });
        })
        .await;
        room.write("one/file", "").await;
        room.write("two/nested/file", "").await;
        let scope = |path: &str| room.workspace().scope(path, ScopeOptions::default()).unwrap();
        let (one, two) = (scope("one"), scope("two"));
        let script = "while sleep 0.1; do curl -s http://one.example/; done";
        let id = one.start(RunRequest::shell(script)).await.unwrap().id;
        let mut seen = Vec::new();
        while seen.is_empty() {
            seen = output_hosts(&one, &id).await;
        }
        let slow = two.run(RunRequest::shell("sleep 1; curl -s http://two.example/ >/dev/null"));
        assert_eq!(hosts(slow.await.unwrap().network), ["two.example"]);
        assert_eq!(
            ask_for(&scope("two/nested"), "nested.example").await,
            ["nested.example"]
        );
        seen.extend(output_hosts(&one, &id).await);
        assert!(seen.iter().all(|host| host == "one.example"), "{seen:?}");
        // The workspace has the processes of its scopes, and their requests.
        let around = room.workspace().run(RunRequest::shell("sleep 1")).await.unwrap();
        assert!(hosts(around.network).contains(&"one.example".to_owned()));
        one.kill(&id).await.unwrap();
    });
}
