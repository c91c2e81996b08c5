//! Storages of Garret that do I/O: files in a local directory.
