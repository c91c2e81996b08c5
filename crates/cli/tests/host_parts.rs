//! What commands see of the user's machine, and the home that they keep, as a user finds it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the machine from outside, as another program would"
)]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Ran, Room};

/// Runs the program with variables of the user.
fn run_with_variables(room: &Room, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = room.command(arguments);
    command.envs(variables.iter().copied());
    Ran::of(command, b"")
}

fn run_directly(room: &Room, program: &str, arguments: &[&str]) {
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(room.path())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn an_existing_virtual_environment_works_and_code_runs_in_it() {
    let room = Room::new();
    run_directly(&room, "/usr/bin/python3", &["-m", "venv", "--without-pip", ".venv"]);
    let host = room.path().canonicalize().unwrap();
    let python = host.join(".venv/bin/python");
    room.put(
        ".venv/bin/tool",
        format!("#!{}\nimport sys\nprint(sys.prefix)\n", python.display()),
    );
    std::fs::set_permissions(room.path().join(".venv/bin/tool"), PermissionsExt::from_mode(0o755)).unwrap();
    let prefix = format!("{}\n", host.join(".venv").display());
    for command in [
        &["tool"][..],
        &[".venv/bin/tool"],
        &["python", "-c", "import sys; print(sys.prefix)"],
    ] {
        assert_eq!(
            room.run(&[&["run", "--"][..], command].concat()).done(),
            prefix,
            "{command:?}"
        );
    }
    let code = room.run(&["code", "python", "-c", "import sys; print(sys.prefix)"]);
    assert_eq!(code.done(), prefix);
    assert_eq!(room.run(&["run", "pwd"]).done(), format!("{}\n", host.display()));
}

#[test]
fn promise_34_holds_at_both_paths_of_the_workspace() {
    let room = Room::new();
    room.put("work/secret", "secret\n")
        .put("work/fixed", "fixed\n")
        .put("work/open", "open\n");
    room.put(
        "garret.toml",
        "[workspaces.site]\nstorage = 'local:work'\n[workspaces.site.capabilities.fs]\ndeny_read = ['secret']\n\
         deny_write = ['fixed']\n[workspaces.site.capabilities.shell]\n",
    );
    room.trust();
    let host = room.path().canonicalize().unwrap().join("work");
    let text = "for d in /workspace \"$PWD\"; do cat $d/open; cat $d/secret $d/../work/secret; echo x > $d/fixed; rm -f $d/fixed; done; pwd";
    let ran = room.run(&["-w", "site", "run", "-c", text]);
    assert_eq!(ran.out(), format!("open\nopen\n{}\n", host.display()), "{}", ran.err());
    assert_eq!(room.get("work/fixed"), b"fixed\n");
    assert_eq!(room.get("work/secret"), b"secret\n");
}

#[test]
fn a_commit_names_the_user_and_takes_nothing_else_of_his_settings() {
    let room = Room::new();
    room.put(
        "user/.gitconfig",
        "[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n[credential]\n\thelper = store\n[alias]\n\tx = status\n",
    );
    room.put("work/file", "one\n");
    let home = room.path().join("user");
    let variables = [("HOME", home.to_str().unwrap())];
    let text = "git init -q . && git add file && git commit -qm first && git log --format='%an <%ae>'; \
                git config --get-regexp '.*' | grep -v '^core\\|^user'";
    let run = ["-w", "./work", "run", "-c", text];
    let ran = run_with_variables(&room, &variables, &run);
    assert_eq!(ran.out(), "Ada Lovelace <ada@example.org>\n", "{}", ran.err());
}

#[test]
fn the_home_of_commands_outlives_them_and_is_in_no_change() {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    let run = |text: &str| room.run(&["-w", "box", "run", "-c", text]);
    run("mkdir -p ~/.cache/x && echo kept > ~/.cache/x/file && test \"$HOME\" = \"$(getent passwd \"$(id -u)\" | cut -d: -f6)\"").done();
    assert_eq!(run("cat ~/.cache/x/file").done(), "kept\n");
    let discarded = room.run(&[
        "-w",
        "box",
        "run",
        "--discard",
        "-c",
        "ls -A ~; echo gone > ~/other; cat ~/other",
    ]);
    assert_eq!(discarded.done(), "gone\n");
    assert_eq!(run("ls -A ~").done(), ".cache\n");
    assert_eq!(room.run(&["-w", "box", "ls"]).done(), "");
    assert!(
        !room.run(&["-w", "box", "log"]).done().contains("run"),
        "a home is in no change"
    );
    let shown = room.run(&["-w", "box", "home", "--json"]).json();
    assert!(shown["data"]["home"]["bytes"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(shown["data"]["home"]["limit_bytes"], 5_u64 << 30);
    assert_eq!(shown["data"]["home"]["is_kept"], true);
    assert!(!shown.to_string().contains(room.home().to_str().unwrap()));
    // Another workspace has another home.
    room.run(&["create", "other", "--capability", "fs,shell"]).done();
    assert_eq!(room.run(&["-w", "other", "run", "-c", "ls -A ~"]).done(), "");
    assert!(
        room.run(&["-w", "box", "home", "clear"])
            .done()
            .starts_with("emptied; ")
    );
    assert_eq!(run("ls -A ~").done(), "");
}

#[test]
fn commands_have_a_home_where_that_of_garret_lies_behind_a_link() {
    let room = Room::new();
    room.put("real/file", "").link("link", "real");
    let home = room.path().join("link/garret");
    let variables = [("GARRET_HOME", home.to_str().unwrap())];
    let run = |arguments: &[&str]| run_with_variables(&room, &variables, arguments);
    run(&["create", "box", "--capability", "fs,shell"]).done();
    run(&["-w", "box", "run", "-c", "echo kept > ~/file"]).done();
    assert_eq!(run(&["-w", "box", "run", "-c", "cat ~/file"]).done(), "kept\n");
    assert!(!run(&["-w", "box", "home", "clear"]).done().is_empty());
    assert_eq!(run(&["-w", "box", "run", "-c", "ls -A ~"]).done(), "");
}

#[test]
fn a_home_over_its_limit_ends_the_command_and_keeps_others_from_running_until_it_is_empty() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.box]\nstorage = 'local:work'\n[workspaces.box.capabilities.shell]\nlimits = { home_mb = 8 }\n",
    );
    room.put("work/file", "").trust();
    let run = |text: &str| room.run(&["-w", "box", "run", "-c", text]);
    let filled = run("for i in $(seq 100); do head -c 4M /dev/zero > ~/$i; sleep 0.05; done; echo filled");
    assert!(!filled.out().contains("filled"), "{}", filled.out());
    assert!(filled.err().contains("home directory"), "{}", filled.err());
    let home = std::fs::read_dir(room.home().join("homes"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let _ = std::fs::remove_file(home.path().join("workspace.bytes"));
    let refused = run("echo ran");
    assert_eq!((refused.out(), refused.failed().as_str()), ("", "quota_exceeded"));
    assert!(refused.err().contains("garret home clear"), "{}", refused.err());
    room.run(&["-w", "box", "home", "clear"]).done();
    assert_eq!(run("echo ran").done(), "ran\n");
}

#[test]
fn a_mount_is_shown_with_its_access_and_never_over_the_workspace_or_the_home_of_garret() {
    let room = Room::new();
    room.put("data/file", "of the host\n")
        .put("work/file", "of the workspace\n");
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    let run = |mount: &str, text: &str| room.run(&["-w", "box", "run", "--mount", mount, "-c", text]);
    assert_eq!(
        run("data:/data", "cat /data/file; echo x > /data/new").out(),
        "of the host\n"
    );
    assert_eq!(
        run("data:/data:layer", "echo x > /data/new; ls /data").done(),
        "file\nnew\n"
    );
    assert!(!room.path().join("data/new").exists());
    run("data:/data:write", "echo x > /data/new").done();
    assert_eq!(room.get("data/new"), b"x\n");
    assert_eq!(run("data:/workspace/x", "true").failed(), "invalid");
    let home = format!("{}:/data", room.home().display());
    assert_eq!(run(&home, "true").failed(), "denied");
    room.link("link", room.home().to_str().unwrap());
    assert_eq!(run("link:/data", "true").failed(), "denied");
    assert_eq!(run("missing:/data", "true").failed(), "not_found");
    let over = room.run(&["-w", "./work", "run", "--mount", "work:/data:write", "true"]);
    assert_eq!(over.failed(), "denied");
}

#[test]
fn the_doctor_lists_the_programs_that_commands_find_and_those_they_do_not() {
    let room = Room::new();
    for program in ["user/.cargo/bin/cargo", "user/bin/mine"] {
        room.put(program, "#!/bin/sh\n");
        std::fs::set_permissions(room.path().join(program), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let home = room.path().join("user");
    let path = format!("{0}/bin:{0}/.cargo/bin:/usr/bin:/bin", home.display());
    let variables = [("HOME", home.to_str().unwrap()), ("PATH", path.as_str())];
    let told = run_with_variables(&room, &variables, &["-w", "memory:", "doctor"]);
    assert!(told.out().contains("~/.cargo/bin: cargo\n"), "{}", told.out());
    assert!(
        told.out().contains("commands do not find those in ~/bin: mine\n"),
        "{}",
        told.out()
    );
}

#[test]
fn a_toolchain_in_a_private_home_is_found_by_root_and_by_its_user_without_the_credentials_beside_it() {
    for room in [Some(Room::new()), Room::of_nobody()].into_iter().flatten() {
        room.put("user/.cargo/bin/tool", "#!/bin/sh\necho found\n");
        room.put("user/.cargo/credentials.toml", "CANARY")
            .put("user/.npmrc", "CANARY")
            .put("user/.ssh/id", "CANARY");
        room.put("work/file", "");
        std::fs::set_permissions(
            room.path().join("user/.cargo/bin/tool"),
            PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        std::fs::set_permissions(room.path().join("user"), PermissionsExt::from_mode(0o700)).unwrap();
        let home = room.path().join("user");
        let text = "tool; cat $U/.cargo/credentials.toml $U/.npmrc $U/.ssh/id 2>&1 | grep CANARY; ls -A $U $U/.cargo | tr '\\n' ' '";
        let variable = format!("U={}", home.display());
        let arguments = ["-w", "./work", "run", "--env", &variable, "-c", text];
        let ran = run_with_variables(&room, &[("HOME", home.to_str().unwrap())], &arguments);
        let lists = format!("{0}:\n.cargo\n\n{0}/.cargo:\nbin\n", home.display()).replace('\n', " ");
        assert_eq!(ran.done(), format!("found\n{lists}"));
    }
}
