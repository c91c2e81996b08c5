//! What the upper layer of an overlay says, with layers made by hand and forged ones.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(clippy::disallowed_methods, reason = "a layer is made by the file system itself")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::layers::{Layers, dropped, is_root, is_somebody, run_in, tree, twin, words};
use garret_core::{EffectLimits, EffectsMark, ErrorKind, PlacedEntry};
use garret_sandbox::effects;

/// A char device 0:0 needs the right to make devices.
fn can_make_whiteouts() -> bool {
    if !is_root() {
        println!("not shown here, because only root makes whiteouts by hand");
    }
    is_root()
}

#[test]
fn files_directories_and_links_of_the_layer_are_named_in_the_order_of_paths() {
    let layers = Layers::new();
    layers.below("mkdir kept changed; echo old > kept/old; chmod 700 changed");
    layers.above("mkdir kept changed new; chmod 755 changed; echo hi > kept/a; chmod 750 kept/a; ln -s ../x new/link; echo b > b");
    let effects = layers.effects(None);
    assert_eq!(
        words(&effects),
        [
            "f b 644 b",
            "d changed 755",
            "f kept/a 750 hi",
            "d new 755",
            "l new/link ../x"
        ]
    );
    assert_eq!(dropped(&effects), [""; 0]);
    assert!(effects.effects.iter().all(|effect| effect.modified.is_some()));
}

#[test]
fn a_file_that_equals_the_one_below_is_named_all_the_same() {
    let layers = Layers::new();
    layers.below("echo same > a");
    layers.above("echo same > a");
    assert_eq!(words(&layers.effects(None)), ["f a 644 same"]);
}

#[test]
fn a_whiteout_names_everything_that_was_below_it() {
    if !can_make_whiteouts() {
        return;
    }
    let layers = Layers::new();
    layers.below("mkdir -p d/e/f; touch d/one d/e/two; touch file; ln -s d link");
    layers.above("mknod d c 0 0; mknod file c 0 0; mknod link c 0 0; mknod nothing c 0 0");
    let effects = layers.effects(None);
    assert_eq!(
        words(&effects),
        ["- d", "- d/e", "- d/e/f", "- d/e/two", "- d/one", "- file", "- link"]
    );
    assert_eq!(dropped(&effects), [""; 0]);
}

#[test]
fn a_directory_that_a_file_or_link_replaced_names_what_was_in_it() {
    let layers = Layers::new();
    layers.below("mkdir -p d/e l; touch d/e/one l/two");
    layers.above("echo now > d; ln -s elsewhere l");
    assert_eq!(
        words(&layers.effects(None)),
        ["f d 644 now", "- d/e", "- d/e/one", "l l elsewhere", "- l/two"]
    );
}

#[test]
fn an_opaque_directory_hides_all_that_is_below_it_and_not_in_it() {
    let layers = Layers::new();
    layers.below("mkdir -p d/same/deep d/other; echo 1 > d/same/one; echo 2 > d/same/deep/two; echo 3 > d/other/three");
    layers.above("mkdir -p d/same; echo new > d/same/one; setfattr -n user.overlay.opaque -v y d");
    assert_eq!(
        words(&layers.effects(None)),
        [
            "- d/other",
            "- d/other/three",
            "- d/same/deep",
            "- d/same/deep/two",
            "f d/same/one 644 new"
        ]
    );
}

#[test]
fn the_top_of_a_layer_is_never_opaque_and_odd_values_mean_nothing() {
    let layers = Layers::new();
    layers.below("echo kept > a; mkdir d; echo kept > d/b");
    layers.above("mkdir d; setfattr -n user.overlay.opaque -v y .; setfattr -n user.overlay.opaque -v yes d");
    assert_eq!(words(&layers.effects(None)), [""; 0]);
}

