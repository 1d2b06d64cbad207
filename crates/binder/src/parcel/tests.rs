//! Tests layouts byte by byte, and reads arbitrary bytes.

use proptest::prelude::*;

use super::*;
use crate::exception;

fn bytes_of(write: impl FnOnce(&mut Parcel)) -> Vec<u8> {
    let mut parcel = Parcel::new();
    write(&mut parcel);
    parcel.data().to_vec()
}

#[test]
fn values_are_little_endian_and_at_least_four_bytes_long() {
    assert_eq!(bytes_of(|p| p.write_i32(-2)), [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(bytes_of(|p| p.write_u32(0x0102_0304)), [4, 3, 2, 1]);
    assert_eq!(bytes_of(|p| p.write_i64(-2)), [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(bytes_of(|p| p.write_u64(0x0102_0304_0506_0708)), [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes_of(|p| p.write_f32(1.0)), [0, 0, 0x80, 0x3f]);
    assert_eq!(bytes_of(|p| p.write_f64(1.0)), [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    assert_eq!(bytes_of(|p| p.write_bool(true)), [1, 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_byte(-1)), [0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn a_utf16_string_is_its_length_in_units_the_units_a_nul_and_padding() {
    assert_eq!(bytes_of(|p| p.write_string16("ab").unwrap()), [2, 0, 0, 0, b'a', 0, b'b', 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_string16("a").unwrap()), [1, 0, 0, 0, b'a', 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_string16("").unwrap()), [0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        bytes_of(|p| p.write_string16("😀").unwrap()),
        [2, 0, 0, 0, 0x3d, 0xd8, 0x00, 0xde, 0, 0, 0, 0],
        "two units outside the basic plane"
    );
    assert_eq!(bytes_of(|p| p.write_nullable_string16(None).unwrap()), [0xff; 4]);
}

#[test]
fn a_utf8_string_is_its_length_in_bytes_the_bytes_a_nul_and_padding() {
    assert_eq!(bytes_of(|p| p.write_string8("abc").unwrap()), [3, 0, 0, 0, b'a', b'b', b'c', 0]);
    assert_eq!(bytes_of(|p| p.write_string8("").unwrap()), [0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_nullable_string8(None).unwrap()), [0xff; 4]);
    assert_eq!(bytes_of(|p| p.write_c_string("abcd").unwrap()), [b'a', b'b', b'c', b'd', 0, 0, 0, 0]);
}

#[test]
fn a_vector_begins_with_its_length_in_items() {
    assert_eq!(bytes_of(|p| p.write_bytes(&[1, 2, 3, 4, 5]).unwrap()), [5, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_bytes(&[]).unwrap()), [0; 4]);
    assert_eq!(bytes_of(|p| p.write_nullable_bytes(None).unwrap()), [0xff; 4]);
    assert_eq!(bytes_of(|p| p.write_i32_vec(&[1, 2]).unwrap()), [2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes_of(|p| p.write_i64_vec(&[1]).unwrap()), [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        bytes_of(|p| p.write_string16_vec(&["a", ""]).unwrap()),
        [2, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn an_interface_token_has_the_layout_of_android_11() {
    let token = bytes_of(|p| p.write_interface_token("i").unwrap());
    assert_eq!(
        token,
        [0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff, b'T', b'S', b'Y', b'S', 1, 0, 0, 0, b'i', 0, 0, 0]
    );
}

#[test]
fn an_exception_carries_its_message_and_no_stack_trace() {
    assert_eq!(bytes_of(Parcel::write_no_exception), [0; 4]);
    assert_eq!(
        bytes_of(|p| p.write_exception(exception::SECURITY, "n").unwrap()),
        [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, b'n', 0, 0, 0, 0, 0, 0, 0]
    );
    let mut parcel = Parcel::new();
    parcel.write_exception(exception::SERVICE_SPECIFIC, "no").unwrap();
    let error = parcel.reader().read_exception().unwrap_err();
    assert_eq!(error.to_string(), "the service answered with its own error 0: no");
}

#[test]
fn a_null_binder_is_a_zeroed_object_that_is_not_listed() {
    for dialect in Dialect::ALL {
        let mut parcel = Parcel::in_dialect(dialect);
        parcel.write_nullable_binder(None);
        parcel.write_i32(42);
        assert_eq!(parcel.data()[..8], [0x85, b'*', b'b', b's', 0, 0, 0, 0]);
        assert_eq!(parcel.data()[8..24], [0; 16]);
        // A null binder has no stability (0). Android 12's stability word has a version.
        let stability: &[u8] = match dialect {
            Dialect::Android10 => &[],
            Dialect::Android12 => &[1, 0, 0, 0],
            _ => &[0, 0, 0, 0],
        };
        assert_eq!(parcel.data()[24..parcel.data().len() - 4], *stability, "{dialect:?}");
        assert!(parcel.offsets().is_empty());
        let mut reader = parcel.reader();
        assert!(reader.read_nullable_binder().unwrap().is_none());
        assert_eq!(reader.read_i32().unwrap(), 42);
    }
}

#[test]
fn a_token_of_another_interface_is_refused() {
    let mut parcel = Parcel::new();
    parcel.write_interface_token("one").unwrap();
    assert!(parcel.reader().check_interface("one").is_ok());
    for other in ["on", "ones", "two", ""] {
        assert_eq!(parcel.reader().check_interface(other), Err(crate::Status::Code(crate::status::BAD_TYPE)));
    }
    assert!(ParcelReader::new(&[0; 8], &[]).check_interface("one").is_err());
}

#[test]
fn an_object_that_no_offset_lists_is_refused() {
    let mut data = [0; 24];
    data[..4].copy_from_slice(&roundtrip_binder_driver::uapi::BINDER_TYPE_HANDLE.to_ne_bytes());
    data[8] = 7;
    let error = ParcelReader::new(&data, &[]).read_binder().unwrap_err();
    assert_eq!(error.to_string(), "cannot read a binder at byte 0 of a parcel: there is no object here");
}

#[test]
fn a_length_beyond_the_parcel_is_refused_before_anything_is_allocated() {
    let data = i32::MAX.to_le_bytes();
    assert!(ParcelReader::new(&data, &[]).read_bytes().is_err());
    assert!(ParcelReader::new(&data, &[]).read_i64_vec().is_err());
    assert!(ParcelReader::new(&data, &[]).read_string16().is_err());
    assert!(ParcelReader::new(&data, &[]).read_string16_vec().is_err());
    assert!(ParcelReader::new(&(-2i32).to_le_bytes(), &[]).read_bytes().is_err());
}

#[test]
fn only_payload_counts_as_copied() {
    let mut parcel = Parcel::new();
    parcel.write_interface_token("some.interface").unwrap();
    parcel.write_i64(1);
    assert_eq!(parcel.copied_bytes(), 0);
    parcel.write_bytes(&[0; 100]).unwrap();
    parcel.write_string8("ten bytes!").unwrap();
    assert_eq!(parcel.copied_bytes(), 110);
    parcel.clear();
    assert_eq!(parcel.copied_bytes(), 0);
}

/// Anything that a parcel can hold without a process.
#[derive(Clone, Debug)]
enum Item {
    I32(i32),
    U64(u64),
    F64(f64),
    Bool(bool),
    Byte(i8),
    String16(Option<String>),
    String8(Option<String>),
    Bytes(Option<Vec<u8>>),
    I32s(Vec<i32>),
    I64s(Vec<i64>),
    Strings(Vec<String>),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        any::<i32>().prop_map(Item::I32),
        any::<u64>().prop_map(Item::U64),
        any::<f64>().prop_map(Item::F64),
        any::<bool>().prop_map(Item::Bool),
        any::<i8>().prop_map(Item::Byte),
        any::<Option<String>>().prop_map(Item::String16),
        any::<Option<String>>().prop_map(Item::String8),
        any::<Option<Vec<u8>>>().prop_map(Item::Bytes),
        any::<Vec<i32>>().prop_map(Item::I32s),
        any::<Vec<i64>>().prop_map(Item::I64s),
        prop::collection::vec(any::<String>(), 0..5).prop_map(Item::Strings),
    ]
}

fn write(parcel: &mut Parcel, item: &Item) -> Result<(), Error> {
    match item {
        Item::I32(value) => parcel.write_i32(*value),
        Item::U64(value) => parcel.write_u64(*value),
        Item::F64(value) => parcel.write_f64(*value),
        Item::Bool(value) => parcel.write_bool(*value),
        Item::Byte(value) => parcel.write_byte(*value),
        Item::String16(text) => parcel.write_nullable_string16(text.as_deref())?,
        Item::String8(text) => parcel.write_nullable_string8(text.as_deref())?,
        Item::Bytes(bytes) => parcel.write_nullable_bytes(bytes.as_deref())?,
        Item::I32s(values) => parcel.write_i32_vec(values)?,
        Item::I64s(values) => parcel.write_i64_vec(values)?,
        Item::Strings(texts) => parcel.write_string16_vec(texts)?,
    }
    Ok(())
}

fn reads_back(reader: &mut ParcelReader<'_>, item: &Item) -> Result<bool, Error> {
    Ok(match item {
        Item::I32(value) => reader.read_i32()? == *value,
        Item::U64(value) => reader.read_u64()? == *value,
        Item::F64(value) => reader.read_f64()?.to_bits() == value.to_bits(),
        Item::Bool(value) => reader.read_bool()? == *value,
        Item::Byte(value) => reader.read_byte()? == *value,
        Item::String16(text) => reader.read_nullable_string16()? == *text,
        Item::String8(text) => reader.read_nullable_string8()? == *text,
        Item::Bytes(bytes) => reader.read_nullable_bytes()?.map(RawBytes::to_vec) == *bytes,
        Item::I32s(values) => reader.read_i32_vec()? == *values,
        Item::I64s(values) => reader.read_i64_vec()? == *values,
        Item::Strings(texts) => reader.read_string16_vec()? == *texts,
    })
}

proptest! {
    #[test]
    fn written_items_read_back_and_are_aligned(items in prop::collection::vec(item(), 0..12)) {
        let mut parcel = Parcel::new();
        for item in &items {
            write(&mut parcel, item).unwrap();
            prop_assert_eq!(parcel.data().len() % 4, 0);
        }
        let mut reader = parcel.reader();
        for item in &items {
            prop_assert!(reads_back(&mut reader, item).unwrap(), "{:?}", item);
        }
        prop_assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn a_truncated_parcel_is_an_error_and_never_panics(
        items in prop::collection::vec(item(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut parcel = Parcel::new();
        for item in &items {
            write(&mut parcel, item).unwrap();
        }
        let cut = cut.index(parcel.data().len());
        let mut reader = ParcelReader::new(&parcel.data()[..cut], &[]);
        let whole = items.iter().all(|item| reads_back(&mut reader, item).is_ok());
        // Only padding may be missing.
        prop_assert!(!whole || padded(cut) == parcel.data().len());
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        data in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..200),
        offsets in prop::collection::vec(any::<u8>(), 0..40),
        methods in prop::collection::vec(0..18u8, 1..20),
    ) {
        let mut reader = ParcelReader::new(&data, &offsets);
        for method in methods {
            let before = reader.position();
            match method {
                0 => drop(reader.read_i32()),
                1 => drop(reader.read_u32()),
                2 => drop(reader.read_i64()),
                3 => drop(reader.read_f32()),
                4 => drop(reader.read_f64()),
                5 => drop(reader.read_bool()),
                6 => drop(reader.read_byte()),
                7 => drop(reader.read_string16()),
                8 => drop(reader.read_string8()),
                9 => drop(reader.read_c_string()),
                10 => drop(reader.read_bytes()),
                11 => drop(reader.read_i32_vec()),
                12 => drop(reader.read_i64_vec()),
                13 => drop(reader.read_string16_vec()),
                14 => drop(reader.read_nullable_binder()),
                15 => drop(reader.check_interface("x")),
                16 => drop(reader.read_exception()),
                _ => drop(reader.read_u64()),
            }
            prop_assert!(before <= reader.position() && reader.position() <= data.len());
        }
    }
}
