//! Having Garret, under umask 0, create files that other users of the machine can write.
//!
//! A program that leaves the modes of its files to the umask makes them with 0666 and 0777 here.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Attack;
use crate::scene::{Ran, Scene, none_succeeded, sum};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "write what tools made under umask 0",
        run: |scene| {
            let calls: [&[&str]; 6] = [
                &["write", "shared/deep/file", "x"],
                &["append", "shared/log", "x"],
                &["mkdir", "-p", "shared/a/b"],
                &["cp", "-r", "shared/deep", "shared/copy"],
                &[
                    "call",
                    "write_file",
                    r#"{"path": "shared/called/file", "content": "x"}"#,
                ],
                &["undo"],
            ];
            try_calls(scene, &calls)
        },
        holds: none_succeeded,
    },
    Attack {
        name: "write what a command made under umask 0",
        run: |scene| {
            let calls: [&[&str]; 4] = [
                &["run", "--", "mkdir", "-p", "shared/plain"],
                &[
                    "run",
                    "-c",
                    "mkdir -p shared/made; echo x > shared/made/file; touch shared/top",
                ],
                &[
                    "run",
                    "-c",
                    "setsid sh -c 'mkdir shared/by-child; echo x > shared/by-child/file'",
                ],
                &[
                    "run",
                    "-c",
                    "cp -r shared/made shared/copied; tar c shared/made | tar x -C shared/copied",
                ],
            ];
            try_calls(scene, &calls)
        },
        holds: none_succeeded,
    },
    Attack {
        name: "write what was copied out under umask 0",
        run: |scene| {
            scene.put("taken/file", "");
            scene.garret(&["-w", "box", "write", "shared/deep/file", "x"]);
            let calls: [&[&str]; 5] = [
                &["-w", "box", "get", "shared/deep/file", "one"],
                &["-w", "box", "get", "shared", "all"],
                &["export", "other", "--to", "tree"],
                &["export", "other", "--to", "other.tar"],
                &["export", "other", "other.garret"],
            ];
            let config = scene.text("work/garret.toml");
            let variants = calls.map(|call| {
                let ran = scene.garret_without_umask("taken", &[&["--config", &config], call].concat());
                let has_succeeded = ran.code != Some(0) || !writable_by_others(&scene.path("taken")).is_empty();
                (ran, has_succeeded)
            });
            let all = sum(variants);
            std::fs::remove_dir_all(scene.path("taken")).unwrap();
            scene.garret(&["-w", "box", "rm", "-r", "shared"]);
            all
        },
        holds: none_succeeded,
    },
    Attack {
        name: "write a home that was made under umask 0",
        run: |scene| {
            scene.put("fresh/file", "");
            let home = scene.text("fresh/home");
            let large = "x".repeat(100_000);
            let calls: [&[&str]; 4] = [
                &["create", "notes", "--capability", "fs,snapshot,shell"],
                &["-w", "notes", "write", "large", &large],
                &["-w", "notes", "snapshot", "create", "first"],
                &["-w", "notes", "run", "-c", "echo x > made"],
            ];
            let variants = calls.map(|call| {
                let ran = scene.garret_without_umask("fresh", &[&["--home", &home], call].concat());
                let has_succeeded = ran.code != Some(0) || !writable_by_others(&scene.path("fresh")).is_empty();
                (ran, has_succeeded)
            });
            let all = sum(variants);
            std::fs::remove_dir_all(scene.path("fresh")).unwrap();
            all
        },
        holds: none_succeeded,
    },
];

/// Makes calls on the workspace, under umask 0, that work in `shared`. A variant succeeds where the call left something there, or in the
/// home, that others can write.
fn try_calls(scene: &Scene, calls: &[&[&str]]) -> Ran {
    let variants = calls.iter().map(|call| {
        let ran = scene.garret_without_umask("work", &[&["-w", "box"], *call].concat());
        let inside = scene.attack(30, "find shared -perm /022; echo end");
        let mut writable = writable_by_others(&scene.path("home"));
        writable.extend(
            scene
                .tree("shared")
                .map_or_else(Vec::new, |tree| writable_by_others(&tree)),
        );
        let is_kept_from_others = ran.code == Some(0) && inside.stdout == "end\n" && writable.is_empty();
        let said = Ran {
            stderr: format!("{}{}{writable:?}", ran.stderr, inside.stdout),
            ..ran
        };
        (said, !is_kept_from_others)
    });
    let all = sum(variants.collect::<Vec<_>>());
    scene.attack(10, "rm -rf shared");
    all
}

/// Everything at and below a place that its group or other users can write.
fn writable_by_others(place: &Path) -> Vec<PathBuf> {
    let mut waiting = vec![place.to_owned()];
    let mut writable = Vec::new();
    while let Some(place) = waiting.pop() {
        let found = std::fs::symlink_metadata(&place).unwrap();
        if !found.is_symlink() && found.permissions().mode() & 0o022 != 0 {
            writable.push(place.clone());
        }
        if found.is_dir() {
            let entries = std::fs::read_dir(&place).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
    }
    writable
}
