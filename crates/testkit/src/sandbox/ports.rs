//! The ports of a sandbox with a network of its own; asked only of sandboxes that have one.

use std::net::TcpListener;

use garret_core::ErrorKind;

use super::{Stand, sh};

/// Promise of `OpenSandbox::listen_port`: commands connect, and the caller accepts outside.
pub async fn commands_reach_a_listener_outside(stand: Stand) {
    let (room, layer) = stand.lay().await;
    let listener = match room.open.listen_port(0).await {
        Ok(listener) => listener,
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported),
    };
    let port = port_of(&listener);
    sh(&layer, &format!("bash -c 'echo hello > /dev/tcp/127.0.0.1/{port}'"))
        .await
        .text();
    let (stream, _) = listener.accept().expect("the command has connected");
    stream.set_nonblocking(false).expect("it can be waited for");
    assert_eq!(std::io::read_to_string(stream).expect("it is text"), "hello\n");
}

/// Promise of `OpenSandbox::connect_port`: it reaches the ports of this sandbox, and no others.
pub async fn ports_of_the_machine_are_not_those_of_the_sandbox(stand: Stand) {
    let room = stand.open().await;
    let Ok(inside) = room.open.listen_port(0).await else {
        return;
    };
    let machine = TcpListener::bind("127.0.0.1:0").expect("a test machine has a loopback");
    assert!(room.open.connect_port(port_of(&inside)).await.is_ok());
    let refused = room.open.connect_port(port_of(&machine)).await;
    assert_eq!(
        refused.expect_err("nobody listens inside").kind(),
        ErrorKind::Unavailable
    );
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("it is bound").port()
}
