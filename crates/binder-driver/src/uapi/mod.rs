//! The driver's binary interface: numbers and layouts, as in the kernel's
//! `include/uapi/linux/android/binder.h`.
//!
//! The layouts are the 64-bit ones (`binder_uintptr_t` and `binder_size_t` are 8 bytes, protocol
//! version 8), in native byte order. Nothing here talks to a driver, and nothing here is unsafe:
//! every layout is encoded and decoded field by field, and its length is asserted to equal that in
//! the header.

mod flags;
mod layouts;
mod words;

pub use flags::*;
pub use layouts::*;
pub use words::*;

/// The protocol version that a 64-bit driver reports (`BINDER_VERSION`).
pub const PROTOCOL_VERSION: i32 = 8;

/// Rounds up to a multiple of 8 bytes, the driver's alignment of offsets and PTR buffers. `None` if
/// the result does not fit into 64 bits.
#[must_use]
pub fn align8(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(7)? & !7)
}

#[cfg(test)]
mod tests;
