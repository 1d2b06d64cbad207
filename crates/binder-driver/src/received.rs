//! [`Received`]: received bytes, which other processes may change, and their buffer.
//!
//! A driver's area may change at any time: every participant of an emulated context maps it, and
//! both drivers reuse freed buffers. Users therefore get no references, only [`RawBytes`], which
//! can only be copied out.

use std::cell::Cell;

use crate::uapi::TransactionData;
use crate::{Command, Commands, Driver, RawBytes};

/// A received transaction or reply, which owns its buffer in the driver's area. The buffer is freed
/// exactly once: explicitly, or when this value is dropped.
///
/// ```compile_fail
/// # use roundtrip_binder_driver::{Commands, Received};
/// # fn twice(received: Received<'_>, commands: &mut Commands) {
/// received.free(commands);
/// received.free(commands); // It is gone.
/// # }
/// ```
///
/// ```compile_fail
/// # use roundtrip_binder_driver::{Commands, Received};
/// # fn late(received: Received<'_>, commands: &mut Commands) {
/// let data = received.data().unwrap();
/// received.free(commands);
/// data.to_vec(); // The bytes are another's.
/// # }
/// ```
#[derive(Debug)]
pub struct Received<'d> {
    driver: &'d dyn Driver,
    /// The buffer's address, until it is freed.
    buffer: Cell<Option<u64>>,
    parts: Option<Parts<'d>>,
}

/// The parts of a transaction that is completely inside the area.
#[derive(Clone, Copy, Debug)]
struct Parts<'d> {
    area: RawBytes<'d>,
    data: RawBytes<'d>,
    offsets: RawBytes<'d>,
}

impl<'d> Received<'d> {
    /// Takes ownership of the buffer of `transaction`, a transaction or reply that `driver`
    /// returned. Call this only once for each transaction or reply.
    #[must_use]
    #[inline]
    pub fn take(driver: &'d dyn Driver, transaction: &TransactionData) -> Self {
        let area = driver.area();
        let part = |address, length| match length {
            0 => Some(RawBytes::empty()),
            length => area.part_at(address, length),
        };
        let data = part(transaction.buffer, transaction.data_size);
        let offsets = part(transaction.offsets, transaction.offsets_size);
        let parts = data.zip(offsets).map(|(data, offsets)| Parts { area, data, offsets });
        Self { driver, buffer: Cell::new(Some(transaction.buffer)), parts }
    }

    /// The data; `None` if data or offsets are outside the driver's area.
    #[must_use]
    #[inline]
    pub fn data(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.data)
    }

    /// The offsets of objects in the data, as native 64-bit words. `None` as for
    /// [`Received::data`].
    #[must_use]
    #[inline]
    pub fn offsets(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.offsets)
    }

    /// The driver's whole area, which contains the scatter-gather buffers. `None` as for
    /// [`Received::data`].
    #[must_use]
    #[inline]
    pub fn area(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.area)
    }

    /// Queues the command that frees the buffer in `commands`. Returns false if this was done
    /// before.
    ///
    /// Commands queued before this one may still refer to the bytes, for example a reply that
    /// passes them on. After the exchange the driver may reuse or unmap the memory: see
    /// [`Driver::area`].
    #[inline]
    pub fn release(&self, commands: &mut Commands) -> bool {
        let Some(buffer) = self.buffer.take() else { return false };
        commands.push(Command::FreeBuffer(buffer));
        true
    }

    /// Like [`Received::release`], but consumes this value.
    #[inline]
    pub fn free(self, commands: &mut Commands) {
        self.release(commands);
    }
}

impl Drop for Received<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.buffer.get().is_some() {
            let mut commands = Commands::default();
            self.release(&mut commands);
            // A failed driver has no buffers to free.
            let _ = self.driver.write_read(&mut commands, &[], None);
        }
    }
}
