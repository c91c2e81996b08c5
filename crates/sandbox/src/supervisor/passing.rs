//! Passing a descriptor along with bytes, between the server and its inits.

#![cfg(target_os = "linux")]

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// Sends bytes, and a descriptor with the first of them.
pub(super) fn send(socket: &UnixStream, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let passed = descriptor.map(|fd| [fd]);
    if let Some(passed) = &passed {
        ancillary.push(SendAncillaryMessage::ScmRights(passed));
    }
    let parts = [io::IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    io::Write::write_all(&mut &*socket, &bytes[sent..])
}

/// Reads from a socket, and keeps the descriptor that comes along.
#[derive(Debug)]
pub(super) struct Receiving<'a> {
    socket: &'a UnixStream,
    pub(super) descriptor: Option<OwnedFd>,
}

impl<'a> Receiving<'a> {
    pub(super) fn new(socket: &'a UnixStream) -> Self {
        Self {
            socket,
            descriptor: None,
        }
    }
}

impl Read for Receiving<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [io::IoSliceMut::new(buffer)];
        let received = rustix::net::recvmsg(self.socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                self.descriptor = fds.next();
            }
        }
        Ok(received.bytes)
    }
}
