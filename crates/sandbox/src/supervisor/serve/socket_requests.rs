//! Makes sockets in the network of the sandbox, for Garret.

use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::SupervisorServer;
use crate::supervisor::descriptor_passing::send_with_descriptors;
use crate::supervisor::protocol::{FailedStep, SocketFamily, StepFailure};

impl SupervisorServer<'_> {
    pub(super) fn make_socket(&mut self, request: u64, family: SocketFamily) {
        let passed = self.pass_socket(request, family);
        self.answer_request(request, passed);
    }

    /// Makes a socket and passes it on. A socket stays in the network in which it was made, so Garret
    /// itself connects it or listens on it, and this process never waits for a peer.
    fn pass_socket(&self, request: u64, family: SocketFamily) -> Result<(), StepFailure> {
        let family = match family {
            SocketFamily::Version4 => AddressFamily::INET,
            SocketFamily::Version6 => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None).in_step("making a socket")?;
        send_with_descriptors(&self.sockets, &request.to_le_bytes(), &[socket.as_fd()]).in_step("passing a socket")
    }
}
