//! Finding files by name and by content, with one meaning on every storage.
