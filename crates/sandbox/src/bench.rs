//! The directories that layers lie over.
