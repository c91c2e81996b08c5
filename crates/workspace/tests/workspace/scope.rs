//! A scope is never wider than what is around it.

use std::collections::BTreeMap;

use crate::workspace::support::{builder_on, fill, get, globs, link, put, shown, storage};
use garret_core::{ErrorKind, FsPolicy};
use garret_workspace::{ReadRequest, RemoveOptions, ScopeOptions, TransferOptions, Workspace, WriteOptions};

fn scope(workspace: &Workspace, path: &str) -> Workspace {
    workspace.scope(path, ScopeOptions::default()).unwrap()
}

async fn tenants() -> (Workspace, std::sync::Arc<dyn garret_core::Storage>) {
    let storage = storage();
    fill(&storage, &[("users/alice/a.txt", "alice"), ("users/bob/b.txt", "bob")]).await;
    (builder_on(storage.clone()).open().unwrap(), storage)
}

#[tokio::test]
async fn a_scope_is_a_workspace_of_its_own() {
    let (workspace, _) = tenants().await;
    let alice = scope(&workspace, "users/alice");
    assert_eq!(shown(&alice).await, ["a.txt"]);
    put(&alice, "/workspace/new.txt", "x").await;
    assert_eq!(get(&workspace, "users/alice/new.txt").await, "x");
}

#[tokio::test]
async fn a_sibling_cannot_be_reached_by_path_or_nested_scope() {
    let (workspace, _) = tenants().await;
    let alice = scope(&workspace, "users/alice");
    let error = alice.scope("../bob", ScopeOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PathEscape);
    let error = alice.read("../bob/b.txt", ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PathEscape);
    let moved = alice.rename("a.txt", "../bob/a.txt", TransferOptions::default()).await;
    assert_eq!(moved.unwrap_err().kind(), ErrorKind::PathEscape);
}

#[tokio::test]
async fn a_link_inside_the_storage_does_not_leave_the_scope() {
    let (workspace, storage) = tenants().await;
    link(&storage, "users/alice/peek", "../bob").await;
    link(&storage, "users/alice/here", "a.txt").await;
    let alice = scope(&workspace, "users/alice");
    let error = alice.read("peek/b.txt", ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PathEscape);
    assert_eq!(
        alice
            .write("peek/b.txt", "x", WriteOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::PathEscape
    );
    assert_eq!(
        alice.list("peek", Default::default()).await.unwrap_err().kind(),
        ErrorKind::PathEscape
    );
    assert_eq!(get(&alice, "here").await, "alice");
    assert_eq!(get(&workspace, "users/bob/b.txt").await, "bob");
}

#[tokio::test]
async fn a_link_that_takes_the_place_of_the_scope_leads_nowhere() {
    let (workspace, storage) = tenants().await;
    let carol = scope(&workspace, "users/carol");
    link(&storage, "users/carol", "bob").await;
    let error = carol.read("b.txt", ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PathEscape);
}

#[tokio::test]
async fn policies_add_up_and_globs_are_relative_to_their_own_scope() {
    let storage = storage();
    fill(
        &storage,
        &[
            ("team/one/keep.md", "k"),
            ("team/one/.env", "s"),
            ("team/one/log.txt", "l"),
        ],
    )
    .await;
    let outer = FsPolicy {
        deny_read: globs(&["**/.env"]),
        ..FsPolicy::default()
    };
    let workspace = builder_on(storage).policy(outer).open().unwrap();
    let inner = FsPolicy {
        allow_read: globs(&["*.md", ".env"]),
        ..FsPolicy::default()
    };
    let one = workspace
        .scope(
            "team/one",
            ScopeOptions {
                policy: inner,
                ..ScopeOptions::default()
            },
        )
        .unwrap();
    assert_eq!(shown(&one).await, ["keep.md"]);
    assert_eq!(
        one.read(".env", ReadRequest::default()).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(
        one.read("log.txt", ReadRequest::default()).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[tokio::test]
async fn a_writable_scope_in_a_read_only_workspace_stays_read_only() {
    let policy = FsPolicy {
        read_only: true,
        ..FsPolicy::default()
    };
    let workspace = builder_on(storage()).policy(policy).open().unwrap();
    let error = scope(&workspace, "a")
        .write("b", "x", WriteOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.refused_by(), Some("read_only = true"));
}

#[tokio::test]
async fn the_environment_is_inherited_and_overridden() {
    let vars = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let workspace = builder_on(storage())
        .env(vars(&[("A", "1"), ("B", "1")]))
        .open()
        .unwrap();
    let inner = workspace
        .scope(
            "x",
            ScopeOptions {
                env: vars(&[("B", "2")]),
                ..ScopeOptions::default()
            },
        )
        .unwrap();
    assert_eq!(inner.environment(), &vars(&[("A", "1"), ("B", "2")]));
    assert_eq!(workspace.environment(), &vars(&[("A", "1"), ("B", "1")]));
}

#[tokio::test]
async fn errors_speak_in_the_paths_of_the_scope() {
    let (workspace, _) = tenants().await;
    let alice = scope(&workspace, "users/alice");
    let error = alice.read("sub/missing", ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.path(), Some("sub/missing"));
    assert!(!error.to_string().contains("users"), "{error}");
    let error = alice
        .remove(
            "",
            RemoveOptions {
                recursive: true,
                ..Default::default()
            },
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn scopes_nest_to_any_depth() {
    let workspace = builder_on(storage()).open().unwrap();
    let deep = (0..50).fold(workspace.clone(), |around, level| scope(&around, &format!("d{level}")));
    put(&deep, "x", "deep").await;
    let path = (0..50).map(|level| format!("d{level}/")).collect::<String>() + "x";
    assert_eq!(get(&workspace, &path).await, "deep");
}
