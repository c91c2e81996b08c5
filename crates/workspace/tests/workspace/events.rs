//! Every operation leaves one event, refused, failed and cancelled ones included, and none holds content.

use std::sync::Arc;

use crate::workspace::support::{builder, globs, put, with_events};
use async_trait::async_trait;
use garret_core::{Actor, ErrorKind, EventOutcome, FsPolicy, MemoryEvents};
use garret_workspace::{
    Approval, ApprovalRequest, Approver, Edit, EditOptions, PatchOptions, ReadRequest, RemoveOptions, TransferOptions,
    WriteOptions,
};

#[tokio::test]
async fn each_operation_leaves_one_event_with_its_name() {
    let (workspace, events) = with_events(FsPolicy::default());
    put(&workspace, "a", "one\n").await;
    workspace.append("a", "two\n", Default::default()).await.unwrap();
    let edit = Edit {
        old_text: "one".into(),
        new_text: "1".into(),
        ..Edit::default()
    };
    workspace.edit("a", &[edit], EditOptions::default()).await.unwrap();
    let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-two\n+2\n";
    workspace.apply_patch(diff, PatchOptions::default()).await.unwrap();
    workspace.read("a", ReadRequest::default()).await.unwrap();
    workspace.list("", Default::default()).await.unwrap();
    workspace.stat("a").await.unwrap();
    workspace.exists("a").await.unwrap();
    workspace.make_dir("d", true).await.unwrap();
    workspace.copy("a", "d/a", TransferOptions::default()).await.unwrap();
    workspace.rename("d", "e", TransferOptions::default()).await.unwrap();
    workspace
        .remove(
            "e",
            RemoveOptions {
                recursive: true,
                ..Default::default()
            },
        )
        .await
        .unwrap();
    let names: Vec<_> = events.events().into_iter().map(|event| event.operation).collect();
    let expected = [
        "write_file",
        "append_file",
        "edit_file",
        "apply_patch",
        "read_file",
        "ls",
        "stat",
        "exists",
        "mkdir",
        "copy",
        "move",
        "rm",
    ];
    assert_eq!(names, expected);
    assert!(events.events().iter().all(|event| event.outcome == EventOutcome::Done));
}

#[tokio::test]
async fn refused_and_failed_operations_leave_events_without_content() {
    let policy = FsPolicy {
        deny_read: globs(&["secret"]),
        ..FsPolicy::default()
    };
    let (workspace, events) = with_events(policy);
    put(&workspace, "a", "CANARY-content").await;
    let edit = Edit {
        old_text: "CANARY-needle".into(),
        new_text: "x".into(),
        ..Edit::default()
    };
    workspace.edit("a", &[edit], EditOptions::default()).await.unwrap_err();
    workspace.read("secret", ReadRequest::default()).await.unwrap_err();
    workspace.read("../x", ReadRequest::default()).await.unwrap_err();
    let outcomes: Vec<_> = events.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(
        outcomes,
        [
            EventOutcome::Done,
            EventOutcome::Failed {
                kind: ErrorKind::Invalid
            },
            EventOutcome::Refused {
                rule: Some("deny_read = secret".into())
            },
            EventOutcome::Refused { rule: None },
        ]
    );
    let log = serde_json::to_string(&events.events()).unwrap();
    assert!(!log.contains("CANARY"), "{log}");
}

#[tokio::test]
async fn an_event_says_who_and_through_which_door() {
    let (workspace, events) = with_events(FsPolicy::default());
    let actor = Actor {
        agent: Some("writer".into()),
        session: Some("s1".into()),
        tool_call: None,
        door: "mcp".into(),
        command: None,
    };
    put(&workspace.acting_as(actor.clone()), "a", "abc").await;
    let event = events.events().pop().unwrap();
    assert_eq!((event.actor, event.bytes, event.path.as_deref()), (actor, 3, Some("a")));
}

/// Answers every request with the same words, and counts them.
#[derive(Debug)]
struct Fixed(Approval, std::sync::atomic::AtomicUsize);

#[async_trait]
impl Approver for Fixed {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        assert_eq!(
            (request.operation.as_ref(), request.paths.as_slice()),
            ("rm", ["a".to_owned()].as_slice())
        );
        self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        self.0.clone()
    }
}

async fn removals_under(answer: Approval) -> (Vec<Result<(), ErrorKind>>, usize, String) {
    let approver = Arc::new(Fixed(answer, Default::default()));
    let policy = FsPolicy {
        require_approval: globs(&["rm"]),
        ..FsPolicy::default()
    };
    let workspace = builder().policy(policy).approver(approver.clone()).open().unwrap();
    let (mut results, mut message) = (Vec::new(), String::new());
    for _ in 0..2 {
        put(&workspace, "a", "x").await;
        let removed = workspace.remove("a", RemoveOptions::default()).await;
        message = removed.as_ref().err().map(ToString::to_string).unwrap_or_default();
        results.push(removed.map(|_| ()).map_err(|error| error.kind()));
    }
    (results, approver.1.load(std::sync::atomic::Ordering::SeqCst), message)
}

