//! Ports of background processes, reached from the machine.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use garret::{
    DeclaredCapability, ErrorKind, NetworkChoice, PortAnswer, PortPolicy, PortRequest, RunRequest, ScopeOptions,
};
use garret::{ShellPolicy, Workspace};

use crate::shell::support::{On, Room, each, on_all, room, room_with};

const SERVER: &str = "exec python3 -u -m http.server 8000 --bind 127.0.0.1";

fn request(id: &str) -> PortRequest {
    PortRequest {
        id: id.to_owned(),
        port: 8000,
        bind: None,
        wait: Duration::from_secs(60),
    }
}

async fn open(workspace: &Workspace, id: &str) -> PortAnswer {
    workspace.open_port(request(id)).await.unwrap()
}

/// Asks a server for a page, as a client of this machine does; an empty answer if there is no server.
fn get(address: &str, page: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return String::new();
    };
    let mut answer = String::new();
    // A connection that is reset has an empty answer, too.
    let _ = write!(stream, "GET /{page} HTTP/1.0\r\n\r\n");
    let _ = stream.read_to_string(&mut answer);
    answer
}

async fn get_page(address: &str, page: &'static str) -> String {
    let address = address.to_owned();
    tokio::task::spawn_blocking(move || get(&address, page)).await.unwrap()
}

async fn room_with_policy(on: On, policy: ShellPolicy) -> Room {
    room_with(on, |config| {
        config.capabilities.shell = DeclaredCapability::Options(policy)
    })
    .await
}

