//! [`Out`]: the room that a read writes its returns to.

use roundtrip_binder_driver::uapi::payload_size;

/// The read side's room.
pub(super) struct Out<'r> {
    pub(super) room: &'r mut [u8],
    pub(super) used: usize,
}

impl Out<'_> {
    pub(super) fn left(&self) -> usize {
        self.room.len().saturating_sub(self.used)
    }

    pub(super) fn put(&mut self, word: u32, payload: &[u8]) {
        debug_assert_eq!(payload_size(word), payload.len());
        self.append(&word.to_ne_bytes());
        self.append(payload);
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        let end = self.used.saturating_add(bytes.len());
        if let Some(room) = self.room.get_mut(self.used..end) {
            room.copy_from_slice(bytes);
            self.used = end;
        }
    }

    pub(super) fn replace_first(&mut self, word: u32) {
        if let Some(first) = self.room.first_chunk_mut() {
            *first = word.to_ne_bytes();
        }
    }
}
