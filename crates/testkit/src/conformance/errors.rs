//! Errors: the right kind, a workspace path, a hint, and nothing of the host.

use garret_core::ErrorKind;

use crate::Probe;
use crate::mutations::{make_dir, remove, rename, write, write_if};

/// An error names the path that the caller used.
pub async fn an_error_names_the_caller_s_path(probe: Probe) {
    probe.write("d/f", "x").await;
    for (kind, named, mutation) in [
        (ErrorKind::NotFound, "gone", remove("/workspace/./gone")),
        (ErrorKind::IsADirectory, "d", write("/d/", "x")),
        (ErrorKind::NotEmpty, "d", remove("d")),
        (ErrorKind::AlreadyExists, "d", make_dir("d")),
        (ErrorKind::Invalid, "d", rename("d", "d/e")),
        (ErrorKind::Denied, "", remove("/")),
        (
            ErrorKind::Conflict,
            "d/f",
            write_if("d//f", "y", garret_core::Precondition::Absent),
        ),
        (ErrorKind::NotADirectory, "d/f/x", write("d/f/x", "y")),
    ] {
        let error = probe.refuses(kind, mutation).await;
        assert_eq!(error.path(), Some(named), "{error:?}");
    }
}

/// A name with control characters cannot forge a line of a message.
pub async fn a_name_cannot_forge_a_message(probe: Probe) {
    for at in ["line\nfeed", "escape\u{1b}[31m", "turn\u{202e}around"] {
        let error = probe.expect_error(ErrorKind::NotFound, at, probe.try_read(at).await);
        let shown = error.to_string();
        assert!(!shown.contains(['\n', '\u{1b}', '\u{202e}']), "{shown:?}");
    }
}

/// A storage says what it is.
pub async fn a_storage_says_what_it_is(probe: Probe) {
    let info = probe.info();
    assert!(!info.kind.is_empty(), "a storage has a kind");
    assert_eq!(probe.info(), info, "what a storage is does not change");
    probe.write("f", "x").await;
    assert_eq!(probe.stat("f").await.mode.is_some(), info.has_modes);
}
