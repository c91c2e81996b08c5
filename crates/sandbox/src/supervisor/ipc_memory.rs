//! Counts the memory that a command holds by System V IPC: shared memory, messages and semaphores.
//!
//! This memory belongs to no process, so that the sum over the processes misses it. The kernel lists it for the IPC
//! namespace of the process that opens the lists; so the init of the command opens them, and the server reads them.

#![cfg(target_os = "linux")]

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

/// The lists, and the bytes that one unit in each column stands for.
const LISTS: [(&str, &[(&str, u64)]); 3] = [
    ("/proc/sysvipc/shm", &[("rss", 1), ("swap", 1)]),
    // Each message has a header in the kernel, however short it is.
    ("/proc/sysvipc/msg", &[("cbytes", 1), ("qnum", 64)]),
    ("/proc/sysvipc/sem", &[("nsems", 64)]),
];

/// The most bytes that are read of a list: enough for as many lines as the kernel allows.
const LONGEST_LIST: usize = 8 * 1024 * 1024;

/// Opens the lists of the IPC namespace that this process is in.
pub(super) fn open_lists() -> rustix::io::Result<Vec<OwnedFd>> {
    let open = |(path, _): &(&str, _)| rustix::fs::open(*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    LISTS.iter().map(open).collect()
}

/// Returns the bytes of memory in the lists that [`open_lists`] opened.
pub(super) fn bytes_held(lists: &[OwnedFd]) -> u64 {
    let texts = lists.iter().map(read_list);
    texts
        .zip(LISTS)
        .map(|(text, (_, columns))| sum_columns(&text, columns))
        .sum()
}

fn read_list(list: &OwnedFd) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    while bytes.len() < LONGEST_LIST
        && let Ok(length @ 1..) = rustix::io::pread(list, &mut piece, bytes.len() as u64)
    {
        bytes.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds up the columns, which the first line names, each times its weight.
fn sum_columns(text: &str, columns: &[(&str, u64)]) -> u64 {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let weight = |name: &&str| columns.iter().find(|(column, _)| column == name).map_or(0, |one| one.1);
    let weights: Vec<u64> = names.iter().map(weight).collect();
    let value = |line: &str| -> u64 {
        let fields = line.split_whitespace().map(|field| field.parse().unwrap_or(0));
        fields
            .zip(&weights)
            .map(|(field, weight): (u64, &u64)| field.saturating_mul(*weight))
            .sum()
    };
    lines.map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "       key      shmid perms       size  cpid        rss       swap\n\
                    -1 0 600 8192 7 4096 100\n 0 1 600 8192 7 1 0\n";
        assert_eq!(sum_columns(text, LISTS[0].1), 4197);
        assert_eq!(
            sum_columns("key msqid perms cbytes qnum\n0 0 600 10 2\n", LISTS[1].1),
            138
        );
        assert_eq!(sum_columns("", LISTS[2].1), 0);
    }

    #[test]
    fn the_lists_of_this_kernel_have_these_columns() {
        for (list, (path, columns)) in open_lists().unwrap().iter().zip(LISTS) {
            let text = read_list(list);
            let head: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
            assert!(columns.iter().all(|(name, _)| head.contains(name)), "{path}: {head:?}");
        }
    }
}
