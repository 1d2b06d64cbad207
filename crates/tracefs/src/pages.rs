//! One CPU's pages, in memory or read a few at a time, so that memory does not grow with the
//! recording. Must not know what is in a page.

use std::fmt;
use std::io::Read;
use std::ops::Range;

/// How many pages are read at once. A page and the two after it must be there at the same time.
const PAGES_AT_ONCE: usize = 32;
const AHEAD: usize = 2;

/// Where pages come from.
enum From<'a> {
    Memory(&'a [u8]),
    Reader {
        reader: Box<dyn Read + 'a>,
        /// The current page, and pages after it.
        window: Vec<u8>,
        ended: bool,
    },
}

/// Pages, and the current one.
pub(crate) struct Pages<'a> {
    from: From<'a>,
    size: usize,
    current: Range<usize>,
}

impl<'a> Pages<'a> {
    pub(crate) fn memory(size: usize, bytes: &'a [u8]) -> Self {
        Self { from: From::Memory(bytes), size, current: 0..0 }
    }

    pub(crate) fn reader(size: usize, reader: Box<dyn Read + 'a>) -> Self {
        let from = From::Reader { reader, window: Vec::new(), ended: false };
        Self { from, size, current: 0..0 }
    }

    fn bytes(&self) -> &[u8] {
        match &self.from {
            From::Memory(bytes) => bytes,
            From::Reader { window, .. } => window,
        }
    }

    /// The current page, which is shorter where the recording ends; empty before the first.
    #[inline]
    pub(crate) fn current(&self) -> &[u8] {
        self.bytes().get(self.current.clone()).unwrap_or_default()
    }

    /// Goes to the next page. `false` if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        self.fill();
        let from = self.current.end;
        let to = from.saturating_add(self.size).min(self.bytes().len());
        self.current = from..to;
        from < to
    }

    /// Whether there are pages, and all of them, or the first ones of a reader, are such.
    pub(crate) fn all_first(&mut self, is: impl Fn(&[u8]) -> bool) -> bool {
        self.fill();
        !self.bytes().is_empty() && self.bytes().chunks(self.size).all(is)
    }

    /// The two pages after the current one, as far as there are.
    pub(crate) fn following(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes().get(self.current.end..).unwrap_or_default().chunks(self.size).take(AHEAD)
    }

    /// Reads more pages if those after the next one are not there. A reader's failure is the end.
    fn fill(&mut self) {
        let From::Reader { reader, window, ended } = &mut self.from else { return };
        if *ended || window.len() - self.current.end >= (1 + AHEAD) * self.size {
            return;
        }
        window.drain(..self.current.end);
        self.current = 0..0;
        let wanted = PAGES_AT_ONCE * self.size;
        window.reserve_exact(wanted.saturating_sub(window.len()));
        let missing = wanted.saturating_sub(window.len()) as u64;
        *ended = reader.by_ref().take(missing).read_to_end(window).is_err() || window.len() < wanted;
    }
}

impl fmt::Debug for Pages<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Pages").field("size", &self.size).field("current", &self.current).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gives_the_same_pages_as_memory_and_keeps_few_of_them() {
        let bytes: Vec<u8> = (0..1003_u32).flat_map(u32::to_le_bytes).collect();
        let mut memory = Pages::memory(16, &bytes);
        let mut reader = Pages::reader(16, Box::new(&bytes[..]));
        let mut count = 0;
        while memory.advance() {
            assert!(reader.advance());
            assert_eq!(reader.current(), memory.current());
            assert_eq!(reader.following().collect::<Vec<_>>(), memory.following().collect::<Vec<_>>());
            let From::Reader { window, .. } = &reader.from else { unreachable!() };
            assert!(window.capacity() <= 2 * PAGES_AT_ONCE * 16, "{}", window.capacity());
            count += 1;
        }
        assert!(!reader.advance());
        assert_eq!((count, reader.current()), (251, &[][..]));
    }
}
