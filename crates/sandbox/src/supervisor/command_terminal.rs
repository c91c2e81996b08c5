//! The terminal of a command: a pair of devices from a file system of terminals that belongs to the command alone.
//!
//! Neither side is a terminal of the host, and no other command sees it. The program leads a session on one side; the
//! server types on the other side, and reads there what the program writes.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::TerminalSize;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::sys;

/// The most terminals that the processes of a command can make, such as those of `tmux` or `script`.
const OPTIONS: &std::ffi::CStr = c"newinstance,ptmxmode=0666,mode=0620,max=64";

/// The two sides of a terminal.
#[derive(Debug)]
pub(super) struct TerminalPair {
    /// The side on which input is typed.
    pub(super) typing_side: OwnedFd,
    /// The side that is the standard streams of the program.
    pub(super) program_side: OwnedFd,
}

/// Mounts a file system of terminals that has none yet.
pub(super) fn mount_terminals() -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, OPTIONS)
}

impl TerminalPair {
    /// Makes a terminal of this size.
    pub(super) fn open(size: TerminalSize) -> rustix::io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let typing_side = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty())?;
        unlockpt(&typing_side)?;
        // Through the descriptor and not by its name, which a mount could cover.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let program_side = ioctl_tiocgptpeer(&typing_side, flags)?;
        let mut settings = tcgetattr(&program_side)?;
        // Backspace then takes back a whole character.
        settings.input_modes |= InputModes::IUTF8;
        tcsetattr(&program_side, OptionalActions::Now, &settings)?;
        set_size(typing_side.as_fd(), size)?;
        Ok(Self {
            typing_side,
            program_side,
        })
    }
}

/// Sets the size of a terminal; the kernel tells the program in the foreground there.
pub(super) fn set_size(terminal: BorrowedFd<'_>, size: TerminalSize) -> rustix::io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size)
}

/// Makes a terminal the controlling one of this process, which leads a session, and its standard streams.
pub(super) fn take_terminal(terminal: &OwnedFd) -> std::io::Result<()> {
    rustix::process::ioctl_tiocsctty(terminal)?;
    for standard in 0..3 {
        sys::duplicate_to(terminal, standard)?;
    }
    Ok(())
}
