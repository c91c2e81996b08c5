//! Reading what the policy of the workspace hides. `vault` is the workspace with everything, `fenced` the same files under read rules.
//!
//! What a scope of a workspace hides from its neighbours is not tried here: neither the command line nor the MCP server opens a scope. The
//! only door to them is the library; `crates/garret/tests/shell/hiding.rs` tries commands of a scope beside a busy writer of another.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::Attack;
use crate::scene::{CANARY, Ran, Scene};

/// Looks everywhere for what is hidden, again and again.
const LOOK: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do grep -rs canary-4f1d7 .; find . -name .env; sleep 0.05; done; cat open; echo end";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "read a denied file that is there",
        run: |scene| scene.hiding(&[".env", "sub/.env", "keys/key"], LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file that is written while the command runs",
        run: |scene| {
            scene.meanwhile(LOOK, || {
                scene.hide(".env");
                scene.hide("sub/late/.env");
                scene.hide("keys/late");
            })
        },
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file that is moved while the command runs",
        run: |scene| {
            scene.garret(&["-w", "vault", "write", "sub/.env", CANARY]);
            scene.meanwhile(LOOK, || {
                scene.garret(&["-w", "vault", "mv", "sub/.env", "keys/moved"]);
                scene.garret(&["-w", "vault", "mv", "keys/moved", ".env"]);
            })
        },
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a visible file after it was moved to a denied name and written there",
        run: |scene| {
            scene.garret(&["-w", "vault", "write", "sub/seen", "seen"]);
            scene.meanwhile(LOOK, || match scene.vault("sub/seen") {
                Some(seen) => {
                    std::fs::rename(&seen, seen.with_file_name(".env")).unwrap();
                    std::fs::write(seen.with_file_name(".env"), CANARY).unwrap();
                }
                None => scene.hide("sub/.env"),
            })
        },
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file of a directory that history leaves out",
        run: |scene| scene.hiding_excluded("target/.env", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file deep in a directory that history leaves out",
        run: |scene| scene.hiding_excluded("target/a/b/.env", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied directory in a directory that history leaves out",
        run: |scene| scene.hiding_excluded("target/keys/key", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a file whose name is not UTF-8",
        run: |scene| scene.hiding_raw(b"k\xe9y", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a file whose name is not UTF-8 in a directory",
        run: |scene| scene.hiding_raw(b"sub/k\xe9y", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a file in a directory whose name is not UTF-8",
        run: |scene| scene.hiding_raw(b"d\xff/.env", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file by its second name",
        run: |scene| scene.hiding_linked(".env", "env", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a file of a denied directory by its second name",
        run: |scene| scene.hiding_linked("keys/key", "sub/key", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read a denied file by its second name in the same directory",
        run: |scene| scene.hiding_linked("sub/.env", "sub/plain", LOOK),
        holds: sees_what_is_open,
    },
    Attack {
        name: "read the second name of a denied file with tools",
        run: |scene| {
            scene.tools_on_link(
                ".env",
                "env",
                &[
                    &["cat", "env"],
                    &["grep", "canary", "env"],
                    &["grep", "canary"],
                    &["cp", "env", "copy"],
                    &["cat", "copy"],
                    &["edit", "env", "canary", "x"],
                    &["get", "env", "-"],
                ],
            )
        },
        holds: refuses_the_first,
    },
    Attack {
        name: "move a directory with the second name of a denied file",
        run: |scene| {
            scene.tools_on_link(
                "keys/key",
                "sub/deep/key",
                &[
                    &["mv", "sub/deep", "moved"],
                    &["cat", "moved/key"],
                    &["cp", "-r", "sub", "copy"],
                    &["cat", "copy/deep/key"],
                    &["cat", "sub/deep/key"],
                ],
            )
        },
        holds: refuses_the_first,
    },
    Attack {
        name: "undo a change to the second name of a denied file",
        run: |scene| {
            scene.tools_on_link(
                "sub/.env",
                "sub/plain",
                &[
                    &["rm", "sub/plain"],
                    &["append", "sub/plain", "x"],
                    &["run", "-c", "echo x > sub/plain"],
                    &["undo"],
                    &["cat", "sub/plain"],
                ],
            )
        },
        holds: refuses_the_first,
    },
    Attack {
        name: "read the second name of a denied file in the past",
        run: |scene| {
            scene.tools_on_link(
                ".env",
                "env",
                &[
                    &["cat", "--at", "linked", "env"],
                    &["grep", "--at", "linked", "canary"],
                    &["diff", "0", "--path", "env"],
                    &["versions", "env"],
                ],
            )
        },
        holds: refuses_the_first,
    },
    Attack {
        name: "make a file in a read-only workspace",
        run: |scene| scene.read_only("echo x > new; echo y > sub/new; mkdir d; echo end"),
        holds: refuses_three_writes,
    },
    Attack {
        name: "change a file of a read-only workspace",
        run: |scene| scene.read_only("echo x > open; echo x >> open; chmod 777 open; echo end"),
        holds: refuses_three_writes,
    },
    Attack {
        name: "take a file of a read-only workspace away",
        run: |scene| scene.read_only("rm -f open; mv open sub; ln open other; echo end"),
        holds: refuses_three_writes,
    },
];

fn sees_what_is_open(_: &Scene, ran: &Ran) -> bool {
    ran.stdout == "openend\n"
}

fn refuses_the_first(_: &Scene, ran: &Ran) -> bool {
    ran.code != Some(0)
}

fn refuses_three_writes(_: &Scene, ran: &Ran) -> bool {
    ran.said().matches("Read-only file system").count() == 3 && ran.stdout.contains("end")
}

impl Scene {
    /// Writes the canary to a path that commands of `fenced` may not see.
    fn hide(&self, path: &str) {
        let written = self.garret(&["-w", "vault", "write", path, CANARY]);
        assert_eq!(written.code, Some(0), "{written:?}");
    }

    /// Runs a script under read rules, and empties the workspace.
    fn fenced(&self, script: &str) -> Ran {
        let ran = self.garret(&["-w", "fenced", "run", "--timeout", "30s", "-c", script]);
        let emptied = self.garret(&[
            "-w",
            "vault",
            "run",
            "-c",
            "find . -mindepth 1 -delete; mkdir sub; printf open > open",
        ]);
        assert_eq!(emptied.code, Some(0), "{emptied:?}");
        ran
    }

    fn hiding(&self, paths: &[&str], script: &str) -> Ran {
        paths.iter().for_each(|path| self.hide(path));
        self.fenced(script)
    }

    /// Runs a script under read rules while others work on the files.
    fn meanwhile(&self, script: &str, others: impl FnOnce()) -> Ran {
        std::thread::scope(|scope| {
            let running = scope.spawn(|| self.garret(&["-w", "fenced", "run", "--timeout", "30s", "-c", script]));
            others();
            let ran = running.join().unwrap();
            self.fenced("true");
            ran
        })
    }

    /// What no tool writes, a command of the whole workspace does.
    fn hiding_excluded(&self, path: &str, script: &str) -> Ran {
        let make = format!("mkdir -p $(dirname {path}) && printf %s {CANARY} > {path}");
        let made = self.garret(&["-w", "vault", "run", "-c", &make]);
        assert_eq!(made.code, Some(0), "{made:?}");
        self.fenced(script)
    }

    fn hiding_raw(&self, path: &[u8], script: &str) -> Ran {
        let escaped: String = path.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        self.hiding_excluded(&format!("$'{escaped}'"), script)
    }

    fn hiding_linked(&self, path: &str, other: &str, script: &str) -> Ran {
        self.link(path, other);
        self.fenced(script)
    }

    /// Hides the canary at a path, and gives the file another name where the files live in a directory.
    fn link(&self, path: &str, other: &str) {
        self.hide(path);
        // Elsewhere a second name is a file of its own, which somebody with the right to read the first one made.
        if let (Some(path), Some(place)) = (self.vault(path), self.vault(other)) {
            if let Some((directory, _)) = other.rsplit_once('/') {
                self.garret(&["-w", "vault", "mkdir", "-p", directory]);
            }
            std::fs::hard_link(path, place).unwrap();
        }
    }

    /// Calls tools under read rules after a denied file got another name and a snapshot was made. Gives the exit code of the first call and
    /// all that was said.
    fn tools_on_link(&self, path: &str, other: &str, calls: &[&[&str]]) -> Ran {
        self.link(path, other);
        let made = self.garret(&["-w", "vault", "snapshot", "create", "linked"]);
        assert_eq!(made.code, Some(0), "{made:?}");
        let ran = calls
            .iter()
            .map(|call| self.garret(&[&["-w", "fenced"], *call].concat()));
        let ran = ran.reduce(|all, one| Ran {
            code: all.code,
            stdout: all.stdout + &one.stdout,
            stderr: all.stderr + &one.stderr,
        });
        self.garret(&["-w", "vault", "snapshot", "delete", "linked"]);
        self.fenced("true");
        ran.unwrap()
    }

    fn read_only(&self, script: &str) -> Ran {
        self.garret(&["-w", "frozen", "run", "-c", script])
    }

    /// The host's file at a path of the workspace, where the files live in a directory.
    fn vault(&self, path: &str) -> Option<PathBuf> {
        let path = std::ffi::OsStr::from_bytes(path.as_bytes());
        self.tree("").map(|tree| tree.with_file_name("vault").join(path))
    }
}
