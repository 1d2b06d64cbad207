//! Reads arbitrary bytes as a received parcel, with an arbitrary sequence of reads. No read may
//! panic, go backwards or go beyond the end. A string or vector must not be longer than the bytes
//! that it was read from.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roundtrip_binder::ParcelReader;

fuzz_target!(|input: (&[u8], &[u8], Vec<u8>)| {
    let (data, offsets, reads) = input;
    let mut reader = ParcelReader::new(data, offsets);
    for read in reads {
        let before = reader.position();
        let room = reader.remaining();
        let taken: Option<usize> = match read % 18 {
            0 => reader.read_i32().ok().map(|_| 4),
            1 => reader.read_u32().ok().map(|_| 4),
            2 => reader.read_i64().ok().map(|_| 8),
            3 => reader.read_u64().ok().map(|_| 8),
            4 => reader.read_f32().ok().map(|_| 4),
            5 => reader.read_f64().ok().map(|_| 8),
            6 => reader.read_bool().ok().map(|_| 4),
            7 => reader.read_byte().ok().map(|_| 4),
            8 => reader.read_string16().ok().map(|text| text.encode_utf16().count() * 2),
            9 => reader.read_nullable_string16().ok().flatten().map(|text| text.encode_utf16().count() * 2),
            10 => reader.read_string8().ok().map(|text| text.len()),
            11 => reader.read_nullable_string8().ok().flatten().map(|text| text.len()),
            12 => reader.read_c_string().ok().map(|text| text.len()),
            13 => reader.read_bytes().ok().map(|bytes| bytes.len()),
            14 => reader.read_nullable_bytes().ok().flatten().map(|bytes| bytes.len()),
            15 => reader.read_i32_vec().ok().map(|values| values.len() * 4),
            16 => reader.read_i64_vec().ok().map(|values| values.len() * 8),
            _ => {
                // A parcel that was not received has no process, so reading an object must fail.
                let _ = reader.read_nullable_binder();
                let _ = reader.check_interface("roundtrip.IFuzz");
                let _ = reader.read_exception();
                let _ = reader.read_string16_vec();
                None
            }
        };
        assert!(reader.position() >= before, "read {read} went backwards");
        assert!(
            reader.position() + reader.remaining() == data.len(),
            "read {read}: position and remaining bytes do not add up"
        );
        assert!(
            taken.is_none_or(|taken| taken <= room),
            "read {read} returned more bytes than the parcel had left"
        );
    }
});
