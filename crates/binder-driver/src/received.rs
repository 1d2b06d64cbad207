//! What was received, as bytes of one's own, and the buffer that it came in.
//!
//! A driver's area is memory that others write: the emulated driver's is mapped by every participant of its context, and either
//! driver fills a buffer anew once it was given back. So nobody is handed a reference into it. [`Content`] copies a whole
//! transaction out once, before anything of it is looked at; [`Received`] also owns the buffer, and gives it back once.

use std::cell::{Cell, OnceCell, RefCell};

use crate::uapi::{BINDER_TYPE_PTR, BufferObject, Field as _, TransactionData};
use crate::{Command, Commands, Driver};

/// The bytes of one transaction or reply, copied out of the receiver's area: data and offsets, and the scatter-gather buffers
/// once somebody asks for one. It can be filled again, and then keeps the memory that it has.
#[derive(Debug, Default)]
pub struct Content {
    data: Vec<u8>,
    offsets: Vec<u8>,
    buffers: OnceCell<Buffers>,
    /// Memory for the next buffers.
    room: RefCell<Vec<u8>>,
}

/// Scatter-gather buffers, which lie behind each other.
#[derive(Debug)]
struct Buffers {
    bytes: Vec<u8>,
    /// Where the first lies in the area.
    at: u64,
}

impl Content {
    /// Content that somebody has put together; scatter-gather buffers are copied from `driver`'s area.
    #[must_use]
    pub fn of(data: Vec<u8>, offsets: Vec<u8>, driver: &dyn Driver) -> Self {
        let content = Self { data, offsets, ..Self::default() };
        content.buffers.get_or_init(|| content.gather(driver));
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
        }
        copied
    }

    fn clear(&mut self) {
        self.data.clear();
        self.offsets.clear();
        if let Some(Buffers { mut bytes, .. }) = self.buffers.take() {
            bytes.clear();
            self.room.replace(bytes);
        }
    }

    /// Copies all scatter-gather buffers at once. What the objects say is not to be trusted, so the driver checks that it lies in
    /// the area; if it does not, no buffer is here.
    fn gather(&self, driver: &dyn Driver) -> Buffers {
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
        let mut bytes = self.room.take();
        let gathered = first < end && driver.append_received(first, end - first, &mut bytes);
        Buffers { bytes, at: if gathered { first } else { 0 } }
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

    /// How many bytes were copied so far.
    #[must_use]
    #[inline]
    pub fn copied_bytes(&self) -> usize {
        let buffers = self.buffers.get().map_or(0, |buffers| buffers.bytes.len());
        self.data.len() + self.offsets.len() + buffers
    }

    /// The bytes of a scatter-gather buffer, by the address and length in its object; `None` for what is no such buffer. The
    /// first call copies them all from the area of `driver`, which this content came from.
    #[must_use]
    pub fn buffer(&self, driver: &dyn Driver, address: u64, length: u64) -> Option<&[u8]> {
        let Buffers { bytes, at } = self.buffers.get_or_init(|| self.gather(driver));
        let start = usize::try_from(address.checked_sub(*at)?).ok()?;
        bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
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
    /// There until it is taken for the next.
    content: Option<Box<Content>>,
    complete: bool,
}

impl<'d> Received<'d> {
    /// Takes over what `driver` told of in `told`, which it did once. `room` is memory to use for it.
    #[must_use]
    #[inline]
    pub fn take(driver: &'d dyn Driver, told: &TransactionData, room: Box<Content>) -> Self {
        let mut content = room;
        let complete = content.copy(driver, told);
        Self { driver, buffer: Cell::new(Some(told.buffer)), content: Some(content), complete }
    }

    /// Its bytes; `None` when the driver told of some outside its area.
    #[must_use]
    #[inline]
    pub fn content(&self) -> Option<&Content> {
        self.content.as_deref().filter(|_| self.complete)
    }

    /// Gives the buffer back with the next exchange, of which `commands` are a part, if it was not given back before: then this
    /// is false. The bytes stay, but for scatter-gather buffers that nobody has asked for.
    #[inline]
    pub fn release(&self, commands: &mut Commands) -> bool {
        let Some(buffer) = self.buffer.take() else { return false };
        commands.push(Command::FreeBuffer(buffer));
        if let Some(content) = self.content.as_deref().filter(|content| !content.offsets.is_empty()) {
            content.buffers.get_or_init(|| Buffers { bytes: content.room.take(), at: 0 });
        }
        true
    }

    /// As [`Received::release`], for one whose bytes are not needed any more. Returns the memory for the next.
    #[inline]
    pub fn free(mut self, commands: &mut Commands) -> Box<Content> {
        self.release(commands);
        self.content.take().unwrap_or_default()
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
