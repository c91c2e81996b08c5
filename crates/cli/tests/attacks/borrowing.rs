//! What commands see of the user's machine: toolchains, mounts, and the home that they keep.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::Attack;
use crate::scene::{CANARY, Ran, Scene, User, none_succeeded, python, sum};

/// Files of the user with credentials, beside and in his toolchains.
const CREDENTIALS: [&str; 9] = [
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".rustup/toolchains/stable/credentials.toml",
    ".npmrc",
    ".netrc",
    ".ssh/id_ed25519",
    ".config/pip/pip.conf",
    ".pyenv/versions/3.12.1/pip.conf",
    ".nvm/versions/node/v20.1.0/etc/npmrc",
];

/// Runs a script in a workspace of another user, who has toolchains.
fn attack_with_toolchains(scene: &Scene, label: &str, script: &str) -> Ran {
    let user = format!("owner-{label}");
    for path in CREDENTIALS {
        scene.put(&format!("{user}/{path}"), CANARY);
    }
    for program in [
        ".cargo/bin/tool",
        ".pyenv/versions/3.12.1/bin/tool",
        ".nvm/versions/node/v20.1.0/bin/node",
    ] {
        scene.put(&format!("{user}/{program}"), "#!/bin/sh\necho found\n");
        std::fs::set_permissions(
            scene.path(&format!("{user}/{program}")),
            PermissionsExt::from_mode(0o755),
        )
        .unwrap();
    }
    let mode = if scene.user == User::Nobody { 0o700 } else { 0o755 };
    std::fs::set_permissions(scene.path(&user), PermissionsExt::from_mode(mode)).unwrap();
    let home = format!("HOME={}", scene.text(&user));
    let own = format!("OWNER={}", scene.text(&user));
    scene.garret_with(
        &[&home],
        &["-w", "box", "run", "--timeout", "20s", "--env", &own, "-c", script],
    )
}

/// The most commands that start while another process exchanges the source of their mount.
const MOST_STARTS: usize = 60;

/// Starts commands with a mount of `DIRECTORY/way` and what is `below` it, while another process exchanges `way` for a link into Garret's own
/// files, and back, in a tight loop. Each command is refused or sees the directory; the exit code is 0 if both happened.
fn exchange_source(scene: &Scene, directory: &str, below: &str) -> Ran {
    let hidden = format!("home/garret/{directory}{below}/secret");
    scene.put(&format!("{directory}/way{below}/secret"), "plain");
    scene.put(&hidden, CANARY);
    let (way, link) = (
        scene.path(&format!("{directory}/way")),
        scene.path(&format!("{directory}/link")),
    );
    symlink(scene.path(&format!("home/garret/{directory}")), &link).unwrap();
    let is_over = AtomicBool::new(false);
    let mut ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &way, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let ran = start_until_both(scene, &format!("{}{below}", scene.text(&format!("{directory}/way"))));
        is_over.store(true, Ordering::Relaxed);
        ran
    });
    let is_planted = scene.path(&hidden).with_file_name("new").exists();
    if is_planted {
        ran.code = Some(1);
    }
    std::fs::remove_dir_all(scene.path(&format!("home/garret/{directory}"))).unwrap();
    ran
}

