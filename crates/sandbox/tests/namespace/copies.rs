//! Layers where the kernel mounts no overlay: copies of the bench.

use std::sync::Arc;

use garret_core::{ErrorKind, Guard, Sandbox, WsPath};
use garret_sandbox::namespace::LayerMode;
use garret_testkit::sandbox::isolation::HiddenPaths;

use crate::room::{directory, paths, request, run_on, sandbox_with, shell};

#[tokio::test]
async fn a_copy_does_as_a_layer_and_says_that_it_is_one() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir(bench.join("dir")).unwrap();
    for path in ["same", "changed", "dir/removed"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    let open = sandbox_with(LayerMode::Copies).open(request(&directory)).await.unwrap();
    let told = open
        .guard_statuses()
        .iter()
        .find(|one| one.guard == Guard::Layers)
        .unwrap();
    assert!(!told.is_enforced && told.by.contains("copy"), "{told:?}");
    let layer = open.create_layer().await.unwrap();
    let text = "cat same; echo more >> changed; rm dir/removed; echo x > new; echo y > dir/new";
    let outcome = run_on(&*layer, shell(text)).await;
    assert_eq!((outcome.text().as_str(), outcome.errors().as_str()), ("same", ""));
    layer.lift().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    assert_eq!(paths(&effects), ["changed", "dir/new", "dir/removed", "new"]);
    assert_eq!(std::fs::read(bench.join("changed")).unwrap(), b"changed");
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_must_be_a_layer_is_refused() {
    let directory = directory();
    let mut requiring = request(&directory);
    requiring.require.push(Guard::Layers);
    let error = sandbox_with(LayerMode::Copies).open(requiring).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_copy_has_no_hidden_paths_and_does_not_take_them_for_removed() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir(bench.join("dir")).unwrap();
    for path in ["secret", "dir/secret", "dir/plain", "plain"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    let mut hiding = request(&directory);
    let hidden = ["secret", "dir/secret"].map(|path| WsPath::parse(path).unwrap());
    hiding.read_filter = Some(Arc::new(HiddenPaths(hidden.to_vec())));
    let open = sandbox_with(LayerMode::Copies).open(hiding).await.unwrap();
    let layer = open.create_layer().await.unwrap();
    let seen = run_on(&*layer, shell("find . -type f | sort; echo more >> plain")).await;
    assert_eq!(seen.text(), "./dir/plain\n./plain\n");
    layer.pause().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    layer.resume().await.unwrap();
    assert_eq!(paths(&effects), ["plain"]);
    // A directory goes with the hidden file in it: the policy is to judge that.
    run_on(&*layer, shell("rm -r dir")).await;
    layer.lift().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    assert_eq!(paths(&effects), ["dir", "dir/plain", "dir/secret", "plain"]);
    layer.remove().await.unwrap();
}
