//! [`ReadableMemory`]: the memory that a driver may read during an exchange. Commands refer to it
//! by address. This file does not know its contents.

use crate::RawBytes;

/// The memory that the commands of one exchange may refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadableMemory<'a> {
    /// The caller's own memory, for data, offsets and scatter-gather buffers.
    pub own: &'a [&'a [u8]],
    /// Memory that other processes may change, such as received data that is passed on. It may be
    /// used for scatter-gather buffers and for data without objects, which a driver copies without
    /// interpreting it.
    pub raw: &'a [RawBytes<'a>],
}

impl<'a> ReadableMemory<'a> {
    /// Allows only the caller's own memory.
    #[must_use]
    #[inline]
    pub fn own(own: &'a [&'a [u8]]) -> Self {
        Self { own, raw: &[] }
    }

    /// The `length` bytes at `address` in the caller's own memory; `None` if they are not
    /// completely inside one slice.
    #[must_use]
    #[inline]
    pub fn slice(&self, address: u64, length: u64) -> Option<&'a [u8]> {
        if length == 0 {
            return Some(&[]);
        }
        self.own.iter().find_map(|slice| {
            let at = usize::try_from(address.checked_sub(slice.as_ptr().addr() as u64)?).ok()?;
            slice.get(at..at.checked_add(usize::try_from(length).ok()?)?)
        })
    }

    /// The `length` bytes at `address`; `None` if they are not completely inside one slice of
    /// either kind.
    #[must_use]
    #[inline]
    pub fn bytes(&self, address: u64, length: u64) -> Option<RawBytes<'a>> {
        let raw = || self.raw.iter().find_map(|raw| raw.part_at(address, length));
        self.slice(address, length).map(RawBytes::from).or_else(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_address_if_it_is_inside_one_slice() {
        // The slices have gaps of 8 bytes between them.
        let all: Vec<u8> = (0..64).collect();
        let (one, other, foreign) = (&all[..16], &all[24..40], &all[48..]);
        let (own, raw) = ([one, other], [RawBytes::from(foreign)]);
        let memory = ReadableMemory { own: &own, raw: &raw };
        let at = |bytes: &[u8]| bytes.as_ptr().addr() as u64;
        assert_eq!(memory.slice(at(other) + 4, 12), Some(&other[4..]));
        assert_eq!(memory.slice(at(foreign), 1), None, "others may change it");
        assert_eq!(memory.bytes(at(foreign) + 1, 15).map(RawBytes::to_vec), Some(foreign[1..].to_vec()));
        assert_eq!(memory.bytes(at(one), 16).map(RawBytes::to_vec), Some(one.to_vec()));
        for (address, length) in [(at(foreign), 17), (at(foreign) - 1, 1), (8, 1), (at(one), u64::MAX)] {
            assert!(memory.bytes(address, length).is_none(), "{length} bytes at {address:#x}");
        }
        assert_eq!((memory.slice(8, 0), memory.bytes(8, 0).map(RawBytes::len)), (Some(&[][..]), Some(0)));
    }
}
