//! What a search must not show.

use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{ErrorKind, EventOutcome, FsPolicy, MemoryEvents};
use garret_workspace::{GlobRequest, GrepOutput, GrepRequest, ScopeOptions, Workspace};

use crate::search::support::{Rooms, globbing, grepping, lines, rooms};

fn room() -> Rooms {
    rooms(&[
        ("docs/a.md", "canary open\n"),
        ("docs/.env", "canary secret\n"),
        ("secrets/key.bin", "\0canary\n"),
        ("secrets/deep/key", "canary secret\n"),
        ("users/alice/x", "canary alice\n"),
        ("users/bob/x", "canary bob\n"),
    ])
}

fn denying(globs: &[&str]) -> FsPolicy {
    FsPolicy {
        deny_read: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        ..FsPolicy::default()
    }
}

fn at(path: &str) -> GrepRequest {
    GrepRequest {
        path: path.into(),
        include_ignored: true,
        ..grepping("canary")
    }
}

#[test]
fn a_denied_file_appears_nowhere() {
    let rooms = room();
    rooms.link("docs/alias", "../secrets/deep/key");
    for workspace in rooms.with_policy(&denying(&["secrets", "**/.env"])) {
        let found = block_on(workspace.grep(at(""))).unwrap();
        assert_eq!(
            lines(&found),
            [
                "docs/a.md:1:canary open",
                "users/alice/x:1:canary alice",
                "users/bob/x:1:canary bob"
            ]
        );
        assert!(found.skipped.is_empty(), "a hidden binary file is not named either");
        let counts = GrepRequest {
            output: GrepOutput::Counts,
            ..at("")
        };
        assert_eq!(block_on(workspace.grep(counts)).unwrap().match_count, 3);
        let names = block_on(workspace.glob(globbing("**"))).unwrap();
        assert_eq!(names.paths, ["docs/a.md", "docs/alias", "users/alice/x", "users/bob/x"]);
    }
}

#[test]
fn a_denied_path_is_refused_by_name_and_by_alias() {
    let rooms = room();
    rooms.link("alias", "secrets/deep");
    for workspace in rooms.with_policy(&denying(&["secrets"])) {
        for path in ["secrets", "secrets/deep", "secrets/deep/key", "alias", "alias/key"] {
            let error = block_on(workspace.grep(at(path))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{path}");
            let request = GlobRequest {
                path: path.into(),
                ..globbing("**")
            };
            assert_eq!(
                block_on(workspace.glob(request)).unwrap_err().kind(),
                ErrorKind::Denied,
                "{path}"
            );
        }
    }
}

#[test]
fn only_what_is_allowed_is_found() {
    let policy = FsPolicy {
        allow_read: vec!["users/*/x".into()],
        ..FsPolicy::default()
    };
    for workspace in room().with_policy(&policy) {
        let found = block_on(workspace.grep(at(""))).unwrap();
        assert_eq!(
            lines(&found),
            ["users/alice/x:1:canary alice", "users/bob/x:1:canary bob"]
        );
        assert_eq!(
            block_on(workspace.grep(at("docs/a.md"))).unwrap_err().kind(),
            ErrorKind::Denied
        );
    }
}

#[test]
fn a_file_that_only_leads_to_something_allowed_is_not_searched() {
    let rooms = rooms(&[("docs", "canary\n")]);
    let policy = FsPolicy {
        allow_read: vec!["docs/public".into()],
        ..FsPolicy::default()
    };
    for workspace in rooms.with_policy(&policy) {
        assert_eq!(
            block_on(workspace.grep(at("docs"))).unwrap_err().kind(),
            ErrorKind::Denied
        );
        assert_eq!(block_on(workspace.grep(at(""))).unwrap().match_count, 0);
    }
}

#[test]
fn a_scope_searches_only_itself_and_names_paths_from_its_root() {
    let rooms = rooms(&[
        (".gitignore", "x\n"),
        ("users/alice/x", "canary alice\n"),
        ("users/bob/x", "canary bob\n"),
    ]);
    rooms.link("users/alice/over", "../bob");
    for workspace in rooms.workspaces() {
        let scope = workspace.scope("users/alice", ScopeOptions::default()).unwrap();
        let by_rules = grepping("canary");
        assert_eq!(
            lines(&block_on(scope.grep(by_rules)).unwrap()),
            ["x:1:canary alice"],
            "rules outside the scope say nothing in it"
        );
        assert_eq!(block_on(scope.glob(globbing("**"))).unwrap().paths, ["over", "x"]);
        assert_eq!(
            block_on(scope.grep(at("over"))).unwrap_err().kind(),
            ErrorKind::PathEscape
        );
        assert_eq!(
            block_on(scope.grep(at("../bob"))).unwrap_err().kind(),
            ErrorKind::PathEscape
        );
    }
}

#[test]
fn a_link_is_followed_only_where_it_is_named_and_stays_inside() {
    let rooms = room();
    rooms.link("in", "users/alice");
    rooms.link("file", "docs/a.md");
    rooms.link("out", "/etc");
    for workspace in rooms.workspaces() {
        let found = |path: &str| block_on(workspace.grep(at(path)));
        assert_eq!(lines(&found("in").unwrap()), ["users/alice/x:1:canary alice"]);
        assert_eq!(lines(&found("file").unwrap()), ["docs/a.md:1:canary open"]);
        assert_eq!(found("out").unwrap_err().kind(), ErrorKind::PathEscape);
        assert_eq!(found("").unwrap().file_count, 5, "a link is no second copy");
    }
}

#[test]
fn every_search_leaves_one_event_without_its_pattern() {
    let rooms = room();
    let events = Arc::new(MemoryEvents::default());
    let workspace = Workspace::builder(rooms.local.clone())
        .policy(denying(&["secrets"]))
        .events(events.clone())
        .open()
        .unwrap();
    block_on(workspace.grep(at("docs"))).unwrap();
    block_on(workspace.glob(globbing("**/canary"))).unwrap();
    block_on(workspace.grep(at("secrets"))).unwrap_err();
    let recorded = events.events();
    let operations: Vec<_> = recorded
        .iter()
        .map(|event| (event.operation.as_ref(), event.path.as_deref()))
        .collect();
    assert_eq!(
        operations,
        [("grep", Some("docs")), ("glob", Some("")), ("grep", Some("secrets"))]
    );
    assert!(matches!(recorded[2].outcome, EventOutcome::Refused { .. }));
    assert!(!format!("{recorded:?}").contains("canary"));
}
