//! Tests scatter-gather parcels with a fake driver, which copies the buffers and fixes up the
//! addresses in one block of memory.

use proptest::prelude::*;
use roundtrip_binder_driver::RawBytes;
use roundtrip_binder_driver::uapi::{BINDER_BUFFER_FLAG_HAS_PARENT, BufferObject, Field};

use super::*;
use crate::Error;
use crate::parcel::ParcelReader;

/// The area that buffers are copied into. It must not be reallocated.
type Area = Vec<u8>;
const AREA_BYTES: usize = 1 << 16;

/// Returns what the receiver gets: data, offsets, and the area with the buffers.
fn deliver(parcel: &mut HwParcel<'_>) -> (Vec<u8>, Vec<u8>, Area) {
    parcel.send(|outgoing| {
        let memory = outgoing.memory();
        let (mut data, offsets) = (memory.own[0].to_vec(), memory.own[1].to_vec());
        let mut area = Area::with_capacity(AREA_BYTES);
        let base = area.as_ptr().addr() as u64;
        let mut copies = Vec::new();
        for offset in offsets.chunks_exact(8).map(u64::take) {
            let at = offset as usize;
            let mut object = BufferObject::from_bytes(&data[at..]).unwrap();
            let copy = area.len();
            if let Some(bytes) = memory.bytes(object.buffer, object.length) {
                bytes.append_to(&mut area);
            }
            area.resize(area.len().next_multiple_of(8), 0);
            assert!(area.len() <= AREA_BYTES, "it would move");
            object.buffer = base + copy as u64;
            if object.flags & BINDER_BUFFER_FLAG_HAS_PARENT != 0 {
                let parent: usize = copies[object.parent as usize];
                let pointer = parent + object.parent_offset as usize;
                area[pointer..pointer + 8].copy_from_slice(&object.buffer.to_ne_bytes());
            }
            copies.push(copy);
            data[at..at + BufferObject::SIZE].copy_from_slice(&object.to_bytes());
        }
        (data, offsets, area)
    })
}

fn reader((data, offsets, area): &(Vec<u8>, Vec<u8>, Area)) -> HwReader<'_> {
    HwReader::new(ParcelReader::new(data, offsets), RawBytes::from(area))
}

#[test]
fn a_vector_is_a_header_and_an_embedded_buffer() {
    let payload = [7; 5];
    let mut parcel = HwParcel::new();
    parcel.write_no_exception();
    parcel.write_vec(&payload).unwrap();
    assert_eq!(parcel.copied_bytes(), 0, "the payload is sent without a copy");
    let header = BufferObject::from_bytes(&parcel.data()[4..]).unwrap();
    assert_eq!((header.flags, header.length), (0, 16));
    let bytes = BufferObject::from_bytes(&parcel.data()[44..]).unwrap();
    assert_eq!(bytes.buffer, payload.as_ptr().addr() as u64);
    assert_eq!((bytes.flags, bytes.length, bytes.parent, bytes.parent_offset), (1, 5, 0, 0));
    parcel.send(|outgoing| assert_eq!(outgoing.buffers_size(), Some(24)));
}

#[test]
fn a_buffer_at_offset_zero_is_refused() {
    let error = HwParcel::new().write_vec(&[1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write a buffer to a parcel: write an interface token or a status first"
    );
}

#[test]
fn an_address_in_a_parent_is_refused_if_no_child_is_listed_for_it() {
    let payload = [1, 2, 3, 4];
    let mut parcel = HwParcel::new();
    parcel.write_no_exception();
    parcel.write_vec(&payload).unwrap();
    let (data, offsets, area) = deliver(&mut parcel);
    let without_child = (data[..44].to_vec(), offsets[..8].to_vec(), area);
    let mut hw = reader(&without_child);
    hw.plain().read_i32().unwrap();
    let error = hw.read_vec().unwrap_err();
    assert_eq!(error.to_string(), "cannot read a buffer at byte 44 of a parcel: there is no object here");
}

#[test]
fn a_parent_that_points_elsewhere_is_refused() {
    let payload = [1, 2, 3, 4];
    let mut parcel = HwParcel::new();
    parcel.write_no_exception();
    parcel.write_vec(&payload).unwrap();
    let mut delivered = deliver(&mut parcel);
    delivered.2[0] ^= 8;
    let mut hw = reader(&delivered);
    hw.plain().read_i32().unwrap();
    assert!(matches!(hw.read_vec(), Err(Error::Malformed { problem: "its parent points elsewhere", .. })));
}

#[test]
fn buffers_beyond_the_borrowed_limit_are_copied_and_arrive() {
    let payloads: Vec<[u8; 3]> = (0..40).map(|value| [value; 3]).collect();
    let mut parcel = HwParcel::new();
    parcel.write_no_exception();
    for payload in &payloads {
        parcel.write_vec(payload).unwrap();
    }
    assert!(parcel.copied_bytes() > 0);
    let delivered = deliver(&mut parcel);
    let mut hw = reader(&delivered);
    hw.plain().read_i32().unwrap();
    for payload in &payloads {
        assert_eq!(hw.read_vec().unwrap(), payload);
    }
}

proptest! {
    #[test]
    fn written_items_read_back(
        bytes in any::<Vec<u8>>(),
        text in any::<String>(),
        texts in prop::collection::vec(any::<String>(), 0..6),
        value in any::<i32>(),
    ) {
        let mut parcel = HwParcel::new();
        parcel.write_interface_token("a@1.0::I").unwrap();
        parcel.write_vec(&bytes).unwrap();
        parcel.plain().write_i32(value);
        parcel.write_string(&text).unwrap();
        parcel.write_string_vec(&texts).unwrap();
        let delivered = deliver(&mut parcel);
        let mut hw = reader(&delivered);
        prop_assert!(hw.check_interface("a@1.0::I").is_ok());
        prop_assert_eq!(hw.read_vec().unwrap(), bytes);
        prop_assert_eq!(hw.plain().read_i32().unwrap(), value);
        prop_assert_eq!(hw.read_string().unwrap(), text);
        prop_assert_eq!(hw.read_string_vec().unwrap(), texts);
        prop_assert_eq!(hw.plain().remaining(), 0);
    }

    #[test]
    fn corrupt_bytes_never_panic_and_never_yield_bytes_outside_the_area(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
    ) {
        let mut parcel = HwParcel::new();
        parcel.write_no_exception();
        parcel.write_vec(&bytes).unwrap();
        parcel.write_string("text").unwrap();
        parcel.write_string_vec(&["a", "b"]).unwrap();
        let mut delivered = deliver(&mut parcel);
        for (at, change) in changes {
            let all = delivered.0.len() + delivered.1.len() + delivered.2.len();
            let at = at.index(all);
            let byte = delivered.0.iter_mut().chain(&mut delivered.1).chain(&mut delivered.2).nth(at);
            *byte.unwrap() ^= change;
        }
        let area = &delivered.2;
        let inside = |bytes: &[u8]| bytes.is_empty() || area.windows(bytes.len()).any(|part| part == bytes);
        let mut hw = reader(&delivered);
        let _ = hw.plain().read_i32();
        prop_assert!(hw.read_vec().map_or(true, |bytes| inside(&bytes.to_vec())));
        prop_assert!(hw.read_string().map_or(true, |text| inside(text.as_bytes())));
        prop_assert!(hw.read_string_vec().map_or(true, |texts| texts.iter().all(|text| inside(text.as_bytes()))));
    }
}
