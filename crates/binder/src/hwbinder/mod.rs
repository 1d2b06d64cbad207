//! Scatter-gather parcels: the data lists buffers (`BINDER_TYPE_PTR`) instead of containing them.
//!
//! The driver copies each listed buffer into the receiver's area. It writes the new address into
//! the buffer's object and, for an embedded buffer, into its parent. Vectors and strings have
//! libhidl's layout.

mod handle;
mod parcel;
mod reader;

pub use handle::NativeHandle;
pub(crate) use parcel::HwStore;
pub use parcel::{BufferIndex, HwParcel};
pub use reader::HwReader;

/// The size of a `hidl_vec` or `hidl_string` in memory: the address of its items, which the driver
/// fills in; the number of items; a flag that says whether the receiver owns the items, always 0;
/// padding.
const VECTOR_SIZE: usize = 16;

/// The offset of the address of the items in a `hidl_vec` or `hidl_string`.
const VECTOR_POINTER: u64 = 0;
/// The offset of the number of items.
const VECTOR_LENGTH: usize = 8;

fn vector_header(length: u32) -> [u8; VECTOR_SIZE] {
    let mut header = [0; VECTOR_SIZE];
    header[8..12].copy_from_slice(&length.to_ne_bytes());
    header
}

#[cfg(test)]
mod tests;
