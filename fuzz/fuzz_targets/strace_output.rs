//! Arbitrary text as what strace wrote. Whatever it is, nothing may panic, and no line is more than
//! one system call.

#![no_main]

use bench::storage::SystemCall;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, i64, &str)| {
    let (tid, boot_less_real_ns, text) = input;
    let calls = SystemCall::parse(text, tid, boot_less_real_ns);
    assert!(calls.len() <= text.lines().count());
});
