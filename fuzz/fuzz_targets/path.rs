//! Feeds arbitrary bytes to the path parser. What must hold is written in `garret_testkit::fuzz::path`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| garret_testkit::fuzz::path(data));
