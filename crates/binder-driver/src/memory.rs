//! The memory that a caller lends to a driver: commands name it by address. Must not know what is read there.

/// The part of the caller's memory at `address`, if it lies wholly in one of the slices that it gave.
pub fn lent<'m>(memory: &[&'m [u8]], address: u64, length: u64) -> Option<&'m [u8]> {
    if length == 0 {
        return Some(&[]);
    }
    memory.iter().find_map(|slice| {
        let at = usize::try_from(address.checked_sub(slice.as_ptr() as u64)?).ok()?;
        slice.get(at..at.checked_add(usize::try_from(length).ok()?)?)
    })
}
