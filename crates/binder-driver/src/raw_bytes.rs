#![allow(unsafe_code)]
//! [`RawBytes`]: bytes that other processes may change while they are read. This file does not know
//! what the bytes mean.
//!
//! Unsafe: no Rust reference may cover such memory, so this type uses a pointer. Volatile loads
//! read numbers, and one copy reads longer parts. The compiler therefore reads each byte once, and
//! never reads a value again after a check.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::copy;

/// Readable memory of lifetime `'a` that others may write to at any time, usually part of a
/// driver's receive area. The only way to use the bytes is to copy them out.
///
/// Two reads of the same byte may differ. Read a value once, and use the value that was checked.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    start: *const u8,
    length: usize,
    lifetime: PhantomData<&'a [u8]>,
}

/// An unaligned number. A load is still one instruction.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned<T>(T);

impl<'a> RawBytes<'a> {
    /// Makes a value for the `length` bytes from `start`.
    ///
    /// # Safety
    /// They must be readable, initialised memory of one allocation for the lifetime `'a`. Others
    /// may write to it: other processes, the kernel, and threads of this process through other
    /// mappings.
    #[must_use]
    pub unsafe fn new(start: *const u8, length: usize) -> Self {
        Self { start, length, lifetime: PhantomData }
    }

    /// No bytes.
    #[must_use]
    #[inline]
    pub fn empty() -> Self {
        Self::from(&[][..])
    }

    /// The number of bytes.
    #[must_use]
    #[inline]
    pub fn len(self) -> usize {
        self.length
    }

    /// Returns true if there are no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The address of the first byte in this process, for commands.
    #[must_use]
    #[inline]
    pub fn address(self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// The `length` bytes from offset `at`; `None` if they are not completely inside.
    #[must_use]
    #[inline]
    pub fn part(self, at: usize, length: usize) -> Option<Self> {
        if length > self.length || at > self.length - length {
            return None;
        }
        // SAFETY: `at` is within these bytes, or at their end.
        let start = unsafe { self.start.add(at) };
        Some(Self { start, length, lifetime: PhantomData })
    }

    /// The bytes from offset `at` to the end; `None` if `at` is beyond the end.
    #[must_use]
    #[inline]
    pub fn rest(self, at: usize) -> Option<Self> {
        self.part(at, self.length.checked_sub(at)?)
    }

    /// The `length` bytes at an address in this process; `None` if they are not completely inside.
    #[must_use]
    #[inline]
    pub fn part_at(self, address: u64, length: u64) -> Option<Self> {
        let at = address.wrapping_sub(self.start.addr() as u64);
        self.part(usize::try_from(at).ok()?, usize::try_from(length).ok()?)
    }

    /// Copies `N` bytes from offset `at`, and reads each once. `None` if they are not completely
    /// inside.
    #[must_use]
    #[inline]
    pub fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        let part = self.part(at, N)?;
        let mut array = [0; N];
        let mut done = 0;
        while done + 8 <= N {
            // SAFETY: these 8 bytes are among the `N` of `part`, and need no alignment.
            let word = unsafe { part.load::<u64>(done) };
            array[done..done + 8].copy_from_slice(&word.to_ne_bytes());
            done += 8;
        }
        if done + 4 <= N {
            // SAFETY: as above.
            let word = unsafe { part.load::<u32>(done) };
            array[done..done + 4].copy_from_slice(&word.to_ne_bytes());
            done += 4;
        }
        while done < N {
            // SAFETY: as above.
            array[done] = unsafe { part.load::<u8>(done) };
            done += 1;
        }
        Some(array)
    }

    /// The byte at offset `at`; `None` beyond the end.
    #[must_use]
    #[inline]
    pub fn byte(self, at: usize) -> Option<u8> {
        // SAFETY: `at` is inside.
        (at < self.length).then(|| unsafe { self.load::<u8>(at) })
    }

    /// Loads a `T` from offset `at`.
    ///
    /// # Safety
    /// The `T` must be completely inside, and every bit pattern must be a valid `T`.
    #[inline(always)]
    unsafe fn load<T: Copy>(self, at: usize) -> T {
        // SAFETY: the caller upholds this function's contract; `Unaligned` has an alignment of 1.
        unsafe { self.start.add(at).cast::<Unaligned<T>>().read_volatile().0 }
    }

    /// Appends a copy to `to`.
    #[inline]
    pub fn append_to(self, to: &mut Vec<u8>) {
        // SAFETY: these bytes are readable.
        unsafe { copy::append_raw(to, self.start, self.length) }
        // The compiler must not read the source again instead of the copy.
        compiler_fence(Ordering::SeqCst);
    }

