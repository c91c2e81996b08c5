//! Changing what is not the workspace's.

use crate::Attack;
use crate::scene::is_there;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "write anywhere but the workspace and /tmp",
        run: |scene| {
            let places = format!(
                "{} {} / /usr /usr/bin /etc /var /opt /home /root /dev /sys /proc/sys/kernel",
                scene.text("outside"),
                scene.text("user")
            );
            scene.attack(
                10,
                &format!(
                    "for place in {places}; do echo x > $place/garret-attack && echo wrote $place; done; echo end"
                ),
            )
        },
        // What a command writes to the root of its own sandbox or to its own devices ends with it; the machine's must not have it.
        holds: |_, _| {
            ![
                "/", "/usr", "/usr/bin", "/etc", "/var", "/opt", "/home", "/root", "/dev",
            ]
            .iter()
            .any(|place| is_there(&std::path::Path::new(place).join("garret-attack")))
        },
    },
    Attack {
        name: "change the kernel's settings",
        run: |scene| {
            scene.attack(10, "cat /proc/sys/kernel/hostname; echo attacked > /proc/sys/kernel/hostname; echo 1 > /proc/sys/vm/drop_caches; echo b > /proc/sysrq-trigger; hostname attacked; true")
        },
        holds: |_, _| std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim() != "attacked",
    },
    Attack {
        name: "mount, and unshare again",
        run: |scene| {
            scene.attack(10, "mount -t tmpfs none /mnt && echo mounted; mount --bind / /tmp && echo mounted; umount /workspace && echo mounted; unshare -Ur true && echo unshared; unshare -m true && echo unshared; umount -l /proc && echo mounted; echo end")
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "make a new user namespace by clone",
        // clone(CLONE_NEWUSER | SIGCHLD) and clone3, and the child tells.
        run: |scene| {
            scene.attack(10, "perl -e 'my $r = syscall(56, 0x10000011, 0, 0, 0, 0); if ($r == 0) { print \"inside\\n\"; exit } print \"cloned\\n\" if $r > 0; print \"end\\n\"'")
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "open raw sockets",
        run: |scene| {
            scene.attack(10, "perl -MSocket -e 'print \"raw\\n\" if socket(my $a, PF_INET, SOCK_RAW, 1); print \"packet\\n\" if socket(my $b, 17, SOCK_RAW, 768); print \"end\\n\"'")
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "become another user",
        run: |scene| {
            scene.attack(10, "id -u; su root -c id; sudo id; perl -e '$< = 0; $> = 0; print \"now $> \\n\"'; setpriv --reuid 0 id; grep -i ^cap /proc/self/status")
        },
        holds: |_, ran| {
            !ran.stdout.contains("uid=0")
                && !ran.stdout.contains("now 0 ")
                && ran.stdout.contains("CapEff:\t0000000000000000")
        },
    },
    Attack {
        name: "reach the bench and the layers past the overlay",
        run: |scene| {
            scene.attack(10, "ls -laR /.garret 2>/dev/null | grep -c kept; for d in /.garret /.garret/bench /.garret/layers /proc/1/root/.garret/bench; do echo planted > $d/planted && echo wrote; done 2>/dev/null; cut -d' ' -f4,5 /proc/self/mountinfo; echo end")
        },
        holds: |scene, ran| {
            ran.stdout.starts_with("0\n")
                && !ran.stdout.contains("wrote")
                && scene
                    .garret(&["-w", "box", "ls"])
                    .stdout
                    .lines()
                    .all(|line| !line.contains("planted"))
        },
    },
    Attack {
        name: "speak to the supervisor",
        run: |scene| {
            scene.attack(10, "for fd in /proc/self/fd/* /proc/1/fd/* /proc/2/fd/*; do case $fd in */0|*/1|*/2|*/255) ;; *) echo garbage >> $fd && echo wrote $fd;; esac; done 2>/dev/null; ls -l /proc/self/fd | grep -c socket; echo end")
        },
        holds: |_, ran| !ran.stdout.contains("wrote /proc/1") && ran.stdout.trim_end().ends_with("end"),
    },
];
