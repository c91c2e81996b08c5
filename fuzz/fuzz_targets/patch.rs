//! Feeds arbitrary bytes to the patch parser. What must hold is written in `garret_testkit::fuzz::patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| garret_testkit::fuzz::patch(data));
