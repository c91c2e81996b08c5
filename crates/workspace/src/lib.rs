//! The workspace: one tree of files, and what may be done there.