#[test]
fn a_whiteout_by_attribute_counts_only_where_the_directory_announces_it() {
    let layers = Layers::new();
    layers.below("mkdir d e; echo old > d/a; echo old > e/a; echo old > d/b");
    layers.above("mkdir d e; touch d/a e/a; echo full > d/b; for f in d/a e/a d/b; do setfattr -n user.overlay.whiteout -v y $f; done");
    layers.above("setfattr -n user.overlay.opaque -v x d");
    assert_eq!(words(&layers.effects(None)), ["- d/a", "f d/b 644 full", "f e/a 644 "]);
}

#[test]
fn a_forged_redirect_leads_nowhere_and_is_named() {
    let layers = Layers::new();
    layers.below("mkdir -p secret d; echo key > secret/key; echo mine > d/mine");
    for target in ["/secret", "secret", "../../../etc", "/../..", ""] {
        layers.above(&format!(
            "mkdir -p new d; for f in new d; do setfattr -n user.overlay.redirect -v '{target}' $f; done"
        ));
        let effects = layers.effects(None);
        assert_eq!(words(&effects), ["d new 755"], "{target}");
        assert_eq!(
            dropped(&effects),
            ["d overlay redirect", "new overlay redirect"],
            "{target}"
        );
    }
}

#[test]
fn a_copy_of_metadata_alone_does_not_replace_the_content_below() {
    let layers = Layers::new();
    layers.below("echo precious > a");
    layers.above("truncate -s 9000 a; setfattr -n user.overlay.metacopy -v '' a; echo real > b; setfattr -n user.overlay.metacopy -v '' b");
    let effects = layers.effects(None);
    assert_eq!(words(&effects), ["f b 644 real"]);
    assert_eq!(dropped(&effects), ["a overlay metacopy"]);
}

#[test]
fn what_no_workspace_takes_is_left_out_and_named() {
    let layers = Layers::new();
    layers.below("echo old > pipe; mkdir -p sock/deep");
    layers.above("mkfifo pipe; echo x > tool; chmod 6755 tool; mkdir shared; chmod 2775 shared");
    let _socket = UnixListener::bind(layers.upper().join("sock")).unwrap();
    let effects = layers.effects(None);
    assert_eq!(
        words(&effects),
        ["- pipe", "d shared 775", "- sock", "- sock/deep", "f tool 755 x"]
    );
    assert_eq!(
        dropped(&effects),
        [
            "pipe fifo",
            "shared set-group-id bit",
            "sock socket",
            "tool set-group-id bit",
            "tool set-user-id bit"
        ]
    );
}

#[test]
fn devices_are_left_out_and_named() {
    if !can_make_whiteouts() {
        return;
    }
    let layers = Layers::new();
    layers.above("mknod null c 1 3; mknod disk b 0 0");
    let effects = layers.effects(None);
    assert_eq!(words(&effects), [""; 0]);
    assert_eq!(dropped(&effects), ["disk device", "null device"]);
}

#[test]
fn a_directory_keeps_the_group_bit_that_it_had_before() {
    let layers = Layers::new();
    layers.below("mkdir d; chmod 2755 d");
    layers.above("mkdir d; chmod 2775 d");
    let effects = layers.effects(None);
    assert_eq!(words(&effects), ["d d 2775"]);
    assert_eq!(dropped(&effects), [""; 0]);
}

#[test]
fn names_of_any_bytes_survive() {
    let layers = Layers::new();
    layers
        .above("mkdir \"$(printf 'caf\\351')\"; echo x > \"$(printf 'caf\\351/a\\nb c')\"; echo y > ' '; echo z > '*'");
    let effects = layers.effects(None);
    let paths: Vec<_> = effects
        .effects
        .iter()
        .map(|effect| effect.path.as_bytes().to_vec())
        .collect();
    assert_eq!(paths, [&b" "[..], b"*", b"caf\xe9", b"caf\xe9/a\nb c"]);
    assert!(effects.effects[3].path.is_escaped());
}

