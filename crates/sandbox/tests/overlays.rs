//! Effects of real overlays: whatever was done on one, doing what its effects say to what is below gives the same files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(clippy::disallowed_methods, reason = "a layer is made by the file system itself")]

use crate::layers::{Dice, Layers, apply, dropped, run_in, tree, twin, words};

const START: &str = "mkdir -p src/deep/er empty 'with space'; echo a > src/a; echo b > src/deep/b; echo c > src/deep/er/c
    ln -s a src/link; echo top > top; chmod 600 top; echo tool > tool; chmod 755 tool; echo x > \"$(printf 'with space/n\\nl')\"
    echo raw > \"$(printf 'caf\\351')\"; mkdir read-only; echo r > read-only/r; chmod 555 read-only";

#[test]
fn the_effects_of_common_commands_are_what_they_did() {
    let layers = Layers::new();
    layers.below("mkdir -p src/deep; echo a > src/a; echo b > src/deep/b; echo t > t; echo x > x; ln -s t link");
    let script = "echo more >> src/a; chmod +x src/deep/b; rm t; mv x y; rm link; mkdir link; touch link/in; rm -r src/deep; mkdir src/deep; echo n > src/deep/n";
    if !layers.merged(script) {
        return;
    }
    let effects = layers.effects(None);
    assert_eq!(
        words(&effects),
        [
            "d link 755",
            "f link/in 644 ",
            "f src/a 644 a\nmore",
            "- src/deep/b",
            "f src/deep/n 644 n",
            "- t",
            "- x",
            "f y 644 x"
        ]
    );
    assert_eq!(dropped(&effects), [""; 0]);
}

#[test]
fn attributes_set_on_an_overlay_do_not_become_those_of_the_layer() {
    let layers = Layers::new();
    layers.below("mkdir -p d/e secret; echo one > d/e/one; echo key > secret/key; echo file > file");
    let forge = "setfattr -n user.overlay.opaque -v y d; setfattr -n user.overlay.redirect -v /secret d/e; touch file; setfattr -n user.overlay.metacopy -v '' file; setfattr -n user.mine -v 1 file";
    if !layers.merged(&format!("{forge}; echo new > d/new")) {
        return;
    }
    let effects = layers.effects(None);
    assert_eq!(words(&effects), ["f d/new 644 new", "f file 644 file"]);
    assert_eq!(dropped(&effects), [""; 0]);
}

#[test]
fn random_commands_have_the_same_outcome_on_an_overlay_and_on_a_plain_copy() {
    for seed in 0..16 {
        let layers = Layers::new();
        layers.below(START);
        let (plain, replayed) = (twin(&layers.lower()), twin(&layers.lower()));
        let mut dice = Dice::new(seed);
        let mut mark = None;
        for stage in 0..3 {
            let script: Vec<String> = (0..12).map(|_| random_command(&mut dice)).collect();
            let script = script.join("\n");
            if !layers.merged(&script) {
                return;
            }
            run_in(plain.path(), &format!("set +e\n{script}\ntrue"));
            let effects = layers.effects(mark.as_ref());
            apply(&effects, replayed.path());
            assert_eq!(
                tree(replayed.path()),
                tree(plain.path()),
                "seed {seed}, stage {stage}\n{script}"
            );
            let whole = twin(&layers.lower());
            apply(&layers.effects(None), whole.path());
            assert_eq!(
                tree(whole.path()),
                tree(plain.path()),
                "seed {seed}, stage {stage}, from the start\n{script}"
            );
            mark = Some(effects.mark);
        }
    }
}

const PLACES: &[&str] = &[
    "src",
    "src/a",
    "src/deep",
    "src/deep/b",
    "src/deep/er",
    "src/deep/er/c",
    "src/link",
    "empty",
    "empty/new",
    "top",
    "tool",
    "'with space'",
    "new",
    "new/in",
    "new/in/side",
    "read-only",
    "read-only/r",
    "\"$(printf 'caf\\351')\"",
];

