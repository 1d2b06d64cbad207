//! [`Lent`]: the memory that a caller lends to a driver, which commands name by address. Must not
//! know what is read there.

use crate::RawBytes;

/// Memory that the commands of one call may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lent<'a> {
    /// The caller's own, for data, offsets and scatter-gather buffers.
    pub own: &'a [&'a [u8]],
    /// What others may change, as received data that is passed on: for scatter-gather buffers, and
    /// for data without objects. Drivers copy it and look at none of it.
    pub raw: &'a [RawBytes<'a>],
}

impl<'a> Lent<'a> {
    /// Only memory of the caller's own.
    #[must_use]
    #[inline]
    pub fn own(own: &'a [&'a [u8]]) -> Self {
        Self { own, raw: &[] }
    }

    /// The caller's own memory at `address`, if it lies wholly in one of the slices.
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

    /// The memory at `address`, whoever may change it, if it lies wholly in one piece.
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
    fn memory_is_found_by_address_and_only_as_a_whole() {
        // Gaps of 8 bytes lie between them.
        let all: Vec<u8> = (0..64).collect();
        let (one, other, foreign) = (&all[..16], &all[24..40], &all[48..]);
        let (own, raw) = ([one, other], [RawBytes::from(foreign)]);
        let lent = Lent { own: &own, raw: &raw };
        let at = |bytes: &[u8]| bytes.as_ptr().addr() as u64;
        assert_eq!(lent.slice(at(other) + 4, 12), Some(&other[4..]));
        assert_eq!(lent.slice(at(foreign), 1), None, "others may change it");
        assert_eq!(lent.bytes(at(foreign) + 1, 15).map(RawBytes::to_vec), Some(foreign[1..].to_vec()));
        assert_eq!(lent.bytes(at(one), 16).map(RawBytes::to_vec), Some(one.to_vec()));
        for (address, length) in [(at(foreign), 17), (at(foreign) - 1, 1), (8, 1), (at(one), u64::MAX)] {
            assert!(lent.bytes(address, length).is_none(), "{length} bytes at {address:#x}");
        }
        assert_eq!((lent.slice(8, 0), lent.bytes(8, 0).map(RawBytes::len)), (Some(&[][..]), Some(0)));
    }
}