/// Starts commands with a mount until one was refused and one saw the directory.
fn start_until_both(scene: &Scene, source: &str) -> Ran {
    let (mut was_refused, mut was_shown) = (false, false);
    let starts = ["", ":write", ":layer"].into_iter().cycle().take(MOST_STARTS);
    let mut all = Vec::new();
    for access in starts {
        let mount = format!("{source}:/a{access}");
        let script = "cat /a/secret; grep -rs canary /a; echo x > /a/new; exit 0";
        let ran = scene.garret(&["-w", "box", "run", "--mount", &mount, "-c", script]);
        was_shown |= ran.stdout == "plain";
        was_refused |= ran.code == Some(1);
        all.push((ran, false));
        if was_shown && was_refused {
            return sum(all);
        }
    }
    Ran { code: None, ..sum(all) }
}

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "read the credentials beside toolchains",
        run: |scene| {
            let script = "tool; find / -xdev \\( -name '*rc' -o -name 'credentials*' -o -name 'id_*' -o -name '*.conf' \\) -path '*owner*' -exec cat {} +; \
                 grep -rs canary $OWNER; for p in $OWNER/.cargo/bin/.. $OWNER/.pyenv/versions/3.12.1/bin/..; do ls -a $p; cat $p/* $p/.*; done; \
                 cat /proc/*/root$OWNER/.npmrc /proc/1/root/$OWNER/.ssh/*";
            attack_with_toolchains(scene, "read", script)
        },
        holds: |_, ran| ran.stdout.contains("found"),
    },
    Attack {
        name: "plant a program in a toolchain of the user",
        run: |scene| {
            let script = "cd $OWNER/.cargo/bin && { echo planted > cargo; echo planted > tool; rm -f tool; mv tool old; chmod 777 .; \
                 ln -s / link; mount -o remount,rw .; }; mv $OWNER/.cargo/bin $OWNER/.cargo/old; mkdir $OWNER/.config; echo end";
            attack_with_toolchains(scene, "plant", script)
        },
        holds: |scene, ran| {
            let bin = scene.path("owner-plant/.cargo/bin");
            let names = std::fs::read_dir(&bin).unwrap().count();
            let is_same = std::fs::read_to_string(bin.join("tool")).unwrap().contains("found");
            ran.stdout.contains("end") && names == 1 && is_same
        },
    },
    Attack {
        name: "fill the disk with files in the home",
        run: |scene| {
            scene.attack(
                60,
                "i=0; while [ $i -lt 500 ]; do head -c 8M /dev/zero > ~/x$i || break; i=$((i+1)); sleep 0.02; done; [ $i -eq 500 ] && echo filled; echo end",
            )
        },
        holds: |scene, ran| {
            let is_cleared = scene.garret(&["-w", "box", "home", "clear"]).code == Some(0);
            !ran.stdout.contains("filled") && is_cleared
        },
    },
    Attack {
        name: "fill the disk with files that are deleted and held open",
        run: |scene| {
            // By the older request of `ioctl`, for which the C library has no substitute, and by `fallocate`, for which it
            // writes.
            let script = r#"
import fcntl, os, struct, time
def fill(allocate):
    held = []
    for number in range(100):
        held.append(open(os.path.expanduser("~/x"), "wb"))
        os.unlink(os.path.expanduser("~/x"))
        allocate(held[-1].fileno())
        time.sleep(0.01)
    print("filled")
reserve = struct.pack("hhxxxxqqiI4i", 0, 0, 0, 4 << 20, 0, 0, 0, 0, 0, 0)
try:
    fill(lambda file: fcntl.ioctl(file, 0x4030582a, reserve))
except OSError as error:
    print("refused", error, flush=True)
fill(lambda file: os.posix_fallocate(file, 0, 4 << 20))
"#;
            scene.attack(60, &python(script))
        },
        holds: |_, ran| ran.stdout.contains("refused") && !ran.stdout.contains("filled"),
    },
    Attack {
        name: "fill the disk with files in a part of the home that nobody may read",
        run: |scene| {
            scene.attack(
                60,
                "mkdir -p ~/d; cd ~/d; chmod 300 .; i=0; while [ $i -lt 500 ]; do head -c 8M /dev/zero > x$i || break; i=$((i+1)); sleep 0.02; done; [ $i -eq 500 ] && echo filled; echo end",
            )
        },
        holds: |scene, ran| {
            let is_cleared = scene.garret(&["-w", "box", "home", "clear"]).code == Some(0);
            !ran.stdout.contains("filled") && is_cleared
        },
    },
    Attack {
        name: "lead the home of the next command elsewhere",
        run: |scene| {
            let outside = scene.text("outside");
            scene.attack(
                10,
                &format!("cd /; rmdir ~ ; mv ~ ~.old; rm -rf ~; ln -s {outside} ~; ln -s {outside} ~/link; ln -s {outside}/secret ~/.gitconfig; echo end"),
            );
            let after = scene.attack(
                10,
                "cat ~/link/secret ~/.gitconfig ~/secret; echo planted > ~/link/new; git config -l",
            );
            scene.garret(&["-w", "box", "home", "clear"]);
            after
        },
        holds: |_, _| true,
    },
    Attack {
        name: "have a file in the workspace or a writable mount name the source of a mount",
        run: |scene| {
            scene.put("shared/inner/file", "");
            let secret = scene.path("outside");
            let links = ["work/tree/way", "shared/way"];
            for link in links {
                let _ = std::fs::remove_file(scene.path(link));
                symlink(&secret, scene.path(link)).unwrap();
            }
            let (shared, way) = (scene.text("shared"), scene.text("shared/way"));
            let tree = scene.text("work/tree/way");
            let home = scene.text("home/garret");
            let show = |mounts: &[&str]| {
                let options: Vec<&str> = mounts.iter().flat_map(|mount| ["--mount", *mount]).collect();
                let run = [
                    &["-w", "box", "run"][..],
                    &options,
                    &["-c", "cat /a/secret; echo shown"],
                ]
                .concat();
                let ran = scene.garret(&run);
                let is_shown = ran.code == Some(0);
                (ran, is_shown)
            };
            let write = format!("{shared}:/b:write");
            let mut variants = vec![show(&[&format!("{way}:/a"), &write]), show(&[&format!("{home}:/a")])];
            if scene.tree("way").is_some() {
                variants.push(show(&[&format!("{tree}:/a")]));
            }
            let _ = std::fs::remove_file(scene.path("work/tree/way"));
            sum(variants)
        },
        holds: none_succeeded,
    },
    Attack {
        name: "exchange the source of a mount for a link while commands start",
        run: |scene| exchange_source(scene, "exchanged", ""),
        holds: none_succeeded,
    },
    Attack {
        name: "exchange a directory above the source of a mount for a link while commands start",
        run: |scene| exchange_source(scene, "exchanged-above", "/source"),
        holds: none_succeeded,
    },
];
