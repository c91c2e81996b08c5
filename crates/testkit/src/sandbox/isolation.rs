//! What a command cannot reach; asked only of sandboxes that claim it.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;

use garret_core::{EntryKind, EntryPath, Guard, Network, ReadFilter, Visibility, WsPath};

use super::{Stand, sh};

/// A filter that hides a list of paths, with everything below them.
#[derive(Debug, Clone, Default)]
pub struct HiddenPaths(pub Vec<WsPath>);

impl ReadFilter for HiddenPaths {
    fn entry_visibility(&self, path: &EntryPath, _kind: EntryKind) -> Visibility {
        let Some(path) = path.as_path() else {
            return Visibility::Hidden;
        };
        if self.0.contains(path) {
            return Visibility::Hidden;
        }
        // A directory above a hidden path is visible, and the sandbox must ask further down.
        if self.0.iter().any(|hidden| hidden.is_within(path)) {
            Visibility::Partial
        } else {
            Visibility::Whole
        }
    }
}

fn paths(texts: &[&str]) -> Vec<WsPath> {
    texts.iter().map(|text| WsPath::parse(text).expect("a path")).collect()
}

/// Promise of `Guard::Files`: only the workspace and chosen system directories can be seen.
pub async fn files_outside_cannot_be_read(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::Files) {
        return;
    }
    let secret = stand.outside().join("secret");
    std::fs::write(&secret, "the secret").expect("a test machine has room");
    let script = format!(
        "cat '{}'; cat /proc/1/root'{}'; ls -a '{}'; cat /etc/shadow; ls /root /home/*",
        secret.display(),
        secret.display(),
        stand.base.display()
    );
    let ran = sh(&layer, &script).await;
    let shown = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(
        !shown.contains("the secret") && !shown.contains("scratch") && !shown.contains("root:"),
        "{shown}"
    );
}

/// Promise of `Guard::Files`: only the workspace and a private `/tmp` can be written.
pub async fn files_outside_cannot_be_written(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::Files) {
        return;
    }
    let (target, shared) = (
        stand.outside().join("written"),
        format!("/tmp/garret-testkit-{}", std::process::id()),
    );
    let script = format!(
        "echo x > '{}'; echo x > /etc/garret-testkit; echo x > /usr/garret-testkit; echo x > {shared} && echo private; true",
        target.display()
    );
    let ran = sh(&layer, &script).await;
    assert_eq!(ran.stdout, b"private\n");
    for path in [
        target.as_path(),
        shared.as_ref(),
        "/etc/garret-testkit".as_ref(),
        "/usr/garret-testkit".as_ref(),
    ] {
        assert!(!path.exists(), "{}", path.display());
    }
}

/// Promise of `SandboxRequest::read_filter`: what it hides does not exist for a command.
pub async fn hidden_paths_are_not_there(stand: Stand) {
    stand.put("hidden/file", "the secret");
    stand.put("a/secret.txt", "the secret");
    stand.put("a/open.txt", "open");
    let request = garret_core::SandboxRequest {
        read_filter: Some(Arc::new(HiddenPaths(paths(&["hidden", "a/secret.txt"])))),
        ..stand.request()
    };
    let room = stand.open_with(request).await;
    if !room.enforces(Guard::Files) {
        return;
    }
    let layer = room.lay().await;
    let ran = sh(
        &layer,
        "cat hidden/file a/secret.txt; cat a/open.txt; grep -r secret . ; true",
    )
    .await;
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "open");
}

/// Promise of `SandboxRequest::read_only`.
pub async fn read_only_paths_stay_as_they_are(stand: Stand) {
    stand.put("fixed/file", "as it was");
    stand.put("one", "as it was");
    let request = garret_core::SandboxRequest {
        read_only: paths(&["fixed", "one"]),
        ..stand.request()
    };
    let room = stand.open_with(request).await;
    if !room.enforces(Guard::Files) {
        return;
    }
    let layer = room.lay().await;
    let ran = sh(
        &layer,
        "echo x > fixed/file; echo x > fixed/new; rm -f fixed/file; echo x > one; cat fixed/file one; ls fixed",
    )
    .await;
    assert_eq!(ran.text(), "as it wasas it wasfile");
}

/// Promise of `Guard::Processes`: processes outside can be neither seen nor signalled.
pub async fn processes_outside_cannot_be_reached(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::Processes) {
        return;
    }
    let mut victim = Command::new("sleep")
        .arg("987654")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let script = format!(
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; kill -9 {0} 2>/dev/null; kill -9 -1 2>/dev/null; true",
        victim.id()
    );
    let ran = sh(&layer, &script).await;
    let is_alive = victim.try_wait().expect("it is ours").is_none();
    victim.kill().expect("it is ours");
    victim.wait().expect("it is ours");
    assert!(is_alive, "a process outside was killed");
    assert!(
        !String::from_utf8_lossy(&ran.stdout).contains("987654"),
        "a process outside was seen"
    );
}

async fn reaches(stand: &Stand, network: Network) -> Option<bool> {
    let request = garret_core::SandboxRequest {
        network,
        ..stand.request()
    };
    let room = stand.open_with(request).await;
    if !room.enforces(Guard::Network) {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a test machine has a loopback");
    listener.set_nonblocking(true).expect("it can be asked");
    let port = listener.local_addr().expect("it is bound").port();
    let layer = room.lay().await;
    sh(
        &layer,
        &format!("bash -c 'echo hello > /dev/tcp/127.0.0.1/{port}' 2>/dev/null; true"),
    )
    .await
    .text();
    let accepted = listener.accept();
    Some(accepted.is_ok_and(|(mut stream, _)| {
        let mut text = String::new();
        stream.set_nonblocking(false).is_ok() && stream.read_to_string(&mut text).is_ok() && text == "hello\n"
    }))
}

/// Promise of `Network::None`: nothing, not even the machine itself.
pub async fn the_network_is_out_of_reach(stand: Stand) {
    assert_ne!(reaches(&stand, Network::None).await, Some(true));
}

/// Promise of `Network::Full`.
pub async fn the_network_can_be_allowed(stand: Stand) {
    assert_ne!(reaches(&stand, Network::Full).await, Some(false));
}
