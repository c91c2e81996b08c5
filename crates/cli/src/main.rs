//! The command line of Garret.
fn main() {}
