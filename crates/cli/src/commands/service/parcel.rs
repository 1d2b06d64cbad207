//! A parcel's bytes in the format of Android's `service call` (`Parcel::print` and `hexDump` of
//! libbinder): 32-bit words, and the bytes as characters. Must not know about drivers.

use std::fmt::Write as _;

const BYTES_IN_LINE: usize = 16;

/// The bytes, followed by a line break.
pub(super) fn dump(bytes: &[u8]) -> String {
    let mut text = String::from("Parcel(");
    if bytes.is_empty() {
        return text + "NULL)\n";
    }
    let one_line = bytes.len() <= BYTES_IN_LINE;
    for (index, line) in bytes.chunks(BYTES_IN_LINE).enumerate() {
        if !one_line {
            let _ = write!(text, "\n  0x{:08x}: ", index * BYTES_IN_LINE);
        }
        let mut words = String::new();
        for word in line.chunks(4) {
            // A word is shown as a number in this machine's (little-endian) byte order, so its last
            // byte comes first.
            word.iter().rev().for_each(|byte| {
                let _ = write!(words, "{byte:02x}");
            });
            words.push(' ');
        }
        let width = if one_line { words.len() } else { BYTES_IN_LINE / 4 * 9 };
        let shown = |byte: &u8| if (b' '..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let characters: String = line.iter().map(shown).collect();
        let _ = write!(text, "{words:width$}'{characters}'");
    }
    text + ")\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_parcels_are_one_line_and_long_ones_have_addresses() {
        assert_eq!(dump(&[]), "Parcel(NULL)\n");
        assert_eq!(dump(&[0, 0, 0, 0, 5, 0, 0, 0]), "Parcel(00000000 00000005 '........')\n");
        let long: Vec<u8> = (0x3f..0x53).collect();
        assert_eq!(
            dump(&long),
            "Parcel(\n  0x00000000: 4241403f 46454443 4a494847 4e4d4c4b '?@ABCDEFGHIJKLMN'\n  \
             0x00000010: 5251504f                            'OPQR')\n"
        );
    }
}
