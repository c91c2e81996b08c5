//! Leaving something behind that Garret would follow, run or believe later.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::Attack;
use crate::scene::{Scene, is_there};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "plant links that lead outside",
        run: |scene| {
            let outside = scene.text("outside");
            scene.attack(10, &format!("ln -sf /etc/shadow shadow; ln -sf {outside}/secret secret; ln -sfn {outside} door; ln -sf ../../outside/secret up"));
            for name in ["shadow", "secret", "door/secret", "up"] {
                let ran = scene.garret(&["-w", "box", "cat", name]);
                if ran.code == Some(0) {
                    return ran;
                }
            }
            scene.garret(&["-w", "box", "write", "door/planted", "x"]);
            scene.garret(&["-w", "box", "append", "secret", "x"]);
            scene.attack(10, "rm -f shadow secret door up; echo end")
        },
        holds: |scene, ran| ran.stdout.trim() == "end" && !is_there(&scene.path("outside/planted")),
    },
    Attack {
        name: "swap a directory for a link while the effect is taken over",
        run: |scene| {
            let outside = scene.text("outside");
            let swap = format!("while :; do mv d e; ln -s {outside} d; rm d; mv e d; done");
            scene.attack(10, &format!("mkdir -p d && echo x > d/secret; setsid sh -c '{swap}' > /dev/null 2>&1 & sleep 0.3; echo planted > d/planted 2> /dev/null; echo end"))
        },
        holds: |scene, _| !is_there(&scene.path("outside/planted")) && tidy(scene),
    },
    Attack {
        name: "plant hard links to files of the machine",
        run: |scene| {
            scene.attack(10, "ln /etc/passwd hard && echo linked; ln /usr/bin/env hard2 && echo linked; ln /proc/1/exe hard3 && echo linked; echo end")
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "plant devices, fifos and sockets",
        run: |scene| {
            scene.attack(10, "mknod device c 1 5; mknod disk b 254 0; mkfifo fifo; perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un(\"socket\"))'; ls");
            scene.garret(&["-w", "box", "cat", "fifo"])
        },
        holds: |scene, ran| {
            let names = ["device", "disk", "fifo", "socket"];
            ran.code != Some(0)
                && names
                    .iter()
                    .all(|name| scene.tree(name).is_none_or(|path| !is_there(&path)))
        },
    },
    Attack {
        name: "plant a program that runs as its owner",
        run: |scene| {
            scene.attack(
                10,
                "cp /bin/sh sh-of-owner; chmod 6777 sh-of-owner; mkdir -p of-group; chmod 2777 of-group; echo end",
            )
        },
        holds: |scene, _| {
            ["sh-of-owner", "of-group"].iter().all(|name| {
                scene.tree(name).is_none_or(|path| {
                    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o7000 == 0)
                })
            }) && tidy(scene)
        },
    },
    Attack {
        name: "lock the workspace by files and directories that nobody may open",
        run: |scene| {
            let locked = scene.attack(10, "echo one > f; mkdir -p r/s d; echo two > r/s/t; echo end");
            let closing = scene.attack(10, "chmod 000 f; chmod 500 r/s r; chmod 000 d; echo end");
            for command in [&["log"][..], &["undo"], &["redo"], &["undo"], &["cat", "f"]] {
                let ran = scene.garret(&[&["-w", "box"], command].concat());
                if ran.code != Some(0) {
                    return ran;
                }
            }
            match locked.code {
                Some(0) => closing,
                _ => locked,
            }
        },
        holds: |scene, ran| {
            ran.code == Some(0)
                && ran.stdout.trim() == "end"
                && scene.attack(30, "rm -rf f r d; ls").stdout.contains("kept")
        },
    },
    Attack {
        name: "lock the workspace by what a process in the background lets nobody open",
        run: |scene| {
            let script = "echo one > f; mkdir d; echo two > d/g; chmod 000 f d; echo end; sleep 1000";
            let after = [
                ("ls", json!({})),
                ("read_file", json!({"path": "kept"})),
                ("run", json!({"command": "echo fine"})),
            ];
            let ran = scene.beside(script, "end", &after);
            scene.attack(30, "chmod 700 f d; rm -rf f d");
            ran
        },
        holds: |_, ran| ran.code == Some(0),
    },
    Attack {
        name: "forge the attributes of the layer",
        run: |scene| {
            let outside = scene.text("outside");
            scene.attack(10, &format!(
                "mkdir -p forged; python3 -c '\nimport os\nfor name, value in [(\"opaque\", b\"y\"), (\"redirect\", b\"/../../../..{outside}\"), (\"metacopy\", b\"\"), (\"origin\", b\"x\"), (\"whiteout\", b\"\"), (\"upper\", b\"x\")]:\n    for prefix in (\"user.overlay.\", \"trusted.overlay.\"):\n        for path in (\"forged\", \"dir\", \"kept\", \".\"):\n            try: os.setxattr(path, prefix + name, value)\n            except OSError: pass\n'; echo end"
            ));
            scene.garret(&["-w", "box", "ls", "forged"])
        },
        holds: |scene, ran| {
            !ran.stdout.contains("secret")
                && scene.garret(&["-w", "box", "cat", "kept"]).stdout == "kept"
                && tidy(scene)
        },
    },
    Attack {
        name: "forge whiteouts",
        run: |scene| {
            scene.attack(
                10,
                "mknod white c 0 0; mkdir -p w; mknod w/white c 0 0; rm -f kept; mknod kept c 0 0; echo end",
            )
        },
        holds: |scene, _| {
            scene.garret(&["-w", "box", "undo"]);
            scene.garret(&["-w", "box", "cat", "kept"]).stdout == "kept" && tidy(scene)
        },
    },
    Attack {
        name: "forge lines of the log by a name",
        run: |scene| {
            scene.attack(
                10,
                "touch $'a\\nFORGED by root' $'b\\x1b[2JFORGED' $'c\\rFORGED'; echo end",
            );
            let log = scene.garret(&["-w", "box", "log"]);
            let list = scene.garret(&["-w", "box", "ls"]);
            scene.attack(10, "rm -f a* b* c*");
            super::Ran {
                stdout: log.stdout + &list.stdout,
                ..log
            }
        },
        holds: |_, ran| {
            !ran.stdout.contains('\u{1b}')
                && !ran.stdout.contains('\r')
                && !ran.stdout.lines().any(|line| line.starts_with("FORGED"))
        },
    },
    Attack {
        name: "plant a hook and a configuration for git",
        run: |scene| {
            let planted = scene.text("outside/planted");
            scene.attack(10, &format!("git init -q . 2>/dev/null || mkdir -p .git/hooks; mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch {planted}\\n' | tee .git/hooks/post-checkout .git/hooks/pre-commit .git/hooks/post-index-change > /dev/null; chmod +x .git/hooks/*; printf '[core]\\n fsmonitor = touch {planted}\\n pager = touch {planted}\\n sshCommand = touch {planted}\\n' >> .git/config"));
            for command in [
                &["log"][..],
                &["diff", "1"],
                &["snapshot", "create", "hooked"],
                &["ls"],
                &["grep", "x"],
                &["usage"],
            ] {
                let mut arguments = vec!["-w", "box"];
                arguments.extend(command);
                scene.garret(&arguments);
            }
            scene.attack(10, "rm -rf .git; echo end")
        },
        holds: |scene, _| !is_there(&scene.path("outside/planted")),
    },
    Attack {
        name: "delete everything by ways that a list of words does not know",
        run: |scene| {
            for script in BYPASSES {
                scene.attack(10, script);
            }
            let undone = scene.garret(&["-w", "box", "log", "--limit", "50"]);
            while scene.garret(&["-w", "box", "cat", "kept"]).stdout != "kept" {
                if scene.garret(&["-w", "box", "undo"]).code != Some(0) {
                    break;
                }
            }
            undone
        },
        holds: |scene, _| {
            scene.garret(&["-w", "box", "cat", "dir/file"]).stdout == "kept"
                && std::path::Path::new("/usr/bin/env").exists()
        },
    },
];

const BYPASSES: &[&str] = &[
    "rm -fr /",
    "rm --no-preserve-root -r -f /",
    "r''m -rf /usr /workspace/*",
    "\\rm -rf / --no-preserve-root",
    "$(echo rm) -rf /workspace/* /etc",
    "x=rm; $x -rf /usr",
    "env -C / rm -rf usr etc workspace",
    "bash <<'END'\nrm -rf /workspace/* /usr\nEND",
    "bash <(echo 'rm -rf /usr /workspace/dir')",
    "find / -xdev -delete",
    "echo cm0gLXJmIC8= | base64 -d | sh",
    "perl -e 'unlink glob(\"/workspace/*\"); unlink glob(\"/usr/bin/*\")'",
    "cd / && rm -rf -- *",
];

/// Clears the workspace of what an attack left, so that the next one finds what it expects.
fn tidy(scene: &Scene) -> bool {
    scene
        .attack(10, "rm -rf d e sh-of-owner of-group forged w white planted; echo end")
        .stdout
        .trim()
        == "end"
}