#[test]
fn a_link_to_a_name_that_is_not_utf8_is_left_out_and_named() {
    let layers = Layers::new();
    layers.below("echo old > link");
    layers.above("ln -s \"$(printf 'caf\\351')\" link");
    let effects = layers.effects(None);
    assert_eq!(words(&effects), ["- link"]);
    assert_eq!(dropped(&effects), ["link link to a name that is not UTF-8"]);
}

#[test]
fn a_link_in_place_of_a_directory_of_the_bench_is_not_followed() {
    let layers = Layers::new();
    fs::create_dir(layers.outside()).unwrap();
    fs::write(layers.outside().join("secret"), "x").unwrap();
    layers.below("ln -s ../outside d");
    layers.above("mkdir d; echo mine > d/a; setfattr -n user.overlay.opaque -v y d; ln -s ../outside e");
    assert_eq!(
        words(&layers.effects(None)),
        ["d d 755", "f d/a 644 mine", "l e ../outside"]
    );
    assert_eq!(tree(&layers.outside()).len(), 1);
}

#[test]
fn content_is_that_of_the_file_which_was_seen_or_an_error() {
    let layers = Layers::new();
    layers.above("echo one > a; echo two > b; echo three > c");
    let effects = layers.effects(None);
    layers.above("echo other > x; mv x a; rm b; ln -s c b; echo longer >> c");
    for effect in &effects.effects {
        let PlacedEntry::File { content, .. } = &effect.placed else {
            panic!("{effect:?}")
        };
        assert_eq!(
            content.to_bytes().unwrap_err().kind(),
            ErrorKind::Unavailable,
            "{effect:?}"
        );
        assert!(content.backing_file().is_err());
    }
}

