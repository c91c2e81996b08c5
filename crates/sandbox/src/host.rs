//! No isolation, for people who ask for it by name.
