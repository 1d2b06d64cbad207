//! A trace's packets, one at a time, so that memory does not grow with the file. A trace is a
//! message whose field 1 is a packet. Must not know what is in a packet.

use std::io::{self, BufRead, Read as _};

const PACKET: u64 = 1;

/// What comes next in a trace.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// A packet, and the offset of its field.
    Packet { at: u64, bytes: &'a [u8] },
    /// Bytes that are no field, or a field that is cut off.
    Damaged { at: u64 },
    /// Nothing.
    End,
}

/// A reader of packets.
pub(super) struct Packets<'a> {
    reader: Box<dyn BufRead + 'a>,
    at: u64,
    packet: Vec<u8>,
}

impl<'a> Packets<'a> {
    pub(super) fn new(reader: Box<dyn BufRead + 'a>) -> Self {
        Self { reader, at: 0, packet: Vec::new() }
    }

    /// The next packet; other fields are skipped.
    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        loop {
            let at = self.at;
            if self.reader.fill_buf()?.is_empty() {
                return Ok(Next::End);
            }
            match self.field()? {
                None => return Ok(Next::Damaged { at }),
                Some(true) => return Ok(Next::Packet { at, bytes: &self.packet }),
                Some(false) => {}
            }
        }
    }

    /// Reads a field: whether it is a packet, or `None` if it is damaged.
    fn field(&mut self) -> io::Result<Option<bool>> {
        let Some(key) = self.varint()? else { return Ok(None) };
        let valid = u32::try_from(key >> 3).is_ok_and(|number| number != 0);
        let length = match key & 7 {
            _ if !valid => return Ok(None),
            0 => return Ok(self.varint()?.map(|_| false)),
            1 => 8,
            2 => match self.varint()? {
                Some(length) => length,
                None => return Ok(None),
            },
            5 => 4,
            _ => return Ok(None),
        };
        let is_packet = key == PACKET << 3 | 2;
        let mut part = self.reader.by_ref().take(length);
        let read = if is_packet {
            self.packet.clear();
            part.read_to_end(&mut self.packet)? as u64
        } else {
            io::copy(&mut part, &mut io::sink())?
        };
        self.at += read;
        Ok((read == length).then_some(is_packet))
    }

    fn varint(&mut self) -> io::Result<Option<u64>> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            if self.reader.read(&mut byte)? == 0 {
                return Ok(None);
            }
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use roundtrip_perfetto::read::{Message, Value};

    use super::*;

    /// The packets, and where the trace is damaged.
    fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let mut packets = Packets::new(Box::new(io::BufReader::with_capacity(3, bytes)));
        let mut all = Vec::new();
        loop {
            match packets.next().unwrap() {
                Next::Packet { at, bytes } => all.push((at, bytes.to_vec())),
                Next::Damaged { at } => return (all, Some(at)),
                Next::End => return (all, None),
            }
        }
    }

    /// The same, of bytes that are all in memory.
    fn known(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<u64>) {
        let mut message = Message::new(bytes);
        let mut all = Vec::new();
        loop {
            let at = message.at() as u64;
            match message.next() {
                Some(Ok((1, Value::Bytes(packet)))) => all.push((at, packet.to_vec())),
                Some(Ok(_)) => {}
                Some(Err(_)) => return (all, Some(at)),
                None => return (all, None),
            }
        }
    }

    #[test]
    fn packets_are_those_of_the_whole_message_wherever_it_ends_or_is_damaged() {
        let whole = [
            &b"\x0a\x03abc"[..],
            b"\x0a\x00",
            b"\x10\x96\x01",
            b"\x1a\x02xy",
            b"\x25abcd\x21abcdefgh",
            b"\x08\x05",
            b"\x0a\x04last",
        ]
        .concat();
        assert_eq!(read(&whole).0.len(), 3);
        assert_eq!(read(&whole).1, None);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), known(&whole[..end]), "{end}");
            for byte in [0x00, 0x0f, 0xff, 0x7f] {
                let mut damaged = whole.clone();
                damaged[end] = byte;
                assert_eq!(read(&damaged), known(&damaged), "{byte} at {end}");
            }
        }
    }
}
