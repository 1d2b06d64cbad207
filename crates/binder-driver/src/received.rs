//! What was received: bytes that others may change, and the buffer that they came in.
//!
//! A driver's area is memory that others write: the emulated driver's is mapped by every
//! participant of its context, and either driver fills a buffer anew once it was given back. So
//! nobody is handed a reference into it, but [`RawBytes`], which can only be copied out.

use std::cell::Cell;

use crate::uapi::TransactionData;
use crate::{Command, Commands, Driver, RawBytes};

/// A received transaction or reply, and its buffer in the driver's area, which belongs to the
/// receiver until it is given back. That happens once, at the latest when this value is dropped.
///
/// ```compile_fail
/// # fn twice(received: binder_driver::Received<'_>, commands: &mut binder_driver::Commands) {
/// received.free(commands);
/// received.free(commands); // It is gone.
/// # }
/// ```
///
/// ```compile_fail
/// # fn late(received: binder_driver::Received<'_>, commands: &mut binder_driver::Commands) {
/// let data = received.data().unwrap();
/// received.free(commands);
/// data.to_vec(); // The bytes are another's.
/// # }
/// ```
#[derive(Debug)]
pub struct Received<'d> {
    driver: &'d dyn Driver,
    /// The buffer's name, until it is given back.
    buffer: Cell<Option<u64>>,
    parts: Option<Parts<'d>>,
}

/// The parts of one that lies wholly in the area.
#[derive(Clone, Copy, Debug)]
struct Parts<'d> {
    area: RawBytes<'d>,
    data: RawBytes<'d>,
    offsets: RawBytes<'d>,
}

impl<'d> Received<'d> {
    /// Takes over what `driver` told of in `told`, which it did once.
    #[must_use]
    #[inline]
    pub fn take(driver: &'d dyn Driver, told: &TransactionData) -> Self {
        let area = driver.area();
        let part = |address, length| match length {
            0 => Some(RawBytes::empty()),
            length => area.part_at(address, length),
        };
        let data = part(told.buffer, told.data_size);
        let offsets = part(told.offsets, told.offsets_size);
        let parts = data.zip(offsets).map(|(data, offsets)| Parts { area, data, offsets });
        Self { driver, buffer: Cell::new(Some(told.buffer)), parts }
    }

    /// The data; `None` if the driver named bytes outside its area.
    #[must_use]
    #[inline]
    pub fn data(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.data)
    }

    /// Where objects lie in the data: native 64-bit words. `None` as for [`Received::data`].
    #[must_use]
    #[inline]
    pub fn offsets(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.offsets)
    }

    /// The driver's whole area, in which the scatter-gather buffers lie. `None` as for
    /// [`Received::data`].
    #[must_use]
    #[inline]
    pub fn area(&self) -> Option<RawBytes<'_>> {
        self.parts.map(|parts| parts.area)
    }

    /// Gives the buffer back with the next exchange, of which `commands` are a part, if it was not
    /// given back before: then this is false.
    ///
    /// The bytes can still be named by commands before this one, as by a reply that passes them on.
    /// Once the commands are handed over they are another's, and the kernel may have taken the
    /// memory back: see [`Driver::area`].
    #[inline]
    pub fn release(&self, commands: &mut Commands) -> bool {
        let Some(buffer) = self.buffer.take() else { return false };
        commands.push(Command::FreeBuffer(buffer));
        true
    }

    /// As [`Received::release`], for one whose bytes are not needed any more.
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
            // A driver that is out of order holds no buffers.
            let _ = self.driver.write_read(&mut commands, &[], None);
        }
    }
}
