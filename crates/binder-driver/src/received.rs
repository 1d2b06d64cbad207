//! What was received, as bytes of one's own, and the buffer that it came in.
//!
//! A driver's area is memory that others write: the emulated driver's is mapped by every participant of its context, and either
//! driver fills a buffer anew once it was given back. So nobody is handed a reference into it. [`Content`] copies a whole
//! transaction out once, before anything of it is looked at; [`Received`] also owns the buffer, and gives it back once.

use std::cell::Cell;

use crate::uapi::{BINDER_TYPE_PTR, BufferObject, Field as _, TransactionData};
use crate::{Command, Commands, Driver};

/// The bytes of one transaction or reply, copied out of the receiver's area: data, offsets and scatter-gather buffers. It can
/// be filled again, and then keeps the memory that it has.
#[derive(Debug, Default)]
pub struct Content {
    data: Vec<u8>,
    offsets: Vec<u8>,
    buffers: Vec<u8>,
    /// Where the first of `buffers` lies in the area.
    buffers_at: u64,
}

impl Content {
    /// Content that somebody has put together; scatter-gather buffers are copied from `driver`'s area.
    #[must_use]
    pub fn of(data: Vec<u8>, offsets: Vec<u8>, driver: &dyn Driver) -> Self {
        let mut content = Self { data, offsets, ..Self::default() };
        content.gather(driver);
        content
    }

    /// Takes over what the driver told of, in the place of what was here. False, and nothing is here, when it told of bytes
    /// outside its area.
    #[must_use]
    pub fn copy(&mut self, driver: &dyn Driver, told: &TransactionData) -> bool {
        self.clear();
        let append = |address, length, into| length == 0 || driver.append_received(address, length, into);
        let copied = append(told.buffer, told.data_size, &mut self.data)
            && append(told.offsets, told.offsets_size, &mut self.offsets);
        if !copied {
            self.clear();
        } else if !self.offsets.is_empty() {
            self.gather(driver);
        }
        copied
    }

    fn clear(&mut self) {
        self.data.clear();
        self.offsets.clear();
        self.buffers.clear();
    }

    /// Copies all scatter-gather buffers at once: they lie behind each other. What the objects say is not to be trusted, so the
    /// driver checks that it lies in the area; if it does not, no buffer is here.
    fn gather(&mut self, driver: &dyn Driver) {
        let (mut first, mut end) = (u64::MAX, 0);
        for offset in self.offsets.chunks_exact(8).map(u64::take) {
            let object = usize::try_from(offset).ok().and_then(|offset| self.data.get(offset..));
            let object = object.and_then(BufferObject::from_bytes);
            let Some(object) = object.filter(|object| object.kind == BINDER_TYPE_PTR && object.length > 0)
            else {
                continue;
            };
            first = first.min(object.buffer);
            end = end.max(object.buffer.saturating_add(object.length));
        }
        if first < end && driver.append_received(first, end - first, &mut self.buffers) {
            self.buffers_at = first;
        }
    }

    /// The data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Where objects lie in the data: native 64-bit words.
    #[must_use]
    pub fn offsets(&self) -> &[u8] {
        &self.offsets
    }

    /// The bytes of a scatter-gather buffer, by the address and length in its object; `None` for what is no such buffer.
    #[must_use]
    pub fn buffer(&self, address: u64, length: u64) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(self.buffers_at)?).ok()?;
        self.buffers.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }
}

/// A received transaction or reply: its bytes, and its buffer in the driver's area, which belongs to the receiver until it is
/// given back. That happens once, at the latest when this value is dropped.
///
/// ```compile_fail
/// # fn twice(received: binder_driver::Received<'_>, commands: &mut binder_driver::Commands) {
/// received.free(commands);
/// received.free(commands); // It is gone.
/// # }
/// ```
#[derive(Debug)]
pub struct Received<'d> {
    driver: &'d dyn Driver,
    /// The buffer's name, until it is given back.
    buffer: Cell<Option<u64>>,
    content: Content,
    complete: bool,
}

impl<'d> Received<'d> {
    /// Takes over what `driver` told of in `told`, which it did once. `room` is memory to use for it.
    #[must_use]
    pub fn take(driver: &'d dyn Driver, told: &TransactionData, mut room: Content) -> Self {
        let complete = room.copy(driver, told);
        Self { driver, buffer: Cell::new(Some(told.buffer)), content: room, complete }
    }

    /// Its bytes; `None` when the driver told of some outside its area.
    #[must_use]
    pub fn content(&self) -> Option<&Content> {
        self.complete.then_some(&self.content)
    }

    /// Gives the buffer back with the next exchange, of which `commands` are a part. The bytes stay.
    pub fn release(&self, commands: &mut Commands) {
        if let Some(buffer) = self.buffer.take() {
            commands.push(Command::FreeBuffer(buffer));
        }
    }

    /// As [`Received::release`], for one whose bytes are not needed any more. Returns the memory for the next.
    pub fn free(mut self, commands: &mut Commands) -> Content {
        self.release(commands);
        std::mem::take(&mut self.content)
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        let mut commands = Commands::default();
        self.release(&mut commands);
        if !commands.is_empty() {
            // A driver that is out of order holds no buffers.
            let _ = self.driver.write_read(&mut commands, &[], None);
        }
    }
}
