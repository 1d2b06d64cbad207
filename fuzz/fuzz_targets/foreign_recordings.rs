//! Reads arbitrary bytes as a recording of another tool: Perfetto's, trace-cmd's, or the kernel's
//! text. The reader must end and return its events in order.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// The start of each format, so that the fuzzer need not find it.
const HEADS: [&[u8]; 4] =
    [b"", b"\x0a", b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0", b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0"];

fuzz_target!(|input: (u8, &[u8])| {
    let (form, bytes) = input;
    let head = HEADS[usize::from(form) % HEADS.len()];
    let Ok(foreign) = roundtrip_foreign::read(&[head, bytes].concat()) else { return };
    assert!(foreign.trace.events.is_sorted_by_key(|event| event.time_ns), "events out of order");
    assert!(
        foreign.trace.losses.iter().all(|loss| loss.after_ns <= loss.before_ns),
        "a loss that ends first"
    );
});
