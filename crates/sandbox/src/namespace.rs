//! The sandbox of the Linux kernel.