#[test]
fn promise_44_a_port_of_a_process_is_reached_from_this_machine_until_the_process_ends() {
    each(|on| async move {
        let room = room(on).await;
        room.write("page.html", "from inside").await;
        let id = room.start(SERVER).await;
        let answer = open(room.workspace(), &id).await;
        assert!(answer.ready, "{on:?}");
        let address = answer.opened.address.clone();
        assert!(get_page(&address, "page.html").await.ends_with("from inside"), "{on:?}");
        let listed = room.workspace().processes().await.unwrap();
        assert_eq!(
            listed.processes[0].ports,
            std::slice::from_ref(&answer.opened),
            "{on:?}"
        );
        assert_eq!(
            open(room.workspace(), &id).await.opened,
            answer.opened,
            "{on:?}: a port is opened once"
        );
        // Exactly at the address, and at no other of the loopback interface.
        let (host, port) = address.rsplit_once(':').unwrap();
        assert_eq!(host, "127.0.0.1");
        assert!(TcpStream::connect(format!("127.0.0.2:{port}")).is_err(), "{on:?}");
        room.workspace().kill(&id).await.unwrap();
        assert!(TcpStream::connect(&address).is_err(), "{on:?}: closed with the process");
        assert!(
            room.workspace().processes().await.unwrap().processes[0]
                .ports
                .is_empty()
        );
        let error = room.workspace().open_port(request(&id)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{on:?}: {error}");
    });
}

#[test]
fn a_connection_ends_with_the_process_and_the_port_with_the_workspace() {
    on_all(&[On::Memory], |on| async move {
        let room = room(on).await;
        let id = room.start(SERVER).await;
        let address = open(room.workspace(), &id).await.opened.address;
        let mut idle = TcpStream::connect(&address).unwrap();
        room.workspace().close().await.unwrap();
        // Ended or reset; a read of a connection that is still open would block.
        let ended = tokio::task::spawn_blocking(move || idle.read(&mut [0; 8]).unwrap_or(0));
        assert_eq!(ended.await.unwrap(), 0);
        assert!(TcpStream::connect(&address).is_err());
    });
}

#[test]
fn a_port_in_use_makes_way_for_the_next_free_one() {
    on_all(&[On::Memory], |on| async move {
        let room = room(on).await;
        let id = room.start(SERVER).await;
        // Another test may have taken it, which is just as well.
        let _taken = TcpListener::bind("127.0.0.1:8000");
        let opened = open(room.workspace(), &id).await.opened;
        assert_eq!(opened.port, 8000);
        assert_ne!(opened.address, "127.0.0.1:8000");
        assert!(get_page(&opened.address, "").await.starts_with("HTTP/1.0 200"));
        assert_eq!(opened.url, format!("http://{}", opened.address));
    });
}

#[test]
fn a_port_on_which_nobody_listens_yet_is_open_and_works_later() {
    on_all(&[On::Memory], |on| async move {
        let room = room(on).await;
        let id = room
            .start(&format!("while ! test -e go; do sleep 0.05; done; {SERVER}"))
            .await;
        let early = PortRequest {
            wait: Duration::ZERO,
            ..request(&id)
        };
        let answer = room.workspace().open_port(early).await.unwrap();
        assert!(!answer.ready);
        assert_eq!(
            get_page(&answer.opened.address, "").await,
            "",
            "a connection is closed at once"
        );
        room.write("go", "").await;
        assert!(open(room.workspace(), &id).await.ready);
        assert!(get_page(&answer.opened.address, "").await.starts_with("HTTP/1.0 200"));
    });
}

#[test]
fn a_process_that_ends_before_it_listens_is_waited_for_no_longer() {
    on_all(&[On::Memory], |on| async move {
        let room = room(on).await;
        let id = room.start("while ! test -e go; do sleep 0.05; done").await;
        let forever = PortRequest {
            wait: Duration::MAX,
            ..request(&id)
        };
        let waiting = room.workspace().open_port(forever);
        let (answer, ()) = tokio::join!(waiting, room.write("go", ""));
        // An error if it had ended before the port was opened.
        assert!(answer.map_or(true, |answer| !answer.ready));
    });
}

#[test]
fn a_port_listens_on_another_address_only_if_the_policy_names_it() {
    on_all(&[On::Memory], |on| async move {
        let room = room(on).await;
        let id = room.start("sleep 1000").await;
        for address in ["0.0.0.0", "::", "192.0.2.1"] {
            let far = PortRequest {
                bind: Some(address.parse().unwrap()),
                ..request(&id)
            };
            let error = room.workspace().open_port(far).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{address}: {error}");
            assert!(error.hint_text().contains("ports"), "{error}");
        }
        let ports = PortPolicy {
            bind: "127.0.0.2".parse().unwrap(),
            ..PortPolicy::default()
        };
        let room = room_with_policy(
            on,
            ShellPolicy {
                ports,
                ..ShellPolicy::default()
            },
        )
        .await;
        let id = room.start(SERVER).await;
        let opened = open(room.workspace(), &id).await.opened;
        assert!(opened.address.starts_with("127.0.0.2:"), "{opened:?}");
        assert!(get_page(&opened.address, "").await.starts_with("HTTP/1.0 200"));
    });
}

#[test]
fn a_scope_opens_no_port_unless_the_policy_allows_it() {
    on_all(&[On::Memory], |on| async move {
        let allow = |allow| ShellPolicy {
            ports: PortPolicy {
                allow,
                ..PortPolicy::default()
            },
            ..ShellPolicy::default()
        };
        for (allowed, is_open) in [(None, false), (Some(false), false), (Some(true), true)] {
            let room = room_with_policy(on, allow(allowed)).await;
            let scope = room.workspace().scope("tenant", ScopeOptions::default()).unwrap();
            scope
                .write("page.html", "of a tenant", Default::default())
                .await
                .unwrap();
            let id = scope.start(RunRequest::shell(SERVER)).await.unwrap().id;
            match scope.open_port(request(&id)).await {
                Ok(answer) => {
                    assert!(is_open, "{allowed:?}");
                    assert!(
                        get_page(&answer.opened.address, "page.html")
                            .await
                            .ends_with("of a tenant")
                    );
                }
                Err(error) => {
                    assert!(!is_open, "{allowed:?}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Denied);
                }
            }
            // The owner of the workspace sees the processes of its scopes, and may open their ports.
            let by_owner = room.workspace().open_port(request(&id)).await;
            assert_eq!(by_owner.is_ok(), allowed != Some(false), "{by_owner:?}");
        }
    });
}

#[test]
fn neither_the_machine_nor_another_workspace_is_reached_through_a_port() {
    on_all(&[On::Memory], |on| async move {
        let machine = TcpListener::bind("127.0.0.1:0").unwrap();
        machine.set_nonblocking(true).unwrap();
        let other = room(on).await;
        let theirs = other.start(SERVER).await;
        assert!(open(other.workspace(), &theirs).await.ready);

        let room = room(on).await;
        let id = room.start("sleep 1000").await;
        let error = room.workspace().open_port(request("p2")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        for port in [8000, machine.local_addr().unwrap().port()] {
            let wanted = PortRequest {
                port,
                wait: Duration::from_millis(300),
                ..request(&id)
            };
            let answer = room.workspace().open_port(wanted).await.unwrap();
            assert!(!answer.ready, "{port}");
            assert_eq!(get_page(&answer.opened.address, "").await, "", "{port}");
        }
        assert!(machine.accept().is_err(), "nobody came to the machine's own listener");
    });
}

#[test]
fn commands_in_the_network_of_the_machine_have_no_ports_to_open() {
    on_all(&[On::Memory], |on| async move {
        let full = ShellPolicy {
            network: NetworkChoice::Full,
            ..ShellPolicy::default()
        };
        let room = room_with_policy(on, full).await;
        let id = room.start("sleep 1000").await;
        let error = room.workspace().open_port(request(&id)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.hint_text().contains("directly"), "{error}");
    });
}