#[test]
fn content_is_not_read_through_a_directory_that_became_a_link() {
    let layers = Layers::new();
    layers.above("mkdir d; echo one > d/a");
    let effects = layers.effects(None);
    layers.above("mv d e; ln -s e d");
    let PlacedEntry::File { content, .. } = &effects.effects[1].placed else {
        panic!("{effects:?}")
    };
    assert_eq!(content.to_bytes().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn large_content_comes_in_pieces_and_as_a_file() {
    let layers = Layers::new();
    layers.above("truncate -s 300M big; printf end >> big");
    let effects = layers.effects(None);
    let PlacedEntry::File { content, .. } = &effects.effects[0].placed else {
        panic!("{effects:?}")
    };
    let size = 300 * 1024 * 1024 + 3;
    assert_eq!(content.len(), size);
    assert_eq!(content.backing_file().unwrap().unwrap().metadata().unwrap().len(), size);
    let (mut reader, mut piece, mut read) = (content.open().unwrap(), Vec::new(), 0);
    while reader.append_to(&mut piece, 1 << 20).unwrap() > 0 {
        read += piece.len() as u64;
        piece.clear();
    }
    assert_eq!(read, size);
}

#[test]
fn a_tree_deeper_than_any_table_of_handles_is_read_and_what_no_path_reaches_is_named() {
    let layers = Layers::new();
    // Deeper than a path can be: made by going down.
    layers.above("i=0; while [ $i -lt 2500 ]; do mkdir d; cd -P d; i=$((i+1)); done; echo x > f");
    let effects = layers.effects(None);
    assert_eq!(effects.effects.len(), 2048);
    assert_eq!(effects.dropped.len(), 1);
    assert_eq!(effects.dropped[0].what, "path that is too long");
}

#[test]
fn since_a_mark_only_what_came_after_it_is_named() {
    let layers = Layers::new();
    layers.below("mkdir d; echo old > d/old");
    layers.above("mkdir d new; echo 1 > d/a; echo 1 > d/b; echo 1 > d/old; chmod 700 new; mkfifo pipe");
    // Older than a tick of any clock, so that a mark tells everything.
    std::thread::sleep(Duration::from_millis(80));
    let first = layers.effects(None);
    assert_eq!(
        words(&first),
        ["f d/a 644 1", "f d/b 644 1", "f d/old 644 1", "d new 700"]
    );
    let still = layers.effects(Some(&first.mark));
    assert_eq!((words(&still), dropped(&still)), (vec![], vec![]));
    layers.above("echo 2 > d/a; chmod 600 d/b; rm d/old; chmod 755 new; ln -s x link");
    let second = layers.effects(Some(&still.mark));
    assert_eq!(
        words(&second),
        ["f d/a 644 2", "f d/b 600 1", "f d/old 644 old", "l link x", "d new 755"],
        "what went from the layer shows as it is below"
    );
    layers.above("rm d/a; rm -r new; rm pipe");
    let third = layers.effects(Some(&second.mark));
    assert!(words(&third).contains(&"- d/a".to_owned()) && words(&third).contains(&"- new".to_owned()));
}

#[test]
fn what_was_written_within_one_tick_of_the_clock_is_named_again_rather_than_missed() {
    let layers = Layers::new();
    for round in 0..50 {
        fs::write(layers.upper().join("a"), "one").unwrap();
        let mark = layers.effects(None).mark;
        fs::write(layers.upper().join("a"), "two").unwrap();
        assert_eq!(words(&layers.effects(Some(&mark))), ["f a 644 two"], "{round}");
    }
}

#[test]
fn a_directory_that_is_no_longer_opaque_shows_what_is_below_again() {
    let layers = Layers::new();
    layers.below("mkdir -p d/e; echo one > d/e/one; ln -s e d/link");
    layers.above("mkdir d; echo mine > d/mine; setfattr -n user.overlay.opaque -v y d");
    let first = layers.effects(None);
    layers.above("setfattr -x user.overlay.opaque d");
    let words = words(&layers.effects(Some(&first.mark)));
    for expected in ["d d/e 755", "f d/e/one 644 one", "l d/link e"] {
        assert!(words.contains(&expected.to_owned()), "{words:?}");
    }
}

#[test]
fn what_a_whiteout_hid_shows_again_when_it_is_gone() {
    if !can_make_whiteouts() {
        return;
    }
    let layers = Layers::new();
    layers.below("mkdir -p d/e; echo one > d/e/one");
    layers.above("mknod d c 0 0");
    let first = layers.effects(None);
    layers.above("rm d");
    let second = layers.effects(Some(&first.mark));
    assert_eq!(words(&second), ["d d 755", "d d/e 755", "f d/e/one 644 one"]);
}

#[test]
fn bits_that_a_command_took_away_keep_nobody_from_reading() {
    if !is_somebody("effects::bits_that_a_command_took_away_keep_nobody_from_reading") {
        return;
    }
    let layers = Layers::new();
    layers.below("mkdir -p gone/deep; touch gone/deep/file; chmod 000 gone/deep");
    layers.above("echo now > gone; mkdir -p a/b; echo x > a/b/c; chmod 000 a/b/c a/b; chmod 400 a");
    let effects = layers.effects(None);
    assert_eq!(
        words(&effects),
        [
            "d a 400",
            "d a/b 0",
            "f a/b/c 0 x",
            "f gone 644 now",
            "- gone/deep",
            "- gone/deep/file"
        ]
    );
    assert_eq!(words(&effects)[2], "f a/b/c 0 x", "as often as it is asked");
    run_in(
        &layers.upper(),
        "[ $(stat -c %a a) = 400 ]; chmod 700 a; [ $(stat -c %a a/b) = 0 ]; chmod 700 a/b; [ $(stat -c %a a/b/c) = 0 ]",
    );
    run_in(&layers.lower(), "[ $(stat -c %a gone/deep) = 0 ]; chmod 700 gone/deep");
}

#[test]
fn a_copy_has_modes_times_links_and_holes_and_nothing_special() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_in(
        from.path(),
        "mkdir -p a/b empty; echo x > a/b/c; chmod 4751 a/b/c; ln -s b a/link; mkfifo pipe; truncate -s 100M hole; printf end >> hole
         touch -d '2001-02-03 04:05:06.789' a/b/c a/b; touch -h -d 2002-01-01 a/link; chmod 555 a/b; mkdir \"$(printf 'caf\\351')\"",
    );
    copy(from.path(), to.path());
    run_in(from.path(), "rm pipe; chmod 751 a/b/c");
    assert_eq!(tree(to.path()), tree(from.path()));
    let shown = "find . -mindepth 1 -name hole -prune -o -printf '%p %T@ %m\\n' | sort";
    let listed = |directory| {
        std::process::Command::new("sh")
            .args(["-c", shown])
            .current_dir(directory)
            .output()
            .unwrap()
    };
    assert_eq!(listed(to.path()).stdout, listed(from.path()).stdout);
    let blocks =
        |path: &std::path::Path| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path.join("hole")).unwrap());
    assert!(blocks(to.path()) < 1000, "holes stay holes");
}

