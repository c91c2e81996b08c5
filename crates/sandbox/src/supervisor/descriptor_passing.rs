//! Passes descriptors along with bytes: between the server and its inits, and from the server to Garret.

#![cfg(target_os = "linux")]

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

/// Sends bytes, and up to four descriptors with the first of them.
pub(crate) fn send_with_descriptors(
    socket: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [io::IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    io::Write::write_all(&mut &*socket, &bytes[sent..])
}

/// A reader of a socket that keeps the descriptors passed along with the bytes.
#[derive(Debug)]
pub(crate) struct DescriptorReceiver<'a> {
    socket: &'a UnixStream,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl<'a> DescriptorReceiver<'a> {
    pub(crate) fn new(socket: &'a UnixStream) -> Self {
        Self {
            socket,
            descriptors: Vec::new(),
        }
    }
}

impl Read for DescriptorReceiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [io::IoSliceMut::new(buffer)];
        let received = rustix::net::recvmsg(self.socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.descriptors.extend(fds);
            }
        }
        Ok(received.bytes)
    }
}
