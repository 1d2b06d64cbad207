//! The wire format of Protocol Buffers, as far as a writer needs it: numbers, texts and nested
//! messages, appended to one buffer. Fields are typed, so the compiler rejects a number that is
//! written as text. Must not know what the fields mean. Source: protobuf.dev, "Encoding".

/// An integer field (`int32`, `int64`, an enum). The format encodes negative numbers in ten bytes.
#[derive(Clone, Copy, Debug)]
pub struct Int(
    /// The number.
    pub u32,
);

/// An unsigned or boolean field (`uint32`, `uint64`, `bool`).
#[derive(Clone, Copy, Debug)]
pub struct Uint(
    /// The number.
    pub u32,
);

/// A `fixed64` field.
#[derive(Clone, Copy, Debug)]
pub struct Fixed64(
    /// The number.
    pub u32,
);

/// A `string` or `bytes` field.
#[derive(Clone, Copy, Debug)]
pub struct Text(
    /// The number.
    pub u32,
);

/// A field that contains a message.
#[derive(Clone, Copy, Debug)]
pub struct Nested(
    /// The number.
    pub u32,
);

const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH: u32 = 2;

/// A message being written.
#[derive(Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// An integer.
    pub fn int(&mut self, field: Int, value: impl Into<i64>) -> &mut Self {
        self.tag(field.0, VARINT);
        self.varint(value.into().cast_unsigned());
        self
    }

    /// An unsigned integer.
    pub fn uint(&mut self, field: Uint, value: impl Into<u64>) -> &mut Self {
        self.tag(field.0, VARINT);
        self.varint(value.into());
        self
    }

    /// An integer of eight bytes.
    pub fn fixed64(&mut self, field: Fixed64, value: u64) -> &mut Self {
        self.tag(field.0, EIGHT_BYTES);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A text.
    pub fn text(&mut self, field: Text, value: &str) -> &mut Self {
        self.tag(field.0, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    /// A nested message, which the closure writes in place.
    pub fn nested(&mut self, field: Nested, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.tag(field.0, LENGTH);
        // Most messages are short, so one byte is reserved for the length. If the length needs more
        // bytes, the content is moved.
        let at = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let (length, size) = encode((self.bytes.len() - at - 1) as u64);
        self.bytes.splice(at..=at, length[..size].iter().copied());
        self
    }

    /// Appends fields that were encoded elsewhere.
    pub fn append(&mut self, fields: &Self) -> &mut Self {
        self.bytes.extend_from_slice(&fields.bytes);
        self
    }

    /// What was written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the message, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    fn tag(&mut self, number: u32, wire_type: u32) {
        self.varint(u64::from(number << 3 | wire_type));
    }

    fn varint(&mut self, value: u64) {
        let (bytes, size) = encode(value);
        self.bytes.extend_from_slice(&bytes[..size]);
    }
}

/// Seven bits per byte, low bits first; all but the last byte have the top bit set.
fn encode(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut size = 0;
    loop {
        bytes[size] = (value & 0x7f) as u8;
        value >>= 7;
        size += 1;
        if value == 0 {
            return (bytes, size);
        }
        bytes[size - 1] |= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fill: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut message = Message::default();
        fill(&mut message);
        message.bytes().to_vec()
    }

    #[test]
    fn numbers_and_texts_are_encoded_as_the_format_says() {
        // The examples in the format's documentation.
        assert_eq!(written(|m| _ = m.uint(Uint(1), 150u32)), [0x08, 0x96, 0x01]);
        assert_eq!(written(|m| _ = m.text(Text(2), "testing")), *b"\x12\x07testing");
        assert_eq!(
            written(|m| _ = m.int(Int(1), -2)),
            [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]
        );
        assert_eq!(written(|m| _ = m.uint(Uint(491), u64::MAX)).len(), 2 + 10);
        assert_eq!(written(|m| _ = m.fixed64(Fixed64(1), 2)), [0x09, 2, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_nested_message_of_any_length_begins_with_its_length() {
        let inside = |text: &str| written(|m| _ = m.nested(Nested(3), |m| _ = m.text(Text(1), text)));
        assert_eq!(inside("ab"), *b"\x1a\x04\x0a\x02ab");
        for length in [125, 126, 127, 128, 20_000] {
            let text = "x".repeat(length);
            let inner = written(|m| _ = m.text(Text(1), &text));
            let mut expected = vec![0x1a];
            let (prefix, size) = encode(inner.len() as u64);
            expected.extend(&prefix[..size]);
            expected.extend(inner);
            assert_eq!(inside(&text), expected, "{length}");
        }
    }
}
