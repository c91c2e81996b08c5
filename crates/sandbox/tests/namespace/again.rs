//! Layers on which nothing was done serve again, as long as the bench is as it was.

use std::time::{Duration, Instant};

use garret_core::{OpenSandbox, Sandbox};

use crate::room::{
    Outcome, Room, directory, finish, is_tidy, limited, paths, request_apart, run_apart, run_on, sandbox, shell,
};

/// Runs a text as the only command of a layer: the layer's id, what was said, and what was done.
async fn alone(open: &dyn OpenSandbox, stands: &str, text: &str) -> (String, Outcome, Vec<String>) {
    let layer = open.create_layer_on(stands).await.unwrap();
    let mut process = layer.start_last_process(shell(text)).await.unwrap();
    let outcome = finish(&mut *process).await;
    layer.lift().await.unwrap();
    let done = paths(&layer.read_effects(None).await.unwrap());
    layer.remove().await.unwrap();
    (layer.id().to_owned(), outcome, done)
}

#[tokio::test]
async fn a_layer_on_which_nothing_was_done_serves_the_next_command() {
    let room = Room::new().await;
    std::fs::write(room.bench().join("a"), "1").unwrap();
    let (first, outcome, done) = alone(&*room.open, "one", "cat a; ls").await;
    assert_eq!((outcome.text().as_str(), done.len()), ("1a\n", 0));
    let (second, ..) = alone(&*room.open, "one", "cat a").await;
    assert_eq!(second, first);
    let (third, outcome, done) = alone(&*room.open, "one", "cat a; echo 2 > a; cat a").await;
    assert_eq!((third, outcome.text().as_str()), (first.clone(), "12\n"));
    assert_eq!(done, ["a"]);
    let (fourth, outcome, _) = alone(&*room.open, "one", "cat a").await;
    assert_ne!(fourth, first, "something was done on the one before");
    assert_eq!(outcome.text(), "1");
}

#[tokio::test]
async fn whatever_was_done_on_a_layer_it_does_not_serve_again() {
    let deeds = [
        "echo x > made",
        "echo x > made; rm made",
        "rm a",
        "chmod 700 .",
        "touch .",
        "setfattr -n user.told -v x . || chmod 711 .",
        "mkdir d; rmdir d",
        "chmod 600 a",
        "ln -s a l; rm l",
    ];
    let room = Room::new().await;
    for deed in deeds {
        std::fs::write(room.bench().join("a"), "1").unwrap();
        let (before, ..) = alone(&*room.open, "one", deed).await;
        let (after, outcome, done) = alone(&*room.open, "one", "ls; stat -c %a .").await;
        assert_ne!(after, before, "{deed}");
        assert_eq!(outcome.text(), "a\n755\n", "{deed}");
        assert_eq!(done, Vec::<String>::new(), "{deed}");
    }
}

#[tokio::test]
async fn over_a_bench_that_changed_another_layer_is_laid() {
    let room = Room::new().await;
    let file = room.bench().join("a");
    std::fs::write(&file, "1").unwrap();
    let (first, outcome, _) = alone(&*room.open, "one", "cat a").await;
    assert_eq!(outcome.text(), "1");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "another").unwrap();
    let (second, outcome, _) = alone(&*room.open, "two", "cat a").await;
    assert_eq!(outcome.text(), "another");
    assert_ne!(second, first);
}

#[tokio::test]
async fn limits_hold_on_a_layer_that_serves_again() {
    let room = Room::new().await;
    let (first, ..) = alone(&*room.open, "one", "true").await;
    let layer = room.open.create_layer_on("one").await.unwrap();
    assert_eq!(layer.id(), first);
    let text = "for n in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > f$n; sleep 0.2; done; sleep 30";
    let written = limited(text, |limits| limits.written = Some(3_000_000));
    let outcome = run_on(&*layer, written).await;
    assert_eq!(outcome.exit.limit, Some(garret_core::ResourceLimit::Written));
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn commands_at_once_have_a_layer_each() {
    let room = Room::new().await;
    alone(&*room.open, "one", "true").await;
    let (one, other) = (
        alone(&*room.open, "one", "sleep 0.3; ls; echo 1 > from-one"),
        alone(&*room.open, "one", "sleep 0.3; ls; echo 2 > from-other"),
    );
    let ((one, said, _), (other, said_too, _)) = tokio::join!(one, other);
    assert_ne!(one, other);
    assert_eq!((said.text(), said_too.text()), (String::new(), String::new()));
}

#[tokio::test]
async fn two_layers_that_stay_leave_one() {
    let room = Room::new().await;
    let both = || async {
        tokio::join!(
            alone(&*room.open, "one", "sleep 0.2"),
            alone(&*room.open, "one", "sleep 0.2")
        )
    };
    both().await;
    both().await;
    room.open.close().await.unwrap();
    is_tidy(&room.directory).await;
}

#[tokio::test]
async fn a_layer_that_stays_goes_with_its_sandbox() {
    let room = Room::new().await;
    alone(&*room.open, "one", "true").await;
    room.open.close().await.unwrap();
    is_tidy(&room.directory).await;
    assert!(room.open.create_layer_on("one").await.is_err());
}

/// Is run by the test below as a process of its own, which is then killed; does nothing when it is run with all others.
#[tokio::test]
async fn is_killed_between_two_commands() {
    let Some(request) = request_apart() else {
        return;
    };
    let told = request.scratch.with_file_name("between");
    let open = sandbox().open(request).await.unwrap();
    alone(&*open, "one", "true").await;
    std::fs::write(told, "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test]
async fn a_layer_that_stayed_when_garret_was_killed_is_no_leftover() {
    let directory = directory();
    let mut child = run_apart("again::is_killed_between_two_commands", &directory, &[]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !directory.path().join("between").exists() {
        assert!(Instant::now() < deadline, "the other process did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let room = Room::on(directory, |_| {}).await;
    let layers = room.directory.path().join("scratch/layers");
    loop {
        assert!(room.open.leftover_layers().await.unwrap().is_empty());
        if std::fs::read_dir(&layers).unwrap().count() == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "the layer is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
