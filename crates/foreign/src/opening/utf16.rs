//! Reads UTF-16 as UTF-8. PowerShell's `>` writes UTF-16.

use std::io::{self, BufRead, Read};

const BYTE_ORDER_MARK: u16 = 0xfeff;

/// A reader that gives UTF-8. What is no character becomes U+FFFD.
pub(super) struct Utf16<R> {
    inner: R,
    little: bool,
    /// Units that were read and not decoded yet: at most one, the first half of a character.
    units: Vec<u16>,
    /// The first byte of a unit.
    byte: Option<u8>,
    text: io::Cursor<String>,
}

impl<R: BufRead> Utf16<R> {
    pub(super) fn new(inner: R, little: bool) -> Self {
        Self { inner, little, units: Vec::new(), byte: None, text: io::Cursor::default() }
    }

    /// Decodes the bytes that are there. Returns whether there were any.
    fn decode(&mut self) -> io::Result<bool> {
        let bytes = self.inner.fill_buf()?;
        let length = bytes.len();
        for &second in bytes {
            match self.byte.take() {
                None => self.byte = Some(second),
                Some(first) if self.little => self.units.push(u16::from_le_bytes([first, second])),
                Some(first) => self.units.push(u16::from_be_bytes([first, second])),
            }
        }
        self.inner.consume(length);
        let half = self.units.pop_if(|unit| length > 0 && (0xd800..0xdc00).contains(unit));
        let units = self.units.drain(..).filter(|&unit| unit != BYTE_ORDER_MARK);
        let text = char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER));
        self.text = io::Cursor::new(text.collect());
        self.units.extend(half);
        Ok(length > 0)
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            if !self.decode()? && self.text.get_ref().is_empty() {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], little: bool, at_once: usize) -> String {
        let mut text = String::new();
        let bytes = io::BufReader::with_capacity(at_once, bytes);
        Utf16::new(bytes, little).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn both_byte_orders_are_read_however_the_bytes_arrive() {
        let text = "# tracer: nop\r\nä𝄞-12";
        for at_once in 1..9 {
            let units = || [BYTE_ORDER_MARK].into_iter().chain(text.encode_utf16());
            let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
            assert_eq!((&*decoded(&little, true, at_once), &*decoded(&big, false, at_once)), (text, text));
        }
    }

    #[test]
    fn what_is_no_character_is_replaced() {
        assert_eq!(decoded(&[0x00, 0xdc, b'a', 0, 0x00, 0xd8], true, 64), "\u{fffd}a\u{fffd}");
    }
}
