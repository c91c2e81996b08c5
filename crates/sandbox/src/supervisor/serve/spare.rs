//! An init that waits for a command, made ahead of time.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags};

use super::{Served, Server};
use crate::supervisor::confine::Standard;
use crate::supervisor::groups::Narrow;
use crate::supervisor::init::{self, Ends};
use crate::supervisor::passing::Receiving;
use crate::supervisor::sys::{self, Forked, Fresh};

/// An init that waits for a command.
pub(super) struct Spare {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) socket: UnixStream,
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
    pub(super) narrow: Option<Narrow>,
}

impl Server<'_> {
    pub(super) fn make_init(&self, narrow: Option<Narrow>) -> Served<Spare> {
        let (socket, other) = UnixStream::pair()?;
        let (input, input_end) = pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (write, read))?;
        let (output, output_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error, error_end) = pipe_with(PipeFlags::CLOEXEC)?;
        for end in [&input, &output, &error] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        // With an IPC namespace of its own, the System V shared memory of a command, which counts as memory, ends with
        // it.
        match sys::fork_into(Fresh::PID.and(Fresh::MOUNT).and(Fresh::IPC))? {
            Forked::Child => {
                let standard = Standard {
                    input: input_end,
                    output: output_end,
                    error: error_end,
                };
                let ends = Ends {
                    socket: other,
                    standard,
                    counts_ipc: !self.has_group,
                };
                drop((socket, input, output, error));
                init::main(ends, &self.filter, narrow.as_ref())
            }
            Forked::Parent(pid) => Ok(Spare {
                pid,
                pidfd: pidfd(pid)?,
                socket,
                input,
                output,
                error,
                narrow,
            }),
        }
    }
}

fn pidfd(pid: i32) -> Served<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until an init is ready; returns the `/proc` of its namespace, and the lists of the memory held there by System
/// V IPC.
pub(super) fn receive(socket: &UnixStream) -> Served<Vec<OwnedFd>> {
    let mut receiving = Receiving::new(socket);
    match receiving.read(&mut [0])? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(receiving.descriptors),
    }
}
