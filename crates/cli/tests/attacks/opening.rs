//! Opening ports of this machine.

use serde_json::json;

use crate::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "listen on every address of the machine",
        run: |scene| {
            let server = "echo began; exec python3 -m http.server 8000";
            scene.garret(&["-w", "box", "port", "8000", "--bind", "0.0.0.0", "-c", server])
        },
        holds: |_, ran| ran.code != Some(0) && ran.stdout.is_empty() && ran.stderr.contains("may not listen"),
    },
    Attack {
        name: "listen on every address by an argument of the tool",
        run: |scene| {
            let arguments = json!({"id": "p1", "port": 8000, "bind": "0.0.0.0"});
            scene.beside("echo began; sleep 100", "began", &[("port", arguments)])
        },
        holds: |_, ran| ran.code == Some(1) && ran.stdout.contains("bind"),
    },
    Attack {
        name: "reach a listener of the machine through an opened port",
        run: |scene| {
            let arguments = json!({"id": "p1", "port": scene.port});
            scene.beside("echo began; sleep 100", "began", &[("port", arguments)])
        },
        // The listener counts who comes.
        holds: |_, ran| ran.stdout.contains("nothing listens on it yet"),
    },
    Attack {
        name: "open ports by a configuration that nobody trusts",
        run: |scene| {
            let options = "ports = { bind = '0.0.0.0', allow = true }";
            scene.put(
                "work/clone/garret.toml",
                &format!("[workspaces.site]\nstorage = 'memory:'\n[workspaces.site.capabilities.shell]\n{options}\n"),
            );
            scene.garret_in("work/clone", &["-w", "site", "port", "8000", "-c", "echo began"])
        },
        holds: |_, ran| ran.code != Some(0) && ran.stdout.is_empty(),
    },
];
