//! The driver's binary interface: numbers and layouts, as in the kernel's
//! `include/uapi/linux/android/binder.h`.
//!
//! 64-bit layouts only (`binder_uintptr_t` and `binder_size_t` are 8 bytes, protocol version 8),
//! native byte order. Nothing here talks to a driver, and nothing here is unsafe: every layout is
//! encoded and decoded field by field, and its length is asserted against the header's.

mod flags;
mod layouts;
mod words;

pub use flags::*;
pub use layouts::*;
pub use words::*;

/// The protocol version that a 64-bit driver answers to `BINDER_VERSION`.
pub const PROTOCOL_VERSION: i32 = 8;

/// Rounds up to the 8 bytes that the driver aligns offsets and PTR buffers to.
/// `None` when the result does not fit.
#[must_use]
pub fn align8(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(7)? & !7)
}

#[cfg(test)]
mod tests;
