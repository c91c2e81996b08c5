//! The small program that stays inside an open sandbox and starts commands there.
