//! A cursor over the file's bytes. Checks every length.

/// Bytes and the current position.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

/// A value, or a sentence that says what is damaged and where.
pub(super) type Found<T> = Result<T, String>;

impl<'a> Bytes<'a> {
    pub(super) fn new(all: &'a [u8], at: usize) -> Self {
        Self { all, at }
    }

    /// A cursor over the same file at another position.
    pub(super) fn at(&self, offset: u64) -> Found<Self> {
        let at = usize::try_from(offset).ok().filter(|&at| at <= self.all.len());
        let at =
            at.ok_or_else(|| format!("it points to byte {offset}, but ends at byte {}", self.all.len()))?;
        Ok(Self { all: self.all, at })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.all.len()
    }

    pub(super) fn take(&mut self, length: u64) -> Found<&'a [u8]> {
        let rest = &self.all[self.at..];
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let taken = taken.ok_or_else(|| {
            format!("at byte {}: expected {length} more bytes, found {}", self.at, rest.len())
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    /// Takes up to `length` bytes. Also returns whether the file contains all of them.
    pub(super) fn take_what_is_there(&mut self, length: u64) -> (&'a [u8], bool) {
        let rest = &self.all[self.at..];
        let there = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
        self.at += there;
        (&rest[..there], there as u64 == length)
    }

    fn number<const N: usize>(&mut self) -> Found<[u8; N]> {
        let bytes = self.take(N as u64)?;
        bytes.try_into().map_err(|_| "a number is cut off".to_owned())
    }

    pub(super) fn u8(&mut self) -> Found<u8> {
        self.number::<1>().map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Found<u16> {
        self.number().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Found<u32> {
        self.number().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Found<u64> {
        self.number().map(u64::from_le_bytes)
    }

    /// A zero-terminated string.
    pub(super) fn text(&mut self) -> Found<String> {
        let rest = &self.all[self.at..];
        let end = rest.iter().take(4096).position(|&byte| byte == 0);
        let end = end.ok_or_else(|| format!("at byte {}: a string has no end", self.at))?;
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    /// A string that follows its length of 32 or 64 bits.
    pub(super) fn long_text(&mut self, wide: bool) -> Found<String> {
        let length = if wide { self.u64()? } else { u64::from(self.u32()?) };
        self.take(length).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}
