//! Sockets of the sandbox's own network: Garret reaches servers inside, and commands reach listeners of Garret.

use garret_core::{ErrorKind, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::room::{Room, python, run_on, shell};

/// Serves one connection on a free port, on an address, and prints the port.
fn echo_server(address: &str, family: &str) -> String {
    python(&format!(
        "import socket\n\
         server = socket.create_server(('{address}', 0), family=socket.{family})\n\
         print(server.getsockname()[1], flush=True)\n\
         peer, _ = server.accept()\n\
         peer.sendall(peer.recv(100).upper())\n\
         peer.close()\n"
    ))
}

async fn ask_server(room: &Room, address: &str, family: &str) -> String {
    let layer = room.open.create_layer().await.unwrap();
    let mut server = layer.start_process(shell(&echo_server(address, family))).await.unwrap();
    let printed = server.next_output().await.unwrap().bytes;
    let port = String::from_utf8_lossy(&printed).trim().parse().unwrap();
    let connected = room.open.connect_port(port).await.unwrap();
    let mut stream = TcpStream::from_std(connected).unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.wait().await.unwrap();
    answer
}

#[tokio::test]
async fn a_server_inside_is_reached_from_outside() {
    let room = Room::new().await;
    assert_eq!(ask_server(&room, "127.0.0.1", "AF_INET").await, "HELLO");
    assert_eq!(ask_server(&room, "0.0.0.0", "AF_INET").await, "HELLO");
    if std::path::Path::new("/proc/net/if_inet6").exists() {
        assert_eq!(ask_server(&room, "::1", "AF_INET6").await, "HELLO");
    }
}

#[tokio::test]
async fn a_command_reaches_a_listener_of_garret() {
    let room = Room::new().await;
    let listener = TcpListener::from_std(room.open.listen_port(0).await.unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let layer = room.open.create_layer().await.unwrap();
    let text = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; cat <&3");
    let answer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 6];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"hello\n");
        stream.write_all(b"from outside").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(run_on(&*layer, shell(&text)), answer);
    assert_eq!(outcome.text(), "from outside");
}

#[tokio::test]
async fn a_port_on_which_nobody_listens_is_refused_and_one_in_use_is_not_listened_on() {
    let room = Room::new().await;
    let refused = room.open.connect_port(9).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let listener = room.open.listen_port(0).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let used = room.open.listen_port(port).await.unwrap_err();
    assert_eq!(used.kind(), ErrorKind::AlreadyExists);
}

/// The network of each sandbox is its own: the same port is free in another one, and on the machine.
#[tokio::test]
async fn a_listener_inside_is_not_seen_by_another_sandbox_nor_by_the_machine() {
    let (room, other) = (Room::new().await, Room::new().await);
    let listener = room.open.listen_port(0).await.unwrap();
    let address = listener.local_addr().unwrap();
    // A server of the machine that happens to have the same port would only hide the difference.
    if std::net::TcpListener::bind(address).is_ok() {
        assert!(std::net::TcpStream::connect(address).is_err());
    }
    let refused = other.open.connect_port(address.port()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
}

/// A queue that is full takes time, and nothing else: the supervisor waits for no peer.
#[tokio::test]
async fn a_server_that_never_accepts_keeps_nothing_else_from_working() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let deaf = python(
        "import socket, time\n\
         server = socket.socket()\n\
         server.bind(('127.0.0.1', 0))\n\
         server.listen(0)\n\
         print(server.getsockname()[1], flush=True)\n\
         time.sleep(1000)\n",
    );
    let mut server = layer.start_process(shell(&deaf)).await.unwrap();
    let printed = server.next_output().await.unwrap().bytes;
    let port = String::from_utf8_lossy(&printed).trim().parse().unwrap();
    let mut connected = Vec::new();
    // A queue of length 0 has room for one.
    let failed = loop {
        match room.open.connect_port(port).await {
            Ok(stream) => connected.push(stream),
            Err(error) => break error,
        }
        assert!(connected.len() < 10, "a queue of one takes no ten");
        assert_eq!(room.text("echo alive").await, "alive\n");
    };
    assert_eq!(failed.kind(), ErrorKind::Timeout);
    assert_eq!(room.text("echo alive").await, "alive\n");
}

#[tokio::test]
async fn requests_that_nobody_waits_for_do_not_mix_up_later_ones() {
    let room = Room::new().await;
    let listener = room.open.listen_port(0).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for _ in 0..20 {
        let abandoned = room.open.connect_port(port);
        tokio::select! {
            biased;
            _ = abandoned => {}
            () = std::future::ready(()) => {}
        }
    }
    let connected = room.open.connect_port(port).await.unwrap();
    assert_eq!(connected.peer_addr().unwrap().port(), port);
}

#[tokio::test]
async fn commands_cannot_reach_the_channel_for_sockets() {
    let room = Room::new().await;
    // Standard streams, and the directory that is being listed.
    let open = room.text("ls /proc/self/fd | tr '\\n' ' '").await;
    assert_eq!(open, "0 1 2 3 ");
    let (outcome, _) = room.run("ls /proc/1/fd").await;
    assert_ne!(outcome.code(), 0, "{}", outcome.text());
}

#[tokio::test]
async fn a_sandbox_in_the_network_of_the_machine_has_no_ports_of_its_own() {
    let room = Room::with(|request| request.network = Network::Full).await;
    let refused = [
        room.open.listen_port(0).await.err().unwrap(),
        room.open.connect_port(9).await.err().unwrap(),
    ];
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Unsupported));
}
