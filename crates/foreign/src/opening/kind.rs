//! What a file is, by its first bytes.

use super::Form;
use super::chain::Layer;
use crate::{perfetto, trace_dat};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Recording(Form),
    Packed(Layer),
    /// A zlib stream that begins at this byte, as `atrace -z` writes it after some text.
    Zlib {
        at: u64,
    },
    Zip,
    /// Other bytes, which are not text.
    Other,
}

/// What a file is whose first bytes and length these are.
pub(super) fn of(head: &[u8], length: u64) -> Kind {
    if trace_dat::is(head) {
        return Kind::Recording(Form::TraceCmd);
    }
    match head {
        [0x1f, 0x8b, 8, ..] => return Kind::Packed(Layer::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => return Kind::Packed(Layer::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            return Kind::Packed(Layer::Zstd);
        }
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => return Kind::Zip,
        _ => {}
    }
    if let Some(little) = utf16(head) {
        return Kind::Packed(Layer::Utf16 { little });
    }
    if let Some(at) = zlib(head) {
        return Kind::Zlib { at: at as u64 };
    }
    if perfetto::is(head) || begins_with_long_packet(head, length) {
        return Kind::Recording(Form::Perfetto);
    }
    if head.contains(&0) { Kind::Other } else { Kind::Recording(Form::Text) }
}

/// Whether the bytes are a Perfetto trace whose first packet is longer than the bytes.
fn begins_with_long_packet(head: &[u8], length: u64) -> bool {
    let [0x0a, rest @ ..] = head else { return false };
    let mut packet = 0u64;
    for (place, byte) in rest.iter().take(5).enumerate() {
        packet |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return packet > head.len() as u64 && packet <= length && head.contains(&0);
        }
    }
    false
}

/// Whether the bytes are UTF-16 text, and then whether the lower byte comes first. Text that
/// begins without a byte order mark has a zero in every other byte.
fn utf16(head: &[u8]) -> Option<bool> {
    match head {
        [0xff, 0xfe, ..] => return Some(true),
        [0xfe, 0xff, ..] => return Some(false),
        _ => {}
    }
    let units = head.get(..32)?.as_chunks::<2>().0;
    let all = |is: fn(&[u8; 2]) -> bool| units.iter().all(is);
    if all(|unit| unit[1] == 0 && unit[0] >= 9) {
        return Some(true);
    }
    all(|unit| unit[0] == 0 && unit[1] >= 9).then_some(false)
}

/// Where a zlib stream begins: at the start, or after atrace's line `TRACE:`.
fn zlib(head: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b"TRACE:";
    let first = &head[..head.len().min(4096)];
    let mut at = 0;
    if let Some(mark) = first.windows(MARK.len()).position(|window| window == MARK) {
        let after = &first[mark + MARK.len()..];
        let returns = after.iter().take_while(|&&byte| byte == b'\r').count();
        if after.get(returns) == Some(&b'\n') {
            at = mark + MARK.len() + returns + 1;
        }
    }
    // The zlib header (RFC 1950): deflate, a window of 32 kB, and check bits over both bytes.
    let packed = matches!(head[at..], [0x78, flags, ..] if (0x7800 + u32::from(flags)).is_multiple_of(31));
    packed.then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_text_of_atrace_begins_after_its_mark_with_any_line_end() {
        for end in ["\n", "\r\n", "\r\r\n"] {
            let head = [b"capturing trace... done", end.as_bytes(), b"TRACE:", end.as_bytes(), b"\x78\x9c\n"];
            assert_eq!(zlib(&head.concat()), Some(29 + 2 * end.len()), "{end:?}");
        }
        assert_eq!(zlib(b"TRACE:\n# tracer: nop\n"), None);
        assert_eq!(zlib(b"\x78\x9c"), Some(0));
    }

    #[test]
    fn text_in_utf16_is_told_without_a_mark_too() {
        let text = "# tracer: nop\r\n#\r\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!((utf16(&little), utf16(&big), utf16(text.as_bytes())), (Some(true), Some(false), None));
        assert_eq!(utf16(&[0; 64]), None);
    }

    #[test]
    fn a_first_packet_longer_than_what_is_looked_at_is_a_packet() {
        let head = [&[0x0a, 0xff, 0x7f][..], &[8; 100], &[0; 100]].concat();
        assert_eq!(of(&head, 20_000), Kind::Recording(Form::Perfetto));
        assert_eq!(of(&head, 10_000), Kind::Other);
        assert_eq!(of(b"\n# tracer: nop\n", 15), Kind::Recording(Form::Text));
    }
}
