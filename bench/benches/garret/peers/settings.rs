//! What each side was set to, and what it lacks.

use serde::Deserialize;
use serde_json::Value;

use super::{Durability, Peer};

/// What a script tells of its SDK.
#[derive(Deserialize)]
pub(super) struct Settings {
    version: String,
    runtime: String,
    engine: String,
    journal_mode: Value,
    synchronous: Value,
    page_size: Value,
    cache_size: Value,
    chunk_size: u32,
    methods: Vec<String>,
}

/// What an agent's files may need, with the words that a method for it would have.
const WANTED: [(&str, &[&str]); 5] = [
    ("snapshots", &["snapshot", "checkpoint"]),
    ("undo", &["undo", "revert", "rollback", "restore"]),
    ("branches", &["branch", "fork", "clone"]),
    ("merge", &["merge"]),
    ("versions of a file", &["version", "history", "diff"]),
];

/// Both sides beside each other.
pub(super) fn table(told: &[(&Peer, Durability, Settings)]) -> String {
    let of = |wanted: Durability| told.iter().filter(move |(_, durability, _)| *durability == wanted);
    let row = |what: &str, cell: &dyn Fn(&Peer, &Settings) -> String, garret: &str| {
        let cells: Vec<_> = of(Durability::Full)
            .map(|(peer, _, settings)| cell(peer, settings))
            .collect();
        format!("| {what} | {} | {garret} |\n", cells.join(" | "))
    };
    let relaxed: Vec<_> = of(Durability::Relaxed)
        .map(|(_, _, settings)| shown_sync(settings))
        .collect();
    let mut table = row("", &|peer, _| peer.name.into(), "Garret");
    table += &format!("|---|{}---|\n", "---|".repeat(of(Durability::Full).count()));
    table += &row("version", &|_, told| told.version.clone(), env!("CARGO_PKG_VERSION"));
    table += &row("language", &|_, told| told.runtime.clone(), "Rust");
    let sqlite = format!("SQLite {}", rusqlite::version());
    table += &row("engine", &|_, told| told.engine.clone(), &sqlite);
    table += &row("journal mode", &|_, told| plain(&told.journal_mode), "wal");
    table += &row("synchronous, full", &|_, told| shown_sync(told), "FULL");
    table += &format!("| synchronous, relaxed | {} | NORMAL |\n", relaxed.join(" | "));
    table += &row("page size", &|_, told| plain(&told.page_size), "4096");
    table += &row("cache size", &|_, told| plain(&told.cache_size), "-8192");
    let chunks = |_: &Peer, told: &Settings| format!("chunks of {} bytes", told.chunk_size);
    table += &row(
        "content",
        &chunks,
        "whole up to 64 KiB; above, parts cut by content, compressed",
    );
    table + &habits(&row) + &lacks(&row)
}

type Row<'a> = dyn Fn(&str, &dyn Fn(&Peer, &Settings) -> String, &str) -> String + 'a;

/// What one operation is, as the code of these versions has it.
fn habits(row: &Row) -> String {
    let either = |python: &'static str, node: &'static str| {
        move |peer: &Peer, _: &Settings| if peer.language == "Python" { python } else { node }.to_owned()
    };
    let written = either(
        "three transactions, a sync each",
        "six statements, a transaction each, five syncs",
    );
    let edited = either("reads and writes the whole file", "writes the range in place");
    let listed = either("names", "names, sizes, times");
    let read = either("writes the time of access", "writes the time of access");
    [
        row(
            "a write of a new file",
            &written,
            "one transaction with its history, one sync",
        ),
        row(
            "an edit",
            &edited,
            "finds the text, keeps the version before, shows the difference",
        ),
        row("a list", &listed, "names, sizes, times"),
        row("a read", &read, "verifies the content by its hash"),
    ]
    .concat()
}

/// What there is no method for, looked up in what the SDK has.
fn lacks(row: &Row) -> String {
    let found = |told: &Settings, words: &[&str]| {
        let has = |method: &&String| words.iter().any(|word| method.to_lowercase().contains(word));
        let found: Vec<_> = told.methods.iter().filter(has).cloned().collect();
        if found.is_empty() {
            "has none".to_owned()
        } else {
            found.join(", ")
        }
    };
    let rows = WANTED.map(|(what, words)| row(what, &|_, told| found(told, words), "yes"));
    rows.concat() + "\n"
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shown_sync(settings: &Settings) -> String {
    match settings.synchronous.as_i64() {
        Some(0) => "OFF".into(),
        Some(1) => "NORMAL".into(),
        Some(2) => "FULL".into(),
        _ => plain(&settings.synchronous),
    }
}