fn random_command(dice: &mut Dice) -> String {
    let (one, two) = (dice.pick(PLACES), dice.pick(PLACES));
    let number = dice.roll(1000);
    let command = match dice.roll(14) {
        0 | 1 => format!("[ -d {one} ] || echo {number} > {one}"),
        2 => format!("[ -f {one} ] && echo {number} >> {one}"),
        3 => format!("rm -f {one}"),
        4 | 5 => format!("rm -rf {one}"),
        6 => format!("mkdir -p {one}"),
        7 => format!("rm -rf {one}; mkdir -p {one}; echo {number} > {one}/fresh"),
        8 => format!("mv -T {one} {two}"),
        9 => format!(
            "[ -e {one} ] && chmod {} {one}",
            dice.pick(&["700", "755", "644", "600", "555", "751"])
        ),
        10 => format!("[ -d {one} ] || ln -sfn {number} {one}"),
        11 => format!("[ -f {one} ] && [ ! -d {two} ] && ln -f {one} {two}"),
        12 => format!("cp -r {one} copy-{number}"),
        _ => format!("rm -rf {one}; echo {number} > {one}"),
    };
    format!("{{ {command}; }} 2>/dev/null")
}

/// A layer with anything in it is read without an error, and what it says never reaches past what is below it.
#[test]
fn forged_layers_do_no_more_than_a_command_could() {
    for seed in 100..124 {
        let layers = Layers::new();
        layers.below(START);
        let kept = twin(&layers.lower());
        let mut dice = Dice::new(seed);
        let script: Vec<String> = (0..25).map(|_| forged(&mut dice)).collect();
        layers.above(&format!("set +e\n{}\ntrue", script.join("\n")));
        let effects = layers.effects(None);
        let replayed = twin(&layers.lower());
        apply(&effects, replayed.path());
        assert_eq!(tree(&layers.lower()), tree(kept.path()), "reading changes nothing");
        for effect in &effects.effects {
            let bytes = effect.path.as_bytes();
            assert!(
                !bytes.starts_with(b"/") && !bytes.split(|byte| *byte == b'/').any(|name| name == b".."),
                "{effect:?}"
            );
        }
        let again = layers.effects(Some(&effects.mark));
        apply(&again, replayed.path());
        let whole = twin(&layers.lower());
        apply(&effects, whole.path());
        assert_eq!(
            tree(replayed.path()),
            tree(whole.path()),
            "seed {seed}: a second reading adds nothing"
        );
    }
}

fn forged(dice: &mut Dice) -> String {
    let (one, number) = (dice.pick(PLACES), dice.roll(1000));
    let parents = format!("mkdir -p \"$(dirname {one})\"");
    let command = match dice.roll(12) {
        0 | 1 => format!("mknod {one} c 0 0"),
        2 => format!("mknod {one} c 1 3"),
        3 => format!("mkfifo {one}"),
        4 => format!(
            "mkdir -p {one}; setfattr -n user.overlay.opaque -v {} {one}",
            dice.pick(&["y", "x", "n", "yy"])
        ),
        5 => format!(
            "mkdir -p {one}; setfattr -n user.overlay.redirect -v {} {one}",
            dice.pick(&["/src", "../..", "top", "/"])
        ),
        6 => format!("touch {one}; setfattr -n user.overlay.whiteout -v y {one}"),
        7 => format!("truncate -s 5000 {one}; setfattr -n user.overlay.metacopy -v y {one}"),
        8 => format!("ln -s {} {one}", dice.pick(&["..", "/etc", "../lower", "."])),
        9 => format!(
            "echo {number} > {one}; chmod {} {one}",
            dice.pick(&["4755", "2755", "0", "1777"])
        ),
        10 => format!("mkdir -p {one}; chmod {} {one}", dice.pick(&["0", "7777", "2750"])),
        _ => format!("ln /etc/hostname {one} || echo {number} > {one}"),
    };
    // Whoever opens a fifo waits for its other end.
    format!("{{ {parents}; [ -p {one} ] || {{ {command}; }}; }} 2>/dev/null")
}
