//! Times of files, in the form that the kernel takes.

#![cfg(target_os = "linux")]

use garret_core::Timestamp;
use rustix::fs::{Timespec, Timestamps};

/// Returns timestamps with this time of modification; the access time is set to the same.
pub(crate) fn modification_times(modified: Timestamp) -> Timestamps {
    same_times(to_timespec(modified))
}

pub(crate) fn same_times(time: Timespec) -> Timestamps {
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

pub(crate) fn to_timespec(time: Timestamp) -> Timespec {
    let nanoseconds = time.as_nanosecond();
    Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000) as _,
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    }
}
