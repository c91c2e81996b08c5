//! Seeing what is not the workspace's.

use crate::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "read the passwords of the machine",
        run: |scene| scene.attack(10, "cat /etc/shadow /etc/gshadow /etc/sudoers; echo end"),
        holds: |_, ran| !ran.stdout.contains("root:") && ran.stdout.contains("end"),
    },
    Attack {
        name: "read the home of the user who runs Garret",
        run: |scene| {
            let (user, outside) = (scene.text("user"), scene.text("outside"));
            scene.attack(
                10,
                &format!("cat {user}/.secret {outside}/secret; ls -la /root /home/* {user}; cat ~/.secret"),
            )
        },
        holds: |_, ran| !ran.stdout.contains(".ssh") && !ran.stdout.contains(".cargo"),
    },
    Attack {
        name: "find a secret anywhere on the machine",
        run: |scene| {
            scene.attack(
                60,
                "grep -rIl canary-4f1d7 / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; echo end",
            )
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "read another workspace and the depot",
        run: |scene| {
            let home = scene.text("home");
            scene.attack(
                20,
                &format!(
                    "ls -R {home}; cat {home}/garret/*; find / -name 'depot.db*' -not -path '/proc/*' 2>/dev/null"
                ),
            )
        },
        holds: |_, ran| !ran.stdout.contains("depot.db"),
    },
    Attack {
        name: "read the environment and command line of Garret",
        run: |scene| {
            scene.attack(10, "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ 2>/dev/null | tr '\\0' '\\n'; env; ls /proc")
        },
        holds: |_, ran| !ran.stdout.contains("SECRET_OF_GARRET"),
    },
    Attack {
        name: "read the memory, the maps and the root of other processes",
        run: |scene| {
            let pid = std::process::id();
            scene.attack(10, &format!("ls /proc/{pid}/root/ /proc/1/root/root /proc/1/root/home; cat /proc/{pid}/maps /proc/kcore /dev/mem | head -c 100; true"))
        },
        holds: |_, ran| ran.stdout.len() < 500,
    },
    Attack {
        name: "climb out of the workspace by its parents",
        run: |scene| {
            let outside = scene.text("outside");
            scene.attack(10, &format!("cat /workspace/../../../../{outside}/secret /proc/self/cwd/../..{outside}/secret; cd /workspace; cd ..; cd ..; pwd; ls outside; cd {outside} && ls"))
        },
        holds: |_, ran| ran.stdout.trim_end().ends_with('/'),
    },
    Attack {
        name: "see the sockets of containers and services",
        run: |scene| {
            scene.attack(
                10,
                "ls /var/run /run /var/run/docker.sock /run/dbus 2>/dev/null; echo end",
            )
        },
        holds: |_, ran| !ran.stdout.contains("docker.sock") && !ran.stdout.contains("dbus"),
    },
];
