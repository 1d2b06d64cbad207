//! Opens arbitrary bytes as a packed recording. Opening must end, within the limits, and an error
//! is one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roundtrip_foreign::{Input, Limits};

/// The start of each packing, so that the fuzzer need not find it.
const HEADS: [&[u8]; 8] = [
    b"",
    b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
    b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46",
    b"\x28\xb5\x2f\xfd",
    b"PK\x03\x04",
    b"\xff\xfe",
    b"capturing trace... done\r\nTRACE:\r\n\x78\x9c",
    b"<!DOCTYPE html>\n",
];

const LIMITS: Limits =
    Limits { file_bytes: 1 << 20, unpacked_bytes: 1 << 22, ratio: 100, members: 20, nesting: 3 };

fuzz_target!(|input: (u8, &[u8])| {
    let (packing, bytes) = input;
    let bytes = [HEADS[usize::from(packing) % HEADS.len()], bytes].concat();
    let input = Input::memory(&bytes);
    if let Err(error) = roundtrip_foreign::read_within(input, &LIMITS) {
        assert!(!error.to_string().contains('\n'), "an error of several lines: {error}");
    }
    roundtrip_foreign::holds_recording(input, &LIMITS);
});
