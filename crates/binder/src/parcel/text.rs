//! Bytes looked at without a branch for each: every call carries its interface's name.
//!
//! The loop here runs to its end, which lets the compiler work on many bytes at once.

/// True when there is a NUL in `text`.
pub(super) fn has_nul(text: &str) -> bool {
    text.bytes().fold(false, |any, byte| any | (byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_wherever_it_is() {
        assert!(!has_nul("") && !has_nul("abc"));
        assert!(has_nul("\0abc") && has_nul("a\0bc") && has_nul("abc\0"));
    }
}
