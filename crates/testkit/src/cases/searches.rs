//! Searches.

use garret_workspace::{AppendOptions, Edit, EditOptions, GlobRequest, GrepRequest, RemoveOptions, TransferOptions};

use super::Room;

async fn found(room: &Room, pattern: &str) -> Vec<String> {
    let request = GrepRequest {
        pattern: pattern.to_owned(),
        ..GrepRequest::default()
    };
    let found = room.workspace.grep(request).await.expect("the pattern is sound");
    found
        .matches
        .into_iter()
        .map(|found| format!("{}:{}:{}", found.path, found.line_number, found.line))
        .collect()
}

async fn globbed(room: &Room, pattern: &str) -> Vec<String> {
    let request = GlobRequest {
        pattern: pattern.to_owned(),
        ..GlobRequest::default()
    };
    room.workspace.glob(request).await.expect("the pattern is sound").paths
}

/// Finds it, and what later changes left of it.
pub async fn a_search_right_after_a_write(room: Room) {
    for turn in 0..20 {
        let at = format!("d{}/f{turn}", turn % 3);
        room.write(&at, format!("first\nneedle {turn}\n")).await;
        assert_eq!(
            found(&room, &format!("needle {turn}$")).await,
            [format!("{at}:2:needle {turn}")]
        );
        assert!(globbed(&room, &format!("**/f{turn}")).await.contains(&at));
    }
    room.workspace
        .append("d0/f0", "appended needle\n", AppendOptions::default())
        .await
        .expect("the file is there");
    assert_eq!(found(&room, "appended needle").await, ["d0/f0:3:appended needle"]);
    let edit = Edit {
        old_text: "appended".into(),
        new_text: "edited".into(),
        ..Edit::default()
    };
    room.workspace
        .edit("d0/f0", &[edit], EditOptions::default())
        .await
        .expect("the edit applies");
    assert_eq!(found(&room, "edited needle").await, ["d0/f0:3:edited needle"]);
    room.workspace
        .rename("d0/f0", "moved", TransferOptions::default())
        .await
        .expect("the file is there");
    assert_eq!(found(&room, "edited needle").await, ["moved:3:edited needle"]);
    room.workspace
        .remove("moved", RemoveOptions::default())
        .await
        .expect("the file is there");
    assert_eq!(found(&room, "edited needle").await, Vec::<String>::new());
}

/// One meaning on every storage; `*` does not cross `/`.
pub async fn globs_have_one_meaning(room: Room) {
    let files = [
        "a.txt",
        "b.txt",
        "bc.txt",
        "x",
        "main.rs",
        "notes.md",
        "page.ts",
        "util.js",
        "page.tsx",
        "src/lib.rs",
        "src/x",
        "src/deep/mod.rs",
        "src/deep/x",
        "src/b.txt",
    ];
    for at in files {
        room.write(at, "content").await;
    }
    for (pattern, wanted) in [
        ("[!a].txt", vec!["b.txt"]),
        ("{*.ts,*.js}", vec!["page.ts", "util.js"]),
        ("**/x", vec!["src/deep/x", "src/x", "x"]),
        ("*.{rs,md}", vec!["main.rs", "notes.md"]),
        ("src/*.rs", vec!["src/lib.rs"]),
        ("src/**/*.rs", vec!["src/deep/mod.rs", "src/lib.rs"]),
        ("?.txt", vec!["a.txt", "b.txt"]),
        (
            "*",
            vec![
                "a.txt", "b.txt", "bc.txt", "main.rs", "notes.md", "page.ts", "page.tsx", "util.js", "x",
            ],
        ),
    ] {
        let mut seen = globbed(&room, pattern).await;
        seen.retain(|path| files.contains(&path.as_str()));
        assert_eq!(seen, wanted, "{pattern}");
    }
}

/// The result names how many and which.
pub async fn grep_names_what_it_skips(room: Room) {
    room.write("text", "needle\n").await;
    room.write("d/binary", b"needle\0needle\n".to_vec()).await;
    room.write("large", "needle\n".repeat(2_000)).await;
    let request = GrepRequest {
        pattern: "needle".to_owned(),
        max_file_bytes: 1_000,
        ..GrepRequest::default()
    };
    let found = room.workspace.grep(request).await.expect("the pattern is sound");
    assert_eq!(found.matches.len(), 1);
    let skipped: Vec<_> = found
        .skipped
        .iter()
        .map(|skipped| (skipped.path.as_str(), skipped.reason))
        .collect();
    assert_eq!(skipped, [("d/binary", "binary"), ("large", "too_large")]);
}
