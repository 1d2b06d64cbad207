//! Reads arbitrary text as the output of strace. The reader must not panic, and must return at most
//! one system call for each line.

#![no_main]

use bench::storage::SystemCall;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, i64, &str)| {
    let (tid, boot_less_real_ns, text) = input;
    let calls = SystemCall::parse(text, tid, boot_less_real_ns);
    assert!(calls.len() <= text.lines().count());
});