    /// Copies all bytes to the start of `to`. Returns false and copies nothing if `to` is too
    /// short.
    #[must_use]
    #[inline]
    pub fn copy_to(self, to: &mut [u8]) -> bool {
        let Some(to) = to.get_mut(..self.length) else { return false };
        // SAFETY: these bytes are readable; `to` is as long, writable and exclusively borrowed.
        unsafe { copy::raw(self.start, to.as_mut_ptr(), to.len()) }
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Copies all bytes to `to`.
    ///
    /// # Safety
    /// `to` must be writable for as many bytes, and no Rust reference may cover them.
    #[inline]
    pub unsafe fn copy_to_raw(self, to: *mut u8) {
        // SAFETY: these bytes are readable; the caller upholds this function's contract for `to`.
        unsafe { copy::raw(self.start, to, self.length) }
    }

    /// Returns a copy of all bytes.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    /// Returns true if these bytes equal `other`. Reads each byte once.
    // The loops have no early exit: that takes fewer instructions than a branch after each word.
    #[must_use]
    #[inline]
    pub fn is(self, other: &[u8]) -> bool {
        if self.length != other.len() {
            return false;
        }
        let (words, rest) = other.as_chunks::<8>();
        let mut differences = 0;
        for (index, word) in words.iter().enumerate() {
            // SAFETY: both have the same length, so these 8 bytes are inside.
            differences |= unsafe { self.load::<u64>(index * 8) } ^ u64::from_ne_bytes(*word);
        }
        for (index, byte) in rest.iter().enumerate() {
            // SAFETY: as above.
            let own = unsafe { self.load::<u8>(words.len() * 8 + index) };
            differences |= u64::from(own ^ byte);
        }
        differences == 0
    }
}

impl<'a> From<&'a [u8]> for RawBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { start: bytes.as_ptr(), length: bytes.len(), lifetime: PhantomData }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for RawBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl<'a> From<&'a Vec<u8>> for RawBytes<'a> {
    #[inline]
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::from(&bytes[..])
    }
}

impl Default for RawBytes<'_> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: AsRef<[u8]>> PartialEq<T> for RawBytes<'_> {
    fn eq(&self, other: &T) -> bool {
        self.is(other.as_ref())
    }
}

/// Shows the bytes as they are at the time of the call.
impl fmt::Debug for RawBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_vec().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered() -> Vec<u8> {
        (0..200).collect()
    }

    #[test]
    fn copies_from_any_offset_equal_the_memory() {
        let bytes = numbered();
        let raw = RawBytes::from(&bytes);
        for at in 0..24 {
            assert_eq!(raw.array::<4>(at).as_ref(), bytes[at..].first_chunk());
            assert_eq!(raw.array::<8>(at).as_ref(), bytes[at..].first_chunk());
            assert_eq!(raw.array::<15>(at).as_ref(), bytes[at..].first_chunk());
            assert_eq!(raw.array::<40>(at).as_ref(), bytes[at..].first_chunk());
            assert_eq!(raw.byte(at), bytes.get(at).copied());
            assert_eq!(raw.rest(at).expect("there").to_vec(), bytes[at..]);
        }
    }

    #[test]
    fn reads_outside_are_refused() {
        let bytes = numbered();
        let raw = RawBytes::from(&bytes[10..110]);
        assert!(raw.part(0, 100).is_some() && raw.part(100, 0).is_some());
        for (at, length) in [(0, 101), (1, 100), (101, 0), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(raw.part(at, length).is_none(), "{length} bytes from {at}");
        }
        assert!(raw.array::<8>(93).is_none() && raw.array::<8>(usize::MAX).is_none());
        assert!(raw.byte(100).is_none() && raw.rest(101).is_none());
        let address = raw.address();
        assert_eq!(raw.part_at(address + 5, 3).expect("there"), [15, 16, 17]);
        for (address, length) in [(address - 1, 1), (address, 101), (u64::MAX, 2), (0, u64::MAX)] {
            assert!(raw.part_at(address, length).is_none(), "{length} bytes at {address}");
        }
    }

    #[test]
    fn a_difference_is_found_at_any_position() {
        let bytes = numbered();
        for length in [0, 1, 7, 8, 9, 63, 64, 99] {
            let raw = RawBytes::from(&bytes[..length]);
            assert!(raw.is(&bytes[..length]) && !raw.is(&bytes[..length + 1]));
            for at in 0..length {
                let mut other = bytes[..length].to_vec();
                other[at] ^= 0x80;
                assert!(!raw.is(&other), "{at} of {length}");
            }
        }
    }

    #[test]
    fn a_copy_needs_enough_room() {
        let bytes = numbered();
        let raw = RawBytes::from(&bytes[..100]);
        let mut room = [0; 101];
        assert!(raw.copy_to(&mut room) && !raw.copy_to(&mut room[..99]));
        assert_eq!((&room[..100], room[100]), (&bytes[..100], 0));
        let mut all = b"before".to_vec();
        raw.append_to(&mut all);
        assert_eq!(all[6..], bytes[..100]);
    }

    #[test]
    fn a_copy_does_not_change_with_the_memory() {
        let mut memory = [0_u8; 64];
        let start = memory.as_mut_ptr();
        // SAFETY: the array lives until the end of this test.
        let raw = unsafe { RawBytes::new(start, 64) };
        let before: [u8; 16] = raw.array(8).expect("there");
        let copy = raw.to_vec();
        for at in 0..64 {
            // SAFETY: inside the array, to which no reference exists at this moment.
            unsafe { start.add(at).write_volatile(0xff) };
        }
        assert_eq!((before, copy), ([0; 16], vec![0; 64]));
        assert_eq!(raw.to_vec(), [0xff; 64]);
    }
}
