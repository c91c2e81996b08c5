//! Layers where the kernel mounts no overlay: copies of the bench.

use garret_core::{ErrorKind, Guard, Sandbox, WsPath};
use garret_sandbox::namespace::Layers;

use crate::room::{directory, paths, request, run_on, sandbox_with, shell};

#[tokio::test]
async fn a_copy_does_as_a_layer_and_says_that_it_is_one() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir(bench.join("dir")).unwrap();
    for path in ["same", "changed", "dir/removed"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    let open = sandbox_with(Layers::Copies).open(request(&directory)).await.unwrap();
    let told = open.enforced().iter().find(|one| one.guard == Guard::Layers).unwrap();
    assert!(!told.is_enforced && told.by.contains("copy"), "{told:?}");
    let layer = open.lay().await.unwrap();
    let text = "cat same; echo more >> changed; rm dir/removed; echo x > new; echo y > dir/new";
    let outcome = run_on(&*layer, shell(text)).await;
    assert_eq!((outcome.text().as_str(), outcome.errors().as_str()), ("same", ""));
    layer.lift().await.unwrap();
    let effects = layer.effects(None).await.unwrap();
    assert_eq!(paths(&effects), ["changed", "dir/new", "dir/removed", "new"]);
    assert_eq!(std::fs::read(bench.join("changed")).unwrap(), b"changed");
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_cannot_hide_paths_or_must_be_a_layer_is_refused() {
    let directory = directory();
    let mut hiding = request(&directory);
    hiding.hidden = vec![WsPath::parse("secret").unwrap()];
    let mut requiring = request(&directory);
    requiring.require.push(Guard::Layers);
    for request in [hiding, requiring] {
        let error = sandbox_with(Layers::Copies).open(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
