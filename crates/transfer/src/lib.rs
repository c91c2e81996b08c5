//! Import and export of workspaces.
//!
//! A workspace with its history goes into one portable file and comes back from it ([`export_workspace`],
//! [`import_workspace`]). Plain files come from a directory of the host or a tar archive, and go there
//! ([`import_tree`], [`import_files`], [`export_tree`], [`export_storage`]). The crate reads and writes the depot only
//! through [`garret_depot::transfer`]; it knows neither its database nor how content is stored.

mod archive;
mod error;
mod portable;
mod progress;
mod trees;

pub use portable::{
    ExportExtent, ExportReport, ImportReport, Manifest, export_workspace, import_workspace, read_portable_manifest,
};
pub use progress::{Progress, ProgressWatcher};
pub use trees::{
    Compression, SkippedEntry, TreeSource, TreeTarget, TreeTransferReport, export_storage, export_tree, import_files,
    import_tree,
};
