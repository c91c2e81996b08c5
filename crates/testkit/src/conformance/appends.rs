//! Appending: bytes at the end, and nothing else touched.

use garret_core::ErrorKind;

use crate::Probe;
use crate::mutations::{append, append_or_create};

/// An append adds at the end and tells the whole size.
pub async fn an_append_adds_at_the_end(probe: Probe) {
    probe.write("f", "one").await;
    let applied = probe.apply(append("f", "two")).await;
    assert_eq!((applied.size, applied.created), (6, false));
    assert_eq!(probe.text("f").await, "onetwo");
}

/// Text after bytes that are no text stays byte-exact.
pub async fn an_append_keeps_the_bytes_before(probe: Probe) {
    probe.write("f", vec![0xff, 0xfe]).await;
    probe.apply(append("f", "text\r\n")).await;
    assert_eq!(probe.read("f").await.bytes, b"\xff\xfetext\r\n".as_slice());
}

/// An append of nothing changes nothing.
pub async fn an_empty_append_changes_nothing(probe: Probe) {
    probe.write("f", "same").await;
    assert_eq!(probe.apply(append("f", "")).await.size, 4);
    assert_eq!(probe.text("f").await, "same");
}

/// With `create`, a missing file and the directories above are made.
pub async fn an_append_with_create_makes_the_file(probe: Probe) {
    let applied = probe.apply(append_or_create("a/b/log", "one")).await;
    assert_eq!((applied.size, applied.created), (3, true));
    assert!(!probe.apply(append_or_create("a/b/log", "two")).await.created);
    assert_eq!(probe.text("a/b/log").await, "onetwo");
}

/// Without `create`, a missing file is `not_found`.
pub async fn an_append_needs_its_file(probe: Probe) {
    probe.make_dirs("d").await;
    for at in ["missing", "d/missing", "missing/deep"] {
        probe.refuses(ErrorKind::NotFound, append(at, "x")).await;
    }
}

/// Directories cannot be appended to, nor can what lies below a file.
pub async fn only_files_can_be_appended_to(probe: Probe) {
    probe.write("d/f", "x").await;
    probe.refuses(ErrorKind::IsADirectory, append("d", "y")).await;
    probe.refuses(ErrorKind::IsADirectory, append("", "y")).await;
    probe.refuses(ErrorKind::NotADirectory, append("d/f/g", "y")).await;
}

/// Many appends of one batch all arrive, in order.
pub async fn appends_of_one_batch_arrive_in_order(probe: Probe) {
    let lines: Vec<String> = (0..100).map(|line| format!("{line}\n")).collect();
    probe
        .batch(lines.iter().map(|line| append_or_create("log", line.clone())).collect())
        .await;
    assert_eq!(probe.text("log").await, lines.concat());
}