fn copy(from: &std::path::Path, to: &std::path::Path) -> EffectsMark {
    let (from, to) = (File::open(from).unwrap(), File::open(to).unwrap());
    effects::copy_tree(from.as_fd(), to.as_fd()).unwrap();
    effects::mark_tree(to.as_fd()).unwrap()
}

#[test]
fn a_copy_tells_what_was_done_to_it() {
    let bench = tempfile::tempdir().unwrap();
    run_in(
        bench.path(),
        "mkdir -p d/e gone/deep r; echo 1 > d/a; echo 2 > d/b; echo 3 > gone/deep/c; touch r/x; echo t > touched; mkfifo pipe",
    );
    // Older than a tick of any clock, so that the mark of the copy tells everything.
    std::thread::sleep(Duration::from_millis(80));
    let copied = tempfile::tempdir().unwrap();
    let made = copy(bench.path(), copied.path());
    let (copy, bench) = (File::open(copied.path()).unwrap(), File::open(bench.path()).unwrap());
    let read = |since| effects::read_copy_effects(copy.as_fd(), bench.as_fd(), since, EffectLimits::default()).unwrap();
    assert_eq!((words(&read(None)), words(&read(Some(&made)))), (vec![], vec![]));
    run_in(
        copied.path(),
        "echo 9 > d/a; touch -r d/b keep; printf '7\\n' > d/b; touch -r keep d/b; rm keep; rm -r gone; rm -r r; echo file > r; chmod 700 d/e; touch touched; mkfifo p; ln -s a d/l",
    );
    let expected = [
        "f d/a 644 9",
        "d d/e 700",
        "l d/l a",
        "- gone",
        "- gone/deep",
        "- gone/deep/c",
        "f r 644 file",
        "- r/x",
    ];
    assert_eq!(words(&read(None)), expected, "by size and time, `d/b` is the same");
    let since = read(Some(&made));
    let mut told = words(&since);
    told.retain(|word| !word.contains("touched") && !word.starts_with("d d "));
    let expected = [
        "f d/a 644 9",
        "f d/b 644 7",
        "d d/e 700",
        "l d/l a",
        "- gone",
        "- gone/deep",
        "- gone/deep/c",
        "f r 644 file",
        "- r/x",
    ];
    assert_eq!(told, expected);
    assert_eq!(dropped(&since), ["p fifo"]);
    std::thread::sleep(Duration::from_millis(80));
    let settled = read(Some(&since.mark));
    assert_eq!(words(&read(Some(&settled.mark))), [""; 0]);
    drop(twin(copied.path()));
}

/// What a limit refuses, by the rule that it names.
fn refused_by(layers: &Layers, limits: EffectLimits) -> Option<String> {
    let refusal = layers.effects_within(None, limits).err()?;
    assert_eq!(refusal.kind(), ErrorKind::TooLarge, "{refusal}");
    refusal.refused_by().map(str::to_owned)
}

