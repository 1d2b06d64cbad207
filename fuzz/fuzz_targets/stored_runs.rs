//! Reads arbitrary bytes as a stored run. Reading must end after a number of steps that grows with
//! the bytes, and an error is one line.

#![no_main]

#[path = "../steps.rs"]
mod steps;

use libfuzzer_sys::fuzz_target;
use roundtrip_run::Run;

/// The most steps for each byte.
const EACH: u64 = 300;

/// The start of a run, so that the fuzzer need not find it.
const HEADS: [&str; 3] =
    ["", "{\"schema\":\"roundtrip.run\",\"version\":1,", "{\"schema\":\"roundtrip.run\","];

fuzz_target!(|input: (u8, &[u8])| {
    let (head, bytes) = input;
    let bytes = [HEADS[usize::from(head) % HEADS.len()].as_bytes(), bytes].concat();
    let read = steps::linear(bytes.len(), EACH, || roundtrip_stored::read_text::<Run>(&bytes));
    if let Err(error) = read {
        assert!(!error.to_string().contains('\n'), "an error of several lines: {error}");
    }
});
