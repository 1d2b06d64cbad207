//! Scatter-gather parcels: data that names memory (`BINDER_TYPE_PTR`) instead of holding it.
//!
//! The driver copies each named buffer from where it lies into the receiver's area, and writes its
//! new address into the object and, for an embedded buffer, into its parent. The layouts of vectors
//! and strings are libhidl's.

mod handle;
mod parcel;
mod reader;

pub use handle::NativeHandle;
pub(crate) use parcel::HwStore;
pub use parcel::{BufferIndex, HwParcel};
pub use reader::HwReader;

/// A `hidl_vec` or `hidl_string` as it lies in memory: the address of its bytes (the driver's to
/// fill in), the number of its items, whether the receiver owns them (never), padding.
const VECTOR_SIZE: usize = 16;

/// Where in a `hidl_vec` or `hidl_string` the address of its bytes lies: its first word.
const VECTOR_POINTER: u64 = 0;
/// The offset of the number of its items.
const VECTOR_LENGTH: usize = 8;

fn vector_header(length: u32) -> [u8; VECTOR_SIZE] {
    let mut header = [0; VECTOR_SIZE];
    header[8..12].copy_from_slice(&length.to_ne_bytes());
    header
}

#[cfg(test)]
mod tests;
