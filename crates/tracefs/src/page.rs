//! Ring-buffer pages as the kernel hands them out (`per_cpu/cpuN/trace_pipe_raw`): one page into
//! its records, without copying. Knows no event: a record here is a time and bytes. The layout is
//! that of the kernel's `kernel/trace/ring_buffer.c` and `include/linux/ring_buffer.h`, the same
//! from Linux 2.6.30 to 6.18.
//!
//! A page that says something impossible ends there: what came before is good, what follows is
//! [`Damaged`].

use crate::formats::PageLayout;

/// Bytes that no kernel writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// A page, its header read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    /// When its first record was written, in nanoseconds.
    pub(crate) time_ns: u64,
    /// Whether events before this page were lost, and how many if the kernel has counted.
    pub(crate) lost: Option<Option<u64>>,
    /// The records.
    data: &'a [u8],
    /// Whether this is not a whole page: the file was cut off.
    cut: bool,
}

/// The commit word's flags (`RB_MISSED_EVENTS`, `RB_MISSED_STORED`), and the bits that a length may
/// have.
const LOST: u32 = 1 << 31;
const LOST_COUNTED: u32 = 1 << 30;
const LENGTH: u32 = (1 << 27) - 1;

/// The commit word's length and flags, if it is one that a kernel writes. The upper half of a
/// 64-bit one is empty, or all ones: the kernel adds its flags as negative numbers of 32 bits.
fn length(layout: PageLayout, commit: u64) -> Option<(usize, u32)> {
    let (high, low) = ((commit >> 32) as u32, commit as u32);
    let length = (low & LENGTH) as usize;
    let sensible =
        (high == 0 || (high == u32::MAX && low & LOST != 0)) && low & !(LENGTH | LOST | LOST_COUNTED) == 0;
    (sensible && length <= layout.size - layout.data_at).then_some((length, low & !LENGTH))
}

impl<'a> Page<'a> {
    /// Reads a page's header. `bytes` is one page, or less where the recording was cut off.
    pub(crate) fn parse(layout: PageLayout, bytes: &'a [u8]) -> Result<Self, Damaged> {
        let time_ns = word64(bytes, layout.time_at).ok_or(Damaged)?;
        let commit = commit(layout, bytes).ok_or(Damaged)?;
        let (length, flags) = length(layout, commit).ok_or(Damaged)?;
        // A page is handed out only with something in it, and at a time: zeros are a hole in the
        // file.
        if time_ns == 0 && commit == 0 {
            return Err(Damaged);
        }
        let area = bytes.get(layout.data_at..).ok_or(Damaged)?;
        let data = area.get(..length).unwrap_or(area);
        let cut = bytes.len() < layout.size;
        let lost = (flags & LOST != 0).then(|| {
            // The count is the kernel's `long`, like the commit word.
            let counted =
                flags & LOST_COUNTED != 0 && length + layout.commit_size <= layout.size - layout.data_at;
            if !counted {
                return None;
            }
            if layout.commit_size == 8 { word64(area, length) } else { word32(area, length).map(u64::from) }
        });
        Ok(Self { time_ns, lost, data, cut })
    }

    /// The page's records, in the order in which they were written.
    pub(crate) fn records(&self) -> Records<'a> {
        Records { data: self.data, at: 0, time_ns: self.time_ns, cut: self.cut }
    }

    /// A page without records.
    pub(crate) fn empty() -> Self {
        Self { time_ns: 0, lost: None, data: &[], cut: false }
    }
}

/// Whether a page makes sense only if its words begin with their highest byte.
pub(crate) fn looks_big_endian(layout: PageLayout, bytes: &[u8]) -> bool {
    let Some(little) = commit(layout, bytes) else { return false };
    let big = if layout.commit_size == 8 { little.swap_bytes() } else { little.swap_bytes() >> 32 };
    little != 0 && length(layout, little).is_none() && length(layout, big).is_some()
}

/// A record: an event's bytes, beginning with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) time_ns: u64,
    pub(crate) data: &'a [u8],
}

/// The records of a page. After an error there is nothing more.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a> {
    data: &'a [u8],
    at: usize,
    time_ns: u64,
    cut: bool,
}

/// `type_len` values that are no data's length (`enum ring_buffer_type`).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The bits of a time that an absolute time stamp has no room for (`TS_MSB`).
const TOP_BITS: u64 = 0xf8 << 56;

impl<'a> Records<'a> {
    /// The next record; `None` at the page's end.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<Record<'a>, Damaged>> {
        loop {
            if self.at >= self.data.len() {
                return std::mem::take(&mut self.cut).then_some(Err(Damaged));
            }
            match self.step() {
                Ok(Step::Record(record)) => return Some(Ok(record)),
                Ok(Step::Time) => {}
                Ok(Step::End) => {
                    // Padding says that nothing follows; a page that is cut all the same is not as
                    // it was written.
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

    /// One entry. Always goes forward by at least its header.
    #[inline]
    fn step(&mut self) -> Result<Step<'a>, Damaged> {
        let header = word32(self.data, self.at).ok_or(Damaged)?;
        let (kind, delta) = (header & 0x1f, u64::from(header >> 5));
        let word = || word32(self.data, self.at + 4).ok_or(Damaged);
        match kind {
            TIME_EXTEND => {
                self.time_ns = self.time_ns.checked_add(delta + (u64::from(word()?) << 27)).ok_or(Damaged)?;
                self.at += 8;
                Ok(Step::Time)
            }
            TIME_STAMP => {
                let time_ns = (delta + (u64::from(word()?) << 27)) | (self.time_ns & TOP_BITS);
                // The bits that there is room for overflow every 18 years; any smaller step back is
                // the clock's.
                let overflowed = self.time_ns.checked_sub(time_ns).is_some_and(|back| back > 1 << 58);
                self.time_ns =
                    if overflowed { time_ns.checked_add(1 << 59).ok_or(Damaged)? } else { time_ns };
                self.at += 8;
                Ok(Step::Time)
            }
            // The end of a page that has no room for another event: at most the two words of the
            // smallest one.
            PADDING if delta == 0 => {
                if self.data.len() - self.at <= 8 {
                    Ok(Step::End)
                } else {
                    Err(Damaged)
                }
            }
            PADDING => {
                // A discarded event: its time has passed nevertheless, since the next one's delta
                // counts from it.
                let length = word()? as usize;
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                self.take(4, length)?;
                Ok(Step::Time)
            }
            0 => {
                // The length counts its own word.
                let length = word()?.checked_sub(4).ok_or(Damaged)? as usize;
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                let data = self.take(8, length)?;
                Ok(Step::Record(Record { time_ns: self.time_ns, data }))
            }
            words => {
                self.time_ns = self.time_ns.checked_add(delta).ok_or(Damaged)?;
                let data = self.take(4, words as usize * 4)?;
                Ok(Step::Record(Record { time_ns: self.time_ns, data }))
            }
        }
    }

    /// The `length` bytes behind a header of `header` bytes, and on to the next entry, which begins
    /// at a multiple of 4.
    #[inline]
    fn take(&mut self, header: usize, length: usize) -> Result<&'a [u8], Damaged> {
        let begin = self.at + header;
        // A length comes from 32 bits, and so cannot overflow a 64-bit size; on a 32-bit machine it
        // may.
        let end = begin.checked_add(length).ok_or(Damaged)?;
        let data = self.data.get(begin..end).filter(|data| !data.is_empty()).ok_or(Damaged)?;
        self.at = end.checked_next_multiple_of(4).ok_or(Damaged)?;
        Ok(data)
    }
}

enum Step<'a> {
    Record(Record<'a>),
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
