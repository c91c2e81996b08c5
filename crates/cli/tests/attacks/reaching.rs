//! Reaching what runs elsewhere.

use crate::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "reach a listener on the machine's loopback",
        run: |scene| {
            let port = scene.port;
            scene.attack(10, &format!("for host in 127.0.0.1 localhost 0.0.0.0 ::1; do timeout 2 bash -c \"exec 3<>/dev/tcp/$host/{port} && cat <&3\"; done; echo end"))
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "reach an abstract socket",
        run: |scene| {
            let name = &scene.socket;
            scene.attack(10, &format!("perl -MSocket -e 'socket(my $s, PF_UNIX, SOCK_STREAM, 0); print \"reached\\n\" if connect($s, pack(\"S a*\", 1, \"\\0{name}\")); print \"end\\n\"'"))
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "reach the metadata address",
        run: |scene| {
            scene.attack(
                10,
                "timeout 3 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' && echo reached; echo end",
            )
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "have an interface besides its own loopback",
        run: |scene| {
            scene.attack(
                10,
                "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -v '^lo$'; echo end",
            )
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "signal and trace processes outside",
        run: |scene| {
            let pid = std::process::id();
            scene.attack(10, &format!("kill -9 {pid} && echo killed; perl -e 'print \"traced\\n\" if syscall(101, 16, {pid}, 0, 0) == 0; print \"end\\n\"'"))
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "signal everything",
        run: |scene| scene.attack(10, "trap '' TERM; kill -9 -1; kill -9 1; kill -STOP 1; true"),
        holds: |_, _| true,
    },
    Attack {
        name: "see processes outside",
        run: |scene| scene.attack(10, "ls /proc | grep -c '^[0-9]'"),
        holds: |_, ran| ran.stdout.trim().parse::<u32>().is_ok_and(|count| count < 12),
    },
    Attack {
        name: "share memory and messages with processes outside",
        run: |scene| {
            scene.attack(
                10,
                "ipcs -a 2>/dev/null | grep -c 0x; ls /dev/shm | wc -l; ls /dev/mqueue 2>/dev/null; echo end",
            )
        },
        holds: |_, ran| ran.stdout.lines().take(2).all(|line| line.trim() == "0"),
    },
];
