//! Having Garret show a terminal what the terminal obeys: the title and the colours change, lines vanish, or the terminal types for its user.
//!
//! Every variant must be shown, escaped: one that is not shown at all would try nothing.

use crate::Attack;
use crate::scene::{Ran, Scene, none_succeeded, sum};

/// Sets the title, clears the screen, goes to the first column and changes the colour, by both forms of the control sequence.
const FORGED: &str = "FORGED\x1b]0;title\x07\x1b[2J\u{8}\u{9b}31m";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "have a patch that does not apply speak to the terminal",
        run: |scene| {
            scene.garret(&["-w", "box", "write", "spoken", FORGED]);
            let patches = [
                format!("--- a/{FORGED}\n+++ b/{FORGED}\n@@ -1 +1 @@\n-x\n+y\n"),
                format!("--- a/kept\n+++ b/kept\n@@ -1 +1 @@\n-{FORGED}\n+y\n"),
                format!("diff --git a/{FORGED} b/y\nrename from {FORGED}\nrename to y\n"),
                "--- a/spoken\n+++ b/spoken\n@@ -1 +1 @@\n-x\n+y\n".to_owned(),
            ];
            let variants = patches.map(|patch| {
                scene.put("work/forged.patch", &patch);
                shown(scene, "work", &["-w", "box", "patch", "forged.patch"])
            });
            scene.garret(&["-w", "box", "rm", "spoken"]);
            let all = sum(variants);
            std::fs::remove_file(scene.path("work/forged.patch")).unwrap();
            all
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have the names of a configuration speak to the terminal",
        run: |scene| {
            let name: String = FORGED.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
            let files = [
                format!("[workspaces.\"{name}\"]\nstorage = 'memory:'\n"),
                format!("[workspaces.site]\nstorage = \"{name}:x\"\n"),
                format!("[workspaces.site]\nstorage = 'memory:'\n\"{name}\" = 1\n"),
                format!("[workspaces.site]\nstorage = 'memory:'\n[workspaces.site.capabilities]\n\"{name}\" = true\n"),
                format!(
                    "[workspaces.site]\nstorage = 'memory:'\n[workspaces.site.capabilities.shell]\nenv_allow = [\"{name}\"]\n"
                ),
                format!(
                    "[workspaces.site]\nstorage = 'memory:'\n[workspaces.site.capabilities.fs]\ndeny_read = [\"{{{name}\"]\n"
                ),
            ];
            let variants = files.into_iter().flat_map(|text| {
                scene.put("spoken/garret.toml", &text);
                let calls: [&[&str]; 4] = [
                    &["config", "check"],
                    &["trust"],
                    &["-w", "sit", "ls"],
                    &["-w", "site", "ls"],
                ];
                // Not every command has to tell of every name; one of them must.
                let tried = calls.map(|call| shown_or_not(scene, "spoken", call));
                let is_shown = tried.iter().any(|(_, is_shown, _)| *is_shown);
                tried.map(|(ran, _, is_obeyed)| (ran, is_obeyed || !is_shown))
            });
            sum(variants.collect::<Vec<_>>())
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have the error of a pattern speak to the terminal",
        run: |scene| {
            let patterns = [
                ("grep", format!("({FORGED}")),
                ("grep", format!("{FORGED}[z-a]")),
                ("grep", format!("\\p{{{FORGED}}}")),
                ("glob", format!("{{{FORGED}")),
                ("glob", format!("[{FORGED}")),
            ];
            sum(patterns.map(|(tool, pattern)| shown(scene, "work", &["-w", "box", tool, &pattern])))
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have a name or content that a command left speak to the terminal",
        run: |scene| {
            let left = scene.attack(10, &format!("mkdir spoken; echo 'needle {FORGED}' > 'spoken/{FORGED}'"));
            let name = format!("spoken/{FORGED}");
            let (before, after) = newest_change(scene);
            let calls: [&[&str]; 9] = [
                &["ls", "spoken"],
                &["ls", "spoken", "--json"],
                &["stat", &name],
                &["ls", "-l", "spoken"],
                &["tree", "spoken"],
                &["glob", "spoken/*"],
                &["grep", "needle"],
                &["log", "--limit", "1"],
                // Between two points of the journal: a file of another attack that cannot be read does not matter there.
                &["diff", &before, &after],
            ];
            let variants = calls.map(|call| shown(scene, "work", &[&["-w", "box"], call].concat()));
            let all = sum(variants.into_iter().chain([(left, false)]));
            scene.attack(10, "rm -rf spoken");
            all
        },
        holds: none_succeeded,
    },
];

/// The numbers of the newest change and of the one before it.
fn newest_change(scene: &Scene) -> (String, String) {
    let log = scene.garret(&["-w", "box", "log", "--limit", "1", "--json"]).stdout;
    let log: serde_json::Value = serde_json::from_str(&log).unwrap_or_else(|error| panic!("{error}: {log}"));
    let number = log["data"]["changes"][0]["number"].as_u64().unwrap();
    ((number - 1).to_string(), number.to_string())
}

/// Runs the program on a terminal; a variant succeeds where the terminal obeys, or where nothing of it is shown.
fn shown(scene: &Scene, directory: &str, arguments: &[&str]) -> (Ran, bool) {
    let (ran, is_shown, is_obeyed) = shown_or_not(scene, directory, arguments);
    (ran, is_obeyed || !is_shown)
}

/// Runs the program on a terminal. Tells whether the forged text is shown, and whether the terminal obeys it.
fn shown_or_not(scene: &Scene, directory: &str, arguments: &[&str]) -> (Ran, bool, bool) {
    let ran = scene.garret_on_terminal(directory, arguments);
    let text = without_own_colours(&ran.stdout);
    let is_obeyed = text.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
    let is_shown = text.contains("FORGED");
    (ran, is_shown, is_obeyed)
}

/// The text without the ends of lines of a terminal, the colours of Garret, and what clears its line of progress.
fn without_own_colours(text: &str) -> String {
    let own = ["1", "31", "1;31", "32", "33", "35", "36", "0"].map(|code| format!("\x1b[{code}m"));
    let own = own.into_iter().chain(["\r\x1b[2K".to_owned()]);
    own.fold(text.replace("\r\n", "\n"), |text, code| text.replace(&code, ""))
}
