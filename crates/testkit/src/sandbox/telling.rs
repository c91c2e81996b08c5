//! A sandbox says what it can enforce, and what it cannot.

use garret_core::{ErrorKind, Guard, SandboxRequest};

use super::Stand;

/// Promise of `Sandbox::probe` and `OpenSandbox::guard_statuses`.
pub async fn every_guard_is_told_once(stand: Stand) {
    let probed = stand.sandbox.probe().await;
    let room = stand.open().await;
    for told in [probed.as_slice(), room.open.guard_statuses()] {
        let mut guards: Vec<_> = told.iter().map(|enforced| enforced.guard).collect();
        guards.sort();
        assert_eq!(guards, Guard::ALL);
    }
    assert!(!stand.sandbox.kind().is_empty());
}

/// Promise of `GuardStatus::by`: by what, or why not.
pub async fn what_is_not_enforced_says_why(stand: Stand) {
    for enforced in stand.sandbox.probe().await {
        assert!(!enforced.by.is_empty(), "{enforced:?}");
        assert!(enforced.is_enforced || enforced.remedy.is_some_and(|remedy| !remedy.is_empty()));
    }
}

/// Promise of `Sandbox::open`: what is required and cannot be enforced is `unsupported`, and the error says which.
pub async fn what_is_required_and_missing_is_unsupported(stand: Stand) {
    for enforced in stand.sandbox.probe().await {
        let opened = stand
            .sandbox
            .open(SandboxRequest {
                require: vec![enforced.guard],
                ..stand.request()
            })
            .await;
        match opened {
            Ok(open) => assert!(enforced.is_enforced, "{open:?} opened without {enforced:?}"),
            Err(error) => {
                assert!(!enforced.is_enforced, "{error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.message().contains(enforced.guard.as_str()), "{error}");
            }
        }
    }
}
