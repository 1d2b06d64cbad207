//! Buffers: which part of a process's receive area is in use, and for what.
//!
//! Follows the kernel's `binder_alloc.c`. Buffers tile the used part of the area in address order.
//! A free buffer is split on use and merged with its free neighbours when it is returned. The
//! smallest one that fits is taken. Oneway transactions may use half of the area in total.

use rustix::io::Errno;

use crate::lock::Guard;
use crate::records::{AREA_BYTES, Buffer, Id, Process, buffer, process, start_word};
use roundtrip_binder_driver::uapi::align8;

/// The sizes of a transaction's parts.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Bytes of data.
    pub(crate) data: u64,
    /// Bytes of offsets.
    pub(crate) offsets: u64,
    /// Bytes of scatter-gather buffers.
    pub(crate) extra: u64,
}

impl Sizes {
    /// The total, each part aligned to 8; at least 8. `None` on overflow.
    fn total(self) -> Option<u64> {
        let total =
            align8(self.data)?.checked_add(align8(self.offsets)?)?.checked_add(align8(self.extra)?)?;
        Some(total.max(8))
    }
}

impl Guard<'_> {
    /// Makes the whole area of a new process one free buffer.
    pub(crate) fn open_area(&mut self, owner: Id<Process>, bytes: u64) -> Result<(), Errno> {
        debug_assert!(bytes.is_multiple_of(8) && bytes <= AREA_BYTES as u64);
        let whole = self.alloc::<Buffer>()?;
        self.set(whole, buffer::PROCESS, Some(owner));
        self.set(whole, buffer::SIZE, bytes);
        self.link_front(process::BUFFERS.of(owner), whole, buffer::NEXT, buffer::PREV);
        self.add_free(owner, whole);
        self.set(owner, process::AREA, bytes);
        self.set(owner, process::ASYNC_FREE, bytes / 2);
        Ok(())
    }

    /// A buffer in `owner`'s area.
    ///
    /// # Errors
    /// ENOSPC when the area (or the share of oneway transactions) is full, EINVAL when the sizes
    /// overflow.
    pub(crate) fn alloc_buffer(
        &mut self,
        owner: Id<Process>,
        sizes: Sizes,
        oneway_from: Option<u32>,
    ) -> Result<Id<Buffer>, Errno> {
        let is_async = oneway_from.is_some();
        let total = sizes.total().ok_or(Errno::INVAL)?;
        let async_free = self.get(owner, process::ASYNC_FREE);
        if is_async && async_free < total {
            return Err(Errno::NOSPC);
        }
        let taken = self.best_fit(owner, total).ok_or(Errno::NOSPC)?;
        let size = self.get(taken, buffer::SIZE);
        self.remove_free(owner, taken);
        if size > total {
            self.split(owner, taken, total)?;
        }
        let offset = self.get(taken, buffer::OFFSET);
        self.set_word(start_word(owner, offset), taken.index() as u64);
        self.init(taken, buffer::DATA_SIZE, sizes.data);
        self.init(taken, buffer::OFFSETS_SIZE, sizes.offsets);
        self.init(taken, buffer::IS_ASYNC, is_async);
        self.init(taken, buffer::TRANSACTION, None);
        self.init(taken, buffer::TARGET, None);
        self.init(taken, buffer::USER_MAY_FREE, false);
        self.init(taken, buffer::CLEAR, false);
        self.init(taken, buffer::OBJECTS, 0);
        if let Some(sender) = oneway_from {
            let left = async_free.saturating_sub(total);
            self.set(owner, process::ASYNC_FREE, left);
            self.init(taken, buffer::SENDER, sender);
            let suspect = self.suspect_spam(owner, sender, left);
            self.init(taken, buffer::SUSPECT, suspect);
        }
        Ok(taken)
    }

    /// Whether process `sender` is probably why oneway transactions have only `left` bytes left. As
    /// the kernel's `debug_low_async_space_locked`: checked when less than a tenth of the area is
    /// left, true for more than 50 buffers or a quarter of the area, and only once until there is
    /// space again.
    fn suspect_spam(&mut self, owner: Id<Process>, sender: u32, left: u64) -> bool {
        let area = self.get(owner, process::AREA);
        let found = self.get(owner, process::SPAM_FOUND);
        if left >= area / 10 {
            if found {
                self.init(owner, process::SPAM_FOUND, false);
            }
            return false;
        }
        let (mut buffers, mut bytes) = (0_u64, 0_u64);
        let mut next = self.get(owner, process::BUFFERS);
        while let Some(id) = self.step(next) {
            let oneway = !self.get(id, buffer::IS_FREE) && self.get(id, buffer::IS_ASYNC);
            if oneway && self.get(id, buffer::SENDER) == sender {
                buffers = buffers.saturating_add(1);
                bytes = bytes.saturating_add(self.get(id, buffer::SIZE));
            }
            next = self.get(id, buffer::NEXT);
        }
        let suspect = !found && (buffers > 50 || bytes > area / 4);
        if suspect {
            // Not undone with the transaction, as in the kernel.
            self.init(owner, process::SPAM_FOUND, true);
        }
        suspect
    }

    /// The buffer in use that begins at `offset` of `owner`'s area.
    pub(crate) fn find_buffer(&self, owner: Id<Process>, offset: u64) -> Option<Id<Buffer>> {
        if !offset.is_multiple_of(8) || offset >= AREA_BYTES as u64 {
            return None;
        }
        let found = Id::new(self.word(start_word(owner, offset)))?;
        (self.get(found, buffer::PROCESS) == Some(owner) && !self.get(found, buffer::IS_FREE))
            .then_some(found)
    }

    /// Gives a buffer back to its area and merges it with free neighbours.
    pub(crate) fn free_buffer(&mut self, owner: Id<Process>, returned: Id<Buffer>) {
        let (offset, size) = (self.get(returned, buffer::OFFSET), self.get(returned, buffer::SIZE));
        if self.get(returned, buffer::CLEAR) {
            self.region().clear_area(owner.index(), offset, size);
        }
        if self.get(returned, buffer::IS_ASYNC) {
            let free = self.get(owner, process::ASYNC_FREE).saturating_add(size);
            self.set(owner, process::ASYNC_FREE, free);
        }
        self.set_word(start_word(owner, offset), 0);
        let mut whole = returned;
        if let Some(next) = self.get(returned, buffer::NEXT).filter(|&next| self.get(next, buffer::IS_FREE)) {
            self.remove_free(owner, next);
            self.absorb(owner, whole, next);
        }
        if let Some(prev) = self.get(returned, buffer::PREV).filter(|&prev| self.get(prev, buffer::IS_FREE)) {
            self.remove_free(owner, prev);
            self.absorb(owner, prev, whole);
            whole = prev;
        }
        self.add_free(owner, whole);
    }

    /// Bytes of an area that no buffer uses.
    pub(crate) fn free_bytes(&self, owner: Id<Process>) -> u64 {
        let mut bytes = 0_u64;
        let mut next = self.get(owner, process::FREE);
        while let Some(free) = self.step(next) {
            bytes = bytes.saturating_add(self.get(free, buffer::SIZE));
            next = self.get(free, buffer::FREE_NEXT);
        }
        bytes
    }

    /// The position of a buffer's offsets, from the start of the area.
    pub(crate) fn offsets_at(&self, of: Id<Buffer>) -> u64 {
        self.get(of, buffer::OFFSET)
            .saturating_add(align8(self.get(of, buffer::DATA_SIZE)).unwrap_or(u64::MAX))
    }

    fn best_fit(&self, owner: Id<Process>, total: u64) -> Option<Id<Buffer>> {
        let mut best: Option<(u64, Id<Buffer>)> = None;
        let mut next = self.get(owner, process::FREE);
        while let Some(candidate) = self.step(next) {
            let size = self.get(candidate, buffer::SIZE);
            // Among equal sizes, the one freed first, as in the kernel (which may choose another
            // one of exactly this size).
            if size >= total && best.is_none_or(|(least, _)| size <= least) {
                best = Some((size, candidate));
            }
            next = self.get(candidate, buffer::FREE_NEXT);
        }
        best.map(|(_, id)| id)
    }

    /// Cuts `taken` down to `keep` bytes; the rest becomes a free buffer.
    fn split(&mut self, owner: Id<Process>, taken: Id<Buffer>, keep: u64) -> Result<(), Errno> {
        let rest = self.alloc::<Buffer>()?;
        let (offset, size) = (self.get(taken, buffer::OFFSET), self.get(taken, buffer::SIZE));
        let next = self.get(taken, buffer::NEXT);
        self.init(rest, buffer::PROCESS, Some(owner));
        self.init(rest, buffer::OFFSET, offset.saturating_add(keep));
        self.init(rest, buffer::SIZE, size.saturating_sub(keep));
        self.init(rest, buffer::NEXT, next);
        self.init(rest, buffer::PREV, Some(taken));
        if let Some(next) = next {
            self.set(next, buffer::PREV, Some(rest));
        }
        self.set(taken, buffer::NEXT, Some(rest));
        self.set(taken, buffer::SIZE, keep);
        self.add_free(owner, rest);
        Ok(())
    }

    /// Merges `second`, which follows `first`, into it.
    fn absorb(&mut self, owner: Id<Process>, first: Id<Buffer>, second: Id<Buffer>) {
        let size = self.get(first, buffer::SIZE).saturating_add(self.get(second, buffer::SIZE));
        self.set(first, buffer::SIZE, size);
        self.unlink(process::BUFFERS.of(owner), second, buffer::NEXT, buffer::PREV);
        self.free(second);
    }

    fn add_free(&mut self, owner: Id<Process>, id: Id<Buffer>) {
        self.set(id, buffer::IS_FREE, true);
        self.link_front(process::FREE.of(owner), id, buffer::FREE_NEXT, buffer::FREE_PREV);
    }

    fn remove_free(&mut self, owner: Id<Process>, id: Id<Buffer>) {
        self.set(id, buffer::IS_FREE, false);
        self.unlink(process::FREE.of(owner), id, buffer::FREE_NEXT, buffer::FREE_PREV);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Scratch;
    use crate::region::Region;

    const AREA: u64 = 64 << 10;

    /// How many oneway buffers of `bytes` bytes `sender` takes before it is suspected, at most
    /// `most`.
    fn until_suspected(guard: &mut Guard<'_>, sender: u32, bytes: u64, most: u32) -> Option<u32> {
        let owner = Id::<Process>::new(1).expect("a slot");
        (1..=most).find(|_| {
            let sizes = Sizes { data: bytes, offsets: 0, extra: 0 };
            let taken = guard.alloc_buffer(owner, sizes, Some(sender)).expect("room");
            guard.commit();
            guard.get(taken, buffer::SUSPECT)
        })
    }

    /// A process without threads, after a first sender has left a little more than a tenth of its
    /// area. Below a tenth, senders are checked.
    fn nearly_full(guard: &mut Guard<'_>) {
        guard.open_area(Id::new(1).expect("a slot"), AREA).expect("a buffer");
        assert_eq!(until_suspected(guard, 1, 1024, 25), None);
    }

    #[test]
    fn a_sender_is_suspected_at_its_51st_buffer_of_any_size() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        nearly_full(&mut guard);
        assert_eq!(until_suspected(&mut guard, 2, 16, 62), Some(51));
    }

    #[test]
    fn a_sender_of_little_is_not_suspected_because_of_another() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        nearly_full(&mut guard);
        assert_eq!(until_suspected(&mut guard, 2, 512, 8), None);
        assert_eq!(
            until_suspected(&mut guard, 1, 8, 1),
            Some(1),
            "this one has more than a quarter of the area"
        );
    }

    #[test]
    fn a_buffer_that_fills_a_free_range_leaves_no_range() {
        let region = Region::create().expect("memory");
        let mut scratch = Scratch::default();
        let mut guard = Guard::lock(&region, &mut scratch);
        let owner = Id::<Process>::new(1).expect("a slot");
        guard.open_area(owner, AREA).expect("a buffer");
        let sizes = |data| Sizes { data, offsets: 0, extra: 0 };
        let whole = guard.alloc_buffer(owner, sizes(AREA), None).expect("room");
        assert_eq!(guard.get(owner, process::FREE), None);
        assert_eq!(guard.get(whole, buffer::NEXT), None);
        assert_eq!(guard.alloc_buffer(owner, sizes(0), None), Err(Errno::NOSPC));
        assert_eq!(guard.find_buffer(owner, 0), Some(whole));
        guard.free_buffer(owner, whole);
        guard.commit();
        let parts: Vec<_> =
            (0..3).map(|_| guard.alloc_buffer(owner, sizes(17), None).expect("room")).collect();
        let offsets: Vec<_> = parts.iter().map(|&part| guard.get(part, buffer::OFFSET)).collect();
        assert_eq!(offsets, [0, 24, 48]);
        assert_eq!(guard.find_buffer(owner, 24), Some(parts[1]));
        assert_eq!(guard.find_buffer(owner, 28), None);
        assert_eq!(guard.find_buffer(owner, 72), None, "it is free");
        assert_eq!(guard.find_buffer(owner, AREA_BYTES as u64), None);
        assert_eq!(guard.find_buffer(Id::new(2).expect("a slot"), 24), None);
    }

    #[test]
    fn total_sizes_that_overflow_are_refused() {
        let total = |data, offsets, extra| Sizes { data, offsets, extra }.total();
        assert_eq!(total(0, 0, 0), Some(8));
        assert_eq!(total(1, 8, 9), Some(32));
        for sizes in [(u64::MAX, 0, 0), (0, u64::MAX, 0), (0, 0, u64::MAX), (u64::MAX - 7, 8, 0)] {
            assert_eq!(total(sizes.0, sizes.1, sizes.2), None, "{sizes:?}");
        }
    }
}
