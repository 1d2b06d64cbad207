//! Bytes looked at without a branch for each: every call carries its interface's name, and checks it.
//!
//! The loops here run to their ends, which lets the compiler work on many bytes at once. Comparing slices would call
//! `memcmp`, which in the C library that devices' binaries are built with goes byte by byte.

/// True when both hold the same.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | one ^ other);
    one.len() == other.len() && differences == 0
}

/// True when there is a NUL in `text`.
pub(super) fn has_nul(text: &str) -> bool {
    text.bytes().fold(false, |any, byte| any | (byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_found_wherever_it_is() {
        let bytes: Vec<u8> = (0..=99).collect();
        assert!(same(&bytes, &bytes) && same(&[], &[]));
        assert!(!same(&bytes, &bytes[..99]) && !same(&bytes[..99], &bytes));
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x80;
            assert!(!same(&bytes, &other), "{at}");
        }
    }

    #[test]
    fn a_nul_is_found_wherever_it_is() {
        assert!(!has_nul("") && !has_nul("abc"));
        assert!(has_nul("\0abc") && has_nul("a\0bc") && has_nul("abc\0"));
    }
}
