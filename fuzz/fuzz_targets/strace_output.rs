//! Reads arbitrary text as the output of strace. The reader must not panic, and must return at most
//! one system call for each line.

#![no_main]

#[path = "../../crates/bench/src/storage/system_call.rs"]
mod system_call;

use libfuzzer_sys::fuzz_target;
use system_call::SystemCall;

fuzz_target!(|input: (u32, i64, &str)| {
    let (tid, boot_less_real_ns, text) = input;
    let calls = SystemCall::parse(text, tid, boot_less_real_ns);
    assert!(calls.len() <= text.lines().count());
});
