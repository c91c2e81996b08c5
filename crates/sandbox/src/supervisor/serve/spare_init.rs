//! An init that waits for a command, made ahead of time.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags};

use super::{ServeResult, SupervisorServer};
use crate::supervisor::confine::StandardStreams;
use crate::supervisor::control_groups::CommandGroup;
use crate::supervisor::descriptor_passing::DescriptorReceiver;
use crate::supervisor::init::{self, InitDescriptors};
use crate::supervisor::sys::{self, ForkSide, NewNamespaces};

/// An init that waits for a command.
pub(super) struct SpareInit {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) socket: UnixStream,
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    pub(super) error: OwnedFd,
    pub(super) narrow: Option<CommandGroup>,
}

impl SupervisorServer<'_> {
    pub(super) fn make_init(&self, narrow: Option<CommandGroup>) -> ServeResult<SpareInit> {
        let (socket, other) = UnixStream::pair()?;
        let (input, input_end) = pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (write, read))?;
        let (output, output_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (error, error_end) = pipe_with(PipeFlags::CLOEXEC)?;
        for end in [&input, &output, &error] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        // With an IPC namespace of its own, the System V shared memory of a command, which counts as memory, ends with
        // it.
        match sys::fork_into(
            NewNamespaces::PID
                .union_with(NewNamespaces::MOUNT)
                .union_with(NewNamespaces::IPC),
        )? {
            ForkSide::Child => {
                let standard = StandardStreams {
                    input: input_end,
                    output: output_end,
                    error: error_end,
                };
                let ends = InitDescriptors {
                    socket: other,
                    standard,
                    counts_ipc: !self.has_group,
                };
                drop((socket, input, output, error));
                init::main(ends, &self.filter, &self.writable, narrow.as_ref())
            }
            ForkSide::Parent(pid) => Ok(SpareInit {
                pid,
                pidfd: open_pidfd(pid)?,
                socket,
                input,
                output,
                error,
                narrow,
            }),
        }
    }
}

fn open_pidfd(pid: i32) -> ServeResult<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(std::io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until an init is ready; returns the `/proc` of its namespace, and the lists of the memory held there by System
/// V IPC.
pub(super) fn receive_views(socket: &UnixStream) -> ServeResult<Vec<OwnedFd>> {
    let mut receiving = DescriptorReceiver::new(socket);
    match receiving.read(&mut [0])? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(receiving.descriptors),
    }
}
