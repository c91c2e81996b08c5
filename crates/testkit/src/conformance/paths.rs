//! Which names a storage takes, and that one path has many spellings.

use garret_core::{EntryKind, ErrorKind};

use crate::Probe;
use crate::mutations::{remove, rename, write};

/// `a/b`, `/a/b` and `./a//b` are one file.
pub async fn spellings_name_one_file(probe: Probe) {
    let spellings = ["a/b", "/a/b", "./a//b", "a/./b/", "a/x/../b", "/workspace/a/b"];
    for (turn, spelling) in spellings.into_iter().enumerate() {
        let created = probe.apply(write(spelling, format!("turn {turn}"))).await.created;
        assert_eq!(created, turn == 0, "{spelling}");
        for other in spellings {
            assert_eq!(
                probe.text(other).await,
                format!("turn {turn}"),
                "{spelling} then {other}"
            );
        }
    }
    assert_eq!(probe.names_deep("").await, ["a", "a/b"]);
}

/// Names that look like commands, patterns, options or paths of elsewhere are ordinary.
pub async fn odd_names_are_ordinary(probe: Probe) {
    let names = [
        "$(touch x)",
        "a;b",
        "-rf",
        "--",
        "~",
        "$HOME",
        "*",
        "?",
        "[...slug]",
        "{a,b}",
        "...",
        "..a",
        "a..",
        "a b",
        " lead",
        "trail ",
        "'",
        "\"",
        "`",
        "\\",
        "a\\b",
        "%2e%2e",
        "%",
        "new\nline",
        "tab\t",
        "\u{1}",
        "#",
        "|",
        "é",
        "e\u{301}",
        "日本",
        "🦀",
        "\u{202e}x",
        "con",
        "a:b",
        ".git",
        ".hidden",
        "workspace",
    ];
    for name in names {
        let at = format!("odd/{name}");
        probe.write(&at, name).await;
        assert_eq!(probe.text(&at).await, name);
        assert_eq!(probe.kind(&at).await, Some(EntryKind::File), "{name:?}");
    }
    let mut wanted: Vec<_> = names.iter().map(|name| format!("odd/{name}")).collect();
    wanted.sort();
    assert_eq!(probe.names("odd").await, wanted);
    for name in names {
        probe.apply(rename(&format!("odd/{name}"), "moved")).await;
        assert_eq!(probe.text("moved").await, name);
        probe.apply(remove("moved")).await;
    }
    assert_eq!(probe.names_deep("").await, ["odd"]);
}

/// `A` and `a` are two files.
pub async fn names_that_differ_by_case_are_two(probe: Probe) {
    probe.write("readme", "low").await;
    probe.write("README", "high").await;
    assert_eq!(probe.text("readme").await, "low");
    assert_eq!(probe.names("").await, ["README", "readme"]);
}

/// A name of 255 bytes can be written, replaced, appended to, moved and removed.
pub async fn the_longest_name_works(probe: Probe) {
    let long = "n".repeat(255);
    let other = "é".repeat(127);
    probe.write(&long, "one").await;
    probe.write(&long, "two").await;
    probe.apply(crate::mutations::append(&long, "!")).await;
    probe.apply(rename(&long, &other)).await;
    assert_eq!(probe.text(&other).await, "two!");
    probe.apply(remove(&other)).await;
    assert_eq!(probe.names("").await, Vec::<String>::new());
}

/// A path of 4,000 bytes works, with everything above it. On S3, whose keys hold 1,024 bytes, it is `invalid` and a shorter one works.
pub async fn a_long_path_works(probe: Probe) {
    let directory = "d".repeat(199);
    let below = |count: usize| format!("{}file", format!("{directory}/").repeat(count));
    let long = below(20);
    assert_eq!(long.len(), 4_004);
    if probe.info().kind == "s3" {
        probe.refuses(ErrorKind::Invalid, write(&long, "deep")).await;
        probe.write(&below(4), "deep").await;
        assert_eq!(probe.text(&below(4)).await, "deep");
        assert_eq!(probe.names_deep("").await.len(), 5);
        return;
    }
    probe.write(&long, "deep").await;
    assert_eq!(probe.text(&long).await, "deep");
    assert_eq!(probe.names_deep("").await.len(), 21);
    probe.apply(crate::mutations::remove_tree(&directory)).await;
    assert_eq!(probe.names_deep("").await.len(), 0);
}

/// A hundred directories inside each other are no trouble.
pub async fn deep_nesting_works(probe: Probe) {
    let deep = ["d"; 100].join("/");
    probe.write(&format!("{deep}/file"), "bottom").await;
    probe.apply(rename("d", "e")).await;
    let moved = format!("e{}/file", &deep[1..]);
    assert_eq!(probe.text(&moved).await, "bottom");
    let missing = probe.try_read(&format!("{deep}/file")).await;
    probe.expect_error(ErrorKind::NotFound, "the old path", missing);
}
