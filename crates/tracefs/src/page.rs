//! Splits a ring-buffer page from the kernel (`per_cpu/cpuN/trace_pipe_raw`) into its records,
//! without copying. Knows no events: a record here is a time and bytes. The layout is that of the
//! kernel's `kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h`, which is the same from
//! Linux 2.6.30 to 6.18.
//!
//! Reading a page ends at the first impossible value: what came before is good, what follows is
//! [`Damaged`].

use std::ops::Range;

use crate::formats::PageLayout;

/// Bytes that no kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// A page with its header parsed.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// When its first record was written, in nanoseconds.
    pub(crate) time_ns: u64,
    /// Whether events before this page were lost, and how many if the kernel has counted.
    pub(crate) lost: Option<Option<u64>>,
    /// Where its records are, from its first byte on.
    data: Range<usize>,
    /// Whether the page is incomplete because the file was truncated.
    cut: bool,
}

/// The commit word's flags (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`), and the mask of its length.
const LOST: u32 = 1 << 31;
const LOST_COUNTED: u32 = 1 << 30;
const LENGTH: u32 = (1 << 27) - 1;

/// The commit word's length and flags, if it is valid. The upper half of a 64-bit word is all zeros
/// or all ones, because the kernel adds its flags as negative 32-bit numbers.
fn length(layout: PageLayout, commit: u64) -> Option<(usize, u32)> {
    let (high, low) = ((commit >> 32) as u32, commit as u32);
    let length = (low & LENGTH) as usize;
    let sensible =
        (high == 0 || (high == u32::MAX && low & LOST != 0)) && low & !(LENGTH | LOST | LOST_COUNTED) == 0;
    (sensible && length <= layout.size - layout.data_at).then_some((length, low & !LENGTH))
}

impl Page {
    /// Parses a page's header. `bytes` is one page, or less if the recording was truncated.
    pub(crate) fn parse(layout: PageLayout, bytes: &[u8]) -> Result<Self, Damaged> {
        let time_ns = word64(bytes, layout.time_at).ok_or(Damaged)?;
        let commit = commit(layout, bytes).ok_or(Damaged)?;
        let (length, flags) = length(layout, commit).ok_or(Damaged)?;
        // The kernel only returns pages with contents and a time. Zeros are a hole in the file.
        if time_ns == 0 && commit == 0 {
            return Err(Damaged);
        }
        let area = bytes.get(layout.data_at..).ok_or(Damaged)?;
        let data = layout.data_at..layout.data_at + length.min(area.len());
        let cut = bytes.len() < layout.size;
        let lost = (flags & LOST != 0).then(|| {
            // The count is a `long` of the kernel, like the commit word.
            let counted =
                flags & LOST_COUNTED != 0 && length + layout.commit_size <= layout.size - layout.data_at;
            if !counted {
                return None;
            }
            if layout.commit_size == 8 { word64(area, length) } else { word32(area, length).map(u64::from) }
        });
        Ok(Self { time_ns, lost, data, cut })
    }

    /// The page's records, in the order of writing.
    pub(crate) fn records(&self) -> Records {
        Records { data: self.data.clone(), at: 0, time_ns: self.time_ns, cut: self.cut }
    }
}

/// Whether a page is valid only as big-endian.
pub(crate) fn looks_big_endian(layout: PageLayout, bytes: &[u8]) -> bool {
    let Some(little) = commit(layout, bytes) else { return false };
    let big = if layout.commit_size == 8 { little.swap_bytes() } else { little.swap_bytes() >> 32 };
    little != 0 && length(layout, little).is_none() && length(layout, big).is_some()
}

/// A record: an event's bytes, starting with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) time_ns: u64,
    pub(crate) data: &'a [u8],
}

/// The reading position in the records of a page. Ends after an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// Where the records are in the page.
    data: Range<usize>,
    /// The place of the next one in them.
    at: usize,
    time_ns: u64,
    cut: bool,
}

/// A record's time, and where in its page it is.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) time_ns: u64,
    pub(crate) at: Range<usize>,
}

