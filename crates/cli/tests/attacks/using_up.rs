//! Using up the machine.

use crate::Attack;
use crate::scene::{Ran, Scene};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "fork without end",
        run: |scene| scene.attack(3, &format!("perl -e 'while (1) {{ fork() }}' # fork-of-{}", scene.port)),
        holds: |scene, _| !scene.lives(&format!("fork-of-{}", scene.port)),
    },
    Attack {
        name: "the fork bomb of the books",
        run: |scene| scene.attack(3, &format!(":(){{ :|:& }};:; sleep {}", scene.sleep_seconds(1))),
        holds: |scene, _| !scene.sleeps(1),
    },
    Attack {
        name: "take all memory",
        run: |scene| {
            scene.attack(
                20,
                "perl -e 'my @a; push @a, \"x\" x 50_000_000 while 1; ' && echo took",
            )
        },
        holds: |_, ran| !ran.stdout.contains("took") && ran.code != Some(0),
    },
    Attack {
        name: "take all memory by files in /tmp and /dev/shm",
        run: |scene| {
            scene.attack(20, "dd if=/dev/zero of=/tmp/x bs=1M count=4000 2>/dev/null && echo took; dd if=/dev/zero of=/dev/shm/x bs=1M count=4000 2>/dev/null && echo took; echo end")
        },
        holds: |_, ran| !ran.stdout.contains("took"),
    },
    Attack {
        name: "fill the disk with one file",
        run: |scene| {
            scene.attack(
                30,
                "dd if=/dev/zero of=big bs=1M count=2000 2>/dev/null && echo filled; echo end",
            )
        },
        // What was written up to the limit is kept, as a change: less than the limit by far is what it may take.
        holds: |scene, ran| {
            !ran.stdout.contains("filled")
                && scene
                    .attack(10, "test \"$(stat -c %s big)\" -lt 300000000; echo $?; rm -f big")
                    .stdout
                    .trim()
                    == "0"
        },
    },
    Attack {
        name: "fill the disk with many files",
        run: |scene| {
            scene.attack(30, "i=0; while [ $i -lt 400 ]; do dd if=/dev/zero of=part$i bs=1M count=1 2>/dev/null || break; i=$((i+1)); done; [ $i -eq 400 ] && echo filled; echo end")
        },
        holds: |scene, ran| {
            !ran.stdout.contains("filled") && scene.garret(&["-w", "box", "stat", "part399"]).code != Some(0)
        },
    },
    Attack {
        name: "print without end",
        run: |scene| scene.attack(3, "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        holds: |_, ran| ran.code != Some(0),
    },
    Attack {
        name: "outlive the time limit as a daemon",
        run: |scene| {
            let [one, two, three, four] = [1, 2, 3, 4].map(|number| scene.sleep_seconds(number));
            let script = format!(
                "(setsid sh -c 'trap \"\" TERM INT HUP; exec sleep {one}' &) ; sleep {two} & disown; (sh -c 'sh -c \"exec sleep {three}\" &' &); trap '' TERM; sleep {four}"
            );
            scene.attack(2, &script)
        },
        holds: |scene, ran| ran.code != Some(0) && [1, 2, 3, 4].iter().all(|number| !scene.sleeps(*number)),
    },
    Attack {
        name: "outlive a command that ended well",
        run: |scene| {
            scene.attack(
                10,
                &format!(
                    "setsid sleep {} > /dev/null 2>&1 < /dev/null & disown; echo ended",
                    scene.sleep_seconds(1)
                ),
            )
        },
        holds: |scene, ran| ran.stdout.trim() == "ended" && !scene.sleeps(1),
    },
    Attack {
        name: "open files without end",
        run: |scene| {
            scene.attack(10, "perl -e 'my @a; for (1..1_000_000) { open(my $f, \"<\", \"/dev/null\") or last; push @a, $f } print scalar(@a) >= 100_000 ? \"opened\" : \"end\", \"\\n\"'")
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "wait for an answer that nobody gives",
        run: |scene| scene.attack(5, "read line; echo \"read $?\"; cat; echo end"),
        holds: |_, ran| ran.stdout.contains("end"),
    },
    Attack {
        name: "leave more empty files than can be read",
        run: |scene| scene.attack(30, "mkdir flood && cd flood && seq 2100 | xargs touch"),
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave more directories than can be read",
        run: |scene| scene.attack(30, "mkdir flood && cd flood && seq 2100 | xargs mkdir"),
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave more links with long targets than memory should hold",
        run: |scene| {
            scene.attack(
                30,
                "mkdir flood && cd flood && perl -e 'symlink(\"t\" x 4000, $_) for 1..1000'",
            )
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave many files under a long path",
        run: |scene| {
            scene.attack(30, "mkdir flood && cd flood && perl -e 'for (1..14) { mkdir \"n\" x 240; chdir \"n\" x 240 } for (1..1000) { open(my $f, \">\", $_) }'")
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave more names of one file than can be read",
        run: |scene| {
            scene.attack(
                30,
                "mkdir flood && cd flood && perl -e 'open(my $f, \">\", \"f\"); close $f; link(\"f\", $_) for 1..2100'",
            )
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave sixty holes by truncation",
        run: |scene| {
            scene.attack(
                30,
                "mkdir flood && for i in $(seq 60); do truncate -s 60M flood/$i; done",
            )
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave sixty holes by a byte at the end",
        run: |scene| {
            scene.attack(30, "mkdir flood && perl -e 'for (1..60) { open(my $f, \">\", \"flood/$_\"); seek($f, 60 << 20, 0); print $f 1 }'")
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave sixty holes by punching them",
        run: |scene| {
            scene.attack(30, "mkdir flood && for i in $(seq 60); do head -c 100000 /dev/zero > flood/$i; truncate -s 60M flood/$i; fallocate -p -o 0 -l 100000 flood/$i; done; true")
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave one hole under many names",
        run: |scene| {
            scene.attack(
                30,
                "mkdir flood && truncate -s 60M flood/f && for i in $(seq 100); do ln flood/f flood/$i; done",
            )
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
    Attack {
        name: "leave more while what was left is read",
        run: |scene| {
            scene.attack(30, "mkdir flood && (setsid sh -c 'i=0; while :; do : > flood/late$i; i=$((i+1)); done' &) ; cd flood && seq 2100 | xargs touch")
        },
        holds: |scene, ran| is_refused_whole(scene, ran),
    },
];

/// Whether nothing of what it left is there, in the files or for the next command, and it was told why.
fn is_refused_whole(scene: &Scene, ran: &Ran) -> bool {
    ran.stderr.contains("its changes were not kept")
        && scene.garret(&["-w", "box", "stat", "flood"]).code != Some(0)
        && scene.attack(10, "test -e flood; echo $?").stdout.trim() == "1"
}
