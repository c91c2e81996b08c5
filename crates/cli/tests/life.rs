//! The life of the data: what is kept, what goes, what is looked over.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

mod common;

use common::Room;

#[test]
fn a_workspace_keeps_what_it_was_told_to() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    for number in 1..=5 {
        room.run(&["-w", "notes", "write", "a", &number.to_string()]).done();
    }
    assert_eq!(room.run(&["keep", "notes"]).done(), "notes keeps everything\n");
    assert_eq!(room.run(&["keep", "notes", "2"]).done(), "notes keeps 2\n");
    assert_eq!(room.run(&["keep", "notes", "some"]).misused(), "invalid");
    let log = room.run(&["-w", "notes", "log", "--json"]).data();
    assert_eq!(
        log["changes"].as_array().unwrap().len(),
        5,
        "nothing goes before a collection"
    );
    assert_eq!(room.run(&["gc", "--dry-run"]).done(), "there is nothing to remove\n");
    room.run(&["gc"]).done();
    let log = room.run(&["-w", "notes", "log", "--json"]).data();
    assert_eq!(log["changes"].as_array().unwrap().len(), 2, "{log}");
    assert_eq!(
        room.run(&["-w", "notes", "cat", "a", "--at", "1"]).failed(),
        "not_found"
    );
    assert_eq!(room.run(&["-w", "notes", "cat", "a", "--at", "4"]).done(), "4");
}

#[test]
fn what_was_deleted_goes_after_its_grace() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", &"x".repeat(3_000)]).done();
    room.run(&["delete", "notes"]).done();
    assert_eq!(room.run(&["gc"]).done(), "there is nothing to remove\n");
    room.run(&["recover", "notes"]).done();
    room.run(&["delete", "notes"]).done();
    let dry = room.run(&["gc", "--dry-run", "--grace", "0s"]);
    assert!(
        dry.done()
            .starts_with("would remove 1 deleted workspace, 1 piece of content:"),
        "{}",
        dry.out()
    );
    room.run(&["recover", "notes"]).done();
    room.run(&["delete", "notes"]).done();
    let wet = room.run(&["gc", "--grace", "0s"]);
    assert!(wet.done().starts_with("removed 1 deleted workspace"), "{}", wet.out());
    assert_eq!(room.run(&["recover", "notes"]).failed(), "not_found");
    assert_eq!(room.run(&["gc", "--grace", "soon"]).code(), 2);
}
