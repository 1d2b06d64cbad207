//! Page-aligned memory for a payload. On some CPUs, the kernel's copy speed depends on the
//! payload's alignment, and an allocator does not guarantee any. Must not know what the payload
//! contains.

use std::ops::{Deref, DerefMut};

/// The smallest page size: string instructions depend on the lowest 12 bits of addresses.
const PAGE: usize = 4096;

/// A page-aligned buffer of fixed length. Growing would move it.
#[derive(Debug)]
pub(super) struct Paged {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Paged {
    /// Allocates zeroed memory and touches every page, so that timed calls take no page faults on
    /// it.
    pub(super) fn zeroed(len: usize) -> Self {
        let mut memory = vec![1; len + PAGE];
        memory.fill(0);
        let start = memory.as_ptr().align_offset(PAGE);
        Self { memory, start, len }
    }
}

impl Deref for Paged {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Paged {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_any_length_are_page_aligned() {
        for len in [1, 4, 4096, 65_536, 1_000_001] {
            let mut paged = Paged::zeroed(len);
            assert_eq!((paged.len(), paged.as_ptr().addr() % PAGE), (len, 0));
            paged.fill(7);
            assert!(paged.iter().all(|&byte| byte == 7));
        }
    }
}