#[tokio::test]
async fn an_approver_allows_once_for_the_session_or_not() {
    assert_eq!(
        removals_under(Approval::Allow).await,
        (vec![Ok(()), Ok(())], 2, String::new())
    );
    assert_eq!(
        removals_under(Approval::AllowForSession).await,
        (vec![Ok(()), Ok(())], 1, String::new())
    );
    let (results, asked, message) = removals_under(Approval::Deny {
        reason: "ask me tomorrow".into(),
    })
    .await;
    assert_eq!(
        (results, asked),
        (vec![Err(ErrorKind::Denied), Err(ErrorKind::Denied)], 2)
    );
    assert_eq!(
        message,
        "denied: `rm` needs approval (`require_approval = rm`), and it was refused: ask me tomorrow. Hint: use another way, or ask for approval."
    );
}

#[tokio::test]
async fn an_approver_sees_where_a_path_leads() {
    let approver = Arc::new(Fixed(Approval::Allow, Default::default()));
    let policy = FsPolicy {
        require_approval: globs(&["rm"]),
        ..FsPolicy::default()
    };
    let workspace = builder().policy(policy).approver(approver.clone()).open().unwrap();
    put(&workspace, "a", "x").await;
    let removed = workspace.remove("tmp/.././a", RemoveOptions::default()).await;
    assert_eq!(removed.unwrap().path, "a");
    let escaped = workspace.remove("tmp/../../a", RemoveOptions::default()).await;
    assert_eq!(escaped.unwrap_err().kind(), ErrorKind::PathEscape);
    assert_eq!(
        approver.1.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "nobody is asked for what cannot be"
    );
}

#[tokio::test]
async fn without_an_approver_what_needs_approval_is_refused() {
    let policy = FsPolicy {
        require_approval: globs(&["write_file"]),
        ..FsPolicy::default()
    };
    let (workspace, events) = with_events(policy);
    let error = workspace.write("a", "x", WriteOptions::default()).await.unwrap_err();
    assert_eq!(error.refused_by(), Some("require_approval = write_file"));
    assert_eq!(events.events().len(), 1);
}

/// Never answers.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Approver for Silent {
    async fn ask(&self, _request: ApprovalRequest) -> Approval {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_cancelled_operation_leaves_an_event_too() {
    let events = Arc::new(MemoryEvents::default());
    let policy = FsPolicy {
        require_approval: globs(&["rm"]),
        ..FsPolicy::default()
    };
    let workspace = builder()
        .policy(policy)
        .approver(Arc::new(Silent))
        .events(events.clone())
        .open()
        .unwrap();
    tokio::select! {
        _ = workspace.remove("a", RemoveOptions::default()) => panic!("nobody answered"),
        () = tokio::task::yield_now() => {}
    }
    let outcomes: Vec<_> = events.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [EventOutcome::Cancelled]);
}

/// Says yes for the session, and keeps what it was asked.
#[derive(Debug, Default)]
struct Listening(std::sync::Mutex<Vec<Vec<String>>>);

#[async_trait]
impl Approver for Listening {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        self.0.lock().unwrap().push(request.paths);
        Approval::AllowForSession
    }
}

#[tokio::test]
async fn an_approver_sees_every_path_and_consent_stays_in_its_scope() {
    let approver = Arc::new(Listening::default());
    let policy = FsPolicy {
        require_approval: globs(&["move", "apply_patch"]),
        ..FsPolicy::default()
    };
    let workspace = builder().policy(policy).approver(approver.clone()).open().unwrap();
    put(&workspace, "alice/a", "1\n").await;
    put(&workspace, "bob/a", "1\n").await;
    for scope in ["alice", "bob", "bob"] {
        let scope = workspace.scope(scope, Default::default()).unwrap();
        let _ = scope.rename("x/../a", "b", TransferOptions::default()).await;
    }
    let diff = "--- a/alice/b\n+++ b/alice/b\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n";
    workspace.apply_patch(diff, PatchOptions::default()).await.unwrap();
    let asked = approver.0.lock().unwrap().clone();
    let expected = [
        vec!["alice/a", "alice/b"],
        vec!["bob/a", "bob/b"],
        vec!["alice/b", "new"],
    ];
    assert_eq!(asked, expected.map(|paths| globs(&paths)));
}
