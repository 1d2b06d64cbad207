//! Checks text without a branch for each byte. Speed matters because every call contains the name
//! of its interface.
//!
//! The loop has no early exit, so the compiler can vectorise it.

/// Returns true if `text` contains a NUL.
pub(super) fn has_nul(text: &str) -> bool {
    text.bytes().fold(false, |any, byte| any | (byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_at_any_position() {
        assert!(!has_nul("") && !has_nul("abc"));
        assert!(has_nul("\0abc") && has_nul("a\0bc") && has_nul("abc\0"));
    }
}
