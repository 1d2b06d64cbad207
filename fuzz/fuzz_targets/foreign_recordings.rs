//! Reads arbitrary bytes as a recording of another tool: Perfetto's, trace-cmd's, or the kernel's
//! text. The reader must end, after a number of steps that grows with the bytes, and return its
//! events in order.

#![no_main]

#[path = "../steps.rs"]
mod steps;

use libfuzzer_sys::fuzz_target;

/// The most steps for each byte.
const EACH: u64 = 3000;

/// The start of each format, so that the fuzzer need not find it.
const HEADS: [&[u8]; 4] =
    [b"", b"\x0a", b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0", b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0"];

fuzz_target!(|input: (u8, &[u8])| {
    let (form, bytes) = input;
    let head = HEADS[usize::from(form) % HEADS.len()];
    let bytes = [head, bytes].concat();
    let Ok(foreign) = steps::linear(bytes.len(), EACH, || roundtrip_foreign::read(&bytes)) else { return };
    assert!(foreign.trace.events.is_sorted_by_key(|event| event.time_ns), "events out of order");
    assert!(
        foreign.trace.losses.iter().all(|loss| loss.after_ns <= loss.before_ns),
        "a loss that ends first"
    );
});
