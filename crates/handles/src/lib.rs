//! Files beneath directory handles, for every crate that reaches files of the host: the storage `local`, the sandbox,
//! and import and export.
//!
//! A path of several names is opened only by `openat2` beneath a directory that the caller holds ([`open_beneath`]);
//! everything else takes a handle and one name. Nothing here follows a symbolic link, except
//! [`open_through_links`], which the kernel keeps inside the directory. The content of a tree may come from a hostile
//! program, so [`remove_tree`] and [`HandleTree`] survive any name, depth and mode.
//!
//! The crate knows no workspace and no policy. Errors are those of the system ([`Errno`](rustix::io::Errno)): the
//! callers know which path to name.

mod beneath;
mod blocking;
mod directory_names;
mod entry_handle;
mod handle_tree;
mod tree_removal;

pub use beneath::{
    GENTLY, MAX_PATH_BYTES, open_across_mounts, open_beneath, open_child, open_through_links, stat_beneath, stat_entry,
};
pub use blocking::{run_blocking, run_on_own_thread};
pub use directory_names::{for_each_name, list_names, list_names_up_to};
pub use entry_handle::{create_file, force_mode, open_path_handle, path_of_handle, set_mode, write_all};
pub use handle_tree::{HandleTree, prefixes};
pub use tree_removal::{remove_tree, remove_tree_in_pieces};