/// Values of `type_len` that are not a length (`enum ring_buffer_type`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The top bits of a time, which an absolute timestamp cannot hold (`TS_MSB`).
const TOP_BITS: u64 = 0xf8 << 56;

impl Records {
    /// The next record of the page with these bytes; `None` at its end.
    #[inline]
    pub(crate) fn next(&mut self, page: &[u8]) -> Option<Result<Found, Damaged>> {
        let data = page.get(self.data.clone()).unwrap_or_default();
        loop {
            if self.at >= data.len() {
                return std::mem::take(&mut self.cut).then_some(Err(Damaged));
            }
            match self.step(data) {
                Ok(Step::Record(record)) => return Some(Ok(record)),
                Ok(Step::Time) => {}
                Ok(Step::End) => {
                    // Padding marks the end of the data. So a page that is truncated after it is
                    // damaged.
                    let cut = std::mem::take(&mut self.cut);
                    self.end();
                    return cut.then_some(Err(Damaged));
                }
                Err(Damaged) => {
                    self.end();
                    return Some(Err(Damaged));
                }
            }
        }
    }

    fn end(&mut self) {
        self.at = self.data.len();
        self.cut = false;
    }

    /// Reads one entry. Always advances by at least its header.
    #[inline]
    fn step(&mut self, data: &[u8]) -> Result<Step, Damaged> {
        let header = word32(data, self.at).ok_or(Damaged)?;
        let (kind, delta) = (header & 0x1f, u64::from(header >> 5));
        let word = || word32(data, self.at + 4).ok_or(Damaged);
        match kind {
            TIME_EXTEND => {
                self.time_ns = self.time_ns.checked_add(delta + (u64::from(word()?) << 27)).ok_or(Damaged)?;
                self.at += 8;
                Ok(Step::Time)
            }
            TIME_STAMP => {
                let time_ns = (delta + (u64::from(word()?) << 27)) | (self.time_ns & TOP_BITS);
                // The stored bits overflow every 18 years. A smaller step back comes from the
                // clock.
                let overflowed = self.time_ns.checked_sub(time_ns).is_some_and(|back| back > 1 << 58);
                self.time_ns =
                    if overflowed { time_ns.checked_add(1 << 59).ok_or(Damaged)? } else { time_ns };
                self.at += 8;
                Ok(Step::Time)
            }
            // The end of a page that has no room for another event: at most two words are left, the
            // size of the smallest event.
            PADDING if delta == 0 => {
                if data.len() - self.at <= 8 {
                    Ok(Step::End)
                } else {
                    Err(Damaged)
                }
            }
            PADDING => {
                // A discarded event. Its delta still counts, because the next event's time is
                // relative to it.
                let length = word()? as usize;
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                self.take(data, 4, length)?;
                Ok(Step::Time)
            }
            0 => {
                // The length includes its own word.
                let length = word()?.checked_sub(4).ok_or(Damaged)? as usize;
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                let at = self.take(data, 8, length)?;
                Ok(Step::Record(Found { time_ns: self.time_ns, at }))
            }
            words => {
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                let at = self.take(data, 4, words as usize * 4)?;
                Ok(Step::Record(Found { time_ns: self.time_ns, at }))
            }
        }
    }

    /// Takes `length` bytes after a header of `header` bytes, and advances to the next entry, which
    /// is 4-byte aligned.
    #[inline]
    fn take(&mut self, data: &[u8], header: usize, length: usize) -> Result<Range<usize>, Damaged> {
        let begin = self.at + header;
        // The length has 32 bits, so it cannot overflow a 64-bit size. On a 32-bit machine it can.
        let end = begin.checked_add(length).ok_or(Damaged)?;
        if end > data.len() || begin >= end {
            return Err(Damaged);
        }
        self.at = end.checked_next_multiple_of(4).ok_or(Damaged)?;
        Ok(self.data.start + begin..self.data.start + end)
    }
}

enum Step {
    Record(Found),
    Time,
    End,
}

fn commit(layout: PageLayout, bytes: &[u8]) -> Option<u64> {
    if layout.commit_size == 8 {
        word64(bytes, layout.commit_at)
    } else {
        word32(bytes, layout.commit_at).map(u64::from)
    }
}

#[inline]
fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
