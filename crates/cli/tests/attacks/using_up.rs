//! Using up the machine.

use crate::Attack;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "fork without end",
        run: |scene| scene.attack(3, "perl -e 'while (1) { fork() }' # garret-attack-fork"),
        holds: |scene, _| !scene.lives("garret-attack-fork"),
    },
    Attack {
        name: "the fork bomb of the books",
        run: |scene| scene.attack(3, ":(){ :|:& };:; sleep 7391"),
        holds: |scene, _| !scene.lives("sleep\x007391"),
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
            let script = "(setsid sh -c 'trap \"\" TERM INT HUP; exec sleep 7392' &) ; sleep 7393 & disown; (sh -c 'sh -c \"exec sleep 7394\" &' &); trap '' TERM; sleep 7395";
            scene.attack(2, script)
        },
        holds: |scene, ran| {
            ran.code != Some(0)
                && ["7392", "7393", "7394", "7395"]
                    .iter()
                    .all(|number| !scene.lives(&format!("sleep\x00{number}")))
        },
    },
    Attack {
        name: "outlive a command that ended well",
        run: |scene| {
            scene.attack(
                10,
                "setsid sleep 7396 > /dev/null 2>&1 < /dev/null & disown; echo ended",
            )
        },
        holds: |scene, ran| ran.stdout.trim() == "ended" && !scene.lives("sleep\x007396"),
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
];
