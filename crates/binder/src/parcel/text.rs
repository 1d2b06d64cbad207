//! Text as it travels, written and compared without a branch for each character: every call carries an interface's name.
//!
//! The loops here run to their ends, which lets the compiler work on many bytes at once; comparing slices would call
//! `memcmp`, which in the C library that devices' binaries are built with looks at one byte after the other.

/// How many UTF-16 units `text` has.
pub(super) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// Appends `text` as UTF-16, little-endian.
pub(super) fn append_utf16(data: &mut Vec<u8>, text: &str) {
    if !text.is_ascii() {
        data.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        return;
    }
    let start = data.len();
    data.resize(start + 2 * text.len(), 0);
    for (unit, byte) in data[start..].chunks_exact_mut(2).zip(text.bytes()) {
        unit.copy_from_slice(&[byte, 0]);
    }
}

/// True when `units` is `text` as UTF-16, little-endian.
pub(super) fn is_utf16(units: &[u8], text: &str) -> bool {
    let received = units.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    if !text.is_ascii() {
        return received.eq(text.encode_utf16());
    }
    let differences = received.zip(text.bytes()).fold(0, |all, (unit, byte)| all | unit ^ u16::from(byte));
    units.len() == 2 * text.len() && differences == 0
}

/// True when `bytes` is `text` and a NUL.
pub(super) fn is_c_string(bytes: &[u8], text: &str) -> bool {
    let [bytes @ .., 0] = bytes else { return false };
    let differences = bytes.iter().zip(text.bytes()).fold(0, |all, (received, byte)| all | received ^ byte);
    bytes.len() == text.len() && differences == 0
}

/// True when there is a NUL in `text`.
pub(super) fn has_nul(text: &str) -> bool {
    text.bytes().fold(false, |any, byte| any | (byte == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 7] = ["", "a", "android.os.IServiceManager", "é", "Ã©", "日本", "🤖 and a b"];

    #[test]
    fn text_is_itself_as_utf_16_and_no_other() {
        for text in TEXTS {
            let mut data = vec![7];
            append_utf16(&mut data, text);
            let expected: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(data[1..], expected, "{text}");
            assert_eq!(units(text), expected.len() / 2, "{text}");
            for other in TEXTS {
                assert_eq!(is_utf16(&data[1..], other), text == other, "{text}, {other}");
            }
            assert!(!is_utf16(&data[..data.len() - 1], text) || text.is_empty(), "{text}");
        }
    }

    #[test]
    fn text_is_itself_as_c_string_and_no_other() {
        for text in TEXTS {
            let data = [text.as_bytes(), &[0]].concat();
            for other in TEXTS {
                assert_eq!(is_c_string(&data, other), text == other, "{text}, {other}");
            }
            assert!(!is_c_string(text.as_bytes(), text), "{text}");
        }
    }

    #[test]
    fn a_nul_is_found_wherever_it_is() {
        assert!(!has_nul("") && !has_nul("abc"));
        assert!(has_nul("\0abc") && has_nul("a\0bc") && has_nul("abc\0"));
    }
}
