//! Feeds arbitrary bytes to the tool arguments. What must hold is written in `garret_testkit::fuzz::tool_args`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| garret_testkit::fuzz::tool_args(data));
