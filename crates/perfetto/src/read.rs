//! The protobuf wire format (protobuf.dev/programming-guides/encoding): splits a message into its
//! fields. Knows no message types and never recurses, so nesting is bounded by the caller.

/// What is wrong with bytes that are not a whole message.
pub const TRUNCATED: &str = "it is truncated, or not a protobuf message";

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer of any kind. A negative one has 64 bits.
    Number(u64),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// A message's fields, in order. Ends after an error.
#[derive(Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Message<'a> {
    /// The fields of a message in these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The offset of the next field.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..usize::try_from(length).ok()?)?;
        self.at += taken.len();
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|&number| number != 0)?;
        let fixed = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(fixed(self.take(8)?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Number(fixed(self.take(4)?)),
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = Result<(u32, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.at = self.bytes.len();
        }
        Some(field.ok_or_else(|| TRUNCATED.to_owned()))
    }
}

/// The numbers of a packed field, one after the other. Ends after an incomplete one, which is an
/// error.
pub fn packed(bytes: &[u8]) -> impl Iterator<Item = Result<u64, String>> + '_ {
    let mut message = Message::new(bytes);
    std::iter::from_fn(move || {
        if message.at >= bytes.len() {
            return None;
        }
        let number = message.varint();
        if number.is_none() {
            message.at = bytes.len();
        }
        Some(number.ok_or_else(|| "a packed field is truncated".to_owned()))
    })
}

/// How many numbers a packed field has, if it is whole.
#[must_use]
pub fn packed_length(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte < 0x80).count()
}

/// A small message's fields by number. Of repeated fields, only the first counts.
#[derive(Debug)]
pub struct Fields<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Fields<'a> {
    /// Reads the first 64 fields of a message.
    ///
    /// # Errors
    /// If one of them is incomplete.
    pub fn read(bytes: &'a [u8]) -> Result<Self, String> {
        Message::new(bytes).take(64).collect::<Result<_, _>>().map(Self)
    }

    /// A field of any kind.
    #[must_use]
    pub fn value(&self, number: u32) -> Option<Value<'a>> {
        self.0.iter().find(|(found, _)| *found == number).map(|(_, value)| *value)
    }

    /// An integer field.
    #[must_use]
    pub fn number(&self, number: u32) -> Option<u64> {
        match self.value(number)? {
            Value::Number(value) => Some(value),
            Value::Bytes(_) => None,
        }
    }

    /// A 32-bit integer field.
    #[expect(clippy::cast_possible_truncation, reason = "a 32-bit field; a negative one is sent as 64 bits")]
    #[must_use]
    pub fn u32(&self, number: u32) -> Option<u32> {
        self.number(number).map(|value| value as u32)
    }

    /// A string field; `None` if it is missing or is not UTF-8.
    #[must_use]
    pub fn text(&self, number: u32) -> Option<&'a str> {
        match self.value(number)? {
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::Number(_) => None,
        }
    }
}