#[test]
fn more_entries_than_the_limit_are_refused_whatever_they_are() {
    let limits = EffectLimits {
        entries: Some(20),
        ..EffectLimits::default()
    };
    for script in [
        "for i in $(seq 21); do : > $i; done",
        "for i in $(seq 21); do mkdir $i; done",
        "for i in $(seq 21); do ln -s x $i; done",
        "for i in $(seq 21); do mkfifo $i; done",
        "echo x > a; for i in $(seq 20); do ln a $i; done",
        "mkdir -p 1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21",
        "for i in 1 2 3; do mkdir $i; for j in 1 2 3 4 5 6 7; do : > $i/$j; done; done",
    ] {
        let layers = Layers::new();
        layers.above(script);
        assert_eq!(
            refused_by(&layers, limits).as_deref(),
            Some("limits.changed_files"),
            "{script}"
        );
        let one_less = EffectLimits {
            entries: Some(24),
            ..limits
        };
        assert_eq!(refused_by(&layers, one_less), None, "{script}");
    }
}

#[test]
fn what_was_deleted_counts_as_well() {
    if !can_make_whiteouts() {
        return;
    }
    let layers = Layers::new();
    layers.below("mkdir d; for i in $(seq 30); do : > d/$i; done");
    layers.above("mknod d c 0 0");
    let limits = EffectLimits {
        entries: Some(20),
        ..EffectLimits::default()
    };
    assert_eq!(refused_by(&layers, limits).as_deref(), Some("limits.changed_files"));
}

#[test]
fn what_the_mark_knows_counts_only_where_it_changed() {
    let layers = Layers::new();
    layers.above("for i in $(seq 15); do echo $i > $i; done");
    std::thread::sleep(Duration::from_millis(80));
    let mark = layers.effects(None).mark;
    let limits = EffectLimits {
        entries: Some(20),
        ..EffectLimits::default()
    };
    layers.above("for i in $(seq 16 30); do echo $i > $i; done");
    let fresh = layers.effects_within(Some(&mark), limits).unwrap();
    assert_eq!(fresh.effects.len(), 15);
    layers.above("for i in $(seq 10); do echo again > $i; done");
    let refusal = layers.effects_within(Some(&mark), limits).unwrap_err();
    assert_eq!(refusal.refused_by(), Some("limits.changed_files"));
}

#[test]
fn long_names_and_long_targets_are_refused_by_their_bytes() {
    let limits = EffectLimits {
        text_bytes: Some(10_000),
        ..EffectLimits::default()
    };
    let long = "n".repeat(200);
    for script in [
        format!("for i in $(seq 60); do : > {long}$i; done"),
        format!("for i in $(seq 60); do mkdir {long}$i; done"),
        format!("for i in $(seq 60); do ln -s {long} $i; done"),
        format!("mkdir -p {long}/{long}/{long}; for i in $(seq 20); do : > {long}/{long}/{long}/$i; done"),
    ] {
        let layers = Layers::new();
        layers.above(&script);
        assert_eq!(
            refused_by(&layers, limits).as_deref(),
            Some("limits.changed_files"),
            "{script}"
        );
    }
}

#[test]
fn holes_and_further_names_count_like_data() {
    let limits = EffectLimits {
        content_bytes: Some(10 << 30),
        ..EffectLimits::default()
    };
    for script in [
        "for i in 1 2 3; do truncate -s 4G $i; done",
        "for i in 1 2 3; do python3 -c 'import os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.lseek(f, (4 << 30) - 1, 0); os.write(f, b\"x\")' $i; done",
        "truncate -s 4G a; ln a b; ln a c",
        "head -c 1000000 /dev/urandom > a; truncate -s 11G a",
    ] {
        let layers = Layers::new();
        layers.above(script);
        assert_eq!(
            refused_by(&layers, limits).as_deref(),
            Some("limits.written_mb"),
            "{script}"
        );
    }
}

#[test]
fn a_reading_whose_time_is_over_ends() {
    let layers = Layers::new();
    layers.above("echo x > a");
    let limits = EffectLimits {
        time: Some(Duration::ZERO),
        ..EffectLimits::default()
    };
    assert_eq!(refused_by(&layers, limits).as_deref(), Some("limits.timeout_s"));
}
